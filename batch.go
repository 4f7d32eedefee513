package parley

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

	slot      ID // of its record
	attended  bool
	traces    []backend.Trace // of receivers that died with what is in hand
	suspects  []ID            // groups to be handled alone, afterwards
	isolated  bool            // it is a suspect, and the worker's only one
	postponed time.Duration   // it is a suspect that has to wait

	ctx      context.Context // of handlers
	lost     context.CancelCauseFunc
	asked    int // messages
	groups   int // that were claimed
	messages int // in them

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

	point   bool // a savepoint stands in tx
	dirty   bool // a handler that succeeded has written since
	writers int  // handlers that wrote
	ended   []ID // conversations that handlers ended

	handled, failed int // messages
	disable         bool
	timer           *time.Timer
}

// task is a call of a handler.
type task struct {
	messages []*Message
	tx       *Tx // what the handler writes in, if it has asked for it
}

// batchPoint is the savepoint before the work of a handler in a batch.
const batchPoint = "parley_batch_work"

// maxWriters is how many savepoints a transaction may have had: more of them
// cost everybody on PostgreSQL, which keeps 64 subtransactions of each at hand.
const maxWriters = 50

// begin makes a batch of what was claimed. start is a time before the claim.
func (t *batch) begin(holds []*backend.Hold, start time.Time, asked int) {
	t.holds, t.asked, t.groups = holds, asked, len(holds)
	t.until = start.Add(t.w.opt.Lease)
	for _, h := range holds {
		t.messages += len(h.Messages)
	}
	t.ctx, t.lost = context.WithCancelCause(t.w.work)
	t.slot = t.w.slot()
	t.w.mu.Lock()
	t.w.batches[t] = struct{}{}
	t.w.mu.Unlock()
}

// run handles the batch and settles it.
func (t *batch) run() {
	defer func() {
		t.exit()
		t.done()
	}()
	t.mu.Lock()
	t.started = time.Now()
	if len(t.holds) > 1 {
		t.timer = time.AfterFunc(t.w.opt.BatchTime, t.overdue)
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
	t.mu.Unlock()
	t.release()
	if err == nil {
		t.acquit()
	}
	t.s.pace.did(t.asked, t.groups, t.messages, t.handled+t.failed, took)
	t.report(next, time.Since(end), err)
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
	return t.w.stop.Err() != nil || t.writers >= maxWriters || t.late()
}

// enough reports whether the rest of a group is to be left for another batch.
func (t *batch) enough() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.w.stop.Err() != nil || t.writers >= maxWriters || t.late()
}

// late reports whether the batch has had its time. t.mu is held.
func (t *batch) late() bool { return time.Since(t.started) > t.w.opt.BatchTime }

// waited gives a batch more time, for the while in which it waited for the store:
// where there is a single writer, whoever it gave its groups back to would have
// to wait as well. t.mu is held.
func (t *batch) waited(d time.Duration) {
	t.started = t.started.Add(d)
	if t.timer != nil {
		t.timer.Reset(t.w.opt.BatchTime - time.Since(t.started))
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
	t.hold(messages)
	err := t.charged
	if err == nil {
		err = guarded(func() error {
			if t.w.all != nil {
				return t.w.all.HandleGroup(t.ctx, messages)
			}
			return t.w.h.HandleMessage(t.ctx, m)
		})
	}
	kept := t.letGo(err)
	e := HandleEvent{Queue: t.s.name, Type: m.Type, Attempt: m.Attempt, Took: time.Since(start), Age: start.Sub(m.Enqueued), Err: err}
	t.w.opt.Observer.Handled(e)
	if !kept {
		return false
	}
	if err == nil {
		t.handled += len(messages)
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, m := range messages {
			t.current.Done = append(t.current.Done, m.raw)
		}
		return true
	}
	t.failed++
	switch {
	case t.w.opt.Release == BeforeWork:
		t.w.b.log.Error("parley: a message that had been released failed and is lost", "event", "message.lost", "queue", t.s.name,
			"type", m.Type, "message", m.ID.String(), "error", firstLine(err.Error()))
		return true
	case t.ctx.Err() != nil:
		return false // it was interrupted: given back, no failure of its own
	}
	return t.condemn(m, err)
}

// condemn carries out what is to become of a message that failed, and reports
// whether its group goes on behind it.
func (t *batch) condemn(m *Message, err error) bool {
	w := t.w
	r := w.rule(t.ctx, t.s.name, m, err)
	text := asText(clip(err.Error(), maxErrorText))
	failure := &backend.Failure{Message: m.raw, Attempts: r.attempts, Suspicion: m.raw.Suspicion - t.traced(m.raw), Error: text}
	if errors.Is(err, ErrDeadly) {
		failure.Suspicion = 0 // if it is tried again, that is a new chance
	}
	log := w.b.log.Info
	if r.final {
		log = w.b.log.Error
		w.opt.Observer.Poisoned(PoisonEvent{Queue: t.s.name, Type: m.Type, ID: m.ID, Group: m.Group, Action: r.action, Err: err})
	}
	log("parley: a message failed", "event", "message.failed", "queue", t.s.name, "type", m.Type, "message", m.ID.String(),
		"group", m.Group.String(), "attempt", m.Attempt, "action", r.action.String(), "after", r.after, "error", firstLine(text))

	if r.action == ActionEndWithError && (m.Conversation.IsZero() || !t.end(m, r.code, text)) {
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
		o.Park = firstLine(text)
	case ActionDisableQueue:
		t.disable = true
		o.Defer = time.Second // nobody else shall try it before that is done
	case ActionDeadLetter, ActionEndWithError:
		o.Failure = nil
		dead := *m.raw
		dead.Attempts, dead.LastError = r.attempts, text
		o.Dead = append(o.Dead, backend.DeadLetter{Message: &dead, Reason: firstLine(text)})
		return true
	}
	return false
}

// maxErrorText is how much of an error is kept, stack and all.
const maxErrorText = 8000

func clip(s string, n int) string {
	if len(s) > n {
		s = s[:n] + " …"
	}
	return s
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return clip(s, 1000)
}

// end ends the conversation of a message with an error, and reports whether it
// could.
func (t *batch) end(m *Message, code int, text string) bool {
	t.hold([]*Message{m})
	text = strings.TrimSpace(firstLine(text))
	if text == "" {
		text = "the message could not be handled"
	}
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

// hold notes that a handler is called for messages.
func (t *batch) hold(messages []*Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inHand = &task{messages: messages}
}

// letGo ends a call: what the handler wrote stays if it succeeded and is undone
// otherwise. It reports whether the batch can go on.
func (t *batch) letGo(err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	tx := t.inHand.tx
	t.inHand = nil
	if tx == nil || t.broken != nil {
		return t.broken == nil
	}
	over := tx.broken
	tx.broken = ErrTxDone // whoever keeps it must not write among the next one's
	if err == nil && over == nil {
		t.dirty = true
		t.merge(tx)
		return true
	}
	if t.w.opt.Isolation == IsolateBatch {
		if t.writers > 1 || !t.alone {
			t.broken = errors.Join(errUndo, err)
			return false
		}
	}
	ctx, cancel := cleanup(t.ctx)
	defer cancel()
	if !t.point {
		t.broken = errors.Join(errUndo, err)
		return false
	}
	if e := tx.be.RollbackTo(ctx, batchPoint); e != nil {
		t.broken = errors.Join(err, e)
		return false
	}
	return true
}

var errReleased = fmt.Errorf("it was released before the work: %w", ErrSettled)

// errUndo: a handler failed, and what it wrote cannot be undone by itself.
var errUndo = errors.New("the batch is undone")

// merge has the batch take over what is to be done after the commit.
func (t *batch) merge(tx *Tx) {
	for q := range tx.touched {
		t.tx.touch(q)
	}
	if tx.sooner > 0 {
		t.tx.soon(tx.sooner)
	}
	t.ended = append(t.ended, tx.ended...)
	if tx.cat != nil {
		t.tx.cat = tx.cat
	}
}

// txFor implements receiver: the transaction in which the batch is acknowledged,
// with a savepoint before what this handler does.
func (t *batch) txFor(ctx context.Context, m *Message) (*Tx, error) {
	tx, err := t.open(ctx, m)
	return tx, fail("transaction of message", m.ID.String(), err)
}

func (t *batch) open(ctx context.Context, m *Message) (*Tx, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.w.opt.Release == BeforeWork {
		return nil, errReleased
	}
	if t.over || t.inHand == nil || !t.inHand.has(m) {
		return nil, ErrSettled
	}
	if t.broken != nil {
		return nil, t.broken
	}
	if t.inHand.tx != nil {
		return t.inHand.tx, nil
	}
	if err := context.Cause(t.ctx); err != nil {
		return nil, err
	}
	if t.tx == nil {
		// All of them, before the first savepoint: what is locked behind one is free
		// again when it is rolled back to.
		begun := time.Now()
		err := t.reclaim(ctx, t.holds)
		t.waited(time.Since(begun))
		if err != nil {
			if errors.Is(err, ErrFenced) {
				t.broken = err
			}
			return nil, err
		}
		t.taken = len(t.holds)
	}
	if err := t.mark(ctx); err != nil {
		return nil, err
	}
	t.writers++
	t.inHand.tx = &Tx{b: t.w.b, be: t.tx.be, held: []ID{t.holds[t.at].Group}}
	return t.inHand.tx, nil
}

func (k *task) has(m *Message) bool {
	for _, x := range k.messages {
		if x == m {
			return true
		}
	}
	return false
}

// mark sets the savepoint before a handler's work. One that nothing was written
// behind serves again.
func (t *batch) mark(ctx context.Context) error {
	if t.w.opt.Isolation == IsolateBatch && !t.alone {
		return nil
	}
	be := t.tx.be
	switch {
	case !t.point:
		if err := be.Savepoint(ctx, batchPoint); err != nil {
			return err
		}
	case t.dirty:
		if err := be.Resave(ctx, batchPoint); err != nil {
			return err
		}
	}
	t.point, t.dirty = true, false
	return nil
}

// reclaim opens the batch's transaction over leased groups.
func (t *batch) reclaim(ctx context.Context, holds []*backend.Hold) error {
	tx, err := t.w.b.begin(ctx)
	if err != nil {
		return err
	}
	if err := tx.be.Reclaim(ctx, holds); err != nil {
		tx.rollback(ctx)
		return err
	}
	t.tx = tx
	return nil
}

// settle acknowledges what was handled, gives back the groups from next on, and
// commits. t.mu is held.
func (t *batch) settle(next int) error {
	ctx, cancel := cleanup(t.ctx)
	defer cancel()
	if t.w.opt.Release == BeforeWork {
		return nil
	}
	outcomes := t.outcomes
	if t.lease {
		for _, h := range t.holds[next:] {
			outcomes = append(outcomes, backend.Outcome{Hold: h})
		}
	}
	if t.tx == nil {
		err := t.reclaim(ctx, t.holds)
		if errors.Is(err, ErrFenced) {
			return t.settleEach(ctx, outcomes)
		}
		if err != nil {
			return err
		}
	}
	return t.commit(ctx, outcomes)
}

func (t *batch) commit(ctx context.Context, outcomes []backend.Outcome) error {
	return t.settleIn(ctx, outcomes, nil)
}

// settleIn carries out outcomes in the open transaction and commits. One of the
// holds may be kept on by lease.
func (t *batch) settleIn(ctx context.Context, outcomes []backend.Outcome, keep *backend.Hold) error {
	tx := t.tx
	t.tx, t.taken = nil, 0
	if t.point {
		// It also finds out whether the engine has given up the transaction without
		// the handler telling.
		t.point = false
		if err := tx.be.Release(ctx, batchPoint); err != nil {
			tx.rollback(ctx)
			return err
		}
	}
	var err error
	if t.attended && (keep != nil || t.isolated || t.leaves(outcomes)) {
		// What is given back is not in hand any more. A message that is gone may
		// stay in the record, which the next batch replaces.
		err = tx.be.PutDown(ctx, t.slot)
	}
	if err == nil {
		_, err = tx.be.Settle(ctx, outcomes)
	}
	if err == nil && keep != nil {
		err = tx.be.Keep(ctx, keep, t.w.opt.Lease, t.w.b.opt.Owner)
	}
	if err == nil {
		err = tx.commit(ctx)
	}
	if err != nil {
		tx.rollback(ctx)
		return err
	}
	if keep != nil {
		t.attended = false
	}
	for _, o := range outcomes {
		if o.Defer > 0 {
			t.w.b.duties.within(o.Defer)
		}
	}
	for _, o := range outcomes {
		if len(o.Done)+len(o.Dead) < len(o.Hold.Messages) || o.Hold.Messages[0].Stream != o.Hold.Group {
			t.w.b.hub.wake(t.queue.ID) // there may be more in the group
			break
		}
	}
	return nil
}

// leaves reports whether something is given back that is on the batch's record.
func (t *batch) leaves(outcomes []backend.Outcome) bool {
	if len(outcomes) < len(t.holds) {
		return true
	}
	for _, o := range outcomes {
		if len(o.Done) == 0 { // the record has the first message only
			return true
		}
	}
	return false
}

// settleEach settles groups one by one: some of the leases are lost, and what
// was in them comes again. Nothing has been written.
func (t *batch) settleEach(ctx context.Context, outcomes []backend.Outcome) error {
	var first error
	for _, o := range outcomes {
		err := t.reclaim(ctx, []*backend.Hold{o.Hold})
		if err == nil {
			err = t.commit(ctx, []backend.Outcome{o})
		}
		if err != nil && !errors.Is(err, ErrFenced) && first == nil {
			first = err
		}
	}
	return first
}

// recover sees to a batch that could not be settled: its groups are given back
// and handled again, one at a time. Alone already, the message pays for what its
// handler did to the transaction.
func (t *batch) recover(next int, err error) {
	wrote := t.writers > 0
	t.mu.Lock()
	t.putDown()
	t.undo()
	holds := t.holds
	t.giveBack(holds)
	t.mu.Unlock()
	t.s.pace.halve()
	if t.w.b.check() != nil || t.ctx.Err() != nil {
		return
	}
	t.w.b.log.Warn("parley: a batch could not be committed", "event", "batch.failed", "queue", t.s.name, "groups", len(holds), "error", err)
	switch {
	case !t.alone:
		groups := make([]ID, 0, len(holds))
		for i, h := range holds {
			if i < max(next, 1) {
				groups = append(groups, h.Group)
			}
		}
		t.w.redo(t.s, groups)
	case wrote && t.charged == nil && !errors.Is(err, ErrFenced):
		t.w.charge(t.s, messagesOf(holds[0], t)[0], err)
	default:
		sleep(t.w.stop, jitter(transientPause)) // the store's own trouble
	}
}

// undo rolls the batch's transaction back. t.mu is held.
func (t *batch) undo() {
	if t.tx != nil {
		t.tx.rollback(t.ctx)
	}
	t.tx, t.taken, t.point, t.dirty = nil, 0, false, false
}

// giveBack ends leases of groups that were not settled. If it cannot, they end by
// themselves. t.mu is held.
func (t *batch) giveBack(holds []*backend.Hold) {
	if !t.lease {
		return
	}
	ctx, cancel := cleanup(t.ctx)
	defer cancel()
	for _, h := range holds {
		for range 3 { // what may have failed already, fails again
			err := t.reclaim(ctx, []*backend.Hold{h})
			if err == nil {
				err = t.commit(ctx, []backend.Outcome{{Hold: h}})
			}
			if err == nil || errors.Is(err, ErrFenced) || t.w.b.check() != nil {
				break
			}
		}
	}
}

// overdue is called when a batch has taken its time. If its handler at work has
// not asked for the transaction, it goes on by lease, and the others are settled
// or given back now.
func (t *batch) overdue() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || t.broken != nil || t.inHand == nil || t.inHand.tx != nil || t.w.opt.Release == BeforeWork {
		return
	}
	ctx, cancel := cleanup(t.ctx)
	defer cancel()
	if err := t.part(ctx); err != nil {
		t.broken = err
		t.lost(err)
		return
	}
	t.w.nudge()
	t.w.spawn(0, false)
}

// part settles what has been handled, gives back what has not, and keeps the
// hold in hand by lease. t.mu is held.
func (t *batch) part(ctx context.Context) error {
	mine := t.holds[t.at]
	outcomes := append(t.outcomes, t.current)
	if t.lease {
		for _, h := range t.holds[t.at+1:] {
			outcomes = append(outcomes, backend.Outcome{Hold: h})
		}
	}
	if t.tx == nil {
		if err := t.reclaim(ctx, t.holds); err != nil {
			return err
		}
	}
	now := time.Now()
	if err := t.settleIn(ctx, outcomes, mine); err != nil {
		return err
	}
	t.holds, t.at, t.outcomes, t.current = []*backend.Hold{mine}, 0, nil, t.outcome(mine)
	t.lease, t.until = true, now.Add(t.w.opt.Lease)
	t.dirty, t.writers = false, 0
	return nil
}

// leased returns the holds that live by heartbeats.
func (t *batch) leased() []*backend.Hold {
	if !t.mu.TryLock() { // a transaction is being opened or ended
		return nil
	}
	defer t.mu.Unlock()
	if !t.lease || t.over || t.broken != nil {
		return nil
	}
	return t.holds[t.taken:]
}

// extended takes note of a heartbeat that was sent at a time.
func (t *batch) extended(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = at.Add(t.w.opt.Lease)
}

// expire ends the batch if its leases have run out.
func (t *batch) expire(now time.Time) {
	t.mu.Lock()
	over := now.After(t.until)
	t.mu.Unlock()
	if over {
		t.lose()
	}
}

// lose tells the handler at work that its lease was lost.
func (t *batch) lose() {
	t.lost(&Error{Op: "heartbeat", Object: objQueue(t.s.name), Err: ErrFenced, Hint: "the lease was lost: the messages will be delivered again"})
}

// abandon gives a batch back whose handler does not return.
func (t *batch) abandon() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	t.over = true
	if t.inHand != nil && t.inHand.tx != nil {
		t.inHand.tx.broken = ErrTxDone
	}
	t.broken = ErrStopped
	t.putDown()
	t.undo()
	t.giveBack(t.holds)
}

// exit gives a batch back whose handler ended the goroutine.
func (t *batch) exit() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	t.over = true
	t.putDown()
	t.undo()
	t.giveBack(t.holds)
}

// done ends the batch, whatever has become of it.
func (t *batch) done() {
	if t.timer != nil {
		t.timer.Stop()
	}
	t.lost(nil)
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
		e.Done = t.handled
	}
	t.w.opt.Observer.Settled(e)
}
