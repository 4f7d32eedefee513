package memstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleymq/parley/backend"
)

// cancelRequest is a request to cancel what another transaction or a lease has in hand. Its key is a
// post or task, and an ID of the request itself: two that ask for the same do not meet.
type cancelRequest struct {
	queue int64 // zero: a task
	at    time.Time
}

// errInHand: the post is locked, by a receiver as long as it works or by a maintenance job for a
// moment.
var errInHand = fmt.Errorf("%w: %w", backend.ErrNotPending, backend.ErrGroupBusy)

// RequestCancel implements [backend.TxCancels].
func (tx *Tx) RequestCancel(ctx context.Context, queue int64, ids []backend.ID) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	s := tx.store
	for _, id := range ids {
		if s.fault == FaultCancelWaits {
			if err := tx.lock(ctx, groupLock(id)); err != nil {
				return err
			}
		}
		if s.fault != FaultCancelLost && !(s.fault == FaultTaskRequestLost && queue == 0) {
			s.requests.put(tx, pair{id, backend.NewID()}, cancelRequest{queue, s.now()})
		}
	}
	return nil
}

// CancelFree implements [backend.TxCancels].
func (tx *Tx) CancelFree(ctx context.Context, queue int64, ids []backend.ID) (removed []backend.ID, err error) {
	if err := tx.enter(ctx); err != nil {
		return nil, err
	}
	defer tx.leave()
	for _, id := range ids {
		if tx.store.cancel(tx, queue, id) == nil {
			removed = append(removed, id)
		}
	}
	return removed, nil
}

// CancelRequests implements [backend.Cancels].
func (h *Handle) CancelRequests(ctx context.Context) (list []backend.CancelRequest, err error) {
	if err := h.enterMigrated(ctx); err != nil {
		return nil, err
	}
	defer h.leave()
	for key, r := range h.store.requests.from(nil, pair{}) {
		list = append(list, backend.CancelRequest{ID: key.of, Queue: r.queue, Age: h.store.age(r.at)})
	}
	return list, nil
}

// PendingPosts implements [backend.Cancels].
func (h *Handle) PendingPosts(ctx context.Context, q backend.PendingQuery) (list []backend.PendingPost, err error) {
	if err := h.enterMigrated(ctx); err != nil {
		return nil, err
	}
	defer h.leave()
	for id, p := range h.store.posts.from(nil, q.After) {
		if id == q.After || p.Queue != q.Queue || p.state == "processed" || p.state == "delayed" && h.store.fault == FaultDelayedUnlisted || q.Key != "" && p.Key != q.Key {
			continue
		}
		if list = append(list, backend.PendingPost{ID: id, Key: p.Key, Type: p.Type}); len(list) == limited(q.Limit) {
			break
		}
	}
	return list, nil
}

// cancels cancels what waits again, and removes requests that are met.
func (d *work) cancels() {
	s := d.store
	for _, key := range s.requests.keys(d.tx) {
		r, _ := s.requests.get(d.tx, key)
		if d.Moved == d.limit {
			d.again(time.Millisecond)
			return
		}
		if s.fault == FaultCancelForgotten {
			s.requests.delete(d.tx, key)
			continue
		}
		met := false
		if r.queue == 0 {
			met = s.cancelTask(d.tx, key.of)
		} else {
			met = !errors.Is(s.cancel(d.tx, r.queue, key.of), backend.ErrGroupBusy)
		}
		if met && s.requests.delete(d.tx, key) {
			d.Moved++
		}
	}
}

// cancelTask cancels a task that waits, and reports whether no worker has it in hand.
func (s *Store) cancelTask(tx *Tx, id backend.ID) bool {
	for _, key := range s.tasks.keys(tx) {
		t, _ := s.tasks.get(tx, key)
		switch {
		case t.ID != id:
			continue
		case s.tasks.busy(tx, key):
			return false
		case t.State == backend.TaskRunning:
			t.stop = true
			s.tasks.put(tx, key, t)
			return false
		case controlled(&t, backend.PlanCancel, s.now()):
			s.tasks.put(tx, key, t)
		}
	}
	return true
}
