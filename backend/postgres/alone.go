package postgres

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/parleymq/parley/backend/sqlstore"
)

// mostAlone is the most bytes of a body that byItself writes into a statement's text, where each takes two.
const mostAlone = 16 << 10

// beginAlone is begin for a transaction of one verb: it only takes a connection. If the first statement is a
// post, which is all that such a verb does, the statement is carried out by itself and has committed when it has
// changed something. That saves the trips of BEGIN and COMMIT. Any other statement begins a transaction first.
//
// When the caller's context ends, lib/pq has the server cancel the statement and waits for what it says. So it is
// known whether a post was stored, unless the connection breaks. pgx breaks it at once.
func (p *pool) beginAlone(ctx context.Context) (*transaction, error) {
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return nil, unreached(ctx, err)
	}
	t := &transaction{p: p, conn: conn, cancel: func() {}}
	t.PutOff()
	if p.alive.seen(conn) {
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
	p.alive.doubt()
	return p.beginWhole(ctx)
}

// trusted is how long a connection counts as alive after it was used. After a longer pause it may have been
// cut off unnoticed, which a BEGIN finds out without harm: database/sql takes another connection then.
const trusted = 2 * time.Second

// alive are connections that were used a short time ago.
type alive struct {
	mu   sync.Mutex
	used map[any]time.Time
}

// seen reports whether a connection was used a short time ago, and takes note of it.
func (a *alive) seen(conn *sql.Conn) (recently bool) {
	conn.Raw(func(c any) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		now := time.Now()
		recently = now.Sub(a.used[c]) < trusted
		if a.used == nil || len(a.used) > 200 {
			a.used = make(map[any]time.Time)
		}
		a.used[c] = now
		return nil
	})
	return recently
}

// doubt has no connection count as alive, since one was not.
func (a *alive) doubt() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used = nil
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

// byItself carries out a post without a transaction around it; done says whether it was one. If it changes nothing,
// a transaction may follow.
func (t *transaction) byItself(ctx context.Context, q *sqlstore.Stmt, args []any) (res sql.Result, done bool, err error) {
	if q != t.p.store.Q().PostOne && q != t.p.hot.PostKeyed && q != t.p.hot.PostNewKey || !small(args) {
		return nil, false, nil
	}
	return t.ByItself(func() (sql.Result, bool, error) {
		text, args := t.p.unprepared(q, args)
		res, err := t.conn.ExecContext(ctx, text, args...)
		if err != nil && sqlState(err) == "" {
			t.p.alive.doubt()
		}
		t.p.check(err)
		return res, false, err
	})
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
