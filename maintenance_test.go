package parley_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/memory"
	"github.com/parleymq/parley/backend/sqlite"
	"github.com/parleymq/parley/internal/slow"
)

// unlucky fails a maintenance job the first time.
type unlucky struct {
	backend.Backend
	job   backend.Job
	calls atomic.Int64
	again chan struct{}
}

func (u *unlucky) Maintain(ctx context.Context, job backend.Job, limit int) (backend.Maintained, error) {
	if job == u.job {
		switch u.calls.Add(1) {
		case 1:
			return backend.Maintained{}, errors.New("a deadlock")
		case 2:
			close(u.again)
		}
	}
	return u.Backend.Maintain(ctx, job, limit)
}

// TestJobAfterError: a failed maintenance job runs again soon, even if it rarely runs.
func TestJobAfterError(t *testing.T) {
	be, err := sqlite.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "test.db"), nil)
	must(err)
	must(be.Migrate(t.Context()))
	u := &unlucky{Backend: be, job: backend.JobGroups, again: make(chan struct{})}
	b, err := parley.New(t.Context(), u, &parley.Options{Logger: slog.New(slog.DiscardHandler)})
	must(err)
	defer b.Close()
	select {
	case <-u.again:
	case <-time.After(20 * time.Second):
		t.Error("not within 20 s; it is done each minute when nothing fails")
	}
}

// refusing does not let the program's role do maintenance jobs.
type refusing struct {
	backend.Backend
	calls chan struct{}
}

func (r *refusing) Maintain(_ context.Context, job backend.Job, _ int) (backend.Maintained, error) {
	if job == backend.JobDelayed {
		r.calls <- struct{}{}
	}
	return backend.Maintained{}, backend.ErrDenied
}

func (r *refusing) Withheld(context.Context, backend.ID, int) ([]backend.WithheldStream, error) {
	return nil, backend.ErrDenied
}

// TestDeniedJobIsLoggedOnce: the log is told once of each maintenance job that the program's role
// may not do, however often it falls due.
func TestDeniedJobIsLoggedOnce(t *testing.T) {
	be, err := sqlite.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "test.db"), nil)
	must(err)
	r := &refusing{be, make(chan struct{})}
	var log lines
	b, err := parley.New(t.Context(), r, &parley.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	must(err)
	defer b.Close()
	<-r.calls
	must(b.Migrate(t.Context()))
	must(b.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "q"}}}))
	for range 5 {
		_, err := b.Post(t.Context(), "q", parley.Payload{}, parley.After(time.Millisecond))
		must(err)
		<-r.calls // it has fallen due
	}
	go func() {
		for range r.calls {
		}
	}()
	must(b.Close())
	close(r.calls)
	if n := log.count("job=delayed"); n != 1 {
		t.Errorf("%d lines tell of a job that the role may not do, want one:\n%s", n, log.text())
	}
}

// counting counts looks at withheld messages.
type counting struct {
	backend.Backend
	looks atomic.Int64
}

func (c *counting) Withheld(ctx context.Context, after backend.ID, limit int) ([]backend.WithheldStream, error) {
	c.looks.Add(1)
	return c.Backend.Withheld(ctx, after, limit)
}

// TestStuckWithheldIsLookedAtEverLess: receivers that find nothing do not try again and
// again to deliver what cannot be delivered, and deliver it soon when it can be.
func TestStuckWithheldIsLookedAtEverLess(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	be, err := sqlite.Open(ctx, "sqlite:"+filepath.Join(t.TempDir(), "test.db"), nil)
	must(err)
	must(be.Migrate(ctx))
	c := &counting{Backend: be}
	b, err := parley.New(ctx, c, nil)
	must(err)
	defer b.Close()
	must(b.Define(ctx, parley.Catalog{
		Types:     []parley.MessageType{{Name: "m"}},
		Contracts: []parley.Contract{{Name: "c", Messages: []parley.ContractEntry{{Type: "m", SentBy: parley.ByInitiator}}}},
		Queues:    []parley.Queue{{Name: "from"}, {Name: "to"}, {Name: "other"}},
		Services:  []parley.Service{{Name: "From", Queue: "from"}, {Name: "To", Queue: "to", Contracts: []string{"c"}}},
	}))
	must(b.Admin().DisableQueue(ctx, "to"))
	must(b.InTx(ctx, func(tx *parley.Tx) error {
		conv, err := tx.Begin(ctx, "From", "To", &parley.DialogOptions{Contract: "c"})
		if err == nil {
			err = conv.Send(ctx, "m", nil)
		}
		return err
	}))
	c.looks.Store(0)
	var receivers sync.WaitGroup
	for range 4 {
		receivers.Go(func() {
			for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
				_, err := b.Receive(ctx, "other", &parley.ReceiveOptions{Wait: 10 * time.Millisecond})
				if !errors.Is(err, parley.ErrNoMessage) {
					t.Error(err)
				}
			}
		})
	}
	receivers.Wait()
	if n := c.looks.Load(); n == 0 || n > 15 {
		t.Errorf("%d looks within three seconds, want some and at most 15", n)
	}
	must(b.Admin().EnableQueue(ctx, "to"))
	d, err := b.Receive(ctx, "to", &parley.ReceiveOptions{Wait: 10 * time.Second})
	must(err)
	must(d.Ack(ctx))
}

// lines is a log.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) count(part string) int { return strings.Count(l.text(), part) }

// busy has always more to do of the maintenance job of delayed posts.
type busy struct {
	backend.Backend
	timers chan struct{}
	once   sync.Once
}

func (u *busy) Maintain(ctx context.Context, job backend.Job, limit int) (backend.Maintained, error) {
	switch job {
	case backend.JobDelayed:
		return backend.Maintained{Moved: limit}, ctx.Err()
	case backend.JobTimers:
		u.once.Do(func() { close(u.timers) })
	}
	return u.Backend.Maintain(ctx, job, limit)
}

// TestBusyJobLeavesOthersTheirTurn: a backlog of one maintenance job keeps no other from being
// done, nor a receiver that does what is due from looking for messages.
func TestBusyJobLeavesOthersTheirTurn(t *testing.T) {
	be, err := sqlite.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "test.db"), nil)
	must(err)
	must(be.Migrate(t.Context()))
	u := &busy{Backend: be, timers: make(chan struct{})}
	b, err := parley.New(t.Context(), u, &parley.Options{Logger: slog.New(slog.DiscardHandler)})
	must(err)
	defer b.Close()
	select {
	case <-u.timers:
	case <-time.After(20 * time.Second):
		t.Fatal("timers are not looked at while delayed posts are due")
	}
	must(b.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "q"}}}))
	_, err = b.Receive(t.Context(), "q", nil)
	if !errors.Is(err, parley.ErrNoMessage) {
		t.Errorf("receive: %v, want ErrNoMessage", err)
	}
}

// unreachable is a store whose transactions fail to roll back, for why.
type unreachable struct {
	backend.Backend
	why error
}

type unreachableTx struct {
	backend.Tx
	why error
}

func (u *unreachable) Begin(ctx context.Context) (backend.Tx, error) {
	tx, err := u.Backend.Begin(ctx)
	return unreachableTx{tx, u.why}, err
}

func (t unreachableTx) Rollback(ctx context.Context) error {
	return errors.Join(t.Tx.Rollback(ctx), t.why)
}

// TestLostConnectionsNeedNoRollback: the log tells of a rollback that failed, unless the connection
// was lost. When a worker stops, pgx closes the connection of a statement whose context ends.
func TestLostConnectionsNeedNoRollback(t *testing.T) {
	for why, want := range map[error]int{backend.ErrConnection: 0, backend.ErrDenied: 1} {
		be, err := backend.Open(t.Context(), "memory:")
		must(err)
		var log lines
		b, err := parley.New(t.Context(), &unreachable{be, why}, &parley.Options{
			NoMaintenance: true, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		must(err)
		must(b.Migrate(t.Context()))
		tx, err := b.Begin(t.Context())
		must(err)
		tx.Rollback(t.Context())
		must(b.Close())
		if n := log.count("rollback failed"); n != want {
			t.Errorf("after %v there are %d lines, want %d:\n%s", why, n, want, log.text())
		}
	}
}

// TestDueWakesItsQueue: what falls due wakes the receivers of its queue, and not those of other queues.
func TestDueWakesItsQueue(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store := memory.New(nil)
	definer, worker, waiting := store.Open(), store.Open(), store.Open()
	must(definer.Migrate(ctx))
	d, err := parley.New(ctx, definer, nil)
	must(err)
	must(d.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "busy"}, {Name: "idle"}}}))
	must(d.Close()) // by now it has announced the new catalog, which wakes all
	b, err := parley.New(ctx, worker, nil)
	must(err)
	defer b.Close()
	other, err := parley.New(ctx, waiting, &parley.Options{NoMaintenance: true})
	must(err)
	defer other.Close()
	ids := make(map[string]int64)
	queues, err := waiting.Queues(ctx, 0)
	must(err)
	for _, q := range queues {
		ids[q.Name] = q.ID
	}
	var idle <-chan struct{}
	for i := range 20 {
		busy, stop := other.Watch(ids["busy"])
		id, err := b.Post(ctx, "busy", parley.Payload{}, parley.After(time.Millisecond))
		must(err)
		slow.Eventually(t, 10*time.Second, "the post falls due", func() (any, bool) {
			st, err := waiting.PostStatus(ctx, ids["busy"], id)
			must(err)
			return st.State, st.State == "pending"
		})
		select {
		case <-busy:
		case <-time.After(slow.By(10 * time.Second)):
			t.Fatal("no receiver was woken for a post that fell due")
		}
		stop()
		if i == 0 { // by now it listens, which wakes all once
			idle, stop = other.Watch(ids["idle"])
			defer stop()
		}
	}
	select {
	case <-idle:
		t.Error("receivers of a queue were woken for posts that fell due in another")
	default:
	}
}

// TestBackendClosedFirst: if a program closes the backend before the Broker, the maintenance says so once, and ends.
func TestBackendClosedFirst(t *testing.T) {
	t.Parallel()
	be := memory.New(nil).Open()
	must(be.Migrate(t.Context()))
	var log lines
	b, err := parley.New(t.Context(), be, &parley.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	must(err)
	must(be.Close())
	slow.Eventually(t, 20*time.Second, "the log says that the backend is closed", func() (any, bool) {
		n := log.count("event=backend.closed")
		return n, n > 0
	})
	time.Sleep(3 * time.Second) // twice the time after which a job that failed is done again
	b.Close()
	if n := log.count("level="); n != 1 {
		t.Errorf("%d lines of the log, want one:\n%s", n, log.text())
	}
}
