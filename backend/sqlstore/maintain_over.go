package sqlstore

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// maintainClosed removes conversations that both sides have ended. Most of them are
// on a list. Two sides that end at the same time do not see each other, and
// their conversation is found by a slow walk. What is locked is looked at again
// after a second.
func (s *Store) maintainClosed(ctx context.Context, limit int) (moved int, next time.Duration, err error) {
	remove := func(tx *Tx, handle backend.ID) (bool, error) { return tx.removeClosed(ctx, handle) }
	ids, err := s.due(ctx, s.q.FinishedEndpoints, limit)
	if err != nil {
		return 0, 0, err
	}
	moved, _, err = s.removeEach(ctx, ids, limit, remove)
	if err != nil {
		return moved, 0, err
	}
	if moved < len(ids) {
		next = time.Second
	}
	late, pause, err := s.walk(ctx, backend.JobClosed, s.q.EndpointsAfter, limit, remove)
	return moved + late, sooner(next, pause), err
}

// removeClosed removes the conversation of an endpoint that has ended, if the
// other side has ended too or is gone. It holds the groups of both, so that no
// message is in a receiver's hands.
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
	if theirs == nil { // the walk has looked whether messages wait for the other side, but without a lock
		s, err := t.guard(ctx, handle)
		if err == backend.ErrStreamBusy {
			return false, nil
		}
		if err != nil || s != nil && s.Held {
			return false, err
		}
	}
	return t.removeConversation(ctx, handle, mine.peer)
}

// maintainGroups removes unreferenced groups and keys by a slow walk. With each pass it also removes the
// promotions of posts that are gone. The walk also finds messages that no marker leads to.
func (s *Store) maintainGroups(ctx context.Context, limit int) (moved int, next time.Duration, err error) {
	moved, next, err = s.walk(ctx, backend.JobGroups, s.q.GroupsAfter, limit,
		func(tx *Tx, id backend.ID) (bool, error) {
			if removed, err := tx.removeGroup(ctx, id); removed || err != nil {
				return removed, err
			}
			g, locked, err := tx.take(ctx, id)
			if err != nil || g == nil || !locked || g.blocked != 0 {
				return false, err
			}
			return tx.readmit(ctx, g)
		})
	if err == nil && next == 0 {
		_, err = s.dropPromotions(ctx)
	}
	return moved, next, err
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
	if _, err := t.Row(ctx, []any{Witness(&use)}, t.s.q.GroupUse, id); err != nil || use > 0 {
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

// readmit puts the streams of a free group, which we hold, to their places that have messages and no
// marker. No verb leaves such a stream behind; an engine that ended a statement without an error did
// (docs/backends.md). So it does not do so in silence.
func (t *Tx) readmit(ctx context.Context, g *group) (bool, error) {
	astray, err := t.IDs(ctx, t.s.q.MarkersAstray, g.id, g.until, g.until)
	if err != nil || len(astray) == 0 {
		return false, err
	}
	marked, err := t.IDs(ctx, t.s.q.MarkerRead, g.id)
	if err != nil {
		return false, err
	}
	if _, _, err = t.unblock(ctx, g, g.until); err != nil {
		return false, err
	}
	stranded := slices.DeleteFunc(astray, func(id backend.ID) bool { return slices.Contains(marked, id) })
	if len(stranded) > 0 && !g.resweep { // others have a marker of the wrong time, or are looked at in any case
		t.s.log.Warn("parley: messages that no receive found are ready again",
			"event", "group.stranded", "group", g.id, "streams", len(stranded))
	}
	return true, nil
}

// dropPromotions removes promotions of posts that are gone.
func (s *Store) dropPromotions(ctx context.Context) (int, error) {
	var ids []backend.ID
	err := s.reading(ctx, func(r run) error {
		return r.Rows(ctx, func(rows *sql.Rows) error {
			var id backend.ID
			var witness int64
			err := rows.Scan(ID(&id), Witness(&witness))
			ids = append(ids, id)
			return err
		}, s.q.LostPromotions, walkSize)
	})
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

func (s *Store) maintainProcessed(ctx context.Context, limit int) (moved int, err error) {
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

// maintainOnce removes keys of Once whose time is over.
func (s *Store) maintainOnce(ctx context.Context, limit int) (moved int, err error) {
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
