package consumer

import "time"

// convoy finds out whether handlers wait for each other's row locks without a deadlock. A batch
// holds the locks of all its handlers until it commits. So the longer batches are, the longer
// handlers of other batches wait, and a message takes longer in a batch than alone. The database
// does not report what its sessions have waited for, so the pace compares: now and then it takes
// single messages for a while.
//
// It does so only where handlers take longer than claims and settles. There, single messages take
// at most twice the time, because each needs a separate claim and settle. Only there can batches be
// slower than single messages.
type convoy struct {
	many, single time.Duration // for a message with its share of claim and settle, of late
	slow         int           // long batches in a row that it took longer to handle than to claim and settle
	patience     int           // how many of those there are before single messages are tried
	trial        int           // single messages that are to be tried yet
	before       int           // the size before the trial
}

const (
	// firstPatience and lastPatience are how many long batches there are before a trial. It
	// grows with each trial that finds nothing.
	firstPatience = 16
	lastPatience  = 4096
	// trialLength is how many single messages are tried. The first of them still wait for batches
	// of other readers, but have little weight at the end.
	trialLength = 32
)

func (c *convoy) begins() { c.slow, c.trial, c.many = 0, 0, 0 }

// convoyed reports whether batches are worse than single messages, by more than they vary.
func (c *convoy) convoyed() bool { return c.many*3 > c.single*4 && c.single > 0 }

// average moves an average of late, which has no value at first.
func average(of *time.Duration, by time.Duration) {
	if *of == 0 {
		*of = by
	}
	*of += (by - *of) / 8
}

// compare takes note of a batch and reports whether it has decided about the size.
// p.mu is held.
func (p *pace) compare(b paced) bool {
	c := &p.convoy
	each := (b.took + b.cost) / time.Duration(b.handled)
	if b.messages == 1 {
		average(&c.single, each)
	} else {
		average(&c.many, each)
		c.slow++
		if b.took/time.Duration(b.handled) < max(p.cost, p.time/100) {
			c.slow = 0
		}
	}
	switch {
	case c.trial > 0:
		return p.try(b)
	case p.wary > 0 && b.messages > 1 && c.slow > trialLength/4 && c.convoyed():
		p.shrink()
		return true
	case p.wary == 0 && c.slow >= c.patience:
		c.trial, c.before, c.single = trialLength, p.size, 0
		p.size = 1
		return true
	}
	return false
}

// try takes note of a batch during a trial, and ends that. Batches that other readers had
// claimed before are not counted.
func (p *pace) try(b paced) bool {
	c := &p.convoy
	if b.messages > 1 {
		return true
	}
	if c.trial--; c.trial > 0 {
		return true
	}
	if c.convoyed() {
		c.patience = firstPatience
		p.shrink()
		return true
	}
	p.size = min(c.before, p.fit(p.atLeast(p.time)))
	c.patience = min(4*c.patience, lastPatience)
	c.begins()
	return true
}
