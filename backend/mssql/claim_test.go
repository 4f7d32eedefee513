package mssql

import (
	"fmt"
	"testing"

	"github.com/parleymq/parley/backend"
)

// TestMerged: a page of streams and posts ends where the first of both may have more, and
// has each group once.
func TestMerged(t *testing.T) {
	id := func(n byte) backend.ID { return backend.ID{n} }
	list := func(what int64, first byte, sinces ...int64) (all []candidate) {
		for i, since := range sinces {
			all = append(all, candidate{what: what, id: id(first + byte(i)), priority: 5, since: since})
		}
		return all
	}
	streams, posts := list(2, 1, 10, 20, 30), list(3, 101, 15, 25)
	streams[1].id = id(1) // of the first one's group
	for _, x := range []struct {
		window int
		want   string
	}{
		{2, "[10 15 25] next 25"},
		{3, "[10 15 25 30] next 30"},
		{4, "[10 15 25 30]"},
	} {
		p := merged(x.window, streams[:min(x.window+1, 3)], posts)
		var sinces []int64
		for _, c := range p.list {
			sinces = append(sinces, c.since)
		}
		got := fmt.Sprint(sinces)
		if p.next.Valid {
			got += fmt.Sprint(" next ", p.next.Int64-list(0, 0, 0)[0].place())
		}
		if got != x.want {
			t.Errorf("window %d: %s, want %s", x.window, got, x.want)
		}
	}
}
