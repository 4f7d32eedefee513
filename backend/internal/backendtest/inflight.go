package backendtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
)

// InFlight claims what is free behind n groups in flight, of which n promotions are.
func InFlight(t *testing.T, b backend.Backend, n int) {
	f := New(t, b)
	batches := func(do func(from, to int)) {
		for from := 0; from < n; from += 1000 {
			do(from, min(from+1000, n))
		}
	}
	batches(func(from, to int) {
		var posts []backend.Posting
		for i := from; i < to; i++ {
			posts = append(posts, f.Posting(backend.Posting{Key: fmt.Sprint("k", i), Rank: 9}))
		}
		f.Do(func(tx backend.Tx) error {
			_, err := tx.Post(f.Ctx, f.Version, posts)
			return err
		})
	})
	var holds []*backend.Hold
	for len(holds) < n {
		r := f.Request(f.QP)
		r.MaxGroups, r.MaxMessages, r.Lease = 1000, 1, time.Hour
		c := f.Claim(r)
		if len(c.Holds) == 0 {
			f.Fatalf("%d groups were claimed of %d that are there", len(holds), n)
		}
		holds = append(holds, c.Holds...)
	}
	if c := f.None(f.Request(f.QP)); !c.Contended {
		f.Error("all that is there is in flight, and a claim does not say that there is something")
	}
	f.Post(backend.Posting{Rank: 5, Body: []byte("post")})
	f.Post(backend.Posting{Rank: 4, Key: "low", Body: []byte("low")})
	f.Post(backend.Posting{Rank: 9, Key: "first", Body: []byte("first")})
	f.Post(backend.Posting{Rank: 9, Key: "second", Body: []byte("second")})
	f.Post(backend.Posting{Rank: 10, Body: []byte("high post")})
	f.Equal("behind what is in flight", f.Drain(f.QP), []string{"high post", "first", "second", "post", "low"})

	batches(func(from, to int) {
		f.Do(func(tx backend.Tx) error {
			for _, h := range holds[from:to] {
				if err := tx.Promote(f.Ctx, backend.Promotion{Group: h.Group, Level: 5, Sticky: true}); err != nil {
					return err
				}
			}
			return nil
		})
	})
	f.Post(backend.Posting{Rank: 10, Key: "ordinary", Body: []byte("ordinary")})
	var promoted []backend.ID
	for _, body := range []string{"third", "second", "first"} {
		promoted = append(promoted, f.Post(backend.Posting{Rank: 1, Body: []byte(body)}))
	}
	for i, level := range []int{1, 5, 6} {
		f.Do(func(tx backend.Tx) error {
			return tx.Promote(f.Ctx, backend.Promotion{Group: promoted[i], Level: level})
		})
	}
	f.Equal("behind promotions in flight", f.Drain(f.QP), []string{"first", "second", "third", "ordinary"})

	f.Settle(backend.Outcome{Hold: holds[0]}) // which comes before all that claims have passed
	got := f.One(f.Request(f.QP))
	f.Equal("the group that was given back", got.Group, holds[0].Group)
}
