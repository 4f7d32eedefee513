package backendtest

import (
	"errors"
	"slices"

	"github.com/parleymq/parley/backend"
)

// testEndedLater: an end that a store may write later counts at once, and is written whatever comes next.
func testEndedLater(f *Fixture) {
	x := ending{f}
	x.nothingMore()
	x.seen()
	x.savepoints()
	x.ownSavepoints()
	x.noMarkers()
	x.meanwhile()
	x.heard()
	x.unusual()
	x.pointless()
}

// ending ends conversations in the transactions of deliveries.
type ending struct{ *Fixture }

// taken is a conversation of which the target has taken a delivery.
func (f ending) taken(bodies ...string) (Dialog, *backend.Hold) {
	f.Helper()
	d := f.Open()
	f.Send(d.A.Handle, bodies...)
	return d, f.One(f.Request(f.QB))
}

// do works in a transaction that has the delivery.
func (f ending) do(h *backend.Hold, work func(tx backend.Tx)) {
	f.Helper()
	f.Do(func(tx backend.Tx) error {
		f.OK(tx.Reclaim(f.Ctx, []*backend.Hold{h}))
		work(tx)
		return nil
	})
}

func (f ending) end(tx backend.Tx, handle backend.ID) backend.Ended {
	f.Helper()
	done, err := tx.EndDialog(f.Ctx, backend.End{Handle: handle, MessageID: backend.NewID()})
	f.OK(err)
	done.Later = nil // which engines may set
	return done
}

func (f ending) send(tx backend.Tx, from backend.ID, body string) {
	f.Helper()
	_, err := tx.Send(f.Ctx, f.Version, []backend.Outgoing{Message(from, body)})
	f.OK(err)
}

func (f ending) ack(tx backend.Tx, h *backend.Hold) {
	f.Helper()
	_, err := tx.Settle(f.Ctx, []backend.Outcome{{Hold: h, Done: h.Messages, Retain: true}})
	f.OK(err)
}

// nothingMore: neither side can send on it, it does not end twice, and no copies are left of it.
func (f ending) nothingMore() {
	for _, far := range []bool{false, true} {
		d, h := f.taken("1")
		from, want := d.B.Handle, backend.RefusedEnded
		if far {
			from, want = d.A.Handle, backend.RefusedFar
		}
		f.do(h, func(tx backend.Tx) {
			f.send(tx, d.B.Handle, "reply")
			f.Equal("ended", f.end(tx, d.B.Handle), backend.Ended{Queue: f.QA})
			_, err := tx.Send(f.Ctx, f.Version, []backend.Outgoing{Message(from, "too late")})
			var r *backend.Refused
			if !errors.As(err, &r) || r.Refusals[0] != want {
				f.Errorf("error %v, want %v", err, want)
			}
			f.ack(tx, h)
		})
		f.Equal("drained", f.Drain(f.QA), []string{"reply", "<EndDialog>"})
		f.None(f.Request(f.QB))
	}
	d, h := f.taken("1")
	f.do(h, func(tx backend.Tx) {
		f.end(tx, d.B.Handle)
		_, err := tx.EndDialog(f.Ctx, backend.End{Handle: d.B.Handle, MessageID: backend.NewID()})
		f.Is(err, backend.ErrEnded)
		f.ack(tx, h)
	})
	d, h = f.taken("1")
	f.do(h, func(tx backend.Tx) {
		f.end(tx, d.B.Handle)
		f.ack(tx, h)
	})
	copies, err := f.Backend.Retained(f.Ctx, d.B.Handle)
	f.OK(err)
	f.Equal("copies of a side that has ended", len(copies), 0)
	f.Equal("drained", f.Drain(f.QA), []string{"<EndDialog>", "<EndDialog>"})
}

// seen: the other side's end, other verbs and the commit see it.
func (f ending) seen() {
	d, h := f.taken("1")
	f.do(h, func(tx backend.Tx) {
		f.end(tx, d.B.Handle)
		f.OK(tx.LockGroup(f.Ctx, d.A.Group))
		done := f.end(tx, d.A.Handle)
		f.Equal("the other side has ended", done.FarEnded && done.FarGone, true)
		f.ack(tx, h)
	})
	f.Is(f.Try(func(tx backend.Tx) error { _, err := tx.Endpoint(f.Ctx, d.A.Handle); return err }), backend.ErrNoConversation)
	d, h = f.taken("1", "2")
	f.do(h, func(tx backend.Tx) {
		f.end(tx, d.B.Handle)
		e, err := tx.Endpoint(f.Ctx, d.B.Handle)
		f.OK(err)
		f.Equal("state", e.State, backend.DisconnectedOutbound)
	})
	f.None(f.Request(f.QB))
	d, h = f.taken("3")
	f.do(h, func(tx backend.Tx) { f.end(tx, d.B.Handle) })
	f.None(f.Request(f.QB))
	f.Equal("drained", f.Drain(f.QA), []string{"<EndDialog>", "<EndDialog>"})

	// A transaction that has both groups takes the reply, and then ends.
	d, h = f.taken("4")
	f.do(h, func(tx backend.Tx) {
		f.send(tx, d.B.Handle, "reply")
		c, err := tx.Claim(f.Ctx, f.Request(f.QA))
		f.OK(err)
		f.Equal("claimed", len(c.Holds), 1)
		f.OK(tx.Reclaim(f.Ctx, c.Holds))
		f.ack(tx, c.Holds[0])
		f.end(tx, d.B.Handle)
		f.ack(tx, h)
	})
	f.Equal("drained", f.Drain(f.QA), []string{"<EndDialog>"})
}

// savepoints: what one undoes, and what not.
func (f ending) savepoints() {
	d, h := f.taken("5")
	other, held := f.taken("6")
	f.Do(func(tx backend.Tx) error {
		f.OK(tx.Reclaim(f.Ctx, []*backend.Hold{h, held}))
		f.end(tx, d.B.Handle)
		f.OK(tx.Savepoint(f.Ctx, "p"))
		f.end(tx, other.B.Handle)
		_, err := tx.Endpoint(f.Ctx, d.B.Handle) // by then both are written
		f.OK(err)
		return tx.RollbackTo(f.Ctx, "p")
	})
	f.Equal("drained", f.Drain(f.QA), []string{"<EndDialog>"})
	f.Equal("its message is there again", f.Drain(f.QB), []string{"6"})
	f.Equal("state", f.endpoint(other.B.Handle).State, backend.Conversing)
}

func (f ending) engine(names ...string) bool {
	f.Helper()
	info, err := f.Backend.Info(f.Ctx)
	f.OK(err)
	return slices.Contains(names, info.Engine)
}

// ownSavepoints: the application rolls back to its own savepoints.
func (f ending) ownSavepoints() {
	if !f.engine("postgres", "mysql", "mariadb", "sqlite") {
		return // it has none, or has other words for them
	}
	undone := func(tx backend.Tx, work func()) {
		f.Helper()
		_, err := tx.SQL().ExecContext(f.Ctx, "SAVEPOINT mine")
		f.OK(err)
		work()
		_, err = tx.SQL().ExecContext(f.Ctx, "ROLLBACK TO SAVEPOINT mine")
		f.OK(err)
	}
	// What was sent is gone with its place in the order.
	d, h := f.taken("7")
	f.do(h, func(tx backend.Tx) {
		undone(tx, func() { f.send(tx, d.B.Handle, "undone") })
		f.end(tx, d.B.Handle)
		f.ack(tx, h)
	})
	f.Equal("drained", f.Drain(f.QA), []string{"<EndDialog>"})
	// The end itself is gone.
	d, h = f.taken("8")
	f.do(h, func(tx backend.Tx) {
		undone(tx, func() { f.end(tx, d.B.Handle) })
		f.ack(tx, h)
	})
	f.Equal("drained", f.Drain(f.QA), []string{})
	f.None(f.Request(f.QB))
	f.Equal("state", f.endpoint(d.B.Handle).State, backend.Conversing)
}

// noMarkers: what a transaction ends again, after a rollback to a savepoint, leaves no place in the order.
func (f ending) noMarkers() {
	if !f.engine("mysql", "mariadb", "sqlite") {
		return // the others write an end at once
	}
	d, h := f.taken("9")
	f.do(h, func(tx backend.Tx) {
		f.end(tx, d.B.Handle)
		f.OK(tx.Savepoint(f.Ctx, "p"))
		f.ack(tx, h)
		f.OK(tx.RollbackTo(f.Ctx, "p"))
	})
	f.Equal("drained", f.Drain(f.QA), []string{"<EndDialog>"})
	markers := -1
	f.Do(func(tx backend.Tx) error {
		return tx.SQL().QueryRowContext(f.Ctx, "SELECT count(*) FROM parley_ready").Scan(&markers)
	})
	f.Equal("places in the order of streams without messages", markers, 0)
}

// meanwhile: what other transactions commit between the end and the commit.
func (f ending) meanwhile() {
	if !f.engine("postgres", "mysql", "mariadb") {
		return // there is one writer, or it waits for readers
	}
	d, h := f.taken("10")
	f.do(h, func(tx backend.Tx) {
		f.end(tx, d.B.Handle)
		f.Send(d.A.Handle, "too late") // it is not told of the end yet
		f.ack(tx, h)
	})
	f.Equal("drained by a side that has ended", f.Drain(f.QB), []string{})
	f.Equal("drained", f.Drain(f.QA), []string{"<EndDialog>"})
	d, h = f.taken("11")
	f.do(h, func(tx backend.Tx) {
		f.end(tx, d.B.Handle)
		f.Equal("the other side's end", f.End(backend.End{Handle: d.A.Handle}), backend.Ended{Queue: f.QB})
		f.ack(tx, h)
	})
	f.Equal("drained after ends that crossed", append(f.Drain(f.QB), f.Drain(f.QA)...), []string{})
	d, h = f.taken("12")
	f.do(h, func(tx backend.Tx) {
		f.send(tx, d.B.Handle, "reply")
		f.end(tx, d.B.Handle)
		f.Equal("the other side's end", f.End(backend.End{Handle: d.A.Handle}), backend.Ended{Queue: f.QB})
		f.ack(tx, h)
	})
	f.Equal("drained after a reply that crossed an end", append(f.Drain(f.QB), f.Drain(f.QA)...), []string{})
}

// answered is a conversation whose target has replied and ended, with the delivery of both to the initiator.
func (f ending) answered() (Dialog, *backend.Hold) {
	f.Helper()
	d, h := f.taken("request")
	f.do(h, func(tx backend.Tx) {
		f.send(tx, d.B.Handle, "reply")
		f.end(tx, d.B.Handle)
		f.ack(tx, h)
	})
	h = f.One(f.Request(f.QA))
	f.Equal("delivered", Bodies(h.Messages), []string{"reply", "<EndDialog>"})
	return d, h
}

func (f ending) isGone(d Dialog) {
	f.Helper()
	for _, side := range []backend.ID{d.A.Handle, d.B.Handle} {
		f.Is(f.Try(func(tx backend.Tx) error { _, err := tx.Endpoint(f.Ctx, side); return err }), backend.ErrNoConversation)
	}
	f.Equal("drained", append(f.Drain(f.QA), f.Drain(f.QB)...), []string{})
}

// heard: a side that has received EndDialog ends the conversation, whatever comes next.
func (f ending) heard() {
	over := backend.Ended{FarEnded: true, FarGone: true}
	d, h := f.answered()
	f.do(h, func(tx backend.Tx) {
		f.Equal("ended", f.end(tx, d.A.Handle), over)
		f.ack(tx, h)
	})
	f.isGone(d)
	// Two at once.
	d, h = f.answered()
	other, held := f.answered()
	f.Do(func(tx backend.Tx) error {
		f.OK(tx.Reclaim(f.Ctx, []*backend.Hold{h, held}))
		f.Equal("ended", f.end(tx, d.A.Handle), over)
		f.Equal("ended", f.end(tx, other.A.Handle), over)
		_, err := tx.Settle(f.Ctx, []backend.Outcome{{Hold: h, Done: h.Messages}, {Hold: held, Done: held.Messages}})
		return err
	})
	f.isGone(d)
	f.isGone(other)
	// Not acknowledged, it is gone all the same.
	d, h = f.answered()
	f.do(h, func(tx backend.Tx) { f.Equal("ended", f.end(tx, d.A.Handle), over) })
	f.isGone(d)
	// A savepoint undoes it.
	d, h = f.answered()
	f.do(h, func(tx backend.Tx) {
		f.OK(tx.Savepoint(f.Ctx, "p"))
		f.end(tx, d.A.Handle)
		f.OK(tx.RollbackTo(f.Ctx, "p"))
		e, err := tx.Endpoint(f.Ctx, d.A.Handle)
		f.OK(err)
		f.Equal("state", e.State, backend.DisconnectedInbound)
		f.end(tx, d.A.Handle)
		_, err = tx.EndDialog(f.Ctx, backend.End{Handle: d.A.Handle, MessageID: backend.NewID()})
		if !errors.Is(err, backend.ErrEnded) && !errors.Is(err, backend.ErrNoConversation) {
			f.Errorf("ended twice: %v", err)
		}
		f.ack(tx, h)
	})
	f.isGone(d)
}

// unusual: an end that has to be decided by itself after all.
func (f ending) unusual() {
	// A message for the side that had ended waits in its group.
	d, h := f.answered()
	f.Is(f.Try(func(tx backend.Tx) error {
		_, err := tx.Send(f.Ctx, f.Version, []backend.Outgoing{Message(d.A.Handle, "too late")})
		var refused *backend.Refused
		if !errors.As(err, &refused) {
			f.Errorf("sent to a side that has ended: %v", err)
		}
		return backend.ErrTxDone
	}), backend.ErrTxDone)
	f.do(h, func(tx backend.Tx) { f.end(tx, d.A.Handle); f.ack(tx, h) })
	f.isGone(d)
	// Another request waits when the first is answered.
	d = f.Open()
	f.Send(d.A.Handle, "first", "second")
	r := f.Request(f.QB)
	r.MaxMessages = 1
	h = f.One(r)
	f.do(h, func(tx backend.Tx) {
		f.send(tx, d.B.Handle, "reply")
		f.Equal("queue", f.end(tx, d.B.Handle).Queue, f.QA) // Dropped is known at once in a joined transaction only
		f.ack(tx, h)
	})
	f.None(f.Request(f.QB))
	f.Equal("drained", f.Drain(f.QA), []string{"reply", "<EndDialog>"})
	if !f.engine("postgres", "mysql", "mariadb") {
		return // no guard is locked but by the one writer
	}
	f.Maintain(backend.JobClosed)
	d, h = f.answered()
	guard := f.Begin()
	f.OK(guard.TryStream(f.Ctx, d.B.Handle))
	var done backend.Ended
	f.do(h, func(tx backend.Tx) {
		var err error
		done, err = tx.EndDialog(f.Ctx, backend.End{Handle: d.A.Handle, MessageID: backend.NewID()})
		f.OK(err)
		f.ack(tx, h)
	})
	f.Equal("remains", done.Remains || done.Later != nil && *done.Later, true)
	f.Equal("state", f.endpoint(d.A.Handle).State, backend.Closed)
	f.OK(guard.Commit(f.Ctx))
	n, _ := f.Maintain(backend.JobClosed)
	f.Equal("removed", n, 1)
	f.isGone(d)
}

// pointless: what is done between a savepoint and the rollback to it, be it nothing, is undone, and no more.
func (f ending) pointless() {
	post := func(tx backend.Tx, body string) {
		f.Helper()
		_, err := tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{Key: "k", Body: []byte(body)})})
		f.OK(err)
	}
	named := f.engine("mysql", "mariadb", "sqlite") // the tables have these names there
	f.Do(func(tx backend.Tx) error {
		post(tx, "1")
		f.OK(tx.Savepoint(f.Ctx, "a"))
		f.OK(tx.RollbackTo(f.Ctx, "a"))
		f.OK(tx.Savepoint(f.Ctx, "b"))
		post(tx, "undone by b")
		f.OK(tx.RollbackTo(f.Ctx, "b"))
		post(tx, "undone by a")
		f.OK(tx.Savepoint(f.Ctx, "c"))
		f.OK(tx.RollbackTo(f.Ctx, "a"))
		f.OK(tx.Resave(f.Ctx, "a"))
		f.OK(tx.Resave(f.Ctx, "a"))
		post(tx, "undone by a")
		f.OK(tx.RollbackTo(f.Ctx, "a"))
		post(tx, "2")
		f.OK(tx.Release(f.Ctx, "a"))
		f.OK(tx.Savepoint(f.Ctx, "d"))
		f.OK(tx.Release(f.Ctx, "d"))
		if named {
			f.OK(tx.Savepoint(f.Ctx, "e"))
			_, err := tx.SQL().ExecContext(f.Ctx, "DELETE FROM parley_message WHERE kind = 4")
			f.OK(err)
			f.OK(tx.RollbackTo(f.Ctx, "e"))
		}
		return nil
	})
	f.Equal("drained", f.Drain(f.QP), []string{"1", "2"})
}
