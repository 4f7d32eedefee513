package sqlstore

import (
	"context"
	"time"

	"github.com/parleymq/parley/backend"
)

// tendDelayed lets posts that are due join their queues. Those without key join
// together. Those with one join one by one, in the order in which they are due,
// since each needs the guard of its key, and is left for later when it is not
// to be had: then the others of the key must wait as well.
func (s *Store) tendDelayed(ctx context.Context, limit int) (moved int, err error) {
	ids, err := s.due(ctx, s.q.DueDelayed, limit)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	var keyed []*backend.Posting
	err = s.atomically(ctx, func(tx *Tx) error {
		for _, id := range ids {
			locked, err := tx.TryLock(ctx, s.q.DelayedTry, id)
			if err != nil {
				return err
			}
			if !locked {
				continue
			}
			p, err := tx.delayed(ctx, id)
			if err != nil {
				return err
			}
			switch {
			case p == nil:
			case p.Key != "":
				keyed = append(keyed, p)
			default:
				if err := tx.join(ctx, p); err != nil {
					return err
				}
				moved++
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	type key struct {
		queue int64
		name  string
	}
	busy := make(map[key]bool)
	for _, p := range keyed {
		k := key{p.Queue, p.Key}
		if busy[k] {
			continue
		}
		joined := false
		err := s.atomically(ctx, func(tx *Tx) (err error) {
			joined, err = tx.joinKeyed(ctx, p.ID)
			return err
		})
		if err != nil {
			return moved, err
		}
		if joined {
			moved++
		} else {
			busy[k] = true
		}
	}
	return moved, nil
}

// join moves a delayed post, whose row is locked, to where it belongs.
func (t *Tx) join(ctx context.Context, p *backend.Posting) error {
	if n, err := t.Exec(ctx, t.s.q.DelayedDelete, p.ID); err != nil || n == 0 {
		return err
	}
	var uniq any
	if p.Unique != "" {
		uniq = p.Unique
	}
	if p.Key != "" {
		return t.postKeyed(ctx, *p, uniq)
	}
	_, err := t.Exec(ctx, t.s.q.PostInsert, p.ID, p.Queue, p.Rank, p.Type, p.Body, uniq)
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

// tendTimers turns timers and lifetimes that are due into messages.
func (s *Store) tendTimers(ctx context.Context, kind, limit int) (moved int, err error) {
	ids, err := s.due(ctx, s.q.DueTimers, kind, limit)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	err = s.atomically(ctx, func(tx *Tx) error {
		for _, handle := range ids {
			locked, err := tx.TryLock(ctx, s.q.TimerTry, handle, kind)
			if err != nil {
				return err
			}
			if !locked {
				continue
			}
			// It may have been set anew since we looked.
			n, err := tx.Exec(ctx, s.q.TimerExpire, handle, kind)
			if err != nil {
				return err
			}
			if n == 0 {
				continue
			}
			told, err := tx.expire(ctx, kind, handle)
			if err != nil {
				return err
			}
			if told {
				moved++
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return moved, nil
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
func (s *Store) reopenDue(ctx context.Context, limit int) (moved int, err error) {
	tried := make(map[backend.ID]bool)
	for n := limit; ; n *= 4 {
		groups, err := s.due(ctx, s.q.DueGroups, n)
		if err != nil {
			return moved, err
		}
		for _, id := range groups {
			if tried[id] {
				continue
			}
			tried[id] = true
			m, err := s.reopen(ctx, id)
			moved += m
			if err != nil || moved >= limit {
				return moved, err
			}
		}
		if moved > 0 || len(groups) < n || n >= backend.CountLimit {
			return moved, nil
		}
	}
}

// stalled returns when to look again at groups that are due but locked: ever later
// while there is nothing else.
func (s *Store) stalled(still bool) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	pause := max(s.stall, soon)
	s.stall = 0
	if still {
		s.stall = min(2*pause, time.Second)
	}
	return pause
}

// tendDeferred makes deferred groups and posts ready that are due, and looks
// again at groups of which a stream was missed when they became ready. Guards
// are locked for each group, so each has transactions of its own.
func (s *Store) tendDeferred(ctx context.Context, limit int) (moved int, next time.Duration, err error) {
	if moved, err = s.reopenDue(ctx, limit); err != nil {
		return moved, 0, err
	}
	posts, err := s.due(ctx, s.q.DuePosts, limit)
	if err != nil {
		return moved, 0, err
	}
	if len(posts) > 0 {
		err := s.atomically(ctx, func(tx *Tx) error {
			for _, id := range posts {
				locked, err := tx.TryLock(ctx, s.q.PostTry, id)
				if err != nil {
					return err
				}
				if !locked {
					continue
				}
				n, err := tx.Exec(ctx, s.q.PostDue, id)
				if err != nil {
					return err
				}
				moved += int(n)
			}
			return nil
		})
		if err != nil {
			return 0, 0, err
		}
	}
	again, err := s.due(ctx, s.q.DueGroups, 1)
	if err != nil || len(again) > 0 {
		return moved, s.stalled(moved == 0), err
	}
	s.stalled(false)
	next, err = s.next(ctx, s.q.NextGroup)
	if err != nil {
		return moved, 0, err
	}
	post, err := s.next(ctx, s.q.NextPost)
	if post > 0 && (next == 0 || post < next) {
		next = post
	}
	return moved, next, err
}
