package consumer

import (
	"sync"
	"time"
)

// pace estimates from recent batches how many messages fit into the time that a batch may take. It
// begins with one message and doubles while batches are full, or grows tenfold while that is far
// below the limit. An unexpectedly slow handler delays the others for no longer than a batch may
// take.
type pace struct {
	mu      sync.Mutex
	most    int           // messages in a batch
	time    time.Duration // that a batch may take
	size    int
	grows   bool          // batches become longer, and are not yet as long as they may be
	each    time.Duration // that a message takes, of late
	known   bool
	cost    time.Duration // of claiming and settling a batch, of late
	density float64       // messages in a group, of late

	wary      int       // how many full batches it takes to grow by one message, after a deadlock
	calm      int       // full batches since the size last changed
	collision time.Time // the last deadlock
	rest      time.Time // until then batches do not grow

	convoy convoy
}

func newPace(most int, d time.Duration) *pace {
	return &pace{most: most, time: d, size: 1, density: 1, convoy: convoy{patience: firstPatience}}
}

// budget is how long a batch may take: its time, or the time to claim and settle one if that is
// longer. On an overloaded or distant store, shorter batches would consist mostly of claims and
// settles.
func (p *pace) budget() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.atLeast(p.time)
}

// atLeast is d or the cost of a batch, within bounds. p.mu is held.
func (p *pace) atLeast(d time.Duration) time.Duration { return max(d, min(p.cost, 10*p.time)) }

// next returns how many groups the next claim asks for, and how many messages of each. While other
// readers are idle, it keeps batches short: another reader could not finish the last message much
// sooner.
func (p *pace) next(idle bool) (groups, messages int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.size
	if idle && p.known {
		n = min(n, p.fit(p.atLeast(p.time/10)))
	}
	return max(1, int(float64(n)/p.density)), max(n, 1)
}

// brief reports whether handling a batch of n messages will take much less time than claiming and
// settling one. It also returns how long all of that may take before the batch counts as long after
// all.
func (p *pace) brief(n int) (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.atLeast(p.time / 10), p.known && time.Duration(n)*p.each <= min(p.cost/4, p.time/20)
}

// growing returns grows.
func (p *pace) growing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.grows
}

// fit is how many messages take about d. p.mu is held.
func (p *pace) fit(d time.Duration) int {
	if p.each <= 0 {
		return p.most
	}
	return min(max(int(d/p.each), 1), p.most)
}

// paced describes a batch that is over.
type paced struct {
	asked, groups, messages, handled int
	more                             bool // there were more, which the claim could not take along
	took, cost                       time.Duration
	full                             bool // its transaction could not do more
}

// did records a batch: how much was requested, received and handled, in what time, and the cost of
// claiming and settling it.
func (p *pace) did(b paced) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cost += (b.cost - p.cost) / 4
	if b.handled == 0 {
		return
	}
	each := b.took / time.Duration(b.handled)
	switch {
	case !p.known || each > p.each: // be careful at once
		p.each = each
	default: // and bold by and by
		p.each += (each - p.each) / 4
	}
	p.known = true
	p.density += (float64(b.messages)/float64(max(b.groups, 1)) - p.density) / 4
	fit := p.fit(p.atLeast(p.time))
	p.grows = false
	if p.compare(b) {
		return
	}
	switch {
	case b.full: // more would be claimed only to be given back
		p.size = min(p.size, fit, b.handled)
	case (b.messages >= b.asked || b.more) && b.handled == b.messages && p.wary > 0:
		if time.Now().After(p.rest) {
			p.calm++
		}
		if p.calm >= p.wary {
			p.size, p.calm = p.size+1, 0
		}
		if time.Since(p.collision) > forgiven {
			p.wary = 0
		}
		p.size = min(p.size, fit)
	case (b.messages >= b.asked || b.more) && b.handled == b.messages:
		by := 2
		if fit >= 10*p.size { // far from what fits: in longer steps
			by = 10
		}
		p.size = min(max(p.size*by, 1), fit)
		p.grows = p.size < fit
	default:
		p.size = min(p.size, fit)
	}
}

// halve is for a batch that failed as a whole.
func (p *pace) halve() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size = max(p.size/2, 1)
}

const (
	firstWary = 64
	lastWary  = 1024
	forgiven  = time.Minute
)

// collided is for a batch that lost a conflict with another transaction after some time. A batch
// holds the row locks of all its handlers until it commits. So handlers that use the same rows
// deadlock in long batches, and not in short ones. Batches become single messages; the more often
// this happens, the more slowly they grow.
//
// Where a deadlock takes longer than a batch may, batches also grow later. PostgreSQL lets
// transactions wait for a second before it looks for a deadlock.
func (p *pace) collided(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shrink()
	lost := max(took-p.atLeast(p.time), 0)
	p.rest = p.collision.Add(min(lost*time.Duration(p.wary)/16, forgiven))
}

// shrink makes batches single messages. p.mu is held.
func (p *pace) shrink() {
	p.size, p.calm, p.wary = 1, 0, min(max(4*p.wary, firstWary), lastWary)
	p.collision = time.Now()
	p.convoy.begins()
}
