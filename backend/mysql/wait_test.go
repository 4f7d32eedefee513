package mysql_test

import (
	"strconv"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
)

// TestNewest: what is new in a queue shows, and to ask takes a few rows of each priority,
// however many messages wait.
func TestNewest(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db := connect(t, server, database(t, server), nil)
		db.SetMaxOpenConns(1) // whose count it is
		store := open(t, db, nil)
		f := backendtest.New(t, store)
		newest := func() (found map[int64]int64, rows int) {
			t.Helper()
			least := 0
			for round := range 3 { // the first looks into the catalog
				before := rowsRead(t, db)
				var err error
				if found, err = store.Newest(f.Ctx, []int64{f.QP, f.QB}); err != nil {
					t.Fatal(err)
				}
				if n := rowsRead(t, db) - before; round == 0 || n < least {
					least = n
				}
			}
			return found, least
		}
		post := func(n int, p backend.Posting) {
			t.Helper()
			var posts []backend.Posting
			for i := range n {
				if p.Key != "" {
					p.Key = strconv.Itoa(i)
				}
				p.Rank = i%3 + 4
				posts = append(posts, f.Posting(p))
			}
			f.Do(func(tx backend.Tx) error { _, err := tx.Post(f.Ctx, f.Version, posts); return err })
		}
		if found, _ := newest(); len(found) != 0 {
			t.Errorf("in empty queues the newest are %v", found)
		}
		var last int64
		for _, p := range []backend.Posting{{}, {Key: "k"}, {}} {
			post(1000, p)
			found, rows := newest()
			if found[f.QP] <= last || len(found) != 1 {
				t.Errorf("after a post the newest are %v, and before it %d", found, last)
			}
			if rows > 100 {
				t.Errorf("to find the newest %d rows are read", rows)
			}
			last = found[f.QP]
		}
		f.Send(f.Open().A.Handle, "x")
		if found, _ := newest(); found[f.QB] == 0 {
			t.Errorf("after a send the newest are %v", found)
		}
	})
}
