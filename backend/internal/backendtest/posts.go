package backendtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

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
// them: all of their posts are there, and each key is one group. A sender that meets
// a deadlock, which a third one can make of two, sends again.
func testNewKeys(f *Fixture) {
	const senders, rounds, keys = 4, 25, 12
	errs := make(chan error, senders*rounds)
	var all sync.WaitGroup
	var posts atomic.Int64
	for s := range senders {
		random := rand.New(rand.NewPCG(uint64(s), 1))
		all.Go(func() {
			for round := range rounds {
				var batch []backend.Posting
				for _, k := range random.Perm(keys)[:2+random.IntN(keys-2)] {
					batch = append(batch, f.Posting(backend.Posting{Key: fmt.Sprint("round ", round, " key ", k), Body: []byte("x")}))
				}
				posts.Add(int64(len(batch)))
				post := func(tx backend.Tx) error {
					_, err := tx.Post(f.Ctx, f.Version, batch)
					return err
				}
				err := f.Try(post)
				for errors.Is(err, backend.ErrSerialization) {
					err = f.Try(post)
				}
				errs <- err
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

func testUnique(f *Fixture) {
	p := f.Posting(backend.Posting{Unique: "u", Body: []byte("1")})
	post := func(p backend.Posting) (other backend.ID) {
		f.Do(func(tx backend.Tx) error {
			done, err := tx.Post(f.Ctx, f.Version, []backend.Posting{p})
			if err == nil {
				other = done[0].Duplicate
			}
			return err
		})
		return other
	}
	f.Equal("first", post(p), backend.ID{})
	f.Equal("second", post(f.Posting(backend.Posting{Unique: "u"})), p.ID)
	h := f.One(f.Request(f.QP))
	f.Equal("in hand", post(f.Posting(backend.Posting{Unique: "u"})), p.ID)
	f.Ack(h)
	for _, key := range []string{"", "k"} {
		for _, delay := range []time.Duration{0, time.Hour} {
			p := f.Posting(backend.Posting{Unique: "u", Key: key, Delay: delay})
			f.Equal("again", post(p), backend.ID{})
			f.Equal("duplicate", post(f.Posting(backend.Posting{Unique: "u"})), p.ID)
			if delay > 0 {
				f.Do(func(tx backend.Tx) error { return tx.Cancel(f.Ctx, f.QP, p.ID) })
			} else {
				f.Equal("drained", len(f.Drain(f.QP)), 1)
			}
		}
	}
	f.Do(func(tx backend.Tx) error {
		done, err := tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{ID: p.ID, Unique: "v"}), f.Posting(backend.Posting{Unique: "v"})})
		f.Equal("in one call", done, []backend.Posted{{}, {Duplicate: p.ID}})
		return err
	})
}

func testCancel(f *Fixture) {
	cancel := func(id backend.ID) error {
		return f.Try(func(tx backend.Tx) error { return tx.Cancel(f.Ctx, f.QP, id) })
	}
	f.Is(cancel(backend.NewID()), backend.ErrNotPending)
	ids := []backend.ID{
		f.Post(backend.Posting{}),
		f.Post(backend.Posting{Key: "k", Body: []byte("1")}),
		f.Post(backend.Posting{Delay: time.Hour}),
		f.Post(backend.Posting{Delay: time.Hour, Key: "k"}),
	}
	f.Post(backend.Posting{Key: "k", Body: []byte("2")})
	for _, id := range ids {
		if s, err := f.Backend.PostStatus(f.Ctx, f.QP, id); err != nil || s.ID != id {
			f.Errorf("status %+v, %v", s, err)
		}
		f.OK(cancel(id))
		f.Is(cancel(id), backend.ErrNotPending)
		_, err := f.Backend.PostStatus(f.Ctx, f.QP, id)
		f.Is(err, backend.ErrNotPending)
	}
	h := f.One(f.Request(f.QP))
	f.Equal("left", Bodies(h.Messages), []string{"2"})
	f.Is(cancel(h.Messages[0].ID), backend.ErrNotPending)
	f.Ack(h)
	id := f.Post(backend.Posting{})
	h = f.One(f.Request(f.QP))
	f.Is(cancel(id), backend.ErrNotPending)
	f.Ack(h)
}
