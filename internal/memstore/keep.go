package memstore

import (
	"context"
	"time"

	"github.com/parleymq/parley/backend"
)

// Keep implements [backend.Tx]. The lock of the transaction is still there,
// though Settle has ended the hold.
func (tx *Tx) Keep(ctx context.Context, hold *backend.Hold, d time.Duration, owner string) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	s := tx.store
	g, ok := s.groups.get(tx, hold.Group)
	if !ok || !tx.holdsLock(groupLock(hold.Group)) {
		return backend.ErrFenced
	}
	s.fence++
	now := s.now()
	g.lease = &lease{fence: s.fence, owner: owner, length: d, since: now, until: now.Add(d)}
	s.groups.put(tx, hold.Group, g)
	tx.leases = append(tx.leases, g.lease)
	hold.Fence = s.fence
	return nil
}
