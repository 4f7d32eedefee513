package parley

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/parleymq/parley/internal/consumer"
	"github.com/parleymq/parley/internal/failures"
	"github.com/parleymq/parley/internal/guard"
	"github.com/parleymq/parley/internal/wait"
)

// Action is what a worker does with a message that cannot be handled: its attempts are
// used up, or it is poison by its nature.
type Action int

// The actions.
const (
	// ActionPark hides the group, in its order, until Admin.Unpark. Other groups continue.
	ActionPark Action = iota
	// ActionDeadLetter removes the message from its group, which continues with the next message,
	// and records it as a dead letter.
	ActionDeadLetter
	// ActionEndWithError ends the conversation with an error that tells the other
	// side. A post becomes a dead letter.
	ActionEndWithError
	// ActionDisableQueue disables the queue, as Service Broker does. The message
	// stays.
	ActionDisableQueue
	// ActionRetry keeps trying.
	ActionRetry
)

func (a Action) String() string {
	if !a.valid() {
		return fmt.Sprintf("Action(%d)", int(a))
	}
	return [...]string{"park", "dead letter", "end with error", "disable queue", "retry"}[a]
}

func (a Action) valid() bool { return a >= ActionPark && a <= ActionRetry }

// decidedError is an error of a handler that says what is to become of the message.
type decidedError struct {
	action Action
	after  time.Duration // of a deferral; the action does not count then
	policy bool          // the worker's policy decides, at once
	no     string        // there is no handler for this type
	code   int           // for ActionEndWithError
	err    error
}

func (v *decidedError) Error() string {
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

func (v *decidedError) Unwrap() error { return v.err }

// Defer is an error by which a handler defers its message, and the whole group, for a time. The
// handler's writes are undone, and the call does not count as a failure.
func Defer(d time.Duration) error { return &decidedError{after: max(d, time.Millisecond)} }

// Park is an error by which a handler parks the group of its message, so that operators can look at
// it.
func Park(err error) error { return &decidedError{action: ActionPark, err: guard.Sound(err)} }

// DeadLetter is an error by which a handler removes its message from the group and records it as a
// dead letter.
func DeadLetter(err error) error {
	return &decidedError{action: ActionDeadLetter, err: guard.Sound(err)}
}

// Poison is an error by which a handler says that another attempt would not help: the
// worker's policy for poison takes over at once.
func Poison(err error) error { return &decidedError{policy: true, err: guard.Sound(err)} }

// EndWithError is an error by which a handler ends the conversation of its
// message. The other side gets the code, which must be above zero, and the
// text.
func EndWithError(code int, text string) error {
	return &decidedError{action: ActionEndWithError, code: code, err: errors.New(text)}
}

// PoisonCode is the code of the error with which ActionEndWithError ends a
// conversation, unless the handler gave one.
const PoisonCode = 500

// Backoff returns a function that waits base after the first failure, twice as
// long after each further failure, and at most limit. Each wait varies by a
// quarter, so that messages that failed together do not return together.
func Backoff(base, limit time.Duration) func(attempt int) time.Duration {
	return func(attempt int) time.Duration {
		d := limit
		if n := max(attempt-1, 0); n < 40 && base<<n > 0 && base<<n < limit {
			d = base << n
		}
		return time.Duration(float64(d) * (0.75 + 0.5*rand.Float64()))
	}
}

// Decide implements consumer.Messages: it decides what becomes of the first message, whose
// handler returned err.
func (in *inHand) Decide(ctx context.Context, err error) consumer.Decision {
	m := in.messages[0]
	r := in.decide(ctx, in.queue, m, err)
	text := guard.Text(r.err)
	reason := guard.Reason(text, "")
	log := in.b.log.Info
	if r.final {
		log = in.b.log.Error
		in.opt.Observer.Poisoned(ctx, PoisonEvent{Queue: in.queue, Type: m.Type, ID: m.ID, Headers: m.Headers, Group: m.Group,
			Action: r.action, Err: err})
	}
	log("parley: a message failed", append(guard.Stack(err), "event", "message.failed", "queue", in.queue, "type", m.Type,
		"message", m.ID.String(), "group", m.Group.String(), "attempt", m.Attempt, "action", r.action.String(), "after", r.after, "error", reason)...)
	return consumer.Decision{
		Action: actions[r.action], After: r.after, Attempts: r.attempts, Failed: r.failed, Code: r.code, Text: text, Reason: reason,
		Anew: errors.Is(err, ErrDeadly), // if it is tried again, that is a new chance
	}
}

var actions = map[Action]consumer.Action{
	ActionPark: consumer.Park, ActionDeadLetter: consumer.DeadLetter, ActionEndWithError: consumer.EndWithError,
	ActionDisableQueue: consumer.Disable, ActionRetry: consumer.Retry,
}

// decision is what becomes of a message that was not handled.
type decision struct {
	action   Action
	after    time.Duration // of ActionRetry
	attempts int           // failed ones, this one included if it counts
	final    bool          // the action is for good
	failed   bool          // it is a failure of its handler
	code     int
	err      error
}

// decide decides what becomes of a message whose handler returned err.
func (h *host) decide(ctx context.Context, queue string, m *Message, err error) decision {
	r := decision{attempts: m.raw.Attempts, err: err, code: PoisonCode}
	var v *decidedError
	switch {
	case errors.As(err, &v) && v.after > 0:
		r.action, r.after = ActionRetry, v.after
		return r
	case v != nil && v.no != "":
		return h.unhandled(ctx, queue, m, v, r)
	case v != nil && !v.policy:
		r.attempts++
		r.action, r.final = v.action, true
		if v.code > 0 {
			r.code = v.code
		}
		return r
	case v == nil && consumer.Transient(h.b.caps, err) && !h.opt.CountTransient:
		if n := h.w.failures.Add(m.ID, err); n < failures.Charged {
			r.action, r.after = ActionRetry, consumer.Spared(n)
			return r
		}
		h.w.failures.Clear(m.ID)
	}
	r.attempts++
	r.failed = v == nil
	if v == nil && (h.opt.MaxAttempts < 0 || r.attempts+m.raw.Deaths < h.opt.MaxAttempts) {
		r.action, r.after = ActionRetry, h.backoff(r.attempts)
		return r
	}
	return h.poison(ctx, queue, m, r)
}

// poison lets the policy decide. The decision is final unless the policy keeps trying.
func (h *host) poison(ctx context.Context, queue string, m *Message, r decision) decision {
	r.action, r.final = h.opt.Poison, true
	if h.opt.OnPoison != nil {
		guard.Hook(h.b.log, "OnPoison", func() {
			a := h.opt.OnPoison(ctx, PoisonMessage{Queue: queue, Message: m, Err: r.err})
			if !a.valid() {
				panic(fmt.Sprintf("it wants %v", a))
			}
			r.action = a
		})

	}
	if r.action == ActionRetry {
		r.after, r.final = h.backoff(r.attempts), false
	}
	return r
}

// backoff is how long a group waits after a number of failures of its first message.
func (h *host) backoff(attempts int) time.Duration {
	var d time.Duration
	if !guard.Hook(h.b.log, "Backoff", func() { d = h.opt.Backoff(attempts) }) {
		d = defaultBackoff(attempts)
	}
	return max(d, time.Millisecond)
}

// The default policy outlasts an outage of what handlers depend on: even with the shortest possible
// pauses, the last attempt comes after 80 minutes.
const defaultAttempts = 20

var defaultBackoff = Backoff(time.Second, 10*time.Minute)

// unhandled decides about a message of a type that this worker has no handler for.
// Programs that have one may be on their way.
func (h *host) unhandled(ctx context.Context, queue string, m *Message, v *decidedError, r decision) decision {
	now := time.Now()
	since, known := UnhandledSince(m.LastError)
	if !known || since.After(now) {
		since = now
	}
	if waited := now.Sub(since); waited < h.opt.UnknownTypes {
		r.action, r.after = ActionRetry, wait.Jitter(min(max(waited, time.Second), 10*time.Minute))
		r.err = &unhandledError{v, since}
		return r
	}
	r.attempts++
	return h.poison(ctx, queue, m, r)
}

// unhandledError is stored with a message that has no handler. It has the time since when there was
// none, for the worker that finds the message next.
type unhandledError struct {
	*decidedError
	since time.Time
}

const sinceWord = "; since "

func (e *unhandledError) Error() string {
	return e.decidedError.Error() + sinceWord + e.since.UTC().Format(time.RFC3339)
}

// UnhandledSince reports since when no worker has had a handler for the type of a
// message. Its argument is the message's LastError or the Reason of its group. It
// returns false for every other text.
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
