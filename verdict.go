package parley

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Action is what a worker does with a message that cannot be handled: one that
// has failed as often as it may, or that is poison by its nature.
type Action int

// The actions.
const (
	// ActionPark hides the group, in its order, until Admin.Unpark. Other
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
	if !a.valid() {
		return fmt.Sprintf("Action(%d)", int(a))
	}
	return [...]string{"park", "dead letter", "end with error", "disable queue", "retry"}[a]
}

func (a Action) valid() bool { return a >= ActionPark && a <= ActionRetry }

// verdict is an error of a handler that says what is to become of the message.
type verdict struct {
	action Action
	after  time.Duration // of a deferral; the action does not count then
	policy bool          // the worker's policy decides, at once
	no     string        // there is no handler for this type
	code   int           // for ActionEndWithError
	err    error
}

func (v *verdict) Error() string {
	switch {
	case v.after > 0:
		return fmt.Sprintf("deferred by its handler for %v", v.after)
	case v.err == nil && v.policy:
		return "its handler calls it poison"
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
func Park(err error) error { return &verdict{action: ActionPark, err: sound(err)} }

// DeadLetter is an error by which a handler has its message taken out of the
// group and recorded as a dead letter.
func DeadLetter(err error) error { return &verdict{action: ActionDeadLetter, err: sound(err)} }

// Poison is an error by which a handler says that trying again is in vain: the
// worker's policy for poison takes over at once.
func Poison(err error) error { return &verdict{policy: true, err: sound(err)} }

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
	failed   bool          // it is a failure of its handler
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
	case v != nil && v.no != "":
		return w.unhandled(ctx, queue, m, v, r)
	case v != nil && !v.policy:
		r.attempts++
		r.action, r.final = v.action, true
		if v.code > 0 {
			r.code = v.code
		}
		return r
	case v == nil && w.b.transient(err) && !w.opt.CountTransient:
		if n := w.strikes.add(m.ID, err); n < strikesCharged {
			r.action, r.after = ActionRetry, spared(n)
			return r
		}
		w.strikes.clear(m.ID)
	}
	r.attempts++
	r.failed = v == nil
	if v == nil && (w.opt.MaxAttempts < 0 || r.attempts+m.raw.Suspicion < w.opt.MaxAttempts) {
		r.action, r.after = ActionRetry, w.backoff(r.attempts)
		return r
	}
	return w.poison(ctx, queue, m, r)
}

// poison has the policy decide, for good unless it wants to go on trying.
func (w *Worker) poison(ctx context.Context, queue string, m *Message, r ruling) ruling {
	r.action, r.final = w.opt.Poison, true
	if w.opt.OnPoison != nil {
		calmly(w.b.log, "OnPoison", func() {
			a := w.opt.OnPoison(ctx, PoisonMessage{Queue: queue, Message: m, Err: r.err})
			if !a.valid() {
				panic(fmt.Sprintf("it wants %v", a))
			}
			r.action = a
		})
	}
	if r.action == ActionRetry {
		r.after, r.final = w.backoff(r.attempts), false
	}
	return r
}

// backoff is how long a group waits after so many failures of its first message.
func (w *Worker) backoff(attempts int) time.Duration {
	var d time.Duration
	if !calmly(w.b.log, "Backoff", func() { d = w.opt.Backoff(attempts) }) {
		d = defaultBackoff(attempts)
	}
	return max(d, time.Millisecond)
}

// The default policy outlasts the outage of what handlers depend on: with the
// shortest pauses that there may be, the last attempt comes after 80 minutes.
const defaultAttempts = 20

var defaultBackoff = Backoff(time.Second, 10*time.Minute)

// unhandled decides about a message of a type that this worker has no handler for.
// Programs that have one may be on their way.
func (w *Worker) unhandled(ctx context.Context, queue string, m *Message, v *verdict, r ruling) ruling {
	now := time.Now()
	since, known := UnhandledSince(m.LastError)
	if !known || since.After(now) {
		since = now
	}
	if waited := now.Sub(since); waited < w.opt.UnknownTypes {
		r.action, r.after = ActionRetry, jitter(min(max(waited, time.Second), 10*time.Minute))
		r.err = &unhandledError{v, since}
		return r
	}
	r.attempts++
	return w.poison(ctx, queue, m, r)
}

// unhandledError is what is stored of a message without a handler: with the time
// from which on there was none, for the worker that finds it next.
type unhandledError struct {
	*verdict
	since time.Time
}

const sinceWord = "; since "

func (e *unhandledError) Error() string {
	return e.verdict.Error() + sinceWord + e.since.UTC().Format(time.RFC3339)
}

// UnhandledSince reports since when no worker has had a handler for the type of a
// message, by the message's LastError or the Reason of its group. It returns false for
// every other text.
func UnhandledSince(text string) (since time.Time, ok bool) {
	at := strings.LastIndex(text, sinceWord)
	if at < 0 || !strings.HasPrefix(text, unhandledPrefix) {
		return since, false
	}
	since, err := time.Parse(time.RFC3339, text[at+len(sinceWord):])
	return since, err == nil
}

// unhandledPrefix begins the text of an error that says that there is no handler.
const unhandledPrefix = "there is no handler for message type "

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
	return IsRetryable(err) || errors.Is(err, ErrConnection) || errors.Is(err, ErrFenced) || b.is(err, ErrSerialization)
}
