package pgxstore_test

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend/postgres/pgxstore"
)

// An order and the mail about it commit together. The worker notes in the same transaction
// that the mail is out.
func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://user@host/db")
	must(err)
	defer pool.Close()
	b, err := parley.New(ctx, pgxstore.New(pool, nil), nil)
	must(err)
	defer b.Close()

	tx, err := pool.Begin(ctx)
	must(err)
	defer tx.Rollback(ctx)
	_, err = tx.Exec(ctx, "INSERT INTO orders (id) VALUES ($1)", 7)
	must(err)
	_, err = pgxstore.Join(b, tx).Post(ctx, "mail", parley.Payload{Body: []byte("order 7")})
	must(err)
	must(tx.Commit(ctx))

	mux := parley.NewMux()
	mux.HandleFunc(parley.DefaultType, func(ctx context.Context, m *parley.Message) error {
		tx, err := m.Tx(ctx)
		if err != nil {
			return err
		}
		own, err := pgxstore.Tx(ctx, tx)
		if err != nil {
			return err
		}
		_, err = own.Exec(ctx, "INSERT INTO mails (text) VALUES ($1)", string(m.Body))
		return err
	})
	worker, err := b.NewWorker("mail", mux, nil)
	must(err)
	must(worker.Run(ctx))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
