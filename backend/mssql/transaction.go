package mssql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// transaction is a transaction of ours.
type transaction struct {
	session
	tx     *sql.Tx
	cancel context.CancelFunc
}

// begin starts a transaction that outlives ctx, but whose beginning does not.
func (p *pool) begin(ctx context.Context) (sqlstore.Transaction, error) {
	if p.invalid != nil {
		return nil, p.invalid
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	tx, err := p.db.BeginTx(life, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	switch {
	case stop() && err == nil:
		return &transaction{session{tx, inside}, tx, cancel}, nil
	case err == nil: // ctx ended meanwhile
		tx.Rollback()
		err = ctx.Err()
	}
	cancel()
	if number(err) == 0 {
		err = sqlstore.Unreached(ctx, err)
	}
	return nil, err
}

// SQL implements sqlstore.Transaction.
func (t *transaction) SQL() backend.Execer { return sqlstore.Whole{Execer: t.tx} }

// Commit implements sqlstore.Transaction.
func (t *transaction) Commit(context.Context) error {
	defer t.cancel()
	return t.tx.Commit()
}

// Rollback implements sqlstore.Transaction. A transaction that the server has ended needs no
// rollback.
func (t *transaction) Rollback(context.Context) error {
	defer t.cancel()
	err := t.tx.Rollback()
	if errors.Is(err, sqldriver.ErrBadConn) || errors.Is(err, sql.ErrTxDone) || number(err) == 3903 {
		return nil
	}
	return err
}

// The values of sys.dm_exec_sessions.transaction_isolation_level at which
// READPAST is allowed and UPDLOCK does not lock ranges.
const (
	readCommitted  = 2
	repeatableRead = 3
)

// join works in the user's transaction, if there is one, at a level at which the
// statements lock what they are meant to.
func (p *pool) join(ctx context.Context, tx backend.Execer) (sqlstore.Session, error) {
	if p.invalid != nil {
		return nil, p.invalid
	}
	var open, state, level int
	err := tx.QueryRowContext(ctx, `
		SELECT @@TRANCOUNT, XACT_STATE(), transaction_isolation_level
		  FROM sys.dm_exec_sessions WHERE session_id = @@SPID`).Scan(&open, &state, &level)
	switch {
	case err != nil:
		return nil, err
	case open == 0:
		return nil, sqlstore.ErrNoTx
	case state < 0:
		return nil, sqlstore.Classified(backend.ErrSerialization, errors.New("the transaction can only be rolled back"))
	case level != readCommitted && level != repeatableRead:
		return nil, sqlstore.Classified(backend.ErrIsolation, errors.New("want READ COMMITTED or REPEATABLE READ"))
	}
	return session{tx, inside}, nil
}

// point is the name of a savepoint. T-SQL uses 32 characters of it.
func point(name string) string {
	if len(name) <= 32 {
		return name
	}
	h := fnv.New64a()
	h.Write([]byte(name))
	return fmt.Sprintf("s_%x", h.Sum(nil))
}

func setPoint(name string) string { return "SAVE TRANSACTION " + point(name) }

// backToPoint sets the savepoint again, so that it is still there.
func backToPoint(name string) string {
	return fmt.Sprintf("ROLLBACK TRANSACTION %s; SAVE TRANSACTION %[1]s", point(name))
}
