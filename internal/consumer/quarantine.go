package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/wait"
)

// A message may kill the process that handles it. Nothing that its transaction wrote survives that.
// So the messages in hand are recorded outside the transaction before a batch is handled; a lease
// is such a record by itself. A reader that receives a message with such a trace handles it alone,
// one suspect at a time. It notes that in the record, so that the next death shows which message it
// was.

// quarantine is what a batch knows about receivers that died with its messages in hand.
type quarantine struct {
	slot     backend.ID // of its record
	recorded bool       // there may be one; the batch's mu guards it

	// The reader's goroutine writes these while no handler is at work.
	traces    []backend.Trace    // of receivers that died with what is in hand
	traced    map[backend.ID]int // how many of a message's deaths are by these
	suspects  []backend.ID       // groups to be handled alone, afterwards
	isolated  bool               // it is a suspect, and the worker's only one
	postponed time.Duration      // it is a suspect that has to wait
}

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
func (c *Consumer) register(ctx context.Context) error {
	for _, s := range c.sources {
		if _, err := backend.Offered(c.Backend.PutReader(ctx, c.readerRecord(s, s.id, nil))); err != nil {
			return err
		}
	}
	return nil
}

func (c *Consumer) readerRecord(s *source, reader backend.ID, inHand []backend.ID) backend.ReaderRecord {
	return backend.ReaderRecord{
		Reader: reader, Worker: c.id, Queue: s.queue.ID, Owner: c.Owner, Readers: c.most(), For: aliveFor, InHand: inHand,
	}
}

// unregister removes the worker's records.
func (c *Consumer) unregister() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := c.Backend.RemoveReaders(ctx, c.id, backend.ID{})
	if err != nil && !errors.Is(err, errors.ErrUnsupported) && c.Host.Check() == nil {
		c.Log.Warn("parley: the records of a worker could not be removed", "event", "worker.leave", "error", err)
	}
}

// signs say that the worker is alive, and look at other workers' records, until ctx ends.
// They are no part of the heartbeats: no lease runs out because a record has to wait.
func (c *Consumer) signs(ctx context.Context) {
	sign, look := time.NewTicker(aliveFor/3), time.NewTicker(lookEvery)
	defer sign.Stop()
	defer look.Stop()
	idle := c.idleClosed()
	for {
		select {
		case <-sign.C:
			idle = c.warnOfIdle(idle)
			c.sign(ctx)
		case <-look.C:
			if c.needsOthers() {
				begun := time.Now()
				c.readOthers(ctx)
				look.Reset(max(lookEvery, 20*time.Since(begun)))
			}
		case <-ctx.Done():
			return
		}
	}
}

// sign extends the worker's records.
func (c *Consumer) sign(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, aliveFor/3)
	defer cancel()
	err := c.Backend.ExtendReaders(limited, c.id, aliveFor)
	if err != nil && !Gone(err) && !errors.Is(err, errors.ErrUnsupported) && ctx.Err() == nil {
		c.Log.Warn("parley: the lease of a worker's records could not be extended", "event", "worker.alive", "error", err)
	}
}

// slot returns an id for the record of a batch, and takeBack takes it back.
func (c *Consumer) slot() backend.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.slots); n > 0 {
		id := c.slots[n-1]
		c.slots = c.slots[:n-1]
		return id
	}
	return backend.NewID()
}

func (c *Consumer) takeBack(slot backend.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slots = append(c.slots, slot)
}

// putRecord stores what the batch has in hand and returns the traces of receivers
// that died with it.
func (t *batch) putRecord(ctx context.Context, alone bool) ([]backend.Trace, error) {
	a := t.c.readerRecord(t.s, t.q.slot, make([]backend.ID, len(t.holds)))
	a.Alone = alone
	for i, h := range t.holds {
		a.InHand[i] = h.Messages[0].ID
	}
	traces, err := backend.Offered(t.c.Backend.PutReader(ctx, a))
	t.q.recorded = t.q.recorded || !errors.Is(err, backend.ErrNotBegun) // whatever else it says: it may have been written
	return traces, err
}

// recordWait is how long a batch that has a connection waits for another one.
const recordWait = time.Second

// record is putRecord for a batch that may have a connection. If it cannot get another one in time,
// the batch continues by lease, which is a record by itself. Then, holding no connection, it asks
// for traces. A longer wait could be for readers that wait for this batch's connection.
func (t *batch) record(ctx context.Context, alone bool) ([]backend.Trace, error) {
	if t.lease {
		return t.putRecord(ctx, alone)
	}
	bounded, cancel := context.WithTimeout(ctx, recordWait)
	defer cancel()
	traces, err := t.putRecord(bounded, alone)
	switch {
	case err == nil || ctx.Err() != nil:
		return traces, err
	case hasStarved(err):
		t.c.Admission.Starved()
	case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, backend.ErrNotBegun):
		return traces, err
	}
	t.q.recorded = true // it may have been written anyway
	if err := t.lean(ctx); err != nil {
		return nil, err
	}
	if alone {
		return t.putRecord(ctx, true)
	}
	t.c.readOthers(ctx)
	err = t.findTraces(ctx)
	return t.q.traces, err
}

// lean commits the claim, and makes the batch keep its holds by lease.
func (t *batch) lean(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	tx, now := t.tx.work, time.Now()
	t.tx.work = nil
	defer t.dismiss()
	defer tx.Rollback(ctx)
	err := tx.Store().ResetReader(ctx, t.q.slot)
	for i := 0; err == nil && i < len(t.holds); i++ {
		err = tx.Store().Keep(ctx, t.holds[i], t.c.Lease, t.c.Owner)
	}
	if err == nil {
		err = tx.Commit(ctx)
	}
	if err != nil {
		return err
	}
	t.lease, t.until = true, now.Add(t.c.Lease)
	return nil
}

// dismiss gives back the batch's right to a connection. t.mu is held.
func (t *batch) dismiss() {
	if t.admitted {
		t.admitted = false
		t.c.Admission.Leave()
	}
}

// suspect counts the receivers that died with a message by their records as well.
func (t *batch) suspect(m *backend.Message) {
	n := 0
	for _, trace := range t.q.traces {
		if trace.Message == m.ID {
			n++
		}
	}
	if t.lease { // those that held by lease have left a mark besides, which counts already
		n = max(n-m.Deaths, 0)
	}
	if n > 0 {
		m.Deaths += n
		if t.q.traced == nil {
			t.q.traced = make(map[backend.ID]int)
		}
		t.q.traced[m.ID] = n
	}
}

// heldByOthers are the messages that other workers' records have in hand.
type heldByOthers map[backend.ID]struct{}

// readOthers reads other workers' records. Workers that hold by lease rely on this copy, which
// saves each of their claims a round trip. They ask the store again only about a message that they
// find in it.
func (c *Consumer) readOthers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, aliveFor/3)
	defer cancel()
	list, err := c.Backend.ReaderRecords(ctx)
	if err != nil {
		return // a lease leaves a mark of its own
	}
	found := make(heldByOthers)
	for _, a := range list {
		if a.Worker != c.id {
			for _, m := range a.InHand {
				found[m] = struct{}{}
			}
		}
	}
	c.othersHave.Store(&found)
}

// needsOthers reports whether the worker holds by lease in a store where others may
// hold in transactions, whose deaths leave records and no marks.
func (c *Consumer) needsOthers() bool {
	return c.Can.HoldsInTransaction && c.leases.Load() && !c.Consume
}

// findTraces is for a batch held by lease. It asks for traces of receivers that died with its
// messages, if the last look at the records found one of them.
func (t *batch) findTraces(ctx context.Context) (err error) {
	found := t.c.othersHave.Load()
	if found == nil {
		return nil
	}
	for _, h := range t.holds {
		if _, ok := (*found)[h.Messages[0].ID]; ok {
			t.q.traces, err = t.putRecord(ctx, false)
			t.resetRecord() // the lease is record enough
			return err
		}
	}
	return nil
}

// clearSuspects leaves in the batch what may be handled together: everything except suspects, or
// one suspect. The others are given back, to be handled afterwards.
func (t *batch) clearSuspects(ctx context.Context) (err error) {
	if t.c.Consume {
		return nil
	}
	if t.lease {
		err = t.findTraces(ctx)
	} else {
		t.q.traces, err = t.record(ctx, false)
	}
	if err != nil {
		return err
	}
	var good, suspects []*backend.Hold
	for _, h := range t.holds {
		t.suspect(h.Messages[0])
		if h.Messages[0].Deaths > 0 {
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
		t.q.suspects = append(t.q.suspects, h.Group)
	}
	t.mu.Lock() // heartbeats extend the leases of what it has already
	t.holds = good
	t.giveBack(suspects)
	t.mu.Unlock()
	if good[0].Messages[0].Deaths > 0 {
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
	case t.c.alone <- struct{}{}:
	case <-time.After(wait.Jitter(postponed)):
		t.q.postponed = wait.Jitter(postponed)
		t.resetRecord()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	t.q.isolated = true
	if t.q.traces, err = t.record(ctx, true); err != nil {
		return err
	}
	for _, trace := range t.q.traces {
		if trace.Alone && !t.c.Endless {
			t.charged = t.c.Host.Deadly(t.holds[0].Messages[0].Deaths)
		}
	}
	return nil
}

// release lets the next suspect be handled.
func (t *batch) release() {
	if t.q.isolated {
		t.q.isolated = false
		<-t.c.alone
	}
}

// resetRecord empties the batch's record outside its transaction, before what it has
// in hand is given back.
func (t *batch) resetRecord() {
	if err := t.emptyRecord(5 * time.Second); err != nil && t.c.Host.Check() == nil {
		t.c.Log.Warn("parley: the record of a batch could not be emptied", "event", "worker.record", "queue", t.queue.Name, "error", err)
	}
	t.q.recorded = false
}

// emptyRecord empties the record if it can do so in time.
func (t *batch) emptyRecord(within time.Duration) error {
	if !t.q.recorded {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), within)
	defer cancel()
	_, err := t.c.Backend.PutReader(ctx, t.c.readerRecord(t.s, t.q.slot, nil))
	t.q.recorded = err != nil
	return err
}

// clearTraces removes, with the commit, the traces of a suspect that is dealt with. Its record
// would only slow down others, and if an operator has it retried it is judged again.
func (t *batch) clearTraces(ctx context.Context, tx Work) error {
	if len(t.q.traces) == 0 || t.charged == nil && (!t.q.isolated || t.did.handled+t.did.cancelled == 0) {
		return nil
	}
	return tx.Store().ClearTraces(ctx, t.q.traces)
}
