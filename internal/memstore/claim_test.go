package memstore

import (
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
)

// TestStranded: an operator sees messages that no marker leads to, and Unpark puts them back.
func TestStranded(t *testing.T) {
	b := newBench(t, "")
	var group backend.ID
	b.do(func(tx *Tx) { b.post(tx, "k", "1"); b.post(tx, "k", "2") })
	look := func(want int) {
		t.Helper()
		list, err := b.h.Groups(ctx, backend.GroupQuery{Queue: queueP, Limit: 10})
		b.must(err)
		if len(list) != 1 || list[0].Messages != 2 || list[0].Stranded != want {
			t.Fatalf("groups %+v, want one with %d stranded messages", list, want)
		}
		group = list[0].Group
	}
	look(0)
	b.do(func(tx *Tx) { b.store.unmark(tx, group) })
	look(2)
	b.do(func(tx *Tx) { b.must(tx.Unpark(ctx, group)) })
	look(0)
}

func TestRank(t *testing.T) {
	b := newBench(t, "")
	low, _ := b.dialog(3)
	high, _ := b.dialog(9)
	older, olderTo := b.dialog(5)
	younger, youngerTo := b.dialog(5)
	b.do(func(tx *Tx) {
		b.send(tx, low, "low")
		b.send(tx, older, "older")
		b.send(tx, younger, "younger", "again")
		b.send(tx, high, "high")
	})
	promote := func(p backend.Promotion) {
		b.do(func(tx *Tx) { b.must(tx.Promote(ctx, p)) })
	}
	promote(backend.Promotion{Group: olderTo, Level: 100})
	promote(backend.Promotion{Group: youngerTo, Level: 7})
	promote(backend.Promotion{Group: youngerTo, Level: 100, Sticky: true})
	promote(backend.Promotion{Group: olderTo, Level: 100}) // it is the later one now

	// Taken and given back, a promotion stays.
	tx := b.begin()
	if c := b.claim(tx, b.request(queueB)); !c.Holds[0].Promoted || c.Holds[0].Group != youngerTo {
		t.Errorf("claimed %+v first", c.Holds[0])
	}
	// Held, it does not stop the others.
	b.equal(b.receive(queueB), "older")
	b.must(tx.Rollback(ctx))

	b.equal(b.receive(queueB), "younger", "again")
	b.do(func(tx *Tx) { b.send(tx, older, "served"); b.send(tx, younger, "sticky") })
	b.equal(b.receive(queueB), "sticky")
	b.equal(b.receive(queueB), "high")
	b.equal(b.receive(queueB), "served")
	b.equal(b.receive(queueB), "low")
	b.equal(b.receive(queueB))
	tx = b.begin()
	b.want(tx.Promote(ctx, backend.Promotion{Group: backend.NewID()}), backend.ErrNoGroup)
	b.must(tx.Rollback(ctx))
}

func TestLimits(t *testing.T) {
	b := newBench(t, "")
	from, to := b.dialog(5)
	b.do(func(tx *Tx) { b.send(tx, from, "aaaa", "bbbb", "cccc", "dddd") })
	b.do(func(tx *Tx) { b.post(tx, "k", "k1", "k2") })
	tx := b.begin()
	r := b.request(queueB)
	r.MaxBytes = 2
	c := b.claim(tx, r)
	b.equal(bodies(c), "aaaa")
	more, err := tx.More(ctx, c.Holds[0], 10, 9)
	b.must(err)
	if len(more) != 2 || string(more[0].Body) != "bbbb" || len(c.Holds[0].Messages) != 3 {
		t.Errorf("more: %v", more)
	}
	if again := b.claim(tx, b.request(queueB)); len(again.Holds) != 0 {
		t.Errorf("claimed %v, which is in hand", again.Holds)
	}
	r = b.request(queueB)
	r.Own = []backend.ID{to}
	if again := b.claim(tx, r); len(again.Holds) != 1 {
		t.Error("a group that is held is not eligible")
	}
	b.must(tx.Rollback(ctx))

	r = b.request(queueB)
	r.Consume, r.MaxMessages, r.Handle = true, 2, to
	b.do(func(tx *Tx) { b.equal(bodies(b.claim(tx, r)), "aaaa", "bbbb") })
	r.Handle, r.Group = backend.ID{}, to
	b.do(func(tx *Tx) { b.equal(bodies(b.claim(tx, r)), "cccc", "dddd") })
	r.Group = backend.ID{}
	b.do(func(tx *Tx) {
		if c := b.claim(tx, r); len(c.Holds) > 0 || !c.Contended {
			t.Errorf("%+v: the entry is left over", c)
		}
	})
	b.maintain(backend.JobMarkers)
	b.do(func(tx *Tx) {
		if c := b.claim(tx, r); c.Contended {
			t.Error("the entry is still there")
		}
	})
}

func TestLease(t *testing.T) {
	b := newBench(t, "")
	b.do(func(tx *Tx) { b.post(tx, "k", "1", "2"); b.post(tx, "", "alone") })
	r := b.request(queueP)
	r.Lease = time.Minute
	var first, second, third *backend.Hold
	b.do(func(tx *Tx) {
		c := b.claim(tx, r)
		first = c.Holds[0]
		b.equal(bodies(c), "1", "2")
	})
	b.clock.add(50 * time.Second)
	b.must(b.h.Extend(ctx, []*backend.Hold{first}, time.Minute))
	b.clock.add(50 * time.Second)
	b.do(func(tx *Tx) { third = b.claim(tx, r).Holds[0] })
	if third.Group != third.Messages[0].ID || third.Fence <= first.Fence {
		t.Errorf("claimed %+v", third)
	}

	// Reclaimed, it needs no heartbeat.
	tx := b.begin()
	b.must(tx.Reclaim(ctx, []*backend.Hold{first}))
	b.clock.add(time.Hour)
	b.must(b.h.Extend(ctx, []*backend.Hold{first}, 0))
	b.do(func(other *Tx) {
		c := b.claim(other, r) // the post's lease is over
		b.equal(bodies(c), "alone")
		second = c.Holds[0]
	})
	_, err := tx.Settle(ctx, []backend.Outcome{{Hold: first, Done: first.Messages[:1]}})
	b.must(err)
	b.must(tx.Commit(ctx))

	// The stale one cannot acknowledge what another has in hand.
	tx = b.begin()
	b.want(tx.Reclaim(ctx, []*backend.Hold{third}), backend.ErrFenced)
	_, err = tx.Settle(ctx, done(third))
	b.want(err, backend.ErrFenced)
	b.want(b.h.Extend(ctx, []*backend.Hold{third, second}, time.Hour), backend.ErrFenced)
	b.must(tx.Rollback(ctx))
	b.clock.add(30 * time.Minute) // the other one was extended
	b.do(func(tx *Tx) {
		_, err := tx.Settle(ctx, done(second))
		b.must(err)
	})
	b.equal(b.receive(queueP), "2")
	b.equal(b.receive(queueP))

	// The count: a message that is not there cannot be acknowledged.
	b.do(func(tx *Tx) { b.post(tx, "k", "3") })
	tx = b.begin()
	c := b.claim(tx, b.request(queueP))
	ghost := *c.Holds[0].Messages[0]
	ghost.Seq = 99
	_, err = tx.Settle(ctx, []backend.Outcome{{Hold: c.Holds[0], Done: append(c.Holds[0].Messages, &ghost)}})
	b.want(err, backend.ErrFenced)
	b.must(tx.Rollback(ctx))
	b.equal(b.receive(queueP), "3")
}

func TestPosts(t *testing.T) {
	b := newBench(t, "")
	id := backend.NewID()
	p := backend.Posting{ID: id, Queue: queueP, Rank: 5, Body: []byte("u"), Unique: "u", Delay: time.Minute}
	post := func(p backend.Posting) (duplicate backend.ID) {
		b.do(func(tx *Tx) {
			posted, err := tx.Post(ctx, b.version, []backend.Posting{p})
			b.must(err)
			duplicate = posted[0].Duplicate
		})
		return duplicate
	}
	post(p)
	like := p
	like.ID, like.Delay = backend.NewID(), 0
	if post(like) != id {
		t.Error("its duplicate is pending")
	}
	b.do(func(tx *Tx) { b.must(tx.Promote(ctx, backend.Promotion{Group: id})) })
	b.maintain(backend.JobDelayed, backend.JobGroups)
	b.equal(b.receive(queueP))
	b.clock.add(time.Minute)
	b.maintain(backend.JobDelayed)
	tx := b.begin()
	c := b.claim(tx, b.request(queueP))
	if !c.Holds[0].Promoted {
		t.Error("the promotion of a delayed post is lost")
	}
	_, err := tx.Settle(ctx, []backend.Outcome{{Hold: c.Holds[0], Done: c.Holds[0].Messages, Keep: time.Hour}})
	b.must(err)
	if post(like) != id {
		t.Error("a receiver has its duplicate")
	}
	other := b.begin()
	b.want(other.Cancel(ctx, queueP, id), backend.ErrNotPending)
	b.must(other.Rollback(ctx))
	b.must(tx.Commit(ctx))
	if s, err := b.h.PostStatus(ctx, queueP, id); err != nil || s.State != "processed" || string(s.Body) != "u" {
		t.Errorf("status %+v, %v", s, err)
	}
	if post(like) != (backend.ID{}) {
		t.Error("its duplicate has been processed")
	}
	b.do(func(tx *Tx) { b.must(tx.Cancel(ctx, queueP, like.ID)) })
	b.equal(b.receive(queueP))
	b.clock.add(2 * time.Hour)
	b.maintain(backend.JobProcessed, backend.JobGroups)
	_, err = b.h.PostStatus(ctx, queueP, id)
	b.want(err, backend.ErrNotPending)
	if n := len(b.store.groups.versions) + len(b.store.posts.versions) + len(b.store.streams.versions) + len(b.store.uniques.versions); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// TestDeferred defers and parks, with a sender in the way of being put back.
func TestDeferred(t *testing.T) {
	b := newBench(t, "")
	b.do(func(tx *Tx) { b.post(tx, "k", "1") })
	b.do(func(tx *Tx) {
		c := b.claim(tx, b.request(queueP))
		m := c.Holds[0].Messages[0]
		_, err := tx.Settle(ctx, []backend.Outcome{{Hold: c.Holds[0], Defer: time.Minute, Failure: &backend.Failure{Message: m, Attempts: 1, Error: "oops"}}})
		b.must(err)
	})
	if n := b.maintain(backend.JobMarkers); n != 1 {
		t.Errorf("%d entries taken out", n)
	}
	b.do(func(tx *Tx) {
		if c := b.claim(tx, b.request(queueP)); len(c.Holds) > 0 || c.Contended {
			t.Errorf("claimed %+v", c)
		}
	})
	list, err := b.h.Groups(ctx, backend.GroupQuery{Queue: queueP, Limit: 10})
	b.must(err)
	if len(list) != 1 || list[0].State != "deferred" || list[0].Reason != "oops" || list[0].Key != "k" {
		t.Errorf("groups %+v", list)
	}
	b.clock.add(time.Hour)
	sender := b.begin()
	b.post(sender, "k", "2")
	b.maintain(backend.JobDeferred) // finds the guard taken, and remembers
	if s := b.store.stranded(); len(s) > 0 {
		t.Errorf("stranded: %v", s)
	}
	b.must(sender.Rollback(ctx))
	b.maintain(backend.JobDeferred)
	tx := b.begin()
	c := b.claim(tx, b.request(queueP))
	b.equal(bodies(c), "1")
	if m := c.Holds[0].Messages[0]; m.Attempts != 1 || m.LastError != "oops" {
		t.Errorf("message %+v", m)
	}
	_, err = tx.Settle(ctx, []backend.Outcome{{Hold: c.Holds[0], Dead: []backend.DeadLetter{{Message: c.Holds[0].Messages[0], Reason: "bad"}}}})
	b.must(err)
	b.must(tx.Commit(ctx))
	dead, err := b.h.DeadLetters(ctx, backend.DeadQuery{Queue: queueP, Limit: 10, Bodies: true})
	b.must(err)
	if len(dead) != 1 || dead[0].Reason != "bad" || string(dead[0].Message.Body) != "1" {
		t.Errorf("dead letters %+v", dead)
	}
}

// TestRetry: what failed and was not deferred is still the first.
func TestRetry(t *testing.T) {
	b := newBench(t, "")
	from, to := b.dialog(5)
	b.do(func(tx *Tx) { b.send(tx, from, "1", "2") })
	r := b.request(queueB)
	r.MaxMessages = 1
	b.do(func(tx *Tx) {
		c := b.claim(tx, r)
		_, err := tx.Settle(ctx, []backend.Outcome{{Hold: c.Holds[0], Failure: &backend.Failure{Message: c.Holds[0].Messages[0], Attempts: 1}}})
		b.must(err)
	})
	b.do(func(tx *Tx) { b.equal(bodies(b.claim(tx, r)), "1") })

	// So is what was received and rolled back to a savepoint.
	b.do(func(tx *Tx) {
		b.must(tx.LockGroup(ctx, to))
		b.must(tx.Savepoint(ctx, "s"))
		r.Consume = true
		b.equal(bodies(b.claim(tx, r)), "1")
		b.must(tx.RollbackTo(ctx, "s"))
		b.equal(bodies(b.claim(tx, r)), "1")
		b.equal(bodies(b.claim(tx, b.request(queueB))))
		r.Own = []backend.ID{to}
		b.equal(bodies(b.claim(tx, r)), "2")
	})
}

// TestFinish: a settle does not wait for a sender, says so, and strands nothing.
func TestFinish(t *testing.T) {
	b := newBench(t, "")
	b.do(func(tx *Tx) { b.post(tx, "k", "1") })
	sender := b.begin()
	b.post(sender, "k", "2")
	tx := b.begin()
	c := b.claim(tx, b.request(queueP))
	again, err := tx.Settle(ctx, done(c.Holds[0]))
	b.must(err)
	if !again {
		t.Error("a sender is writing")
	}
	b.must(tx.Commit(ctx))
	b.must(sender.Commit(ctx))
	if s := b.store.stranded(); len(s) > 0 {
		t.Errorf("stranded: %v", s)
	}
	b.equal(b.receive(queueP), "2")
}
