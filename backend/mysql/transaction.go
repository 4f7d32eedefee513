package mysql

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// begin takes a connection for a transaction, which its first statement begins.
func (p *pool) begin(ctx context.Context) (sqlstore.Transaction, error) {
	if backend.IsAlone(ctx) {
		return p.beginAlone(ctx)
	}
	return p.beginLater(ctx)
}

func (p *pool) beginLater(ctx context.Context) (*transaction, error) {
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

func (p *pool) beginWhole(ctx context.Context) (*transaction, error) {
	for n := 1; ; n++ {
		c, s, err := p.conn(ctx)
		if err != nil {
			return nil, err
		}
		t := &transaction{p: p, conn: c, s: s}
		if err = t.start(ctx); err == nil {
			return t, nil
		}
		t.discard()
		if n == attempts || !p.lost(err) || ctx.Err() != nil {
			return nil, err
		}
	}
}

// transaction is a transaction of ours, on a connection that it has to itself.
type transaction struct {
	p    *pool
	conn *sql.Conn
	s    *session
	lastID

	sqlstore.Alone
	alone bool // it is for one verb

	// ending keeps the end, which may come from Close, apart from statements: a
	// statement after the end would be carried out by itself.
	ending sync.RWMutex
	reads  sqlstore.Reads // what the application's statements depend on

	mu      sync.Mutex // guards what follows
	over    bool
	lost    error  // what ended the transaction on the server
	used    bool   // something has been done in it
	applied bool   // the application has had statements since the last of ours
	ends    bool   // one of them may have ended the transaction
	doubt   bool   // an error may have
	after   string // gives back, when it has ended, what kept other migrations away
	free    bool   // what is done in it commits by itself
	turn    string // keeps other migrations away for longer, on a cluster
	whole   bool   // it has the savepoint of its beginning
	point   point
}

// setLevel sets the level of the next transaction. errInProgress is the number of its error "while a
// transaction is in progress" (ER_CANT_CHANGE_TX_CHARACTERISTICS).
const (
	setLevel      = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
	errInProgress = 1568
)

// start starts it, in one trip if the session's level is the right one.
func (t *transaction) start(ctx context.Context) error {
	err := t.p.together(ctx, t.conn, t.opening())
	if err != nil && t.whole {
		t.reset(ctx)
	}
	return err
}

// lastID is the LAST_INSERT_ID of the last statement.
type lastID struct{ n int64 }

func (l *lastID) take(res sql.Result) {
	if res != nil {
		l.n, _ = res.LastInsertId()
	}
}

var errRolledBack = errors.New("the server has ended the transaction, because of a deadlock or an error before")

// check returns an error unless the transaction is there for a statement of ours.
// Whether it is, after statements of the application's, is found out by inProgress.
func (t *transaction) check(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.checked(ctx)
}

func (t *transaction) checked(ctx context.Context) error {
	t.used = true
	if err := t.usable(); err != nil {
		return err
	}
	if texts := t.point.put; texts != "" {
		t.point.put = ""
		return t.pointed(ctx, texts, strings.HasPrefix(texts, "RELEASE "))
	}
	if !t.applied && !t.doubt {
		return nil
	}
	open, err := t.p.inProgress(context.WithoutCancel(ctx), t.conn)
	switch {
	case err != nil && t.p.vitess():
		t.lost = sqlstore.Classified(backend.ErrConnection, err)
	case err != nil:
		return err
	case open:
		t.applied, t.ends, t.doubt = false, t.ends && t.whole, false
		return nil
	case t.ends:
		t.lost = sqlstore.ErrEnded
	default:
		t.lost = sqlstore.Classified(backend.ErrSerialization, errRolledBack)
	}
	return t.lost
}

// usable returns an error if the transaction is known to be over, or if the application has open rows. With
// open rows the driver would give the connection up, and could not close it before the rows are closed.
func (t *transaction) usable() error {
	switch {
	case t.over:
		return sql.ErrTxDone
	case t.reads.Left():
		return backend.ErrRowsOpen
	}
	return t.lost
}

// saw records what an error did to the transaction. Errors of many kinds, which their numbers do not show, make
// vtgate roll back and execute later statements outside the transaction. So the transaction is checked before the
// next statement.
func (t *transaction) saw(err error) {
	if err == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.noted(err)
}

func (t *transaction) noted(err error) {
	switch {
	case endsTransaction(err):
		t.lost = sqlstore.Classified(backend.ErrSerialization, err)
	case t.p.vitess() && lostBehind(err):
		t.lost = sqlstore.Classified(backend.ErrConnection, err)
	case t.p.vitess():
		t.doubt = !t.free
	}
}

// Exec implements sqlstore.Session.
func (t *transaction) Exec(ctx context.Context, q *sqlstore.Stmt, args []any) (res sql.Result, err error) {
	if res, done, err := t.byItself(ctx, q, args); done {
		return res, err
	}
	if err := t.enter(ctx); err != nil {
		return nil, err
	}
	t.ending.RLock()
	defer t.ending.RUnlock()
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	text, args, err := t.s.text(q, args)
	if err != nil {
		return nil, err
	}
	res, err = t.p.change(ctx, t.s, func(ctx context.Context) (sql.Result, error) {
		res, err := t.p.server.Load().sure(q, func() (sql.Result, error) { return t.conn.ExecContext(ctx, text, args...) })
		if q != t.p.hot.NewKeysFree || !wouldWait(err) {
			t.saw(err)
		}
		return res, err
	})
	t.take(res)
	return res, err
}

// Query implements sqlstore.Session.
func (t *transaction) Query(ctx context.Context, q *sqlstore.Stmt, args []any) (rows *sql.Rows, err error) {
	if rows, err := t.queryFirst(ctx, q, args); rows != nil || err != nil {
		return rows, err
	}
	if err := t.enter(ctx); err != nil {
		return nil, err
	}
	t.ending.RLock()
	defer t.ending.RUnlock()
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	text, args, err := t.s.text(q, args)
	if err != nil {
		return nil, err
	}
	rows, err = t.p.query(ctx, t.s, func(ctx context.Context) (*sql.Rows, error) {
		rows, err := t.conn.QueryContext(ctx, text, args...)
		t.saw(err)
		return rows, err
	})
	return rows, err
}

// queryFirst begins a transaction that was put off, together with its first statement. That saves each claim a trip. It
// returns no rows if the statement is yet to be carried out.
func (t *transaction) queryFirst(ctx context.Context, q *sqlstore.Stmt, args []any) (rows *sql.Rows, err error) {
	if t.p.single.Load() || !t.Unbegun() {
		return nil, nil
	}
	text, args, err := t.s.text(q, args)
	if err != nil || len(args) > 0 { // a long value
		return nil, err
	}
	err = t.Enter(func() error {
		text := strings.Join(append(t.opening(), text), ";\n")
		rows, err = t.p.query(ctx, t.s, func(ctx context.Context) (rows *sql.Rows, err error) {
			err = t.p.answered(ctx, t.s, func(ctx context.Context) error {
				rows, err = t.conn.QueryContext(ctx, text)
				return err
			})
			return rows, err
		})
		switch {
		case err == nil:
			t.mu.Lock()
			t.used = true
			t.mu.Unlock()
			return nil
		case number(err) == errSyntax:
			return errSingle
		case t.p.lost(err) && ctx.Err() == nil:
			return t.replace(ctx)
		}
		return t.undo(ctx, err)
	})
	if errors.Is(err, errSingle) {
		t.p.single.Store(true)
		return nil, nil
	}
	return rows, err
}

// Commit implements sqlstore.Transaction.
func (t *transaction) Commit(ctx context.Context) error {
	if t.Over() {
		return t.conn.Close()
	}
	t.ending.RLock()
	t.takePoint() // nothing needs it any more
	err := t.check(ctx)
	t.ending.RUnlock()
	if err != nil {
		t.Rollback(ctx)
		return err
	}
	return t.end(context.WithoutCancel(ctx), "COMMIT") // half-way through its outcome would be unknown
}

// Rollback implements sqlstore.Transaction.
func (t *transaction) Rollback(ctx context.Context) error {
	if t.Over() {
		return t.conn.Close()
	}
	t.reads.Close() // else the connection could not be closed, or a statement would be waited for
	err := t.end(ctx, "ROLLBACK")
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost == nil && errors.Is(err, backend.ErrSerialization) { // news
		return err
	}
	return nil // or it is gone with its connection
}

func (t *transaction) end(ctx context.Context, how string) error {
	t.ending.Lock()
	defer t.ending.Unlock()
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return nil
	}
	t.over = true
	after := t.after
	t.mu.Unlock()
	err := t.p.together(ctx, t.conn, t.closing(how))
	switch {
	case err == nil:
	case t.whole && number(err) == errNoSavepoint:
		t.reset(ctx)
		t.conn.Close()
		return t.notWhole()
	default:
		t.discard()
		return err
	}
	if after != "" {
		if _, err := t.conn.ExecContext(ctx, after); err != nil {
			t.discard() // a named lock ends with it, a turn by itself
			return nil
		}
	}
	t.conn.Close()
	return nil
}

// discard closes the connection for good, with whatever is open on it.
func (t *transaction) discard() { sqlstore.Discard(t.conn) }

// inserted is the LAST_INSERT_ID of the last statement of a transaction.
func inserted(tx *sqlstore.Tx) int64 {
	switch s := tx.Session().(type) {
	case *transaction:
		return s.n
	case *joined:
		return s.n
	}
	return 0
}
