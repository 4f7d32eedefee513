package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// turn is the right to be the store's writer. Goroutines that wait to send on a
// channel are served in their order.
type turn struct {
	taken  chan struct{} // has room for the writer
	limit  time.Duration // of a wait, and how long a writer may take without being logged
	holder atomic.Pointer[writer]
	log    *slog.Logger
}

// writer is a transaction that has the turn.
type writer struct {
	since time.Time
	begun atomic.Bool
	calls [32]uintptr // that led to it
	depth int
	long  *time.Timer
}

// take waits for the turn, at most for the limit.
func (t *turn) take(ctx context.Context) error {
	select {
	case t.taken <- struct{}{}:
	default:
		limit := time.NewTimer(t.limit)
		defer limit.Stop()
		select {
		case t.taken <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return sqlstore.Classified(backend.ErrSerialization,
				fmt.Errorf("it has waited %v to write on SQLite, which has a single writer: %s", t.limit, t.holder.Load()))
		}
	}
	w := &writer{since: time.Now()}
	w.depth = runtime.Callers(3, w.calls[:])
	w.long = time.AfterFunc(t.limit, func() {
		t.log.Warn("parley: a transaction keeps all other writers of a SQLite database waiting", "event", "turn.long",
			"held", time.Since(w.since), "by", w.caller())
	})
	t.holder.Store(w)
	return nil
}

// leave gives the turn back.
func (t *turn) leave() {
	w := t.holder.Swap(nil)
	if !w.long.Stop() {
		t.log.Warn("parley: the transaction that kept all other writers waiting has ended", "event", "turn.over",
			"held", time.Since(w.since), "by", w.caller())
	}
	<-t.taken
}

// String tells who has the turn, for an error.
func (w *writer) String() string {
	if w == nil {
		return "the last writer has just ended"
	}
	doing := "has been open"
	if !w.begun.Load() {
		doing = "has waited for a writer in another process or on the application's own connection"
	}
	return fmt.Sprintf("the transaction of %s %s for %v", w.caller(), doing, time.Since(w.since).Round(time.Millisecond))
}

// ours are packages whose functions say nothing of what a transaction is for.
var ours = []string{
	"github.com/parleymq/parley/backend/sqlite.",
	"github.com/parleymq/parley/backend/sqlstore.",
	"database/sql.", "runtime.",
}

// caller is the application's function that opened the transaction, or the
// innermost of package parley's if that works by itself.
func (w *writer) caller() (name string) {
	const parley = "github.com/parleymq/parley."
	frames := runtime.CallersFrames(w.calls[:w.depth])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if f.Function == "" || within(f.Function, ours) {
			continue
		}
		if !strings.HasPrefix(f.Function, parley) {
			return fmt.Sprintf("%s (%s:%d)", f.Function, f.File, f.Line)
		}
		if name == "" {
			name = f.Function
		}
	}
	return name
}

func within(function string, packages []string) bool {
	for _, p := range packages {
		if strings.HasPrefix(function, p) {
			return true
		}
	}
	return false
}

// LogTo implements backend.Logging.
func (s *Store) LogTo(l *slog.Logger) {
	s.Store.LogTo(l)
	s.pool.turn.log = l
}

// start takes the turn unless it has been taken, and makes sure that the
// transaction is still there.
func (t *transaction) start(ctx context.Context) error {
	switch t.state.Load() {
	case over:
		return sql.ErrTxDone
	case begun:
		return t.check()
	}
	if t.p.deadlock(ctx, t) || t.p.deadlock(t.born, t) {
		return backend.ErrWouldDeadlock
	}
	if err := t.p.turn.take(ctx); err != nil {
		return err
	}
	err := t.p.same()
	if err == nil {
		_, err = t.p.connect(ctx)
	}
	if err == nil {
		// The wait for other processes ends with the context.
		if err = t.p.begun(ctx); err != nil {
			// A context that ends at the same moment as the statement reports an error,
			// although BEGIN was carried out. Without a transaction this does nothing.
			t.p.run(context.WithoutCancel(ctx), rollbackStmt)
		}
	}
	if err != nil {
		t.release(err)
		return err
	}
	t.p.turn.holder.Load().begun.Store(true)
	if !t.state.CompareAndSwap(waiting, begun) { // closed meanwhile
		t.p.run(context.WithoutCancel(ctx), rollbackStmt)
		t.release(nil)
		return sql.ErrTxDone
	}
	return nil
}

// begun begins a transaction. Rows that the user left open in the previous transaction are closed in the
// background. Until then they keep the connection at its old snapshot.
func (p *pool) begun(ctx context.Context) error {
	err := p.run(ctx, beginStmt)
	for end := time.Now().Add(time.Second); outdated(err) && time.Now().Before(end); err = p.run(ctx, beginStmt) {
		time.Sleep(time.Millisecond)
	}
	return err
}

// release gives the turn back.
func (t *transaction) release(err error) {
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		t.p.drop()
	}
	t.p.turn.leave()
}

// deadlock reports whether ctx belongs to work inside another open transaction of
// the same file, for which t would wait.
func (p *pool) deadlock(ctx context.Context, t *transaction) bool {
	for token := range backend.TokensFrom(ctx) {
		outer, ok := token.(*sqlstore.Tx)
		if !ok || outer.Store() != p.store || !outer.Open() {
			continue
		}
		if x, ok := outer.Session().(*transaction); !ok || x != t && x.state.Load() == begun {
			return true
		}
	}
	return false
}
