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

func testCatalog(f *fixture) {
	f.define(&backend.Catalog{
		Types:      []backend.MessageType{{Name: "m", Validation: backend.ValidationJSON}, {Name: "M"}},
		Queues:     []backend.Queue{{Name: "qa", Retention: true, KeepProcessed: time.Hour}, {Name: "QA"}},
		Priorities: []backend.PriorityRule{{Name: "p", Contract: "c", Level: 9}},
	})
	tx := f.begin()
	c, err := tx.Catalog(f.ctx, false)
	f.ok(err)
	f.equal("types", c.Types, []backend.MessageType{{Name: "M"}, {Name: "m", Validation: backend.ValidationJSON}})
	f.equal("priorities", c.Priorities, []backend.PriorityRule{{Name: "p", Contract: "c", Level: 9}})
	f.equal("services", len(c.Services), 2)
	f.equal("contracts", len(c.Contracts), 1)
	f.equal("queues", len(c.Queues), 4)
	i := slices.IndexFunc(c.Queues, func(q backend.Queue) bool { return q.Name == "qa" })
	f.equal("queue", c.Queues[i], backend.Queue{Name: "qa", ID: f.qa, Retention: true, KeepProcessed: time.Hour})

	err = f.try(func(tx backend.Tx) error {
		return tx.BeginDialog(f.ctx, f.version-1, backend.NewDialog{Endpoint: f.ends().a, NewGroup: true})
	})
	f.is(err, backend.ErrStaleCatalog)
}

func testMigrate(f *fixture) {
	info, err := f.b.Info(f.ctx)
	f.ok(err)
	if info.Engine == "" || info.Version == "" {
		f.Errorf("info %+v", info)
	}
	f.ok(f.b.Check(f.ctx))
	f.ok(f.b.Migrate(f.ctx))
	f.ok(f.b.Uninstall(f.ctx))
	f.is(f.b.Check(f.ctx), backend.ErrNotMigrated)
	f.is(f.try(func(tx backend.Tx) error {
		_, err := tx.Catalog(f.ctx, false)
		return err
	}), backend.ErrNotMigrated)
	f.ok(f.b.Uninstall(f.ctx))
	f.ok(f.b.Migrate(f.ctx))
	f.ok(f.b.Check(f.ctx))
	if p, ok := f.b.(backend.Printer); !ok || !strings.Contains(p.MigrationSQL(), "CREATE TABLE") {
		f.Error("there is no SQL to print")
	}
}

func testDialog(f *fixture) {
	d := f.ends()
	d.a.Lifetime = time.Hour
	f.do(func(tx backend.Tx) error {
		return tx.BeginDialog(f.ctx, f.version, backend.NewDialog{Endpoint: d.a, NewGroup: true})
	})
	f.is(f.try(func(tx backend.Tx) error {
		return tx.BeginDialog(f.ctx, f.version, backend.NewDialog{Endpoint: func() backend.Endpoint {
			e := f.ends().a
			e.Group = d.a.Group
			return e
		}(), NewGroup: true})
	}), backend.ErrGroupBusy)

	e := f.endpoint(d.a.Handle)
	f.equal("state", e.State, backend.StartedOutbound)
	if e.Lifetime < 50*time.Minute || e.Lifetime > time.Hour {
		f.Errorf("lifetime %v", e.Lifetime)
	}
	e.Lifetime, e.State = d.a.Lifetime, ""
	f.equal("endpoint", *e, d.a)
	f.is(f.try(func(tx backend.Tx) error { _, err := tx.Endpoint(f.ctx, d.b.Handle); return err }), backend.ErrNoConversation)

	f.do(func(tx backend.Tx) error {
		ok, err := tx.Accept(f.ctx, f.version, d.a.Handle, d.b)
		f.equal("accepted", ok, true)
		return err
	})
	f.do(func(tx backend.Tx) error {
		ok, err := tx.Accept(f.ctx, f.version, d.a.Handle, d.b)
		f.equal("accepted again", ok, false)
		return err
	})
	f.equal("target's state", f.endpoint(d.b.Handle).State, backend.Conversing)

	f.do(func(tx backend.Tx) error {
		sent, err := tx.Send(f.ctx, f.version, []backend.Outgoing{message(d.a.Handle, "one"), message(d.a.Handle, "two")})
		f.equal("sent", sent, []backend.Sent{{Seq: 0, Queue: f.qb}, {Seq: 1, Queue: f.qb}})
		return err
	})
	f.equal("next", f.endpoint(d.a.Handle).NextSeq, 2)
	f.equal("state", f.endpoint(d.a.Handle).State, backend.Conversing)
	f.send(d.b.Handle, "back")

	h := f.one(f.request(f.qb))
	f.equal("group", h.Group, d.b.Handle)
	f.equal("bodies", bodies(h.Messages), []string{"one", "two"})
	m := h.Messages[1]
	if age := time.Since(m.Enqueued); age < -time.Minute || age > time.Minute {
		f.Errorf("enqueued %v ago", age)
	}
	f.equal("message", []any{m.Stream, m.Seq, m.Kind, m.Type, m.Group, m.Handle, m.Conversation, m.Initiator, m.Service, m.Far, m.Contract, m.Priority, m.Attempts},
		[]any{d.a.Handle, 1, backend.KindUser, "m", d.b.Handle, d.b.Handle, d.b.Conversation, false, "B", "A", "c", 5, 0})
	f.none(f.request(f.qb))
	f.ack(h)
	f.none(f.request(f.qb))
	f.equal("back", f.drain(f.qa), []string{"back"})
}

func testRefusals(f *fixture) {
	refused := func(from backend.ID, want backend.Refusal) {
		f.Helper()
		err := f.try(func(tx backend.Tx) error {
			_, err := tx.Send(f.ctx, f.version, []backend.Outgoing{message(from, "x")})
			return err
		})
		var r *backend.Refused
		if !errors.As(err, &r) || r.Refusals[0] != want {
			f.Errorf("send: %v, want refusal %q", err, want)
		}
	}
	refused(backend.NewID(), backend.RefusedUnknown)
	d := f.ends()
	f.do(func(tx backend.Tx) error {
		return tx.BeginDialog(f.ctx, f.version, backend.NewDialog{Endpoint: d.a, NewGroup: true})
	})
	refused(d.a.Handle, backend.RefusedNoTarget)
	d = f.open()
	f.version--
	refused(d.a.Handle, backend.RefusedStale)
	f.version++

	other := f.open()
	err := f.try(func(tx backend.Tx) error {
		_, err := tx.Send(f.ctx, f.version, []backend.Outgoing{message(d.a.Handle, "x"), message(backend.NewID(), "y"), message(other.a.Handle, "z")})
		var r *backend.Refused
		if !errors.As(err, &r) || len(r.Refusals) != 1 || r.Refusals[1] != backend.RefusedUnknown {
			f.Errorf("send: %v", err)
		}
		return nil // the transaction goes on
	})
	f.ok(err)
	f.none(f.request(f.qb))

	f.end(backend.End{Handle: d.b.Handle})
	refused(d.b.Handle, backend.RefusedEnded)
	refused(d.a.Handle, backend.RefusedPeer)
}

func testBatch(f *fixture) {
	var batch []backend.Outgoing
	var ds []dialog
	for i := range 10 {
		ds = append(ds, f.open())
		for j := range 10 {
			batch = append(batch, message(ds[i].a.Handle, fmt.Sprintf("%d.%d", i, j)))
		}
	}
	slices.SortStableFunc(batch, func(a, b backend.Outgoing) int { return strings.Compare(string(a.Body[2:]), string(b.Body[2:])) })
	batch[0].Body = nil
	f.do(func(tx backend.Tx) error {
		sent, err := tx.Send(f.ctx, f.version, batch)
		f.equal("sent", len(sent), 100)
		f.equal("last", sent[99], backend.Sent{Seq: 9, Queue: f.qb})
		return err
	})
	r := f.request(f.qb)
	r.MaxGroups = 100
	c := f.claim(r)
	f.equal("holds", len(c.Holds), 10)
	for _, h := range c.Holds {
		f.equal("messages", len(h.Messages), 10)
		for j, m := range h.Messages {
			f.equal("seq", m.Seq, j)
		}
	}
	if first := c.Holds[0].Messages[0]; first.Body != nil {
		f.Errorf("a body of NULL came back as %q", first.Body)
	}
	var all []backend.Outcome
	for _, h := range c.Holds {
		all = append(all, backend.Outcome{Hold: h, Done: h.Messages})
	}
	f.settle(all...)
	f.none(f.request(f.qb))
}

func testWithhold(f *fixture) {
	d := f.ends()
	f.do(func(tx backend.Tx) error {
		if err := tx.BeginDialog(f.ctx, f.version, backend.NewDialog{Endpoint: d.a, NewGroup: true}); err != nil {
			return err
		}
		sent, err := tx.Withhold(f.ctx, []backend.Outgoing{message(d.a.Handle, "1"), message(d.a.Handle, "2")}, "why")
		f.equal("withheld", sent, []backend.Sent{{Seq: 0}, {Seq: 1}})
		return err
	})
	list, err := f.b.Withheld(f.ctx, 10)
	f.ok(err)
	if len(list) != 1 || list[0].From.Handle != d.a.Handle || list[0].Count != 2 || list[0].Status != "why" || list[0].From.Far != "B" {
		f.Errorf("withheld %+v", list)
	}
	f.do(func(tx backend.Tx) error {
		_, err := tx.Accept(f.ctx, f.version, d.a.Handle, d.b)
		return err
	})
	err = f.try(func(tx backend.Tx) error {
		_, err := tx.Send(f.ctx, f.version, []backend.Outgoing{message(d.a.Handle, "3")})
		return err
	})
	var r *backend.Refused
	if !errors.As(err, &r) || r.Refusals[0] != backend.RefusedHeld {
		f.Errorf("send: %v", err)
	}
	f.do(func(tx backend.Tx) error {
		n, err := tx.Deliver(f.ctx, d.a.Handle)
		f.equal("delivered", n, 2)
		return err
	})
	f.send(d.a.Handle, "3")
	f.equal("drained", f.drain(f.qb), []string{"1", "2", "3"})

	f.do(func(tx backend.Tx) error {
		_, err := tx.Withhold(f.ctx, []backend.Outgoing{message(d.a.Handle, "4")}, "why")
		return err
	})
	f.do(func(tx backend.Tx) error {
		n, err := tx.Discard(f.ctx, d.a.Handle, "no reason")
		f.equal("discarded", n, 1)
		return err
	})
	dead, err := f.b.DeadLetters(f.ctx, 0, 10)
	f.ok(err)
	if len(dead) != 1 || string(dead[0].Message.Body) != "4" || dead[0].Reason != "no reason" {
		f.Errorf("dead letters %+v", dead)
	}
	f.send(d.a.Handle, "5")
	f.equal("drained", f.drain(f.qb), []string{"5"})

	// END after what is withheld waits with it.
	f.do(func(tx backend.Tx) error {
		_, err := tx.Withhold(f.ctx, []backend.Outgoing{message(d.a.Handle, "6")}, "why")
		return err
	})
	f.end(backend.End{Handle: d.a.Handle})
	f.equal("drained", f.drain(f.qb), []string{})
	f.do(func(tx backend.Tx) error {
		n, err := tx.Deliver(f.ctx, d.a.Handle)
		f.equal("delivered", n, 2)
		return err
	})
	f.equal("drained", f.drain(f.qb), []string{"6", "<EndDialog>"})
}

func testEnd(f *fixture) {
	d := f.open()
	f.send(d.a.Handle, "1", "2")
	f.send(d.b.Handle, "unread")
	done := f.end(backend.End{Handle: d.a.Handle})
	f.equal("ended", done, backend.Ended{Queue: f.qb, Dropped: 1})
	f.equal("state", f.endpoint(d.a.Handle).State, backend.DisconnectedOutbound)
	f.equal("peer's state", f.endpoint(d.b.Handle).State, backend.DisconnectedInbound)
	f.is(f.try(func(tx backend.Tx) error {
		_, err := tx.EndDialog(f.ctx, backend.End{Handle: d.a.Handle, MessageID: backend.NewID()})
		return err
	}), backend.ErrEnded)
	f.none(f.request(f.qa))
	f.equal("drained", f.drain(f.qb), []string{"1", "2", "<EndDialog>"})
	done = f.end(backend.End{Handle: d.b.Handle})
	f.equal("ended", done, backend.Ended{PeerGone: true, Unheard: true})
	f.tend(backend.DutyClosed)
	for _, h := range []backend.ID{d.a.Handle, d.b.Handle} {
		f.is(f.try(func(tx backend.Tx) error { _, err := tx.Endpoint(f.ctx, h); return err }), backend.ErrNoConversation)
	}
}

func testEndError(f *fixture) {
	d := f.open()
	f.send(d.a.Handle, "1")
	done := f.end(backend.End{Handle: d.a.Handle, Kind: backend.EndError, Error: &backend.DialogError{Code: 42, Text: "no & no"}})
	f.equal("queue", done.Queue, f.qb)
	e := f.endpoint(d.b.Handle)
	f.equal("state", e.State, backend.Errored)
	f.equal("error", *e.Error, backend.DialogError{Code: 42, Text: "no & no"})
	h := f.one(f.request(f.qb))
	f.equal("bodies", bodies(h.Messages), []string{"<Error>", "1"})
	got, err := backend.ParseDialogError(h.Messages[0].Body)
	f.ok(err)
	f.equal("body", *got, *e.Error)
	f.ack(h)
	done = f.end(backend.End{Handle: d.b.Handle, Kind: backend.EndError, Error: &backend.DialogError{Code: 1, Text: "x"}, Keep: time.Hour})
	f.equal("ended", done, backend.Ended{PeerGone: true, Unheard: true})
	f.equal("state", f.endpoint(d.a.Handle).State, backend.Closed)
	f.equal("state", f.endpoint(d.b.Handle).State, backend.Closed)
	f.tend(backend.DutyClosed)
	f.equal("kept", f.endpoint(d.a.Handle).State, backend.Closed)
	f.none(f.request(f.qa))
}

func testEndUnsent(f *fixture) {
	d := f.ends()
	f.do(func(tx backend.Tx) error {
		return tx.BeginDialog(f.ctx, f.version, backend.NewDialog{Endpoint: d.a, NewGroup: true})
	})
	done := f.end(backend.End{Handle: d.a.Handle})
	f.equal("ended", done, backend.Ended{PeerGone: true})
	f.is(f.try(func(tx backend.Tx) error { _, err := tx.Endpoint(f.ctx, d.a.Handle); return err }), backend.ErrNoConversation)
}

func testCleanup(f *fixture) {
	d := f.open()
	f.send(d.a.Handle, "1")
	f.send(d.b.Handle, "2")
	f.end(backend.End{Handle: d.a.Handle, Kind: backend.EndCleanup})
	f.is(f.try(func(tx backend.Tx) error { _, err := tx.Endpoint(f.ctx, d.a.Handle); return err }), backend.ErrNoConversation)
	e := f.endpoint(d.b.Handle)
	f.equal("state", e.State, backend.Conversing)
	f.equal("peer cleaned", e.PeerCleaned, true)
	f.equal("drained", f.drain(f.qb), []string{"1"})
	f.none(f.request(f.qa))
	done := f.end(backend.End{Handle: d.b.Handle})
	f.equal("gone", done.PeerGone, true)
	f.is(f.try(func(tx backend.Tx) error { _, err := tx.Endpoint(f.ctx, d.b.Handle); return err }), backend.ErrNoConversation)
}

func testEndBoth(f *fixture) {
	d := f.open()
	f.send(d.a.Handle, "1")
	f.end(backend.End{Handle: d.b.Handle})
	f.end(backend.End{Handle: d.a.Handle})
	f.drain(f.qa)
	f.drain(f.qb)
	f.tend(backend.DutyClosed)
	list, err := f.b.Conversations(f.ctx, backend.ConversationQuery{Limit: 10})
	f.ok(err)
	f.equal("conversations", len(list), 0)
	n, _ := f.tend(backend.DutyGroups)
	f.equal("groups removed", n, 2)
}

// testEndInDelivery ends a conversation in the transaction that acknowledges its
// messages.
func testEndInDelivery(f *fixture) {
	d := f.open()
	f.send(d.a.Handle, "1", "2")
	h := f.one(f.request(f.qb))
	f.do(func(tx backend.Tx) error {
		if err := tx.Reclaim(f.ctx, []*backend.Hold{h}); err != nil {
			return err
		}
		if err := tx.LockGroup(f.ctx, h.Group); err != nil {
			return err
		}
		done, err := tx.EndDialog(f.ctx, backend.End{Handle: d.b.Handle, MessageID: backend.NewID()})
		if err != nil {
			return err
		}
		f.equal("ended", done, backend.Ended{Queue: f.qa})
		_, err = tx.Settle(f.ctx, []backend.Outcome{{Hold: h, Done: h.Messages}})
		return err
	})
	f.equal("drained", f.drain(f.qa), []string{"<EndDialog>"})
	f.none(f.request(f.qb))
}

func testNotice(f *fixture) {
	d := f.open()
	f.send(d.b.Handle, "1")
	f.do(func(tx backend.Tx) error {
		return tx.Notice(f.ctx, backend.Notice{To: d.a.Handle, Kind: backend.KindError, Error: &backend.DialogError{Code: -1, Text: "broken"}})
	})
	f.equal("state", f.endpoint(d.a.Handle).State, backend.Errored)
	f.equal("drained", f.drain(f.qa), []string{"<Error>", "1"})
	f.end(backend.End{Handle: d.a.Handle})
	f.do(func(tx backend.Tx) error {
		return tx.Notice(f.ctx, backend.Notice{To: d.a.Handle, Kind: backend.KindTimer})
	})
	f.equal("drained", f.drain(f.qa), []string{})
}

func testTimer(f *fixture) {
	d := f.open()
	set := func(after time.Duration) {
		f.do(func(tx backend.Tx) error { return tx.SetTimer(f.ctx, d.a.Handle, after) })
	}
	set(time.Hour)
	n, next := f.tend(backend.DutyTimers)
	f.equal("moved", n, 0)
	if next < 50*time.Minute || next > time.Hour {
		f.Errorf("next timer in %v", next)
	}
	set(0)
	if _, next := f.tend(backend.DutyTimers); next != 0 {
		f.Errorf("next timer in %v, but there is none", next)
	}
	set(time.Hour)
	set(time.Millisecond)
	f.send(d.b.Handle, "1")
	f.tendUntil(backend.DutyTimers, 1)
	f.equal("drained", f.drain(f.qa), []string{"<DialogTimer>", "1"})
	f.is(f.try(func(tx backend.Tx) error { return tx.SetTimer(f.ctx, backend.NewID(), 1) }), backend.ErrNoConversation)
	set(time.Hour)
	f.end(backend.End{Handle: d.a.Handle})
	if _, next := f.tend(backend.DutyTimers); next != 0 {
		f.Errorf("next timer in %v, but the conversation has ended", next)
	}
}

func testLifetime(f *fixture) {
	d := f.ends()
	d.a.Lifetime, d.b.Lifetime = 50*time.Millisecond, 50*time.Millisecond
	f.do(func(tx backend.Tx) error {
		if err := tx.BeginDialog(f.ctx, f.version, backend.NewDialog{Endpoint: d.a, NewGroup: true}); err != nil {
			return err
		}
		_, err := tx.Accept(f.ctx, f.version, d.a.Handle, d.b)
		return err
	})
	f.send(d.a.Handle, "1")
	f.tendUntil(backend.DutyLifetimes, 2)
	f.equal("drained", f.drain(f.qa), []string{"<Error>"})
	f.equal("drained", f.drain(f.qb), []string{"<Error>", "1"})
	e := f.endpoint(d.b.Handle)
	f.equal("state", e.State, backend.Errored)
	f.equal("code", e.Error.Code, backend.CodeLifetime)
	f.end(backend.End{Handle: d.a.Handle})
	f.end(backend.End{Handle: d.b.Handle})
}

func testPosts(f *fixture) {
	var want []string
	for i := range 5 {
		f.post(backend.Posting{Body: []byte(fmt.Sprint(i))})
		want = append(want, fmt.Sprint(i))
	}
	f.equal("drained", f.drain(f.qp), want)

	batch := make([]backend.Posting, 50)
	want = nil
	for i := range batch {
		batch[i] = f.posting(backend.Posting{Body: []byte(fmt.Sprintf("%02d", i))})
		want = append(want, fmt.Sprintf("%02d", i))
	}
	f.do(func(tx backend.Tx) error {
		posted, err := tx.Post(f.ctx, f.version, batch)
		f.equal("posted", len(posted), 50)
		return err
	})
	r := f.request(f.qp)
	r.MaxGroups = 20
	c := f.claim(r)
	f.equal("holds", len(c.Holds), 20)
	var got []string
	var all []backend.Outcome
	for _, h := range c.Holds {
		f.equal("group", h.Group, h.Messages[0].ID)
		got = append(got, bodies(h.Messages)...)
		all = append(all, backend.Outcome{Hold: h, Done: h.Messages})
	}
	f.equal("bodies", got, want[:20])
	f.settle(all...)
	f.equal("drained", f.drain(f.qp), want[20:])

	f.version--
	f.is(f.try(func(tx backend.Tx) error { _, err := tx.Post(f.ctx, f.version, batch[:1]); return err }), backend.ErrStaleCatalog)
	f.is(f.try(func(tx backend.Tx) error { _, err := tx.Post(f.ctx, f.version, batch); return err }), backend.ErrStaleCatalog)
	f.is(f.try(func(tx backend.Tx) error { _, err := tx.Claim(f.ctx, f.request(f.qp)); return err }), backend.ErrStaleCatalog)
	f.version++
}

func testKeys(f *fixture) {
	for i := range 3 {
		f.post(backend.Posting{Key: "k", Body: []byte(fmt.Sprint("k", i))})
		f.post(backend.Posting{Key: "l", Body: []byte(fmt.Sprint("l", i))})
	}
	h := f.one(f.request(f.qp))
	f.equal("bodies", bodies(h.Messages), []string{"k0", "k1", "k2"})
	f.equal("key", h.Messages[0].Key, "k")
	f.equal("kind", h.Messages[0].Kind, backend.KindUser)
	// Acknowledging a part leaves the rest.
	f.settle(backend.Outcome{Hold: h, Done: h.Messages[:1]})
	f.equal("drained", sorted(f.drain(f.qp)), []string{"k1", "k2", "l0", "l1", "l2"})
	var batch []backend.Posting
	for i := range 20 {
		batch = append(batch, f.posting(backend.Posting{Key: fmt.Sprint(i % 4), Body: []byte(fmt.Sprintf("%02d", i))}))
	}
	f.do(func(tx backend.Tx) error { _, err := tx.Post(f.ctx, f.version, batch); return err })
	r := f.request(f.qp)
	r.MaxGroups = 10
	c := f.claim(r)
	f.equal("holds", len(c.Holds), 4)
	for _, h := range c.Holds {
		b := bodies(h.Messages)
		f.equal("in order", b, sorted(b))
		f.equal("messages", len(b), 5)
		f.ack(h)
	}
}

func testUnique(f *fixture) {
	p := f.posting(backend.Posting{Unique: "u", Body: []byte("1")})
	post := func(p backend.Posting) (other backend.ID) {
		f.do(func(tx backend.Tx) error {
			done, err := tx.Post(f.ctx, f.version, []backend.Posting{p})
			if err == nil {
				other = done[0].Duplicate
			}
			return err
		})
		return other
	}
	f.equal("first", post(p), backend.ID{})
	f.equal("second", post(f.posting(backend.Posting{Unique: "u"})), p.ID)
	h := f.one(f.request(f.qp))
	f.equal("in hand", post(f.posting(backend.Posting{Unique: "u"})), p.ID)
	f.ack(h)
	for _, key := range []string{"", "k"} {
		for _, delay := range []time.Duration{0, time.Hour} {
			p := f.posting(backend.Posting{Unique: "u", Key: key, Delay: delay})
			f.equal("again", post(p), backend.ID{})
			f.equal("duplicate", post(f.posting(backend.Posting{Unique: "u"})), p.ID)
			if delay > 0 {
				f.do(func(tx backend.Tx) error { return tx.Cancel(f.ctx, f.qp, p.ID) })
			} else {
				f.equal("drained", len(f.drain(f.qp)), 1)
			}
		}
	}
	f.do(func(tx backend.Tx) error {
		done, err := tx.Post(f.ctx, f.version, []backend.Posting{f.posting(backend.Posting{ID: p.ID, Unique: "v"}), f.posting(backend.Posting{Unique: "v"})})
		f.equal("in one call", done, []backend.Posted{{}, {Duplicate: p.ID}})
		return err
	})
}

func testDelayed(f *fixture) {
	f.post(backend.Posting{Body: []byte("later"), Delay: time.Hour})
	f.post(backend.Posting{Body: []byte("soon"), Delay: 20 * time.Millisecond})
	f.post(backend.Posting{Body: []byte("k2"), Key: "k", Delay: 30 * time.Millisecond})
	f.post(backend.Posting{Body: []byte("k3"), Key: "k", Delay: 40 * time.Millisecond})
	f.post(backend.Posting{Body: []byte("k1"), Key: "k"})
	f.equal("drained", f.drain(f.qp), []string{"k1"})
	f.tendUntil(backend.DutyDelayed, 3)
	f.equal("drained", sorted(f.drain(f.qp)), []string{"k2", "k3", "soon"})
	if _, next := f.tend(backend.DutyDelayed); next < 50*time.Minute {
		f.Errorf("next in %v", next)
	}
}

func testCancel(f *fixture) {
	cancel := func(id backend.ID) error {
		return f.try(func(tx backend.Tx) error { return tx.Cancel(f.ctx, f.qp, id) })
	}
	f.is(cancel(backend.NewID()), backend.ErrNotPending)
	ids := []backend.ID{
		f.post(backend.Posting{}),
		f.post(backend.Posting{Key: "k", Body: []byte("1")}),
		f.post(backend.Posting{Delay: time.Hour}),
		f.post(backend.Posting{Delay: time.Hour, Key: "k"}),
	}
	f.post(backend.Posting{Key: "k", Body: []byte("2")})
	for _, id := range ids {
		if s, err := f.b.PostStatus(f.ctx, f.qp, id); err != nil || s.ID != id {
			f.Errorf("status %+v, %v", s, err)
		}
		f.ok(cancel(id))
		f.is(cancel(id), backend.ErrNotPending)
		_, err := f.b.PostStatus(f.ctx, f.qp, id)
		f.is(err, backend.ErrNotPending)
	}
	h := f.one(f.request(f.qp))
	f.equal("left", bodies(h.Messages), []string{"2"})
	f.is(cancel(h.Messages[0].ID), backend.ErrNotPending)
	f.ack(h)
	id := f.post(backend.Posting{})
	h = f.one(f.request(f.qp))
	f.is(cancel(id), backend.ErrNotPending)
	f.ack(h)
}

func testOrder(f *fixture) {
	low, high := f.ends(), f.ends()
	low.b.Priority, high.b.Priority = 3, 9
	for _, d := range []dialog{low, high} {
		f.do(func(tx backend.Tx) error {
			if err := tx.BeginDialog(f.ctx, f.version, backend.NewDialog{Endpoint: d.a, NewGroup: true}); err != nil {
				return err
			}
			_, err := tx.Accept(f.ctx, f.version, d.a.Handle, d.b)
			return err
		})
	}
	f.send(low.a.Handle, "low 1")
	f.send(high.a.Handle, "high")
	f.send(low.a.Handle, "low 2")
	f.post(backend.Posting{Queue: f.qb, Rank: 5, Body: []byte("post")})
	f.post(backend.Posting{Queue: f.qb, Rank: 10, Key: "k", Body: []byte("keyed")})
	f.post(backend.Posting{Queue: f.qb, Rank: 3, Body: []byte("late post")})
	f.equal("drained", f.drain(f.qb), []string{"keyed", "high", "post", "low 1", "low 2", "late post"})
}

func testPromotion(f *fixture) {
	var ds []dialog
	for i := range 4 {
		ds = append(ds, f.open())
		f.send(ds[i].a.Handle, fmt.Sprint(i))
	}
	post := f.post(backend.Posting{Queue: f.qb, Body: []byte("post")})
	promote := func(group backend.ID, level int, sticky bool) error {
		return f.try(func(tx backend.Tx) error {
			return tx.Promote(f.ctx, backend.Promotion{Group: group, Level: level, Sticky: sticky})
		})
	}
	f.is(promote(backend.NewID(), 1, false), backend.ErrNoGroup)
	f.ok(promote(ds[2].b.Group, 100, false))
	f.ok(promote(ds[1].b.Group, 100, false))
	f.ok(promote(post, 200, false))
	f.ok(promote(ds[3].b.Group, 50, true))
	f.ok(promote(ds[2].b.Group, 100, false)) // the second replaces the first
	f.ok(promote(ds[0].b.Group, 250, false))
	f.do(func(tx backend.Tx) error { return tx.Demote(f.ctx, ds[0].b.Group) })

	h := f.one(f.request(f.qb))
	f.equal("promoted", []any{bodies(h.Messages), h.Promoted, h.Level}, []any{[]string{"post"}, true, 200})
	f.settle(backend.Outcome{Hold: h}) // given back: it stays promoted
	f.equal("drained", f.drain(f.qb), []string{"post", "1", "2", "3", "0"})
	for i := range 4 {
		f.send(ds[i].a.Handle, fmt.Sprint(i))
	}
	f.equal("only the sticky one is left", f.drain(f.qb), []string{"3", "0", "1", "2"})
}

func testLease(f *fixture) {
	d := f.open()
	f.send(d.a.Handle, "1")
	r := f.request(f.qb)
	r.Lease = 30 * time.Millisecond
	h := f.one(r)
	c := f.none(r)
	f.equal("contended", c.Contended, true)
	f.ok(f.b.Extend(f.ctx, []*backend.Hold{h}, time.Hour))
	time.Sleep(40 * time.Millisecond)
	f.none(r)
	f.ok(f.b.Extend(f.ctx, []*backend.Hold{h}, time.Millisecond))
	time.Sleep(10 * time.Millisecond)
	h2 := f.one(r)
	if h2.Fence <= h.Fence {
		f.Errorf("fence %d after %d", h2.Fence, h.Fence)
	}
	f.is(f.b.Extend(f.ctx, []*backend.Hold{h}, time.Hour), backend.ErrFenced)
	f.is(f.trySettle(backend.Outcome{Hold: h, Done: h.Messages}), backend.ErrFenced)
	f.ack(h2)
	f.is(f.b.Extend(f.ctx, []*backend.Hold{h2}, time.Hour), backend.ErrFenced)

	f.post(backend.Posting{Body: []byte("p")})
	r.Queue = f.qp
	h = f.one(r)
	f.ok(f.b.Extend(f.ctx, []*backend.Hold{h}, time.Millisecond))
	time.Sleep(10 * time.Millisecond)
	h2 = f.one(r)
	f.is(f.b.Extend(f.ctx, []*backend.Hold{h}, time.Hour), backend.ErrFenced)
	f.is(f.trySettle(backend.Outcome{Hold: h, Done: h.Messages}), backend.ErrFenced)
	f.ack(h2)
}

// testFence lets a settle find that its messages are gone.
func testFence(f *fixture) {
	d := f.open()
	f.send(d.a.Handle, "1")
	f.post(backend.Posting{Queue: f.qb})
	for range 2 {
		h := f.one(f.request(f.qb))
		again := *h
		f.ack(h)
		err := f.try(func(tx backend.Tx) error {
			_, err := tx.Settle(f.ctx, []backend.Outcome{{Hold: &again, Done: again.Messages}})
			return err
		})
		f.is(err, backend.ErrFenced)
		again.Fence = 0
		err = f.try(func(tx backend.Tx) error {
			_, err := tx.Settle(f.ctx, []backend.Outcome{{Hold: &again, Done: again.Messages}})
			return err
		})
		f.is(err, backend.ErrFenced)
	}
}

func testDefer(f *fixture) {
	d := f.open()
	f.send(d.a.Handle, "1")
	f.post(backend.Posting{Queue: f.qb, Body: []byte("post")})
	for range 2 {
		f.settle(backend.Outcome{Hold: f.one(f.request(f.qb)), Defer: 50 * time.Millisecond})
	}
	c := f.none(f.request(f.qb))
	f.equal("contended", c.Contended, false)
	f.send(d.a.Handle, "2")
	f.none(f.request(f.qb))
	groups, err := f.b.Groups(f.ctx, backend.GroupQuery{Queue: f.qb, Limit: 10})
	f.ok(err)
	f.equal("groups", len(groups), 2)
	for _, g := range groups {
		f.equal("state", g.State, "deferred")
	}
	f.tendUntil(backend.DutyDeferred, 2)
	f.equal("drained", f.drain(f.qb), []string{"1", "2", "post"})
}

func testPark(f *fixture) {
	d := f.open()
	f.send(d.a.Handle, "1")
	post := f.post(backend.Posting{Queue: f.qb, Body: []byte("post")})
	for range 2 {
		f.settle(backend.Outcome{Hold: f.one(f.request(f.qb)), Park: "bad"})
	}
	f.send(d.a.Handle, "2") // makes a marker
	f.none(f.request(f.qb))
	n, _ := f.tend(backend.DutyMarkers)
	f.equal("markers taken out", n, 1)
	c := f.none(f.request(f.qb))
	f.equal("contended", c.Contended, false)
	q := f.queue(f.qb)
	f.equal("parked", q.Parked, 2)
	groups, err := f.b.Groups(f.ctx, backend.GroupQuery{Queue: f.qb, Limit: 10})
	f.ok(err)
	f.equal("groups", []any{len(groups), groups[0].State, groups[0].Reason, groups[0].Messages}, []any{2, "parked", "bad", 2})
	f.do(func(tx backend.Tx) error { return tx.Unpark(f.ctx, d.b.Group) })
	f.do(func(tx backend.Tx) error { return tx.Unpark(f.ctx, post) })
	f.is(f.try(func(tx backend.Tx) error { return tx.Unpark(f.ctx, backend.NewID()) }), backend.ErrNoGroup)
	f.equal("drained", f.drain(f.qb), []string{"1", "2", "post"})
}

func (f *fixture) queue(id int64) backend.QueueStatus {
	f.Helper()
	list, err := f.b.Queues(f.ctx)
	f.ok(err)
	for _, q := range list {
		if q.ID == id {
			return q
		}
	}
	f.Fatalf("no queue %d in %+v", id, list)
	return backend.QueueStatus{}
}

func testFailure(f *fixture) {
	d := f.open()
	f.send(d.a.Handle, "1")
	f.post(backend.Posting{Queue: f.qb})
	f.post(backend.Posting{Queue: f.qb, Key: "k"})
	for range 3 {
		h := f.one(f.request(f.qb))
		f.settle(backend.Outcome{Hold: h, Defer: time.Millisecond, Failure: &backend.Failure{Message: h.Messages[0], Attempts: 2, Suspicion: 1, Error: "oops"}})
	}
	f.tendUntil(backend.DutyDeferred, 3)
	for range 3 {
		h := f.one(f.request(f.qb))
		m := h.Messages[0]
		f.equal("failure", []any{m.Attempts, m.Suspicion, m.LastError}, []any{2, 1, "oops"})
		f.ack(h)
	}
}

func testDead(f *fixture) {
	d := f.open()
	f.post(backend.Posting{Queue: f.qb, Body: []byte("post")})
	f.post(backend.Posting{Queue: f.qb, Key: "k", Unique: "u", Body: []byte("keyed")})
	f.send(d.a.Handle, "1", "2")
	for range 3 {
		h := f.one(f.request(f.qb))
		f.settle(backend.Outcome{Hold: h, Dead: []backend.DeadLetter{{Message: h.Messages[0], Reason: "rotten"}}})
	}
	f.equal("drained", f.drain(f.qb), []string{"2"})
	dead, err := f.b.DeadLetters(f.ctx, f.qb, 10)
	f.ok(err)
	f.equal("dead", len(dead), 3)
	if len(dead) == 3 {
		f.equal("newest", []any{string(dead[0].Message.Body), dead[0].Message.Handle, dead[0].Message.Service}, []any{"1", d.b.Handle, "B"})
		f.equal("next", []any{string(dead[1].Message.Body), dead[1].Message.Key, dead[1].Reason, dead[1].Queue}, []any{"keyed", "k", "rotten", f.qb})
	}
	none, err := f.b.DeadLetters(f.ctx, f.qa, 10)
	f.ok(err)
	f.equal("dead elsewhere", len(none), 0)
}

func testRetention(f *fixture) {
	d := f.open()
	m := message(d.a.Handle, "1")
	m.Retain = true
	f.do(func(tx backend.Tx) error { _, err := tx.Send(f.ctx, f.version, []backend.Outgoing{m}); return err })
	m2, m3 := message(d.a.Handle, "2"), message(d.a.Handle, "3")
	m2.Retain = true
	f.do(func(tx backend.Tx) error { _, err := tx.Send(f.ctx, f.version, []backend.Outgoing{m2, m3}); return err })
	h := f.one(f.request(f.qb))
	f.settle(backend.Outcome{Hold: h, Done: h.Messages, Retain: true})
	f.send(d.b.Handle, "back")
	h = f.one(f.request(f.qa))
	f.settle(backend.Outcome{Hold: h, Done: h.Messages, Retain: true})
	list, err := f.b.Retained(f.ctx, d.a.Handle)
	f.ok(err)
	f.equal("kept by the initiator", len(list), 3)
	if len(list) == 3 {
		f.equal("sent", []any{list[0].Sent, string(list[0].Message.Body), list[2].Sent, string(list[2].Message.Body)}, []any{true, "1", false, "back"})
	}
	list, err = f.b.Retained(f.ctx, d.b.Handle)
	f.ok(err)
	f.equal("kept by the target", len(list), 3)
	f.end(backend.End{Handle: d.b.Handle})
	list, err = f.b.Retained(f.ctx, d.b.Handle)
	f.ok(err)
	f.equal("after END", len(list), 0)
}

func testProcessed(f *fixture) {
	a := f.post(backend.Posting{Body: []byte("a")})
	b := f.post(backend.Posting{Key: "k", Body: []byte("b")})
	for range 2 {
		h := f.one(f.request(f.qp))
		f.settle(backend.Outcome{Hold: h, Done: h.Messages, Keep: 50 * time.Millisecond})
	}
	for _, id := range []backend.ID{a, b} {
		s, err := f.b.PostStatus(f.ctx, f.qp, id)
		f.ok(err)
		f.equal("state", s.State, "processed")
	}
	f.tendUntil(backend.DutyProcessed, 2)
	_, err := f.b.PostStatus(f.ctx, f.qp, a)
	f.is(err, backend.ErrNotPending)
}

func testConsume(f *fixture) {
	d := f.open()
	f.send(d.a.Handle, "1", "2", "3")
	r := f.request(f.qb)
	r.Lease, r.Consume, r.MaxMessages = 0, true, 2
	f.do(func(tx backend.Tx) error {
		c, err := tx.Claim(f.ctx, r)
		if err != nil {
			return err
		}
		f.equal("first", bodies(c.Holds[0].Messages), []string{"1", "2"})
		r.Held = []backend.ID{c.Holds[0].Group}
		c, err = tx.Claim(f.ctx, r)
		if err != nil {
			return err
		}
		f.equal("second", bodies(c.Holds[0].Messages), []string{"3"})
		c, err = tx.Claim(f.ctx, r)
		f.equal("third", len(c.Holds), 0)
		return err
	})
	f.equal("left", f.drain(f.qb), []string{})
	f.equal("depth", f.queue(f.qb).Depth, 0)
	f.post(backend.Posting{})
	r.Queue = f.qp
	f.do(func(tx backend.Tx) error { _, err := tx.Claim(f.ctx, r); return err })
	f.equal("left", f.drain(f.qp), []string{})
}

func testFilters(f *fixture) {
	d, e := f.ends(), f.ends()
	e.b.Handle, e.a.Peer = backend.NewID(), e.b.Handle
	e.a.Peer = e.b.Handle
	// Both conversations of A are in one group.
	e.a.Group = d.a.Group
	f.do(func(tx backend.Tx) error {
		if err := tx.BeginDialog(f.ctx, f.version, backend.NewDialog{Endpoint: d.a, NewGroup: true}); err != nil {
			return err
		}
		if _, err := tx.Accept(f.ctx, f.version, d.a.Handle, d.b); err != nil {
			return err
		}
		if err := tx.BeginDialog(f.ctx, f.version, backend.NewDialog{Endpoint: e.a}); err != nil {
			return err
		}
		_, err := tx.Accept(f.ctx, f.version, e.a.Handle, e.b)
		return err
	})
	other := f.open()
	f.send(other.b.Handle, "other")
	f.send(d.b.Handle, "d1", "d2")
	f.send(e.b.Handle, "e1", "e2")
	r := f.request(f.qa)
	r.Group = d.a.Group
	h := f.one(r)
	f.equal("group", bodies(h.Messages), []string{"d1", "d2", "e1", "e2"})
	f.settle(backend.Outcome{Hold: h})
	r.Group, r.Handle = backend.ID{}, e.a.Handle
	h = f.one(r)
	f.equal("handle", bodies(h.Messages), []string{"e1", "e2"})
	f.ack(h)
	r.Handle, r.Group, r.LockOnly = backend.ID{}, d.a.Group, true
	h = f.one(r)
	f.equal("lock only", len(h.Messages), 0)
	f.none(r)
	f.settle(backend.Outcome{Hold: h})
	r.LockOnly, r.Group = false, backend.NewID()
	f.none(r)
	f.equal("drained", f.drain(f.qa), []string{"other", "d1", "d2"})
}

func testLimits(f *fixture) {
	d := f.open()
	for range 10 {
		f.send(d.a.Handle, strings.Repeat("x", 100))
	}
	r := f.request(f.qb)
	r.MaxBytes = 350
	h := f.one(r)
	f.equal("within 350 bytes", len(h.Messages), 3)
	f.do(func(tx backend.Tx) error {
		if err := tx.Reclaim(f.ctx, []*backend.Hold{h}); err != nil {
			return err
		}
		more, err := tx.More(f.ctx, h, 2, 1<<20)
		f.equal("more", len(more), 2)
		f.equal("seq", more[0].Seq, 3)
		if err != nil {
			return err
		}
		more, err = tx.More(f.ctx, h, 100, 10)
		f.equal("more within 10 bytes", len(more), 1)
		f.equal("in hand", len(h.Messages), 6)
		if err != nil {
			return err
		}
		_, err = tx.Settle(f.ctx, []backend.Outcome{{Hold: h, Done: h.Messages}})
		return err
	})
	r.MaxBytes = 1
	h = f.one(r)
	f.equal("the first is taken whatever its size", len(h.Messages), 1)
	f.ack(h)
	f.equal("rest", len(f.drain(f.qb)), 3)
	for range 3 {
		f.post(backend.Posting{Body: make([]byte, 100)})
	}
	r.Queue, r.MaxGroups, r.MaxBytes = f.qp, 10, 250
	c := f.claim(r)
	f.equal("posts within 250 bytes", len(c.Holds), 2)
	for _, h := range c.Holds {
		f.ack(h)
	}
	f.equal("rest", len(f.drain(f.qp)), 1)
}

func testMove(f *fixture) {
	d, e := f.open(), f.open()
	f.send(d.b.Handle, "1")
	move := func(to backend.ID, fresh bool) error {
		return f.try(func(tx backend.Tx) error {
			g := f.where(tx, d.a.Handle)
			for _, id := range []backend.ID{g, to} {
				if err := tx.LockGroup(f.ctx, id); err != nil && !(fresh && errors.Is(err, backend.ErrNoGroup)) {
					return err
				}
			}
			return tx.Move(f.ctx, d.a.Handle, to, fresh)
		})
	}
	f.ok(move(e.a.Group, false))
	f.send(d.b.Handle, "2")
	f.send(e.b.Handle, "3")
	h := f.one(f.request(f.qa))
	f.equal("together", []any{h.Group, bodies(h.Messages)}, []any{e.a.Group, []string{"1", "2", "3"}})
	f.settle(backend.Outcome{Hold: h, Park: "parked"})
	fresh := backend.NewID()
	f.ok(move(fresh, true))
	h = f.one(f.request(f.qa))
	f.equal("out of a parked group", []any{h.Group, bodies(h.Messages)}, []any{fresh, []string{"1", "2"}})
	f.ack(h)
	f.is(move(d.b.Group, false), backend.ErrGroupElsewhere)
}

func (f *fixture) where(tx backend.Tx, handle backend.ID) backend.ID {
	f.Helper()
	e, err := tx.Endpoint(f.ctx, handle)
	f.ok(err)
	return e.Group
}

func testLockGroup(f *fixture) {
	d := f.open()
	f.is(f.try(func(tx backend.Tx) error { return tx.LockGroup(f.ctx, backend.NewID()) }), backend.ErrNoGroup)
	f.do(func(tx backend.Tx) error {
		if err := tx.LockGroup(f.ctx, d.b.Group); err != nil {
			return err
		}
		return tx.LockGroup(f.ctx, d.b.Group)
	})
	f.send(d.a.Handle, "1")
	h := f.one(f.request(f.qb))
	err := f.try(func(tx backend.Tx) error { return tx.LockGroup(f.ctx, d.b.Group) })
	if !errors.Is(err, backend.ErrGroupBusy) {
		f.Errorf("lock of a leased group: %v", err)
	}
	f.do(func(tx backend.Tx) error {
		if err := tx.Reclaim(f.ctx, []*backend.Hold{h}); err != nil {
			return err
		}
		return tx.LockGroup(f.ctx, d.b.Group)
	})
}

func testOnce(f *fixture) {
	once := func() (fresh bool) {
		f.do(func(tx backend.Tx) (err error) { fresh, err = tx.Once(f.ctx, "key"); return err })
		return fresh
	}
	f.equal("first", once(), true)
	f.equal("second", once(), false)
}

func testSavepoint(f *fixture) {
	d := f.open()
	f.do(func(tx backend.Tx) error {
		send := func(body string) error {
			_, err := tx.Send(f.ctx, f.version, []backend.Outgoing{message(d.a.Handle, body)})
			return err
		}
		return errors.Join(
			send("1"),
			tx.Savepoint(f.ctx, "p"),
			send("2"),
			tx.RollbackTo(f.ctx, "p"),
			send("3"),
			tx.Release(f.ctx, "p"),
		)
	})
	h := f.one(f.request(f.qb))
	f.equal("bodies", bodies(h.Messages), []string{"1", "3"})
	f.equal("seq", h.Messages[1].Seq, 1)
}

func testRollback(f *fixture) {
	d := f.open()
	f.is(f.try(func(tx backend.Tx) error {
		if _, err := tx.Send(f.ctx, f.version, []backend.Outgoing{message(d.a.Handle, "1")}); err != nil {
			return err
		}
		if _, err := tx.Post(f.ctx, f.version, []backend.Posting{f.posting(backend.Posting{Key: "k"})}); err != nil {
			return err
		}
		return context.Canceled
	}), context.Canceled)
	f.none(f.request(f.qb))
	f.none(f.request(f.qp))
	f.equal("next", f.endpoint(d.a.Handle).NextSeq, 0)
	f.send(d.a.Handle, "2")
	h := f.one(f.request(f.qb))
	f.equal("seq", h.Messages[0].Seq, 0)
}

func testDone(f *fixture) {
	for _, end := range []func(backend.Tx) error{
		func(tx backend.Tx) error { return tx.Commit(f.ctx) },
		func(tx backend.Tx) error { return tx.Rollback(f.ctx) },
	} {
		tx := f.begin()
		f.ok(end(tx))
		f.is(tx.Commit(f.ctx), backend.ErrTxDone)
		f.ok(tx.Rollback(f.ctx))
		_, err := tx.Catalog(f.ctx, false)
		f.is(err, backend.ErrTxDone)
		_, err = tx.Claim(f.ctx, f.request(f.qa))
		f.is(err, backend.ErrTxDone)
		f.is(tx.Savepoint(f.ctx, "p"), backend.ErrTxDone)
	}
}

func testReader(f *fixture) {
	d := f.open()
	f.send(d.a.Handle, "1", "2")
	f.post(backend.Posting{Queue: f.qb, Rank: 9, Body: []byte("post")})
	f.post(backend.Posting{Queue: f.qb, Key: "k", Rank: 1})
	f.post(backend.Posting{Queue: f.qb, Delay: time.Hour})
	f.do(func(tx backend.Tx) error { return tx.SetTimer(f.ctx, d.a.Handle, time.Hour) })
	f.do(func(tx backend.Tx) error {
		return tx.Promote(f.ctx, backend.Promotion{Group: d.b.Group, Level: 7, Sticky: true})
	})
	q := f.queue(f.qb)
	f.equal("queue", []any{q.Name, q.Depth, q.Delayed, q.Leased, q.Oldest > 0}, []any{"qb", 4, 1, 0, true})
	page := func(offset, limit int, waiting bool) (s []string) {
		groups, err := f.b.Groups(f.ctx, backend.GroupQuery{Queue: f.qb, Offset: offset, Limit: limit, WaitingOnly: waiting})
		f.ok(err)
		for _, g := range groups {
			s = append(s, fmt.Sprint([]any{g.Service, g.Key, g.Post, g.Promoted, g.Level, g.Sticky, g.Priority, g.Messages, g.State}))
		}
		return s
	}
	all := []string{"[B  false true 7 true 5 2 ready]", "[  true false 0 false 9 1 ready]", "[ k false false 0 false 1 1 ready]"}
	f.equal("groups", page(0, 10, false), all)
	f.equal("a page", page(1, 1, false), all[1:2])
	h := f.one(f.request(f.qb))
	f.equal("waiting", page(0, 10, true), all[1:])
	groups, err := f.b.Groups(f.ctx, backend.GroupQuery{Queue: f.qb, Limit: 1})
	f.ok(err)
	f.equal("held", []any{groups[0].State, groups[0].Owner, groups[0].Until > 0}, []any{"held", "test", true})
	f.equal("leased", f.queue(f.qb).Leased, 1)
	f.settle(backend.Outcome{Hold: h})

	list, err := f.b.Conversations(f.ctx, backend.ConversationQuery{Limit: 10})
	f.ok(err)
	f.equal("conversations", len(list), 2)
	if len(list) == 2 {
		f.equal("initiator", []any{list[0].Handle, list[0].NextSeq, list[0].Waiting, list[0].Timer > 0}, []any{d.a.Handle, 2, 0, true})
		f.equal("target", []any{list[1].Handle, list[1].Waiting, list[1].Timer}, []any{d.b.Handle, 2, time.Duration(0)})
	}
	for _, x := range []backend.ConversationQuery{{Limit: 10, Handle: d.b.Handle}, {Limit: 1}} {
		list, err = f.b.Conversations(f.ctx, x)
		f.ok(err)
		f.equal("both sides", len(list), 2)
	}
	list, err = f.b.Conversations(f.ctx, backend.ConversationQuery{Limit: 10, Group: d.a.Group})
	f.ok(err)
	f.equal("of a group", len(list), 1)
	list, err = f.b.Conversations(f.ctx, backend.ConversationQuery{Limit: 10, After: d.a.Conversation})
	f.ok(err)
	f.equal("after the last", len(list), 0)
}

func testSweeps(f *fixture) {
	// A marker whose messages were consumed without a finish is left over: here
	// the receiver ends one side, and what it had not read is dropped.
	d := f.open()
	f.send(d.b.Handle, "1")
	f.end(backend.End{Handle: d.a.Handle, Kind: backend.EndCleanup})
	f.none(f.request(f.qa))
	f.tend(backend.DutyMarkers)
	c := f.none(f.request(f.qa))
	f.equal("contended", c.Contended, false)
	f.end(backend.End{Handle: d.b.Handle})
	f.tend(backend.DutyClosed)
	f.drain(f.qb)
	n, _ := f.tend(backend.DutyGroups)
	f.equal("groups removed", n, 2)
	f.post(backend.Posting{Key: "hot"})
	f.drain(f.qp)
	n, _ = f.tend(backend.DutyGroups)
	f.equal("keys removed that were used a moment ago", n, 0)
}

func testContext(f *fixture) {
	ctx, cancel := context.WithCancel(f.ctx)
	tx, err := f.b.Begin(ctx)
	f.ok(err)
	cancel()
	if _, err := tx.Catalog(ctx, true); !errors.Is(err, context.Canceled) {
		f.Errorf("error %v", err)
	}
	// The transaction outlives the context that it was begun with.
	_, err = tx.Post(f.ctx, f.version, []backend.Posting{f.posting(backend.Posting{})})
	f.ok(err)
	f.ok(tx.Commit(f.ctx))
	f.equal("posts", len(f.drain(f.qp)), 1)
	if _, err := f.b.Begin(ctx); !errors.Is(err, context.Canceled) {
		f.Errorf("error %v", err)
	}
	if err := f.b.Check(ctx); !errors.Is(err, context.Canceled) {
		f.Errorf("error %v", err)
	}
}

func testDisabled(f *fixture) {
	d := f.open()
	f.send(d.a.Handle, "1")
	f.post(backend.Posting{Queue: f.qb, Delay: time.Millisecond, Body: []byte("delayed")})
	f.do(func(tx backend.Tx) error { return tx.SetTimer(f.ctx, d.b.Handle, time.Millisecond) })
	f.define(&backend.Catalog{Queues: []backend.Queue{{Name: "qb", Disabled: true}}})
	time.Sleep(5 * time.Millisecond)
	f.is(f.try(func(tx backend.Tx) error { _, err := tx.Claim(f.ctx, f.request(f.qb)); return err }), backend.ErrQueueDisabled)
	f.is(f.try(func(tx backend.Tx) error {
		_, err := tx.Post(f.ctx, f.version, []backend.Posting{f.posting(backend.Posting{Queue: f.qb})})
		return err
	}), backend.ErrQueueDisabled)
	err := f.try(func(tx backend.Tx) error {
		_, err := tx.Send(f.ctx, f.version, []backend.Outgoing{message(d.a.Handle, "x")})
		return err
	})
	var r *backend.Refused
	if !errors.As(err, &r) || r.Refusals[0] != backend.RefusedDisabled {
		f.Errorf("send: %v", err)
	}
	f.do(func(tx backend.Tx) error {
		_, err := tx.Withhold(f.ctx, []backend.Outgoing{message(d.a.Handle, "2")}, "off")
		return err
	})
	f.equal("withheld", f.queue(f.qb).Withheld, 1)
	f.is(f.try(func(tx backend.Tx) error { _, err := tx.Deliver(f.ctx, d.a.Handle); return err }), backend.ErrQueueDisabled)
	for _, duty := range []backend.Duty{backend.DutyTimers, backend.DutyDelayed} {
		n, _ := f.tend(duty)
		f.equal(fmt.Sprintf("moved by duty %v", duty), n, 0)
	}
	f.end(backend.End{Handle: d.a.Handle, Kind: backend.EndError, Error: &backend.DialogError{Code: 1, Text: "x"}})
	f.define(&backend.Catalog{Queues: []backend.Queue{{Name: "qb"}}})
	f.do(func(tx backend.Tx) error {
		n, err := tx.Deliver(f.ctx, d.a.Handle)
		f.equal("delivered", n, 1) // the error alone: what was withheld is dropped
		return err
	})
	f.tendUntil(backend.DutyTimers, 1)
	f.tendUntil(backend.DutyDelayed, 1)
	f.equal("drained", sorted(f.drain(f.qb)), []string{"1", "<DialogTimer>", "<Error>", "delayed"})
}

func testUnsupported(f *fixture) {
	if _, err := f.b.OpenSession(f.ctx, time.Second, "x"); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		f.Errorf("OpenSession: %v", err)
	}
}
