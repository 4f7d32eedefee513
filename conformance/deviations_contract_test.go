package conformance

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
)

// contractDeviations are for the checks of checks_contract.go.
var contractDeviations = []*deviation{
	{id: "B01", says: "a timer of an unknown handle is set", by: unknownHandles,
		swallows: map[string]error{"SetTimer": backend.ErrNoConversation}},
	{id: "B01", says: "a notice to an unknown handle is no error", by: unknownHandles,
		swallows: map[string]error{"Notice": backend.ErrNoConversation}},
	{id: "B01", says: "messages withheld by an unknown handle are delivered", by: unknownHandles,
		swallows: map[string]error{"Deliver": backend.ErrNoConversation}},
	{id: "B01", says: "messages withheld by an unknown handle are discarded", by: unknownHandles,
		swallows: map[string]error{"Discard": backend.ErrNoConversation}},
	{id: "B01", says: "messages withheld by an unknown handle are sent again", by: unknownHandles,
		swallows: map[string]error{"Resend": backend.ErrNoConversation}},
	{id: "B01", says: "the stream of an unknown handle can be locked", by: unknownHandles,
		swallows: map[string]error{"TryStream": backend.ErrNoConversation}},
	{id: "B01", says: "an unknown conversation is accepted", by: unknownHandles,
		swallows: map[string]error{"Accept": backend.ErrNoConversation}},
	{id: "B01", says: "a claim by an unknown handle is an error", by: unknownHandles,
		tx: func(tx backend.Tx) backend.Tx { return strictClaim{tx} }},
	{id: "B01", says: "a claim by a side that has ended is an error", by: endedSides,
		tx: func(tx backend.Tx) backend.Tx { return strictClaim{tx} }},
	{id: "B01", says: "a timer of a side that has ended is set", by: endedSides,
		swallows: map[string]error{"SetTimer": backend.ErrEnded}},
	{id: "B01", says: "a side can end twice", by: endedSides, swallows: map[string]error{"EndDialog": backend.ErrEnded}},
	{id: "B01", says: "a message that can never be delivered is withheld", by: endedSides,
		tx: func(tx backend.Tx) backend.Tx { return withholds{tx, backend.RefusedEnded} }},
	{id: "B01", says: "a message after the last one is withheld", by: manyRefusals,
		tx: func(tx backend.Tx) backend.Tx { return withholds{tx, backend.RefusedSealed} }},
	{id: "B01", says: "a message for a side that has ended is withheld", by: manyRefusals,
		tx: func(tx backend.Tx) backend.Tx { return withholds{tx, backend.RefusedFar} }},
	{id: "B01", says: "the end of the other side is reported before all other refusals", by: manyRefusals,
		tx: func(tx backend.Tx) backend.Tx { return refusesFar{tx} }},
	{id: "B10", says: "a body is read at the commit", by: "bodies",
		tx: func(tx backend.Tx) backend.Tx { return &sendsLate{Tx: tx} }},
	{id: "B10", says: "received messages share memory with the store", by: received,
		tx: (&keepsReceived{of: make(map[backend.ID]*backend.Message)}).wrap},
	{id: "B05", says: "a hold that was lost is kept", by: lostLeases, swallows: map[string]error{"Keep": backend.ErrFenced}},
	{id: "B05", says: "a heartbeat ends at the first lease that is lost", by: lostLeases, firstOnly: true},
	{id: "D03", says: "numbers start at one", by: "a rolled-back send uses up no number",
		tx: func(tx backend.Tx) backend.Tx { return fromOne{tx} }},
	{id: "D04", says: "without a target a delivery is an error", by: "what is withheld stays as long as there is no target",
		tx: func(tx backend.Tx) backend.Tx { return deliversToTargets{tx} }},
	{id: "E09", says: "an end that is discarded does not count", by: "an end that is discarded counts",
		tx: func(tx backend.Tx) backend.Tx { return discardsMessages{tx} }},
	{id: "F06", says: "a task that is retried has only its last attempt", by: "a task that is retried has all its attempts again",
		tx: (&attempts{of: make(map[backend.ID]int)}).wrap},
	{id: "F11", says: "a plan that is over is in its last phase", by: "a plan that is over has no phase",
		progress: func(p *backend.Progress) {
			if p.Over {
				p.Phase = 3
			}
		}},
	{id: "F11", says: "a plan that is not there is an empty list", swallows: map[string]error{"Plans": backend.ErrNoPlan}},
	{id: "F11", says: "waiting for a task of a deleted plan is no error", swallows: map[string]error{"NextFinished": backend.ErrNoPlan}},
	{id: "G07", says: "a rollback does nothing when its context has ended", by: "a rollback under a context that has ended",
		tx: func(tx backend.Tx) backend.Tx { return obedient{tx} }},
	{id: "I5", says: "a group is busy for the transaction that holds it", by: "a group that a transaction has is granted to it again",
		tx: func(tx backend.Tx) backend.Tx { return &locksOnce{tx, make(map[backend.ID]bool)} }},
	{id: "P05", says: "in a group the conversation of lowest priority comes first", by: "a group ranks by its highest conversation with messages",
		tx: func(tx backend.Tx) backend.Tx { return lowestFirst{tx} }},
	{id: "V04", says: "a page of conversations counts sides", by: "lists come in pages", sides: true},
	{id: "V05", says: "queues are listed in reverse", by: listsAsked, queues: slices.Reverse[[]backend.QueueStatus]},
	{id: "V05", says: "the removal of dead letters counts letters that were not there", by: listsAsked,
		tx: func(tx backend.Tx) backend.Tx { return removesAll{tx} }},
}

const (
	unknownHandles = "methods of a store on handles that are not there"
	endedSides     = "methods of a store on a side that has ended"
	manyRefusals   = "of several refusals the first wins"
	lostLeases     = "methods of a store under a lost lease"
	received       = "what was received is the caller's"
	listsAsked     = "what operators list is what they asked for"
)

// swallow returns err unless the method swallows its kind.
func swallow(swallows map[string]error, method string, err error) error {
	if kind := swallows[method]; kind != nil && errors.Is(err, kind) {
		return nil
	}
	return err
}

// swallowing returns no error where there is one of a kind.
type swallowing struct {
	backend.Tx
	kinds map[string]error
}

func (t swallowing) SetTimer(ctx context.Context, h backend.ID, d time.Duration) error {
	return swallow(t.kinds, "SetTimer", t.Tx.SetTimer(ctx, h, d))
}

func (t swallowing) Notice(ctx context.Context, n backend.Notice) error {
	return swallow(t.kinds, "Notice", t.Tx.Notice(ctx, n))
}

func (t swallowing) Deliver(ctx context.Context, from backend.ID) (int, error) {
	n, err := t.Tx.Deliver(ctx, from)
	return n, swallow(t.kinds, "Deliver", err)
}

func (t swallowing) Discard(ctx context.Context, from backend.ID, reason string) (int, error) {
	n, err := t.Tx.Discard(ctx, from, reason)
	return n, swallow(t.kinds, "Discard", err)
}

func (t swallowing) Resend(ctx context.Context, from, to backend.ID, status string) (int, error) {
	n, err := t.Tx.Resend(ctx, from, to, status)
	return n, swallow(t.kinds, "Resend", err)
}

func (t swallowing) TryStream(ctx context.Context, h backend.ID) error {
	return swallow(t.kinds, "TryStream", t.Tx.TryStream(ctx, h))
}

func (t swallowing) Accept(ctx context.Context, version int64, from backend.ID, target backend.Endpoint) (bool, error) {
	made, err := t.Tx.Accept(ctx, version, from, target)
	return made, swallow(t.kinds, "Accept", err)
}

func (t swallowing) EndDialog(ctx context.Context, end backend.End) (backend.Ended, error) {
	done, err := t.Tx.EndDialog(ctx, end)
	return done, swallow(t.kinds, "EndDialog", err)
}

func (t swallowing) Keep(ctx context.Context, h *backend.Hold, lease time.Duration, owner string) error {
	return swallow(t.kinds, "Keep", t.Tx.Keep(ctx, h, lease, owner))
}

func (t swallowing) NextFinished(ctx context.Context, plan string, existing backend.ID) (*backend.TaskStatus, error) {
	task, err := t.Tx.NextFinished(ctx, plan, existing)
	return task, swallow(t.kinds, "NextFinished", err)
}

// over reports whether a side has ended.
func over(e *backend.Endpoint) bool {
	return e.State == backend.DisconnectedOutbound || e.State == backend.Closed
}

type strictClaim struct{ backend.Tx }

func (t strictClaim) Claim(ctx context.Context, r backend.ClaimRequest) (backend.Claim, error) {
	if !r.Handle.IsZero() {
		e, err := t.Endpoint(ctx, r.Handle)
		if err == nil && over(e) {
			err = backend.ErrEnded
		}
		if err != nil {
			return backend.Claim{}, err
		}
	}
	return t.Tx.Claim(ctx, r)
}

// withholds takes messages that are refused for a reason.
type withholds struct {
	backend.Tx
	why backend.Refusal
}

func (t withholds) Withhold(ctx context.Context, messages []backend.Outgoing, status string) ([]backend.Sent, error) {
	sent, err := t.Tx.Withhold(ctx, messages, status)
	if r := new(backend.Refused); errors.As(err, &r) && r.Refusals[0] == t.why {
		return make([]backend.Sent, len(messages)), nil
	}
	return sent, err
}

// sendsLate sends at the commit what conversations that go on send.
type sendsLate struct {
	backend.Tx
	version int64
	late    []backend.Outgoing
}

func (t *sendsLate) Send(ctx context.Context, version int64, messages []backend.Outgoing) ([]backend.Sent, error) {
	e, err := t.Endpoint(ctx, messages[0].From)
	if err != nil || e.State != backend.Conversing || len(messages) > 1 {
		return t.Tx.Send(ctx, version, messages)
	}
	t.version, t.late = version, append(t.late, messages...)
	return []backend.Sent{{Seq: e.NextSeq}}, nil
}

func (t *sendsLate) Commit(ctx context.Context) error {
	if len(t.late) > 0 {
		if _, err := t.Tx.Send(ctx, t.version, t.late); err != nil {
			return err
		}
	}
	return t.Tx.Commit(ctx)
}

// keepsReceived gives every receiver of a message the same one.
type keepsReceived struct {
	mu sync.Mutex
	of map[backend.ID]*backend.Message
}

func (k *keepsReceived) wrap(tx backend.Tx) backend.Tx { return givesKept{tx, k} }

type givesKept struct {
	backend.Tx
	*keepsReceived
}

func (t givesKept) Claim(ctx context.Context, r backend.ClaimRequest) (backend.Claim, error) {
	c, err := t.Tx.Claim(ctx, r)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range c.Holds {
		for i, m := range h.Messages {
			if kept := t.of[m.ID]; kept != nil {
				h.Messages[i] = kept
			}
			t.of[m.ID] = h.Messages[i]
		}
	}
	return c, err
}

type fromOne struct{ backend.Tx }

func (t fromOne) Claim(ctx context.Context, r backend.ClaimRequest) (backend.Claim, error) {
	c, err := t.Tx.Claim(ctx, r)
	for _, h := range c.Holds {
		for _, m := range h.Messages {
			m.Seq++
		}
	}
	return c, err
}

func (t fromOne) Settle(ctx context.Context, outcomes []backend.Outcome) (bool, error) {
	outcomes = slices.Clone(outcomes)
	for i := range outcomes {
		done := make([]*backend.Message, len(outcomes[i].Done))
		for j, m := range outcomes[i].Done {
			stored := *m
			stored.Seq--
			done[j] = &stored
		}
		outcomes[i].Done = done
	}
	return t.Tx.Settle(ctx, outcomes)
}

type lowestFirst struct{ backend.Tx }

func (t lowestFirst) Claim(ctx context.Context, r backend.ClaimRequest) (backend.Claim, error) {
	c, err := t.Tx.Claim(ctx, r)
	for _, h := range c.Holds {
		slices.SortStableFunc(h.Messages, func(a, b *backend.Message) int { return cmp.Compare(a.Priority, b.Priority) })
	}
	return c, err
}

type refusesFar struct{ backend.Tx }

func (t refusesFar) Send(ctx context.Context, version int64, messages []backend.Outgoing) ([]backend.Sent, error) {
	sent, err := t.Tx.Send(ctx, version, messages)
	if r := new(backend.Refused); errors.As(err, &r) {
		for i, why := range r.Refusals {
			e, _ := t.Endpoint(ctx, messages[i].From)
			if e != nil && (why == backend.RefusedEnded && e.State == backend.Closed ||
				why == backend.RefusedSealed && e.State == backend.DisconnectedInbound) {
				r.Refusals[i] = backend.RefusedFar
			}
		}
	}
	return sent, err
}

type deliversToTargets struct{ backend.Tx }

func (t deliversToTargets) Deliver(ctx context.Context, from backend.ID) (int, error) {
	e, err := t.Endpoint(ctx, from)
	if err == nil {
		_, err = t.Endpoint(ctx, e.FarHandle)
	}
	if err != nil {
		return 0, err
	}
	return t.Tx.Deliver(ctx, from)
}

type discardsMessages struct{ backend.Tx }

func (t discardsMessages) Discard(ctx context.Context, from backend.ID, reason string) (int, error) {
	e, _ := t.Endpoint(ctx, from)
	n, err := t.Tx.Discard(ctx, from, reason)
	if n > 0 && e != nil && over(e) {
		n--
	}
	return n, err
}

// attempts knows how often tasks were tried that are dead.
type attempts struct {
	mu sync.Mutex
	of map[backend.ID]int
}

func (a *attempts) wrap(tx backend.Tx) backend.Tx { return countsOn{tx, a} }

type countsOn struct {
	backend.Tx
	*attempts
}

func (t countsOn) ClaimTasks(ctx context.Context, c backend.TaskClaim) ([]backend.TaskHold, error) {
	holds, err := t.Tx.ClaimTasks(ctx, c)
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, h := range holds {
		holds[i].Attempt += t.of[h.Task]
	}
	return holds, err
}

func (t countsOn) FinishTask(ctx context.Context, h backend.TaskHold, o backend.TaskOutcome) error {
	t.mu.Lock()
	if o.State == backend.TaskDead {
		t.of[h.Task] = h.Attempt
	}
	t.mu.Unlock()
	return t.Tx.FinishTask(ctx, h, o)
}

type obedient struct{ backend.Tx }

func (t obedient) Rollback(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return t.Tx.Rollback(ctx)
}

type locksOnce struct {
	backend.Tx
	had map[backend.ID]bool
}

func (t *locksOnce) LockGroup(ctx context.Context, group backend.ID) error {
	if t.had[group] {
		return backend.ErrGroupBusy
	}
	err := t.Tx.LockGroup(ctx, group)
	t.had[group] = err == nil
	return err
}

type removesAll struct{ backend.Tx }

func (t removesAll) RemoveDead(ctx context.Context, message backend.ID) (bool, error) {
	_, err := t.Tx.RemoveDead(ctx, message)
	return true, err
}
