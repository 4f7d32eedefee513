package parley_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/parleymq/parley"
)

// TestTaskPoolClosed closes the broker under a pool: the task is given back, so
// that another process has it at once.
func TestTaskPoolClosed(t *testing.T) {
	ctx := t.Context()
	b, cleanup := shop()
	defer cleanup()
	s, err := b.OpenScheduler(ctx, "s", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Submit(ctx, parley.Task{Type: "x"}); err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{})
	causes := make(chan error, 1)
	pool, err := b.NewTaskPool(parley.TaskHandlers{"": func(ctx context.Context, t *parley.RunningTask) error {
		close(begun)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	}}, &parley.TaskPoolOptions{Lease: time.Hour})
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
	log, err := other.Admin().TaskLog(ctx, parley.TaskQuery{Schedule: "s", Limit: 10})
	if err != nil || len(log) != 1 || log[0].State != parley.TaskQueued || log[0].Attempts != 0 {
		t.Errorf("the log is %+v, %v", log, err)
	}
}

// TestTasksWithoutHandler: what cannot be done is dead, and says why.
func TestTasksWithoutHandler(t *testing.T) {
	ctx := t.Context()
	b, cleanup := shop()
	defer cleanup()
	s, err := b.OpenScheduler(ctx, "s", &parley.SchedulerOptions{MaxAttempts: 5, Continue: true})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Submit(ctx, parley.Task{Type: "nobody"}, parley.Task{Type: "panic"}, parley.Task{Phase: 1, Type: "ok"})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Run(ctx, parley.TaskHandlers{
		"panic": func(context.Context, *parley.RunningTask) error { panic("oh") },
		"ok":    func(context.Context, *parley.RunningTask) error { return nil },
	}, &parley.TaskPoolOptions{BackOff: func(int) time.Duration { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	log, err := s.Log(ctx, parley.ID{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		state    parley.TaskState
		attempts int
		says     string
	}{{parley.TaskDead, 1, `there is no handler for tasks of type "nobody"`}, {parley.TaskDead, 5, "the handler panicked: oh"}, {parley.TaskDone, 1, ""}} {
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
	b, cleanup := shop()
	defer cleanup()
	s, err := b.OpenScheduler(ctx, "s", &parley.SchedulerOptions{MaxAttempts: 2, Continue: true})
	must(err)
	must(s.Submit(ctx, parley.Task{Type: "hole"}, parley.Task{Type: "dead hole"}, parley.Task{Type: "empty"}, parley.Task{Type: "long"}))
	var none *hole
	must(s.Run(ctx, parley.TaskHandlers{
		"hole":      func(context.Context, *parley.RunningTask) error { return none },
		"dead hole": func(context.Context, *parley.RunningTask) error { return parley.DeadTask(none) },
		"empty":     func(context.Context, *parley.RunningTask) error { return errors.New("") },
		"long": func(context.Context, *parley.RunningTask) error {
			return errors.New(strings.Repeat("ж\x00\xff", 10000))
		},
	}, &parley.TaskPoolOptions{BackOff: func(int) time.Duration { panic("no pause") }}))
	log, err := s.Log(ctx, parley.ID{}, 10)
	must(err)
	for i, attempts := range []int{2, 1, 2, 2} {
		x := log[i]
		if x.State != parley.TaskDead || x.Attempts != attempts || x.Error == "" || !utf8.ValidString(x.Error) || utf8.RuneCountInString(x.Error) > 8000 {
			t.Errorf("task %d is %s after %d attempts: %.100q, %d bytes", i, x.State, x.Attempts, x.Error, len(x.Error))
		}
	}
}

// TestSchedulerOptions: what is out of range is refused before anything is done.
func TestSchedulerOptions(t *testing.T) {
	ctx := t.Context()
	b, cleanup := shop()
	defer cleanup()
	handlers := parley.TaskHandlers{"": func(context.Context, *parley.RunningTask) error { return nil }}
	for i, o := range []parley.TaskPoolOptions{{Workers: -1}, {Workers: 1001}, {Lease: time.Millisecond}, {MaxDeaths: -1}} {
		if _, err := b.NewTaskPool(handlers, &o); !errors.Is(err, parley.ErrInvalidOption) {
			t.Errorf("options %d: %v", i, err)
		}
	}
	if _, err := b.NewTaskPool(nil, nil); !errors.Is(err, parley.ErrInvalidOption) {
		t.Errorf("no handlers: %v", err)
	}
	refused := []parley.SchedulerOptions{{MaxActive: -1}, {MaxAttempts: -1}}
	tooMany := int64(1 << 40)
	if strconv.IntSize == 64 {
		refused = append(refused, parley.SchedulerOptions{MaxActive: int(tooMany)})
	}
	for _, o := range refused {
		if _, err := b.OpenScheduler(ctx, "s", &o); !errors.Is(err, parley.ErrInvalidOption) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, name := range []string{"", "a\x00b", "\xff", string(make([]rune, 129))} {
		if _, err := b.OpenScheduler(ctx, name, nil); !errors.Is(err, parley.ErrInvalidName) {
			t.Errorf("name %.20q: %v", name, err)
		}
	}
	s, err := b.OpenScheduler(ctx, "s", nil)
	if err != nil {
		t.Fatal(err)
	}
	bad := []parley.Task{{Type: "\xff"}, {Body: make([]byte, 65<<20)}}
	if strconv.IntSize == 64 {
		bad = append(bad, parley.Task{Phase: int(tooMany)})
	}
	for _, task := range bad {
		if err := s.Submit(ctx, parley.Task{}, task); err == nil {
			t.Errorf("a task of phase %d, type %q, %d bytes was taken", task.Phase, task.Type, len(task.Body))
		}
	}
	if status, err := s.Status(ctx); err != nil || len(status.Counts) != 0 {
		t.Errorf("the schedule has %v, %v", status.Counts, err)
	}
}

// databaseOf returns the file of a broker.
func databaseOf(t *testing.T, b *parley.Broker) string {
	t.Helper()
	info, err := b.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.Settings["file"]
}

// TestTaskThatEndsItsGoroutine: a handler that calls runtime.Goexit has failed, what
// it wrote is undone, and the pool goes on with all its workers.
func TestTaskThatEndsItsGoroutine(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	b, cleanup := shop()
	defer cleanup()
	s, err := b.OpenScheduler(ctx, "s", &parley.SchedulerOptions{MaxAttempts: 2})
	must(err)
	for range 3 {
		must(s.Submit(ctx, parley.Task{Type: "x"}))
	}
	pool, err := b.NewTaskPool(parley.TaskHandlers{"": func(ctx context.Context, task *parley.RunningTask) error {
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
	}}, &parley.TaskPoolOptions{Workers: 1, BackOff: func(int) time.Duration { return 0 }})
	must(err)
	work, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- pool.Run(work) }()
	for range 3 {
		if done, err := s.Next(ctx); err != nil || done.State != parley.TaskDone || done.Attempts != 2 {
			t.Fatalf("the task ended as %+v, %v", done, err)
		}
	}
	end()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Fatal("Run did not return")
	}
	if q, err := b.Admin().Queues(t.Context(), "mail"); err != nil || q[0].Depth != 3 {
		t.Errorf("%d posts were committed, %v", q[0].Depth, err)
	}
}
