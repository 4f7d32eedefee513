package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/parleymq/parley/backend/postgres"
)

// TestCloseBesideListener closes a store whose statements were prepared on a connection on which
// another store of the same handle now listens.
func TestCloseBesideListener(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	db := connect(t, "pgx", server(t))
	db.SetMaxOpenConns(3)
	db.SetMaxIdleConns(3)
	own := schema(t, connect(t, "pgx", server(t)))
	first, second := open(t, db, postgres.Options{Schema: own}), open(t, db, postgres.Options{Schema: own})
	for range 20 { // until its statements are prepared on all connections
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if _, err := first.ReaderRecords(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	listening, stop := context.WithCancel(ctx)
	heard, over := make(chan struct{}, 100), make(chan struct{})
	go func() {
		defer close(over)
		second.Listen(listening, func(int64) { heard <- struct{}{} })
	}()
	<-heard
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Error("Close has not returned after 20 s")
	}
	stop()
	<-over
	<-closed
}
