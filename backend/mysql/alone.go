package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/parleymq/parley/backend/sqlstore"
)

// beginAlone is begin for a transaction of one verb: it only takes a connection. If the first statement is a post,
// which is all that such a verb does, the statement runs by itself. It has committed when it has changed something.
// That saves the trips of START TRANSACTION and COMMIT. Any other statement begins a transaction first. In a session
// that is not READ COMMITTED the post has shared locks on the catalog rows that it reads, until it ends.
func (p *pool) beginAlone(ctx context.Context) (*transaction, error) {
	c, s, err := p.conn(ctx)
	if err != nil {
		return nil, err
	}
	if p.vitess() {
		c.Close()
		return p.beginWhole(ctx)
	}
	t := &transaction{p: p, conn: c, s: s}
	t.PutOff()
	return t, nil
}

// enter begins the transaction if that has been put off.
func (t *transaction) enter(ctx context.Context) error {
	return t.Enter(func() error {
		err := t.start(ctx)
		if t.p.lost(err) {
			return t.replace(ctx)
		}
		return err
	})
}

// replace begins the transaction on another connection.
func (t *transaction) replace(ctx context.Context) error {
	t.discard()
	fresh, err := t.p.beginWhole(ctx)
	if err == nil {
		t.conn, t.s = fresh.conn, fresh.s
	}
	return err
}

// byItself carries out a post without a transaction around it; done says whether it was one. If it changes nothing,
// a transaction may follow.
func (t *transaction) byItself(ctx context.Context, q *sqlstore.Stmt, args []any) (res sql.Result, done bool, err error) {
	if q != t.p.store.Q().PostOne {
		return nil, false, nil
	}
	return t.ByItself(func() (res sql.Result, begun bool, err error) {
		text, args, err := t.s.text(q, args)
		if err != nil {
			return nil, false, err
		}
		res, err = t.p.change(ctx, t.s, func(ctx context.Context) (sql.Result, error) {
			return t.conn.ExecContext(ctx, text, args...)
		})
		if errors.Is(err, driver.ErrBadConn) { // the driver has noticed it before it sent anything
			err = t.replace(ctx)
			return nil, err == nil, err
		}
		return res, false, err
	})
}
