package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend/postgres"
)

// TestWakeAfterRollbackToSavepoint: what a joined transaction sends after a rollback
// to a savepoint wakes receivers of other processes, although the server has dropped
// what it was to tell them for sends before.
func TestWakeAfterRollbackToSavepoint(t *testing.T) {
	ctx := t.Context()
	db := connect(t, "pgx", server(t))
	name := schema(t, db)
	var brokers [2]*parley.Broker
	for i := range brokers {
		b, err := parley.New(ctx, open(t, db, postgres.Options{Schema: name}), &parley.Options{NoMaintenance: true, Poll: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		brokers[i] = b
	}
	sends, receives := brokers[0], brokers[1]
	if err := sends.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "q"}}}); err != nil {
		t.Fatal(err)
	}
	for _, rolledBack := range []bool{false, true} { // the first to know that it listens
		got := make(chan error, 1)
		go func() {
			d, err := receives.Receive(ctx, "q", &parley.ReceiveOptions{Wait: 10 * time.Second})
			if err == nil {
				err = d.Ack(ctx)
			}
			got <- err
		}()
		time.Sleep(100 * time.Millisecond) // most likely it waits by now; if not, the test finds nothing
		mine, err := db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		tx := sends.Join(mine)
		post := func() error {
			_, err := tx.Post(ctx, "q", parley.Payload{})
			return err
		}
		if rolledBack {
			if err := errors.Join(tx.Savepoint(ctx, "before"), post(), tx.RollbackTo(ctx, "before")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(400 * time.Millisecond) // until this process has stopped looking again
		if err := errors.Join(post(), mine.Commit()); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Errorf("rolled back: %t: %v", rolledBack, err)
		}
	}
}
