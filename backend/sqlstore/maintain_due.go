package sqlstore

import (
	"context"
	"time"

	"github.com/parleymq/parley/backend"
)

// delayed lets posts that are due join their queues. Those without key join together.
// Those with one join one by one, in the order in which they are due, since each needs
// the guard of its key. It is left for later when the guard is not to be had: then the
// others of the key must wait as well.
func (s *Store) delayed() falling {
	return falling{job: backend.JobDelayed, firsts: s.q.DelayedFirsts, page: s.q.DueDelayed, move: s.joinDue}
}

func (s *Store) joinDue(ctx context.Context, w *overdue, queue int64, rows []dueRow) (moved int, err error) {
	var plain, keyed []dueRow
	for _, row := range rows {
		if row.key == "" {
			plain = append(plain, row)
		} else {
			keyed = append(keyed, row)
		}
	}
	switch {
	case len(plain) == 0:
	case s.d.JoinPosts != nil:
		ids := make([]backend.ID, len(plain))
		for i, row := range plain {
			ids[i] = row.id
		}
		err = s.atomically(ctx, func(tx *Tx) error {
			n, err := s.d.JoinPosts(ctx, tx, ids)
			moved = int(n)
			return err
		})
	default:
		moved, err = s.unlocked(ctx, plain, s.q.DelayedTry, nil, func(tx *Tx, id backend.ID) (bool, error) {
			p, err := tx.delayed(ctx, id)
			if err != nil || p == nil {
				return false, err
			}
			return true, tx.join(ctx, p)
		})
	}
	for _, row := range keyed {
		k := Key{queue, row.key}
		if err != nil || w.busy[k] {
			continue
		}
		joined := false
		err = s.atomically(ctx, func(tx *Tx) (err error) {
			joined, err = tx.joinKeyed(ctx, row.id)
			return err
		})
		if err == nil && joined {
			moved++
		}
		w.busy[k] = !joined
	}
	return moved, err
}

// join moves a delayed post, whose row is locked, to where it belongs.
func (t *Tx) join(ctx context.Context, p *backend.Posting) error {
	if n, err := t.Exec(ctx, t.s.q.DelayedDelete, p.ID); err != nil || n == 0 {
		return err
	}
	if p.Key != "" {
		return t.postKeyed(ctx, *p)
	}
	_, err := t.Exec(ctx, t.s.q.PostInsert, p.ID, p.Queue, p.Rank, p.Type, p.Body, NullText(p.Headers), NullText(p.Unique))
	return err
}

// joinKeyed is join for a post with a key. It returns false if it has to wait.
func (t *Tx) joinKeyed(ctx context.Context, id backend.ID) (bool, error) {
	locked, err := t.TryLock(ctx, t.s.q.DelayedTry, id)
	if err != nil || !locked {
		return false, err
	}
	p, err := t.delayed(ctx, id)
	if err != nil || p == nil || p.Delay > 0 {
		return p == nil, err
	}
	var stream backend.ID
	found, err := t.Row(ctx, []any{ID(&stream)}, t.s.q.KeyRead, p.Queue, p.Key)
	if err != nil {
		return false, err
	}
	if found {
		if _, err := t.guard(ctx, stream); err != nil {
			if err == backend.ErrStreamBusy {
				err = nil
			}
			return false, err
		}
	}
	return true, t.join(ctx, p)
}

// timers turns timers or lifetimes that are due into messages.
func (s *Store) timers(job backend.Job, kind int) falling {
	return falling{job: job, firsts: s.q.TimerFirsts, page: s.q.DueTimers, kind: []any{kind},
		move: func(ctx context.Context, _ *overdue, queue int64, rows []dueRow) (int, error) {
			return s.unlocked(ctx, rows, s.q.TimerTry, []any{kind}, func(tx *Tx, handle backend.ID) (bool, error) {
				if queue == 0 {
					return false, tx.adopt(ctx, kind, handle)
				}
				n, err := tx.Exec(ctx, s.q.TimerExpire, handle, kind)
				if err != nil || n == 0 { // it has been set again since we looked
					return false, err
				}
				return tx.expire(ctx, kind, handle)
			})
		}}
}

// adopt gives a timer that an older program has set its queue.
func (t *Tx) adopt(ctx context.Context, kind int, handle backend.ID) error {
	h, err := t.home(ctx, handle)
	switch {
	case err != nil:
	case h == nil:
		_, err = t.Exec(ctx, t.s.q.TimerExpire, handle, kind)
	default:
		_, err = t.Exec(ctx, t.s.q.TimerQueue, h.queue, handle, kind)
	}
	return err
}

func (t *Tx) expire(ctx context.Context, kind int, handle backend.ID) (told bool, err error) {
	if kind == timerDialog {
		return t.notice(ctx, backend.Notice{To: handle, Kind: backend.KindTimer})
	}
	e, err := t.endpoint(ctx, handle)
	if err != nil || e == nil {
		return false, err
	}
	if e.State == backend.Errored || e.State == backend.DisconnectedInbound {
		return false, nil // it knows already that nothing more will come
	}
	return t.notice(ctx, backend.Notice{To: handle, Kind: backend.KindError, Error: &backend.DialogError{
		Code: backend.CodeLifetime,
		Text: "The conversation lifetime has expired.",
	}})
}

// reopenDue makes groups ready that are due. Those that others have locked do not
// hide the rest.
func (s *Store) reopenDue(ctx context.Context, limit int) (done backend.Maintained, err error) {
	tried := make(map[backend.ID]bool)
	for n := limit; ; n *= 4 {
		groups, err := s.due(ctx, s.q.DueGroups, n)
		if err != nil {
			return done, err
		}
		for _, id := range groups {
			if tried[id] {
				continue
			}
			tried[id] = true
			queue, moved, err := s.reopen(ctx, id)
			if moved {
				done.Give(queue)
			}
			if err != nil || done.Moved >= limit {
				return done, err
			}
		}
		if done.Moved > 0 || len(groups) < n || n >= backend.CountLimit {
			return done, nil
		}
	}
}

// posts makes posts ready whose deferral is over.
func (s *Store) posts() falling {
	return falling{job: backend.JobDeferred, firsts: s.q.NextPost, page: s.q.DuePosts, whole: true,
		move: func(ctx context.Context, _ *overdue, _ int64, rows []dueRow) (int, error) {
			return s.unlocked(ctx, rows, s.q.PostTry, nil, func(tx *Tx, id backend.ID) (bool, error) {
				n, err := tx.Exec(ctx, s.q.PostDue, id)
				return n > 0, err
			})
		}}
}

// maintainDeferred makes deferred groups and posts ready that are due. It also repairs groups that
// missed a stream when they became ready. Guards are locked for each group, so each group has
// separate transactions.
func (s *Store) maintainDeferred(ctx context.Context, limit int) (done backend.Maintained, err error) {
	groups, err := s.reopenDue(ctx, limit)
	if err != nil {
		return groups, err
	}
	done, err = s.maintainFalling(ctx, s.posts(), limit)
	done.Moved += groups.Moved
	for _, queue := range groups.Queues {
		done.In(queue)
	}
	if err != nil {
		return done, err
	}
	var next time.Duration
	again, err := s.due(ctx, s.q.DueGroups, 1)
	switch {
	case err != nil:
		return done, err
	case len(again) > 0:
		next = s.stalled(dueGroups, groups.Moved == 0)
	default:
		s.stalled(dueGroups, false)
		next, err = s.next(ctx, s.q.NextGroup)
	}
	done.Next = sooner(next, done.Next)
	return done, err
}

// sooner returns the shorter of two waits, of which zero is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
