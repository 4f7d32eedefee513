package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/guard"
)

// Answer is what a handler says on the conversation of its message without waiting for it. The batch gives the
// answers of its handlers together, when it settles, or before a handler writes something itself. So a handler
// that only answers takes no statement, no savepoint, and no transaction.
//
// If the store refuses an answer, the group is given back. Then the handler is called again, gives its answer
// at once, and sees the error.
type Answer struct {
	Handle backend.ID // of the conversation
	Ends   bool       // it ends the conversation
	Size   int        // bytes
	Says   any        // the Host's
}

// answered are the answers of a call that succeeded.
type answered struct {
	first   *backend.Message // of the call
	answers []Answer
}

// debt are the answers that a batch is yet to give, in the order of the calls. They are bounded.
type debt struct {
	of           map[*backend.Hold][]answered
	count, bytes int // with those of the call at work
}

// due returns the answers that are to be given with an outcome, and of how many calls they are: of those whose messages it
// acknowledges. The batch may give a group back without, although handlers have succeeded.
func (d *debt) due(o *backend.Outcome) (answers []Answer, calls int) {
	owed := d.of[o.Hold]
	if len(owed) == 0 {
		return nil, 0
	}
	done := make(map[*backend.Message]bool, len(o.Done))
	for _, m := range o.Done {
		done[m] = true
	}
	for ; calls < len(owed) && done[owed[calls].first]; calls++ {
		answers = append(answers, owed[calls].answers...)
	}
	return answers, calls
}

const (
	mostAnswers     = 1000
	mostAnswerBytes = 1 << 20
)

// errAnswer: an answer could not be given. The handlers of the batch are called again, one by one, and give theirs
// at once.
var errAnswer = errors.New("an answer could not be given")

// later takes an answer of the handler at work, unless the handler has to give it at once.
func (t *batch) later(k *call, a Answer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.inHand != k, t.over, t.tx.broken != nil, t.c.Consume, t.ctx.Err() != nil: // it will see why
	case k.tx != nil, t.alone, t.c.MaxBatch == 1, t.c.Failures.Any(k.raw[0].ID):
	case t.tx.owed.count >= mostAnswers, t.tx.owed.bytes+a.Size > mostAnswerBytes:
	case slices.ContainsFunc(k.answers, func(b Answer) bool { return b.Ends && b.Handle == a.Handle }):
	default:
		k.answers = append(k.answers, a)
		t.tx.owed.count++
		t.tx.owed.bytes += a.Size
		return true
	}
	return false
}

// owe keeps the answers of a call that succeeded. t.mu is held.
func (t *batch) owe(k *call) {
	if len(k.answers) == 0 {
		return
	}
	if t.tx.owed.of == nil {
		t.tx.owed.of = make(map[*backend.Hold][]answered)
	}
	h := t.holds[t.at]
	t.tx.owed.of[h] = append(t.tx.owed.of[h], answered{k.raw[0], k.answers})
	for _, a := range k.answers {
		if a.Ends {
			t.tx.ended = append(t.tx.ended, a.Handle)
		}
	}
}

// giveAll gives what the calls before the one at work owe. Their answers come before what it writes. t.mu is held.
func (t *batch) giveAll(ctx context.Context) error {
	for _, outcomes := range [][]backend.Outcome{t.outcomes, {t.current}} {
		if err := t.give(ctx, outcomes); err != nil {
			t.tx.broken = err
			return err
		}
	}
	t.tx.owed = debt{}
	return nil
}

// giveOwn gives the answers of the call at work, which has told its handler that they will be. t.mu is held.
func (t *batch) giveOwn(ctx context.Context, k *call) error {
	if len(k.answers) == 0 {
		return nil
	}
	refused, err := k.tx.Answer(ctx, [][]Answer{k.answers})
	if err == nil {
		err = refused[0]
	}
	if err != nil {
		t.c.Failures.Add(k.raw[0].ID, err) // so that the next reader has it answer at once
		t.tx.broken = fmt.Errorf("%w: %w", errAnswer, err)
	}
	return t.tx.broken
}

// give gives the answers to messages with these outcomes, in the open transaction. If those of a group are refused, it
// changes the outcome so that the group is given back, from the first of them on. It fails if the batch is not done
// with that group. t.mu is held.
func (t *batch) give(ctx context.Context, outcomes []backend.Outcome) error {
	var at, calls []int // outcomes, and their calls
	var groups []backend.ID
	var answers [][]Answer
	for i := range outcomes {
		if due, n := t.tx.owed.due(&outcomes[i]); n > 0 {
			at, calls = append(at, i), append(calls, n)
			groups, answers = append(groups, outcomes[i].Hold.Group), append(answers, due)
		}
	}
	if len(at) == 0 {
		return nil
	}
	part := t.tx.work.Part(groups...)
	refused, err := part.Answer(ctx, answers)
	if over := part.Close(); err == nil {
		err = over
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errAnswer, err)
	}
	t.tx.dirty = true
	t.tx.ended = append(t.tx.ended, t.tx.work.Merge(part)...)
	for i, why := range refused {
		if err := t.retract(&outcomes[at[i]], why); err != nil {
			return err
		}
	}
	for i, n := range calls {
		h := outcomes[at[i]].Hold
		t.tx.owed.of[h] = t.tx.owed.of[h][n:]
	}
	return nil
}

// retract gives a group back, from the first message on whose answers are owed. t.mu is held.
func (t *batch) retract(o *backend.Outcome, why error) error {
	first := t.tx.owed.of[o.Hold][0].first
	t.c.Failures.Add(first.ID, why)
	if !t.over && t.holds[t.at] == o.Hold {
		return fmt.Errorf("%w: %w", errAnswer, why)
	}
	t.c.Log.Info("parley: an answer was refused, and its message is handled again", "event", "answer.refused",
		"queue", t.queue.Name, "message", first.ID.String(), "error", guard.FirstLine(guard.Text(why)))
	stay := make(map[backend.ID]bool)
	for _, m := range o.Hold.Messages[:slices.Index(o.Hold.Messages, first)] {
		stay[m.ID] = true
	}
	kept := t.outcome(o.Hold)
	for _, m := range o.Done {
		if stay[m.ID] {
			kept.Done = append(kept.Done, m)
		}
	}
	for _, d := range o.Dead {
		if stay[d.Message.ID] {
			kept.Dead = append(kept.Dead, d)
		}
	}
	t.did.handled -= len(o.Done) - len(kept.Done)
	*o = kept
	return nil
}
