package memstore

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
)

func (b *bench) state(handle backend.ID) backend.State {
	b.Helper()
	tx := b.begin()
	defer tx.Rollback(ctx)
	e, err := tx.Endpoint(ctx, handle)
	if errors.Is(err, backend.ErrNoConversation) {
		return ""
	}
	b.must(err)
	return e.State
}

func (b *bench) end(handle backend.ID, kind backend.EndKind) (done backend.Ended) {
	b.Helper()
	b.do(func(tx *Tx) {
		e, err := tx.Endpoint(ctx, handle)
		b.must(err)
		b.must(tx.LockGroup(ctx, e.Group))
		end := backend.End{Handle: handle, Kind: kind, MessageID: backend.NewID()}
		if kind == backend.EndError {
			end.Error = &backend.DialogError{Code: 12, Text: "x"}
		}
		done, err = tx.EndDialog(ctx, end)
		b.must(err)
	})
	return done
}

// receive claims all of a queue in one group and settles it.
func (b *bench) receive(queue int64) (got []string) {
	b.Helper()
	b.do(func(tx *Tx) {
		c := b.claim(tx, b.request(queue))
		got = bodies(c)
		for _, hold := range c.Holds {
			_, err := tx.Settle(ctx, done(hold))
			b.must(err)
		}
	})
	return got
}

func (b *bench) refused(from backend.ID, want backend.Refusal) {
	b.Helper()
	tx := b.begin()
	defer tx.Rollback(ctx)
	_, err := tx.Send(ctx, b.version, []backend.Outgoing{{ID: backend.NewID(), From: from, Kind: backend.KindUser}})
	var r *backend.Refused
	if !errors.As(err, &r) || r.Refusals[0] != want {
		b.Fatalf("send: %v, want refusal %v", err, want)
	}
}

func (b *bench) equal(got []string, want ...string) {
	b.Helper()
	if !slices.Equal(got, want) {
		b.Fatalf("got %q, want %q", got, want)
	}
}

func TestConversation(t *testing.T) {
	b := newBench(t, "")
	from, to := b.dialog(5)
	if s := b.state(from); s != backend.StartedOutbound {
		t.Errorf("state %s after BeginDialog", s)
	}
	b.do(func(tx *Tx) { b.send(tx, from, "1", "2") })
	b.do(func(tx *Tx) { b.send(tx, to, "reply") })
	b.equal(b.receive(queueB), "1", "2")
	b.equal(b.receive(queueA), "reply")

	// The target ends first: what it sent before comes before EndDialog.
	b.do(func(tx *Tx) { b.send(tx, to, "last") })
	b.do(func(tx *Tx) { b.send(tx, from, "unread") })
	if done := b.end(to, backend.EndPlain); done.Queue != queueA || done.Dropped != 1 || done.FarGone {
		t.Errorf("ended: %+v", done)
	}
	if from, to := b.state(from), b.state(to); from != backend.DisconnectedInbound || to != backend.DisconnectedOutbound {
		t.Errorf("states %s and %s", from, to)
	}
	b.refused(from, backend.RefusedFar)
	b.refused(to, backend.RefusedEnded)

	// A handler that ends the conversation acknowledges anyway.
	b.do(func(tx *Tx) {
		c := b.claim(tx, b.request(queueA))
		b.equal(bodies(c), "last", "EndDialog")
		done, err := tx.EndDialog(ctx, backend.End{Handle: from})
		b.must(err)
		if !done.FarGone || done.Queue != 0 {
			t.Errorf("ended: %+v", done)
		}
		_, err = tx.Settle(ctx, []backend.Outcome{{Hold: c.Holds[0], Done: c.Holds[0].Messages}})
		b.must(err)
	})
	if from, to := b.state(from), b.state(to); from != "" || to != "" {
		t.Errorf("states %q and %q of a conversation that is gone", from, to)
	}
	b.maintain(backend.JobMarkers, backend.JobClosed, backend.JobGroups)
	if n := len(b.store.groups.versions) + len(b.store.streams.versions) + len(b.store.messages.versions) +
		len(b.store.order.versions) + len(b.store.members.versions) + len(b.store.closings.versions); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

func TestEndWithError(t *testing.T) {
	b := newBench(t, "")
	from, to := b.dialog(5)
	b.do(func(tx *Tx) { b.send(tx, from, "1") })
	b.do(func(tx *Tx) { b.must(tx.SetTimer(ctx, to, time.Second)) })
	b.end(from, backend.EndError)
	b.clock.add(2 * time.Second)
	b.maintain(backend.JobTimers)
	if s := b.state(to); s != backend.Errored {
		t.Errorf("state %s", s)
	}
	b.equal(b.receive(queueB), "DialogTimer", "Error", "1")
	if done := b.end(to, backend.EndError); !done.FarEnded || !done.FarGone || done.Queue != 0 {
		t.Errorf("ended: %+v", done)
	}

	from, to = b.dialog(5)
	b.do(func(tx *Tx) { b.send(tx, from, "1") })
	b.end(to, backend.EndCleanup)
	b.refused(from, backend.RefusedFar)
	if s := b.state(from); s != backend.Conversing {
		t.Errorf("state %s though the peer only was cleaned up", s)
	}
	if done := b.end(from, backend.EndPlain); !done.FarGone {
		t.Errorf("ended: %+v", done)
	}
	if s := b.state(from); s != "" {
		t.Errorf("state %s", s)
	}
}

func TestWithheld(t *testing.T) {
	b := newBench(t, "")
	from, to := b.dialog(5)
	b.do(func(tx *Tx) { b.send(tx, from, "1") })
	off := func(disabled bool) {
		b.do(func(tx *Tx) {
			var err error
			b.version, err = tx.PutCatalog(ctx, &backend.Catalog{Queues: []backend.Queue{{Name: "b", Disabled: disabled}}})
			b.must(err)
		})
	}
	withhold := func(body string) {
		b.do(func(tx *Tx) {
			_, err := tx.Withhold(ctx, []backend.Outgoing{{ID: backend.NewID(), From: from, Kind: backend.KindUser, Type: "T", Body: []byte(body)}}, "off")
			b.must(err)
		})
	}
	stale := b.version
	off(true)
	tx := b.begin()
	_, err := tx.Send(ctx, stale, []backend.Outgoing{{From: from}})
	var refused *backend.Refused
	if !errors.As(err, &refused) || refused.Refusals[0] != backend.RefusedStale {
		t.Errorf("send by an old catalog: %v", err)
	}
	_, err = tx.Claim(ctx, b.request(queueB))
	b.want(err, backend.ErrQueueDisabled)
	b.must(tx.Rollback(ctx))
	b.refused(from, backend.RefusedDisabled)
	withhold("2")
	b.refused(from, backend.RefusedWithheld)
	b.end(from, backend.EndPlain)
	off(false)
	b.do(func(tx *Tx) {
		n, err := tx.Deliver(ctx, from)
		b.must(err)
		if n != 2 {
			t.Errorf("%d delivered", n)
		}
	})
	b.equal(b.receive(queueB), "1", "2", "EndDialog")
	b.end(to, backend.EndPlain)
	if s := b.state(from); s != "" {
		t.Errorf("state %s", s)
	}
}

func TestLifetime(t *testing.T) {
	b := newBench(t, "")
	from, to := backend.NewID(), backend.NewID()
	b.do(func(tx *Tx) {
		b.must(tx.BeginDialog(ctx, b.version, backend.NewDialog{NewGroup: true, Endpoint: backend.Endpoint{
			Handle: from, FarHandle: to, Conversation: from, Initiator: true, Service: "A", FarService: "B", Queue: queueA, Group: from, Priority: 5, Lifetime: time.Minute,
		}}))
		_, err := tx.Accept(ctx, b.version, from, backend.Endpoint{Handle: to, FarHandle: from, Conversation: from, Service: "B", FarService: "A", Queue: queueB, Priority: 5})
		b.must(err)
		b.send(tx, from, "1")
	})
	if n := b.maintain(backend.JobLifetimes); n != 0 {
		t.Errorf("%d sides too early", n)
	}
	b.clock.add(time.Hour)
	if n := b.maintain(backend.JobLifetimes) + b.maintain(backend.JobLifetimes); n != 2 {
		t.Errorf("%d sides", n)
	}
	b.refused(from, backend.RefusedFar)
	b.equal(b.receive(queueB), "Error", "1")
	b.equal(b.receive(queueA), "Error")
	b.end(from, backend.EndPlain)
	b.end(to, backend.EndPlain)
	b.equal(b.receive(queueB))
	if s := b.state(to); s != "" {
		t.Errorf("state %s", s)
	}
}

func TestMove(t *testing.T) {
	b := newBench(t, "")
	from, to := b.dialog(5)
	b.do(func(tx *Tx) { b.send(tx, from, "1") })

	// Out of a parked group, whose streams have left the ready order.
	b.do(func(tx *Tx) {
		c := b.claim(tx, b.request(queueB))
		_, err := tx.Settle(ctx, []backend.Outcome{{Hold: c.Holds[0], Park: "bad"}})
		b.must(err)
	})
	b.maintain(backend.JobMarkers)
	b.equal(b.receive(queueB))

	sender := b.begin()
	b.send(sender, from, "2")
	group := backend.NewID()
	tx := b.begin()
	b.want(tx.Move(ctx, to, group, true), backend.ErrGroupBusy) // not held
	b.must(tx.LockGroup(ctx, to))
	b.want(tx.Move(ctx, to, group, true), backend.ErrStreamBusy)
	b.must(sender.Commit(ctx))
	b.must(tx.LockGroup(ctx, to))
	b.want(tx.Move(ctx, to, backend.NewID(), false), backend.ErrNoGroup)
	b.must(tx.Move(ctx, to, group, true))
	b.must(tx.Commit(ctx))
	var c backend.Claim
	b.do(func(tx *Tx) { c = b.claim(tx, b.request(queueB)) })
	b.equal(bodies(c), "1", "2")
	if c.Holds[0].Group != group || c.Holds[0].Messages[0].Group != group {
		t.Errorf("claimed in group %v, want %v", c.Holds[0].Group, group)
	}
	other, _ := b.dialog(5)
	b.do(func(tx *Tx) {
		b.must(tx.LockGroup(ctx, group))
		b.must(tx.LockGroup(ctx, other))
		b.want(tx.Move(ctx, to, other, false), backend.ErrGroupElsewhere)
	})
}
