package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/parleymq/parley/backend/sqlstore"
)

// beginAlone is begin for a transaction of one verb: it only takes a connection. If the first statement is a post, or
// the change of a reader's record, which is all that such a verb does, the statement runs by itself. It has committed when
// it has changed something. That saves the trips of START TRANSACTION and COMMIT. Any other statement begins a
// transaction first. In a session that is not READ COMMITTED the post has shared locks on the catalog rows that it reads,
// until it ends.
func (p *pool) beginAlone(ctx context.Context) (*transaction, error) {
	t, err := p.beginLater(ctx)
	if err == nil {
		t.alone = true
	}
	return t, err
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

// replace begins the transaction on another connection. If it cannot, nothing has been done.
func (t *transaction) replace(ctx context.Context) error {
	t.discard()
	fresh, err := t.p.beginWhole(ctx)
	if err != nil {
		return t.p.store.NotBegun(ctx, err)
	}
	t.conn, t.s, t.whole = fresh.conn, fresh.s, fresh.whole
	return nil
}

// byItself carries out a post, or the change of a reader's record, without a transaction around it; done says whether it
// was one. If it changes nothing, a transaction may follow.
func (t *transaction) byItself(ctx context.Context, q *sqlstore.Stmt, args []any) (res sql.Result, done bool, err error) {
	if !t.alone || q != t.p.store.Q().PostOne && q != t.p.store.Q().WorkerUpdate {
		return nil, false, nil
	}
	return t.ByItself(func() (res sql.Result, begun bool, err error) {
		text, args, err := t.s.text(q, args)
		if err != nil {
			return nil, false, err
		}
		var failed error // which has no number if there was no answer
		res, err = t.p.change(ctx, t.s, func(ctx context.Context) (res sql.Result, err error) {
			res, failed = t.conn.ExecContext(ctx, text, args...)
			return res, failed
		})
		switch {
		case errors.Is(err, driver.ErrBadConn): // the driver has noticed it before it sent anything
			err = t.replace(ctx)
			return nil, err == nil, err
		case err != nil && failed != nil && number(failed) == 0 && !errors.Is(failed, driver.ErrBadConn):
			err = sqlstore.Unanswered(err)
		}
		return res, false, err
	})
}

// A post with a key is three statements. Where the connection takes several in one text, they come with the beginning
// of their transaction, and the commit is the second trip. Nothing has happened if one of them fails or the connection
// breaks. It is not the application's transaction that such a text begins, so nothing else can be in it.

// call is a statement with its arguments.
type call struct {
	q    *sqlstore.Stmt
	args []any
}

// change is what a statement has changed.
type change struct{ rows, id int64 }

// beginWith begins a transaction that was put off, and carries out statements in it, all in one trip. The
// LAST_INSERT_ID is 0 before them. If ok is false, nothing has been done.
func (t *transaction) beginWith(ctx context.Context, tx *sqlstore.Tx, calls ...call) (done []change, ok bool, err error) {
	if !t.alone || t.p.single.Load() || !t.Unbegun() {
		return nil, false, nil
	}
	texts := append(t.opening(), "DO LAST_INSERT_ID(0)")
	first := len(texts)
	for _, c := range calls {
		text, args, err := t.s.text(c.q, tx.Args(c.q, c.args...))
		if err != nil || len(args) > 0 { // a long value
			return nil, false, err
		}
		texts = append(texts, text)
	}
	err = tx.Do(ctx, func(ctx context.Context) error {
		return t.Enter(func() (err error) {
			if done, err = t.runTexts(ctx, texts); err != nil {
				done = nil
				return t.undo(ctx, err)
			}
			done = done[first:]
			return nil
		})
	})
	if errors.Is(err, errSingle) {
		t.p.single.Store(true)
		return nil, false, nil
	}
	return done, done != nil, err
}

// goOnWith carries out statements in one trip, if it can. After an error the transaction has to be rolled back: it is
// not known which of them were carried out.
func (t *transaction) goOnWith(ctx context.Context, tx *sqlstore.Tx, calls ...call) (done []change, err error) {
	if t.p.single.Load() || t.Unbegun() {
		return nil, nil
	}
	var texts []string
	for _, c := range calls {
		text, args, err := t.s.text(c.q, tx.Args(c.q, c.args...))
		if err != nil || len(args) > 0 { // a long value
			return nil, err
		}
		texts = append(texts, text)
	}
	err = tx.Do(ctx, func(ctx context.Context) (err error) {
		t.ending.RLock()
		defer t.ending.RUnlock()
		if err := t.check(ctx); err != nil {
			return err
		}
		done, err = t.runTexts(ctx, texts)
		if err != errSingle {
			t.saw(err)
		}
		return err
	})
	if errors.Is(err, errSingle) {
		t.p.single.Store(true)
		return nil, nil
	}
	return done, err
}

// again rolls back what beginWith has done, and begins the transaction again.
func (t *transaction) again(ctx context.Context) error {
	t.reset(ctx)
	return t.start(ctx)
}

// errSyntax is ER_PARSE_ERROR: nothing has been carried out, as the server parses all of a text first.
const errSyntax = 1064

// errSingle: the connection takes one statement in a text.
var errSingle = errors.New("the connection takes one statement at a time")

// results are what go-sql-driver tells of several statements.
type results interface {
	AllRowsAffected() []int64
	AllLastInsertIds() []int64
}

// runTexts carries out several statements in one text.
func (t *transaction) runTexts(ctx context.Context, texts []string) (done []change, err error) {
	text := strings.Join(texts, ";\n")
	_, err = t.p.change(ctx, t.s, func(ctx context.Context) (sql.Result, error) {
		err := t.p.answered(ctx, t.s, func(ctx context.Context) error {
			return t.conn.Raw(func(c any) error {
				x, ok := c.(driver.ExecerContext)
				if !ok { // the program has wrapped the connection, which can do less now
					return errSingle
				}
				r, err := x.ExecContext(ctx, text, nil)
				if number(err) == errSyntax {
					return errSingle
				}
				if err != nil {
					return err
				}
				all, ok := r.(results)
				if !ok || len(all.AllRowsAffected()) != len(texts) {
					return fmt.Errorf("parley: mysql: %d statements have had other results: %v", len(texts), r)
				}
				for i, n := range all.AllRowsAffected() {
					done = append(done, change{n, all.AllLastInsertIds()[i]})
				}
				return nil
			})
		})
		return driver.RowsAffected(1), err
	})
	return done, err
}
