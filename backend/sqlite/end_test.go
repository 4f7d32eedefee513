package sqlite_test

import (
	"context"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
)

// TestEndBesideStatement closes a store while a transaction of its is at work:
// nothing of that may be carried out by itself, behind its end.
func TestEndBesideStatement(t *testing.T) {
	file := path(t)
	db := user(t, file)
	if _, err := db.Exec("CREATE TABLE effect (n INTEGER)"); err != nil {
		t.Fatal(err)
	}
	open(t, file)
	for i := range 50 {
		b := open(t, file)
		tx, err := b.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		begun, over := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(over)
			ctx := context.Background()
			verbs := []func() error{ // each prepares another statement
				func() error { _, err := tx.Once(ctx, "key", time.Hour); return err },
				func() error { _, err := tx.Members(ctx, backend.NewID()); return err },
				func() error { return tx.Demote(ctx, backend.NewID()) },
				func() error { _, err := tx.RemoveDead(ctx, backend.NewID()); return err },
				func() error { return tx.ResetReader(ctx, backend.NewID()) },
			}
			for n := 0; ; n++ {
				if n > 0 && verbs[n%len(verbs)]() != nil {
					return
				}
				if _, err := tx.SQL().ExecContext(ctx, "INSERT INTO effect VALUES (?)", n); err != nil {
					return
				}
				if n == 0 {
					close(begun)
				}
			}
		}()
		<-begun
		time.Sleep(time.Duration(i) * 50 * time.Microsecond)
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		<-over
	}
	var n int
	if err := db.QueryRow("SELECT count(*) FROM effect").Scan(&n); err != nil || n > 0 {
		t.Errorf("%d statements were carried out behind the end of their transactions, %v", n, err)
	}
}
