package conformance

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// crash closes a handle: its transactions are rolled back, its leases live on.
func (m *model) crash() {
	if !m.HoldsInTransaction() {
		return
	}
	dead := m.invBelow
	m.must(dead.be.Close(), "close")
	m.logf("a process dies")
	for _, s := range slices.Clone(m.senders) {
		if s.s == dead {
			m.gone(s, false)
		}
	}
	for _, h := range slices.Clone(m.hands) {
		if h.s == dead && h.tx != nil {
			m.free(h)
		}
	}
	i := slices.Index(m.handles, dead)
	m.handles[i] = invUnder(dead.world)
	m.invBelow = m.handles[i]
}

// abandon takes a group by a short lease and abandons it. After the lease the group is free and
// unchanged, and the old hold is useless.
func (m *model) abandon() {
	ready := m.ready(m.sq)
	hand := m.take(parley.HoldLease, backend.ClaimRequest{Queue: m.sq, MaxGroups: 1, MaxMessages: 2, Lease: 60 * time.Millisecond}, ready)
	if hand == nil {
		return
	}
	m.free(hand)
	if !m.Soon(10*time.Second, func() bool {
		tx := m.begin()
		defer m.rollback(tx)
		c, err := tx.Claim(m.Ctx, m.request(backend.ClaimRequest{Queue: m.sq, Group: hand.groups[0].id}))
		m.must(err, "claim of an abandoned group")
		return len(c.Holds) > 0
	}) {
		m.failf("the lease of %s does not end", m.names(hand))
	}
	m.logf("the lease ended")
	tx := m.begin()
	defer m.rollback(tx)
	if m.rng.IntN(2) == 0 {
		return
	}
	// As long as no other receiver has come, the store chooses whether an old hold
	// is good for anything. After another receiver has come, the hold is not.
	g := hand.groups[0]
	next := m.take(parley.HoldLease, backend.ClaimRequest{Queue: m.sq, Group: g.id, MaxGroups: 1, MaxMessages: 2, Lease: time.Hour}, []*modelGroup{g})
	if next == nil {
		m.failf("the lease of %s ended, and a claim of it finds nothing", m.name(g))
	}
	if err := tx.Reclaim(m.Ctx, hand.holds); !errors.Is(err, backend.ErrFenced) {
		m.failf("a hold of %s whose lease ended and that another receiver followed is reclaimed: %v", m.name(g), err)
	}
}

// probe claims everything and rolls back: what is committed, and in no receiver's
// hands, must be in the order, and nothing else. It claims by lease, so that what
// it has is not found again.
func (m *model) probe() {
	if m.rng.IntN(2) == 0 {
		m.job(backend.JobDeferred)
	}
	for _, queue := range []int64{m.sq, m.cq} {
		ready := m.ready(queue)
		tx := m.begin()
		for found := 0; ; {
			ctx, cancel := context.WithTimeout(m.Ctx, 2*invPatience)
			c, err := tx.Claim(ctx, m.request(backend.ClaimRequest{Queue: queue, MaxGroups: 1000, MaxMessages: 1000, Lease: time.Hour}))
			cancel()
			m.must(err, "claim of everything")
			if len(c.Holds) == 0 { // one claim may return fewer than could be had
				m.logf("probe: %d groups", found)
				break
			}
			found += len(c.Holds)
			for _, h := range c.Holds {
				g := m.read(h, h.Messages, 1000, parley.ID{}, nil)
				i := slices.Index(ready, g)
				if i < 0 {
					m.failf("claims of everything have %s, %s", m.name(g), g.unexpected())
				}
				ready = slices.Delete(ready, i, i+1)
			}
		}
		for _, g := range ready {
			if !g.unsure {
				m.failf("stranded: claims of everything do not have %s", m.rank(g))
			}
		}
		m.rollback(tx)
	}
}

// unexpected says why a claim must not have a group.
func (g *modelGroup) unexpected() string {
	switch {
	case g.hand != nil:
		return "which a receiver has in hand"
	case g.hidden:
		return "which is parked or deferred"
	default:
		return "which an earlier claim of the same transaction has returned, or which has no message for it to see"
	}
}

// finish lets everybody end, and takes all that is left.
func (m *model) finish() {
	for len(m.senders) > 0 {
		m.close(m.senders[0])
	}
	for len(m.hands) > 0 {
		m.settle(m.hands[0])
	}
	for _, g := range m.inUse() {
		if g.hidden {
			m.unparkGroup(g)
		}
	}
	m.job(backend.JobDeferred)
	m.probe()
	for _, queue := range []int64{m.sq, m.cq} {
		for len(m.ready(queue)) > 0 {
			hand := m.take(m.Holds()[0], backend.ClaimRequest{Queue: queue, MaxGroups: 2, MaxMessages: 3, Lease: map[bool]time.Duration{false: time.Hour}[m.HoldsInTransaction()]}, m.ready(queue))
			for len(m.hands) > 0 {
				m.settle(hand)
			}
			for _, g := range m.inUse() {
				if g.hidden {
					m.unparkGroup(g)
				}
			}
		}
	}
	m.job(backend.JobMarkers)
	m.probe()
}
