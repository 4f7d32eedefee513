package parleytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// Outcome is the outcome of a message that a worker has handled.
type Outcome int

// The outcomes.
const (
	Acknowledged  Outcome = iota + 1 // it is gone, and what the handler wrote in Message.Tx is committed
	Retried                          // the attempt has failed and counts; it comes again after Result.Retry
	Deferred                         // it comes again after Result.Retry, and the attempt does not count
	Parked                           // its group waits for Admin.Unpark
	DeadLettered                     // it is a dead letter
	EndedInError                     // its conversation was ended with an error
	QueueDisabled                    // its queue was disabled
	NotCommitted                     // its commit failed; it comes again, unless Result.Committed
	LeaseLost                        // its lease was lost before it was acknowledged; it comes again
	Released                         // it was released before the work (BeforeWork), and its handler failed
)

func (o Outcome) String() string {
	names := [...]string{"none", "acknowledged", "retried", "deferred", "parked", "dead letter",
		"conversation ended in error", "queue disabled", "not committed", "lease lost", "released"}
	return names[max(0, min(int(o), len(names)-1))]
}

// Result describes the outcome of a message that a worker has handled.
type Result struct {
	Outcome Outcome
	// Message is what the handler got, the first message of a GroupHandler. Nil means that no handler was called.
	Message *parley.Message
	// Err is what the handler returned, or a *parley.PanicError, and why its work was not committed.
	Err error
	// Committed: what the handler wrote in Message.Tx is committed. Sent is what it posted and sent there, in order, or
	// what the worker sent to end the conversation in error. Ended are the sides of conversations that were ended.
	Committed bool
	Sent      []Sent
	Ended     []parley.ID
	Attempts  int           // that have failed and count
	Retry     time.Duration // after which the next attempt comes
	Reason    string        // that operators see of a parked group, or of a dead letter
}

func (r Result) String() string {
	s := r.Outcome.String()
	if r.Retry > 0 {
		s += fmt.Sprintf(" in %v, attempts: %d", r.Retry.Round(time.Millisecond), r.Attempts)
	}
	if r.Err != nil {
		s += ": " + r.Err.Error()
	}
	return s + list("\n", r.Sent)
}

// Handle puts a message into the store and lets a worker handle it as in production, with a transaction and the
// worker's decision about failures. It does not add a post whose ID is already in the store. So another Handle of the
// same message tests a handler's idempotence, or a retry.
//
// Handle uses these fields of the message: Type, Body and Headers; Attempt, LastError and Errors, as if it had failed
// before; of a post Queue, Key, Priority and ID. A message on a conversation has Conversation, the handle of the side that
// receives, or, for a new one, Service, FarService and Contract: FarService begins it. Type may be EndDialog,
// ErrorMessageType or DialogTimer.
func (k *Kit) Handle(h parley.Handler, m *parley.Message) Result {
	k.t.Helper()
	p := k.put(m)
	return k.one(h, &run{single: true, place: p})
}

// Work makes a worker handle the next message of a queue.
func (k *Kit) Work(h parley.Handler, queue string) Result {
	k.t.Helper()
	return k.one(h, &run{single: true, place: place{queue: queue}})
}

func (k *Kit) one(h parley.Handler, r *run) Result {
	k.t.Helper()
	k.due()
	k.work(k.ctx, r, h, r.queue)
	if len(r.claimed) == 0 {
		why := ""
		if r.other != nil {
			why = fmt.Sprintf(": message %s, %s, is before it", r.other.ID, r.other.Type)
		}
		k.t.Fatalf("parleytest: no message of queue %q can be handled%s%s", r.queue, why, dump(k.Posted(r.queue)))
	}
	return k.result(r)
}

// Drain makes a worker handle messages of the queues until none is due, and returns how many it has handled, each
// attempt counted. Messages that wait for a later time stay. If there are more than DrainLimit, the test ends.
func (k *Kit) Drain(ctx context.Context, h parley.Handler, queues ...string) int {
	k.t.Helper()
	if len(queues) == 0 {
		k.t.Fatalf("parleytest: Drain: name the queues")
	}
	r := &run{limit: k.limit}
	for again := true; again; {
		before := r.handled
		moved := k.due()
		k.work(ctx, r, h, queues...)
		again = moved || r.handled > before
		if ctx.Err() != nil {
			k.t.Fatalf("parleytest: Drain: after %d messages: %v", r.handled, context.Cause(ctx))
		}
		if r.other != nil {
			k.t.Fatalf("parleytest: Drain: after %d messages there are more: does a handler post to its own queue, "+
				"or fail without a pause?%s", r.handled, r.last())
		}
	}
	return r.handled
}

type runKey struct{}     // for the run in the context of a worker
type handlerKey struct{} // marks the context of a handler

// run is one or more messages that the kit has a worker handle.
type run struct {
	place         // of the only message that it may have
	single bool   // it may have one
	limit  int    // else how many are handled
	stop   func() // ends the worker

	mu        sync.Mutex
	claimed   []*backend.Message
	handled   int
	other     *backend.Message // which it may not have
	message   *parley.Message  // the first one, in the handler's hands
	err       error            // that the handler returned
	action    parley.Action    // on a message that could not be handled
	result    Result           // as far as the store tells
	unsettled error            // why the batch was not settled
	lost      bool             // its lease
}

func runOf(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	return r
}

// work runs a worker until it finds nothing more.
func (k *Kit) work(ctx context.Context, r *run, h parley.Handler, queues ...string) {
	k.t.Helper()
	o := k.worker
	o.Also = queues[1:]
	if o.Observer == nil {
		o.Observer = parley.NopObserver{}
	}
	o.Observer = &observer{o.Observer, r}
	if r.single {
		o.MaxReaders, o.MaxBatch, o.Isolation = 1, 1, parley.IsolateEach // as if it was alone in its batch
	}
	if k.store.losesLease() {
		o.Hold = parley.HoldLease
	}
	ctx, r.stop = context.WithCancel(context.WithValue(ctx, runKey{}, r))
	defer r.stop()
	worker, err := k.Broker.NewWorker(queues[0], watch(h, r), &o)
	k.must("make a worker", err)
	k.must("run a worker", worker.Drain(ctx))
}

// watch is a handler as the kit sees it.
func watch(h parley.Handler, r *run) parley.Handler {
	begin := func(ctx context.Context, all ...*parley.Message) context.Context {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.handled += len(all)
		if r.message == nil {
			r.message = all[0]
		}
		return context.WithValue(ctx, handlerKey{}, true)
	}
	switch g, ok := h.(parley.GroupHandler); {
	case h == nil:
		return nil
	case ok:
		return parley.GroupFunc(func(ctx context.Context, all []*parley.Message) error {
			return g.HandleGroup(begin(ctx, all...), all)
		})
	}
	return parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		return h.HandleMessage(begin(ctx, m), m)
	})
}

// take reports whether the run may have what was claimed.
func (r *run) take(c *backend.Claim) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*backend.Message
	for _, h := range c.Holds {
		all = append(all, h.Messages...)
	}
	enough := r.single && len(r.claimed) > 0 || !r.single && r.handled >= r.limit
	if len(all) > 0 && (enough || !r.is(all[0])) {
		r.other = all[0]
		return false
	}
	r.claimed = append(r.claimed, all...)
	return true
}

// last shows the last messages.
func (r *run) last() string {
	var all []Sent
	for _, m := range r.claimed[max(len(r.claimed)-3, 0):] {
		all = append(all, Sent{Message: &parley.Message{Type: m.Type, Body: m.Body, Key: m.Key, Attempt: m.Attempts + 1}})
	}
	return list("\nThe last ones were:\n", all)
}

// first reports whether a message is the run's first one.
func (r *run) first(id parley.ID) bool { return len(r.claimed) > 0 && r.claimed[0].ID == id }

// fenced takes note of leases that are lost.
func (r *run) fenced(holds []*backend.Hold) {
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, h := range holds {
			if len(h.Messages) > 0 && r.first(h.Messages[0].ID) {
				r.lost = true
				r.enough()
			}
		}
	}
}

// settled takes note of the end of a transaction that may have settled the run's first message.
func (r *run) settled(t *watched, committed bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range t.outcome {
		if v := r.became(o); v.Outcome != 0 && r.result.Outcome == 0 {
			if committed {
				v.Committed, v.Ended = v.Outcome == Acknowledged, t.ended
				for _, s := range t.sent {
					v.Sent = append(v.Sent, s.copy())
				}
				r.result = v
			}
			r.enough()
		}
	}
}

// enough ends the worker of a run for a single message.
func (r *run) enough() {
	if r.single {
		r.stop()
	}
}

// became tells what an outcome makes of the run's first message: nothing, if that is only given back.
func (r *run) became(o backend.Outcome) Result {
	is := func(m *backend.Message) bool { return r.first(m.ID) }
	dead := slices.IndexFunc(o.Dead, func(d backend.DeadLetter) bool { return is(d.Message) })
	v := Result{Retry: o.Defer, Reason: o.Park}
	switch failed := o.Failure != nil && is(o.Failure.Message); {
	case slices.ContainsFunc(o.Done, is):
		return Result{Outcome: Acknowledged}
	case dead >= 0:
		v.Outcome, v.Reason, v.Attempts = DeadLettered, o.Dead[dead].Reason, o.Dead[dead].Message.Attempts
	case !failed:
		return v
	case o.Park != "":
		v.Outcome, v.Attempts = Parked, o.Failure.Attempts
	case o.Failure.Attempts > o.Failure.Message.Attempts:
		v.Outcome, v.Attempts = Retried, o.Failure.Attempts
	default:
		v.Outcome, v.Attempts = Deferred, o.Failure.Attempts
	}
	return v
}

// result puts together what came of a run's first message.
func (k *Kit) result(r *run) Result {
	k.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.result
	v.Message, v.Err = r.message, errors.Join(r.err, r.unsettled)
	consumed := k.worker.Release == parley.BeforeWork
	switch {
	case v.Outcome == 0 && r.lost && (r.unsettled == nil || errors.Is(r.unsettled, parley.ErrFenced)):
		v.Outcome, v.Err = LeaseLost, errors.Join(v.Err, parley.ErrFenced)
	case r.unsettled != nil:
		v.Outcome = NotCommitted
	case v.Outcome == 0 && consumed && r.err == nil:
		v.Outcome = Acknowledged
	case v.Outcome == 0 && consumed:
		v.Outcome = Released
	case v.Outcome == 0:
		v.Outcome = NotCommitted
	case r.action == parley.ActionEndWithError && !r.claimed[0].Handle.IsZero():
		v.Outcome = EndedInError
	case r.action == parley.ActionDisableQueue:
		v.Outcome, v.Retry = QueueDisabled, 0
	}
	for _, s := range v.Sent {
		s.Queue = k.queueName(s.queue)
	}
	return v
}

// observer hears what a worker of the kit does.
type observer struct {
	parley.Observer
	r *run
}

func (o *observer) Handled(ctx context.Context, e parley.HandleEvent) {
	o.r.mu.Lock()
	if o.r.first(e.ID) && o.r.err == nil {
		o.r.err = e.Err
	}
	o.r.mu.Unlock()
	o.Observer.Handled(ctx, e)
}

func (o *observer) Settled(ctx context.Context, e parley.SettleEvent) {
	o.r.mu.Lock()
	o.r.unsettled = e.Err
	o.r.mu.Unlock()
	o.Observer.Settled(ctx, e)
}

func (o *observer) Poisoned(ctx context.Context, e parley.PoisonEvent) {
	o.r.mu.Lock()
	if o.r.first(e.ID) {
		o.r.action = e.Action
	}
	o.r.mu.Unlock()
	o.Observer.Poisoned(ctx, e)
}
