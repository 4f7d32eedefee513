package sqlstore

import (
	"context"
	"database/sql"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
)

// run executes statements in a session and classifies what goes wrong.
type run struct {
	s    *Store
	sess Session
	verb *verb // the one at work in a transaction; nil outside of them
}

// verb is what is known of a verb at work.
type verb struct {
	wrote bool                        // it has changed something
	torn  error                       // it was cancelled in the middle: the transaction can only be rolled back
	point func(context.Context) error // sets the savepoint that is to be set before the next statement
}

// reach sets the savepoint before a statement.
func (r run) reach(ctx context.Context) error {
	if r.verb == nil || r.verb.point == nil {
		return nil
	}
	set := r.verb.point
	r.verb.point = nil
	return set(ctx)
}

// steady lets a verb that has begun to change rows finish even if ctx is cancelled. Otherwise, on
// some engines, the transaction would still be usable, with half a verb in it. A verb acquires
// everything that it may have to wait for before that.
func (r run) steady(ctx context.Context) context.Context {
	if r.verb != nil && r.verb.wrote {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// Args converts arguments to what drivers take.
func (r run) Args(q *Stmt, args ...any) []any {
	out := make([]any, len(args), len(args)+1)
	for i, a := range args {
		switch v := a.(type) {
		case backend.ID:
			out[i] = r.s.d.ID(v)
		case []byte:
			if v != nil {
				out[i] = v
			}
		case time.Duration:
			out[i] = v.Microseconds()
		case bool:
			out[i] = flag(v)
		case int:
			out[i] = int64(v)
		case backend.Kind:
			out[i] = int64(v)
		default:
			out[i] = a
		}
	}
	if q.clock {
		out = append(out, r.s.d.Clock())
	}
	return out
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// fail is that of the store. Outside of transactions a statement acquires its own connection: a
// context's error that is not the caller's is the driver's limit for that.
func (r run) fail(ctx context.Context, err error) error {
	if r.verb != nil || err == nil {
		return r.s.fail(ctx, err)
	}
	if contexts(err) {
		err = Unreached(ctx, err)
	}
	return r.s.Late(ctx, err)
}

// Exec runs a statement and returns how many rows it changed.
func (r run) Exec(caller context.Context, q *Stmt, args ...any) (int64, error) {
	ctx := r.steady(caller)
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := r.reach(ctx); err != nil {
		return 0, err
	}
	ctx, over := r.heard(ctx)
	defer over()
	res, err := r.sess.Exec(ctx, q, r.Args(q, args...))
	if err != nil {
		return 0, r.fail(caller, err)
	}
	if r.verb != nil {
		r.verb.wrote = true
	}
	n, err := res.RowsAffected()
	return n, r.fail(caller, err)
}

// Do runs an engine's own statements, which change something, as Exec runs one.
func (r run) Do(caller context.Context, work func(context.Context) error) error {
	ctx := r.steady(caller)
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.reach(ctx); err != nil {
		return err
	}
	ctx, over := r.heard(ctx)
	defer over()
	if err := work(ctx); err != nil {
		return r.fail(caller, err)
	}
	if r.verb != nil {
		r.verb.wrote = true
	}
	return nil
}

// Rows calls scan for each row of a query. The rows are closed before Rows
// returns, so that the next statement can follow.
func (r run) Rows(caller context.Context, scan func(*sql.Rows) error, q *Stmt, args ...any) error {
	ctx := r.steady(caller)
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.reach(ctx); err != nil {
		return err
	}
	ctx, over := r.heard(ctx)
	defer over()
	rows, free, err := r.query(ctx, q, r.Args(q, args...))
	if err != nil {
		return r.fail(caller, err)
	}
	defer free()
	defer r.rest()
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			if err == errEnough {
				return nil
			}
			return r.fail(caller, err)
		}
	}
	return r.fail(caller, rows.Err())
}

// rest tells the session that the rows of a query have been closed.
func (r run) rest() {
	if s, ok := r.sess.(Resting); ok {
		s.Rest()
	}
}

// query starts a query. What a writing statement answers is read to its end though ctx
// is cancelled meanwhile: the statement has changed something by then.
func (r run) query(ctx context.Context, q *Stmt, args []any) (rows *sql.Rows, free func(), err error) {
	if !q.writes || r.verb == nil {
		rows, err = r.sess.Query(ctx, q, args)
		return rows, func() {}, err
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var over atomic.Bool // a cancellation that comes later than the answer must not take it away
	stop := context.AfterFunc(ctx, func() {
		if over.CompareAndSwap(false, true) {
			cancel()
		}
	})
	rows, err = r.sess.Query(own, q, args)
	cancelled := over.Swap(true)
	stop()
	if err != nil {
		cancel()
		return nil, nil, err
	}
	r.verb.wrote = true
	if cancelled { // the driver came to know of it too late, and takes the rows away
		rows.Close()
		r.rest()
		cancel()
		r.verb.torn = Classified(backend.ErrTxDone, context.Cause(ctx))
		return nil, nil, ctx.Err()
	}
	return rows, cancel, nil
}

// Row scans the first row of a query into dest and reports whether there is one.
func (r run) Row(ctx context.Context, dest []any, q *Stmt, args ...any) (found bool, err error) {
	err = r.Rows(ctx, func(rows *sql.Rows) error {
		found = true
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		return errEnough
	}, q, args...)
	return found && err == nil, err
}

// IDs returns the ids in the first column of a query.
func (r run) IDs(ctx context.Context, q *Stmt, args ...any) (ids []backend.ID, err error) {
	err = r.Rows(ctx, func(rows *sql.Rows) error {
		var id backend.ID
		err := rows.Scan(ID(&id))
		ids = append(ids, id)
		return err
	}, q, args...)
	return ids, err
}

// TryLock runs a statement that locks one row and reports whether it could. An
// engine that needs no such statement leaves it empty: it has what it asks for.
func (r run) TryLock(ctx context.Context, q *Stmt, args ...any) (bool, error) {
	if q.Empty() {
		return true, r.steady(ctx).Err()
	}
	var none any
	return r.Row(ctx, []any{&none}, q, args...)
}

type sentinel string

func (e sentinel) Error() string { return string(e) }

// errEnough ends a walk through rows without being an error.
const errEnough = sentinel("enough rows")
