package parley

import (
	"context"
	"fmt"
	"time"

	"github.com/parleymq/parley/backend"
)

// A message may kill the process that handles it. Nothing that its transaction
// wrote outlives that, so before a batch is handled, what is in hand is recorded
// outside of it; a lease records it by itself. Whoever receives a message of
// which there is such a trace handles it alone: one suspect at a time, and says so
// in the record, so that the next death tells which one it was.

const (
	// aliveFor is how long a worker counts as alive after its last sign.
	aliveFor = 45 * time.Second

	// postponed is how long a suspect waits for another one, first in the hands of
	// its reader and then in the queue.
	postponed = 200 * time.Millisecond

	// lookEvery is how often a worker that holds by lease reads others' records.
	lookEvery = time.Second
)

// register records that the worker serves its queues.
func (w *Worker) register(ctx context.Context) error {
	for _, s := range w.sources {
		if _, err := w.b.be.Attend(ctx, w.attendance(s, s.id, nil)); err != nil {
			return err
		}
	}
	return nil
}

func (w *Worker) attendance(s *source, reader ID, inHand []ID) backend.Attendance {
	return backend.Attendance{Reader: reader, Worker: w.id, Queue: s.queue.ID, Owner: w.b.opt.Owner, Readers: w.most(), For: aliveFor, InHand: inHand}
}

// unregister removes the worker's records.
func (w *Worker) unregister() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := w.b.be.Leave(ctx, w.id, ID{}); err != nil && w.b.check() == nil {
		w.b.log.Warn("parley: the records of a worker could not be removed", "event", "worker.leave", "error", err)
	}
}

// slot returns an id for the record of a batch, and takeBack takes it back.
func (w *Worker) slot() ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.slots); n > 0 {
		id := w.slots[n-1]
		w.slots = w.slots[:n-1]
		return id
	}
	return NewID()
}

func (w *Worker) takeBack(slot ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slots = append(w.slots, slot)
}

// attend records what the batch has in hand and returns the traces of receivers
// that died with it.
func (t *batch) attend(ctx context.Context, alone bool) ([]backend.Trace, error) {
	a := t.w.attendance(t.s, t.slot, make([]ID, len(t.holds)))
	a.Alone = alone
	for i, h := range t.holds {
		a.InHand[i] = h.Messages[0].ID
	}
	traces, err := t.w.b.be.Attend(ctx, a)
	t.attended = t.attended || err == nil
	return traces, err
}

// recordWait is how long a batch that has a connection waits for another one.
const recordWait = time.Second

// record is attend for a batch that may have a connection. If no other one can be had
// in time, the batch goes on by lease, which needs neither a record nor a connection:
// were it to wait on, it might wait for others that wait for its own.
func (t *batch) record(ctx context.Context, alone bool) ([]backend.Trace, error) {
	if t.lease {
		return t.attend(ctx, alone)
	}
	bounded, cancel := context.WithTimeout(ctx, recordWait)
	defer cancel()
	traces, err := t.attend(bounded, alone)
	if err == nil || ctx.Err() != nil || !hasStarved(err) {
		return traces, err
	}
	t.w.b.admitted.starved()
	t.attended = true // it may have been written all the same
	return nil, t.lean(ctx)
}

// lean commits the claim, and has the batch keep its holds by leases.
func (t *batch) lean(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	tx, now := t.tx, time.Now()
	t.tx = nil
	defer t.dismiss()
	defer tx.rollback(ctx)
	err := tx.be.PutDown(ctx, t.slot)
	for i := 0; err == nil && i < len(t.holds); i++ {
		err = tx.be.Keep(ctx, t.holds[i], t.w.opt.Lease, t.w.b.opt.Owner)
	}
	if err == nil {
		err = tx.commit(ctx)
	}
	if err != nil {
		return err
	}
	t.lease, t.until = true, now.Add(t.w.opt.Lease)
	return nil
}

// dismiss gives back the batch's right to a connection. t.mu is held.
func (t *batch) dismiss() {
	if t.admitted {
		t.admitted = false
		t.w.b.admitted.leave()
	}
}

// suspect counts the receivers that died with a message by their records as well.
func (t *batch) suspect(m *backend.Message) {
	n := 0
	for _, trace := range t.traces {
		if trace.Message == m.ID {
			n++
		}
	}
	if t.lease { // those that held by lease have left a mark besides, which counts already
		n = max(n-m.Suspicion, 0)
	}
	if n > 0 {
		m.Suspicion += n
		if t.traced == nil {
			t.traced = make(map[ID]int)
		}
		t.traced[m.ID] = n
	}
}

// elsewhere are the messages that other workers' records have in hand.
type elsewhere map[ID]struct{}

// lookElsewhere reads other workers' records. Workers that hold by lease go by these
// where they can, since each claim of theirs would else take another round trip; they
// ask anew only about a message that they find there.
func (w *Worker) lookElsewhere(ctx context.Context) {
	list, err := w.b.be.Attendances(ctx)
	if err != nil {
		return // a lease leaves a mark of its own
	}
	found := make(elsewhere)
	for _, a := range list {
		if a.Worker != w.id {
			for _, m := range a.InHand {
				found[m] = struct{}{}
			}
		}
	}
	w.elsewhere.Store(&found)
}

// looksElsewhere reports whether the worker holds by lease in a store where others may
// hold in transactions, whose deaths leave records and no marks.
func (w *Worker) looksElsewhere() bool {
	_, others := w.b.be.(backend.TransactionHolder)
	return others && w.leases.Load() && w.opt.Release == AfterCommit
}

// inquire asks for traces of receivers that died with what a batch held by lease has
// in hand, if the last look at the records gives reason to.
func (t *batch) inquire(ctx context.Context) (err error) {
	found := t.w.elsewhere.Load()
	if found == nil {
		return nil
	}
	for _, h := range t.holds {
		if _, ok := (*found)[h.Messages[0].ID]; ok {
			t.traces, err = t.attend(ctx, false)
			t.putDown() // the lease is record enough
			return err
		}
	}
	return nil
}

// sift leaves in the batch what may be handled together: everything but the
// suspects, or one of these. The others are given back, for afterwards.
func (t *batch) sift(ctx context.Context) (err error) {
	if t.w.opt.Release == BeforeWork {
		return nil
	}
	if t.lease {
		err = t.inquire(ctx)
	} else {
		t.traces, err = t.record(ctx, false)
	}
	if err != nil {
		return err
	}
	var good, suspects []*backend.Hold
	for _, h := range t.holds {
		t.suspect(h.Messages[0])
		if h.Messages[0].Suspicion > 0 {
			suspects = append(suspects, h)
		} else {
			good = append(good, h)
		}
	}
	if len(suspects) == 0 {
		return nil
	}
	if len(good) == 0 {
		good, suspects = suspects[:1], suspects[1:]
	}
	for _, h := range suspects {
		t.suspects = append(t.suspects, h.Group)
	}
	t.mu.Lock() // heartbeats prolong the leases of what it has already
	t.holds = good
	t.giveBack(suspects)
	t.mu.Unlock()
	if good[0].Messages[0].Suspicion > 0 {
		return t.isolate(ctx)
	}
	if !t.lease {
		_, err = t.record(ctx, false)
	}
	return err
}

// isolate has the batch, which is one suspect, handled while no other suspect is.
// It waits for its turn, and puts the suspect off if that takes long. If the
// worker that handled it before has died, it is not handled at all.
func (t *batch) isolate(ctx context.Context) (err error) {
	select {
	case t.w.alone <- struct{}{}:
	case <-time.After(jitter(postponed)):
		t.postponed = jitter(postponed)
		t.putDown()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	t.isolated = true
	if t.traces, err = t.record(ctx, true); err != nil {
		return err
	}
	for _, trace := range t.traces {
		if trace.Alone && t.w.opt.MaxAttempts >= 0 {
			t.charged = Poison(fmt.Errorf("%d receivers died with this message in hand: %w", t.holds[0].Messages[0].Suspicion, ErrDeadly))
		}
	}
	return nil
}

// release lets the next suspect be handled.
func (t *batch) release() {
	if t.isolated {
		t.isolated = false
		<-t.w.alone
	}
}

// putDown empties the batch's record outside its transaction, before what it has
// in hand is given back.
func (t *batch) putDown() {
	if !t.attended {
		return
	}
	t.attended = false
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), 5*time.Second)
	defer cancel()
	if _, err := t.w.b.be.Attend(ctx, t.w.attendance(t.s, t.slot, nil)); err != nil && t.w.b.check() == nil {
		t.w.b.log.Warn("parley: the record of a batch could not be emptied", "event", "worker.record", "queue", t.s.name, "error", err)
	}
}

// acquit removes the traces of a suspect that has been dealt with. Its record
// would only slow down others, and if an operator has it retried it is judged anew.
func (t *batch) acquit() {
	if len(t.traces) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), 5*time.Second)
	defer cancel()
	if err := t.w.b.be.Acquit(ctx, t.traces); err != nil && t.w.b.check() == nil {
		t.w.b.log.Warn("parley: the traces of a message could not be removed", "event", "worker.acquit", "queue", t.s.name, "error", err)
	}
}
