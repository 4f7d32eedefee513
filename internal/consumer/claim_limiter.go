package consumer

import "context"

// A claimLimiter limits how many of a worker's claims run at once. Each claim has to skip what the
// others have locked and not yet removed. If claims are many or large, that is more work than
// claiming.
type claimLimiter struct {
	all   chan struct{}
	large chan struct{}
}

// largeClaim is the number of groups from which on a claim is large. Two large claims at a time
// keep a server busy.
const largeClaim = 100

func newClaimLimiter(n int) *claimLimiter {
	return &claimLimiter{all: make(chan struct{}, n), large: make(chan struct{}, min(n, 2))}
}

// maxClaims is how many claims are under way at once for a queue. Claims that wait side by
// side for a store's only writer would each get a part of what has come meanwhile.
func (c *Consumer) maxClaims() int {
	if c.Can.SingleWriter {
		return 1
	}
	return 4
}

// enter waits for the turn of a claim, unless ctx ends first.
func (t *claimLimiter) enter(ctx context.Context, groups int) bool {
	// The narrow gate first, so that no claim waits for it in the wide one.
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
func (t *claimLimiter) leave(groups int) {
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
