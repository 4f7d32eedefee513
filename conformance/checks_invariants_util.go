package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/slow"
)

// invPatience bounds what must not wait for another transaction. A call that does wait
// in these checks would wait until their end, so it can be generous.
const invPatience = 15 * time.Second

// invPrompt ends the check if f waits.
func invPrompt(e *env, what string, f func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(e.Ctx, slow.By(invPatience))
	defer cancel()
	err := f(ctx)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		e.late()
		e.fail(fmt.Sprintf("%s: waited for more than %v (%v)", what, invPatience, err))
		runtime.Goexit()
	default:
		e.fail(what + ": " + err.Error())
		runtime.Goexit()
	}
}

// invWorld is a world in which nothing happens that the check does not do
// itself: background work may hold a group for a moment.
func invWorld(e *env, change ...func(*parley.Catalog)) *world {
	return e.WorldOn(e.Broker(&parley.Options{NoMaintenance: true, Poll: 100 * time.Millisecond}), change...)
}

// alone is invWorld for scripts.
func alone(e *env) *world { return invWorld(e) }

// invOther is the same world as another process sees it.
func invOther(w *world, o ...*parley.Options) *world {
	other := *w
	opt := &parley.Options{NoMaintenance: true, Poll: 100 * time.Millisecond}
	if len(o) > 0 {
		opt = o[0]
	}
	other.B = w.Broker(opt)
	return &other
}

// invWrote reports whether a key was recorded by a transaction that committed.
func invWrote(w *world, key string) (was bool) {
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
	*world
	be      backend.Backend
	version int64
	cq, sq  int64
}

func invUnder(w *world) *invBelow {
	s := &invBelow{world: w, be: w.Handle()}
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
	invPrompt(s.env, "commit", tx.Commit)
}

func (s *invBelow) rollback(tx backend.Tx) { s.Must(tx.Rollback(s.Ctx)) }

func (s *invBelow) maintain(job backend.Job) { maintain(s.env, s.be, job) }

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
	peer := dlgPeer(s.world, h)
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
	invPrompt(s.env, "send on a "+st.kind, func(ctx context.Context) error { return st.send(ctx, tx, body) })
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
	invPrompt(s.env, "claim", func(ctx context.Context) (err error) {
		c, err = tx.Claim(ctx, s.request(r))
		return err
	})
	if len(c.Holds) == 0 && c.Discarded > 0 {
		s.commit(tx) // what was for no receiver is gone
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
		invPrompt(h.s.env, "reclaim", func(ctx context.Context) error { return tx.Reclaim(ctx, []*backend.Hold{h.Hold}) })
	}
	o.Hold = h.Hold
	invPrompt(h.s.env, "settle", func(ctx context.Context) error {
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
