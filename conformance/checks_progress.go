package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		check{ID: "A20", Name: "handlers that write on the side", Run: checkSideWrites},
		check{ID: "A21", Name: "senders to a group with many conversations that becomes ready",
			Run: checkManyBecomeReady, Limit: 3 * time.Minute},
		check{ID: "A22", Name: "a group that a verb takes after its lease ran out", Run: checkTakenAfterDeath},
	)
}

// checkSideWrites has handlers post outside their transaction, before and after they ask for it. A
// batch has messages of one group or of several.
func checkSideWrites(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		bodies := numbered("%02d", 12)
		w.posts([]string{"a", "b"}, bodies...)
		var mu sync.Mutex
		after := make(map[error]int)
		side := func(ctx context.Context, body string) error {
			_, err := w.B.Post(ctx, w.CQ, parley.Payload{Type: w.Any, Body: []byte(body)}, parley.Key(body))
			return err
		}
		o := &parley.WorkerOptions{Hold: hold, MaxReaders: 2, Backoff: soonAgain}
		r := w.work(w.B, o, func(ctx context.Context, m *parley.Message) error {
			if err := side(ctx, "before "+string(m.Body)); err != nil {
				return err
			}
			if err := w.effect(ctx, m); err != nil {
				return err
			}
			derived, cancel := context.WithCancel(ctx)
			defer cancel()
			nested := w.B.InTx(derived, func(tx *parley.Tx) error {
				_, err := tx.Post(w.Ctx, w.CQ, parley.Payload{Type: w.Any, Body: m.Body}, parley.Key("nested"))
				return err
			})
			mu.Lock()
			defer mu.Unlock()
			after[wouldDeadlock(e, side(derived, "after "+string(m.Body)))]++
			after[wouldDeadlock(e, nested)]++
			return nil
		})
		each := 4 // before, the effect, nested and after
		if !e.ManyWriters() {
			each = 2
		}
		got := w.effects(each * len(bodies))
		r.Stop()
		for _, body := range bodies {
			if n := len(got["before "+body]); n != 1 {
				e.Errorf("hold %v: message %s was handled %d times", hold, body, n)
			}
		}
		if effects := slices.Concat(got["a"], got["b"]); len(effects) != len(bodies) {
			e.Errorf("hold %v: the effects are %q", hold, effects)
		}
		if refused := after[parley.ErrWouldDeadlock]; (refused > 0) == e.ManyWriters() || len(after) != 1 {
			e.Errorf("hold %v: of the verbs after Message.Tx %d were refused and %d carried out", hold, refused, after[nil])
		}
	}
}

// wouldDeadlock returns nil or ErrWouldDeadlock, and fails the check for any other
// error.
func wouldDeadlock(e *env, err error) error {
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, parley.ErrWouldDeadlock):
		e.Errorf("a verb with the context of a handler: %v", err)
	}
	return parley.ErrWouldDeadlock
}

// checkManyBecomeReady parks a group with many conversations, some of them without messages. It
// counts how many of their senders would have to wait for the transaction that makes the group
// ready.
func checkManyBecomeReady(e *env) {
	const with, all, most = 115, 120, 100
	s := invUnder(invWorld(e))
	handles := make([]parley.ID, all) // of senders to the group
	group := parley.NewID()
	s.Tx(func(tx *parley.Tx) error {
		for i := range handles {
			o := &parley.DialogOptions{Contract: s.Contract, RelatedGroup: group}
			c, err := tx.Begin(e.Ctx, s.Client, s.Server, o)
			if err == nil {
				err = c.Send(e.Ctx, s.Any, nil)
			}
			if err != nil {
				return err
			}
			handles[i] = c.Handle()
		}
		return nil
	})
	for i, h := range handles {
		handles[i] = dlgPeer(s.world, h)
	}
	s.Drain(s.SQ)
	s.Tx(func(tx *parley.Tx) error {
		for i, h := range handles[:with] {
			if err := tx.Conversation(h).Send(e.Ctx, s.Any, []byte(fmt.Sprint(i))); err != nil {
				return err
			}
		}
		return nil
	})
	d := s.Receive(s.CQ, nil)
	e.Must(d.Park(e.Ctx, errors.New("a check")))
	s.maintain(backend.JobMarkers)

	tx := s.begin()
	e.Must(tx.Unpark(e.Ctx, group))
	if e.ManyWriters() { // else there is no other writer beside tx
		waiting, idle := 0, 0
		sender := s.begin()
		for i, h := range handles {
			switch err := sender.TryStream(e.Ctx, h); {
			case err == nil:
			case !errors.Is(err, backend.ErrStreamBusy):
				e.Fatalf("try a stream: %v", err)
			case i < with:
				waiting++
			default:
				idle++
			}
		}
		s.rollback(sender)
		if waiting > most || idle > 0 {
			e.Errorf("%d senders of streams with messages, and %d of others, would wait for a group that becomes ready", waiting, idle)
		}
	}
	s.commit(tx)
	s.maintain(backend.JobDeferred)
	bodies := make(map[string]int)
	for _, m := range s.Drain(s.CQ) {
		bodies[string(m.Body)]++
	}
	for i := range with {
		if n := bodies[fmt.Sprint(i)]; n != 1 {
			e.Errorf("message %d was received %d times", i, n)
		}
	}
}

func checkTakenAfterDeath(e *env) {
	s := invUnder(invWorld(e))
	for _, hold := range e.Holds() {
		st := s.dialog()
		s.sent(st, "m0")
		dead := s.claim(parley.HoldLease, backend.ClaimRequest{Lease: 20 * time.Millisecond})
		taken := s.Soon(invPatience, func() bool {
			tx := s.begin()
			defer tx.Rollback(e.Ctx)
			err := tx.LockGroup(e.Ctx, dead.Group)
			if err != nil && !invBusy(e, err) {
				e.Errorf("lock the group: %v", err)
			}
			return err == nil && tx.Commit(e.Ctx) == nil
		})
		if !taken {
			e.Fatalf("the group was not to be had after its lease had run out")
		}
		h := s.found(hold, "after the group was taken by a verb")
		if got := h.Messages[0].Deaths; got != 1 {
			e.Errorf("%s: the message shows %d receivers that died, want 1", invHoldName(hold), got)
		}
		h.settle(backend.Outcome{Done: h.Messages})
	}
}
