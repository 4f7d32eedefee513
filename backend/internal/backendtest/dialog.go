package backendtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley/backend"
)

func testDialog(f *Fixture) {
	d := f.ends()
	d.A.Lifetime = time.Hour
	f.Do(func(tx backend.Tx) error {
		return tx.BeginDialog(f.Ctx, f.Version, backend.NewDialog{Endpoint: d.A, NewGroup: true})
	})
	f.Is(f.Try(func(tx backend.Tx) error {
		return tx.BeginDialog(f.Ctx, f.Version, backend.NewDialog{Endpoint: func() backend.Endpoint {
			e := f.ends().A
			e.Group = d.A.Group
			return e
		}(), NewGroup: true})
	}), backend.ErrGroupBusy)

	e := f.endpoint(d.A.Handle)
	f.Equal("state", e.State, backend.StartedOutbound)
	if e.Lifetime < 50*time.Minute || e.Lifetime > time.Hour {
		f.Errorf("lifetime %v", e.Lifetime)
	}
	e.Lifetime, e.State = d.A.Lifetime, ""
	f.Equal("endpoint", *e, d.A)
	f.Is(f.Try(func(tx backend.Tx) error { _, err := tx.Endpoint(f.Ctx, d.B.Handle); return err }), backend.ErrNoConversation)

	f.Do(func(tx backend.Tx) error {
		ok, err := tx.Accept(f.Ctx, f.Version, d.A.Handle, d.B)
		f.Equal("accepted", ok, true)
		return err
	})
	f.Do(func(tx backend.Tx) error {
		ok, err := tx.Accept(f.Ctx, f.Version, d.A.Handle, d.B)
		f.Equal("accepted again", ok, false)
		return err
	})
	f.Equal("target's state", f.endpoint(d.B.Handle).State, backend.Conversing)

	f.Do(func(tx backend.Tx) error {
		sent, err := tx.Send(f.Ctx, f.Version, []backend.Outgoing{Message(d.A.Handle, "one"), Message(d.A.Handle, "two")})
		f.Equal("sent", sent, []backend.Sent{{Seq: 0, Queue: f.QB}, {Seq: 1, Queue: f.QB}})
		return err
	})
	f.Equal("next", f.endpoint(d.A.Handle).NextSeq, 2)
	f.Equal("state", f.endpoint(d.A.Handle).State, backend.Conversing)
	f.Send(d.B.Handle, "back")

	h := f.One(f.Request(f.QB))
	f.Equal("group", h.Group, d.B.Handle)
	f.Equal("bodies", Bodies(h.Messages), []string{"one", "two"})
	m := h.Messages[1]
	if age := time.Since(m.Enqueued); age < -time.Minute || age > time.Minute {
		f.Errorf("enqueued %v ago", age)
	}
	f.Equal("message", []any{m.Stream, m.Seq, m.Kind, m.Type, m.Group, m.Handle, m.Conversation, m.Initiator, m.Service, m.FarService, m.Contract, m.Priority, m.Attempts},
		[]any{d.A.Handle, 1, backend.KindUser, "m", d.B.Handle, d.B.Handle, d.B.Conversation, false, "B", "A", "c", 5, 0})
	f.None(f.Request(f.QB))
	f.Ack(h)
	f.None(f.Request(f.QB))
	f.Equal("back", f.Drain(f.QA), []string{"back"})
}

func testRefusals(f *Fixture) {
	refused := func(from backend.ID, want backend.Refusal) {
		f.Helper()
		err := f.Try(func(tx backend.Tx) error {
			_, err := tx.Send(f.Ctx, f.Version, []backend.Outgoing{Message(from, "x")})
			return err
		})
		var r *backend.Refused
		if !errors.As(err, &r) || r.Refusals[0] != want {
			f.Errorf("send: %v, want refusal %q", err, want)
		}
	}
	refused(backend.NewID(), backend.RefusedUnknown)
	d := f.ends()
	f.Do(func(tx backend.Tx) error {
		return tx.BeginDialog(f.Ctx, f.Version, backend.NewDialog{Endpoint: d.A, NewGroup: true})
	})
	refused(d.A.Handle, backend.RefusedNoTarget)
	d = f.Open()
	f.Version--
	refused(d.A.Handle, backend.RefusedStale)
	f.Version++

	other := f.Open()
	err := f.Try(func(tx backend.Tx) error {
		_, err := tx.Send(f.Ctx, f.Version, []backend.Outgoing{Message(d.A.Handle, "x"), Message(backend.NewID(), "y"), Message(other.A.Handle, "z")})
		var r *backend.Refused
		if !errors.As(err, &r) || len(r.Refusals) != 1 || r.Refusals[1] != backend.RefusedUnknown {
			f.Errorf("send: %v", err)
		}
		return nil // the transaction goes on
	})
	f.OK(err)
	f.None(f.Request(f.QB))

	f.End(backend.End{Handle: d.B.Handle})
	refused(d.B.Handle, backend.RefusedEnded)
	refused(d.A.Handle, backend.RefusedFar)
}

func testBatch(f *Fixture) {
	var batch []backend.Outgoing
	var ds []Dialog
	for i := range 10 {
		ds = append(ds, f.Open())
		for j := range 10 {
			batch = append(batch, Message(ds[i].A.Handle, fmt.Sprintf("%d.%d", i, j)))
		}
	}
	slices.SortStableFunc(batch, func(a, b backend.Outgoing) int { return strings.Compare(string(a.Body[2:]), string(b.Body[2:])) })
	batch[0].Body = nil
	f.Do(func(tx backend.Tx) error {
		sent, err := tx.Send(f.Ctx, f.Version, batch)
		f.Equal("sent", len(sent), 100)
		f.Equal("last", sent[99], backend.Sent{Seq: 9, Queue: f.QB})
		return err
	})
	r := f.Request(f.QB)
	r.MaxGroups = 100
	c := f.Claim(r)
	f.Equal("holds", len(c.Holds), 10)
	for _, h := range c.Holds {
		f.Equal("messages", len(h.Messages), 10)
		for j, m := range h.Messages {
			f.Equal("seq", m.Seq, j)
		}
	}
	if first := c.Holds[0].Messages[0]; first.Body != nil {
		f.Errorf("a body of NULL came back as %q", first.Body)
	}
	var all []backend.Outcome
	for _, h := range c.Holds {
		all = append(all, backend.Outcome{Hold: h, Done: h.Messages})
	}
	f.Settle(all...)
	f.None(f.Request(f.QB))
}

func testWithhold(f *Fixture) {
	d := f.ends()
	f.Do(func(tx backend.Tx) error {
		if err := tx.BeginDialog(f.Ctx, f.Version, backend.NewDialog{Endpoint: d.A, NewGroup: true}); err != nil {
			return err
		}
		sent, err := tx.Withhold(f.Ctx, []backend.Outgoing{Message(d.A.Handle, "1"), Message(d.A.Handle, "2")}, "why")
		f.Equal("withheld", sent, []backend.Sent{{Seq: 0}, {Seq: 1}})
		return err
	})
	list, err := f.Backend.Withheld(f.Ctx, backend.ID{}, 10)
	f.OK(err)
	if len(list) != 1 || list[0].From.Handle != d.A.Handle || list[0].Count != 2 || list[0].Status != "why" || list[0].From.FarService != "B" {
		f.Errorf("withheld %+v", list)
	}
	f.Do(func(tx backend.Tx) error {
		_, err := tx.Accept(f.Ctx, f.Version, d.A.Handle, d.B)
		return err
	})
	err = f.Try(func(tx backend.Tx) error {
		_, err := tx.Send(f.Ctx, f.Version, []backend.Outgoing{Message(d.A.Handle, "3")})
		return err
	})
	var r *backend.Refused
	if !errors.As(err, &r) || r.Refusals[0] != backend.RefusedWithheld {
		f.Errorf("send: %v", err)
	}
	f.Do(func(tx backend.Tx) error {
		n, err := tx.Deliver(f.Ctx, d.A.Handle)
		f.Equal("delivered", n, 2)
		return err
	})
	f.Send(d.A.Handle, "3")
	f.Equal("drained", f.Drain(f.QB), []string{"1", "2", "3"})

	f.Do(func(tx backend.Tx) error {
		_, err := tx.Withhold(f.Ctx, []backend.Outgoing{Message(d.A.Handle, "4")}, "why")
		return err
	})
	f.Do(func(tx backend.Tx) error {
		n, err := tx.Discard(f.Ctx, d.A.Handle, "no reason")
		f.Equal("discarded", n, 1)
		return err
	})
	dead, err := f.Backend.DeadLetters(f.Ctx, backend.DeadQuery{Limit: 10, Bodies: true})
	f.OK(err)
	if len(dead) != 1 || string(dead[0].Message.Body) != "4" || dead[0].Reason != "no reason" {
		f.Errorf("dead letters %+v", dead)
	}
	f.Send(d.A.Handle, "5")
	f.Equal("drained", f.Drain(f.QB), []string{"5"})

	// END after what is withheld waits with it.
	f.Do(func(tx backend.Tx) error {
		_, err := tx.Withhold(f.Ctx, []backend.Outgoing{Message(d.A.Handle, "6")}, "why")
		return err
	})
	f.End(backend.End{Handle: d.A.Handle})
	f.Equal("drained", f.Drain(f.QB), []string{})
	f.Do(func(tx backend.Tx) error {
		n, err := tx.Deliver(f.Ctx, d.A.Handle)
		f.Equal("delivered", n, 2)
		return err
	})
	f.Equal("drained", f.Drain(f.QB), []string{"6", "<EndDialog>"})
}

func testMove(f *Fixture) {
	d, e := f.Open(), f.Open()
	f.Send(d.B.Handle, "1")
	move := func(to backend.ID, fresh bool) error {
		return f.Try(func(tx backend.Tx) error {
			g := f.where(tx, d.A.Handle)
			for _, id := range []backend.ID{g, to} {
				if err := tx.LockGroup(f.Ctx, id); err != nil && !(fresh && errors.Is(err, backend.ErrNoGroup)) {
					return err
				}
			}
			return tx.Move(f.Ctx, d.A.Handle, to, fresh)
		})
	}
	f.OK(move(e.A.Group, false))
	f.Send(d.B.Handle, "2")
	f.Send(e.B.Handle, "3")
	h := f.One(f.Request(f.QA))
	f.Equal("together", []any{h.Group, Bodies(h.Messages)}, []any{e.A.Group, []string{"1", "2", "3"}})
	f.Settle(backend.Outcome{Hold: h, Park: "parked"})
	fresh := backend.NewID()
	f.OK(move(fresh, true))
	h = f.One(f.Request(f.QA))
	f.Equal("out of a parked group", []any{h.Group, Bodies(h.Messages)}, []any{fresh, []string{"1", "2"}})
	f.Ack(h)
	f.Is(move(d.B.Group, false), backend.ErrGroupElsewhere)
}

func (f *Fixture) where(tx backend.Tx, handle backend.ID) backend.ID {
	f.Helper()
	e, err := tx.Endpoint(f.Ctx, handle)
	f.OK(err)
	return e.Group
}

func testLockGroup(f *Fixture) {
	d := f.Open()
	f.Is(f.Try(func(tx backend.Tx) error { return tx.LockGroup(f.Ctx, backend.NewID()) }), backend.ErrNoGroup)
	f.Do(func(tx backend.Tx) error {
		if err := tx.LockGroup(f.Ctx, d.B.Group); err != nil {
			return err
		}
		return tx.LockGroup(f.Ctx, d.B.Group)
	})
	f.Send(d.A.Handle, "1")
	h := f.One(f.Request(f.QB))
	err := f.Try(func(tx backend.Tx) error { return tx.LockGroup(f.Ctx, d.B.Group) })
	if !errors.Is(err, backend.ErrGroupBusy) {
		f.Errorf("lock of a leased group: %v", err)
	}
	f.Do(func(tx backend.Tx) error {
		if err := tx.Reclaim(f.Ctx, []*backend.Hold{h}); err != nil {
			return err
		}
		return tx.LockGroup(f.Ctx, d.B.Group)
	})
}
