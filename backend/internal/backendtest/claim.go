package backendtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
)

func testOrder(f *Fixture) {
	low, high := f.ends(), f.ends()
	low.B.Priority, high.B.Priority = 3, 9
	for _, d := range []Dialog{low, high} {
		f.Do(func(tx backend.Tx) error {
			if err := tx.BeginDialog(f.Ctx, f.Version, backend.NewDialog{Endpoint: d.A, NewGroup: true}); err != nil {
				return err
			}
			_, err := tx.Accept(f.Ctx, f.Version, d.A.Handle, d.B)
			return err
		})
	}
	f.Send(low.A.Handle, "low 1")
	f.Send(high.A.Handle, "high")
	f.Send(low.A.Handle, "low 2")
	f.Post(backend.Posting{Queue: f.QB, Rank: 5, Body: []byte("post")})
	f.Post(backend.Posting{Queue: f.QB, Rank: 10, Key: "k", Body: []byte("keyed")})
	f.Post(backend.Posting{Queue: f.QB, Rank: 3, Body: []byte("late post")})
	f.Equal("drained", f.Drain(f.QB), []string{"keyed", "high", "post", "low 1", "low 2", "late post"})
}

func testPromotion(f *Fixture) {
	var ds []Dialog
	for i := range 4 {
		ds = append(ds, f.Open())
		f.Send(ds[i].A.Handle, fmt.Sprint(i))
	}
	post := f.Post(backend.Posting{Queue: f.QB, Body: []byte("post")})
	promote := func(group backend.ID, level int, sticky bool) error {
		return f.Try(func(tx backend.Tx) error {
			return tx.Promote(f.Ctx, backend.Promotion{Group: group, Level: level, Sticky: sticky})
		})
	}
	f.Is(promote(backend.NewID(), 1, false), backend.ErrNoGroup)
	f.OK(promote(ds[2].B.Group, 100, false))
	f.OK(promote(ds[1].B.Group, 100, false))
	f.OK(promote(post, 200, false))
	f.OK(promote(ds[3].B.Group, 50, true))
	f.OK(promote(ds[2].B.Group, 100, false)) // the second replaces the first
	f.OK(promote(ds[0].B.Group, 250, false))
	f.Do(func(tx backend.Tx) error { return tx.Demote(f.Ctx, ds[0].B.Group) })

	h := f.One(f.Request(f.QB))
	f.Equal("promoted", []any{Bodies(h.Messages), h.Promoted, h.Level}, []any{[]string{"post"}, true, 200})
	f.Settle(backend.Outcome{Hold: h}) // given back: it stays promoted
	f.Equal("drained", f.Drain(f.QB), []string{"post", "1", "2", "3", "0"})
	for i := range 4 {
		f.Send(ds[i].A.Handle, fmt.Sprint(i))
	}
	f.Equal("only the sticky one is left", f.Drain(f.QB), []string{"3", "0", "1", "2"})
}

func testLease(f *Fixture) {
	d := f.Open()
	f.Send(d.A.Handle, "1")
	r := f.Request(f.QB)
	r.Lease = time.Second
	h := f.One(r)
	c := f.None(r)
	f.Equal("contended", c.Contended, true)
	f.OK(f.Backend.Extend(f.Ctx, []*backend.Hold{h}, time.Hour))
	time.Sleep(r.Lease + 10*time.Millisecond)
	f.None(r)
	f.OK(f.Backend.Extend(f.Ctx, []*backend.Hold{h}, time.Millisecond))
	time.Sleep(10 * time.Millisecond)
	h2 := f.One(r)
	if h2.Fence <= h.Fence {
		f.Errorf("fence %d after %d", h2.Fence, h.Fence)
	}
	f.Is(f.Backend.Extend(f.Ctx, []*backend.Hold{h}, time.Hour), backend.ErrFenced)
	f.Is(f.trySettle(backend.Outcome{Hold: h, Done: h.Messages}), backend.ErrFenced)
	f.Ack(h2)
	f.Is(f.Backend.Extend(f.Ctx, []*backend.Hold{h2}, time.Hour), backend.ErrFenced)

	f.Post(backend.Posting{Body: []byte("p")})
	r.Queue = f.QP
	h = f.One(r)
	f.OK(f.Backend.Extend(f.Ctx, []*backend.Hold{h}, time.Millisecond))
	time.Sleep(10 * time.Millisecond)
	h2 = f.One(r)
	f.Is(f.Backend.Extend(f.Ctx, []*backend.Hold{h}, time.Hour), backend.ErrFenced)
	f.Is(f.trySettle(backend.Outcome{Hold: h, Done: h.Messages}), backend.ErrFenced)
	f.Ack(h2)
}

// testPart claims a part of what there is, and all of it. Who gets less than asked
// for is told whether there may be more.
func testPart(f *Fixture) {
	const n = 30
	batch := make([]backend.Posting, 2*n)
	for i := range batch {
		batch[i] = f.Posting(backend.Posting{Queue: []int64{f.QP, f.QB}[i%2]})
		if i%2 == 1 {
			batch[i].Key = fmt.Sprint("k", i)
		}
	}
	f.Do(func(tx backend.Tx) error {
		_, err := tx.Post(f.Ctx, f.Version, batch)
		return err
	})
	for _, queue := range []int64{f.QP, f.QB} {
		for _, ask := range []int{1, 4, 9, 16, 29, n + 1, 5 * n} {
			r := f.Request(queue)
			r.MaxGroups = ask
			undo := errors.New("undone")
			err := f.Try(func(tx backend.Tx) error {
				c, err := tx.Claim(f.Ctx, r)
				if err == nil && (len(c.Holds) == 0 || len(c.Holds) < min(ask, n) && !c.More) {
					f.Errorf("a claim of %d among %d has %d and does not say that there may be more", ask, n, len(c.Holds))
				}
				if err == nil && len(c.Holds) == n && c.More {
					f.Errorf("a claim of %d has all %d and says that there may be more", ask, n)
				}
				return cmp.Or(err, undo)
			})
			f.Is(err, undo)
		}
	}
}

// fuse is a context that ends when it has been asked a number of times.
type fuse struct {
	context.Context
	left atomic.Int64
}

func (c *fuse) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// testSettleFails: a settle that fails settles nothing, even if the transaction commits.
func testSettleFails(f *Fixture) {
	for steps := int64(1); ; steps++ {
		d := f.Open()
		f.Send(d.A.Handle, "1", "2")
		h := f.One(f.Request(f.QB))
		ctx := &fuse{Context: f.Ctx}
		ctx.left.Store(steps)
		var failed error
		err := f.Try(func(tx backend.Tx) error {
			f.OK(tx.Reclaim(f.Ctx, []*backend.Hold{h}))
			_, failed = tx.Settle(ctx, []backend.Outcome{{Hold: h, Done: h.Messages[:1],
				Failure: &backend.Failure{Message: h.Messages[1], Attempts: 1, Error: "failed"}}})
			return nil
		})
		switch {
		case failed == nil:
			f.OK(err)
			f.Equal("drained", f.Drain(f.QB), []string{"2"})
			return
		case err != nil:
			f.Ack(h) // all is as it was
		default:
			f.Equal(fmt.Sprintf("drained after a settle that failed (%d steps, %v)", steps, failed), f.Drain(f.QB), []string{"1", "2"})
		}
	}
}

// testFence lets a settle find that its messages are gone.
func testFence(f *Fixture) {
	d := f.Open()
	f.Send(d.A.Handle, "1")
	f.Post(backend.Posting{Queue: f.QB})
	for range 2 {
		h := f.One(f.Request(f.QB))
		again := *h
		f.Ack(h)
		err := f.Try(func(tx backend.Tx) error {
			_, err := tx.Settle(f.Ctx, []backend.Outcome{{Hold: &again, Done: again.Messages}})
			return err
		})
		f.Is(err, backend.ErrFenced)
		again.Fence = 0
		err = f.Try(func(tx backend.Tx) error {
			_, err := tx.Settle(f.Ctx, []backend.Outcome{{Hold: &again, Done: again.Messages}})
			return err
		})
		f.Is(err, backend.ErrFenced)
	}
}

// testReclaim ends leases by a transaction, whatever it did with their posts.
func testReclaim(f *Fixture) {
	for _, body := range []string{"back", "done", "kept", "left", "undone"} {
		f.Post(backend.Posting{Body: []byte(body)})
	}
	r := f.Request(f.QP)
	r.MaxGroups = 10
	holds := f.Claim(r).Holds
	named := make(map[string]*backend.Hold)
	for _, h := range holds {
		named[Bodies(h.Messages)[0]] = h
	}
	f.Equal("holds", len(named), 5)
	settle := func(tx backend.Tx, o ...backend.Outcome) error {
		_, err := tx.Settle(f.Ctx, o)
		return err
	}
	done := func(h *backend.Hold) backend.Outcome { return backend.Outcome{Hold: h, Done: h.Messages} }
	f.Do(func(tx backend.Tx) error {
		f.OK(tx.Reclaim(f.Ctx, holds))
		f.OK(tx.Savepoint(f.Ctx, "work"))
		f.OK(settle(tx, done(named["undone"])))
		f.OK(tx.RollbackTo(f.Ctx, "work"))
		f.OK(settle(tx, done(named["done"]), backend.Outcome{Hold: named["back"]}))
		return tx.Keep(f.Ctx, named["kept"], time.Minute, "test")
	})
	for _, name := range []string{"back", "done", "left", "undone"} {
		err := f.Try(func(tx backend.Tx) error { return tx.Reclaim(f.Ctx, []*backend.Hold{named[name]}) })
		f.Is(err, backend.ErrFenced)
	}
	var free []string
	for _, h := range f.Claim(r).Holds {
		free = append(free, Bodies(h.Messages)...)
		f.Equal("deaths", h.Messages[0].Deaths, 0)
		f.Ack(h)
	}
	f.Equal("free", sorted(free), "[back left undone]")
	f.Ack(named["kept"])
}

func testConsume(f *Fixture) {
	d := f.Open()
	f.Send(d.A.Handle, "1", "2", "3")
	r := f.Request(f.QB)
	r.Lease, r.Consume, r.MaxMessages = 0, true, 2
	f.Do(func(tx backend.Tx) error {
		c, err := tx.Claim(f.Ctx, r)
		if err != nil {
			return err
		}
		f.Equal("first", Bodies(c.Holds[0].Messages), []string{"1", "2"})
		r.Own = []backend.ID{c.Holds[0].Group}
		c, err = tx.Claim(f.Ctx, r)
		if err != nil {
			return err
		}
		f.Equal("second", Bodies(c.Holds[0].Messages), []string{"3"})
		c, err = tx.Claim(f.Ctx, r)
		f.Equal("third", len(c.Holds), 0)
		return err
	})
	f.Equal("left", f.Drain(f.QB), []string{})
	f.Equal("depth", f.queue(f.QB).Depth, 0)
	f.Post(backend.Posting{})
	r.Queue = f.QP
	f.Do(func(tx backend.Tx) error { _, err := tx.Claim(f.Ctx, r); return err })
	f.Equal("left", f.Drain(f.QP), []string{})
}

func testFilters(f *Fixture) {
	d, e := f.ends(), f.ends()
	e.B.Handle, e.A.FarHandle = backend.NewID(), e.B.Handle
	e.A.FarHandle = e.B.Handle
	// Both conversations of A are in one group.
	e.A.Group = d.A.Group
	f.Do(func(tx backend.Tx) error {
		if err := tx.BeginDialog(f.Ctx, f.Version, backend.NewDialog{Endpoint: d.A, NewGroup: true}); err != nil {
			return err
		}
		if _, err := tx.Accept(f.Ctx, f.Version, d.A.Handle, d.B); err != nil {
			return err
		}
		if err := tx.BeginDialog(f.Ctx, f.Version, backend.NewDialog{Endpoint: e.A}); err != nil {
			return err
		}
		_, err := tx.Accept(f.Ctx, f.Version, e.A.Handle, e.B)
		return err
	})
	other := f.Open()
	f.Send(other.B.Handle, "other")
	f.Send(d.B.Handle, "d1", "d2")
	f.Send(e.B.Handle, "e1", "e2")
	r := f.Request(f.QA)
	r.Group = d.A.Group
	h := f.One(r)
	f.Equal("group", Bodies(h.Messages), []string{"d1", "d2", "e1", "e2"})
	f.Settle(backend.Outcome{Hold: h})
	r.Group, r.Handle = backend.ID{}, e.A.Handle
	h = f.One(r)
	f.Equal("handle", Bodies(h.Messages), []string{"e1", "e2"})
	f.Ack(h)
	r.Handle, r.Group, r.LockOnly = backend.ID{}, d.A.Group, true
	h = f.One(r)
	f.Equal("lock only", len(h.Messages), 0)
	f.None(r)
	f.Settle(backend.Outcome{Hold: h})
	r.LockOnly, r.Group = false, backend.NewID()
	f.None(r)
	f.Equal("drained", f.Drain(f.QA), []string{"other", "d1", "d2"})
}

func testLimits(f *Fixture) {
	d := f.Open()
	for range 10 {
		f.Send(d.A.Handle, strings.Repeat("x", 100))
	}
	r := f.Request(f.QB)
	r.MaxBytes = 350
	h := f.One(r)
	f.Equal("within 350 bytes", len(h.Messages), 3)
	f.Do(func(tx backend.Tx) error {
		if err := tx.Reclaim(f.Ctx, []*backend.Hold{h}); err != nil {
			return err
		}
		more, err := tx.More(f.Ctx, h, 2, 1<<20)
		f.Equal("more", len(more), 2)
		f.Equal("seq", more[0].Seq, 3)
		if err != nil {
			return err
		}
		more, err = tx.More(f.Ctx, h, 100, 10)
		f.Equal("more within 10 bytes", len(more), 1)
		f.Equal("in hand", len(h.Messages), 6)
		if err != nil {
			return err
		}
		_, err = tx.Settle(f.Ctx, []backend.Outcome{{Hold: h, Done: h.Messages}})
		return err
	})
	r.MaxBytes = 1
	h = f.One(r)
	f.Equal("the first is taken whatever its size", len(h.Messages), 1)
	f.Ack(h)
	f.Equal("rest", len(f.Drain(f.QB)), 3)
	for range 3 {
		f.Post(backend.Posting{Body: make([]byte, 100)})
	}
	r.Queue, r.MaxGroups, r.MaxBytes = f.QP, 10, 250
	c := f.Claim(r)
	f.Equal("posts within 250 bytes", len(c.Holds), 2)
	for _, h := range c.Holds {
		f.Ack(h)
	}
	f.Equal("rest", len(f.Drain(f.QP)), 1)
}

func testDisabled(f *Fixture) {
	d := f.Open()
	f.Send(d.A.Handle, "1")
	f.Post(backend.Posting{Queue: f.QB, Delay: time.Millisecond, Body: []byte("delayed")})
	f.Do(func(tx backend.Tx) error { return tx.SetTimer(f.Ctx, d.B.Handle, time.Millisecond) })
	f.Define(&backend.Catalog{Queues: []backend.Queue{{Name: "qb", Disabled: true}}})
	time.Sleep(5 * time.Millisecond)
	f.Is(f.Try(func(tx backend.Tx) error { _, err := tx.Claim(f.Ctx, f.Request(f.QB)); return err }), backend.ErrQueueDisabled)
	f.Is(f.Try(func(tx backend.Tx) error {
		_, err := tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{Queue: f.QB})})
		return err
	}), backend.ErrQueueDisabled)
	err := f.Try(func(tx backend.Tx) error {
		_, err := tx.Send(f.Ctx, f.Version, []backend.Outgoing{Message(d.A.Handle, "x")})
		return err
	})
	var r *backend.Refused
	if !errors.As(err, &r) || r.Refusals[0] != backend.RefusedDisabled {
		f.Errorf("send: %v", err)
	}
	f.Do(func(tx backend.Tx) error {
		_, err := tx.Withhold(f.Ctx, []backend.Outgoing{Message(d.A.Handle, "2")}, "off")
		return err
	})
	f.Equal("withheld", f.queue(f.QB).Withheld, 1)
	f.Is(f.Try(func(tx backend.Tx) error { _, err := tx.Deliver(f.Ctx, d.A.Handle); return err }), backend.ErrQueueDisabled)
	for _, job := range []backend.Job{backend.JobTimers, backend.JobDelayed} {
		n, _ := f.Maintain(job)
		f.Equal(fmt.Sprintf("moved by job %v", job), n, 0)
	}
	f.End(backend.End{Handle: d.A.Handle, Kind: backend.EndError, Error: &backend.DialogError{Code: 1, Text: "x"}})
	f.Define(&backend.Catalog{Queues: []backend.Queue{{Name: "qb"}}})
	f.Do(func(tx backend.Tx) error {
		n, err := tx.Deliver(f.Ctx, d.A.Handle)
		f.Equal("delivered", n, 1) // the error alone: what was withheld is dropped
		return err
	})
	f.MaintainUntil(backend.JobTimers, 1)
	f.MaintainUntil(backend.JobDelayed, 1)
	f.Equal("drained", sorted(f.Drain(f.QB)), []string{"1", "<DialogTimer>", "<Error>", "delayed"})
}
