package backendtest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
)

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
