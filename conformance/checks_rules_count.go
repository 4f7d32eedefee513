package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		check{ID: "RA", Name: "a settle of a message that is not there fails and changes nothing", Run: checkRuleCount},
		check{ID: "RA", Name: "a settle after the messages went with their conversation fails", Run: checkRuleCountEnded},
		check{ID: "RA", Name: "a group that was chosen before others emptied it is looked at anew", Run: checkRuleChosenEmptied},
		check{ID: "RA", Name: "a transaction that looked earlier does not see what was consumed since", Run: checkRuleOldSnapshot},
		check{ID: "RA", Name: "many receivers of one group get each message once", Run: checkRuleRace},
	)
}

func checkRuleCount(e *env) {
	w := invWorld(e)
	s := invUnder(w)
	for _, hold := range e.Holds() {
		for _, st := range s.streams() {
			what := st.kind + " " + invHoldName(hold)
			s.sent(st, "m0", "m1")
			h := s.found(hold, what).want(what, "m0", "m1")

			// A message that never existed, beside an existing message.
			wrong := *h.Messages[1]
			wrong.ID, wrong.Seq = parley.NewID(), wrong.Seq+1000
			key := e.Name(what)
			tx := h.tx
			if tx == nil {
				tx = s.begin()
				e.Must(tx.Reclaim(e.Ctx, []*backend.Hold{h.Hold}))
			}
			_, err := tx.Once(e.Ctx, key, time.Hour)
			e.Must(err)
			err = h.try(tx, backend.Outcome{Done: []*backend.Message{h.Messages[0], &wrong}})
			if !errors.Is(err, backend.ErrFenced) {
				e.Fatalf("%s: Settle of a message that is not there returns %v, want ErrFenced", what, err)
			}
			s.rollback(tx)
			if invWrote(w, key) {
				e.Errorf("%s: the write beside a settle that failed is there", what)
			}
			if hold == parley.HoldLease {
				h.settle(backend.Outcome{})
			}

			// All is as before; and what has been settled cannot be settled again.
			h = s.found(hold, what+" after a settle that failed").want(what, "m0", "m1")
			h.settle(backend.Outcome{Done: h.Messages[:1]})
			tx = s.begin()
			_, err = tx.Once(e.Ctx, key, time.Hour)
			e.Must(err)
			if hold == parley.HoldLease {
				if err := tx.Reclaim(e.Ctx, []*backend.Hold{h.Hold}); !errors.Is(err, backend.ErrFenced) {
					e.Errorf("%s: Reclaim of a settled hold returns %v, want ErrFenced", what, err)
				}
			}
			if err := h.try(tx, backend.Outcome{Done: h.Messages}); !errors.Is(err, backend.ErrFenced) {
				e.Errorf("%s: a second Settle of the same messages returns %v, want ErrFenced", what, err)
			}
			s.rollback(tx)
			if invWrote(w, key) {
				e.Errorf("%s: the write beside a second settle is there", what)
			}
			s.found(hold, what).want(what, "m1").ack()
			s.nothing(backend.ClaimRequest{}, what+", all acknowledged")
		}
	}
}

// checkRuleCountEnded: a receiver by lease ends the conversation in one
// transaction, which removes its messages, and settles them in another.
func checkRuleCountEnded(e *env) {
	w := invWorld(e)
	s := invUnder(w)
	st := s.dialog()
	s.sent(st, "m0", "m1")
	h := s.claim(parley.HoldLease, backend.ClaimRequest{})
	if h == nil {
		e.Fatalf("nothing to claim")
	}
	tx := s.begin()
	e.Must(tx.Reclaim(e.Ctx, []*backend.Hold{h.Hold}))
	_, err := tx.EndDialog(e.Ctx, backend.End{Handle: st.peer, MessageID: backend.NewID(), Keep: time.Hour})
	e.Must(err)
	s.commit(tx)

	key := e.Name("write")
	tx = s.begin()
	_, err = tx.Once(e.Ctx, key, time.Hour)
	e.Must(err)
	if err = tx.Reclaim(e.Ctx, []*backend.Hold{h.Hold}); err == nil {
		err = h.try(tx, backend.Outcome{Done: h.Messages})
	}
	if !errors.Is(err, backend.ErrFenced) {
		e.Fatalf("the settle of messages that went with their conversation returns %v, want ErrFenced", err)
	}
	s.rollback(tx)
	if invWrote(w, key) {
		e.Errorf("the write beside a settle that failed is there")
	}
}

func checkRuleChosenEmptied(e *env) {
	w := invWorld(e)
	other := invOther(w)
	for _, hold := range e.Holds() {
		w.Dialog("chosen 0", "chosen 1")
		w.Dialog("next")
		asked := 0
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, Choose: func(_ context.Context, groups iter.Seq[parley.GroupStatus]) (parley.ID, bool) {
			asked++
			if asked > 1 {
				return parley.ID{}, false
			}
			first, ok := grpFirst(groups)
			if !ok {
				e.Errorf("the chooser is shown no group")
				return parley.ID{}, false
			}
			if got := other.Take(w.SQ, &parley.ReceiveOptions{Group: first}); len(got) != 2 {
				e.Errorf("another receiver of the first group gets %q", got)
			}
			return first, true
		}})
		if got := bodiesOf(d.Messages); !slices.Equal(got, []string{"next"}) {
			e.Errorf("%s: chose a group that another receiver then emptied, and received %q, want next", invHoldName(hold), got)
		}
		e.Must(d.Ack(e.Ctx))

		// The same with a part: what is left is delivered.
		w.Dialog("a", "b", "c")
		d = w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, Choose: func(_ context.Context, groups iter.Seq[parley.GroupStatus]) (parley.ID, bool) {
			first, _ := grpFirst(groups)
			other.Take(w.SQ, &parley.ReceiveOptions{Group: first, MaxMessages: 2})
			return first, true
		}})
		if got := bodiesOf(d.Messages); !slices.Equal(got, []string{"c"}) {
			e.Errorf("%s: chose a group of which another receiver then took a and b, and received %q, want c", invHoldName(hold), got)
		}
		e.Must(d.Ack(e.Ctx))
	}
}

// grpFirst returns the first group that a chooser is shown.
func grpFirst(groups iter.Seq[parley.GroupStatus]) (parley.ID, bool) {
	for g := range groups {
		return g.Group, true
	}
	return parley.ID{}, false
}

// looked starts a transaction that has looked at the queue and at a
// conversation: whatever it reads by a snapshot, it has it now.
func (s *invBelow) looked(st *invStream) backend.Tx {
	tx := s.begin()
	_, err := tx.Catalog(s.Ctx, false)
	s.Must(err)
	if !st.handle.IsZero() {
		_, err = tx.Endpoint(s.Ctx, st.peer)
		s.Must(err)
	}
	return tx
}

// claimIn claims in a transaction that is open already.
func (s *invBelow) claimIn(tx backend.Tx, r backend.ClaimRequest) *invHeld {
	var c backend.Claim
	invPrompt(s.env, "claim", func(ctx context.Context) (err error) {
		c, err = tx.Claim(ctx, s.request(r))
		return err
	})
	if len(c.Holds) == 0 {
		return nil
	}
	return &invHeld{s, tx, c.Holds[0]}
}

func checkRuleOldSnapshot(e *env) {
	if !e.ManyWriters() {
		e.Skipf("the store has a single writer")
	}
	s := invUnder(invWorld(e))
	for _, st := range s.streams() {
		s.sent(st, "m0", "m1")
		early := s.looked(st)
		h := s.found(parley.HoldTransaction, st.kind)
		h.settle(backend.Outcome{Done: h.Messages[:1]})
		got := s.claimIn(early, backend.ClaimRequest{})
		if got == nil {
			e.Fatalf("%s: a transaction that began before the last settle finds nothing", st.kind)
		}
		got.want(st.kind+": a transaction that began before m0 was acknowledged", "m1").ack()
		s.nothing(backend.ClaimRequest{}, st.kind+", all acknowledged")

		// And it finds what was sent since it looked.
		early = s.looked(st)
		s.sent(st, "m2")
		got = s.claimIn(early, backend.ClaimRequest{})
		if got == nil {
			e.Fatalf("%s: a transaction that began before a send does not find its message", st.kind)
		}
		got.want(st.kind, "m2").ack()
	}
}

// checkRuleRace: receivers take the messages of one group in a race. A store that
// reads without the lock sooner or later delivers what was consumed.
func checkRuleRace(e *env) {
	w := invWorld(e)
	const n = 120
	for _, hold := range e.Holds() {
		h := w.Dialog("first")
		w.Drain(w.SQ)
		w.Tx(func(tx *parley.Tx) error {
			c := tx.Conversation(h)
			batch := make([]parley.Sending, n)
			for i := range batch {
				batch[i] = parley.Sending{To: c, Payload: parley.Payload{Type: w.Ask, Body: fmt.Append(nil, i)}}
			}
			return tx.SendBatch(e.Ctx, batch)
		})
		var mu sync.Mutex
		var done []string
		var wg sync.WaitGroup
		for range 3 {
			s := invUnder(w)
			wg.Go(func() {
				for e.Ctx.Err() == nil {
					mu.Lock()
					over := len(done) >= n
					mu.Unlock()
					if over {
						return
					}
					if err := s.raceOnce(hold, &mu, &done); err != nil {
						e.Errorf("%s: %v", invHoldName(hold), err)
						return
					}
				}
			})
		}
		wg.Wait()
		for i, body := range done {
			if body != fmt.Sprint(i) {
				e.Fatalf("%s: message %q was acknowledged as number %d", invHoldName(hold), body, i)
			}
		}
		w.Nothing(w.SQ, nil)
	}
}

// raceOnce claims one message and acknowledges it. It runs beside the check's
// own goroutine, so it returns errors.
func (s *invBelow) raceOnce(hold parley.Hold, mu *sync.Mutex, done *[]string) error {
	r := s.request(backend.ClaimRequest{MaxMessages: 1})
	if hold == parley.HoldLease {
		r.Lease = time.Minute
	}
	tx, err := s.be.Begin(s.Ctx)
	if err != nil {
		return err
	}
	defer func() { tx.Rollback(context.Background()) }()
	c, err := tx.Claim(s.Ctx, r)
	if err != nil || len(c.Holds) == 0 {
		return err
	}
	h := c.Holds[0]
	body := string(h.Messages[0].Body)
	mu.Lock()
	before := slices.Contains(*done, body)
	mu.Unlock()
	if before {
		return fmt.Errorf("message %s was delivered after it had been acknowledged", body)
	}
	if hold == parley.HoldLease {
		if err := tx.Commit(s.Ctx); err != nil {
			return err
		}
		if tx, err = s.be.Begin(s.Ctx); err != nil {
			return err
		}
		if err := tx.Reclaim(s.Ctx, []*backend.Hold{h}); err != nil {
			return fmt.Errorf("reclaim of message %s: %w", body, err)
		}
	}
	if _, err := tx.Settle(s.Ctx, []backend.Outcome{{Hold: h, Done: h.Messages}}); err != nil {
		return fmt.Errorf("settle of message %s, which was held: %w", body, err)
	}
	mu.Lock() // with the commit inside, so that the order here is the order of commits
	defer mu.Unlock()
	if err := tx.Commit(s.Ctx); err != nil {
		return err
	}
	*done = append(*done, body)
	return nil
}
