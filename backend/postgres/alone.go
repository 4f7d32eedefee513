package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/parleymq/parley/backend/sqlstore"
)

// mostAlone is the most bytes that byItself writes into a statement's text, where each takes two: behind a pooler
// nothing can be prepared.
const mostAlone = 16 << 10

// beginAlone is begin for a transaction of one verb: it only takes a connection. If the first statement is a post, a
// send or a begin, which is all that such a verb does, the statement runs by itself. It has committed when it has
// changed something. That saves the trips of BEGIN and COMMIT. Any other statement begins a transaction first.
//
// When the caller's context ends, the server cancels the statement and says whether it did. So it is known whether a post
// was stored, unless the connection breaks.
func (p *pool) beginAlone(ctx context.Context) (*transaction, error) {
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return nil, unreached(ctx, err)
	}
	t := &transaction{p: p, conn: conn, cancel: func() {}}
	t.PutOff()
	if p.trusts(t) {
		return t, nil
	}
	err = t.enter(ctx)
	if err == nil {
		return t, nil
	}
	conn.Close()
	if sqlState(err) != "" || ctx.Err() != nil {
		return nil, err
	}
	p.known.doubt()
	return p.beginWhole(ctx, level)
}

// trusted is how long a connection counts as alive after it was used. After a longer pause it may have been
// cut off unnoticed, which a BEGIN finds out without harm: database/sql takes another connection then.
const trusted = 2 * time.Second

// known are the driver's connections that posts by themselves have used. A driver does not tell of those that are
// closed, so they are forgotten when they have not been used for a time.
type known struct {
	mu      sync.Mutex
	conns   map[any]*knownConn
	doubted time.Time // one was dead, so that no earlier use counts
}

type knownConn struct {
	used  time.Time
	stmts map[*sqlstore.Stmt]driver.Stmt // only for who has the connection
}

const (
	mostKnown = 100
	knownFor  = 10 * time.Minute
)

// conn returns what is known of a connection of the driver, and takes note of its use.
func (k *known) conn(c any) (x *knownConn, recently bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	x = k.conns[c]
	if x == nil {
		if len(k.conns) >= mostKnown {
			maps.DeleteFunc(k.conns, func(_ any, x *knownConn) bool { return now.Sub(x.used) > knownFor })
		}
		if k.conns == nil {
			k.conns = make(map[any]*knownConn)
		}
		x = &knownConn{stmts: make(map[*sqlstore.Stmt]driver.Stmt)}
		k.conns[c] = x
	}
	recently = now.Sub(x.used) < trusted && x.used.After(k.doubted)
	x.used = now
	return x, recently
}

// trusts reports whether the connection of a verb counts as alive, because it was used a short time ago. If it was idle
// for a second, pgx asks the server before it lends it. So any connection of pgx counts, unless another has just been
// dead.
func (p *pool) trusts(t *transaction) (alive bool) {
	t.conn.Raw(func(c any) error {
		if p.libpq {
			_, alive = p.known.conn(c)
		} else if t.canceller = cancellerOf(c); t.canceller != nil {
			_, alive = p.known.conn(t.canceller.conn)
			alive = alive || p.known.quiet()
		}
		return nil
	})
	return alive
}

// quiet reports whether no connection was found dead lately.
func (k *known) quiet() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Since(k.doubted) > trusted
}

// doubt has no connection count as alive, since one was not.
func (k *known) doubt() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.doubted = time.Now()
}

// prepared has work done with a statement that is prepared on a chosen connection. Package database/sql would choose the
// connection itself. If that connection broke, it would repeat the statement on another, although the server may have
// carried it out. If ok is false, the program has wrapped the connection, which can do less now, and nothing was done.
func prepared[S any](ctx context.Context, k *known, conn *sql.Conn, q *sqlstore.Stmt, work func(S) error) (ok bool, err error) {
	err = conn.Raw(func(c any) error {
		x, _ := k.conn(c)
		if x.stmts[q] == nil {
			p, can := c.(driver.ConnPrepareContext)
			if !can {
				return nil
			}
			s, err := p.PrepareContext(ctx, q.Text)
			if err != nil {
				return err
			}
			x.stmts[q] = s
		}
		s, can := x.stmts[q].(S)
		if !can {
			return nil
		}
		ok = true
		if err := sqlstore.Sending(ctx); err != nil {
			return &unsent{err}
		}
		return work(s)
	})
	return ok || err != nil, err
}

// unsent is the error of a statement whose context ended while it was being prepared.
type unsent struct{ error }

func (u *unsent) Unwrap() error { return u.error }

// values are arguments as a driver wants them.
func values(args []any) ([]driver.NamedValue, error) {
	list := make([]driver.NamedValue, len(args))
	for i, a := range args {
		v, err := driver.DefaultParameterConverter.ConvertValue(a)
		if err != nil {
			return nil, err
		}
		list[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return list, nil
}

// exec carries out a statement on a chosen connection, where it is prepared.
func (k *known) exec(ctx context.Context, conn *sql.Conn, q *sqlstore.Stmt, args []any) (res sql.Result, err error) {
	list, err := values(args)
	if err != nil {
		return nil, err
	}
	ok, err := prepared(ctx, k, conn, q, func(s driver.StmtExecContext) (err error) {
		res, err = s.ExecContext(ctx, list)
		return err
	})
	if !ok {
		return conn.ExecContext(ctx, q.Text, args...)
	}
	return res, err
}

// row is exec for a statement that returns rows of numbers, one after the other.
func (k *known) row(ctx context.Context, conn *sql.Conn, q *sqlstore.Stmt, args []any) (row []int64, err error) {
	list, err := values(args)
	if err != nil {
		return nil, err
	}
	ok, err := prepared(ctx, k, conn, q, func(s driver.StmtQueryContext) error {
		rows, err := s.QueryContext(ctx, list)
		if err != nil {
			return err
		}
		defer rows.Close()
		for {
			v := make([]driver.Value, len(rows.Columns()))
			if err := rows.Next(v); err == io.EOF { // the server has committed
				return nil
			} else if err != nil {
				return err
			}
			for _, n := range v {
				row = append(row, n.(int64))
			}
		}
	})
	if !ok {
		return rowOf(conn.QueryContext(ctx, q.Text, args...))
	}
	return row, err
}

// rowOf reads such rows.
func rowOf(rows *sql.Rows, err error) ([]int64, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var row []int64
	for rows.Next() {
		next := make([]int64, len(columns))
		into := make([]any, len(columns))
		for i := range next {
			into[i] = &next[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		row = append(row, next...)
	}
	return row, rows.Err()
}

// enter begins the transaction if that has been put off.
func (t *transaction) enter(ctx context.Context) error {
	return t.Enter(func() (err error) {
		tx, cancel, err := t.p.beginOn(ctx, t.conn, level)
		if err == nil {
			t.tx, t.cancel = tx, cancel
		}
		return err
	})
}

// byItself carries out posts without a transaction around them; done says whether it did. If that changes nothing,
// a transaction may follow.
func (t *transaction) byItself(ctx context.Context, q *sqlstore.Stmt, args []any) (res sql.Result, done bool, err error) {
	pooled := t.p.pooled.Load()
	posts := q == t.p.store.Q().PostOne || q == t.p.hot.PostMany || q == t.p.hot.PostKeyed || q == t.p.hot.PostNewKey
	if !posts || pooled && !small(args) {
		return nil, false, nil
	}
	return t.ByItself(func() (res sql.Result, begun bool, err error) {
		err = t.carryOut(ctx, func(ctx context.Context) (err error) {
			if pooled || t.p.keeps {
				text, args := t.p.unprepared(q, args)
				res, err = t.conn.ExecContext(ctx, text, args...)
			} else {
				res, err = t.p.known.exec(ctx, t.conn, q, args)
			}
			return err
		})
		return res, false, err
	})
}

// rowByItself is byItself for sends or begins; row is what the statement returns, nil if it was refused.
func (t *transaction) rowByItself(ctx context.Context, tx *sqlstore.Tx, q *sqlstore.Stmt, args []any) (row []int64, done bool, err error) {
	if !t.Unbegun() {
		return nil, false, nil
	}
	args = tx.Args(q, args...)
	pooled := t.p.pooled.Load()
	if pooled && !small(args) {
		return nil, false, nil
	}
	err = tx.Do(ctx, func(ctx context.Context) (err error) {
		_, done, err = t.ByItself(func() (res sql.Result, begun bool, err error) {
			err = t.carryOut(ctx, func(ctx context.Context) (err error) {
				if pooled || t.p.keeps {
					text, args := t.p.unprepared(q, args)
					row, err = rowOf(t.conn.QueryContext(ctx, text, args...))
				} else {
					row, err = t.p.known.row(ctx, t.conn, q, args)
				}
				return err
			})
			return driver.RowsAffected(len(row)), false, err
		})
		return err
	})
	return row, done || err != nil, err
}

// carryOut has a statement carried out so that its outcome is known also if its context ends. lib/pq does so itself.
func (t *transaction) carryOut(ctx context.Context, statement func(context.Context) error) error {
	if t.canceller == nil {
		return t.answered(statement(ctx))
	}
	interrupted, err := sqlstore.Interrupted(ctx, t.canceller.interrupt, statement)
	t.spent = t.spent || interrupted
	return t.answered(err)
}

// answered takes note of what a statement by itself has failed with. Without an answer it may have been carried out.
func (t *transaction) answered(err error) error {
	if sqlState(err) == "40001" {
		t.p.strict.Store(true) // transactions at READ COMMITTED wait instead
	}
	if u := (*unsent)(nil); errors.As(err, &u) {
		return u.error
	}
	if err != nil && sqlState(err) == "" {
		t.p.known.doubt()
		err = sqlstore.Unanswered(err)
	}
	t.p.check(err)
	return err
}

// small reports whether the values of a statement are short enough to be written into its text.
func small(args []any) bool {
	n := 0
	for _, a := range args {
		switch v := a.(type) {
		case []byte:
			n += len(v)
		case string:
			n += len(v)
		}
	}
	return n <= mostAlone
}
