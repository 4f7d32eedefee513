package mysql_test

import (
	"context"
	"sync"
	"testing"
)

// TestEndAmongStatements rolls transactions back while their statements are under
// way, as Close does. None may be carried out behind the rollback, by itself.
func TestEndAmongStatements(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db := connect(t, server, database(t, server), nil)
		b := open(t, db, nil)
		if _, err := db.Exec("CREATE TABLE mark (n INT)"); err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		for range 300 {
			tx, err := b.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			begun := make(chan struct{})
			var once sync.Once
			var work sync.WaitGroup
			work.Go(func() {
				for {
					if _, err := tx.SQL().ExecContext(ctx, "INSERT INTO mark VALUES (1)"); err != nil {
						return
					}
					once.Do(func() { close(begun) })
				}
			})
			<-begun
			if err := tx.Rollback(ctx); err != nil {
				t.Error(err)
			}
			work.Wait()
		}
		var n int
		if err := db.QueryRow("SELECT count(*) FROM mark").Scan(&n); err != nil || n != 0 {
			t.Errorf("%d statements were carried out after the end of their transaction, %v", n, err)
		}
	})
}
