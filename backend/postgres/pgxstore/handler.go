package pgxstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/parleymq/parley"
)

// Tx returns the pgx transaction in which tx works: the transaction of a handler's message
// (Message.Tx), of Broker.InTx, or of the caller of Join. Its Commit and Rollback return an error,
// because whatever began the transaction ends it. Its Begin makes a savepoint. The store must come
// from New, or work on a *sql.DB of pgx.
func Tx(ctx context.Context, tx *parley.Tx) (pgx.Tx, error) {
	found := new(found)
	var err error
	if run := tx.SQL(); run != nil {
		if d, ok := run.(interface{ Direct() }); ok {
			d.Direct()
		}
		_, err = run.ExecContext(ctx, "SELECT 1", found)
	}
	if found.conn == nil {
		return nil, fmt.Errorf("parley: pgxstore: the transaction is not one of pgx: %w", errors.Join(err, errors.ErrUnsupported))
	}
	// An empty statement begins it, in a transaction that has begun.
	of, err := found.conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: ";"})
	if err != nil {
		return nil, err
	}
	return within{of}, nil
}

// found is an argument by which pgx tells on which connection a statement is to run. It is
// not run then.
type found struct{ conn *pgx.Conn }

var errFound = errors.New("the connection is found")

// RewriteQuery implements pgx.QueryRewriter.
func (f *found) RewriteQuery(_ context.Context, c *pgx.Conn, _ string, _ []any) (string, []any, error) {
	f.conn = c
	return "", nil, errFound
}

// errNotOurs is returned to a handler that tries to end Parley's transaction.
var errNotOurs = errors.New("parley: pgxstore: the transaction ends with the handler, or with what began it")

// within is a transaction whose end is not the program's to bring about.
type within struct{ pgx.Tx }

func (within) Commit(context.Context) error   { return errNotOurs }
func (within) Rollback(context.Context) error { return errNotOurs }
