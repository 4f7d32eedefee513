package phases_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/slow"
	"github.com/parleymq/parley/phases"
)

// TestPoolClosed closes the broker under a pool: the task is given back, so
// that another process has it at once.
func TestPoolClosed(t *testing.T) {
	ctx := t.Context()
	b, cleanup := open()
	defer cleanup()
	plan, err := phases.Open(ctx, b, "s", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Submit(ctx, phases.Task{Type: "x"}); err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{})
	causes := make(chan error, 1)
	pool, err := phases.NewPool(b, phases.Handlers{"": func(ctx context.Context, t *phases.Running) error {
		close(begun)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	}}, &phases.PoolOptions{Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- pool.Run(ctx) }()
	<-begun
	if err := pool.Run(ctx); !errors.Is(err, parley.ErrWorking) {
		t.Errorf("a second Run: %v", err)
	}
	other, err := parley.Open(ctx, "sqlite:"+databaseOf(t, b), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	b.Close()
	if err := <-ended; !errors.Is(err, parley.ErrClosed) {
		t.Errorf("Run: %v", err)
	}
	if err := <-causes; !errors.Is(err, parley.ErrClosed) {
		t.Errorf("the handler's context ended by %v", err)
	}
	log, err := phases.Log(ctx, other, phases.Query{Plan: "s", Limit: 10})
	if err != nil || len(log) != 1 || log[0].State != phases.StateQueued || log[0].Attempts != 0 {
		t.Errorf("the log is %+v, %v", log, err)
	}
}

// TestPoolWithDeafHandlers: Run and Close return even if a handler ignores its context. Another
// pool gets the task at once, and the handler can commit nothing more.
func TestPoolWithDeafHandlers(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for handlers that do not end")
	}
	ctx := t.Context()
	for _, how := range []string{"stopped", "closed"} {
		b, cleanup := open()
		defer cleanup()
		other, err := parley.Open(ctx, "sqlite:"+databaseOf(t, b), nil)
		must(err)
		defer other.Close()
		plan, err := phases.Open(ctx, b, "s", nil)
		must(err)
		must(plan.Submit(ctx, phases.Task{Type: "opens"}, phases.Task{Type: "opens later"}))
		var begun sync.WaitGroup
		begun.Add(2)
		deaf, after := make(chan struct{}), make(chan error, 2)
		pool, err := phases.NewPool(b, phases.Handlers{
			"opens": func(_ context.Context, task *phases.Running) error {
				tx, err := task.Tx(ctx)
				begun.Done()
				<-deaf
				if err == nil {
					_, err = tx.SQL().ExecContext(ctx, "CREATE TABLE late (x integer)")
				}
				after <- err
				return nil
			},
			"opens later": func(_ context.Context, task *phases.Running) error {
				begun.Done()
				<-deaf
				_, err := task.Tx(ctx)
				after <- err
				return nil
			},
		}, &phases.PoolOptions{Lease: time.Hour})
		must(err)
		run, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- pool.Run(run) }()
		begun.Wait()
		start := time.Now()
		if how == "stopped" {
			stop()
		} else {
			must(b.Close())
		}
		<-ended
		if took := time.Since(start); took > slow.By(30*time.Second) {
			t.Errorf("%s: the pool ended after %v", how, took)
		}
		close(deaf)
		for range 2 {
			if err := <-after; err == nil {
				t.Errorf("%s: a handler that goes on could work in a transaction", how)
			}
		}
		again, err := phases.Find(ctx, other, "s")
		must(err)
		must(again.Run(ctx, phases.Handlers{"": func(context.Context, *phases.Running) error { return nil }}, nil))
		stop()
	}
}

// TestTasksWithoutHandler: what cannot be done is dead, and says why.
func TestTasksWithoutHandler(t *testing.T) {
	ctx := t.Context()
	b, cleanup := open()
	defer cleanup()
	plan, err := phases.Open(ctx, b, "s", &phases.Options{MaxAttempts: 5, Continue: true})
	if err != nil {
		t.Fatal(err)
	}
	err = plan.Submit(ctx, phases.Task{Type: "unhandled"}, phases.Task{Type: "panic"}, phases.Task{Phase: 1, Type: "ok"})
	if err != nil {
		t.Fatal(err)
	}
	err = plan.Run(ctx, phases.Handlers{
		"panic": func(context.Context, *phases.Running) error { panic("oh") },
		"ok":    func(context.Context, *phases.Running) error { return nil },
	}, &phases.PoolOptions{Backoff: func(int) time.Duration { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	log, err := plan.Log(ctx, parley.ID{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		state    phases.State
		attempts int
		says     string
	}{{phases.StateDead, 1, `there is no handler for tasks of type "unhandled"`}, {phases.StateDead, 5, "the handler panicked: oh"}, {phases.StateDone, 1, ""}} {
		says := log[i].Error
		if len(says) > len(want.says) {
			says = says[:len(want.says)]
		}
		if log[i].State != want.state || log[i].Attempts != want.attempts || says != want.says {
			t.Errorf("task %d is %s after %d attempts: %s", i, log[i].State, log[i].Attempts, log[i].Error)
		}
	}
}

// hole is an error whose method fails when it is nil.
type hole struct{ text string }

func (h *hole) Error() string { return h.text }

// TestTasksWithOddErrors: an error that cannot be asked for its text, one without a text,
// and a back-off that panics are failures like others.
func TestTasksWithOddErrors(t *testing.T) {
	ctx := t.Context()
	b, cleanup := open()
	defer cleanup()
	plan, err := phases.Open(ctx, b, "s", &phases.Options{MaxAttempts: 2, Continue: true})
	must(err)
	must(plan.Submit(ctx, phases.Task{Type: "hole"}, phases.Task{Type: "dead hole"}, phases.Task{Type: "empty"}, phases.Task{Type: "long"}))
	var none *hole
	must(plan.Run(ctx, phases.Handlers{
		"hole":      func(context.Context, *phases.Running) error { return none },
		"dead hole": func(context.Context, *phases.Running) error { return phases.Dead(none) },
		"empty":     func(context.Context, *phases.Running) error { return errors.New("") },
		"long": func(context.Context, *phases.Running) error {
			return errors.New(strings.Repeat("ж\x00\xff", 10000))
		},
	}, &phases.PoolOptions{Backoff: func(int) time.Duration { panic("no pause") }}))
	log, err := plan.Log(ctx, parley.ID{}, 10)
	must(err)
	for i, attempts := range []int{2, 1, 2, 2} {
		x := log[i]
		if x.State != phases.StateDead || x.Attempts != attempts || x.Error == "" || !utf8.ValidString(x.Error) || utf8.RuneCountInString(x.Error) > 8000 {
			t.Errorf("task %d is %s after %d attempts: %.100q, %d bytes", i, x.State, x.Attempts, x.Error, len(x.Error))
		}
	}
}

// TestOptions: what is out of range is refused before anything is done.
func TestOptions(t *testing.T) {
	ctx := t.Context()
	b, cleanup := open()
	defer cleanup()
	handlers := phases.Handlers{"": func(context.Context, *phases.Running) error { return nil }}
	for i, o := range []phases.PoolOptions{{Workers: -1}, {Workers: 1001}, {Lease: time.Millisecond}, {MaxDeaths: -1}} {
		if _, err := phases.NewPool(b, handlers, &o); !errors.Is(err, parley.ErrInvalidOption) {
			t.Errorf("options %d: %v", i, err)
		}
	}
	if _, err := phases.NewPool(b, nil, nil); !errors.Is(err, parley.ErrInvalidOption) {
		t.Errorf("no handlers: %v", err)
	}
	refused := []phases.Options{{MaxActive: -1}, {MaxAttempts: -1}}
	tooMany := int64(1 << 40)
	if strconv.IntSize == 64 {
		refused = append(refused, phases.Options{MaxActive: int(tooMany)})
	}
	for _, o := range refused {
		if _, err := phases.Open(ctx, b, "s", &o); !errors.Is(err, parley.ErrInvalidOption) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, name := range []string{"", "a\x00b", "\xff", string(make([]rune, 129))} {
		if _, err := phases.Open(ctx, b, name, nil); !errors.Is(err, parley.ErrInvalidName) {
			t.Errorf("name %.20q: %v", name, err)
		}
	}
	plan, err := phases.Open(ctx, b, "s", nil)
	if err != nil {
		t.Fatal(err)
	}
	bad := []phases.Task{{Type: "\xff"}, {Body: make([]byte, 65<<20)}}
	if strconv.IntSize == 64 {
		bad = append(bad, phases.Task{Phase: int(tooMany)})
	}
	for _, task := range bad {
		if err := plan.Submit(ctx, phases.Task{}, task); err == nil {
			t.Errorf("a task of phase %d, type %q, %d bytes was taken", task.Phase, task.Type, len(task.Body))
		}
	}
	if status, err := plan.Status(ctx); err != nil || len(status.Counts) != 0 {
		t.Errorf("the schedule has %v, %v", status.Counts, err)
	}
}

// TestTaskThatEndsItsGoroutine: a handler that calls runtime.Goexit has failed, what
// it wrote is undone, and the pool goes on with all its workers.
func TestTaskThatEndsItsGoroutine(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	b, cleanup := open()
	defer cleanup()
	plan, err := phases.Open(ctx, b, "s", &phases.Options{MaxAttempts: 2})
	must(err)
	for range 3 {
		must(plan.Submit(ctx, phases.Task{Type: "x"}))
	}
	pool, err := phases.NewPool(b, phases.Handlers{"": func(ctx context.Context, task *phases.Running) error {
		tx, err := task.Tx(ctx)
		if err != nil {
			return err
		}
		if _, err := tx.Post(ctx, "mail", parley.Payload{}); err != nil {
			return err
		}
		if task.Attempt == 1 {
			runtime.Goexit()
		}
		return nil
	}}, &phases.PoolOptions{Workers: 1, Backoff: func(int) time.Duration { return 0 }})
	must(err)
	work, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- pool.Run(work) }()
	for range 3 {
		if done, err := plan.Next(ctx); err != nil || done.State != phases.StateDone || done.Attempts != 2 {
			t.Fatalf("the task ended as %+v, %v", done, err)
		}
	}
	end()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Fatal("Run did not return")
	}
	if q, err := b.Admin().Queues(t.Context(), "mail"); err != nil || q[0].Depth != 3 {
		t.Errorf("%d posts were committed, %v", q[0].Depth, err)
	}
}

// TestWriteBesideOpenTransaction: on a store with a single writer, what is written
// outside a task's open transaction with its context fails at once.
func TestWriteBesideOpenTransaction(t *testing.T) {
	b, cleanup := open()
	defer cleanup()
	ctx, stop := context.WithCancel(t.Context())
	post := func(ctx context.Context) error {
		_, err := b.Post(ctx, "mail", parley.Payload{Body: []byte("x")})
		return err
	}
	plan, err := phases.Open(ctx, b, "s", nil)
	must(err)
	must(plan.Submit(ctx, phases.Task{Type: "x"}))
	pool, err := phases.NewPool(b, phases.Handlers{"": func(ctx context.Context, task *phases.Running) error {
		defer stop()
		must(post(ctx)) // nothing is open yet
		_, err := task.Tx(ctx)
		must(err)
		if err := post(ctx); !errors.Is(err, parley.ErrWouldDeadlock) {
			t.Errorf("a post with the context of the task: %v", err)
		}
		err = b.InTx(ctx, func(tx *parley.Tx) error {
			_, err := tx.Once(context.Background(), "key")
			return err
		})
		if !errors.Is(err, parley.ErrWouldDeadlock) {
			t.Errorf("InTx with the context of the task: %v", err)
		}
		return nil
	}}, nil)
	must(err)
	must(pool.Run(ctx))
}
