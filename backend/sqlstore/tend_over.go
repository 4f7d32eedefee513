package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/parleymq/parley/backend"
)

// after runs a query that walks a table by id from where the last walk of the
// duty ended, and returns the ids that it marks. At the end it begins anew.
func (s *Store) after(ctx context.Context, duty backend.Duty, q *Stmt) (ids []backend.ID, err error) {
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
		}, q, from, walkSize)
	})
	if err != nil {
		return nil, err
	}
	if seen < walkSize {
		last = backend.ID{}
	}
	s.mu.Lock()
	s.cursors[duty] = last
	s.mu.Unlock()
	return ids, nil
}

// walkSize is how many rows a slow walk looks at in one call; a dialect's statement
// may have it in its text.
const walkSize = 1000

// tendClosed removes conversations that both sides have ended. Most of them are
// on a list. Two sides that end at the same time do not see each other, and
// their conversation is found by a slow walk. What is locked is looked at again
// after a second.
func (s *Store) tendClosed(ctx context.Context, limit int) (moved int, next time.Duration, err error) {
	ids, err := s.due(ctx, s.q.FinishedEndpoints, limit)
	if err != nil {
		return 0, 0, err
	}
	late, err := s.after(ctx, backend.DutyClosed, s.q.EndpointsAfter)
	if err != nil {
		return 0, 0, err
	}
	for _, handle := range append(ids, late...) {
		removed := false
		err := s.atomically(ctx, func(tx *Tx) (err error) {
			removed, err = tx.removeClosed(ctx, handle)
			return err
		})
		if err != nil {
			return moved, 0, err
		}
		if removed {
			moved++
		} else {
			next = time.Second
		}
	}
	return moved, next, nil
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
func (s *Store) tendGroups(ctx context.Context) (moved int, err error) {
	ids, err := s.after(ctx, backend.DutyGroups, s.q.GroupsAfter)
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

// tendOnce removes keys of Once whose time is over.
func (s *Store) tendOnce(ctx context.Context, limit int) (moved int, err error) {
	var keys []string
	err = s.reading(ctx, func(r run) error {
		return r.Rows(ctx, func(rows *sql.Rows) error {
			var key string
			err := rows.Scan(&key)
			keys = append(keys, key)
			return err
		}, s.q.OnceDue, limit)
	})
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	err = s.atomically(ctx, func(tx *Tx) error {
		for _, key := range keys {
			n, err := tx.Exec(ctx, s.q.OnceDelete, key)
			if err != nil {
				return err
			}
			moved += int(n)
		}
		return nil
	})
	return moved, err
}
