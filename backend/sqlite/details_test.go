package sqlite_test

import (
	"fmt"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
)

// TestDetails: groups are described many at once. The counts of their messages are right, also where together they exceed the
// bound up to which a statement counts.
func TestDetails(t *testing.T) {
	f := backendtest.New(t, open(t, path(t)))
	want := map[string]int{"large": 6000, "larger": 9000, "too large": backend.CountLimit}
	for i := range 70 {
		want[fmt.Sprint(i)] = 1 + i%3
	}
	f.Do(func(tx backend.Tx) error {
		var batch []backend.Posting
		for key, n := range want {
			if key == "too large" {
				n += 10
			}
			for range n {
				batch = append(batch, f.Posting(backend.Posting{Key: key}))
			}
		}
		_, err := tx.Post(f.Ctx, f.Version, batch)
		return err
	})
	list, err := f.Backend.Groups(f.Ctx, backend.GroupQuery{Queue: f.QP, Limit: 1000})
	f.OK(err)
	got := make(map[string]int)
	for _, g := range list {
		got[g.Key] = g.Messages
	}
	f.Equal("messages", got, want)
}
