package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		Check{ID: "G07", Name: "the end of a transaction frees its groups", Run: checkGrpFree},
		Check{ID: "G07", Name: "a group is held until the commit, not until the settle", Run: checkGrpUntilCommit},
		Check{ID: "G07", Name: "the death of a process frees its groups", Run: checkGrpKilled},
		Check{ID: "G09", Name: "after a rollback to a savepoint the group is still held", Run: checkGrpSavepoint},
		Check{ID: "G09", Name: "a delivery that returns its messages keeps the group", Run: checkGrpReturn},
	)
}

func checkGrpFree(e *Env) {
	w := invWorld(e)
	other := invOther(w)
	undo := errors.New("undo")
	ends := []struct {
		name string
		end  func(b *parley.Broker, work func(tx *parley.Tx) error) error
	}{
		{"rollback", func(b *parley.Broker, work func(tx *parley.Tx) error) error {
			return b.InTx(e.Ctx, func(tx *parley.Tx) error { return errors.Join(work(tx), undo) })
		}},
		{"a panic", func(b *parley.Broker, work func(tx *parley.Tx) error) (err error) {
			defer func() {
				recover()
				err = errors.Join(err, undo)
			}()
			return b.InTx(e.Ctx, func(tx *parley.Tx) error {
				err = work(tx)
				panic("a check")
			})
		}},
		{"a cancelled context", func(b *parley.Broker, work func(tx *parley.Tx) error) error {
			ctx, cancel := context.WithCancel(e.Ctx)
			defer cancel()
			return b.InTx(ctx, func(tx *parley.Tx) error {
				err := errors.Join(work(tx), undo)
				cancel()
				return err
			})
		}},
		{"the loss of the connection", func(b *parley.Broker, work func(tx *parley.Tx) error) error {
			err := b.InTx(e.Ctx, func(tx *parley.Tx) error {
				if err := work(tx); err != nil {
					return err
				}
				return b.Backend().Close()
			})
			if err == nil {
				return errors.New("the connection was closed, and the commit reports success")
			}
			return undo
		}},
		{"commit", func(b *parley.Broker, work func(tx *parley.Tx) error) error {
			return errors.Join(b.InTx(e.Ctx, work), undo)
		}},
	}
	var groups []parley.ID
	for _, end := range ends {
		for _, body := range []string{"a", "b"} {
			w.Dialog(body)
		}
		groups = groups[:0]
		worker := invOther(w)
		err := end.end(worker.B, func(tx *parley.Tx) error {
			for len(groups) < 2 {
				g, err := tx.GetGroup(e.Ctx, w.SQ, nil)
				if err != nil {
					return err
				}
				if slices.Contains(groups, g) { // it is the next one again until it is empty
					ms, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Group: g})
					if err != nil || len(ms) != 1 {
						return fmt.Errorf("received %s: %w", describe(ms), err)
					}
					continue
				}
				groups = append(groups, g)
			}
			return nil
		})
		if !errors.Is(err, undo) || len(groups) != 2 {
			e.Fatalf("%s: %v, with %d groups taken", end.name, err, len(groups))
		}
		want := 2
		if end.name == "commit" {
			want = 1 // the other message was received
		}
		var ds []*parley.Delivery
		for {
			d := other.TryReceive(w.SQ, nil, 0)
			if d == nil {
				break
			}
			ds = append(ds, d)
		}
		if len(ds) != want {
			e.Fatalf("after %s %d of the groups can be received, want %d", end.name, len(ds), want)
		}
		for _, d := range ds {
			e.Must(d.Ack(e.Ctx))
		}
		// None of it is left to the next transaction of the same process.
		if end.name == "rollback" {
			w.Dialog("c")
			worker.Tx(func(tx *parley.Tx) error {
				for _, g := range groups {
					if _, err := tx.GetGroup(e.Ctx, w.SQ, &parley.ReceiveOptions{Group: g}); !errors.Is(err, parley.ErrNoMessage) {
						e.Errorf("the emptied group %s brings %v, want ErrNoMessage", g, err)
					}
				}
				return nil
			})
			other.Take(w.SQ, nil)
		}
	}
}

func checkGrpUntilCommit(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("the store has a single writer")
	}
	s := invUnder(invWorld(e))
	for _, hold := range e.Holds() {
		for _, st := range s.streams() {
			for _, end := range []string{"rollback", "commit"} {
				what := fmt.Sprintf("%s %s, settled, before its %s", st.kind, invHoldName(hold), end)
				s.sent(st, "m0", "m1")
				h := s.found(hold, what).want(what, "m0", "m1")
				tx := h.tx
				if tx == nil {
					tx = s.begin()
					e.Must(tx.Reclaim(e.Ctx, []*backend.Hold{h.Hold}))
					s.nothing(backend.ClaimRequest{}, what+" and only reclaimed")
				}
				e.Must(h.try(tx, backend.Outcome{Done: h.Messages[:1]}))
				s.nothing(backend.ClaimRequest{}, what)
				s.nothing(backend.ClaimRequest{Group: h.Group}, what)
				s.ends(tx, end)
				if end == "commit" {
					s.found(hold, what).want(what, "m1").ack()
					continue
				}
				if hold == parley.HoldLease { // the lease lives on: the settle was undone
					s.nothing(backend.ClaimRequest{}, what+", rolled back")
					h.back()
				}
				s.found(hold, what).want(what, "m0", "m1").ack()
			}
		}
	}
}

func checkGrpKilled(e *Env) {
	w := invWorld(e)
	w.Dialog("a0", "a1")
	w.Dialog("b0")
	key := e.Name("write")
	c := e.Child("receive in a transaction", w.SQ, "2", key)
	if got := c.Hear(); got != "received" {
		e.Fatalf("the child says %q, want that it received", got)
	}
	if e.HoldsInTransaction() {
		w.Nothing(w.SQ, nil)
	}
	c.Kill()
	groups := map[parley.ID]bool{}
	var got []string
	for len(got) < 3 {
		d := w.TryReceive(w.SQ, nil, 15*time.Second)
		if d == nil {
			e.Fatalf("the process was killed 15 s ago, and of its groups only %q is received", got)
		}
		groups[d.Group] = true
		got = append(got, Bodies(d.Messages)...)
		e.Must(d.Ack(e.Ctx))
	}
	if !slices.Equal(got, []string{"a0", "a1", "b0"}) || len(groups) != 2 {
		e.Errorf("after the process was killed received %q of %d groups, want a0, a1 and b0 of 2", got, len(groups))
	}
	if invWrote(w, key) {
		e.Errorf("the write of the killed process is there")
	}
}

func checkGrpSavepoint(e *Env) {
	w := invWorld(e)
	other := invOther(w)
	h := w.Dialog("m0", "m1", "m2")
	w.Dialog("later")
	ways := []struct {
		name string
		take func(tx *parley.Tx) (parley.ID, int, error) // the group, and how many were received
	}{
		{"GetGroup", func(tx *parley.Tx) (parley.ID, int, error) {
			g, err := tx.GetGroup(e.Ctx, w.SQ, nil)
			return g, 0, err
		}},
		{"Receive", func(tx *parley.Tx) (parley.ID, int, error) {
			ms, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{MaxMessages: 1})
			if err != nil {
				return parley.ID{}, 0, err
			}
			return ms[0].Group, 1, nil
		}},
	}
	undo := errors.New("undo")
	for _, way := range ways {
		key := e.Name(way.name)
		err := w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
			g, n, err := way.take(tx)
			if err != nil {
				return err
			}
			want := []string{"m0", "m1", "m2"}[n:]
			if err := tx.Savepoint(e.Ctx, "here"); err != nil {
				return err
			}
			for range 2 { // a savepoint can be returned to again
				ms, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Group: g})
				if err != nil {
					return fmt.Errorf("receive after the savepoint: %w", err)
				}
				if got := Bodies(ms); !slices.Equal(got, want) {
					e.Errorf("under %s received %q after the savepoint, want %q", way.name, got, want)
				}
				if _, err := tx.Once(e.Ctx, key); err != nil {
					return err
				}
				if err := tx.RollbackTo(e.Ctx, "here"); err != nil {
					return err
				}
				if e.HoldsInTransaction() {
					if d := other.TryReceive(w.SQ, &parley.ReceiveOptions{Group: g}, 0); d != nil {
						e.Fatalf("under %s, after the rollback to the savepoint another receiver gets %s", way.name, describe(d.Messages))
					}
					if got := other.Receive(w.SQ, nil); string(got.Messages[0].Body) != "later" {
						e.Fatalf("under %s, after the rollback to the savepoint another receiver gets %s", way.name, describe(got.Messages))
					} else {
						e.Must(got.Rollback(e.Ctx))
					}
				}
			}
			if fresh, err := tx.Once(e.Ctx, key); err != nil || !fresh {
				e.Errorf("under %s, what was written after the savepoint is still there (%v)", way.name, err)
			}
			if err := tx.Release(e.Ctx, "here"); err != nil {
				return err
			}
			ms, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Group: g})
			if err != nil {
				return fmt.Errorf("receive after the rollback to the savepoint: %w", err)
			}
			if got := Bodies(ms); !slices.Equal(got, want) {
				e.Errorf("under %s, after the rollback to the savepoint received %q, want %q", way.name, got, want)
			}
			return undo
		})
		e.Is(err, undo)
	}
	if got := w.Take(w.SQ, nil); !slices.Equal(got, []string{"m0", "m1", "m2"}) {
		e.Errorf("after all was rolled back received %q, want m0, m1 and m2", got)
	}
	w.Send(h, w.Ask, "m3")
	w.Drain(w.SQ)
}

func checkGrpReturn(e *Env) {
	invHolding(e, func(w, other *World, hold parley.Hold, kind string, d *parley.Delivery) {
		what := kind + " " + invHoldName(hold)
		e.Must(d.Return(e.Ctx))
		if d2 := other.TryReceive(w.SQ, &parley.ReceiveOptions{Group: d.Group}, 0); d2 != nil {
			e.Fatalf("%s: its messages were returned and the group kept, and another receiver gets %s", what, describe(d2.Messages))
		}
		more, err := d.More(e.Ctx, 1)
		e.Must(err)
		if got := Bodies(more); !slices.Equal(got, []string{"m0"}) {
			e.Fatalf("%s: after Return, More brings %q, want m0", what, got)
		}
		more, err = d.More(e.Ctx, 5)
		e.Must(err)
		if got := Bodies(more); !slices.Equal(got, []string{"m1"}) {
			e.Fatalf("%s: More brings %q, want m1", what, got)
		}
		e.Must(d.Return(e.Ctx))
		more, err = d.More(e.Ctx, 1)
		e.Must(err)
		if got := Bodies(more); !slices.Equal(got, []string{"m0"}) {
			e.Fatalf("%s: after a second Return, More brings %q, want m0", what, got)
		}
		e.Must(d.Ack(e.Ctx))
		if got := other.Take(w.SQ, nil); !slices.Equal(got, []string{"m1"}) {
			e.Errorf("%s: m0 was acknowledged, then received %q, want m1", what, got)
		}
	})
}
