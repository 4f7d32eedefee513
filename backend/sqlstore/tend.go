package sqlstore

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// Tend implements backend.Backend.
func (s *Store) Tend(ctx context.Context, duty backend.Duty, limit int) (moved int, next time.Duration, err error) {
	if s.closed.Load() {
		return 0, 0, backend.ErrClosed
	}
	limit = max(limit, 1)
	switch duty {
	case backend.DutyDelayed:
		if moved, err = s.tendDelayed(ctx, limit); err == nil {
			next, err = s.next(ctx, s.q.NextDelayed)
		}
	case backend.DutyTimers:
		if moved, err = s.tendTimers(ctx, timerDialog, limit); err == nil {
			next, err = s.next(ctx, s.q.NextTimer, timerDialog)
		}
	case backend.DutyLifetimes:
		if moved, err = s.tendTimers(ctx, timerLifetime, limit); err == nil {
			next, err = s.next(ctx, s.q.NextTimer, timerLifetime)
		}
	case backend.DutyDeferred:
		moved, next, err = s.tendDeferred(ctx, limit)
	case backend.DutyMarkers:
		moved, err = s.tendMarkers(ctx, limit)
	case backend.DutyClosed:
		moved, err = s.tendClosed(ctx, limit)
	case backend.DutyGroups:
		moved, err = s.tendGroups(ctx, limit)
	case backend.DutyWorkers:
		moved, err = s.tendWorkers(ctx)
	case backend.DutyProcessed:
		if moved, err = s.tendProcessed(ctx, limit); err == nil {
			next, err = s.next(ctx, s.q.NextProcessed)
		}
	}
	return moved, next, err
}

// soon is when to look again at what is due but was locked.
const soon = 50 * time.Millisecond

// next is in how long the first of something is due, zero if there is none.
func (s *Store) next(ctx context.Context, q *Stmt, args ...any) (next time.Duration, err error) {
	err = s.reading(ctx, func(r run) error {
		var us int64
		found, err := r.Row(ctx, []any{&us}, q, args...)
		if found {
			next = max(time.Duration(us)*time.Microsecond, soon)
		}
		return err
	})
	return next, err
}

// due lists ids of what is due.
func (s *Store) due(ctx context.Context, q *Stmt, args ...any) (ids []backend.ID, err error) {
	err = s.reading(ctx, func(r run) (err error) {
		ids, err = r.IDs(ctx, q, args...)
		return err
	})
	return ids, err
}

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

// tendDeferred makes deferred groups and posts ready that are due, and looks
// again at groups of which a stream was missed when they became ready. Guards
// are locked for each group, so each has its own transaction.
func (s *Store) tendDeferred(ctx context.Context, limit int) (moved int, next time.Duration, err error) {
	groups, err := s.due(ctx, s.q.DueGroups, limit)
	if err != nil {
		return 0, 0, err
	}
	for _, id := range groups {
		err := s.atomically(ctx, func(tx *Tx) error {
			g, locked, err := tx.take(ctx, id)
			if err != nil || g == nil || !locked || g.blocked == parked {
				return err
			}
			// It may have been received and deferred anew since it was listed.
			var one any
			due, err := tx.Row(ctx, []any{&one}, s.q.GroupDue, id)
			if err != nil || !due {
				return err
			}
			moved++
			return tx.unblock(ctx, g)
		})
		if err != nil {
			return moved, 0, err
		}
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
		return moved, soon, err
	}
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

// tendMarkers removes entries from the head of the ready orders that are in the
// way of claims.
func (s *Store) tendMarkers(ctx context.Context, limit int) (moved int, err error) {
	var queues []int64
	err = s.reading(ctx, func(r run) error {
		return r.Rows(ctx, func(rows *sql.Rows) error {
			var id int64
			err := rows.Scan(&id)
			queues = append(queues, id)
			return err
		}, s.q.ReadyQueues)
	})
	if err != nil {
		return 0, err
	}
	for _, queue := range queues {
		n, err := s.tendStale(ctx, queue)
		moved += n
		if err != nil || moved >= limit {
			return moved, err
		}
	}
	return moved, nil
}

func (s *Store) tendStale(ctx context.Context, queue int64) (moved int, err error) {
	blocked := make(map[backend.ID]bool)     // groups
	empty := make(map[backend.ID]backend.ID) // streams, with their groups
	err = s.reading(ctx, func(r run) error {
		return r.Rows(ctx, func(rows *sql.Rows) error {
			var id, group backend.ID
			var state sql.NullInt64
			if err := rows.Scan(ID(&id), ID(&group), &state); err != nil {
				return err
			}
			if state.Int64 != 0 {
				blocked[group] = true
			} else {
				empty[id] = group
			}
			return nil
		}, s.q.Stale, queue)
	})
	if err != nil {
		return 0, err
	}
	for group := range blocked {
		n, err := s.takeOut(ctx, group)
		moved += n
		if err != nil {
			return moved, err
		}
	}
	if len(empty) == 0 {
		return moved, nil
	}
	// No group is needed for these: who holds the guard of a stream without
	// messages knows that there will be none until he lets go.
	err = s.atomically(ctx, func(tx *Tx) error {
		for _, id := range SortIDs(slices.Collect(maps.Keys(empty))) {
			n, err := tx.sweep(ctx, empty[id], id)
			if err != nil {
				return err
			}
			moved += n
		}
		return nil
	})
	return moved, err
}

// sweep removes a marker if its stream has no message.
func (t *Tx) sweep(ctx context.Context, group, id backend.ID) (int, error) {
	s, err := t.guard(ctx, id)
	if err == backend.ErrStreamBusy {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if s != nil {
		var seq, since int64
		found, err := t.Row(ctx, []any{&seq, &since}, t.s.q.MessageFirst, id)
		if err != nil || found {
			return 0, err
		}
	}
	n, err := t.Exec(ctx, t.s.q.MarkerDelete, group, id)
	return int(n), err
}

// takeOut takes the markers of a blocked group out of the ready order, in a
// transaction of its own, since it locks guards.
func (s *Store) takeOut(ctx context.Context, id backend.ID) (moved int, err error) {
	err = s.atomically(ctx, func(tx *Tx) error {
		g, locked, err := tx.take(ctx, id)
		if err != nil || g == nil || !locked || g.blocked == 0 {
			return err
		}
		streams, err := tx.IDs(ctx, s.q.MarkerRead, id)
		if err != nil {
			return err
		}
		for _, stream := range streams {
			if ok, err := tx.TryLock(ctx, s.q.GuardTry, stream); err != nil {
				return err
			} else if !ok {
				continue
			}
			n, err := tx.Exec(ctx, s.q.MarkerDelete, id, stream)
			if err != nil {
				return err
			}
			moved += int(n)
		}
		return nil
	})
	return moved, err
}

// after runs a query that walks a table by id from where the last walk of the
// duty ended, and returns the ids that it marks. At the end it begins anew.
func (s *Store) after(ctx context.Context, duty backend.Duty, q *Stmt, limit int) (ids []backend.ID, err error) {
	s.mu.Lock()
	from := s.cursors[duty]
	s.mu.Unlock()
	seen, last := 0, from
	err = s.reading(ctx, func(r run) error {
		return r.Rows(ctx, func(rows *sql.Rows) error {
			var hit bool
			if err := rows.Scan(ID(&last), Bool(&hit)); err != nil {
				return err
			}
			if hit {
				ids = append(ids, last)
			}
			seen++
			return nil
		}, q, from, limit)
	})
	if err != nil {
		return nil, err
	}
	if seen < limit {
		last = backend.ID{}
	}
	s.mu.Lock()
	s.cursors[duty] = last
	s.mu.Unlock()
	return ids, nil
}

// walkSize is how many rows a slow walk looks at in one call.
const walkSize = 1000

// tendClosed removes conversations that both sides have ended. Most of them are
// on a list. Two sides that end at the same time do not see each other, and
// their conversation is found by a slow walk.
func (s *Store) tendClosed(ctx context.Context, limit int) (moved int, err error) {
	ids, err := s.due(ctx, s.q.FinishedEndpoints, limit)
	if err != nil {
		return 0, err
	}
	late, err := s.after(ctx, backend.DutyClosed, s.q.EndpointsAfter, walkSize)
	if err != nil {
		return 0, err
	}
	for _, handle := range append(ids, late...) {
		removed := false
		err := s.atomically(ctx, func(tx *Tx) (err error) {
			removed, err = tx.removeClosed(ctx, handle)
			return err
		})
		if err != nil {
			return moved, err
		}
		if removed {
			moved++
		}
	}
	return moved, nil
}

// removeClosed removes the conversation of an endpoint that has ended, if the
// other side has ended too or is gone. It holds the groups of both, so that no
// message is in anybody's hands.
func (t *Tx) removeClosed(ctx context.Context, handle backend.ID) (bool, error) {
	mine, err := t.home(ctx, handle)
	if err != nil || mine == nil || !mine.ended {
		return false, err
	}
	theirs, err := t.home(ctx, mine.peer)
	if err != nil || theirs != nil && !theirs.ended {
		return false, err
	}
	groups := []backend.ID{mine.group}
	if theirs != nil {
		groups = append(groups, theirs.group)
	}
	for _, id := range SortIDs(groups) {
		g, locked, err := t.take(ctx, id)
		if err != nil || g != nil && !locked {
			return false, err
		}
	}
	return t.removeConversation(ctx, handle, mine.peer, true)
}

// tendGroups removes groups and keys that nothing refers to, by a slow walk.
func (s *Store) tendGroups(ctx context.Context, limit int) (moved int, err error) {
	ids, err := s.after(ctx, backend.DutyGroups, s.q.GroupsAfter, max(limit, walkSize))
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		removed := false
		err := s.atomically(ctx, func(tx *Tx) (err error) {
			removed, err = tx.removeGroup(ctx, id)
			return err
		})
		if err != nil {
			return moved, err
		}
		if removed {
			moved++
		}
	}
	_, err = s.dropPromotions(ctx)
	return moved, err
}

// removeGroup removes a group that nothing refers to, with its key.
func (t *Tx) removeGroup(ctx context.Context, id backend.ID) (bool, error) {
	g, locked, err := t.take(ctx, id)
	if err != nil || g == nil || !locked {
		return false, err
	}
	if g.name != "" {
		if _, err := t.guard(ctx, id); err != nil {
			if err == backend.ErrStreamBusy {
				err = nil
			}
			return false, err
		}
	}
	var use int64
	if _, err := t.Row(ctx, []any{&use}, t.s.q.GroupUse, id); err != nil || use > 0 {
		return false, err
	}
	if g.name != "" {
		if _, err := t.Exec(ctx, t.s.q.KeyDelete, g.queue, g.name); err != nil {
			return false, err
		}
		if _, err := t.Exec(ctx, t.s.q.StreamDelete, id); err != nil {
			return false, err
		}
	}
	for _, q := range []*Stmt{t.s.q.PromotionDrop, t.s.q.GroupDelete} {
		if _, err := t.Exec(ctx, q, id); err != nil {
			return false, err
		}
	}
	return true, nil
}

// dropPromotions removes promotions of posts that are gone.
func (s *Store) dropPromotions(ctx context.Context) (int, error) {
	ids, err := s.due(ctx, s.q.LostPromotions, walkSize)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	return len(ids), s.atomically(ctx, func(tx *Tx) error {
		for _, id := range ids {
			if _, err := tx.Exec(ctx, s.q.PromotionDrop, id); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Store) tendProcessed(ctx context.Context, limit int) (moved int, err error) {
	ids, err := s.due(ctx, s.q.DueProcessed, limit)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	err = s.atomically(ctx, func(tx *Tx) error {
		for _, id := range ids {
			n, err := tx.Exec(ctx, s.q.ProcessedDelete, id)
			if err != nil {
				return err
			}
			moved += int(n)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return moved, nil
}
