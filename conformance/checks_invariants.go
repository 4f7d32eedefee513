package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		Check{ID: "I1", Name: "a held group is received by nobody else", Run: checkInvOneReceiver},
		Check{ID: "I1", Name: "a group is free after every end of a hold", Run: checkInvHoldEnds},
		Check{ID: "I1", Name: "a claim of several groups has each of them once", Run: checkInvSeveralGroups},
		Check{ID: "I1", Name: "a lease keeps others out until it ends, and no longer", Run: checkInvLeaseEnds},
		Check{ID: "I1", Name: "a lease lasts as long as it is extended", Run: checkInvLeaseExtended},

		Check{ID: "I2", Name: "a sender does not wait for a receiver", Run: checkInvSenderFree},
		Check{ID: "I2", Name: "a receiver does not wait for a sender", Run: checkInvReceiverFree},
		Check{ID: "I2", Name: "writers of different streams do not wait for each other", Run: checkInvWritersFree},
		Check{ID: "I2", Name: "a receiver that replies does not wait for the other side", Run: checkInvBothSidesFree},

		Check{ID: "I3", Name: "each committed message is found at once by another process", Run: checkInvFoundAtOnce},
		Check{ID: "I3", Name: "a message is found after others were rolled back", Run: checkInvFoundAfterRollback},
		Check{ID: "I3", Name: "the message of a sender that stayed open for long is found", Run: checkInvFoundAfterLong},
		Check{ID: "I3", Name: "nothing is stranded under load", Run: func(e *Env) { runLoad(e, load{moves: true}) }, Limit: 2 * time.Minute},

		Check{ID: "I4", Name: "the order of a conversation outlives all that can happen to it", Run: checkInvOrderDialog},
		Check{ID: "I4", Name: "the order of a key outlives all that can happen to it", Run: checkInvOrderKey},
		Check{ID: "I4", Name: "a failed message is tried again before those behind it", Run: checkInvRetry},
		Check{ID: "I4", Name: "random histories go as the model says", Run: checkModel, Limit: 3 * time.Minute},
		Check{ID: "I4", Name: "the order holds under load", Run: func(e *Env) { runLoad(e, load{parks: true, promotes: true, moves: true}) }, Limit: 2 * time.Minute},

		Check{ID: "I5", Name: "verbs on a held group fail in time and leave the transaction usable", Run: checkInvBusy},
		Check{ID: "I5", Name: "a verb that waits for a group gets it when it is given back", Run: checkInvBusyUntil},
		Check{ID: "I5", Name: "a move during a send fails in time", Run: checkInvMoveBusy},
		Check{ID: "I5", Name: "groups taken in opposite orders do not deadlock", Run: checkInvOppositeGroups},
		Check{ID: "I5", Name: "streams written in opposite orders do not deadlock", Run: checkInvOppositeSenders},

		Check{ID: "I6", Name: "a write and its acknowledgement are one", Run: checkInvAtomic},
		Check{ID: "I6", Name: "a receiver whose lease is lost changes nothing", Run: checkInvStale},
		Check{ID: "I6", Name: "a process that dies before the commit leaves no write", Run: checkInvDeath},
	)
}

// invPatience bounds what must not wait for somebody else. Whoever does wait in
// these checks would wait until their end, so it can be generous.
const invPatience = 5 * time.Second

// invPrompt ends the check if f waits.
func invPrompt(e *Env, what string, f func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(e.Ctx, invPatience)
	defer cancel()
	err := f(ctx)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		e.fail(fmt.Sprintf("%s: waited for more than %v (%v)", what, invPatience, err))
		runtime.Goexit()
	default:
		e.fail(what + ": " + err.Error())
		runtime.Goexit()
	}
}

// invWorld is a world in which nothing happens that the check does not do
// itself: background work may hold a group for a moment.
func invWorld(e *Env, change ...func(*parley.Catalog)) *World {
	return e.WorldOn(e.Broker(&parley.Options{NoDuties: true, Poll: 100 * time.Millisecond}), change...)
}

// invOther is the same world as another process sees it.
func invOther(w *World, o ...*parley.Options) *World {
	other := *w
	opt := &parley.Options{NoDuties: true, Poll: 100 * time.Millisecond}
	if len(o) > 0 {
		opt = o[0]
	}
	other.B = w.Broker(opt)
	return &other
}

// invPeer returns the handle of the other side, which exists once the first
// message was sent. The group of a target is its handle until it is moved.
func invPeer(w *World, h parley.ID) (peer parley.ID) {
	w.Tx(func(tx *parley.Tx) error {
		ep, err := tx.Conversation(h).Status(w.Ctx)
		if err == nil {
			peer = ep.Peer
		}
		return err
	})
	return peer
}

// invWrote reports whether a key was recorded by a transaction that committed.
func invWrote(w *World, key string) (was bool) {
	undo := errors.New("only looking")
	err := w.B.InTx(w.Ctx, func(tx *parley.Tx) error {
		fresh, err := tx.Once(w.Ctx, key)
		was = !fresh
		if err != nil {
			return err
		}
		return undo
	})
	if !errors.Is(err, undo) {
		w.fail("look for the write: " + err.Error())
		runtime.Goexit()
	}
	return was
}

// invBelow works on the world from below, through package backend, where each
// lock can be taken and given back by itself.
type invBelow struct {
	*World
	be      backend.Backend
	version int64
	cq, sq  int64
}

func invUnder(w *World) *invBelow {
	s := &invBelow{World: w, be: w.Handle()}
	tx := s.begin()
	c, err := tx.Catalog(w.Ctx, false)
	w.Must(err)
	w.Must(tx.Rollback(w.Ctx))
	s.version = c.Version
	for _, q := range c.Queues {
		switch q.Name {
		case w.CQ:
			s.cq = q.ID
		case w.SQ:
			s.sq = q.ID
		}
	}
	return s
}

// begin starts a transaction that is rolled back at the end of the check if it
// is still open then.
func (s *invBelow) begin() backend.Tx {
	tx, err := s.be.Begin(s.Ctx)
	s.Must(err)
	s.Cleanup(func() { tx.Rollback(context.Background()) })
	return tx
}

func (s *invBelow) commit(tx backend.Tx) {
	invPrompt(s.Env, "commit", tx.Commit)
}

func (s *invBelow) rollback(tx backend.Tx) { s.Must(tx.Rollback(s.Ctx)) }

// tend does a duty until nothing of it is left.
func (s *invBelow) tend(duty backend.Duty) {
	for {
		n, _, err := s.be.Tend(s.Ctx, duty, 100)
		s.Must(err)
		if n < 100 {
			return
		}
	}
}

// invStream is something to send on: a conversation or a key of the queue SQ.
type invStream struct {
	kind   string
	handle parley.ID // of the sender; zero for a key
	peer   parley.ID
	send   func(ctx context.Context, tx backend.Tx, body string) error
}

// dialog begins a conversation whose first message has been sent and taken, so
// that both sides exist.
func (s *invBelow) dialog() *invStream {
	h := s.Dialog("first")
	peer := invPeer(s.World, h)
	d := s.Receive(s.SQ, &parley.ReceiveOptions{Conversation: peer})
	s.Must(d.Ack(s.Ctx))
	return &invStream{kind: "conversation", handle: h, peer: peer, send: func(ctx context.Context, tx backend.Tx, body string) error {
		_, err := tx.Send(ctx, s.version, []backend.Outgoing{{ID: backend.NewID(), From: h, Type: s.Any, Kind: backend.KindUser, Body: []byte(body)}})
		return err
	}}
}

func (s *invBelow) key(name string) *invStream {
	return &invStream{kind: "key", send: func(ctx context.Context, tx backend.Tx, body string) error {
		_, err := tx.Post(ctx, s.version, []backend.Posting{{ID: backend.NewID(), Queue: s.sq, Key: name, Rank: 5, Type: s.Any, Body: []byte(body)}})
		return err
	}}
}

// streams returns one of each kind.
func (s *invBelow) streams() []*invStream {
	return []*invStream{s.dialog(), s.key(parley.NewID().String())}
}

// send sends in an open transaction, which must not wait.
func (s *invBelow) send(tx backend.Tx, st *invStream, body string) {
	invPrompt(s.Env, "send on a "+st.kind, func(ctx context.Context) error { return st.send(ctx, tx, body) })
}

// sent sends and commits.
func (s *invBelow) sent(st *invStream, bodies ...string) {
	for _, body := range bodies {
		tx := s.begin()
		s.send(tx, st, body)
		s.commit(tx)
	}
}

// opened starts a transaction that sends and stays open.
func (s *invBelow) opened(st *invStream, body string) backend.Tx {
	tx := s.begin()
	s.send(tx, st, body)
	return tx
}

// ends a sender's transaction in the way named.
func (s *invBelow) ends(tx backend.Tx, how string) {
	if how == "commit" {
		s.commit(tx)
	} else {
		s.rollback(tx)
	}
}

// request fills in what a claim of the next group of SQ needs.
func (s *invBelow) request(r backend.ClaimRequest) backend.ClaimRequest {
	r.Version = s.version
	if r.Queue == 0 {
		r.Queue = s.sq
	}
	r.MaxGroups = max(r.MaxGroups, 1)
	if r.MaxMessages == 0 {
		r.MaxMessages = 100
	}
	r.MaxBytes, r.Owner = 1<<20, "conformance"
	return r
}

// invHeld is a group in hand.
type invHeld struct {
	s  *invBelow
	tx backend.Tx // that claimed it; nil for a lease
	*backend.Hold
}

// claim makes one try; nil if there is nothing.
func (s *invBelow) claim(hold parley.Hold, r backend.ClaimRequest) *invHeld {
	h, _ := s.claimed(hold, r)
	return h
}

func (s *invBelow) claimed(hold parley.Hold, r backend.ClaimRequest) (*invHeld, backend.Claim) {
	if hold == parley.HoldLease && r.Lease == 0 {
		r.Lease = time.Minute
	}
	tx := s.begin()
	var c backend.Claim
	invPrompt(s.Env, "claim", func(ctx context.Context) (err error) {
		c, err = tx.Claim(ctx, s.request(r))
		return err
	})
	if len(c.Holds) == 0 && c.Discarded > 0 {
		s.commit(tx) // what was for nobody is gone
		return nil, c
	}
	if len(c.Holds) == 0 {
		s.rollback(tx)
		return nil, c
	}
	if hold == parley.HoldLease {
		s.commit(tx)
		return &invHeld{s, nil, c.Holds[0]}, c
	}
	return &invHeld{s, tx, c.Holds[0]}, c
}

// found claims as a receiver does: while there is something in the way, it
// looks again. It ends the check if there is nothing.
func (s *invBelow) found(hold parley.Hold, what string) (h *invHeld) {
	s.Soon(invPatience, func() bool {
		var c backend.Claim
		h, c = s.claimed(hold, backend.ClaimRequest{})
		return h != nil || !c.Contended
	})
	if h == nil {
		s.fail(what + ": there is a committed message, and a claim does not find it")
		runtime.Goexit()
	}
	return h
}

// nothing ends the check if a claim finds something.
func (s *invBelow) nothing(r backend.ClaimRequest, what string) {
	for _, hold := range s.Holds() {
		if h := s.claim(hold, r); h != nil {
			s.fail(fmt.Sprintf("%s: a claim delivers %q of group %s", what, h.bodies(), h.Group))
			runtime.Goexit()
		}
	}
}

func (h *invHeld) bodies() []string {
	var all []string
	for _, m := range h.Messages {
		if m.Kind != backend.KindUser {
			all = append(all, m.Type)
			continue
		}
		all = append(all, string(m.Body))
	}
	return all
}

// want ends the check unless these messages were delivered.
func (h *invHeld) want(what string, bodies ...string) *invHeld {
	if got := h.bodies(); !slices.Equal(got, bodies) {
		h.s.fail(fmt.Sprintf("%s: delivered %q, want %q", what, got, bodies))
		runtime.Goexit()
	}
	return h
}

// try settles and returns the error, with the transaction open if there is one.
func (h *invHeld) try(tx backend.Tx, o backend.Outcome) error {
	o.Hold = h.Hold
	ctx, cancel := context.WithTimeout(h.s.Ctx, invPatience)
	defer cancel()
	_, err := tx.Settle(ctx, []backend.Outcome{o})
	return err
}

// settle settles and commits.
func (h *invHeld) settle(o backend.Outcome) {
	tx := h.tx
	if tx == nil {
		tx = h.s.begin()
		invPrompt(h.s.Env, "reclaim", func(ctx context.Context) error { return tx.Reclaim(ctx, []*backend.Hold{h.Hold}) })
	}
	o.Hold = h.Hold
	invPrompt(h.s.Env, "settle", func(ctx context.Context) error {
		_, err := tx.Settle(ctx, []backend.Outcome{o})
		return err
	})
	h.s.commit(tx)
}

func (h *invHeld) ack() { h.settle(backend.Outcome{Done: h.Messages}) }

// back gives everything back.
func (h *invHeld) back() {
	if h.tx != nil {
		h.s.rollback(h.tx)
		return
	}
	h.settle(backend.Outcome{})
}

// I1

// invHeldFromAll ends the check if somebody else can get at the group of d.
func invHeldFromAll(other *World, d *parley.Delivery, what string) {
	tries := map[string]*parley.ReceiveOptions{
		"the next group":    nil,
		"by lease":          {Hold: parley.HoldLease},
		"the group by name": {Group: d.Group},
	}
	if h := d.Messages[0].Conversation; !h.IsZero() {
		tries["the conversation by its handle"] = &parley.ReceiveOptions{Conversation: h}
	}
	for name, o := range tries {
		if got := other.TryReceive(other.SQ, o, 0); got != nil {
			other.fail(fmt.Sprintf("%s: another receiver that asks for %s gets %s", what, name, describe(got.Messages)))
			runtime.Goexit()
		}
	}
	err := other.B.InTx(other.Ctx, func(tx *parley.Tx) error {
		if g, err := tx.GetGroup(other.Ctx, other.SQ, nil); !errors.Is(err, parley.ErrNoMessage) {
			return fmt.Errorf("GetGroup of another transaction returns %s (%v)", g, err)
		}
		m, err := tx.Receive(other.Ctx, other.SQ, &parley.ReceiveOptions{Group: d.Group})
		if !errors.Is(err, parley.ErrNoMessage) {
			return fmt.Errorf("Receive of another transaction returns %s (%v)", describe(m), err)
		}
		return nil
	})
	if err != nil {
		other.fail(what + ": " + err.Error())
		runtime.Goexit()
	}
}

// invHolding has f called for each way of holding and each kind of group, with
// two messages of which the first is in hand.
func invHolding(e *Env, f func(w, other *World, hold parley.Hold, kind string, d *parley.Delivery)) {
	w := invWorld(e)
	other := invOther(w)
	for _, hold := range e.Holds() {
		for _, kind := range []string{"conversation", "key"} {
			if kind == "key" {
				for _, body := range []string{"m0", "m1"} {
					_, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Type: w.Any, Body: []byte(body)}, parley.Key("k"))
					e.Must(err)
				}
			} else {
				w.Dialog("m0", "m1")
			}
			d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1})
			if got := Bodies(d.Messages); !slices.Equal(got, []string{"m0"}) {
				e.Fatalf("%s: delivered %q, want m0", kind, got)
			}
			f(w, other, hold, kind, d)
			e.Must(d.Rollback(e.Ctx))
			w.Drain(w.SQ)
		}
	}
}

func invHoldName(h parley.Hold) string {
	if h == parley.HoldLease {
		return "held by lease"
	}
	return "held in a transaction"
}

func checkInvOneReceiver(e *Env) {
	invHolding(e, func(w, other *World, hold parley.Hold, kind string, d *parley.Delivery) {
		what := kind + " " + invHoldName(hold)
		invHeldFromAll(other, d, what)

		s := invUnder(other)
		tx := s.begin()
		if err := tx.LockGroup(e.Ctx, d.Group); !invBusy(e, err) {
			e.Fatalf("%s: LockGroup of another transaction returns %v, want ErrGroupBusy", what, err)
		}
		s.rollback(tx)
	})
}

// invBusy reports whether an error says that somebody else holds the group.
// Where waiting inside a transaction is futile it says so.
func invBusy(e *Env, err error) bool {
	return errors.Is(err, parley.ErrGroupBusy) || !e.HoldsInTransaction() && errors.Is(err, parley.ErrWouldDeadlock)
}

func checkInvHoldEnds(e *Env) {
	ends := []struct {
		name string
		end  func(b *parley.Broker, d *parley.Delivery) error
		next string // what is received then
	}{
		{"Rollback", func(_ *parley.Broker, d *parley.Delivery) error { return d.Rollback(e.Ctx) }, "m0"},
		{"Close", func(_ *parley.Broker, d *parley.Delivery) error { return d.Close() }, "m0"},
		{"the end of its process", func(b *parley.Broker, _ *parley.Delivery) error { return b.Close() }, "m0"},
		{"Ack", func(_ *parley.Broker, d *parley.Delivery) error { return d.Ack(e.Ctx) }, "m1"},
	}
	w := invWorld(e)
	for _, hold := range e.Holds() {
		for _, end := range ends {
			w.Dialog("m0", "m1")
			holder := invOther(w)
			d := holder.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1})
			e.Must(end.end(holder.B, d))
			got := w.TryReceive(w.SQ, nil, 0)
			if got == nil {
				e.Fatalf("%s: after %s nothing can be received", invHoldName(hold), end.name)
			}
			if first := string(got.Messages[0].Body); first != end.next {
				e.Fatalf("%s: after %s received %q, want %q first", invHoldName(hold), end.name, first, end.next)
			}
			e.Must(got.Ack(e.Ctx))
		}
	}
}

// checkInvSeveralGroups: a group with several streams stands in the order several
// times, and may yet be handed out once only.
func checkInvSeveralGroups(e *Env) {
	w := invWorld(e)
	s := invUnder(w)
	for _, hold := range e.Holds() {
		what := invHoldName(hold)
		var groups [2]parley.ID
		for g := range groups {
			groups[g] = parley.NewID()
			for range 3 {
				h := w.DialogWith(&parley.DialogOptions{RelatedGroup: groups[g]}, "hello")
				w.Send(invPeer(w, h), w.Tell, fmt.Sprint(g))
			}
		}
		for _, promoted := range []bool{false, true} {
			if promoted {
				e.Must(w.B.Promote(e.Ctx, groups[1]))
			}
			h, c := s.claimed(hold, backend.ClaimRequest{Queue: s.cq, MaxGroups: 10})
			if h == nil {
				e.Fatalf("%s: nothing to claim", what)
			}
			seen := map[parley.ID]bool{}
			for _, hold := range c.Holds {
				if seen[hold.Group] {
					e.Errorf("%s, promoted %t: a claim of ten groups has group %s twice", what, promoted, hold.Group)
				}
				seen[hold.Group] = true
				if len(hold.Messages) != 3 {
					e.Errorf("%s, promoted %t: a claim of ten groups has %d messages of a group with 3", what, promoted, len(hold.Messages))
				}
			}
			if promoted && c.Holds[0].Group != groups[1] {
				e.Errorf("%s: the promoted group is not the first of several", what)
			}
			tx := h.tx
			if tx == nil {
				tx = s.begin()
				e.Must(tx.Reclaim(e.Ctx, c.Holds))
			}
			var outcomes []backend.Outcome
			for _, hold := range c.Holds {
				outcomes = append(outcomes, backend.Outcome{Hold: hold})
				if promoted {
					outcomes[len(outcomes)-1].Done = hold.Messages
				}
			}
			if _, err := tx.Settle(e.Ctx, outcomes); err != nil {
				e.Fatalf("%s: settle of several groups: %v", what, err)
			}
			s.commit(tx)
		}
		w.Drain(w.CQ) // a claim may bring fewer groups than there are
		w.Drain(w.SQ)
	}
}

func checkInvLeaseEnds(e *Env) {
	s := invUnder(invWorld(e))
	for _, st := range s.streams() {
		s.sent(st, "m0")
		start := time.Now()
		const length = 400 * time.Millisecond
		h := s.claim(parley.HoldLease, backend.ClaimRequest{Lease: length})
		if h == nil {
			e.Fatalf("%s: nothing to claim", st.kind)
		}
		var again *invHeld
		if !e.Soon(10*time.Second, func() bool {
			again = s.claim(e.Holds()[0], backend.ClaimRequest{})
			return again != nil
		}) {
			e.Fatalf("%s: the lease ended %v ago, and the group is still nobody's", st.kind, time.Since(start)-length)
		}
		// The lease began after start, so this holds however slow the machine is.
		if took := time.Since(start); took < length-10*time.Millisecond {
			e.Fatalf("%s: another receiver got the group after %v, under a lease of %v", st.kind, took, length)
		}
		again.want(st.kind, "m0").ack()
		s.nothing(backend.ClaimRequest{}, st.kind+" after its only message was acknowledged")
	}
}

func checkInvLeaseExtended(e *Env) {
	w := invWorld(e)
	other := invOther(w)
	w.Dialog("m0")
	d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: parley.HoldLease, Lease: time.Second})
	for until := time.Now().Add(1500 * time.Millisecond); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if err := d.Context().Err(); err != nil {
			e.Fatalf("the lease was lost although it was extended: %v", context.Cause(d.Context()))
		}
		other.Nothing(w.SQ, nil)
	}
	e.Must(d.Ack(e.Ctx))

	// At the level of the store: extended from 300 ms to a minute.
	s := invUnder(w)
	st := s.dialog()
	s.sent(st, "m1")
	h := s.claim(parley.HoldLease, backend.ClaimRequest{Lease: 300 * time.Millisecond})
	if h == nil {
		e.Fatalf("nothing to claim")
	}
	if err := s.be.Extend(e.Ctx, []*backend.Hold{h.Hold}, time.Minute); err != nil {
		e.Fatalf("extend: %v", err)
	}
	time.Sleep(350 * time.Millisecond) // the store's clock must pass the first end
	s.nothing(backend.ClaimRequest{}, "under an extended lease")
	h.ack()
}

// I2

func checkInvSenderFree(e *Env) {
	w := invWorld(e)
	sender := invOther(w)
	for _, hold := range e.Holds() {
		what := " to a group " + invHoldName(hold)
		h := w.Dialog("m0")
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		if hold == parley.HoldTransaction { // and has written in its transaction
			tx, err := d.Tx(e.Ctx)
			e.Must(err)
			_, err = tx.Once(e.Ctx, e.Name("used"+what))
			e.Must(err)
		}
		for i := range 3 {
			invPrompt(e, "send"+what, func(ctx context.Context) error {
				return sender.B.InTx(ctx, func(tx *parley.Tx) error {
					return tx.Conversation(h).Send(ctx, w.Ask, fmt.Appendf(nil, "m%d", i+1))
				})
			})
		}
		e.Must(d.Ack(e.Ctx))
		if got := w.Take(w.SQ, nil); !slices.Equal(got, []string{"m1", "m2", "m3"}) {
			e.Fatalf("received %q of what was sent%s", got, what)
		}

		key := parley.Key("k" + what)
		post := func(ctx context.Context, body string) error {
			_, err := sender.B.Post(ctx, w.SQ, parley.Payload{Type: w.Any, Body: []byte(body)}, key)
			return err
		}
		e.Must(post(e.Ctx, "k0"))
		d = w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		invPrompt(e, "post with the key of a group"+what, func(ctx context.Context) error { return post(ctx, "k1") })
		e.Must(d.Ack(e.Ctx))
		if got := w.Take(w.SQ, nil); !slices.Equal(got, []string{"k1"}) {
			e.Fatalf("received %q of what was posted%s", got, what)
		}
	}
}

func checkInvReceiverFree(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("the store has a single writer")
	}
	s := invUnder(invWorld(e))
	for _, hold := range e.Holds() {
		for i, st := range s.streams() {
			what := fmt.Sprintf("%s, %s, with its sender open", st.kind, invHoldName(hold))
			s.sent(st, "m0")
			sender := s.opened(st, "m1")
			other := s.key(fmt.Sprintf("other %d %d", hold, i))
			s.sent(other, "x")

			// Both groups can be claimed, given back, deferred and settled.
			h := s.found(hold, what).want(what, "m0")
			x := s.found(hold, what).want(what, "x")
			s.nothing(backend.ClaimRequest{}, what+", both groups in hand")
			h.back()
			h = s.found(hold, what).want(what, "m0")
			x.ack()
			promoter := s.begin()
			invPrompt(e, "promote: "+what, func(ctx context.Context) error {
				return promoter.Promote(ctx, backend.Promotion{Group: h.Group, Level: 1})
			})
			s.commit(promoter)
			group := h.Group
			h.settle(backend.Outcome{Defer: time.Hour})
			s.nothing(backend.ClaimRequest{}, what+", deferred")
			invPrompt(e, "duties: "+what, func(ctx context.Context) error {
				_, _, err := s.be.Tend(ctx, backend.DutyMarkers, 100)
				return err
			})
			unparker := s.begin()
			invPrompt(e, "unpark: "+what, func(ctx context.Context) error { return unparker.Unpark(ctx, group) })
			s.commit(unparker)
			s.found(hold, what+", unparked").want(what, "m0").ack()
			s.nothing(backend.ClaimRequest{}, what+", all that is committed acknowledged")

			s.commit(sender)
			s.tend(backend.DutyDeferred)
			s.found(hold, what+", then committed").want(what, "m1").ack()
		}
	}
}

func checkInvWritersFree(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("the store has a single writer")
	}
	w := invWorld(e)
	s := invUnder(w)

	// Two conversations of one group at either end, two keys, and a post.
	group := parley.NewID()
	var out, in [2]parley.ID
	for i := range out {
		out[i] = w.DialogWith(&parley.DialogOptions{RelatedGroup: group}, "first")
		in[i] = invPeer(w, out[i])
	}
	w.Tx(func(tx *parley.Tx) error { return tx.Conversation(in[1]).Move(e.Ctx, in[0]) })
	w.Drain(w.SQ)
	stream := func(h parley.ID) *invStream {
		return &invStream{kind: "conversation", send: func(ctx context.Context, tx backend.Tx, body string) error {
			_, err := tx.Send(ctx, s.version, []backend.Outgoing{{ID: backend.NewID(), From: h, Type: w.Any, Kind: backend.KindUser, Body: []byte(body)}})
			return err
		}}
	}
	all := []*invStream{stream(out[0]), stream(out[1]), stream(in[0]), stream(in[1]), s.key("a"), s.key("b"), s.key(""), s.key("")}
	var open []backend.Tx
	for _, st := range all {
		open = append(open, s.opened(st, "x"))
	}
	for _, tx := range slices.Backward(open) {
		s.commit(tx)
	}
	if n := len(w.Drain(w.SQ)); n != 6 {
		e.Errorf("%d messages arrived at the target's queue, want 6", n)
	}
	if n := len(w.Drain(w.CQ)); n != 2 {
		e.Errorf("%d messages arrived at the initiator's queue, want 2", n)
	}

	// Beginning conversations waits for nobody either.
	invPrompt(e, "begin two conversations at once", func(ctx context.Context) error {
		return w.B.InTx(ctx, func(a *parley.Tx) error {
			ca, err := a.Begin(ctx, w.Client, w.Server, &parley.DialogOptions{Contract: w.Contract})
			if err != nil {
				return err
			}
			if err := ca.Send(ctx, w.Ask, []byte("a")); err != nil {
				return err
			}
			return invOther(w).B.InTx(ctx, func(b *parley.Tx) error {
				cb, err := b.Begin(ctx, w.Client, w.Server, &parley.DialogOptions{Contract: w.Contract})
				if err != nil {
					return err
				}
				return cb.Send(ctx, w.Ask, []byte("b"))
			})
		})
	})
	if n := len(w.Drain(w.SQ)); n != 2 {
		e.Errorf("%d first messages arrived, want 2", n)
	}
}

// checkInvBothSidesFree: each side holds its own group, replies in its
// transaction, and neither waits for the other.
func checkInvBothSidesFree(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("the store has a single writer")
	}
	w := invWorld(e)
	h := w.Dialog("ask 0")
	peer := invPeer(w, h)
	w.Send(peer, w.Tell, "tell 0")
	server, client := invOther(w), invOther(w)
	ds := server.Receive(w.SQ, &parley.ReceiveOptions{Hold: parley.HoldTransaction})
	dc := client.Receive(w.CQ, &parley.ReceiveOptions{Hold: parley.HoldTransaction})
	invPrompt(e, "reply of the target while the initiator's group is held", func(ctx context.Context) error {
		return ds.Messages[0].Reply(ctx, w.Tell, []byte("tell 1"))
	})
	invPrompt(e, "send of the initiator while the target's group is held", func(ctx context.Context) error {
		return dc.Messages[0].Reply(ctx, w.Ask, []byte("ask 1"))
	})
	invPrompt(e, "acknowledge", ds.Ack)
	invPrompt(e, "acknowledge", dc.Ack)
	if got := w.Take(w.SQ, nil); !slices.Equal(got, []string{"ask 1"}) {
		e.Errorf("the target received %q, want ask 1", got)
	}
	if got := w.Take(w.CQ, nil); !slices.Equal(got, []string{"tell 1"}) {
		e.Errorf("the initiator received %q, want tell 1", got)
	}
}

// I3

func checkInvFoundAtOnce(e *Env) {
	w := invWorld(e)
	receivers := []*World{invOther(w), invOther(w), w}
	h := w.Dialog()
	for i := range 30 {
		body := fmt.Sprint("m", i)
		switch i % 3 {
		case 0:
			w.Send(h, w.Ask, body)
		case 1:
			_, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Type: w.Any, Body: []byte(body)}, parley.Key("k"))
			e.Must(err)
		case 2:
			_, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Type: w.Any, Body: []byte(body)})
			e.Must(err)
		}
		r := receivers[i/3%len(receivers)]
		d := r.TryReceive(w.SQ, &parley.ReceiveOptions{Hold: e.Holds()[i%len(e.Holds())]}, 0)
		if d == nil {
			e.Fatalf("message %d was committed, and another process receives nothing", i)
		}
		if got := Bodies(d.Messages); !slices.Equal(got, []string{body}) {
			e.Fatalf("received %q, want %q", got, body)
		}
		e.Must(d.Ack(e.Ctx))
	}
}

func checkInvFoundAfterRollback(e *Env) {
	s := invUnder(invWorld(e))
	for _, st := range s.streams() {
		for i := range 3 {
			tx := s.opened(st, "undone")
			s.rollback(tx)
			s.nothing(backend.ClaimRequest{}, st.kind+" after a rolled back send")
			if i == 1 { // the duty finds what the rolled back send left, if anything
				s.tend(backend.DutyMarkers)
			}
			body := fmt.Sprint("m", i)
			s.sent(st, body)
			s.found(e.Holds()[0], st.kind+" after a rolled back send").want(st.kind, body).ack()
		}
		// A receiver that gave back what it had in hand.
		s.sent(st, "a", "b")
		for _, hold := range e.Holds() {
			s.found(hold, st.kind).want(st.kind, "a", "b").back()
		}
		s.found(e.Holds()[0], st.kind+" after it was given back").want(st.kind, "a", "b").ack()
	}
}

func checkInvFoundAfterLong(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("the store has a single writer")
	}
	s := invUnder(invWorld(e))
	slow, busy := s.dialog(), s.dialog()
	sender := s.opened(slow, "late")
	// Meanwhile the queue moves on: whoever remembers where the head of the
	// order was must not look only behind it.
	for until := time.Now().Add(2500 * time.Millisecond); time.Now().Before(until); {
		s.sent(busy, "x")
		s.found(e.Holds()[0], "busy conversation").want("busy conversation", "x").ack()
		time.Sleep(20 * time.Millisecond)
	}
	s.sent(busy, "y")
	s.commit(sender)
	var got []string
	for range 2 {
		d := s.Receive(s.SQ, nil)
		got = append(got, Bodies(d.Messages)...)
		e.Must(d.Ack(e.Ctx))
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"late", "y"}) {
		e.Errorf("received %q, want late and y", got)
	}
}

// I4

func checkInvOrderDialog(e *Env) {
	w := invWorld(e)
	var bodies []string
	for i := range 24 {
		bodies = append(bodies, fmt.Sprint("m", i))
	}
	for _, hold := range e.Holds() {
		h := w.Dialog(bodies...)
		peer := invPeer(w, h)
		invOrder(w, hold, bodies, func() {
			w.Tx(func(tx *parley.Tx) error { return tx.Conversation(peer).Move(e.Ctx, parley.NewID()) })
		})
	}
}

func checkInvOrderKey(e *Env) {
	w := invWorld(e)
	var bodies []string
	for i := range 24 {
		bodies = append(bodies, fmt.Sprint("m", i))
	}
	for _, hold := range e.Holds() {
		w.Tx(func(tx *parley.Tx) error {
			for _, body := range bodies {
				if _, err := tx.Post(e.Ctx, w.SQ, parley.Payload{Type: w.Any, Body: []byte(body)}, parley.Key("k")); err != nil {
					return err
				}
			}
			return nil
		})
		invOrder(w, hold, bodies, func() {})
	}
}

// invOrder takes messages of the only group of SQ piece by piece, and after
// each piece does to the group what could bring them out of order.
func invOrder(w *World, hold parley.Hold, want []string, move func()) {
	e := w.Env
	var got []string
	receive := func(w *World, n int) *parley.Delivery {
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: n})
		bodies := Bodies(d.Messages)
		if left := want[len(got):]; !slices.Equal(bodies, left[:min(n, len(left))]) {
			w.fail(fmt.Sprintf("%s: after %d messages came %q, want %q", invHoldName(hold), len(got), bodies, left[:min(n, len(left))]))
			runtime.Goexit()
		}
		return d
	}
	take := func(n int) {
		d := receive(w, n)
		got = append(got, Bodies(d.Messages)...)
		e.Must(d.Ack(e.Ctx))
	}
	trials := []struct {
		name string
		do   func()
	}{
		{"rollback", func() { e.Must(receive(w, 3).Rollback(e.Ctx)) }},
		{"rollback of a batch after a write", func() {
			d := receive(w, 5)
			tx, err := d.Tx(e.Ctx)
			e.Must(err)
			_, err = tx.Once(e.Ctx, e.Name("write"))
			e.Must(err)
			e.Must(d.Rollback(e.Ctx))
		}},
		{"death of the receiver", func() {
			dead := invOther(w)
			receive(dead, 2)
			e.Must(dead.B.Close())
		}},
		{"promotion", func() {
			d := receive(w, 1)
			e.Must(invOther(w).B.Promote(e.Ctx, d.Group))
			e.Must(d.Rollback(e.Ctx))
		}},
		{"move", move},
		{"deferral", func() { e.Must(receive(w, 2).Defer(e.Ctx, 30*time.Millisecond)) }},
		{"parking", func() {
			d := receive(w, 2)
			e.Must(d.Park(e.Ctx, errors.New("a check")))
			w.Nothing(w.SQ, nil)
			e.Must(w.B.Unpark(e.Ctx, d.Group))
		}},
		{"parking and move", func() {
			d := receive(w, 2)
			e.Must(d.Park(e.Ctx, errors.New("a check")))
			move()
			w.B.Unpark(e.Ctx, d.Group) // it may have gone with the move
		}},
		{"return and more", func() {
			d := receive(w, 2)
			e.Must(d.Return(e.Ctx))
			more, err := d.More(e.Ctx, 3)
			e.Must(err)
			if left := want[len(got):]; !slices.Equal(Bodies(more), left[:3]) {
				e.Fatalf("%s: returned, and then came %q, want %q", invHoldName(hold), Bodies(more), left[:3])
			}
			got = append(got, Bodies(more)...)
			e.Must(d.Ack(e.Ctx))
		}},
		{"received in a transaction that rolled back", func() {
			undo := errors.New("undo")
			err := w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
				if _, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{MaxMessages: 2}); err != nil {
					return err
				}
				return undo
			})
			e.Is(err, undo)
		}},
	}
	for i, t := range trials {
		t.do()
		before := len(got)
		take(1 + i%2)
		if !slices.Equal(got, want[:len(got)]) {
			e.Fatalf("%s, after %s: received %q", invHoldName(hold), t.name, got[before:])
		}
	}
	for len(got) < len(want) {
		take(4)
	}
	w.Nothing(w.SQ, nil)
}

// checkInvRetry: what is known of a failed message is kept with it, and changes
// neither its place nor that of those behind it.
func checkInvRetry(e *Env) {
	s := invUnder(invWorld(e))
	for _, hold := range e.Holds() {
		for _, st := range s.streams() {
			what := st.kind + " " + invHoldName(hold)
			s.sent(st, "m0", "m1", "m2")
			for i := range 4 {
				h := s.found(hold, what).want(what, "m0", "m1", "m2")
				for k, m := range h.Messages {
					attempts, text := 0, ""
					if k == 0 && i > 0 {
						attempts, text = i, fmt.Sprint("failure ", i)
					}
					if m.Attempts != attempts || m.LastError != text {
						e.Errorf("%s: message %d after %d failed attempts says %d and %q", what, k, i, m.Attempts, m.LastError)
					}
				}
				h.settle(backend.Outcome{Failure: &backend.Failure{Message: h.Messages[0], Attempts: i + 1, Error: fmt.Sprint("failure ", i+1)}, Defer: time.Duration(i%2) * 20 * time.Millisecond})
				s.tend(backend.DutyMarkers)
				if i%2 == 1 && !e.Soon(10*time.Second, func() bool {
					s.tend(backend.DutyDeferred)
					h := s.claim(hold, backend.ClaimRequest{})
					if h == nil {
						return false
					}
					h.back()
					return true
				}) {
					e.Fatalf("%s: the deferral does not end", what)
				}
			}
			for _, body := range []string{"m0", "m1", "m2"} {
				h := s.found(hold, what)
				if got := h.bodies()[0]; got != body {
					e.Errorf("%s: one by one, %q comes in place of %q", what, got, body)
				}
				h.settle(backend.Outcome{Done: h.Messages[:1]})
			}
		}
	}
}

// I5

func checkInvBusy(e *Env) {
	w := invWorld(e)
	const wait = 150 * time.Millisecond
	other := invOther(w, &parley.Options{GroupWait: wait, NoDuties: true})
	for _, hold := range e.Holds() {
		h := w.Dialog("m0")
		peer := invPeer(w, h)
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		free := w.Dialog("free")
		freePeer := invPeer(w, free)
		verbs := []struct {
			name string
			do   func(tx *parley.Tx) error
		}{
			{"End", func(tx *parley.Tx) error { return tx.Conversation(peer).End(e.Ctx) }},
			{"EndWithError", func(tx *parley.Tx) error { return tx.Conversation(peer).EndWithError(e.Ctx, 1, "x") }},
			{"Cleanup", func(tx *parley.Tx) error { return tx.Conversation(peer).Cleanup(e.Ctx) }},
			{"Move out of it", func(tx *parley.Tx) error { return tx.Conversation(peer).Move(e.Ctx, parley.NewID()) }},
			{"Move into it", func(tx *parley.Tx) error { return tx.Conversation(freePeer).Move(e.Ctx, d.Group) }},
			{"Begin related to its conversation", func(tx *parley.Tx) error {
				_, err := tx.Begin(e.Ctx, w.Server, w.Client, &parley.DialogOptions{Contract: w.Contract, RelatedConversation: peer})
				return err
			}},
			{"Begin in it", func(tx *parley.Tx) error {
				_, err := tx.Begin(e.Ctx, w.Server, w.Client, &parley.DialogOptions{Contract: w.Contract, RelatedGroup: d.Group})
				return err
			}},
		}
		for _, v := range verbs {
			what := v.name + " on a group " + invHoldName(hold)
			key := e.Name(what)
			err := other.B.InTx(e.Ctx, func(tx *parley.Tx) error {
				start := time.Now()
				err := v.do(tx)
				took := time.Since(start)
				if !invBusy(e, err) {
					e.Errorf("%s returns %v, want ErrGroupBusy", what, err)
				}
				if took > wait+invPatience || e.HoldsInTransaction() && took < wait/2 {
					e.Errorf("%s fails after %v, with a wait of %v", what, took, wait)
				}
				if _, err := tx.Once(e.Ctx, key); err != nil {
					return err
				}
				return tx.Conversation(free).Send(e.Ctx, w.Ask, []byte(v.name))
			})
			if err != nil {
				e.Fatalf("%s: the transaction cannot be used afterwards: %v", what, err)
			}
			if !invWrote(other, key) {
				e.Errorf("%s: what was written afterwards is gone", what)
			}
		}
		if err := other.B.Unpark(e.Ctx, d.Group); !invBusy(e, err) {
			e.Errorf("Unpark of a group %s returns %v, want ErrGroupBusy", invHoldName(hold), err)
		}
		e.Must(d.Ack(e.Ctx))
		want := []string{"free"}
		for _, v := range verbs {
			want = append(want, v.name)
		}
		if got := w.Take(w.SQ, nil); !slices.Equal(got, want) {
			e.Errorf("%s: the other conversation brought %q, want %q", invHoldName(hold), got, want)
		}
		// None of the verbs has done anything.
		w.Tx(func(tx *parley.Tx) error {
			for _, conv := range []parley.ID{peer, freePeer} {
				ep, err := tx.Conversation(conv).Status(e.Ctx)
				if err != nil {
					return err
				}
				if ep.State != parley.Conversing || ep.Group != conv {
					e.Errorf("%s: a verb that failed left state %s and group %s, want %s and %s", invHoldName(hold), ep.State, ep.Group, parley.Conversing, conv)
				}
			}
			return nil
		})
		w.Nothing(w.SQ, nil)
		w.Nothing(w.CQ, nil)
	}
}

func checkInvBusyUntil(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("the store has a single writer")
	}
	w := invWorld(e)
	other := invOther(w, &parley.Options{GroupWait: 20 * time.Second, NoDuties: true})
	for _, hold := range e.Holds() {
		peer := invPeer(w, w.Dialog("m0"))
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		acked := make(chan error, 1)
		err := other.B.InTx(e.Ctx, func(tx *parley.Tx) error {
			time.AfterFunc(100*time.Millisecond, func() { acked <- d.Ack(e.Ctx) })
			return tx.Conversation(peer).End(e.Ctx)
		})
		e.Must(<-acked)
		if err != nil {
			e.Fatalf("End, with the group %s given back after 100 ms: %v", invHoldName(hold), err)
		}
	}
}

func checkInvMoveBusy(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("the store has a single writer")
	}
	w := invWorld(e)
	s := invUnder(w)
	st := s.dialog()
	sender := s.opened(st, "m1")
	mover := invOther(w, &parley.Options{GroupWait: 150 * time.Millisecond, NoDuties: true})
	to := parley.NewID()
	invPrompt(e, "move of a conversation that its peer writes to", func(ctx context.Context) error {
		return mover.B.InTx(ctx, func(tx *parley.Tx) error {
			if err := tx.Conversation(st.peer).Move(ctx, to); !errors.Is(err, parley.ErrGroupBusy) {
				e.Errorf("Move while the peer is sending returns %v, want ErrGroupBusy", err)
			}
			// The groups were given back: the receiver is not shut out.
			s.sent(s.key("other"), "x")
			s.found(e.Holds()[0], "another group").ack()
			_, err := tx.Once(ctx, e.Name("after"))
			return err
		})
	})
	if !invWrote(w, e.Name("after")) {
		e.Errorf("what was written after the failed move is gone")
	}
	s.commit(sender)
	h := s.found(e.Holds()[0], "message sent during a failed move").want("message", "m1")
	if h.Group != st.peer {
		e.Errorf("the failed move left the conversation in group %s", h.Group)
	}
	h.ack()
	w.Tx(func(tx *parley.Tx) error { return tx.Conversation(st.peer).Move(e.Ctx, to) })
	s.sent(st, "m2")
	if h := s.found(e.Holds()[0], "message after the move").want("message", "m2"); h.Group != to {
		e.Errorf("after the move the message came in group %s, want %s", h.Group, to)
	}
}

// invMeet lets n transactions take their first locks before any takes its
// second.
func invMeet(ctx context.Context, n int) func() {
	var mu sync.Mutex
	met := make(chan struct{})
	return func() {
		mu.Lock()
		if n--; n == 0 {
			close(met)
		}
		mu.Unlock()
		select {
		case <-met:
		case <-ctx.Done():
		}
	}
}

func checkInvOppositeGroups(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("the store has a single writer")
	}
	w := invWorld(e)
	conv := []parley.ID{invPeer(w, w.Dialog("a")), invPeer(w, w.Dialog("b"))}
	w.Drain(w.SQ)
	errs := make([]error, 2)
	meet := invMeet(e.Ctx, 2)
	var wg sync.WaitGroup
	for i := range errs {
		b := invOther(w, &parley.Options{GroupWait: time.Duration(200+300*i) * time.Millisecond, NoDuties: true}).B
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(e.Ctx, 30*time.Second)
			defer cancel()
			errs[i] = b.InTx(ctx, func(tx *parley.Tx) error {
				err := tx.Conversation(conv[i]).End(ctx)
				meet()
				if err != nil {
					return err
				}
				return tx.Conversation(conv[1-i]).End(ctx)
			})
		})
	}
	wg.Wait()
	if errs[0] == nil && errs[1] == nil {
		e.Fatalf("both transactions ended both conversations")
	}
	for i, err := range errs {
		if err != nil && !parley.IsRetryable(err) {
			e.Errorf("transaction %d failed with %v, want one that is retryable", i, err)
		}
	}
	if errs[0] != nil && errs[1] != nil { // alone it works
		w.Tx(func(tx *parley.Tx) error {
			return errors.Join(tx.Conversation(conv[0]).End(e.Ctx), tx.Conversation(conv[1]).End(e.Ctx))
		})
	}
	if got := w.Drain(w.CQ); len(got) != 2 || got[0].Type != parley.EndDialog || got[1].Type != parley.EndDialog {
		e.Errorf("the other sides received %s, want two EndDialog", describe(got))
	}
}

func checkInvOppositeSenders(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("the store has a single writer")
	}
	w := invWorld(e)
	conv := []parley.ID{w.Dialog("a"), w.Dialog("b")}
	w.Drain(w.SQ)
	errs := make([]error, 2)
	meet := invMeet(e.Ctx, 2)
	send := func(ctx context.Context, b *parley.Broker, i int, between func()) error {
		return b.InTx(ctx, func(tx *parley.Tx) error {
			err := tx.Conversation(conv[i]).Send(ctx, w.Ask, fmt.Appendf(nil, "%d first", i))
			between()
			if err != nil {
				return err
			}
			return tx.Conversation(conv[1-i]).Send(ctx, w.Ask, fmt.Appendf(nil, "%d second", i))
		})
	}
	var wg sync.WaitGroup
	for i := range errs {
		b := invOther(w).B
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(e.Ctx, 55*time.Second)
			defer cancel()
			errs[i] = send(ctx, b, i, meet)
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err == nil {
			continue
		}
		if !parley.IsRetryable(err) {
			e.Errorf("sender %d failed with %v, want one that is retryable", i, err)
		}
		e.Must(send(e.Ctx, w.B, i, func() {}))
	}
	got := Bodies(w.Drain(w.SQ))
	slices.Sort(got)
	if want := []string{"0 first", "0 second", "1 first", "1 second"}; !slices.Equal(got, want) {
		e.Errorf("received %q, want %q: the transaction that gave way was run again", got, want)
	}
}

// I6

func checkInvAtomic(e *Env) {
	invHolding(e, func(w, _ *World, hold parley.Hold, kind string, d *parley.Delivery) {
		o := &parley.ReceiveOptions{Hold: hold, MaxMessages: 1}
		ends := []struct {
			name string
			end  func(d *parley.Delivery) error
			keep bool
			next string
		}{
			{"Rollback", func(d *parley.Delivery) error { return d.Rollback(e.Ctx) }, false, "m0"},
			{"Defer", func(d *parley.Delivery) error { return d.Defer(e.Ctx, 20*time.Millisecond) }, false, "m0"},
			{"Park", func(d *parley.Delivery) error {
				defer func() { e.Must(w.B.Unpark(e.Ctx, d.Group)) }()
				return d.Park(e.Ctx, errors.New("a check"))
			}, false, "m0"},
			{"Ack", func(d *parley.Delivery) error { return d.Ack(e.Ctx) }, true, "m1"},
		}
		for _, end := range ends {
			what := fmt.Sprintf("%s %s, %s", kind, invHoldName(hold), end.name)
			key := e.Name(what)
			tx, err := d.Tx(e.Ctx)
			e.Must(err)
			fresh, err := tx.Once(e.Ctx, key)
			e.Must(err)
			if !fresh {
				e.Errorf("%s: Once says that a new key is known", what)
			}
			if h := d.Messages[0].Conversation; !h.IsZero() {
				e.Must(d.Messages[0].Reply(e.Ctx, w.Tell, []byte(end.name)))
			}
			e.Must(end.end(d))
			if invWrote(w, key) != end.keep {
				e.Errorf("%s: the receiver's write is there: %t, want %t", what, !end.keep, end.keep)
			}
			replies := Bodies(w.Drain(w.CQ))
			if want := map[bool]int{true: 1}[end.keep && kind == "conversation"]; len(replies) != want {
				e.Errorf("%s: %d replies were sent, want %d", what, len(replies), want)
			}
			d = w.Receive(w.SQ, o)
			if got := Bodies(d.Messages); !slices.Equal(got, []string{end.next}) {
				e.Errorf("%s: then received %q, want %s", what, got, end.next)
			}
		}
		e.Must(d.Rollback(e.Ctx))
	})
}

func checkInvStale(e *Env) {
	w := invWorld(e)
	s := invUnder(w)
	for _, successor := range e.Holds() {
		for _, st := range s.streams() {
			what := fmt.Sprintf("%s that another receiver got, %s", st.kind, invHoldName(successor))
			s.sent(st, "m0", "m1")
			stale := s.claim(parley.HoldLease, backend.ClaimRequest{Lease: 100 * time.Millisecond})
			if stale == nil {
				e.Fatalf("%s: nothing to claim", what)
			}
			var now *invHeld
			if !e.Soon(10*time.Second, func() bool {
				now = s.claim(successor, backend.ClaimRequest{MaxMessages: 1})
				return now != nil
			}) {
				e.Fatalf("%s: the lease does not end", what)
			}
			now.want(what, "m0")
			if now.Fence != 0 && now.Fence <= stale.Fence {
				e.Errorf("%s: the fence is %d, after %d", what, now.Fence, stale.Fence)
			}

			// At each point of the successor's life the stale receiver fails.
			fenced := func(when string) {
				key := e.Name(what + when)
				if err := s.be.Extend(e.Ctx, []*backend.Hold{stale.Hold}, time.Minute); !errors.Is(err, backend.ErrFenced) {
					e.Errorf("%s: %s: Extend under the old fence returns %v, want ErrFenced", what, when, err)
				}
				tx := s.begin()
				defer s.rollback(tx)
				_, err := tx.Once(e.Ctx, key)
				e.Must(err)
				if err := tx.Reclaim(e.Ctx, []*backend.Hold{stale.Hold}); !errors.Is(err, backend.ErrFenced) {
					e.Errorf("%s: %s: Reclaim under the old fence returns %v, want ErrFenced", what, when, err)
				}
				s.rollback(tx)
				tx = s.begin()
				defer s.rollback(tx)
				_, err = tx.Once(e.Ctx, key)
				e.Must(err)
				if err := stale.try(tx, backend.Outcome{Done: stale.Messages}); !errors.Is(err, backend.ErrFenced) {
					e.Errorf("%s: %s: Settle under the old fence returns %v, want ErrFenced", what, when, err)
				}
				s.rollback(tx)
				if invWrote(w, key) {
					e.Errorf("%s: %s: the stale receiver's write is there", what, when)
				}
			}
			fenced("while it is held")
			now.ack()
			fenced("when it was acknowledged")
			now = s.found(successor, what+": the second message").want(what, "m1")
			fenced("while the next message is held")
			now.ack()
			s.nothing(backend.ClaimRequest{}, what+": all acknowledged")
		}
	}
}

func checkInvDeath(e *Env) {
	w := invWorld(e)
	for _, hold := range e.Holds() {
		w.Dialog("m0")
		key := e.Name("write " + invHoldName(hold))
		dead := invOther(w)
		d := dead.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, Lease: time.Second})
		tx, err := d.Tx(e.Ctx)
		e.Must(err)
		_, err = tx.Once(e.Ctx, key)
		e.Must(err)
		e.Must(dead.B.Close())
		if invWrote(w, key) {
			e.Errorf("%s: the process ended before its commit, and its write is there", invHoldName(hold))
		}
		if err := d.Ack(e.Ctx); err == nil {
			e.Errorf("%s: the broker was closed, and Ack reports success", invHoldName(hold))
		}
		if got := w.Take(w.SQ, nil); !slices.Equal(got, []string{"m0"}) {
			e.Errorf("%s: then received %q, want m0", invHoldName(hold), got)
		}
	}
	// A crash of the connection under a transaction's hold, without a chance to
	// tidy up.
	if !e.HoldsInTransaction() {
		return
	}
	w.Dialog("m1")
	s := invUnder(w)
	h := s.found(parley.HoldTransaction, "conversation")
	key := e.Name("write of a lost connection")
	_, err := h.tx.Once(e.Ctx, key)
	e.Must(err)
	e.Must(h.try(h.tx, backend.Outcome{Done: h.Messages}))
	e.Must(s.be.Close())
	if invWrote(w, key) {
		e.Errorf("the write of a connection that was lost before the commit is there")
	}
	if got := strings.Join(w.Take(w.SQ, nil), ","); got != "m1" {
		e.Errorf("then received %q, want m1", got)
	}
}
