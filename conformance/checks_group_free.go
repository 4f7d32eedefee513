package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		check{ID: "G07", Name: "the end of a transaction frees its groups", Run: checkGrpFree},
		check{ID: "G07", Name: "a group is held until the commit, not until the settle", Run: checkGrpUntilCommit},
		check{ID: "G07", Name: "the death of a process frees its groups", Run: checkGrpKilled},
		scripted("G09", "after a rollback to a savepoint the group is still held", `
			broker other
			begin d "m0" "m1" "m2"
			begin late "later"
			each take, held, want: group g at SQ, g, "m0", "m1", "m2" | receive SQ max 1 as taken, taken.group, "m1", "m2"
				transaction t
				t: $take
				t: savepoint here
				each again: 1 | 2 // a savepoint can be returned to again
					t: receive SQ group $held -> $want
					t: once "$held" new
					t: rollback to here
					if many writers:
						other: nothing SQ group $held
						other: receive SQ as r -> "later"
						rollback r
				t: once "$held" new
				t: release here
				t: receive SQ group $held -> $want
				rollback t
			receive SQ as r -> "m0", "m1", "m2"
			ack r
			send d "m3"
			take SQ in any order -> "later", "m3"
		`, alone),
		scripted("G09", "a delivery that returns its messages keeps the group", heldGroups+`
					return r
					other: nothing SQ group r.group
					more r 1 -> "m0"
					more r 5 -> "m1"
					return r
					more r 1 -> "m0"
					ack r
					other: receive SQ as rest -> "m1"
					ack rest
		`, alone),
	)
}

func checkGrpFree(e *env) {
	w := invWorld(e)
	other := invOther(w)
	ends := []struct {
		name string
		end  func(b *parley.Broker, work func(tx *parley.Tx) error) error
	}{
		{"rollback", func(b *parley.Broker, work func(tx *parley.Tx) error) error {
			return b.InTx(e.Ctx, func(tx *parley.Tx) error { return errors.Join(work(tx), errUndo) })
		}},
		{"a panic", func(b *parley.Broker, work func(tx *parley.Tx) error) (err error) {
			defer func() {
				recover()
				err = errors.Join(err, errUndo)
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
				err := errors.Join(work(tx), errUndo)
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
			return errUndo
		}},
		{"commit", func(b *parley.Broker, work func(tx *parley.Tx) error) error {
			return errors.Join(b.InTx(e.Ctx, work), errUndo)
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
		if !errors.Is(err, errUndo) || len(groups) != 2 {
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

func checkGrpUntilCommit(e *env) {
	if !e.ManyWriters() {
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

func checkGrpKilled(e *env) {
	w := invWorld(e)
	w.Dialog("a0", "a1")
	w.Dialog("b0")
	key := e.Name("write")
	c := e.Child("receive in a transaction", w.SQ, "2", key)
	if got := c.Hear(); got != "received" {
		e.Fatalf("the child says %q, want that it received", got)
	}
	if e.ManyWriters() {
		w.Nothing(w.SQ, nil)
	}
	c.Kill()
	// Either group may come first: a claim that runs while the server undoes the transaction may
	// pass the first group while it is still held, and find the second one free.
	groups := map[parley.ID][]string{}
	for n := 0; n < 3; {
		d := w.TryReceive(w.SQ, nil, 15*time.Second)
		if d == nil {
			e.Fatalf("the process was killed 15 s ago, and of its groups only %q is received", groups)
		}
		groups[d.Group] = append(groups[d.Group], bodiesOf(d.Messages)...)
		n += len(d.Messages)
		e.Must(d.Ack(e.Ctx))
	}
	got := slices.SortedFunc(maps.Values(groups), slices.Compare[[]string])
	want := [][]string{{"a0", "a1"}, {"b0"}}
	if !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		e.Errorf("after the process was killed its groups brought %q, want %q", got, want)
	}
	if invWrote(w, key) {
		e.Errorf("the write of the killed process is there")
	}
}
