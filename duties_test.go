package parley_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlite"
)

// unlucky fails a duty the first time.
type unlucky struct {
	backend.Backend
	duty  backend.Duty
	calls atomic.Int64
	again chan struct{}
}

func (u *unlucky) Tend(ctx context.Context, duty backend.Duty, limit int) (int, time.Duration, error) {
	if duty == u.duty {
		switch u.calls.Add(1) {
		case 1:
			return 0, 0, errors.New("a deadlock")
		case 2:
			close(u.again)
		}
	}
	return u.Backend.Tend(ctx, duty, limit)
}

// TestDutyAfterError: a duty that failed is done again soon, also one that is
// rarely done.
func TestDutyAfterError(t *testing.T) {
	be, err := sqlite.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "test.db"), nil)
	must(err)
	must(be.Migrate(t.Context()))
	u := &unlucky{Backend: be, duty: backend.DutyGroups, again: make(chan struct{})}
	b, err := parley.New(t.Context(), u, &parley.Options{Logger: slog.New(slog.DiscardHandler)})
	must(err)
	defer b.Close()
	select {
	case <-u.again:
	case <-time.After(20 * time.Second):
		t.Error("not within 20 s; it is done each minute when nothing fails")
	}
}

// busy has always more to do of the duty of delayed posts.
type busy struct {
	backend.Backend
	timers chan struct{}
	once   sync.Once
}

func (u *busy) Tend(ctx context.Context, duty backend.Duty, limit int) (int, time.Duration, error) {
	switch duty {
	case backend.DutyDelayed:
		return limit, 0, ctx.Err()
	case backend.DutyTimers:
		u.once.Do(func() { close(u.timers) })
	}
	return u.Backend.Tend(ctx, duty, limit)
}

// TestBusyDutyLeavesOthersTheirTurn: a backlog of one duty keeps no other from being
// done, nor a receiver that does what is due from looking for messages.
func TestBusyDutyLeavesOthersTheirTurn(t *testing.T) {
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
