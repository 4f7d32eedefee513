package pgxstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/parleymq/parley"
)

// InBatch sends what f queues in the batch, and posts of tx, to the database in one round trip. They are one transaction:
// all of it is committed, or nothing.
//
//	err := pgxstore.InBatch(ctx, b, pool, func(batch *pgx.Batch, tx *parley.Tx) error {
//		batch.Queue("INSERT INTO orders …", …)
//		_, err := tx.Post(ctx, "mail", parley.Payload{Body: body})
//		return err
//	})
//
// Posts without key, delay and unique value go with the batch. Any other verb of tx needs an answer of the database.
// Then f is called once more, in an ordinary transaction. The verbs of tx then take effect at once, and the batch is
// sent before the commit. That is also done when the catalog has changed since this process read it. So f may be called
// twice, with a new batch, and does nothing but to fill it. An error of f leaves nothing behind. An error of the
// connection says nothing of whether the transaction was committed.
func InBatch(ctx context.Context, b *parley.Broker, pool *pgxpool.Pool, f func(batch *pgx.Batch, tx *parley.Tx) error) error {
	l := &batched{batch: new(pgx.Batch)}
	if err := f(l.batch, b.Join(l)); err != nil && !l.asked {
		return err
	}
	if !l.asked {
		if err := send(ctx, pool, l.batch); !l.stale {
			return err
		}
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		batch := new(pgx.Batch)
		if err := f(batch, Join(b, tx)); err != nil {
			return err
		}
		return send(ctx, tx, batch)
	})
}

func send(ctx context.Context, to interface {
	SendBatch(context.Context, *pgx.Batch) pgx.BatchResults
}, batch *pgx.Batch) error {
	if batch.Len() == 0 {
		return nil
	}
	return to.SendBatch(ctx, batch).Close()
}

// batched is a transaction that is sent at once, when it is complete. So it answers nothing.
type batched struct {
	batch *pgx.Batch
	asked bool // a statement needs an answer
	stale bool // a post was refused: the catalog is another one, or the queue is off
}

var errAsked = errors.New("parley: pgxstore: a batch has no answers before it is sent")

// Later takes a statement of Parley's.
func (l *batched) Later(_ context.Context, text string, args []any) error {
	l.batch.Queue(text, args...).Fn = func(r pgx.BatchResults) error {
		_, err := r.Exec()
		var e *pgconn.PgError
		l.stale = l.stale || errors.As(err, &e) && e.Code == "22012" // division_by_zero
		return err
	}
	return nil
}

// ExecContext implements backend.Execer.
func (l *batched) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	l.asked = true
	return nil, errAsked
}

// QueryContext implements backend.Execer.
func (l *batched) QueryContext(context.Context, string, ...any) (*sql.Rows, error) {
	l.asked = true
	return nil, errAsked
}

// QueryRowContext implements backend.Execer.
func (l *batched) QueryRowContext(ctx context.Context, query string, _ ...any) *sql.Row {
	l.asked = true
	return joins().QueryRowContext(ctx, query) // an error: it is of no transaction
}

// PrepareContext implements backend.Execer.
func (l *batched) PrepareContext(context.Context, string) (*sql.Stmt, error) {
	l.asked = true
	return nil, errAsked
}
