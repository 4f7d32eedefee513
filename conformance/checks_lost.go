package conformance

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		check{ID: "I7", Name: "what is lost before the commit is not reported as committed", Run: checkLost},
		check{ID: "I7", Name: "a message whose transaction is lost is handled again", Run: checkLostHandler},
	)
}

// LoseBySQL makes Store.Lose of a statement by which the database ends the transaction that it is in, or
// the connection. The application's statement fails, and the application does not care.
func LoseBySQL(statement string) []func(context.Context, backend.Tx) {
	exec := func(ctx context.Context, tx backend.Tx) { tx.SQL().ExecContext(ctx, statement) }
	// The error of a row goes past the store.
	row := func(ctx context.Context, tx backend.Tx, query string) {
		tx.SQL().QueryRowContext(ctx, query).Scan(new(any))
	}
	return []func(context.Context, backend.Tx){
		exec,
		func(ctx context.Context, tx backend.Tx) { row(ctx, tx, statement) },
		func(ctx context.Context, tx backend.Tx) { row(ctx, tx, statement); row(ctx, tx, "SELECT 1") },
		func(ctx context.Context, tx backend.Tx) { exec(ctx, tx); exec(ctx, tx) },
	}
}

// lose returns the ways in which the store can lose a transaction.
func (e *env) lose() []func(context.Context, backend.Tx) {
	if len(e.r.store.Lose) == 0 {
		e.Skipf("the suite was given no way to lose a transaction")
	}
	return e.r.store.Lose
}

// checkLost does more in a transaction that is lost, as a program does that ignores errors. A database that
// carries that out outside of the transaction, and then has nothing to commit, says that all is well.
func checkLost(e *env) {
	ways := e.lose()
	s := invUnder(invWorld(e))
	post := func(tx backend.Tx) error {
		_, err := tx.Post(e.Ctx, s.version, []backend.Posting{{ID: backend.NewID(), Queue: s.sq, Rank: 5, Type: s.Any}})
		return err
	}
	for _, after := range []struct {
		what string
		do   func(backend.Tx)
	}{
		{"the commit", func(backend.Tx) {}},
		{"a post", func(tx backend.Tx) { post(tx) }},
		{"posts", func(tx backend.Tx) { post(tx); post(tx) }},
		{"a savepoint", func(tx backend.Tx) { tx.Savepoint(e.Ctx, "p"); post(tx); tx.Release(e.Ctx, "p"); post(tx) }},
	} {
		for i, lose := range ways {
			tx := s.begin()
			e.Must(post(tx))
			lose(e.Ctx, tx)
			after.do(tx)
			if err := tx.Commit(e.Ctx); err == nil {
				e.Errorf("a transaction was lost in way %d, %s came next, and the commit reports success", i, after.what)
			}
			tx.Rollback(e.Ctx)
			if n := len(s.Drain(s.SQ)); n > 0 {
				e.Errorf("a transaction was lost in way %d, %s came next, and %d of its posts are there", i, after.what, n)
			}
		}
	}
}

// checkLostHandler loses the transaction of a handler that ignores it, at the first attempt.
func checkLostHandler(e *env) {
	ways, w := e.lose(), e.World()
	for i, lose := range ways {
		for _, hold := range e.Holds() {
			w.posts(nil, "message")
			var calls atomic.Int64
			r := w.work(w.B, &parley.WorkerOptions{Hold: hold, Backoff: soonAgain}, func(ctx context.Context, m *parley.Message) error {
				if err := w.effect(ctx, m); err != nil || calls.Add(1) > 1 {
					return err
				}
				tx, err := m.Tx(ctx)
				if err != nil {
					return err
				}
				be, err := tx.Backend()
				if err == nil {
					lose(ctx, be)
				}
				return err
			})
			if !e.Soon(30*time.Second, func() bool { return w.depth(w.SQ) == 0 && w.depth(w.CQ) > 0 || len(r.end) > 0 }) {
				e.Errorf("the transaction of a handler was lost in way %d: %d calls, queue %+v", i, calls.Load(), w.queueStatus(w.SQ))
			}
			r.Stop()
			w.once(w.effects(1), []string{"message"})
			if n := calls.Load(); n != 2 {
				e.Errorf("%s: the transaction of a handler was lost in way %d, and the message was handled %d times", fmt.Sprint(hold), i, n)
			}
		}
	}
}
