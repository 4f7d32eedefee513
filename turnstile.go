package parley

import (
	"context"

	"github.com/parleymq/parley/backend"
)

// A turnstile lets so many of a worker's claims run at once: each passes over what
// the others have locked and not yet removed, which with many of them, or with large
// ones, is more work than to claim.
type turnstile struct {
	all   chan struct{}
	large chan struct{}
}

// largeClaim is how many groups make a claim a large one, of which two at a time keep
// a server busy.
const largeClaim = 100

func newTurnstile(n int) *turnstile {
	return &turnstile{all: make(chan struct{}, n), large: make(chan struct{}, min(n, 2))}
}

// maxClaims is how many claims a worker has under way at once for a queue. A store
// that holds by lease alone has one writer, and claims that wait for it side by side
// would each get a part of what has come meanwhile.
func (b *Broker) maxClaims() int {
	if _, ok := b.be.(backend.TransactionHolder); ok {
		return 4
	}
	return 1
}

// enter waits for the turn of a claim of so many groups, unless ctx ends first.
func (t *turnstile) enter(ctx context.Context, groups int) bool {
	// The narrow gate first, so that nobody waits for it in the wide one.
	if groups >= largeClaim && !pass(ctx, t.large) {
		return false
	}
	if pass(ctx, t.all) {
		return true
	}
	if groups >= largeClaim {
		<-t.large
	}
	return false
}

// leave ends what enter began.
func (t *turnstile) leave(groups int) {
	<-t.all
	if groups >= largeClaim {
		<-t.large
	}
}

func pass(ctx context.Context, gate chan struct{}) bool {
	select {
	case gate <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
