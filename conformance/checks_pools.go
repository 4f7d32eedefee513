package conformance

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/doctor"
	"github.com/parleymq/parley/internal/slow"
)

func init() {
	add(
		check{ID: "A01", Name: "workers that post on the side on small pools", Run: checkSmallPools, Limit: 3 * time.Minute},
		check{ID: "A02", Name: "workers that post on the side on a single connection", Run: checkSingleConnection},
		check{ID: "A03", Name: "many reads at once on a small pool", Run: checkReadsAtOnce},
		check{ID: "A04", Name: "a second connection that is not to be had", Run: checkBoundedWait},
		check{ID: "A04", Name: "handlers that a program calls in its transactions", Run: checkOwnHandlers},
		check{ID: "A05", Name: "deliveries that a program holds", Run: checkDeliveriesHeld},
	)
}

// untold is a store whose pool is smaller than it says: a pool behind the pool, or a
// server that gives out no more.
type untold struct{ backend.Backend }

func (untold) MaxConns() int { return 0 }

func (u untold) Capabilities() backend.Capabilities {
	c := u.Backend.Capabilities()
	c.Pool = u
	return c
}

// brokerOn opens a Broker on a pool of the given size.
func (e *env) brokerOn(conns int, wrap func(backend.Backend) backend.Backend) *parley.Broker {
	be := e.Limited(conns)
	if wrap != nil {
		be = wrap(be)
	}
	b, err := newBroker(e.Ctx, be, nil)
	if err != nil {
		be.Close()
		e.Fatalf("new broker: %v", err)
	}
	e.Cleanup(func() { b.Close() })
	return b
}

func checkSmallPools(e *env) {
	for _, conns := range []int{2, 3} {
		e.sideBySide(conns, nil, nil)
		if e.HoldsInTransaction() {
			e.sideBySide(conns, func(be backend.Backend) backend.Backend { return untold{be} }, nil)
		}
	}
}

// sideBySide has workers share a pool. Every other handler posts on the side, half of
// these when they have asked for their transaction.
func (e *env) sideBySide(conns int, wrap func(backend.Backend) backend.Backend, after func(error)) {
	const workers, messages = 4, 24
	w := e.another()
	b := e.brokerOn(conns, wrap)
	w.posts(nil, numbered("%02d", messages)...)
	var calls atomic.Int64
	handler := func(ctx context.Context, m *parley.Message) error {
		n := calls.Add(1)
		if n%4 == 1 {
			if _, err := m.Tx(ctx); err != nil {
				return err
			}
		}
		time.Sleep(5 * time.Millisecond) // the handler's work
		if n%2 == 0 {
			return nil
		}
		_, err := b.Post(ctx, w.CQ, parley.Payload{Type: w.Any, Body: m.Body})
		if n%4 == 1 && after != nil {
			after(err)
		}
		if errors.Is(err, parley.ErrWouldDeadlock) {
			return w.effect(ctx, m)
		}
		return err
	}
	var all []*wrkRun
	for range workers {
		all = append(all, w.work(b, &parley.WorkerOptions{Backoff: soonAgain}, handler))
	}
	if !e.Soon(time.Minute, func() bool { return w.depth(w.SQ) == 0 }) {
		e.Fatalf("on a pool of %d, told: %t, %d of %d messages are left after %d calls",
			conns, wrap == nil, w.depth(w.SQ), messages, calls.Load())
	}
	for _, r := range all {
		r.Stop()
	}
}

func checkSingleConnection(e *env) {
	var mu sync.Mutex
	e.sideBySide(1, nil, func(err error) {
		mu.Lock()
		defer mu.Unlock()
		wouldDeadlock(e, err)
	})
}

func checkReadsAtOnce(e *env) {
	w := e.World()
	w.posts(nil, numbered("%02d", 20)...)
	b := e.brokerOn(2, nil)
	first := func(_ context.Context, groups iter.Seq[parley.GroupStatus]) (id parley.ID, ok bool) {
		for g := range groups {
			return g.Group, true
		}
		return id, false
	}
	reads := map[string]func() error{
		"groups":   func() error { _, err := b.Admin().Groups(e.Ctx, w.SQ, parley.Place{}, 100); return err },
		"queues":   func() error { _, err := b.Admin().Queues(e.Ctx); return err },
		"workers":  func() error { _, err := b.Admin().Workers(e.Ctx); return err },
		"diagnose": func() error { _, err := doctor.Diagnose(e.Ctx, b, w.SQ); return err },
		"choose": func() error {
			d, err := b.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Choose: first})
			if errors.Is(err, parley.ErrNoMessage) {
				return nil
			}
			if err == nil {
				err = d.Rollback(e.Ctx)
			}
			return err
		},
	}
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			for range 3 {
				for name, read := range reads {
					if err := read(); err != nil {
						e.Errorf("%s: %v", name, err)
						return
					}
				}
			}
		})
	}
	all.Wait()
}

func checkBoundedWait(e *env) {
	be := e.Limited(2)
	defer be.Close()
	begin := func(ctx context.Context) backend.Tx {
		tx, err := be.Begin(ctx)
		e.Must(err)
		return tx
	}
	one, other := begin(e.Ctx), begin(e.Ctx)
	inside := backend.InsideTx(e.Ctx, one)
	var all sync.WaitGroup
	for what, try := range map[string]func() error{
		"a transaction": func() error { _, err := be.Begin(inside); return err },
		"a read":        func() error { _, err := be.ReaderRecords(inside); return err },
	} {
		all.Go(func() {
			err := try()
			if !errors.Is(err, backend.ErrNotBegun) && !errors.Is(err, backend.ErrWouldDeadlock) {
				e.Errorf("%s inside of another one, without a connection for it: %v", what, err)
			}
		})
	}
	all.Wait()
	_, err := one.Once(e.Ctx, e.Name("once"), time.Minute)
	e.Must(err)
	e.Must(one.Commit(e.Ctx))
	e.Must(other.Rollback(e.Ctx))
	again := begin(e.Ctx)
	again2 := begin(e.Ctx)
	e.Must(again.Rollback(e.Ctx))
	e.Must(again2.Rollback(e.Ctx))
}

// checkOwnHandlers has all connections taken by transactions that receive, whose handlers post on the side.
func checkOwnHandlers(e *env) {
	const conns = 2
	w := e.World()
	w.posts(nil, numbered("%02d", conns)...)
	b := e.brokerOn(conns, nil)
	ctx, cancel := context.WithTimeout(e.Ctx, slow.By(30*time.Second))
	defer cancel()
	var open, all sync.WaitGroup
	if open.Add(1); e.ManyWriters() {
		open.Add(conns - 1)
	}
	mux := parley.NewMux()
	mux.HandleFunc(w.Any, func(ctx context.Context, m *parley.Message) error {
		open.Done()
		open.Wait()
		_, err := b.Post(ctx, w.CQ, parley.Payload{Type: w.Any, Body: m.Body})
		return err
	})
	for i := range conns {
		if i > 0 && !e.ManyWriters() {
			break
		}
		all.Go(func() {
			err := b.InTx(ctx, func(tx *parley.Tx) error {
				list, err := tx.Receive(ctx, w.SQ, nil)
				if err == nil {
					err = mux.HandleMessage(ctx, list[0])
				}
				return err
			})
			if ctx.Err() != nil {
				e.Errorf("a post on the side waits for a connection until its caller gives up: %v", err)
			} else if err != nil && !errors.Is(err, parley.ErrNotBegun) && !errors.Is(err, parley.ErrWouldDeadlock) {
				e.Errorf("a post on the side, where all connections are taken: %v", err)
			}
		})
	}
	all.Wait()
}

// twoLeft has two transactions open at once beside what holds connections already.
func (e *env) twoLeft(be backend.Backend) {
	ctx, cancel := context.WithTimeout(e.Ctx, slow.By(20*time.Second)) // they would wait for ever
	defer cancel()
	for i := range 2 {
		tx, err := be.Begin(ctx)
		if err != nil {
			if ctx.Err() != nil {
				e.late()
			}
			e.Errorf("of two connections that are left to others, the one after %d: %v", i, err)
			return
		}
		defer tx.Rollback(e.Ctx)
	}
}

func checkDeliveriesHeld(e *env) {
	const conns, held = 4, 6
	w := e.World()
	w.posts(nil, numbered("%02d", 2*held)...)
	b := e.brokerOn(conns, nil)
	receive := func(hold parley.Hold) (*parley.Delivery, error) {
		// A server may end transactions sooner than a lease of the default length.
		d, err := b.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Hold: hold, Lease: 10 * time.Second})
		if err == nil {
			e.Cleanup(func() { d.Close() })
		}
		return d, err
	}
	var deliveries []*parley.Delivery
	for range held {
		d, err := receive(parley.HoldDefault)
		e.Must(err)
		deliveries = append(deliveries, d)
	}
	e.twoLeft(b.Backend())
	if _, err := receive(parley.HoldTransaction); e.HoldsInTransaction() && !errors.Is(err, parley.ErrPool) {
		e.Errorf("one more delivery in a transaction, where two connections are left: %v, want ErrPool", err)
	}
	r := w.work(b, nil, func(ctx context.Context, m *parley.Message) error {
		_, err := b.Post(ctx, w.CQ, parley.Payload{Type: w.Any, Body: m.Body})
		return err
	})
	if !e.Soon(30*time.Second, func() bool { return w.depth(w.SQ) == held }) {
		e.Fatalf("beside %d deliveries on a pool of %d, %d messages are left", held, conns, w.depth(w.SQ)-held)
	}
	r.Stop()
	for i, d := range deliveries {
		if err := d.Ack(e.Ctx); err != nil {
			e.Errorf("acknowledge delivery %d: %v", i, err)
		}
	}
	if n := w.depth(w.SQ); n != 0 {
		e.Errorf("%d messages are left", n)
	}
}
