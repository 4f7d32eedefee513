package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley/backend"
)

func testCatalog(f *Fixture) {
	f.Define(&backend.Catalog{
		Types:      []backend.MessageType{{Name: "m", Validation: backend.ValidationJSON}, {Name: "M"}},
		Queues:     []backend.Queue{{Name: "qa", Retention: true, KeepProcessed: time.Hour}, {Name: "QA"}},
		Priorities: []backend.PriorityRule{{Name: "p", Contract: "c", Level: 9}},
	})
	tx := f.Begin()
	c, err := tx.Catalog(f.Ctx, false)
	f.OK(err)
	f.Equal("types", c.Types, []backend.MessageType{{Name: "M"}, {Name: "m", Validation: backend.ValidationJSON}})
	f.Equal("priorities", c.Priorities, []backend.PriorityRule{{Name: "p", Contract: "c", Level: 9}})
	f.Equal("services", len(c.Services), 2)
	f.Equal("contracts", len(c.Contracts), 1)
	f.Equal("queues", len(c.Queues), 4)
	i := slices.IndexFunc(c.Queues, func(q backend.Queue) bool { return q.Name == "qa" })
	f.Equal("queue", c.Queues[i], backend.Queue{Name: "qa", ID: f.QA, Retention: true, KeepProcessed: time.Hour})

	err = f.Try(func(tx backend.Tx) error {
		return tx.BeginDialog(f.Ctx, f.Version-1, backend.NewDialog{Endpoint: f.ends().A, NewGroup: true})
	})
	f.Is(err, backend.ErrStaleCatalog)
}

func testMigrate(f *Fixture) {
	info, err := f.Backend.Info(f.Ctx)
	f.OK(err)
	if info.Engine == "" || info.Version == "" {
		f.Errorf("info %+v", info)
	}
	f.OK(f.Backend.Check(f.Ctx))
	f.OK(f.Backend.Migrate(f.Ctx))
	f.OK(f.Backend.Uninstall(f.Ctx))
	f.Is(f.Backend.Check(f.Ctx), backend.ErrNotMigrated)
	f.Is(f.Try(func(tx backend.Tx) error {
		_, err := tx.Catalog(f.Ctx, false)
		return err
	}), backend.ErrNotMigrated)
	f.OK(f.Backend.Uninstall(f.Ctx))
	f.OK(f.Backend.Migrate(f.Ctx))
	f.OK(f.Backend.Check(f.Ctx))
	if p, ok := f.Backend.(backend.Printer); !ok || !strings.Contains(p.MigrationSQL(), "CREATE TABLE") {
		f.Error("there is no SQL to print")
	}
}

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
	f.Equal("message", []any{m.Stream, m.Seq, m.Kind, m.Type, m.Group, m.Handle, m.Conversation, m.Initiator, m.Service, m.Far, m.Contract, m.Priority, m.Attempts},
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

	f.end(backend.End{Handle: d.B.Handle})
	refused(d.B.Handle, backend.RefusedEnded)
	refused(d.A.Handle, backend.RefusedPeer)
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
	list, err := f.Backend.Withheld(f.Ctx, 10)
	f.OK(err)
	if len(list) != 1 || list[0].From.Handle != d.A.Handle || list[0].Count != 2 || list[0].Status != "why" || list[0].From.Far != "B" {
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
	if !errors.As(err, &r) || r.Refusals[0] != backend.RefusedHeld {
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
	dead, err := f.Backend.DeadLetters(f.Ctx, 0, 10)
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
	f.end(backend.End{Handle: d.A.Handle})
	f.Equal("drained", f.Drain(f.QB), []string{})
	f.Do(func(tx backend.Tx) error {
		n, err := tx.Deliver(f.Ctx, d.A.Handle)
		f.Equal("delivered", n, 2)
		return err
	})
	f.Equal("drained", f.Drain(f.QB), []string{"6", "<EndDialog>"})
}

func testEnd(f *Fixture) {
	d := f.Open()
	f.Send(d.A.Handle, "1", "2")
	f.Send(d.B.Handle, "unread")
	done := f.end(backend.End{Handle: d.A.Handle})
	f.Equal("ended", done, backend.Ended{Queue: f.QB, Dropped: 1})
	f.Equal("state", f.endpoint(d.A.Handle).State, backend.DisconnectedOutbound)
	f.Equal("peer's state", f.endpoint(d.B.Handle).State, backend.DisconnectedInbound)
	f.Is(f.Try(func(tx backend.Tx) error {
		_, err := tx.EndDialog(f.Ctx, backend.End{Handle: d.A.Handle, MessageID: backend.NewID()})
		return err
	}), backend.ErrEnded)
	f.None(f.Request(f.QA))
	f.Equal("drained", f.Drain(f.QB), []string{"1", "2", "<EndDialog>"})
	done = f.end(backend.End{Handle: d.B.Handle})
	f.Equal("ended", done, backend.Ended{PeerGone: true, Unheard: true})
	f.Tend(backend.DutyClosed)
	for _, h := range []backend.ID{d.A.Handle, d.B.Handle} {
		f.Is(f.Try(func(tx backend.Tx) error { _, err := tx.Endpoint(f.Ctx, h); return err }), backend.ErrNoConversation)
	}
}

func testEndError(f *Fixture) {
	d := f.Open()
	f.Send(d.A.Handle, "1")
	done := f.end(backend.End{Handle: d.A.Handle, Kind: backend.EndError, Error: &backend.DialogError{Code: 42, Text: "no & no"}})
	f.Equal("queue", done.Queue, f.QB)
	e := f.endpoint(d.B.Handle)
	f.Equal("state", e.State, backend.Errored)
	f.Equal("error", *e.Error, backend.DialogError{Code: 42, Text: "no & no"})
	h := f.One(f.Request(f.QB))
	f.Equal("bodies", Bodies(h.Messages), []string{"<Error>", "1"})
	got, err := backend.ParseDialogError(h.Messages[0].Body)
	f.OK(err)
	f.Equal("body", *got, *e.Error)
	f.Ack(h)
	done = f.end(backend.End{Handle: d.B.Handle, Kind: backend.EndError, Error: &backend.DialogError{Code: 1, Text: "x"}, Keep: time.Hour})
	f.Equal("ended", done, backend.Ended{PeerGone: true, Unheard: true})
	f.Equal("state", f.endpoint(d.A.Handle).State, backend.Closed)
	f.Equal("state", f.endpoint(d.B.Handle).State, backend.Closed)
	f.Tend(backend.DutyClosed)
	f.Equal("kept", f.endpoint(d.A.Handle).State, backend.Closed)
	f.None(f.Request(f.QA))
}

func testEndUnsent(f *Fixture) {
	d := f.ends()
	f.Do(func(tx backend.Tx) error {
		return tx.BeginDialog(f.Ctx, f.Version, backend.NewDialog{Endpoint: d.A, NewGroup: true})
	})
	done := f.end(backend.End{Handle: d.A.Handle})
	f.Equal("ended", done, backend.Ended{PeerGone: true})
	f.Is(f.Try(func(tx backend.Tx) error { _, err := tx.Endpoint(f.Ctx, d.A.Handle); return err }), backend.ErrNoConversation)
}

func testCleanup(f *Fixture) {
	d := f.Open()
	f.Send(d.A.Handle, "1")
	f.Send(d.B.Handle, "2")
	f.end(backend.End{Handle: d.A.Handle, Kind: backend.EndCleanup})
	f.Is(f.Try(func(tx backend.Tx) error { _, err := tx.Endpoint(f.Ctx, d.A.Handle); return err }), backend.ErrNoConversation)
	e := f.endpoint(d.B.Handle)
	f.Equal("state", e.State, backend.Conversing)
	f.Equal("peer cleaned", e.PeerCleaned, true)
	f.Equal("drained", f.Drain(f.QB), []string{"1"})
	f.None(f.Request(f.QA))
	done := f.end(backend.End{Handle: d.B.Handle})
	f.Equal("gone", done.PeerGone, true)
	f.Is(f.Try(func(tx backend.Tx) error { _, err := tx.Endpoint(f.Ctx, d.B.Handle); return err }), backend.ErrNoConversation)
}

func testEndBoth(f *Fixture) {
	d := f.Open()
	f.Send(d.A.Handle, "1")
	f.end(backend.End{Handle: d.B.Handle})
	f.end(backend.End{Handle: d.A.Handle})
	f.Drain(f.QA)
	f.Drain(f.QB)
	f.Tend(backend.DutyClosed)
	list, err := f.Backend.Conversations(f.Ctx, backend.ConversationQuery{Limit: 10})
	f.OK(err)
	f.Equal("conversations", len(list), 0)
	n, _ := f.Tend(backend.DutyGroups)
	f.Equal("groups removed", n, 2)
}

// testEndInDelivery ends a conversation in the transaction that acknowledges its
// messages.
func testEndInDelivery(f *Fixture) {
	d := f.Open()
	f.Send(d.A.Handle, "1", "2")
	h := f.One(f.Request(f.QB))
	f.Do(func(tx backend.Tx) error {
		if err := tx.Reclaim(f.Ctx, []*backend.Hold{h}); err != nil {
			return err
		}
		if err := tx.LockGroup(f.Ctx, h.Group); err != nil {
			return err
		}
		done, err := tx.EndDialog(f.Ctx, backend.End{Handle: d.B.Handle, MessageID: backend.NewID()})
		if err != nil {
			return err
		}
		f.Equal("ended", done, backend.Ended{Queue: f.QA})
		_, err = tx.Settle(f.Ctx, []backend.Outcome{{Hold: h, Done: h.Messages}})
		return err
	})
	f.Equal("drained", f.Drain(f.QA), []string{"<EndDialog>"})
	f.None(f.Request(f.QB))
}

func testNotice(f *Fixture) {
	d := f.Open()
	f.Send(d.B.Handle, "1")
	f.Do(func(tx backend.Tx) error {
		return tx.Notice(f.Ctx, backend.Notice{To: d.A.Handle, Kind: backend.KindError, Error: &backend.DialogError{Code: -1, Text: "broken"}})
	})
	f.Equal("state", f.endpoint(d.A.Handle).State, backend.Errored)
	f.Equal("drained", f.Drain(f.QA), []string{"<Error>", "1"})
	f.end(backend.End{Handle: d.A.Handle})
	f.Do(func(tx backend.Tx) error {
		return tx.Notice(f.Ctx, backend.Notice{To: d.A.Handle, Kind: backend.KindTimer})
	})
	f.Equal("drained", f.Drain(f.QA), []string{})
}

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

func testLifetime(f *Fixture) {
	d := f.ends()
	d.A.Lifetime, d.B.Lifetime = 50*time.Millisecond, 50*time.Millisecond
	f.Do(func(tx backend.Tx) error {
		if err := tx.BeginDialog(f.Ctx, f.Version, backend.NewDialog{Endpoint: d.A, NewGroup: true}); err != nil {
			return err
		}
		_, err := tx.Accept(f.Ctx, f.Version, d.A.Handle, d.B)
		return err
	})
	f.Send(d.A.Handle, "1")
	f.TendUntil(backend.DutyLifetimes, 2)
	f.Equal("drained", f.Drain(f.QA), []string{"<Error>"})
	f.Equal("drained", f.Drain(f.QB), []string{"<Error>", "1"})
	e := f.endpoint(d.B.Handle)
	f.Equal("state", e.State, backend.Errored)
	f.Equal("code", e.Error.Code, backend.CodeLifetime)
	f.end(backend.End{Handle: d.A.Handle})
	f.end(backend.End{Handle: d.B.Handle})
}

func testPosts(f *Fixture) {
	var want []string
	for i := range 5 {
		f.Post(backend.Posting{Body: []byte(fmt.Sprint(i))})
		want = append(want, fmt.Sprint(i))
	}
	f.Equal("drained", f.Drain(f.QP), want)

	batch := make([]backend.Posting, 50)
	want = nil
	for i := range batch {
		batch[i] = f.Posting(backend.Posting{Body: []byte(fmt.Sprintf("%02d", i))})
		want = append(want, fmt.Sprintf("%02d", i))
	}
	f.Do(func(tx backend.Tx) error {
		posted, err := tx.Post(f.Ctx, f.Version, batch)
		f.Equal("posted", len(posted), 50)
		return err
	})
	r := f.Request(f.QP)
	r.MaxGroups = 20
	c := f.Claim(r)
	f.Equal("holds", len(c.Holds), 20)
	var got []string
	var all []backend.Outcome
	for _, h := range c.Holds {
		f.Equal("group", h.Group, h.Messages[0].ID)
		got = append(got, Bodies(h.Messages)...)
		all = append(all, backend.Outcome{Hold: h, Done: h.Messages})
	}
	f.Equal("bodies", got, want[:20])
	f.Settle(all...)
	f.Equal("drained", f.Drain(f.QP), want[20:])

	f.Version--
	f.Is(f.Try(func(tx backend.Tx) error { _, err := tx.Post(f.Ctx, f.Version, batch[:1]); return err }), backend.ErrStaleCatalog)
	f.Is(f.Try(func(tx backend.Tx) error { _, err := tx.Post(f.Ctx, f.Version, batch); return err }), backend.ErrStaleCatalog)
	f.Is(f.Try(func(tx backend.Tx) error { _, err := tx.Claim(f.Ctx, f.Request(f.QP)); return err }), backend.ErrStaleCatalog)
	f.Version++
}

func testKeys(f *Fixture) {
	for i := range 3 {
		f.Post(backend.Posting{Key: "k", Body: []byte(fmt.Sprint("k", i))})
		f.Post(backend.Posting{Key: "l", Body: []byte(fmt.Sprint("l", i))})
	}
	h := f.One(f.Request(f.QP))
	f.Equal("bodies", Bodies(h.Messages), []string{"k0", "k1", "k2"})
	f.Equal("key", h.Messages[0].Key, "k")
	f.Equal("kind", h.Messages[0].Kind, backend.KindUser)
	// Acknowledging a part leaves the rest.
	f.Settle(backend.Outcome{Hold: h, Done: h.Messages[:1]})
	f.Equal("drained", sorted(f.Drain(f.QP)), []string{"k1", "k2", "l0", "l1", "l2"})
	var batch []backend.Posting
	for i := range 20 {
		batch = append(batch, f.Posting(backend.Posting{Key: fmt.Sprint(i % 4), Body: []byte(fmt.Sprintf("%02d", i))}))
	}
	f.Do(func(tx backend.Tx) error { _, err := tx.Post(f.Ctx, f.Version, batch); return err })
	r := f.Request(f.QP)
	r.MaxGroups = 10
	c := f.Claim(r)
	f.Equal("holds", len(c.Holds), 4)
	for _, h := range c.Holds {
		b := Bodies(h.Messages)
		f.Equal("in order", b, sorted(b))
		f.Equal("messages", len(b), 5)
		f.Ack(h)
	}
}

func testUnique(f *Fixture) {
	p := f.Posting(backend.Posting{Unique: "u", Body: []byte("1")})
	post := func(p backend.Posting) (other backend.ID) {
		f.Do(func(tx backend.Tx) error {
			done, err := tx.Post(f.Ctx, f.Version, []backend.Posting{p})
			if err == nil {
				other = done[0].Duplicate
			}
			return err
		})
		return other
	}
	f.Equal("first", post(p), backend.ID{})
	f.Equal("second", post(f.Posting(backend.Posting{Unique: "u"})), p.ID)
	h := f.One(f.Request(f.QP))
	f.Equal("in hand", post(f.Posting(backend.Posting{Unique: "u"})), p.ID)
	f.Ack(h)
	for _, key := range []string{"", "k"} {
		for _, delay := range []time.Duration{0, time.Hour} {
			p := f.Posting(backend.Posting{Unique: "u", Key: key, Delay: delay})
			f.Equal("again", post(p), backend.ID{})
			f.Equal("duplicate", post(f.Posting(backend.Posting{Unique: "u"})), p.ID)
			if delay > 0 {
				f.Do(func(tx backend.Tx) error { return tx.Cancel(f.Ctx, f.QP, p.ID) })
			} else {
				f.Equal("drained", len(f.Drain(f.QP)), 1)
			}
		}
	}
	f.Do(func(tx backend.Tx) error {
		done, err := tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{ID: p.ID, Unique: "v"}), f.Posting(backend.Posting{Unique: "v"})})
		f.Equal("in one call", done, []backend.Posted{{}, {Duplicate: p.ID}})
		return err
	})
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

func testCancel(f *Fixture) {
	cancel := func(id backend.ID) error {
		return f.Try(func(tx backend.Tx) error { return tx.Cancel(f.Ctx, f.QP, id) })
	}
	f.Is(cancel(backend.NewID()), backend.ErrNotPending)
	ids := []backend.ID{
		f.Post(backend.Posting{}),
		f.Post(backend.Posting{Key: "k", Body: []byte("1")}),
		f.Post(backend.Posting{Delay: time.Hour}),
		f.Post(backend.Posting{Delay: time.Hour, Key: "k"}),
	}
	f.Post(backend.Posting{Key: "k", Body: []byte("2")})
	for _, id := range ids {
		if s, err := f.Backend.PostStatus(f.Ctx, f.QP, id); err != nil || s.ID != id {
			f.Errorf("status %+v, %v", s, err)
		}
		f.OK(cancel(id))
		f.Is(cancel(id), backend.ErrNotPending)
		_, err := f.Backend.PostStatus(f.Ctx, f.QP, id)
		f.Is(err, backend.ErrNotPending)
	}
	h := f.One(f.Request(f.QP))
	f.Equal("left", Bodies(h.Messages), []string{"2"})
	f.Is(cancel(h.Messages[0].ID), backend.ErrNotPending)
	f.Ack(h)
	id := f.Post(backend.Posting{})
	h = f.One(f.Request(f.QP))
	f.Is(cancel(id), backend.ErrNotPending)
	f.Ack(h)
}

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

func testDefer(f *Fixture) {
	d := f.Open()
	f.Send(d.A.Handle, "1")
	f.Post(backend.Posting{Queue: f.QB, Body: []byte("post")})
	for range 2 {
		f.Settle(backend.Outcome{Hold: f.One(f.Request(f.QB)), Defer: 50 * time.Millisecond})
	}
	c := f.None(f.Request(f.QB))
	f.Equal("contended", c.Contended, false)
	f.Send(d.A.Handle, "2")
	f.None(f.Request(f.QB))
	groups, err := f.Backend.Groups(f.Ctx, backend.GroupQuery{Queue: f.QB, Limit: 10})
	f.OK(err)
	f.Equal("groups", len(groups), 2)
	for _, g := range groups {
		f.Equal("state", g.State, "deferred")
	}
	f.TendUntil(backend.DutyDeferred, 2)
	f.Equal("drained", f.Drain(f.QB), []string{"1", "2", "post"})
}

func testPark(f *Fixture) {
	d := f.Open()
	f.Send(d.A.Handle, "1")
	post := f.Post(backend.Posting{Queue: f.QB, Body: []byte("post")})
	for range 2 {
		f.Settle(backend.Outcome{Hold: f.One(f.Request(f.QB)), Park: "bad"})
	}
	f.Send(d.A.Handle, "2") // makes a marker
	f.None(f.Request(f.QB))
	n, _ := f.Tend(backend.DutyMarkers)
	f.Equal("markers taken out", n, 1)
	c := f.None(f.Request(f.QB))
	f.Equal("contended", c.Contended, false)
	q := f.queue(f.QB)
	f.Equal("parked", q.Parked, 2)
	groups, err := f.Backend.Groups(f.Ctx, backend.GroupQuery{Queue: f.QB, Limit: 10})
	f.OK(err)
	f.Equal("groups", []any{len(groups), groups[0].State, groups[0].Reason, groups[0].Messages}, []any{2, "parked", "bad", 2})
	f.Do(func(tx backend.Tx) error { return tx.Unpark(f.Ctx, d.B.Group) })
	f.Do(func(tx backend.Tx) error { return tx.Unpark(f.Ctx, post) })
	f.Is(f.Try(func(tx backend.Tx) error { return tx.Unpark(f.Ctx, backend.NewID()) }), backend.ErrNoGroup)
	f.Equal("drained", f.Drain(f.QB), []string{"1", "2", "post"})
}

func (f *Fixture) queue(id int64) backend.QueueStatus {
	f.Helper()
	list, err := f.Backend.Queues(f.Ctx, 0)
	f.OK(err)
	for _, q := range list {
		if q.ID == id {
			return q
		}
	}
	f.Fatalf("no queue %d in %+v", id, list)
	return backend.QueueStatus{}
}

func testFailure(f *Fixture) {
	d := f.Open()
	f.Send(d.A.Handle, "1")
	f.Post(backend.Posting{Queue: f.QB})
	f.Post(backend.Posting{Queue: f.QB, Key: "k"})
	for range 3 {
		h := f.One(f.Request(f.QB))
		f.Settle(backend.Outcome{Hold: h, Defer: time.Millisecond, Failure: &backend.Failure{Message: h.Messages[0], Attempts: 2, Suspicion: 1, Error: "oops"}})
	}
	f.TendUntil(backend.DutyDeferred, 3)
	for range 3 {
		h := f.One(f.Request(f.QB))
		m := h.Messages[0]
		f.Equal("failure", []any{m.Attempts, m.Suspicion, m.LastError}, []any{2, 1, "oops"})
		f.Ack(h)
	}
}

func testDead(f *Fixture) {
	d := f.Open()
	f.Post(backend.Posting{Queue: f.QB, Body: []byte("post")})
	f.Post(backend.Posting{Queue: f.QB, Key: "k", Unique: "u", Body: []byte("keyed")})
	f.Send(d.A.Handle, "1", "2")
	for range 3 {
		h := f.One(f.Request(f.QB))
		f.Settle(backend.Outcome{Hold: h, Dead: []backend.DeadLetter{{Message: h.Messages[0], Reason: "rotten"}}})
	}
	f.Equal("drained", f.Drain(f.QB), []string{"2"})
	dead, err := f.Backend.DeadLetters(f.Ctx, f.QB, 10)
	f.OK(err)
	f.Equal("dead", len(dead), 3)
	if len(dead) == 3 {
		f.Equal("newest", []any{string(dead[0].Message.Body), dead[0].Message.Handle, dead[0].Message.Service}, []any{"1", d.B.Handle, "B"})
		f.Equal("next", []any{string(dead[1].Message.Body), dead[1].Message.Key, dead[1].Reason, dead[1].Queue}, []any{"keyed", "k", "rotten", f.QB})
	}
	none, err := f.Backend.DeadLetters(f.Ctx, f.QA, 10)
	f.OK(err)
	f.Equal("dead elsewhere", len(none), 0)
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
		r.Held = []backend.ID{c.Holds[0].Group}
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
	e.B.Handle, e.A.Peer = backend.NewID(), e.B.Handle
	e.A.Peer = e.B.Handle
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

func testOnce(f *Fixture) {
	once := func() (fresh bool) {
		f.Do(func(tx backend.Tx) (err error) { fresh, err = tx.Once(f.Ctx, "key"); return err })
		return fresh
	}
	f.Equal("first", once(), true)
	f.Equal("second", once(), false)
}

func testSavepoint(f *Fixture) {
	d := f.Open()
	f.Do(func(tx backend.Tx) error {
		send := func(body string) error {
			_, err := tx.Send(f.Ctx, f.Version, []backend.Outgoing{Message(d.A.Handle, body)})
			return err
		}
		return errors.Join(
			send("1"),
			tx.Savepoint(f.Ctx, "p"),
			send("2"),
			tx.RollbackTo(f.Ctx, "p"),
			send("3"),
			tx.Release(f.Ctx, "p"),
		)
	})
	h := f.One(f.Request(f.QB))
	f.Equal("bodies", Bodies(h.Messages), []string{"1", "3"})
	f.Equal("seq", h.Messages[1].Seq, 1)
}

func testRollback(f *Fixture) {
	d := f.Open()
	f.Is(f.Try(func(tx backend.Tx) error {
		if _, err := tx.Send(f.Ctx, f.Version, []backend.Outgoing{Message(d.A.Handle, "1")}); err != nil {
			return err
		}
		if _, err := tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{Key: "k"})}); err != nil {
			return err
		}
		return context.Canceled
	}), context.Canceled)
	f.None(f.Request(f.QB))
	f.None(f.Request(f.QP))
	f.Equal("next", f.endpoint(d.A.Handle).NextSeq, 0)
	f.Send(d.A.Handle, "2")
	h := f.One(f.Request(f.QB))
	f.Equal("seq", h.Messages[0].Seq, 0)
}

func testDone(f *Fixture) {
	for _, end := range []func(backend.Tx) error{
		func(tx backend.Tx) error { return tx.Commit(f.Ctx) },
		func(tx backend.Tx) error { return tx.Rollback(f.Ctx) },
	} {
		tx := f.Begin()
		f.OK(end(tx))
		f.Is(tx.Commit(f.Ctx), backend.ErrTxDone)
		f.OK(tx.Rollback(f.Ctx))
		_, err := tx.Catalog(f.Ctx, false)
		f.Is(err, backend.ErrTxDone)
		_, err = tx.Claim(f.Ctx, f.Request(f.QA))
		f.Is(err, backend.ErrTxDone)
		f.Is(tx.Savepoint(f.Ctx, "p"), backend.ErrTxDone)
	}
}

func testReader(f *Fixture) {
	d := f.Open()
	f.Send(d.A.Handle, "1", "2")
	f.Post(backend.Posting{Queue: f.QB, Rank: 9, Body: []byte("post")})
	f.Post(backend.Posting{Queue: f.QB, Key: "k", Rank: 1})
	f.Post(backend.Posting{Queue: f.QB, Delay: time.Hour})
	f.Do(func(tx backend.Tx) error { return tx.SetTimer(f.Ctx, d.A.Handle, time.Hour) })
	f.Do(func(tx backend.Tx) error {
		return tx.Promote(f.Ctx, backend.Promotion{Group: d.B.Group, Level: 7, Sticky: true})
	})
	q := f.queue(f.QB)
	f.Equal("queue", []any{q.Name, q.Depth, q.Delayed, q.Leased, q.Oldest > 0}, []any{"qb", 4, 1, 0, true})
	page := func(offset, limit int, waiting bool) (s []string) {
		groups, err := f.Backend.Groups(f.Ctx, backend.GroupQuery{Queue: f.QB, Offset: offset, Limit: limit, WaitingOnly: waiting})
		f.OK(err)
		for _, g := range groups {
			s = append(s, fmt.Sprint([]any{g.Service, g.Key, g.Post, g.Promoted, g.Level, g.Sticky, g.Priority, g.Messages, g.State}))
		}
		return s
	}
	all := []string{"[B  false true 7 true 5 2 ready]", "[  true false 0 false 9 1 ready]", "[ k false false 0 false 1 1 ready]"}
	f.Equal("groups", page(0, 10, false), all)
	f.Equal("a page", page(1, 1, false), all[1:2])
	h := f.One(f.Request(f.QB))
	f.Equal("waiting", page(0, 10, true), all[1:])
	groups, err := f.Backend.Groups(f.Ctx, backend.GroupQuery{Queue: f.QB, Limit: 1})
	f.OK(err)
	f.Equal("held", []any{groups[0].State, groups[0].Owner, groups[0].Until > 0}, []any{"held", "test", true})
	f.Equal("leased", f.queue(f.QB).Leased, 1)
	f.Settle(backend.Outcome{Hold: h})

	list, err := f.Backend.Conversations(f.Ctx, backend.ConversationQuery{Limit: 10})
	f.OK(err)
	f.Equal("conversations", len(list), 2)
	if len(list) == 2 {
		f.Equal("initiator", []any{list[0].Handle, list[0].NextSeq, list[0].Waiting, list[0].Timer > 0}, []any{d.A.Handle, 2, 0, true})
		f.Equal("target", []any{list[1].Handle, list[1].Waiting, list[1].Timer}, []any{d.B.Handle, 2, time.Duration(0)})
	}
	for _, x := range []backend.ConversationQuery{{Limit: 10, Handle: d.B.Handle}, {Limit: 1}} {
		list, err = f.Backend.Conversations(f.Ctx, x)
		f.OK(err)
		f.Equal("both sides", len(list), 2)
	}
	list, err = f.Backend.Conversations(f.Ctx, backend.ConversationQuery{Limit: 10, Group: d.A.Group})
	f.OK(err)
	f.Equal("of a group", len(list), 1)
	list, err = f.Backend.Conversations(f.Ctx, backend.ConversationQuery{Limit: 10, After: d.A.Conversation})
	f.OK(err)
	f.Equal("after the last", len(list), 0)
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

func testContext(f *Fixture) {
	ctx, cancel := context.WithCancel(f.Ctx)
	tx, err := f.Backend.Begin(ctx)
	f.OK(err)
	cancel()
	if _, err := tx.Catalog(ctx, true); !errors.Is(err, context.Canceled) {
		f.Errorf("error %v", err)
	}
	// The transaction outlives the context that it was begun with.
	_, err = tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{})})
	f.OK(err)
	f.OK(tx.Commit(f.Ctx))
	f.Equal("posts", len(f.Drain(f.QP)), 1)
	if _, err := f.Backend.Begin(ctx); !errors.Is(err, context.Canceled) {
		f.Errorf("error %v", err)
	}
	if err := f.Backend.Check(ctx); !errors.Is(err, context.Canceled) {
		f.Errorf("error %v", err)
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
	for _, duty := range []backend.Duty{backend.DutyTimers, backend.DutyDelayed} {
		n, _ := f.Tend(duty)
		f.Equal(fmt.Sprintf("moved by duty %v", duty), n, 0)
	}
	f.end(backend.End{Handle: d.A.Handle, Kind: backend.EndError, Error: &backend.DialogError{Code: 1, Text: "x"}})
	f.Define(&backend.Catalog{Queues: []backend.Queue{{Name: "qb"}}})
	f.Do(func(tx backend.Tx) error {
		n, err := tx.Deliver(f.Ctx, d.A.Handle)
		f.Equal("delivered", n, 1) // the error alone: what was withheld is dropped
		return err
	})
	f.TendUntil(backend.DutyTimers, 1)
	f.TendUntil(backend.DutyDelayed, 1)
	f.Equal("drained", sorted(f.Drain(f.QB)), []string{"1", "<DialogTimer>", "<Error>", "delayed"})
}
