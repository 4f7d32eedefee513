package backendtest

import (
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
