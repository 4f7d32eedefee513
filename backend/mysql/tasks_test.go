package mysql_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
)

// TestFinishTasks ends many tasks beside others who end some: it waits for those that
// it has in common with them, and for no other.
func TestFinishTasks(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		f := backendtest.New(t, open(t, connect(t, server, database(t, server), nil), nil))

		// Every second one is in a transaction of its worker's.
		ends := f.Tasks(20, 0)
		inHand := f.Begin()
		var rest []backend.TaskEnd
		for i, e := range ends {
			if i%2 == 0 {
				f.OK(inHand.LockTask(f.Ctx, e.Hold))
			} else {
				rest = append(rest, e)
			}
		}
		soon, cancel := context.WithTimeout(f.Ctx, 5*time.Second)
		defer cancel()
		tx := f.Begin()
		lost, err := tx.FinishTasks(soon, rest)
		f.OK(err)
		f.Equal("lost", len(lost), 0)
		f.OK(tx.Commit(f.Ctx))
		f.OK(inHand.Commit(f.Ctx))

		// Of two who end the same ones at once, in opposite orders, one gets them.
		ends = f.Tasks(200, 0)
		back := slices.Clone(ends)
		slices.Reverse(back)
		type result struct {
			lost int
			err  error
		}
		finish := func(list []backend.TaskEnd, results chan<- result) {
			var lost []backend.ID
			err := f.Try(func(tx backend.Tx) (err error) {
				lost, err = tx.FinishTasks(f.Ctx, list)
				return err
			})
			results <- result{len(lost), err}
		}
		for round := range 20 {
			some, same := ends[10*round:][:10], back[190-10*round:][:10]
			results := make(chan result)
			go finish(some, results)
			go finish(same, results)
			one, other := <-results, <-results
			f.OK(errors.Join(one.err, other.err))
			f.Equal("lost by one of them", max(one.lost, other.lost), 10)
			f.Equal("lost by the other", min(one.lost, other.lost), 0)
		}

		// One waits for a transaction that gives its tasks back, and has them then.
		ends = f.Tasks(10, 0)
		first := f.Begin()
		lost, err = first.FinishTasks(f.Ctx, ends)
		f.OK(err)
		f.Equal("lost", len(lost), 0)
		done := make(chan result)
		go finish(ends, done)
		select {
		case r := <-done:
			t.Fatalf("it did not wait: %v", r)
		case <-time.After(200 * time.Millisecond):
		}
		f.OK(first.Rollback(f.Ctx))
		r := <-done
		f.OK(r.err)
		f.Equal("lost", r.lost, 0)
	})
}
