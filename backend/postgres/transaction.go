package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/lib/pq"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

var level = &sql.TxOptions{Isolation: sql.LevelReadCommitted}

var reading = &sql.TxOptions{Isolation: sql.LevelReadCommitted, ReadOnly: true}

// begin starts a transaction, in one trip.
func (p *pool) begin(ctx context.Context) (sqlstore.Transaction, error) {
	if err := p.probe(ctx); err != nil {
		return nil, err
	}
	p.prepare(ctx)
	if backend.IsReadOnly(ctx) {
		return p.beginWhole(ctx, reading)
	}
	if p.options.Locks == LocksNative {
		return p.beginNative(ctx)
	}
	if (p.libpq || p.keeps) && backend.IsAlone(ctx) && !p.strict.Load() {
		return p.beginAlone(ctx)
	}
	return p.beginWhole(ctx, level)
}

func (p *pool) beginWhole(ctx context.Context, o *sql.TxOptions) (*transaction, error) {
	tx, cancel, err := p.beginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	return &transaction{p: p, tx: tx, cancel: cancel}, nil
}

// beginTx starts a transaction that outlives ctx, but whose beginning does not.
func (p *pool) beginTx(ctx context.Context, o *sql.TxOptions) (*sql.Tx, context.CancelFunc, error) {
	return p.beginOn(ctx, p.db, o)
}

// beginner is a pool, or a connection of it.
type beginner interface {
	BeginTx(context.Context, *sql.TxOptions) (*sql.Tx, error)
}

func (p *pool) beginOn(ctx context.Context, on beginner, o *sql.TxOptions) (*sql.Tx, context.CancelFunc, error) {
	if ctx.Done() == nil {
		tx, err := on.BeginTx(ctx, o)
		return tx, func() {}, refused(ctx, err)
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	tx, err := on.BeginTx(own, o)
	if !stop() && err == nil {
		tx.Rollback()
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return nil, nil, refused(ctx, err)
	}
	return tx, cancel, nil
}

// refused tells a standby from other trouble at the beginning of a transaction:
// "cannot set transaction read-write mode during recovery" has the code of
// whatever is not supported.
func refused(ctx context.Context, err error) error {
	if sqlState(err) == "0A000" {
		return sqlstore.Classified(backend.ErrReadOnly, err)
	}
	return unreached(ctx, err)
}

// transaction is a transaction of ours.
type transaction struct {
	p      *pool
	tx     *sql.Tx
	cancel context.CancelFunc
	reads  sqlstore.Reads // what the application's statements depend on

	applied bool // the application works in it too

	ending bool // a statement of the application's may have ended it
	ended  bool // and has

	conn *sql.Conn // with native locks, to release them after the end, or of one verb
	keys *keys     // what it has of them

	canceller *canceller // of conn, if that is one of pgx and for one verb
	spent     bool       // a late request to cancel may meet what conn does next

	sqlstore.Alone
}

// Exec implements sqlstore.Session.
func (t *transaction) Exec(ctx context.Context, q *sqlstore.Stmt, args []any) (res sql.Result, err error) {
	if res, done, err := t.byItself(ctx, q, args); done {
		return res, err
	}
	if err := t.there(ctx); err != nil {
		return nil, err
	}
	if s := t.p.statement(q); s != nil {
		res, err = t.tx.StmtContext(ctx, s).ExecContext(ctx, args...)
	} else {
		text, args := t.p.unprepared(q, args)
		res, err = t.tx.ExecContext(ctx, text, args...)
	}
	return res, t.failed(err)
}

// Query implements sqlstore.Session.
func (t *transaction) Query(ctx context.Context, q *sqlstore.Stmt, args []any) (rows *sql.Rows, err error) {
	if err := t.there(ctx); err != nil {
		return nil, err
	}
	if s := t.p.statement(q); s != nil {
		rows, err = t.tx.StmtContext(ctx, s).QueryContext(ctx, args...)
	} else {
		text, args := t.p.unprepared(q, args)
		rows, err = t.tx.QueryContext(ctx, text, args...)
	}
	return rows, t.failed(err)
}

// failed takes note of what a statement of ours has failed with.
func (t *transaction) failed(err error) error {
	t.p.check(err)
	if t.applied {
		err = t.p.strayed(err)
	}
	return err
}

// Point implements sqlstore.Pointing.
func (t *transaction) Point(ctx context.Context, text string) error {
	if err := t.there(ctx); err != nil {
		return err
	}
	_, err := t.tx.ExecContext(ctx, text)
	return err
}

// SQL implements sqlstore.Transaction.
func (t *transaction) SQL() backend.Execer {
	if err := t.enter(context.Background()); err != nil {
		return sqlstore.Failing(err)
	}
	t.applied = true
	return sqlstore.Whole{Execer: sqlstore.Reader{Execer: t.tx, Reads: &t.reads}, May: func() { t.ending = true }}
}

// there returns an error if a statement of the application's has ended the transaction:
// each that follows would be one by itself. Only inside of one is a savepoint allowed. It
// returns ErrRowsOpen while the application reads rows, since the driver would break the
// connection or wait.
func (t *transaction) there(ctx context.Context) error {
	if err := t.enter(ctx); err != nil {
		return err
	}
	if t.reads.Left() {
		return backend.ErrRowsOpen
	}
	if t.ending && !t.ended {
		_, err := t.tx.ExecContext(ctx, "SAVEPOINT parley_there")
		if err == nil {
			_, err = t.tx.ExecContext(ctx, "RELEASE SAVEPOINT parley_there")
		}
		t.ended = sqlState(err) == "25P01" // no_active_sql_transaction
		t.ending = t.ended
	}
	if t.ended {
		return sqlstore.ErrEnded
	}
	return nil
}

// Commit implements sqlstore.Transaction.
func (t *transaction) Commit(ctx context.Context) error {
	if t.Over() {
		return t.leave()
	}
	if err := t.there(context.WithoutCancel(ctx)); err != nil {
		t.Rollback(ctx)
		return err
	}
	defer t.giveBack()
	defer t.cancel()
	return lostCommit(t.tx.Commit())
}

// Rollback implements sqlstore.Transaction.
func (t *transaction) Rollback(context.Context) error {
	if t.Over() {
		return t.leave()
	}
	defer t.giveBack()
	defer t.cancel()
	t.reads.Close() // a statement that is under way would be waited for
	err := t.tx.Rollback()
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrTxDone) {
		return nil // it is gone with its connection
	}
	return err
}

// leave gives the connection of one verb back.
func (t *transaction) leave() error {
	if t.spent {
		sqlstore.Discard(t.conn)
		return nil
	}
	return t.conn.Close()
}

// lostCommit returns ErrSerialization for a COMMIT in a failed transaction, which rolls back.
func lostCommit(err error) error {
	if errors.Is(err, pq.ErrInFailedTransaction) {
		return sqlstore.Classified(backend.ErrSerialization, err)
	}
	return err
}
