package parley

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
)

// batch is what a reader has in hand: groups that are handled one after another
// and acknowledged in one transaction. What a handler that fails wrote is undone
// by a savepoint, and the rest commits. Where that cannot be, since the
// transaction itself is lost, everything is done again one group at a time.
type batch struct {
	w     *Worker
	s     *source
	queue Queue
	alone bool // one group, on which the failure of its transaction is blamed
	// charged is why the message in hand has failed already.
	charged error

	slot      ID   // of its record
	admitted  bool // it may have a connection while handlers work; mu guards it
	attended  bool
	traces    []backend.Trace // of receivers that died with what is in hand
	traced    map[ID]int      // how many of a message's suspicions are by these
	suspects  []ID            // groups to be handled alone, afterwards
	isolated  bool            // it is a suspect, and the worker's only one
	postponed time.Duration   // it is a suspect that has to wait

	ctx      context.Context // of handlers
	lost     context.CancelCauseFunc
	budget   time.Duration // it may take so long
	claimed  time.Duration // it took so long to claim it
	asked    int           // messages
	more     bool          // the claim could not take all that it was asked for
	groups   int           // that were claimed
	messages int           // in them

	mu       sync.Mutex // guards what follows against heartbeats, overdue and abandon
	started  time.Time
	holds    []*backend.Hold
	at       int // the hold in hand
	lease    bool
	until    time.Time // of leases, by this process's clock
	tx       *Tx       // the transaction in which the batch is acknowledged, if it is open
	inHand   *task
	taken    int // how many of the holds, from the first on, tx has reclaimed
	outcomes []backend.Outcome
	current  backend.Outcome // of the hold in hand, so far
	over     bool
	broken   error // the transaction is lost
	torn     bool  // one that it had may be open on the server yet

	point   bool // a savepoint stands in tx
	dirty   bool // a handler that succeeded has written since
	writers int  // handlers that wrote
	points  int  // savepoints that tx has had
	ended   []ID // conversations that handlers ended

	handled, failed int // messages
	fenced          int // messages that were handled, and lost with their lease
	disable         bool
	timer           *time.Timer
	spent           bool        // its claim left nothing
	brief           bool        // it counts in w.brief; w.mu guards it
	relief          *time.Timer // starts a reader if the batch is not over soon
}

// begin makes a batch of what was claimed. start is a time before the claim.
func (t *batch) begin(c backend.Claim, start time.Time, asked int) {
	t.holds, t.more, t.asked, t.groups = c.Holds, c.More, asked, len(c.Holds)
	t.until = start.Add(t.w.opt.Lease)
	t.budget = t.w.within(t.s.pace.budget())
	for _, h := range t.holds {
		t.messages += len(h.Messages)
	}
	t.ctx, t.lost = context.WithCancelCause(t.w.work)
	t.slot = t.w.slot()
	t.w.mu.Lock()
	t.w.batches[t] = struct{}{}
	t.w.mu.Unlock()
}

// singleTime is how long a single group is held in a transaction. Beyond that, servers
// and proxies may end the transaction as idle, and others may need its connection.
const singleTime = time.Second

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
		t.timer = time.AfterFunc(t.w.within(max(t.budget, singleTime)), t.overdue)
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
	err := t.broken
	if err == nil {
		err = t.settle(next)
	}
	took := end.Sub(t.started)
	settledSuspect := t.isolated && t.handled > 0 || t.charged != nil
	t.mu.Unlock()
	t.release()
	if err == nil {
		if settledSuspect {
			t.acquit()
		}
		t.w.works(true)
	}
	settled := time.Since(end)
	t.s.pace.did(paced{
		asked: t.asked, more: t.more, groups: t.groups, messages: t.messages, handled: t.handled + t.failed,
		took: took, cost: t.claimed + settled, full: t.points >= maxPoints,
	})
	t.report(next, settled, err)
	if err != nil {
		t.recover(next, err)
	}
	if t.disable {
		t.w.disable(t.s.name)
	}
	t.w.redo(t.s, t.suspects)
}

// full reports whether no further group is to be begun.
func (t *batch) full(next int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case next >= len(t.holds), t.broken != nil, t.disable, t.ctx.Err() != nil:
		return true
	case next == 0:
		return false
	}
	return t.w.pausing() || t.w.stop.Err() != nil || t.points >= maxPoints || t.late()
}

// enough reports whether the rest of a group is to be left for another batch.
func (t *batch) enough() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.w.pausing() || t.w.stop.Err() != nil || t.points >= maxPoints || t.late()
}

// late reports whether the batch has had its time. t.mu is held.
func (t *batch) late() bool { return time.Since(t.started) > t.budget }

// waited gives a batch more time, for the while in which it waited for the store:
// where there is a single writer, whoever it gave its groups back to would have
// to wait as well. t.mu is held.
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
	all := messagesOf(h, t)
	switch {
	case t.postponed > 0:
		t.current.Defer = t.postponed
	case t.w.all != nil:
		t.attempt(all)
	default:
		for i := range all {
			if i > 0 && t.enough() {
				break
			}
			if t.hasEnded(all[i].Conversation) {
				continue // END has removed it
			}
			if !t.attempt(all[i : i+1]) {
				break
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken == nil {
		t.outcomes = append(t.outcomes, t.current)
	}
	return t.at + 1 // overdue may have parted with all holds but this one
}

func (t *batch) outcome(h *backend.Hold) backend.Outcome {
	return backend.Outcome{Hold: h, Retain: t.queue.Retention, Keep: t.queue.KeepProcessed}
}

func (t *batch) hasEnded(conversation ID) bool {
	if conversation.IsZero() {
		return false
	}
	for _, h := range t.ended {
		if h == conversation {
			return true
		}
	}
	return false
}

// attempt calls the handler and reports whether the group goes on behind it.
func (t *batch) attempt(messages []*Message) bool {
	m := messages[0]
	start := time.Now()
	ctx := t.hold(messages)
	err := t.charged
	if err == nil {
		err = t.w.strikes.due(m.ID)
	}
	if err == nil {
		err = guarded(func() error {
			if t.w.all != nil {
				return t.w.all.HandleGroup(ctx, messages)
			}
			return t.w.h.HandleMessage(ctx, m)
		})
	}
	kept := t.letGo(err)
	e := HandleEvent{Queue: t.s.name, Type: m.Type, Attempt: m.Attempt, Took: time.Since(start), Age: start.Sub(m.Enqueued), Err: err}
	t.w.opt.Observer.Handled(e)
	if !kept {
		return false
	}
	if err == nil {
		t.w.did(t.s.name, m.Group, nil)
		t.handled += len(messages)
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, m := range messages {
			t.current.Done = append(t.current.Done, m.raw)
		}
		return true
	}
	t.failed++
	collided := t.messages > 1 && t.w.b.is(err, ErrSerialization)
	if collided {
		t.s.pace.collided()
	}
	switch {
	case t.w.opt.Release == BeforeWork:
		t.w.b.log.Error("parley: a message that had been released failed and is lost", "event", "message.lost", "queue", t.s.name,
			"type", m.Type, "message", m.ID.String(), "error", firstLine(errorText(err)))
		return true
	case t.ctx.Err() != nil:
		return false // it was interrupted: given back, no failure of its own
	case collided: // it lost because of the batch: at once alone, where a failure is its own
		t.suspects = append(t.suspects, m.Group)
		return false
	}
	return t.condemn(m, err)
}

// condemn carries out what is to become of a message that failed, and reports
// whether its group goes on behind it.
func (t *batch) condemn(m *Message, err error) bool {
	w := t.w
	r := w.rule(t.ctx, t.s.name, m, err)
	if r.failed {
		t.w.did(t.s.name, m.Group, err)
	} else if w.slump.active.Load() {
		t.w.did(t.s.name, m.Group, nil) // it has decided, so that it works
	}
	text, reason := errorText(r.err), reasonText(errorText(r.err), "")
	failure := &backend.Failure{Message: m.raw, Attempts: r.attempts, Suspicion: m.raw.Suspicion - t.traced[m.ID], Error: text}
	if errors.Is(err, ErrDeadly) {
		failure.Suspicion = 0 // if it is tried again, that is a new chance
	}
	log := w.b.log.Info
	if r.final {
		log = w.b.log.Error
		w.opt.Observer.Poisoned(PoisonEvent{Queue: t.s.name, Type: m.Type, ID: m.ID, Group: m.Group, Action: r.action, Err: err})
	}
	log("parley: a message failed", append(stackOf(err), "event", "message.failed", "queue", t.s.name, "type", m.Type, "message", m.ID.String(),
		"group", m.Group.String(), "attempt", m.Attempt, "action", r.action.String(), "after", r.after, "error", reason)...)

	if r.action == ActionEndWithError && (m.Conversation.IsZero() || !t.end(m, r.code, reason)) {
		r.action = ActionDeadLetter
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	o := &t.current
	o.Failure = failure
	switch r.action {
	case ActionRetry:
		o.Defer = r.after
	case ActionPark:
		o.Park = reason
	case ActionDisableQueue:
		t.disable = true
		o.Defer = time.Second // nobody else shall try it before that is done
	case ActionDeadLetter, ActionEndWithError:
		o.Failure = nil
		dead := *m.raw
		dead.Attempts, dead.LastError = r.attempts, text
		o.Dead = append(o.Dead, backend.DeadLetter{Message: &dead, Reason: reason})
		return true
	}
	return false
}

// end ends the conversation of a message with an error, and reports whether it
// could.
func (t *batch) end(m *Message, code int, text string) bool {
	t.hold([]*Message{m})
	c, err := m.On(t.ctx)
	if err == nil {
		err = c.EndWithError(t.ctx, code, text)
	}
	kept := t.letGo(err)
	if err != nil {
		t.w.b.log.Warn("parley: a conversation could not be ended", "event", "conversation.end", "conversation", m.ConversationID.String(), "error", err)
	}
	return err == nil && kept
}

// done ends the batch, whatever has become of it.
func (t *batch) done() {
	for _, timer := range []*time.Timer{t.timer, t.relief} {
		if timer != nil {
			timer.Stop()
		}
	}
	t.w.long(t)
	t.lost(nil)
	t.mu.Lock()
	t.dismiss()
	t.mu.Unlock()
	t.release()
	t.w.takeBack(t.slot)
	t.w.mu.Lock()
	delete(t.w.batches, t)
	t.w.mu.Unlock()
}

// cancel ends a batch that is not run after all.
func (t *batch) cancel() {
	t.exit()
	t.done()
}

// report tells the observer.
func (t *batch) report(next int, took time.Duration, err error) {
	e := SettleEvent{Queue: t.s.name, Groups: len(t.holds), Failed: t.failed, Returned: len(t.holds) - next, Took: took, Err: err}
	if err == nil {
		e.Done, e.Lost = t.handled-t.fenced, t.fenced
	}
	t.w.opt.Observer.Settled(e)
}
