package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/slow"
)

// Interleavings runs tests that put two or three transactions in the order in which a message could
// be lost, delivered twice, or waited for. Nothing in them may wait: each call has a context that
// ends soon. open returns an empty, migrated store, and a function that returns the result of a
// counting query.
func Interleavings(t *testing.T, open func(t *testing.T) (b backend.Backend, count func(query string) int)) {
	fresh := func(t *testing.T) *interleaving {
		t.Helper()
		b, count := open(t)
		f := New(t, b)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		t.Cleanup(cancel)
		f.Ctx = ctx
		return &interleaving{f, count}
	}
	for _, test := range []struct {
		name string
		run  func(t *testing.T, fresh func(*testing.T) *interleaving)
	}{
		{"senders and receivers do not wait", nobodyWaits},
		{"finish beside sender", finishBesideSender},
		{"sweep beside end", sweepBesideEnd},
		{"take out beside sender", takeOutBesideSender},
		{"unpark beside sender", unparkBesideSender},
		{"deferral beside sender", deferralBesideSender},
		{"locked rows that are due hide nothing", lockedDueRows},
		{"move beside sender", moveBesideSender},
		{"keys wait", keysWait},
		{"new keys behind a transaction", newKeysBehind},
		{"send beside end", sendBesideEnd},
		{"end beside guard", endBesideGuard},
		{"settle beside promoter", settleBesidePromoter},
		{"transaction fences lease", transactionFencesLease},
		{"hold survives savepoint", holdSurvivesSavepoint},
		{"claim behind many held", claimBehindManyHeld},
		{"settle beside many held", settleBesideManyHeld},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, fresh) })
	}
}

type interleaving struct {
	*Fixture
	count func(query string) int
}

// soon fails the test if work does not end in time: what it must not wait for is there until the end of
// the test.
func (f *interleaving) soon(what string, work func(ctx context.Context) error) {
	f.Helper()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(f.Ctx, slow.By(20*time.Second))
	defer cancel()
	err := work(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		f.Fatal(slow.Failure(f.Failed(), what, time.Since(begun), err))
	case err != nil:
		f.Fatalf("%s: %v", what, err)
	}
}

// sending returns a transaction in which a message was sent.
func (f *interleaving) sending(from backend.ID, body string) backend.Tx {
	f.Helper()
	tx := f.Begin()
	f.soon("send", func(ctx context.Context) error {
		_, err := tx.Send(ctx, f.Version, []backend.Outgoing{Message(from, body)})
		return err
	})
	return tx
}

// receiving returns a transaction that holds a group, and the hold.
func (f *interleaving) receiving(queue int64) (backend.Tx, *backend.Hold) {
	f.Helper()
	tx := f.Begin()
	var h *backend.Hold
	f.soon("claim", func(ctx context.Context) error {
		r := f.Request(queue)
		r.Lease = 0
		c, err := tx.Claim(ctx, r)
		if err == nil && len(c.Holds) != 1 {
			err = errors.New("nothing was claimed")
		}
		if err == nil {
			h = c.Holds[0]
		}
		return err
	})
	return tx, h
}

// stranded counts messages that can be seen without a marker, in groups that are
// not blocked, nor marked for another look.
func (f *interleaving) stranded() int {
	return f.count(`
		SELECT count(*)
		  FROM parley_message m
		  JOIN parley_stream s ON s.stream_id = m.stream_id
		  JOIN parley_grp g ON g.group_id = s.group_id
		  LEFT JOIN parley_ready r ON r.stream_id = s.stream_id
		 WHERE r.stream_id IS NULL AND g.blocked = 0 AND g.resweep = 0`)
}

func (f *interleaving) markers() int {
	return f.count(`SELECT count(*) FROM parley_ready WHERE queue_id > 0`)
}

func (f *interleaving) park(queue int64) {
	f.Helper()
	f.Settle(backend.Outcome{Hold: f.One(f.Request(queue)), Park: "parked"})
}

// A sender waits for no receiver, and the other way round.
func nobodyWaits(t *testing.T, fresh func(*testing.T) *interleaving) {
	f := fresh(t)
	d, e := f.Open(), f.Open()
	f.Send(d.A.Handle, "1")
	f.Send(e.A.Handle, "2")
	r, h := f.receiving(f.QB)
	s := f.sending(d.A.Handle, "3") // d's group is held
	f.soon("commit", s.Commit)
	s = f.sending(e.A.Handle, "4") // stays open
	r2, h2 := f.receiving(f.QB)
	f.Equal("what an open sender has sent is not seen", Bodies(h2.Messages), []string{"2"})
	f.soon("settle", func(ctx context.Context) error {
		again, err := r2.Settle(ctx, []backend.Outcome{{Hold: h2, Done: h2.Messages}})
		f.Equal("again", again, true)
		return errors.Join(err, r2.Commit(ctx))
	})
	f.soon("settle", func(ctx context.Context) error {
		_, err := r.Settle(ctx, []backend.Outcome{{Hold: h, Done: h.Messages}})
		return errors.Join(err, r.Commit(ctx))
	})
	f.soon("commit", s.Commit)
	f.Equal("stranded", f.stranded(), 0)
	left := f.Drain(f.QB)
	slices.Sort(left)
	f.Equal("drained", left, []string{"3", "4"})
}

// The receiver takes the last message while a sender is in flight that has seen the marker. The
// marker has to stay, whether the sender commits or not.
func finishBesideSender(t *testing.T, fresh func(*testing.T) *interleaving) {
	for _, commit := range []bool{true, false} {
		f := fresh(t)
		d := f.Open()
		f.Send(d.A.Handle, "1")
		r, h := f.receiving(f.QB)
		s := f.sending(d.A.Handle, "2")
		f.soon("settle", func(ctx context.Context) error {
			again, err := r.Settle(ctx, []backend.Outcome{{Hold: h, Done: h.Messages}})
			f.Equal("again", again, true)
			return errors.Join(err, r.Commit(ctx))
		})
		c := f.None(f.Request(f.QB))
		f.Equal("contended", c.Contended, true)
		if commit {
			f.soon("commit", s.Commit)
			f.Equal("stranded", f.stranded(), 0)
			f.Equal("drained", f.Drain(f.QB), []string{"2"})
			continue
		}
		f.soon("rollback", s.Rollback)
		f.None(f.Request(f.QB))
		f.Equal("left over", f.markers(), 1)
		f.Maintain(backend.JobMarkers)
		f.Equal("left over after a sweep", f.markers(), 0)
		f.Equal("contended", f.None(f.Request(f.QB)).Contended, false)
	}
}

// An end removes a marker and then the stream, whose guard the sweep has. If the sweep waited for the marker, each would
// wait for the other.
func sweepBesideEnd(t *testing.T, fresh func(*testing.T) *interleaving) {
	f := fresh(t)
	d := f.Open()
	f.Send(d.A.Handle, "1")
	r, h := f.receiving(f.QB)
	s := f.sending(d.A.Handle, "2") // so the marker stays
	f.soon("settle", func(ctx context.Context) error {
		_, err := r.Settle(ctx, []backend.Outcome{{Hold: h, Done: h.Messages}})
		return errors.Join(err, r.Commit(ctx))
	})
	f.soon("rollback", s.Rollback)
	table := f.table("ready")
	end := f.Begin()
	_, err := end.SQL().ExecContext(f.Ctx, "DELETE FROM "+table+" WHERE queue_id > 0")
	f.OK(err)
	sweep := func(ctx context.Context) error {
		done, err := f.Backend.Maintain(ctx, backend.JobMarkers, 100)
		f.Equal("left over after a sweep beside an end", done.Moved, 0)
		return err
	}
	f.soon("sweep", sweep)
	f.soon("rollback", end.Rollback)
	f.Maintain(backend.JobMarkers)
	f.Equal("left over after a sweep", f.markers(), 0)
}

// A sender in flight has seen the marker of a parked group, and relies on it. Whatever removes the
// marker has to leave it there.
func takeOutBesideSender(t *testing.T, fresh func(*testing.T) *interleaving) {
	f := fresh(t)
	d := f.Open()
	f.Send(d.A.Handle, "1")
	f.park(f.QB)
	f.Send(d.A.Handle, "2") // makes a marker
	s := f.sending(d.A.Handle, "3")
	f.soon("take out", func(ctx context.Context) error {
		done, err := f.Backend.Maintain(ctx, backend.JobMarkers, 100)
		f.Equal("taken out", done.Moved, 0)
		return err
	})
	f.soon("unpark", func(ctx context.Context) error {
		return f.Try(func(tx backend.Tx) error { return tx.Unpark(ctx, d.B.Group) })
	})
	f.soon("commit", s.Commit)
	f.Equal("stranded", f.stranded(), 0)
	f.Equal("drained", f.Drain(f.QB), []string{"1", "2", "3"})
}

// A sender has just made the marker when the group becomes ready, and then rolls back. The earlier
// messages have no marker until the next look at the group.
func unparkBesideSender(t *testing.T, fresh func(*testing.T) *interleaving) {
	for _, commit := range []bool{true, false} {
		f := fresh(t)
		d := f.Open()
		f.Send(d.A.Handle, "1")
		f.park(f.QB)
		s := f.sending(d.A.Handle, "2") // makes a marker that no other transaction sees
		f.soon("unpark", func(ctx context.Context) error {
			return f.Try(func(tx backend.Tx) error { return tx.Unpark(ctx, d.B.Group) })
		})
		f.Equal("stranded", f.stranded(), 0)
		want := []string{"1"}
		if commit {
			f.soon("commit", s.Commit)
			want = append(want, "2")
		} else {
			f.soon("rollback", s.Rollback)
			f.None(f.Request(f.QB))
		}
		n, _ := f.Maintain(backend.JobDeferred)
		f.Equal("looked at again", n, 1)
		f.Equal("drained", f.Drain(f.QB), want)
		n, _ = f.Maintain(backend.JobDeferred)
		f.Equal("and not once more", n, 0)
	}
}

// A deferral that ends beside a sender goes the same way.
func deferralBesideSender(t *testing.T, fresh func(*testing.T) *interleaving) {
	f := fresh(t)
	d := f.Open()
	f.Send(d.A.Handle, "1")
	f.Settle(backend.Outcome{Hold: f.One(f.Request(f.QB)), Defer: time.Millisecond})
	s := f.sending(d.A.Handle, "2")
	f.MaintainUntil(backend.JobDeferred, 1)
	f.soon("rollback", s.Rollback)
	f.MaintainUntil(backend.JobDeferred, 1)
	f.Equal("drained", f.Drain(f.QB), []string{"1"})
}

// Moving does not wait for a sender, and changes nothing when it cannot be done.
func moveBesideSender(t *testing.T, fresh func(*testing.T) *interleaving) {
	f := fresh(t)
	d, e := f.Open(), f.Open()
	s := f.sending(d.B.Handle, "1")
	move := func(ctx context.Context) error {
		return f.Try(func(tx backend.Tx) error {
			for _, g := range []backend.ID{d.A.Group, e.A.Group} {
				if err := tx.LockGroup(ctx, g); err != nil {
					return err
				}
			}
			return tx.Move(ctx, d.A.Handle, e.A.Group, false)
		})
	}
	f.soon("move", func(ctx context.Context) error {
		if err := move(ctx); !errors.Is(err, backend.ErrStreamBusy) {
			t.Errorf("move: %v", err)
		}
		return nil
	})
	f.soon("commit", s.Commit)
	f.soon("move", move)
	h := f.One(f.Request(f.QA))
	f.Equal("group", h.Group, e.A.Group)
	f.Ack(h)
	f.Equal("stranded", f.stranded(), 0)
}

// Posts of one key wait for each other, so their order is that of the commits. Posts of other keys,
// and posts without a key, wait for no transaction.
func keysWait(t *testing.T, fresh func(*testing.T) *interleaving) {
	f := fresh(t)
	first := f.Begin()
	post := func(tx backend.Tx, key, body string) error {
		_, err := tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{Key: key, Body: []byte(body)})})
		return err
	}
	f.OK(post(first, "k", "1")) // makes the key
	waiting := make(chan error, 1)
	go func() {
		waiting <- f.Try(func(tx backend.Tx) error { return post(tx, "k", "2") })
	}()
	f.soon("another key", func(context.Context) error {
		return f.Try(func(tx backend.Tx) error { return errors.Join(post(tx, "l", "x"), post(tx, "", "y")) })
	})
	select {
	case err := <-waiting:
		t.Fatalf("the second of the key did not wait: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	f.OK(first.Commit(f.Ctx))
	f.OK(<-waiting)
	r := f.Request(f.QP)
	r.MaxGroups = 10
	for _, h := range f.Claim(r).Holds {
		if h.Messages[0].Key == "k" {
			f.Equal("order", Bodies(h.Messages), []string{"1", "2"})
		}
	}
}

// Several transactions wait for a new key, and for other new keys, behind the transaction that makes it. None loses,
// whether that transaction commits or not.
func newKeysBehind(t *testing.T, fresh func(*testing.T) *interleaving) {
	f := fresh(t)
	post := func(tx backend.Tx, body string, keys ...string) error {
		var batch []backend.Posting
		for _, k := range keys {
			batch = append(batch, f.Posting(backend.Posting{Key: k, Body: []byte(body)}))
		}
		_, err := tx.Post(f.Ctx, f.Version, batch)
		return err
	}
	for round, end := range []func(backend.Tx, context.Context) error{backend.Tx.Rollback, backend.Tx.Commit, backend.Tx.Rollback} {
		key := func(k string) string { return fmt.Sprint(k, round) }
		first := f.Begin()
		f.OK(post(first, "0", key("k"), key("z")))
		waiting := make(chan error)
		others := [][]string{{"k", "l"}, {"a", "k", "z"}, {"k"}, {"z"}, {"b", "z"}, {"k", "z"}}
		for _, keys := range others {
			var names []string
			for _, k := range keys {
				names = append(names, key(k))
			}
			go func() { waiting <- f.Try(func(tx backend.Tx) error { return post(tx, "x", names...) }) }()
		}
		select {
		case err := <-waiting:
			t.Fatalf("one of them did not wait: %v", err)
		case <-time.After(200 * time.Millisecond): // they are all at the key by then, or else the test proves less
		}
		f.OK(end(first, f.Ctx))
		for range others {
			f.OK(<-waiting)
		}
	}
	f.Equal("posts", len(f.Drain(f.QP)), 3*11+2)
}

// A sender that waited for the guard sends to what the conversation is then.
func sendBesideEnd(t *testing.T, fresh func(*testing.T) *interleaving) {
	f := fresh(t)
	d := f.Open()
	f.Send(d.A.Handle, "1")
	end := f.Begin()
	f.OK(end.LockGroup(f.Ctx, d.A.Group))
	_, err := end.EndDialog(f.Ctx, backend.End{Handle: d.A.Handle, MessageID: backend.NewID()})
	f.OK(err)
	waiting := make(chan error, 1)
	go func() {
		waiting <- f.Try(func(tx backend.Tx) error {
			_, err := tx.Send(f.Ctx, f.Version, []backend.Outgoing{Message(d.A.Handle, "2")})
			return err
		})
	}()
	select {
	case err := <-waiting:
		t.Fatalf("the sender did not wait: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	f.OK(end.Commit(f.Ctx))
	var refused *backend.Refused
	if err := <-waiting; !errors.As(err, &refused) || refused.Refusals[0] != backend.RefusedEnded {
		t.Errorf("send: %v", err)
	}
	f.Equal("drained", f.Drain(f.QB), []string{"1", "<EndDialog>"})
}

// A conversation is over even if the guard of its other side is locked. The caller that ended it is
// told that the conversation has still to be removed.
func endBesideGuard(t *testing.T, fresh func(*testing.T) *interleaving) {
	f := fresh(t)
	d := f.Open()
	f.End(backend.End{Handle: d.A.Handle})
	f.Equal("drained", f.Drain(f.QB), []string{"<EndDialog>"})
	other := f.Begin()
	f.OK(other.TryStream(f.Ctx, d.A.Handle))
	done := f.End(backend.End{Handle: d.B.Handle})
	f.Equal("ended", done, backend.Ended{FarGone: true, FarEnded: true, Remains: true})
	f.Equal("state", f.endpoint(d.B.Handle).State, backend.Closed)
	n, next := f.Maintain(backend.JobClosed)
	f.Equal("removed", n, 0)
	if next <= 0 || next > time.Second {
		f.Errorf("what is locked is looked at again in %v, want a second at most", next)
	}
	f.OK(other.Commit(f.Ctx))
	n, next = f.Maintain(backend.JobClosed)
	f.Equal("removed", n, 1)
	f.Equal("look again", next, time.Duration(0))
}

// A promoter whose transaction is open holds up no settle, and keeps what he
// has promoted.
func settleBesidePromoter(t *testing.T, fresh func(*testing.T) *interleaving) {
	f := fresh(t)
	d := f.Open()
	f.Send(d.A.Handle, "1")
	promote := func(tx backend.Tx) error {
		return tx.Promote(f.Ctx, backend.Promotion{Group: d.B.Group, Level: 9})
	}
	f.Do(promote)
	r, h := f.receiving(f.QB)
	p := f.Begin()
	f.OK(promote(p))
	f.soon("settle", func(ctx context.Context) error {
		_, err := r.Settle(ctx, []backend.Outcome{{Hold: h, Done: h.Messages}})
		return errors.Join(err, r.Commit(ctx))
	})
	f.soon("commit", p.Commit)
	f.Send(d.A.Handle, "2")
	h = f.One(f.Request(f.QB))
	f.Equal("still promoted", h.Promoted, true)
	f.Ack(h)
	f.Send(d.A.Handle, "3")
	f.Equal("used up", f.One(f.Request(f.QB)).Promoted, false)
}

// A transaction that finds the token of a lease that has run out takes it away.
func transactionFencesLease(t *testing.T, fresh func(*testing.T) *interleaving) {
	f := fresh(t)
	d := f.Open()
	f.Send(d.A.Handle, "1")
	r := f.Request(f.QB)
	r.Lease = time.Millisecond
	stale := f.One(r)
	time.Sleep(20 * time.Millisecond)
	tx, h := f.receiving(f.QB)
	f.soon("settle", func(ctx context.Context) error {
		_, err := tx.Settle(ctx, []backend.Outcome{{Hold: h}}) // given back
		return errors.Join(err, tx.Commit(ctx))
	})
	f.Is(f.Try(func(tx backend.Tx) error {
		return tx.Reclaim(f.Ctx, []*backend.Hold{stale})
	}), backend.ErrFenced)
	f.Equal("drained", f.Drain(f.QB), []string{"1"})
}

// A lock that was taken before a savepoint survives the way back to it.
func holdSurvivesSavepoint(t *testing.T, fresh func(*testing.T) *interleaving) {
	f := fresh(t)
	d := f.Open()
	f.Send(d.A.Handle, "1")
	tx, h := f.receiving(f.QB)
	f.OK(tx.Savepoint(f.Ctx, "p"))
	_, err := tx.Settle(f.Ctx, []backend.Outcome{{Hold: h, Done: h.Messages}})
	f.OK(err)
	f.OK(tx.RollbackTo(f.Ctx, "p"))
	f.None(f.Request(f.QB))
	f.OK(tx.Rollback(f.Ctx))
	f.Equal("drained", f.Drain(f.QB), []string{"1"})
}

// What ranks first is in other hands, by lease and in a transaction, for much
// farther than a claim looks at first.
func claimBehindManyHeld(t *testing.T, fresh func(*testing.T) *interleaving) {
	f := fresh(t)
	var posts []backend.Posting
	for i := range 401 {
		posts = append(posts, f.Posting(backend.Posting{Key: fmt.Sprintf("%03d", i), Body: []byte(fmt.Sprint(i))}))
	}
	f.Do(func(tx backend.Tx) error { _, err := tx.Post(f.Ctx, f.Version, posts); return err })
	r := f.Request(f.QP)
	r.MaxGroups = 200
	f.Equal("held by lease", len(f.Claim(r).Holds), 200)
	tx := f.Begin()
	r.Lease = 0
	c, err := tx.Claim(f.Ctx, r)
	f.OK(err)
	f.Equal("held in a transaction", len(c.Holds), 200)
	for range 3 {
		h := f.One(f.Request(f.QP))
		f.Equal("the one behind them", h.Messages[0].Key, "400")
		f.Settle(backend.Outcome{Hold: h})
	}
	f.Ack(f.One(f.Request(f.QP)))
	f.Equal("contended", f.None(f.Request(f.QP)).Contended, true)
}

// Settling a batch waits for none of the rows that another receiver has locked, however
// few there are in all. A server may think that a small table is best read from end to
// end.
func settleBesideManyHeld(t *testing.T, fresh func(*testing.T) *interleaving) {
	for _, key := range []string{"", "%03d"} {
		f := fresh(t)
		for i := range 60 {
			p := backend.Posting{Body: []byte(fmt.Sprint(i))}
			if key != "" {
				p.Key = fmt.Sprintf(key, i)
			}
			f.Post(p)
		}
		r := f.Request(f.QP)
		r.MaxGroups, r.Lease = 30, 0
		claim := func() (backend.Tx, []backend.Outcome) {
			tx := f.Begin()
			c, err := tx.Claim(f.Ctx, r)
			f.OK(err)
			var done []backend.Outcome
			for _, h := range c.Holds {
				done = append(done, backend.Outcome{Hold: h, Done: h.Messages})
			}
			if len(done) < 20 {
				f.Fatalf("%d claimed of 30", len(done))
			}
			return tx, done
		}
		first, a := claim()
		second, b := claim()
		for _, x := range []struct {
			tx   backend.Tx
			done []backend.Outcome
		}{{second, b}, {first, a}} {
			f.soon("settle", func(ctx context.Context) error {
				_, err := x.tx.Settle(ctx, x.done)
				return err
			})
		}
		f.OK(first.Commit(f.Ctx))
		f.OK(second.Commit(f.Ctx))
		f.Equal("left", len(f.Drain(f.QP)), 60-len(a)-len(b))
	}
}
