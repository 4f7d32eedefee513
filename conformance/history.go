package conformance

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/slow"
)

// history records what many senders and receivers do to one queue at once, and checks
// it while it happens. It finds a group in two pairs of hands, and a message out of its
// order, lost, doubled, or never sent.
//
// A stream is named by the first word of its messages' bodies. The second word is the message's
// number in the stream. The third tells attempts apart, since a send that was rolled back is
// retried under the same number. Streams with several senders begin with "hot" and are ordered by
// the numbers that the broker gave.
type history struct {
	e  *env
	mu sync.Mutex

	sent    map[string][]string  // stream -> bodies committed, in order
	done    map[string][]string  // stream -> bodies acknowledged, in order
	held    map[parley.ID]string // group -> who has it in hand
	busy    map[string]string    // stream -> who has messages of it in hand
	groups  map[parley.ID]bool   // groups of conversations, for the operator
	convs   map[parley.ID]bool   // handles that receive
	parked  []parley.ID          // to be unparked
	started map[string]int64     // hot stream -> number of its first message
	counts  map[string]int       // what happened, for the log
	left    int                  // committed and not acknowledged; below zero while a commit is on its way
	over    bool                 // nothing is sent any more
	lately  time.Time            // when something was acknowledged
}

func newHistory(e *env) *history {
	return &history{
		e: e, sent: map[string][]string{}, done: map[string][]string{}, held: map[parley.ID]string{}, busy: map[string]string{},
		groups: map[parley.ID]bool{}, convs: map[parley.ID]bool{}, started: map[string]int64{}, counts: map[string]int{}, lately: time.Now(),
	}
}

func streamOf(body string) string { return body[:max(strings.IndexByte(body, ' '), 0)] }

// committed records messages whose transaction committed, in their order.
func (h *history) committed(bodies []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, body := range bodies {
		h.sent[streamOf(body)] = append(h.sent[streamOf(body)], body)
		h.left++
		h.counts["sent"]++
	}
}

// received checks a delivery at the moment of its receipt.
func (h *history) received(who string, d *parley.Delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts["deliveries"]++
	if other, ok := h.held[d.Group]; ok {
		h.e.Errorf("%s receives group %s while %s has it in hand", who, d.Group, other)
	}
	h.held[d.Group] = who
	seen := map[string]int{}
	for _, m := range d.Messages {
		body := string(m.Body)
		stream := streamOf(body)
		if other, ok := h.busy[stream]; ok && seen[stream] == 0 {
			h.e.Errorf("%s receives %q while %s has messages of that stream in hand", who, body, other)
		}
		h.busy[stream] = who
		var name string
		var n int64
		fmt.Sscan(body, &name, &n)
		if strings.HasPrefix(stream, "hot") {
			first, ok := h.started[stream]
			if !ok {
				h.started[stream], first = m.Seq, m.Seq
			}
			n = m.Seq - first
		}
		if want := int64(len(h.done[stream]) + seen[stream]); n != want {
			h.e.Errorf("%s receives %q, number %d of its stream, want number %d", who, body, n, want)
		}
		seen[stream]++
		if !m.Conversation.IsZero() {
			h.groups[d.Group], h.convs[m.Conversation] = true, true
		}
	}
}

// released records the end of a delivery, of which the first n messages are
// about to be acknowledged. It is called just before that, since another
// receiver may have the group before the call returns.
func (h *history) released(d *parley.Delivery, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, m := range d.Messages {
		stream := streamOf(string(m.Body))
		delete(h.busy, stream)
		if i < n {
			h.done[stream] = append(h.done[stream], string(m.Body))
			h.left--
			h.counts["acknowledged"]++
			h.lately = time.Now()
		}
	}
	delete(h.held, d.Group)
}

// finished reports whether nothing more is to be expected.
func (h *history) finished() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.over && (h.left <= 0 || time.Since(h.lately) > slow.By(15*time.Second)) || h.e.Ctx.Err() != nil
}

func (h *history) count(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[what]++
}

// check compares what was acknowledged with what was committed.
func (h *history) check() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for stream, sent := range h.sent {
		done := slices.Clone(h.done[stream])
		if strings.HasPrefix(stream, "hot") { // its order was checked by the broker's numbers
			sent = slices.Sorted(slices.Values(sent))
			slices.Sort(done)
		}
		if slices.Equal(sent, done) {
			continue
		}
		missing := slices.DeleteFunc(slices.Clone(sent), func(s string) bool { return slices.Contains(done, s) })
		strange := slices.DeleteFunc(slices.Clone(done), func(s string) bool { return slices.Contains(sent, s) })
		h.e.Errorf("stream %s: %d messages committed, %d acknowledged; stranded or lost: %q; never committed: %q", stream, len(sent), len(done), missing, strange)
	}
	for stream, done := range h.done {
		if h.sent[stream] == nil {
			h.e.Errorf("stream %s: nothing was committed, and acknowledged is %q", stream, done)
		}
	}
	h.e.Logf("%v", h.counts)
}

// load says what else happens while messages are sent and received.
type load struct {
	parks    bool // receivers park, defer and give back
	promotes bool
	moves    bool
}

// runLoad lets six senders and five receivers work on one queue for some
// seconds. Most streams are used for a few messages and then never again: what
// a stream loses, its next message would heal.
func runLoad(e *env, l load) {
	const senders, receivers, length = 6, 5, 2500 * time.Millisecond
	w := e.World()
	h := newHistory(e)
	hot := []parley.ID{w.Dialog(), w.Dialog()}
	seed := modelSeed()
	e.Logf("seed %d", seed)
	end := time.Now().Add(length)

	var sending, receiving sync.WaitGroup
	brokers := []*parley.Broker{w.B, e.Broker(nil), e.Broker(nil)}
	for i := range senders {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		b := brokers[i%len(brokers)]
		sending.Go(func() {
			for n := 0; time.Now().Before(end) && e.Ctx.Err() == nil; n++ {
				s := &loadSender{w: w, h: h, b: b, rng: rng, key: fmt.Sprintf("key-%d-%d", i, n), dialog: fmt.Sprintf("dialog-%d-%d", i, n), hot: hot}
				if !s.run(end) {
					return
				}
			}
		})
	}
	for i := range receivers {
		rng := rand.New(rand.NewPCG(seed, uint64(100+i)))
		b := e.Broker(nil)
		receiving.Go(func() {
			for !h.finished() {
				if !loadReceive(w, h, b, rng, fmt.Sprint("receiver ", i), l) {
					return
				}
			}
		})
	}
	stop := make(chan struct{})
	var operating sync.WaitGroup
	operating.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 1000))
		b := e.Broker(&parley.Options{GroupWait: 30 * time.Millisecond, NoMaintenance: true})
		for {
			select {
			case <-stop:
				return
			case <-time.After(3 * time.Millisecond):
			}
			if err := loadOperate(w, h, b, rng, l, time.Now().Before(end)); err != nil {
				e.Errorf("operator: %v", err)
			}
		}
	})
	sending.Wait()
	h.mu.Lock()
	h.over, h.lately = true, time.Now()
	h.mu.Unlock()
	receiving.Wait()
	close(stop)
	operating.Wait()
	h.check()
}

// loadSender sends on a key and a conversation of its own.
type loadSender struct {
	w           *world
	h           *history
	b           *parley.Broker
	rng         *rand.Rand
	key, dialog string // names of its streams
	hot         []parley.ID
	handle      parley.ID // of its conversation, once begun
	keyed, said int       // messages committed on each
	tries       int
}

// run sends until the streams are given up, and reports whether all went well.
func (s *loadSender) run(end time.Time) bool {
	for range 3 + s.rng.IntN(12) {
		if time.Now().After(end) {
			return true
		}
		if err := s.transaction(); err != nil && !parley.IsRetryable(err) {
			s.h.e.Errorf("sender: %v", err)
			return false
		}
		time.Sleep(time.Duration(s.rng.IntN(3000)) * time.Microsecond)
	}
	return true
}

var errLoadUndo = errors.New("a rollback on purpose")

func (s *loadSender) transaction() error {
	ctx, e := s.w.Ctx, s.h.e
	var bodies []string
	keyed, said, handle := s.keyed, s.said, s.handle
	err := s.b.InTx(ctx, func(tx *parley.Tx) error {
		s.tries++
		switch s.rng.IntN(10) {
		case 0: // on a hot one
			i := s.rng.IntN(len(s.hot))
			body := fmt.Sprintf("hot%d %d %s.%d", i, s.tries, s.key, s.tries)
			bodies = append(bodies, body)
			if err := tx.Conversation(s.hot[i]).Send(ctx, s.w.Ask, []byte(body)); err != nil {
				return err
			}
		case 1, 2, 3, 4:
			for range 1 + s.rng.IntN(3) {
				body := fmt.Sprintf("%s %d %d", s.key, keyed, s.tries)
				bodies = append(bodies, body)
				keyed++
				if _, err := tx.Post(ctx, s.w.SQ, parley.Payload{Type: s.w.Any, Body: []byte(body)}, parley.Key(s.key)); err != nil {
					return err
				}
			}
		default:
			if handle.IsZero() {
				c, err := tx.Begin(ctx, s.w.Client, s.w.Server, &parley.DialogOptions{Contract: s.w.Contract})
				if err != nil {
					return err
				}
				handle = c.Handle()
			}
			for range 1 + s.rng.IntN(3) {
				body := fmt.Sprintf("%s %d %d", s.dialog, said, s.tries)
				bodies = append(bodies, body)
				said++
				if err := tx.Conversation(handle).Send(ctx, s.w.Ask, []byte(body)); err != nil {
					return err
				}
			}
		}
		if s.h.e.HoldsInTransaction() && s.rng.IntN(8) == 0 {
			time.Sleep(time.Duration(s.rng.IntN(30)) * time.Millisecond) // open for a while
		}
		if s.rng.IntN(7) == 0 {
			return errLoadUndo
		}
		return nil
	})
	switch {
	case err == nil:
		s.keyed, s.said, s.handle = keyed, said, handle
		s.h.committed(bodies)
	case errors.Is(err, errLoadUndo):
		s.h.count("sends rolled back")
		return nil
	case errors.Is(err, parley.ErrConnection):
		e.Errorf("sender: %v", err)
	}
	return err
}

// loadReceive takes one delivery and does something with it.
func loadReceive(w *world, h *history, b *parley.Broker, rng *rand.Rand, who string, l load) bool {
	ctx, e := w.Ctx, h.e
	holds := e.Holds()
	d, err := b.Receive(ctx, w.SQ, &parley.ReceiveOptions{Hold: holds[rng.IntN(len(holds))], MaxMessages: 1 + rng.IntN(6), Wait: 30 * time.Millisecond})
	if errors.Is(err, parley.ErrNoMessage) || parley.IsRetryable(err) {
		return true
	}
	if err != nil {
		e.Errorf("%s: receive: %v", who, err)
		return false
	}
	defer d.Close()
	h.received(who, d)
	if rng.IntN(20) == 0 {
		time.Sleep(time.Duration(rng.IntN(40)) * time.Millisecond)
	}
	n := len(d.Messages)
	if rng.IntN(5) == 0 {
		n = 1 + rng.IntN(n)
	}
	if rng.IntN(3) == 0 { // with an effect for each message, which must be the only one
		tx, err := d.Tx(ctx)
		for _, m := range d.Messages[:n] {
			if err != nil {
				break
			}
			var fresh bool
			if fresh, err = tx.Once(ctx, w.CQ+m.ID.String()); err == nil && !fresh {
				e.Errorf("%s: %q has been handled before", who, m.Body)
			}
		}
		if err != nil {
			e.Errorf("%s: effect: %v", who, err)
			return false
		}
	}
	act := rng.IntN(20)
	if !l.parks {
		act = min(act, 17) // only rollbacks beside acknowledgements
	}
	if act >= 15 {
		n = 0
	}
	h.released(d, n)
	switch {
	case act >= 19:
		err = d.Park(ctx, errors.New("a check"))
		if err == nil {
			h.mu.Lock()
			h.parked = append(h.parked, d.Group)
			h.mu.Unlock()
		}
		h.count("parked")
	case act >= 18:
		err = d.Defer(ctx, time.Duration(1+rng.IntN(5))*time.Millisecond)
		h.count("deferred")
	case act >= 15:
		err = d.Rollback(ctx)
		h.count("rolled back")
	default:
		d.Messages = d.Messages[:n]
		err = d.Ack(ctx)
	}
	if err != nil {
		e.Errorf("%s: settle: %v", who, err)
		return false
	}
	return true
}

// loadOperate does one thing that operators do.
func loadOperate(w *world, h *history, b *parley.Broker, rng *rand.Rand, l load, busy bool) error {
	ctx := w.Ctx
	h.mu.Lock()
	parked := h.parked
	h.parked = nil
	group, other, conv := anyOf(h.groups, rng), anyOf(h.groups, rng), anyOf(h.convs, rng)
	h.mu.Unlock()
	for _, g := range parked {
		err := b.Admin().Unpark(ctx, g)
		if errors.Is(err, parley.ErrGroupBusy) { // another transaction looks at it: again in a moment
			h.mu.Lock()
			h.parked = append(h.parked, g)
			h.mu.Unlock()
		} else if err != nil && !errors.Is(err, parley.ErrUnknownGroup) {
			return fmt.Errorf("unpark: %w", err)
		}
	}
	if group.IsZero() || !busy {
		return nil
	}
	if l.promotes && rng.IntN(3) == 0 {
		var o []parley.PromoteOption
		if o = append(o, parley.PromoteLevel(rng.IntN(3))); rng.IntN(4) == 0 {
			o = append(o, parley.Sticky())
		}
		err := b.Promote(ctx, group, o...)
		if err != nil && !errors.Is(err, parley.ErrUnknownGroup) && !parley.IsRetryable(err) {
			return fmt.Errorf("promote: %w", err)
		}
		h.count("promoted")
	}
	if l.moves && rng.IntN(3) == 0 {
		to := other
		if rng.IntN(3) == 0 {
			to = parley.NewID()
		}
		err := b.InTx(ctx, func(tx *parley.Tx) error { return tx.Conversation(conv).Move(ctx, to) })
		switch {
		case err == nil:
			h.count("moved")
			h.mu.Lock()
			h.groups[to] = true
			h.mu.Unlock()
		case parley.IsRetryable(err), errors.Is(err, parley.ErrWouldDeadlock):
			h.count("moves given up")
		default:
			return fmt.Errorf("move: %w", err)
		}
	}
	return nil
}

// anyOf returns one of a set, zero if it is empty.
func anyOf(set map[parley.ID]bool, rng *rand.Rand) parley.ID {
	if len(set) == 0 {
		return parley.ID{}
	}
	ids := make([]parley.ID, 0, len(set))
	for id := range set {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b parley.ID) int { return strings.Compare(string(a[:]), string(b[:])) })
	return ids[rng.IntN(len(ids))]
}
