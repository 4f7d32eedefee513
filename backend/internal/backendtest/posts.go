package backendtest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/parleymq/parley/backend"
)

// testNewKeys has several senders use the same keys for the first time, each some of
// them, together with older keys. All of their posts are there, each key is one group,
// and no sender of a single call meets a deadlock.
func testNewKeys(f *Fixture) {
	const senders, rounds, keys = 6, 40, 12
	errs := make(chan error, senders*rounds)
	var all sync.WaitGroup
	var posts atomic.Int64
	for s := range senders {
		random := rand.New(rand.NewPCG(uint64(s), 1))
		all.Go(func() {
			for round := range rounds {
				var batch []backend.Posting
				for _, k := range random.Perm(keys)[:2+random.IntN(keys-2)] {
					// Half of a round's keys come from the one before.
					name := fmt.Sprint("key ", k, " of ", (round+k%2)/2)
					batch = append(batch, f.Posting(backend.Posting{Key: name, Body: []byte("x")}))
				}
				posts.Add(int64(len(batch)))
				errs <- f.Try(func(tx backend.Tx) error {
					_, err := tx.Post(f.Ctx, f.Version, batch)
					return err
				})
			}
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		f.OK(err)
	}
	groups, got := make(map[string]int), 0
	for {
		r := f.Request(f.QP)
		r.MaxGroups, r.MaxMessages = 100, 100
		c := f.Claim(r)
		if len(c.Holds) == 0 {
			break
		}
		for _, h := range c.Holds {
			groups[h.Messages[0].Key]++
			got += len(h.Messages)
			f.Ack(h)
		}
	}
	f.Equal("posts", got, int(posts.Load()))
	for key, n := range groups {
		f.Equal("groups of "+key, n, 1)
	}
}
