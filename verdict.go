package parley

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Action is what a worker does with a message that cannot be handled: one that
// has failed as often as it may, or that is poison by its nature.
type Action int

// The actions.
const (
	// ActionPark hides the group, in its order, until Broker.Unpark. Other
	// groups go on.
	ActionPark Action = iota
	// ActionDeadLetter takes the message out of its group, which goes on behind
	// it, and records it as a dead letter.
	ActionDeadLetter
	// ActionEndWithError ends the conversation with an error that tells the other
	// side. A post becomes a dead letter.
	ActionEndWithError
	// ActionDisableQueue disables the queue, as Service Broker does. The message
	// stays.
	ActionDisableQueue
	// ActionRetry goes on trying.
	ActionRetry
)

func (a Action) String() string {
	return [...]string{"park", "dead letter", "end with error", "disable queue", "retry"}[a]
}

// verdict is an error of a handler that says what is to become of the message.
type verdict struct {
	action Action
	after  time.Duration // of a deferral; the action does not count then
	policy bool          // the worker's policy decides, at once
	code   int           // for ActionEndWithError
	err    error
}

func (v *verdict) Error() string {
	switch {
	case v.after > 0:
		return fmt.Sprintf("deferred by its handler for %v", v.after)
	case v.err == nil:
		return "its handler wants: " + v.action.String()
	}
	return v.err.Error()
}

func (v *verdict) Unwrap() error { return v.err }

// Defer is an error by which a handler puts its message, and the group with it,
// off for a time. What it wrote is undone, and it does not count as a failure.
func Defer(d time.Duration) error { return &verdict{after: max(d, time.Millisecond)} }

// Park is an error by which a handler has the group of its message parked, for
// operators to look at.
func Park(err error) error { return &verdict{action: ActionPark, err: err} }

// DeadLetter is an error by which a handler has its message taken out of the
// group and recorded as a dead letter.
func DeadLetter(err error) error { return &verdict{action: ActionDeadLetter, err: err} }

// Poison is an error by which a handler says that trying again is in vain: the
// worker's policy for poison takes over at once.
func Poison(err error) error { return &verdict{policy: true, err: err} }

// EndWithError is an error by which a handler has the conversation of its
// message ended with a code above zero and a text for the other side.
func EndWithError(code int, text string) error {
	return &verdict{action: ActionEndWithError, code: code, err: errors.New(text)}
}

// PoisonCode is the code of the error with which ActionEndWithError ends a
// conversation, unless the handler gave one.
const PoisonCode = 500

// Backoff returns a function that waits base after the first failure, twice as
// long after each further one, and at most limit, each time give or take a
// quarter, so that what failed together does not come back together.
func Backoff(base, limit time.Duration) func(attempt int) time.Duration {
	return func(attempt int) time.Duration {
		d := limit
		if n := max(attempt-1, 0); n < 40 && base<<n > 0 && base<<n < limit {
			d = base << n
		}
		return time.Duration(float64(d) * (0.75 + 0.5*rand.Float64()))
	}
}

// ruling is what becomes of a message that was not handled.
type ruling struct {
	action   Action
	after    time.Duration // of ActionRetry
	attempts int           // failed ones, this one included if it counts
	final    bool          // the action is for good
	code     int
	err      error
}

// rule decides what becomes of a message whose handler returned err.
func (w *Worker) rule(ctx context.Context, queue string, m *Message, err error) ruling {
	r := ruling{attempts: m.raw.Attempts, err: err, code: PoisonCode}
	var v *verdict
	switch {
	case errors.As(err, &v) && v.after > 0:
		r.action, r.after = ActionRetry, v.after
		return r
	case v != nil && !v.policy:
		r.attempts++
		r.action, r.final = v.action, true
		if v.code > 0 {
			r.code = v.code
		}
		return r
	case v == nil && w.b.transient(err) && !w.opt.CountTransient:
		r.action, r.after = ActionRetry, jitter(transientPause)
		return r
	}
	r.attempts++
	if v == nil && (w.opt.MaxAttempts < 0 || r.attempts+m.raw.Suspicion < w.opt.MaxAttempts) {
		r.action, r.after = ActionRetry, max(w.opt.Backoff(r.attempts), time.Millisecond)
		return r
	}
	r.action, r.final = w.opt.Poison, true
	if w.opt.OnPoison != nil {
		r.action = w.opt.OnPoison(ctx, PoisonMessage{Queue: queue, Message: m, Err: err})
	}
	if r.action == ActionRetry {
		r.after, r.final = max(w.opt.Backoff(r.attempts), time.Millisecond), false
	}
	return r
}

// PoisonMessage is what OnPoison is asked about.
type PoisonMessage struct {
	Queue   string
	Message *Message
	Err     error // of the last attempt
}

// transientPause is how long a message waits that failed through no fault of
// its own.
const transientPause = 100 * time.Millisecond

// transient reports whether an error says nothing about the message: its
// transaction lost against another one, or the hold or the connection was lost.
// Errors of the handler's own statements are looked at as well. A broken
// connection counts only if it was Parley's, since a handler may talk to others.
func (b *Broker) transient(err error) bool {
	if IsRetryable(err) || errors.Is(err, ErrConnection) || errors.Is(err, ErrFenced) {
		return true
	}
	c, ok := b.be.(interface{ Classify(error) error })
	return ok && errors.Is(c.Classify(err), ErrSerialization)
}
