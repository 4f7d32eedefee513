package backendtest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/parleymq/parley/backend"
)

func testPosts(f *Fixture) {
	var want []string
	for i := range 5 {
		f.Post(backend.Posting{Body: []byte(fmt.Sprint(i))})
		want = append(want, fmt.Sprint(i))
	}
	f.Equal("drained", f.Drain(f.QP), want)

	batch := make([]backend.Posting, 50)
	want = nil
	for i := range batch {
		batch[i] = f.Posting(backend.Posting{Body: []byte(fmt.Sprintf("%02d", i))})
		want = append(want, fmt.Sprintf("%02d", i))
	}
	f.Do(func(tx backend.Tx) error {
		posted, err := tx.Post(f.Ctx, f.Version, batch)
		f.Equal("posted", len(posted), 50)
		return err
	})
	r := f.Request(f.QP)
	r.MaxGroups = 20
	c := f.Claim(r)
	f.Equal("holds", len(c.Holds), 20)
	var got []string
	var all []backend.Outcome
	for _, h := range c.Holds {
		f.Equal("group", h.Group, h.Messages[0].ID)
		got = append(got, Bodies(h.Messages)...)
		all = append(all, backend.Outcome{Hold: h, Done: h.Messages})
	}
	f.Equal("bodies", got, want[:20])
	f.Settle(all...)
	f.Equal("drained", f.Drain(f.QP), want[20:])

	f.Version--
	f.Is(f.Try(func(tx backend.Tx) error { _, err := tx.Post(f.Ctx, f.Version, batch[:1]); return err }), backend.ErrStaleCatalog)
	f.Is(f.Try(func(tx backend.Tx) error { _, err := tx.Post(f.Ctx, f.Version, batch); return err }), backend.ErrStaleCatalog)
	f.Is(f.Try(func(tx backend.Tx) error { _, err := tx.Claim(f.Ctx, f.Request(f.QP)); return err }), backend.ErrStaleCatalog)
	f.Version++
}

func testKeys(f *Fixture) {
	for i := range 3 {
		f.Post(backend.Posting{Key: "k", Body: []byte(fmt.Sprint("k", i))})
		f.Post(backend.Posting{Key: "l", Body: []byte(fmt.Sprint("l", i))})
	}
	h := f.One(f.Request(f.QP))
	f.Equal("bodies", Bodies(h.Messages), []string{"k0", "k1", "k2"})
	f.Equal("key", h.Messages[0].Key, "k")
	f.Equal("kind", h.Messages[0].Kind, backend.KindUser)
	// Acknowledging a part leaves the rest.
	f.Settle(backend.Outcome{Hold: h, Done: h.Messages[:1]})
	f.Equal("drained", sorted(f.Drain(f.QP)), []string{"k1", "k2", "l0", "l1", "l2"})
	var batch []backend.Posting
	for i := range 20 {
		batch = append(batch, f.Posting(backend.Posting{Key: fmt.Sprint(i % 4), Body: []byte(fmt.Sprintf("%02d", i))}))
	}
	f.Do(func(tx backend.Tx) error { _, err := tx.Post(f.Ctx, f.Version, batch); return err })
	r := f.Request(f.QP)
	r.MaxGroups = 10
	c := f.Claim(r)
	f.Equal("holds", len(c.Holds), 4)
	for _, h := range c.Holds {
		b := Bodies(h.Messages)
		f.Equal("in order", b, sorted(b))
		f.Equal("messages", len(b), 5)
		f.Ack(h)
	}
}

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
