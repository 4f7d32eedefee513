package parley

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleymq/parley/backend"
)

// A reader is a goroutine that claims a batch, handles it, and looks for the
// next. There are none when a worker starts but one, which waits for messages.
// Whoever claims something sees to it that another looks or waits, up to the
// worker's maximum; whoever finds nothing goes, unless nobody else waits.

// spawn starts a reader if there may be one more and none is waiting. It first
// waits for what is announced after the ticket, if known says that there is
// nothing older.
func (w *Worker) spawn(ticket uint64, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.running || w.stopped || w.waiting || w.readers >= w.max || w.readers > 0 && w.pausing() {
		return
	}
	w.readers++
	w.waiting = known
	go w.read(ticket, known)
}

// nudge has the waiting reader look now.
func (w *Worker) nudge() {
	select {
	case w.poke <- time.Time{}:
	default:
	}
}

// read is a reader's life.
func (w *Worker) read(ticket uint64, known bool) {
	var t *batch
	surplus := false
	defer func() {
		if t != nil { // a handler ended the goroutine
			if t.inHand != nil {
				w.charge(t.s, t.inHand.messages[0], errExited)
			}
			go w.read(0, false) // in its place
			return
		}
		w.mu.Lock()
		if !surplus {
			w.readers--
		}
		if w.readers == 0 && (w.stopped || w.drain) {
			w.close()
		}
		w.mu.Unlock()
	}()
	if known {
		w.await(ticket, jitter(w.b.opt.Poll))
	}
	for {
		if t, surplus = w.next(); t == nil {
			return
		}
		t.run()
		spent := t.spent
		t = nil
		if spent && w.spare() {
			surplus = true
			return
		}
	}
}

// spare reports whether another reader, which will look soon, makes one whose claim
// had left nothing needless, and counts it off.
func (w *Worker) spare() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.brief == 0 {
		return false
	}
	w.readers--
	return true
}

// stay reports whether a reader may look for more. One that is too many is counted
// off at once: of several that come to their end together all would go, each because
// of the others, and none be left.
func (w *Worker) stay() (ok, surplus bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || w.stop.Err() != nil {
		return false, false
	}
	if w.readers > w.max {
		w.readers--
		return false, true
	}
	return true, false
}

// may reports whether there is to be more work, as of now.
func (w *Worker) may() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.stopped && w.stop.Err() == nil && w.readers <= w.max
}

// next returns the next batch, nil if the reader has to go, and whether it has been
// counted off. It waits for a batch if no other reader does.
func (w *Worker) next() (*batch, bool) {
	contended, trouble := time.Duration(0), time.Duration(0)
	tries := 0
	for {
		ok, surplus := w.stay()
		if !ok {
			return nil, surplus
		}
		if !w.doze() {
			return nil, false
		}
		ticket := w.b.hub.ticket()
		t, more, err := w.look(ticket)
		if t != nil {
			return t, false
		}
		if err == nil {
			w.works(false)
		}
		pause := jitter(w.b.opt.Poll)
		switch {
		case err != nil:
			if w.stop.Err() != nil || w.b.check() != nil {
				return nil, false
			}
			if tooOld(err) {
				w.refuse(err)
				return nil, false
			}
			if !errors.Is(err, ErrSerialization) {
				w.outage.begin(w.b.log, w.sources[0].name, err)
				continue
			}
			trouble = min(max(2*trouble, 50*time.Millisecond), 5*time.Second)
			pause = jitter(trouble)
		case more:
			contended = min(max(2*contended, 2*time.Millisecond), 250*time.Millisecond)
			pause = min(pause, jitter(contended))
		default:
			contended, trouble = 0, 0
		}
		if w.drain && err == nil && (!more || tries >= 3) {
			return nil, false
		}
		tries++
		w.mu.Lock()
		if w.waiting {
			w.mu.Unlock()
			if more {
				w.nudge() // so that it looks again as soon as this one would have
			}
			return nil, false
		}
		w.waiting = true
		w.mu.Unlock()
		w.await(ticket, pause)
	}
}

// await waits for messages. w.waiting is set, and cleared at the end.
func (w *Worker) await(ticket uint64, pause time.Duration) {
	queues := make([]int64, len(w.sources))
	for i, s := range w.sources {
		queues[i] = s.queue.ID
	}
	w.b.hub.waitAny(w.stop, ticket, queues, pause, w.poke)
	w.mu.Lock()
	w.waiting = false
	w.mu.Unlock()
}

// look claims from the first of the queues that has something, beginning with
// another one each time. more tells that there was something that could not be
// had.
func (w *Worker) look(ticket uint64) (t *batch, more bool, err error) {
	w.mu.Lock()
	from := w.turn
	w.turn++
	idle := w.readers <= len(w.batches)+1 && w.readers < w.max
	w.mu.Unlock()
	for round := range 2 {
		for i := range w.sources {
			s := w.sources[(from+i)%len(w.sources)]
			if s.isOff() {
				continue
			}
			groups, messages := s.pace.next(idle)
			if w.pausing() {
				groups, messages = 1, 1
			}
			r := backend.ClaimRequest{MaxGroups: groups, MaxMessages: messages}
			var t *batch
			c, e := walk(w.stop, r, func(r backend.ClaimRequest) (c backend.Claim, err error) {
				t, c, err = w.claim(s, r)
				return c, err
			})
			if errors.Is(e, ErrQueueDisabled) {
				s.rest(w)
				continue
			}
			if e != nil {
				if errors.Is(e, ErrSerialization) {
					s.pace.halve() // it may have been too large for the store
				}
				err = errors.Join(err, e)
				continue
			}
			more = more || c.Contended
			if t != nil {
				w.goOn(t, ticket, len(t.holds) < groups && !c.More && len(w.sources) == 1)
				return t, more, nil
			}
		}
		if round > 0 || err != nil || !w.b.opt.NoDuties {
			break
		}
		// Nobody else in this process makes due what is due.
		if moved, e := w.b.duties.due(w.stop); e != nil || !moved {
			err = e
			break
		}
	}
	return nil, more, err
}

// quickReaders is how many readers there are, while handlers take next to no time,
// before batches have grown as long as they may. More of them would open connections,
// each of which plans every statement, for batches that four can have by then.
const quickReaders = 4

// goOn has other readers look for what the claim of a batch left, or, if that is
// spent, wait for what is to come. While handlers are quick the reader of the batch
// is soon back for either: a second one would share with it what comes meanwhile, and
// each message would be claimed, acknowledged and committed with fewer others.
func (w *Worker) goOn(t *batch, ticket uint64, spent bool) {
	t.spent = spent
	d, brief := t.s.pace.brief(t.messages)
	if brief && (spent || t.s.pace.growing() && w.enough()) {
		w.mu.Lock()
		t.brief = true
		w.brief++
		w.mu.Unlock()
		t.relief = time.AfterFunc(d, func() { w.long(t); w.spawn(ticket, false) })
	} else if spent {
		w.spawn(ticket, true)
	} else {
		w.spawn(ticket, false)
		w.spawn(ticket, false)
	}
	if !spent {
		w.nudge()
	}
}

// enough reports whether there are as many readers as quick handlers need.
func (w *Worker) enough() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.readers >= quickReaders
}

// long notes that a batch is over, or takes longer than was thought.
func (w *Worker) long(t *batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.brief {
		t.brief = false
		w.brief--
	}
}

func (s *source) isOff() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.off)
}

// rest leaves a disabled queue alone for a while: whoever enables it wakes
// receivers, and there is no need to ask all the time.
func (s *source) rest(w *Worker) {
	s.mu.Lock()
	fresh := s.off.IsZero() || time.Since(s.off) > time.Minute
	s.off = time.Now().Add(w.b.opt.Poll / 2)
	s.mu.Unlock()
	if fresh {
		w.b.log.Warn("parley: a worker waits for its queue to be enabled", "event", "queue.disabled", "queue", s.name)
	}
}

// claim makes one claim in a transaction of its own.
func (w *Worker) claim(s *source, r backend.ClaimRequest) (t *batch, c backend.Claim, err error) {
	if !s.claims.enter(w.stop, r.MaxGroups) {
		return nil, c, nil
	}
	start := time.Now()
	t, c, err = w.take(w.stop, s, &r)
	s.claims.leave(r.MaxGroups)
	e := ClaimEvent{Queue: s.name, Groups: len(c.Holds), Took: time.Since(start), Err: err}
	if err != nil || len(c.Holds) == 0 {
		w.opt.Observer.Claimed(e)
		return nil, c, err
	}
	t.begin(c, start, r.MaxMessages)
	e.Messages = t.messages
	if err := t.sift(w.stop); err != nil {
		t.cancel()
		e.Err = err
		w.opt.Observer.Claimed(e)
		return nil, c, err
	}
	t.claimed = time.Since(start)
	w.opt.Observer.Claimed(e)
	return t, c, nil
}

// take has the store claim, and commits where that is all there is to do in the
// claim's transaction.
func (w *Worker) take(ctx context.Context, s *source, r *backend.ClaimRequest) (t *batch, c backend.Claim, err error) {
	err = w.b.withCatalog(ctx, func(v *catalogView) error {
		q, ok := v.queues[s.name]
		if !ok {
			return fmt.Errorf("%s: %w", objQueue(s.name), ErrUnknownQueue)
		}
		t = &batch{w: w, s: s, queue: q, lease: w.opt.Hold == HoldLease && w.opt.Release == AfterCommit}
		if err := w.b.check(); err != nil {
			return err
		}
		tx, err := w.b.begin(ctx)
		if err != nil {
			return err
		}
		keep := false
		defer func() {
			if !keep {
				tx.rollback(ctx)
			}
			if t.tx == nil {
				t.dismiss()
			}
		}()
		if !t.lease && w.opt.Release == AfterCommit {
			t.admitted = !w.wariness.wary() && w.b.admitted.enter(0)
			t.lease = !t.admitted
			if t.lease && !w.leases.Load() {
				w.leases.Store(true)
			}
		}
		t.request(r, q, v.version)
		if c, err = tx.be.Claim(ctx, *r); err != nil {
			return err
		}
		w.b.discarded(c, q.ID)
		switch {
		case len(c.Holds) == 0 && c.Discarded > 0, len(c.Holds) > 0 && (t.lease || r.Consume):
			keep = true
			if err := tx.commit(ctx); err != nil {
				return err
			}
		case len(c.Holds) > 0:
			keep = true
			t.tx = tx
		}
		return nil
	})
	return t, c, err
}

// request completes a claim's request.
func (t *batch) request(r *backend.ClaimRequest, q Queue, version int64) {
	r.Version, r.Queue, r.MaxBytes, r.Owner, r.Alone = version, q.ID, 4<<20, t.w.b.opt.Owner, true
	switch {
	case t.w.opt.Release == BeforeWork:
		r.Consume, r.Retain, r.Keep = true, q.Retention, q.KeepProcessed
	case t.lease:
		r.Lease = t.w.opt.Lease
	}
}

// redo handles groups one by one, each in a batch of its own, after a batch that
// they were in failed as a whole.
func (w *Worker) redo(s *source, groups []ID) {
	for _, g := range groups {
		if !w.may() {
			return
		}
		t, _, err := w.claim(s, backend.ClaimRequest{Group: g, MaxGroups: 1, MaxMessages: 1})
		if err != nil {
			return // it is found again by whoever can receive
		}
		if t != nil {
			t.alone = true
			t.run()
		}
	}
}

// charge lets a message pay for the failure of a batch that it was alone in.
func (w *Worker) charge(s *source, m *Message, err error) {
	t, _, e := w.claim(s, backend.ClaimRequest{Group: m.Group, MaxGroups: 1, MaxMessages: 1})
	if e != nil || t == nil {
		return
	}
	t.alone = true
	if first := t.holds[0].Messages; len(first) > 0 && first[0].ID == m.ID {
		t.charged = err
	}
	t.run()
}

// queueIsDisabled carries out ActionDisableQueue.
func (w *Worker) disable(queue string) {
	ctx, cancel := context.WithTimeout(w.b.life, 10*time.Second)
	defer cancel()
	if err := w.b.Admin().DisableQueue(ctx, queue); err != nil {
		w.b.log.Error("parley: a queue with a poison message could not be disabled", "event", "queue.disable", "queue", queue, "error", err)
	}
}
