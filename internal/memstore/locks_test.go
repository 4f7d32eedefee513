package memstore

import (
	"context"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
)

// TestWritersWait: only writers of one stream wait for each other, as long as
// the other's transaction is open, and a context ends the wait.
func TestWritersWait(t *testing.T) {
	b := newBench(t, "")
	from, _ := b.dialog(5)
	other, _ := b.dialog(5)
	first := b.begin()
	b.send(first, from, "one")

	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	second := b.begin()
	_, err := second.Send(short, b.version, []backend.Outgoing{{ID: backend.NewID(), From: from, Kind: backend.KindUser}})
	b.want(err, context.DeadlineExceeded)
	b.send(second, other, "elsewhere") // it is still usable

	sent := make(chan []backend.Sent)
	go func() {
		s, _ := second.Send(ctx, b.version, []backend.Outgoing{{ID: backend.NewID(), From: from, Kind: backend.KindUser}})
		sent <- s
	}()
	select {
	case <-sent:
		t.Fatal("two writers in one stream")
	case <-time.After(20 * time.Millisecond):
	}
	b.must(first.Rollback(ctx))
	if s := <-sent; len(s) != 1 || s[0].Seq != 0 || s[0].Queue != queueB {
		t.Errorf("sent %+v: the number of a rollback is used again", s)
	}
	b.must(second.Commit(ctx))
}

// TestWritersDeadlock: one of two that wait for each other gets an error.
func TestWritersDeadlock(t *testing.T) {
	b := newBench(t, "")
	x, _ := b.dialog(5)
	y, _ := b.dialog(5)
	one, two := b.begin(), b.begin()
	b.send(one, x, "1")
	b.send(two, y, "2")
	lost := make(chan error, 2)
	try := func(tx *Tx, to backend.ID) {
		_, err := tx.Send(ctx, b.version, []backend.Outgoing{{ID: backend.NewID(), From: to, Kind: backend.KindUser}})
		if err != nil {
			tx.Rollback(ctx)
		} else {
			tx.Commit(ctx)
		}
		lost <- err
	}
	go try(one, y)
	go try(two, x)
	errs := []error{<-lost, <-lost}
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Fatalf("errors %v: one of them loses", errs)
	}
	for _, err := range errs {
		if err != nil {
			b.want(err, backend.ErrSerialization)
		}
	}
}

// TestClosingEndsAWait: a transaction that waits when its handle is closed
// comes back.
func TestClosingEndsAWait(t *testing.T) {
	b := newBench(t, "")
	from, _ := b.dialog(5)
	first := b.begin()
	b.send(first, from, "one")
	other := b.store.Open()
	tx, err := other.Begin(ctx)
	b.must(err)
	came := make(chan error)
	go func() {
		_, err := tx.Send(ctx, b.version, []backend.Outgoing{{ID: backend.NewID(), From: from, Kind: backend.KindUser}})
		came <- err
	}()
	time.Sleep(10 * time.Millisecond)
	b.must(other.Close())
	b.want(<-came, backend.ErrTxDone)
}

func TestGroupLocks(t *testing.T) {
	b := newBench(t, "")
	from, to := b.dialog(5)
	b.do(func(tx *Tx) { b.send(tx, from, "one") })
	one, two := b.begin(), b.begin()
	b.want(one.LockGroup(ctx, backend.NewID()), backend.ErrNoGroup)
	b.must(one.LockGroup(ctx, to))
	b.must(one.LockGroup(ctx, to))
	b.want(two.LockGroup(ctx, to), backend.ErrGroupBusy)
	if c := b.claim(two, b.request(queueB)); len(c.Holds) > 0 || !c.Contended {
		t.Errorf("claim %+v of a held group", c)
	}
	b.do(func(tx *Tx) { b.send(tx, from, "two") }) // a sender does not care
	b.must(two.LockGroup(ctx, from))               // nor does the other side

	// A savepoint's rollback keeps the group.
	b.must(one.Savepoint(ctx, "s"))
	if got := bodies(b.claim(one, b.request(queueB))); len(got) != 2 {
		t.Errorf("claimed %q", got)
	}
	b.must(one.RollbackTo(ctx, "s"))
	b.want(two.LockGroup(ctx, to), backend.ErrGroupBusy)
	b.must(one.Rollback(ctx))
	b.must(two.LockGroup(ctx, to))

	// A lease holds it after the commit, until it ends.
	b.must(two.Rollback(ctx))
	r := b.request(queueB)
	r.Lease = time.Minute
	b.do(func(tx *Tx) { b.claim(tx, r) })
	b.do(func(tx *Tx) { b.want(tx.LockGroup(ctx, to), backend.ErrGroupBusy) })
	b.clock.add(2 * time.Minute)
	b.do(func(tx *Tx) { b.must(tx.LockGroup(ctx, to)) })

	// A transaction that could not make it does not hold it.
	three := b.begin()
	e := backend.Endpoint{Handle: backend.NewID(), FarHandle: backend.NewID(), Group: to, Service: "B", Queue: queueB}
	b.want(three.BeginDialog(ctx, b.version, backend.NewDialog{Endpoint: e, NewGroup: true}), backend.ErrGroupBusy)
	b.do(func(tx *Tx) { b.must(tx.LockGroup(ctx, to)) })
	b.must(three.Rollback(ctx))
}
