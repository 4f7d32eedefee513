package consumer

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/guard"
)

// batch is what a reader has in hand: groups that are handled one after another
// and acknowledged in one transaction. What a handler that fails wrote is undone
// by a savepoint, and the rest commits. Where that cannot be, since the
// transaction itself is lost, everything is done again one group at a time.
//
// One goroutine handles it: that of its reader. Heartbeats, the timers and the Consumer's end come
// from others, and see what mu guards.
type batch struct {
	// Set before begin.
	c     *Consumer
	s     *source
	queue backend.Queue
	alone bool // one group, on which the failure of its transaction is blamed

	// Set by begin.
	got    claimed
	ctx    context.Context // of handlers
	budget time.Duration   // how long it may take

	// The reader's goroutine writes these while no handler is at work. Whatever settles during the
	// handler's call reads them.
	did     told
	charged error // why the message in hand has failed already
	outlook outlook
	calls   calls // has its own lock

	mu       sync.Mutex // guards what follows
	started  time.Time
	timer    *time.Timer // calls overdue
	holds    []*backend.Hold
	at       int // the hold in hand
	inHand   *call
	lease    bool
	until    time.Time         // of leases, by this process's clock
	outcomes []backend.Outcome // of the holds before the one in hand
	current  backend.Outcome   // of the hold in hand, so far
	over     bool
	admitted bool // it may have a connection while handlers work
	tx       transaction
	q        quarantine // but for what only the reader's goroutine writes
}

// claimed is what the claim of a batch has brought.
type claimed struct {
	took     time.Duration
	asked    int  // messages
	more     bool // it could not take all that it was asked for
	groups   int
	messages int // in them
}

// counts are what has become of the messages of a batch.
type counts struct {
	handled, failed int
	cancelled       int
	fenced          int  // were handled, and lost with their lease
	disable         bool // the queue is to be disabled
}

// told are the counts of a batch, and what of them the Host has been told, or will be.
type told struct {
	counts
	before counts    // that the batch parted with others the last time
	parted []Settled // what it has parted with and settled
}

// outlook is what the fetch loop is told of a batch when it begins.
type outlook struct {
	spent          bool        // its claim left nothing
	quick, growing bool        // handlers take next to no time, and batches become longer
	brief          bool        // it is expected to be over soon; the fetch loop's alone
	relief         *time.Timer // has the loop look if the batch is not over soon
}

// begin makes a batch of what was claimed. start is a time before the claim.
func (t *batch) begin(got backend.Claim, start time.Time, asked int) {
	t.holds, t.got = got.Holds, claimed{asked: asked, more: got.More, groups: len(got.Holds)}
	t.until = start.Add(t.c.Lease)
	t.budget = t.c.within(t.s.pace.budget())
	for _, h := range t.holds {
		t.got.messages += len(h.Messages)
	}
	t.ctx, t.calls.lost = context.WithCancelCause(t.c.work)
	t.q.slot = t.c.slot()
	t.c.mu.Lock()
	t.c.batches[t] = struct{}{}
	t.c.mu.Unlock()
}

// SingleTime is how long a single group is held in a transaction. Beyond that, servers
// and proxies may end the transaction as idle, and others may need its connection.
const SingleTime = time.Second

// run handles the batch and settles it.
func (t *batch) run() {
	defer func() {
		t.exit()
		t.done()
	}()
	t.mu.Lock()
	t.started = time.Now()
	switch {
	case len(t.holds) > 1:
		t.timer = time.AfterFunc(t.budget, t.overdue)
	case !t.lease:
		t.timer = time.AfterFunc(t.c.within(max(t.budget, SingleTime)), t.overdue)
	}
	t.mu.Unlock()
	next := 0
	for !t.full(next) {
		next = t.handle(next)
	}
	t.mu.Lock()
	if t.timer != nil {
		t.timer.Stop()
	}
	t.over = true
	end := time.Now()
	err := t.tx.broken
	if err == nil {
		err = t.settle(next)
	}
	took := end.Sub(t.started)
	t.mu.Unlock()
	t.release()
	if err == nil {
		t.c.works(true)
	}
	settled := time.Since(end)
	t.s.pace.did(paced{
		asked: t.got.asked, more: t.got.more, groups: t.got.groups, messages: t.got.messages, handled: t.did.handled + t.did.failed + t.did.cancelled,
		took: took, cost: t.got.took + settled, full: t.tx.points >= maxPoints,
	})
	t.report(next, settled, err)
	if err != nil {
		t.recover(next, err)
	}
	if t.did.disable {
		t.c.disable(t.queue.Name)
	}
	t.c.redo(t.s, t.q.suspects)
}

// full reports whether no further group is to be begun.
func (t *batch) full(next int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case next >= len(t.holds), t.tx.broken != nil, t.did.disable, t.ctx.Err() != nil:
		return true
	case next == 0:
		return false
	}
	return t.c.pausing() || t.c.stop.Err() != nil || t.tx.points >= maxPoints || t.late()
}

// enough reports whether the rest of a group is to be left for another batch.
func (t *batch) enough() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.c.pausing() || t.c.stop.Err() != nil || t.tx.points >= maxPoints || t.late()
}

// late reports whether the batch has had its time. t.mu is held.
func (t *batch) late() bool { return time.Since(t.started) > t.budget }

// waited adds the time in which the batch waited for the store to its budget. On a store
// with a single writer the next receiver of its groups would have to wait as well. t.mu is
// held.
func (t *batch) waited(d time.Duration) {
	t.started = t.started.Add(d)
	if t.timer != nil {
		t.timer.Reset(t.budget - time.Since(t.started))
	}
}

// handle handles the messages of a group, in their order, up to the first that
// fails, and returns which hold is the next.
func (t *batch) handle(at int) (next int) {
	t.mu.Lock()
	h := t.holds[at]
	t.at = at
	t.current = t.outcome(h)
	t.mu.Unlock()
	all := h.Messages
	switch {
	case t.q.postponed > 0:
		t.current.Defer = t.q.postponed
	default:
		for i := 0; i < len(all) && (i == 0 || !t.enough()); {
			if t.cancelled(all[i]) {
				t.giveUp(all[i])
				i++
				continue
			}
			n := t.together(all[i:])
			if n == 0 { // END has removed it
				i++
				continue
			}
			dead := len(t.current.Dead)
			if !t.attempt(all[i:i+n]) || n > 1 && len(t.current.Dead) > dead {
				break // those behind a dead letter have not been handled
			}
			i += n
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tx.broken == nil {
		t.outcomes = append(t.outcomes, t.current)
	}
	return t.at + 1 // overdue may have parted with all holds but this one
}

// together returns how many messages of a group go to the handler in one call, of those that END has not removed. A
// message that is to be cancelled is at most the first.
func (t *batch) together(group []*backend.Message) (n int) {
	want := 1
	if t.c.Together != nil {
		want = t.c.Together(group)
	}
	for n < want && !t.hasEnded(group[n].Handle) && (n == 0 || !t.cancelled(group[n])) {
		n++
	}
	return n
}

func (t *batch) outcome(h *backend.Hold) backend.Outcome {
	return backend.Outcome{Hold: h, Retain: t.queue.Retention, Keep: t.queue.KeepProcessed}
}

func (t *batch) hasEnded(handle backend.ID) bool {
	return !handle.IsZero() && slices.Contains(t.tx.ended, handle)
}

// attempt calls the handler and reports whether the group goes on behind it.
func (t *batch) attempt(raw []*backend.Message) bool {
	m := raw[0]
	start := time.Now()
	k := &call{raw: raw}
	k.messages = t.c.Host.Messages(t.queue, raw,
		func(ctx context.Context) (Work, error) { return t.open(ctx, k) }, func(a Answer) bool { return t.later(k, a) })
	ctx := t.hold(k)
	err := t.charged
	if err == nil {
		err = t.c.Failures.Due(m.ID)
	}
	if err == nil {
		err = guard.Call(func() error { return k.messages.Handle(ctx) })
	}
	kept := t.letGo(err, raw)
	k.messages.Handled(ctx, start, err)
	if !kept {
		return false
	}
	if err == nil {
		t.c.did(t.queue.Name, m.Group, nil)
		return true
	}
	if t.ctx.Err() == nil && slices.ContainsFunc(raw, t.cancelled) {
		return t.drop(raw)
	}
	t.did.failed++
	collided := t.got.messages > 1 && Is(t.c.Can, err, backend.ErrSerialization)
	if collided {
		t.s.pace.collided(time.Since(start))
	}
	switch {
	case t.c.Consume:
		t.c.Log.Error("parley: a message that had been released failed and is lost", "event", "message.lost",
			"queue", t.queue.Name, "type", m.Type, "message", m.ID.String(), "error", guard.FirstLine(guard.Text(err)))
		return true
	case t.ctx.Err() != nil:
		return false // it was interrupted: given back, no failure of its own
	case collided: // it lost because of the batch: at once alone, where a failure is its own
		t.q.suspects = append(t.q.suspects, m.Group)
		return false
	}
	return t.dispose(k, err)
}

// dispose carries out what is to become of a message that failed, and reports
// whether its group goes on behind it.
func (t *batch) dispose(k *call, err error) bool {
	m := k.raw[0]
	d := k.messages.Decide(t.ctx, err)
	if d.Failed {
		t.c.did(t.queue.Name, m.Group, err)
	} else if t.c.slowdown.active.Load() {
		t.c.did(t.queue.Name, m.Group, nil) // it has decided, so that it works
	}
	failure := &backend.Failure{Message: m, Attempts: d.Attempts, Deaths: m.Deaths - t.q.traced[m.ID], Error: d.Text, Errors: m.Errors}
	if d.Attempts > m.Attempts { // deferrals do not count
		failure.Errors = backend.AddAttempt(m.Errors, m.Attempts+m.Deaths+1, d.Text)
	}
	if d.Anew {
		failure.Deaths = 0
	}
	if d.Action == EndWithError && (m.Handle.IsZero() || !t.end(k, d)) {
		d.Action = DeadLetter
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	o := &t.current
	o.Failure = failure
	switch d.Action {
	case Retry:
		o.Defer = d.After
	case Park:
		o.Park = d.Reason
	case Disable:
		t.did.disable = true
		o.Defer = time.Second // no other receiver shall try it before that is done
	case DeadLetter, EndWithError:
		o.Failure = nil
		dead := *m
		dead.Attempts, dead.LastError, dead.Errors = d.Attempts, d.Text, failure.Errors
		o.Dead = append(o.Dead, backend.DeadLetter{Message: &dead, Reason: d.Reason})
		return true
	}
	return false
}

// end ends the conversation of a message with an error, and reports whether it
// could.
func (t *batch) end(k *call, d Decision) bool {
	t.hold(k)
	err := k.messages.End(t.ctx, d.Code, d.Reason)
	kept := t.letGo(err, nil)
	if err != nil {
		t.c.Log.Warn("parley: a conversation could not be ended", "event", "conversation.end",
			"conversation", k.raw[0].Conversation.String(), "error", err)
	}
	return err == nil && kept
}

// done ends the batch, whatever has become of it.
func (t *batch) done() {
	for _, timer := range []*time.Timer{t.timer, t.outlook.relief} {
		if timer != nil {
			timer.Stop()
		}
	}
	t.tellParted()
	t.calls.lost(nil)
	t.mu.Lock()
	t.dismiss()
	t.mu.Unlock()
	t.release()
	t.c.takeBack(t.q.slot)
	t.c.mu.Lock()
	delete(t.c.batches, t)
	t.c.mu.Unlock()
}

// cancel ends a batch that is not run after all.
func (t *batch) cancel() {
	t.exit()
	t.done()
}

// appendIDs adds the IDs of messages.
func appendIDs(ids []backend.ID, messages []*backend.Message) []backend.ID {
	for _, m := range messages {
		ids = append(ids, m.ID)
	}
	return ids
}

// settled describes what has been settled since the batch last parted with some of its groups. t.mu is held, or the
// batch is over.
func (t *batch) settled(outcomes []backend.Outcome) Settled {
	d, b := t.did.counts, t.did.before
	t.did.before = d
	e := Settled{Queue: t.queue.Name, Failed: d.failed - b.failed, Cancelled: d.cancelled - b.cancelled}
	e.Lost = d.fenced - b.fenced
	e.Done = d.handled - b.handled - e.Lost
	for _, o := range outcomes {
		e.IDs = appendIDs(e.IDs, o.Done)
	}
	return e
}

// tellParted tells the observer what the batch has parted with.
func (t *batch) tellParted() {
	for _, e := range t.did.parted {
		t.c.Host.Settled(t.ctx, e)
	}
	t.did.parted = nil
}

// report tells the observer.
func (t *batch) report(next int, took time.Duration, err error) {
	t.tellParted()
	e := t.settled(t.outcomes)
	if err != nil {
		e = Settled{Queue: e.Queue, Failed: e.Failed, Err: err}
	}
	e.Groups, e.Returned, e.Took = len(t.holds), len(t.holds)-next, took
	t.c.Host.Settled(t.ctx, e)
}
