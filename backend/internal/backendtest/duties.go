package backendtest

import (
	"time"

	"github.com/parleymq/parley/backend"
)

func testTimer(f *Fixture) {
	d := f.Open()
	set := func(after time.Duration) {
		f.Do(func(tx backend.Tx) error { return tx.SetTimer(f.Ctx, d.A.Handle, after) })
	}
	set(time.Hour)
	n, next := f.Tend(backend.DutyTimers)
	f.Equal("moved", n, 0)
	if next < 50*time.Minute || next > time.Hour {
		f.Errorf("next timer in %v", next)
	}
	set(0)
	if _, next := f.Tend(backend.DutyTimers); next != 0 {
		f.Errorf("next timer in %v, but there is none", next)
	}
	set(time.Hour)
	set(time.Millisecond)
	f.Send(d.B.Handle, "1")
	f.TendUntil(backend.DutyTimers, 1)
	f.Equal("drained", f.Drain(f.QA), []string{"<DialogTimer>", "1"})
	f.Is(f.Try(func(tx backend.Tx) error { return tx.SetTimer(f.Ctx, backend.NewID(), 1) }), backend.ErrNoConversation)
	set(time.Hour)
	f.end(backend.End{Handle: d.A.Handle})
	if _, next := f.Tend(backend.DutyTimers); next != 0 {
		f.Errorf("next timer in %v, but the conversation has ended", next)
	}
}

func testDelayed(f *Fixture) {
	f.Post(backend.Posting{Body: []byte("later"), Delay: time.Hour})
	f.Post(backend.Posting{Body: []byte("soon"), Delay: 20 * time.Millisecond})
	f.Post(backend.Posting{Body: []byte("k2"), Key: "k", Delay: 30 * time.Millisecond})
	f.Post(backend.Posting{Body: []byte("k3"), Key: "k", Delay: 40 * time.Millisecond})
	f.Post(backend.Posting{Body: []byte("k1"), Key: "k"})
	f.Equal("drained", f.Drain(f.QP), []string{"k1"})
	f.TendUntil(backend.DutyDelayed, 3)
	f.Equal("drained", sorted(f.Drain(f.QP)), []string{"k2", "k3", "soon"})
	if _, next := f.Tend(backend.DutyDelayed); next < 50*time.Minute {
		f.Errorf("next in %v", next)
	}
}

func testRetention(f *Fixture) {
	d := f.Open()
	m := Message(d.A.Handle, "1")
	m.Retain = true
	f.Do(func(tx backend.Tx) error { _, err := tx.Send(f.Ctx, f.Version, []backend.Outgoing{m}); return err })
	m2, m3 := Message(d.A.Handle, "2"), Message(d.A.Handle, "3")
	m2.Retain = true
	f.Do(func(tx backend.Tx) error { _, err := tx.Send(f.Ctx, f.Version, []backend.Outgoing{m2, m3}); return err })
	h := f.One(f.Request(f.QB))
	f.Settle(backend.Outcome{Hold: h, Done: h.Messages, Retain: true})
	f.Send(d.B.Handle, "back")
	h = f.One(f.Request(f.QA))
	f.Settle(backend.Outcome{Hold: h, Done: h.Messages, Retain: true})
	list, err := f.Backend.Retained(f.Ctx, d.A.Handle)
	f.OK(err)
	f.Equal("kept by the initiator", len(list), 3)
	if len(list) == 3 {
		f.Equal("sent", []any{list[0].Sent, string(list[0].Message.Body), list[2].Sent, string(list[2].Message.Body)}, []any{true, "1", false, "back"})
	}
	list, err = f.Backend.Retained(f.Ctx, d.B.Handle)
	f.OK(err)
	f.Equal("kept by the target", len(list), 3)
	f.end(backend.End{Handle: d.B.Handle})
	list, err = f.Backend.Retained(f.Ctx, d.B.Handle)
	f.OK(err)
	f.Equal("after END", len(list), 0)
}

func testProcessed(f *Fixture) {
	a := f.Post(backend.Posting{Body: []byte("a")})
	b := f.Post(backend.Posting{Key: "k", Body: []byte("b")})
	for range 2 {
		h := f.One(f.Request(f.QP))
		f.Settle(backend.Outcome{Hold: h, Done: h.Messages, Keep: 50 * time.Millisecond})
	}
	for _, id := range []backend.ID{a, b} {
		s, err := f.Backend.PostStatus(f.Ctx, f.QP, id)
		f.OK(err)
		f.Equal("state", s.State, "processed")
	}
	f.TendUntil(backend.DutyProcessed, 2)
	_, err := f.Backend.PostStatus(f.Ctx, f.QP, a)
	f.Is(err, backend.ErrNotPending)
}

func testSweeps(f *Fixture) {
	// A marker whose messages were consumed without a finish is left over: here
	// the receiver ends one side, and what it had not read is dropped.
	d := f.Open()
	f.Send(d.B.Handle, "1")
	f.end(backend.End{Handle: d.A.Handle, Kind: backend.EndCleanup})
	f.None(f.Request(f.QA))
	f.Tend(backend.DutyMarkers)
	c := f.None(f.Request(f.QA))
	f.Equal("contended", c.Contended, false)
	f.end(backend.End{Handle: d.B.Handle})
	f.Tend(backend.DutyClosed)
	f.Drain(f.QB)
	n, _ := f.Tend(backend.DutyGroups)
	f.Equal("groups removed", n, 2)
	f.Post(backend.Posting{Key: "hot"})
	f.Drain(f.QP)
	n, _ = f.Tend(backend.DutyGroups)
	f.Equal("keys removed that were used a moment ago", n, 0)
}
