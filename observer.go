package parley

import "time"

// Observer hears what workers do, for counters and histograms. It is called
// from many goroutines, and holds up work for as long as it takes. Embed
// NopObserver, so that a program still compiles when methods are added.
type Observer interface {
	// Claimed: a worker took messages, or looked and found none.
	Claimed(ClaimEvent)
	// Handled: a handler has returned.
	Handled(HandleEvent)
	// Settled: a batch was settled, or could not be.
	Settled(SettleEvent)
	// Poisoned: an action was taken on a message that could not be handled.
	Poisoned(PoisonEvent)
}

// ClaimEvent is a look for messages.
type ClaimEvent struct {
	Queue    string
	Groups   int // taken
	Messages int
	Took     time.Duration
	Err      error
}

// HandleEvent is a call of a handler.
type HandleEvent struct {
	Queue   string
	Type    string
	Attempt int
	Took    time.Duration
	Age     time.Duration // since the message was sent, by this machine's clock
	Err     error
}

// SettleEvent is the end of a batch.
type SettleEvent struct {
	Queue    string
	Groups   int // that were in the batch
	Done     int // messages that were acknowledged
	Lost     int // messages that were handled, but whose lease was lost: they come again
	Failed   int // messages that failed
	Returned int // groups that were given back unhandled
	Took     time.Duration
	Err      error // nothing was settled; the messages come again
}

// PoisonEvent is an action on a message that could not be handled.
type PoisonEvent struct {
	Queue  string
	Type   string
	ID     ID
	Group  ID
	Action Action
	Err    error
}

// NopObserver is an Observer that does nothing.
type NopObserver struct{}

// Claimed does nothing.
func (NopObserver) Claimed(ClaimEvent) {}

// Handled does nothing.
func (NopObserver) Handled(HandleEvent) {}

// Settled does nothing.
func (NopObserver) Settled(SettleEvent) {}

// Poisoned does nothing.
func (NopObserver) Poisoned(PoisonEvent) {}
