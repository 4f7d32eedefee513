package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/slow"
)

func init() {
	add(
		check{ID: "B05", Name: "taken by another receiver", Run: checkStaleTaken},
		check{ID: "B05", Name: "taken by a transaction", Run: checkStaleTakenByTx},
		check{ID: "B05", Name: "settled by another receiver", Run: checkStaleSettled},
		check{ID: "B05", Name: "the holder is told", Run: checkStaleTold},
		check{ID: "B05", Name: "one of several heartbeats", Run: checkStaleHeartbeat},
	)
}

// inpSilent is a store on which no heartbeat arrives: a receiver cut off from
// it for a while.
type inpSilent struct{ backend.Backend }

func (inpSilent) Extend(context.Context, []*backend.Hold, time.Duration) error {
	return errors.New("the heartbeat did not arrive")
}

// inpCutOff opens a broker whose leases run out.
func inpCutOff(e *env) *parley.Broker {
	b, err := newBroker(e.Ctx, inpSilent{e.Handle()}, &parley.Options{NoMaintenance: true})
	e.Must(err)
	e.Cleanup(func() { b.Close() })
	return b
}

// inpStale makes a delivery of a conversation's first message under a lease
// that runs out: of three messages it has one in hand.
func inpStale(w *world, b *parley.Broker) (client parley.ID, d *parley.Delivery) {
	client = w.Dialog("0", "1", "2")
	d, err := b.Receive(w.Ctx, w.SQ, &parley.ReceiveOptions{Hold: parley.HoldLease, Lease: 50 * time.Millisecond, MaxMessages: 1, Group: dlgPeer(w, client)})
	w.Must(err)
	dlgSame(w.env, "delivered", bodiesOf(d.Messages), []string{"0"})
	return client, d
}

// inpFenced ends the check unless a verb fails as one of a receiver that has
// lost its lease.
func inpFenced(e *env, name string, err error) {
	if !errors.Is(err, parley.ErrFenced) {
		dlgFatal(e, "%s under a lost lease: the error is %v, want %q", name, err, parley.ErrFenced)
	}
}

func checkStaleTaken(e *env) {
	w := e.World()
	cut := inpCutOff(e)
	working, settling := inpDeliveryVerbs(w)
	for _, hold := range e.Holds() {
		for _, settle := range settling {
			client, stale := inpStale(w, cut)
			group := stale.Group
			m := stale.Messages[0]
			now := w.Receive(w.SQ, &parley.ReceiveOptions{Group: group, Hold: hold})
			dlgSame(e, "delivered to the next receiver", bodiesOf(now.Messages), []string{"0", "1", "2"})
			for _, v := range working {
				inpFenced(e, v.name, v.do(e.Ctx, stale, m))
			}
			inpFenced(e, settle.name, settle.do(e.Ctx, stale, m))

			// Nothing has changed for who holds it now.
			e.Must(now.Messages[0].Reply(e.Ctx, w.Tell, []byte("answer")))
			e.Must(now.Ack(e.Ctx))
			w.Nothing(w.SQ, nil)
			dlgBodies(w, w.CQ, nil, "answer")
			dlgState(w, client, parley.Conversing)
			dlgState(w, group, parley.Conversing)
			w.Send(client, w.Ask, "3") // neither parked nor deferred
			dlgBodies(w, w.SQ, nil, "3")
		}
	}
	dlgQuiet(w, w.SQ, w.CQ)
}

func checkStaleTakenByTx(e *env) {
	if !e.HoldsInTransaction() {
		e.Skipf("the store does not hold in transactions")
	}
	w := e.World()
	cut := inpCutOff(e)
	_, settling := inpDeliveryVerbs(w)
	for _, settle := range settling {
		_, stale := inpStale(w, cut)
		m := stale.Messages[0]
		now := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: parley.HoldTransaction})
		// What the transaction gives back is still not the stale receiver's: its
		// token was taken away, or its lease has simply run out.
		tx, err := now.Tx(e.Ctx)
		e.Must(err)
		_, err = tx.Conversation(m.Conversation).Status(e.Ctx)
		e.Must(err)
		inpFenced(e, settle.name+" while a transaction holds it", settle.do(e.Ctx, stale, m))
		e.Must(now.Ack(e.Ctx))
		w.Nothing(w.SQ, nil)
	}
	dlgQuiet(w, w.SQ, w.CQ)
}

func checkStaleSettled(e *env) {
	w := e.World()
	cut := inpCutOff(e)
	working, settling := inpDeliveryVerbs(w)
	for _, hold := range e.Holds() {
		for _, how := range []string{"acknowledged", "given back", "parked", "received in a transaction"} {
			if how == "given back" && hold == parley.HoldTransaction {
				continue // its rollback undoes that it took the group
			}
			for _, settle := range settling {
				_, stale := inpStale(w, cut)
				group := stale.Group
				m := stale.Messages[0]
				if how == "received in a transaction" {
					if !e.Soon(5*time.Second, func() bool {
						got := 0
						w.Tx(func(tx *parley.Tx) error {
							ms, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Group: group})
							if errors.Is(err, parley.ErrNoMessage) {
								err = nil
							}
							got = len(ms)
							return err
						})
						return got == 3
					}) {
						e.Fatalf("the lease did not run out")
					}
				} else {
					now := w.Receive(w.SQ, &parley.ReceiveOptions{Group: group, Hold: hold})
					dlgSame(e, "delivered to the next receiver", bodiesOf(now.Messages), []string{"0", "1", "2"})
					switch how {
					case "acknowledged":
						e.Must(now.Ack(e.Ctx))
					case "given back":
						e.Must(now.Rollback(e.Ctx))
					case "parked":
						e.Must(now.Park(e.Ctx, nil))
					}
				}
				for _, v := range working {
					inpFenced(e, v.name+" on what was "+how, v.do(e.Ctx, stale, m))
				}
				inpFenced(e, settle.name+" on what was "+how, settle.do(e.Ctx, stale, m))

				w.Nothing(w.CQ, nil)
				switch how {
				case "parked":
					w.Nothing(w.SQ, nil)
					e.Must(w.B.Admin().Unpark(e.Ctx, group))
					dlgBodies(w, w.SQ, nil, "0", "1", "2")
				case "given back":
					dlgBodies(w, w.SQ, nil, "0", "1", "2")
				}
				w.Nothing(w.SQ, nil)
			}
		}
	}
}

func checkStaleTold(e *env) {
	w := e.World()
	_, stale := inpStale(w, inpCutOff(e))
	if err := stale.Context().Err(); err != nil {
		e.Logf("the lease had run out before it was looked at: %v", err)
	}
	select {
	case <-stale.Context().Done():
		if cause := context.Cause(stale.Context()); !errors.Is(cause, parley.ErrFenced) {
			e.Errorf("the cause is %v, want %q", cause, parley.ErrFenced)
		}
	case <-time.After(slow.By(15 * time.Second)):
		e.late()
		e.Errorf("the delivery's context did not end with its lease")
	}
	dlgBodies(w, w.SQ, nil, "0", "1", "2")
}

// checkStaleHeartbeat works on the backend, where one call renews many leases.
func checkStaleHeartbeat(e *env) {
	w := e.World()
	be := e.Handle()
	claim := func(lease time.Duration, group parley.ID) *backend.Hold {
		var hold *backend.Hold
		tx, err := be.Begin(e.Ctx)
		e.Must(err)
		defer tx.Rollback(e.Ctx)
		c, err := tx.Catalog(e.Ctx, false)
		e.Must(err)
		for _, q := range c.Queues {
			if q.Name == w.SQ {
				claimed, err := tx.Claim(e.Ctx, backend.ClaimRequest{Version: c.Version, Queue: q.ID, Group: group, MaxGroups: 1, MaxMessages: 10, MaxBytes: 1 << 20, Lease: lease, Owner: "check"})
				e.Must(err)
				if len(claimed.Holds) > 0 {
					hold = claimed.Holds[0]
				}
			}
		}
		e.Must(tx.Commit(e.Ctx))
		return hold
	}
	one, two := dlgPeer(w, w.Dialog("one")), dlgPeer(w, w.Dialog("two"))
	lost := claim(50*time.Millisecond, one)
	const lease = 2 * time.Second
	start := time.Now()
	kept := claim(lease, two)
	if lost == nil || kept == nil {
		e.Fatalf("the groups %s and %s could not be claimed", one, two)
	}
	now := w.Receive(w.SQ, &parley.ReceiveOptions{Group: one, Hold: parley.HoldLease})
	if now.Group != one {
		e.Fatalf("received group %s, want %s, whose lease has run out", now.Group, one)
	}
	inpFenced(e, "a heartbeat", be.Extend(e.Ctx, []*backend.Hold{lost, kept}, time.Minute))
	inpFenced(e, "a heartbeat", be.Extend(e.Ctx, []*backend.Hold{lost}, time.Minute))
	if took := time.Since(start); took > lease {
		e.Skipf("this machine took %v for what a lease of %v should outlast", took, lease)
	}
	e.Must(be.Extend(e.Ctx, []*backend.Hold{kept}, 50*time.Millisecond)) // the length counts from now

	tx, err := be.Begin(e.Ctx)
	e.Must(err)
	inpFenced(e, "Reclaim", tx.Reclaim(e.Ctx, []*backend.Hold{lost}))
	e.Must(tx.Rollback(e.Ctx))
	tx, err = be.Begin(e.Ctx)
	e.Must(err)
	_, err = tx.Settle(e.Ctx, []backend.Outcome{{Hold: lost, Done: lost.Messages}})
	inpFenced(e, "Settle", err)
	e.Must(tx.Rollback(e.Ctx))
	e.Must(now.Ack(e.Ctx))
	dlgBodies(w, w.SQ, nil, "two")
	w.Nothing(w.SQ, nil)
}
