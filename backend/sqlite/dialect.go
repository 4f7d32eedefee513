package sqlite

import (
	"context"
	"encoding/hex"
	"strconv"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// statements are the portable ones and those below. Nothing is locked: whoever
// writes is the only one. In joins a CROSS JOIN keeps the order of the tables: the
// left one is the outer loop ("The SQLite Query Optimizer Overview").
// The name of the table meta stands in quotes, where no prefix is put in.
func statements(prefix string) sqlstore.Statements[string] {
	s := sqlstore.Portable()
	sqlstore.Hint(&s, "INDEXED BY parley_delayed_order", "INDEXED BY parley_timer_order", "INDEXED BY parley_post_due")
	s.SchemaExists = `
		SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '` + prefix + `meta'`
	s.SchemaTables = `
		SELECT name, '' FROM sqlite_master WHERE type = 'table'`
	s.SchemaIndexes = `
		SELECT tbl_name, name, 1 FROM sqlite_master WHERE type = 'index'`
	s.CatalogLock = `
		SELECT 1 FROM parley_meta`
	s.FenceInsert = `
		INSERT INTO parley_fence (name, fence, uses) VALUES (?, ?, 1)
		ON CONFLICT DO NOTHING`
	s.GroupReclaim, s.PostReclaim = s.GroupReclaimWait, s.PostReclaimWait // nobody to wait for
	s.PromotionPut = `
		INSERT INTO parley_promotion (group_id, queue_id, level, since, version, sticky)
		VALUES (?, ?, ?, :now, :now, ?)
		ON CONFLICT (group_id) DO UPDATE
		   SET level = excluded.level, since = excluded.since, sticky = excluded.sticky,
		       version = max(version + 1, excluded.version)`
	s.WalkPromoted = `
		SELECT p.group_id, CASE WHEN g.group_id IS NULL THEN 1 ELSE 0 END
		  FROM parley_promotion p
		  LEFT JOIN parley_grp g ON g.group_id = p.group_id
		  LEFT JOIN parley_post o ON o.post_id = p.group_id
		 WHERE p.queue_id = ?
		   AND (g.blocked = 0 AND g.lease_until < :now
		        AND EXISTS (SELECT 1
		                      FROM parley_ready r
		                     CROSS JOIN parley_message m ON m.stream_id = r.stream_id
		                     WHERE r.group_id = p.group_id)
		     OR o.blocked = 0 AND o.lease_until < :now)
		 ORDER BY p.queue_id, p.level DESC, p.since, p.group_id
		 LIMIT ?`
	s.MarkerMove = `
		UPDATE parley_ready SET group_id = ?, held_until = 0
		 WHERE group_id = ? AND stream_id = ?`
	s.FreeReady = `
		UPDATE parley_ready INDEXED BY parley_ready_free SET held_until = 0
		 WHERE queue_id = ? AND held_until > 0 AND held_until < :now`
	s.WalkReady = `
		SELECT r.group_id, r.priority, r.since
		  FROM parley_ready r INDEXED BY parley_ready_free
		 CROSS JOIN parley_grp g ON g.group_id = r.group_id
		 WHERE r.queue_id = ? AND r.held_until = 0 AND g.blocked = 0 AND g.lease_until < :now
		   AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)
		 ORDER BY r.queue_id, r.held_until, r.priority DESC, r.since, r.group_id, r.stream_id
		 LIMIT ?`
	s.TakePosts = `
		SELECT post_id, queue_id, priority, since, type, body, uniq, attempts, suspicion,
		       last_error, fence, lease_until, blocked, :now
		  FROM parley_post
		 WHERE queue_id = ? AND blocked = 0 AND lease_until < :now
		 ORDER BY queue_id, priority DESC, since, post_id
		 LIMIT ?`
	s.LeasePosts = `
		UPDATE parley_post
		   SET fence = fence + 1, lease_until = :now + ?3, held_since = :now, owner = ?4,
		       suspicion = suspicion + (lease_until <> 0) -- its receiver died
		 WHERE post_id IN (SELECT p.post_id FROM parley_post p
		                    WHERE p.queue_id = ?1 AND p.blocked = 0 AND p.lease_until < :now
		                    ORDER BY p.queue_id, p.priority DESC, p.since, p.post_id
		                    LIMIT ?2)
		RETURNING post_id, queue_id, priority, since, type, body, uniq, attempts, suspicion,
		          last_error, fence - 1, 0, blocked, :now`
	s.Claimable = `
		SELECT 1
		 WHERE EXISTS (SELECT 1
		                 FROM parley_post p
		                WHERE p.queue_id = ?1 AND p.blocked = 0 AND p.lease_until < :now)
		    OR EXISTS (SELECT 1
		                 FROM parley_ready r INDEXED BY parley_ready_free
		                CROSS JOIN parley_grp g ON g.group_id = r.group_id
		                WHERE r.queue_id = ?1 AND r.held_until < :now
		                  AND g.blocked = 0 AND g.lease_until < :now
		                  AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id))`
	return s
}

// What is done to many rows at once takes them as JSON: ids in hexadecimal, or an
// object of ids and fences.
const (
	removePostsSQL = `
		DELETE FROM parley_post WHERE post_id IN (SELECT unhex(value) FROM json_each(?))`
	reclaimGroupsSQL = `
		UPDATE parley_grp SET lease_until = 0, owner = ''
		 WHERE (group_id, fence) IN (SELECT unhex(key), value FROM json_each(?))
		   AND lease_until <> 0
		   AND (SELECT v.schema_version FROM parley_meta v) <= :newest
		RETURNING group_id`
	reclaimPostsSQL = `
		UPDATE parley_post SET lease_until = 0, owner = ''
		 WHERE (post_id, fence) IN (SELECT unhex(key), value FROM json_each(?))
		   AND lease_until <> 0
		   AND (SELECT v.schema_version FROM parley_meta v) <= :newest
		RETURNING post_id`
	heldPostsSQL = `
		SELECT count(*)
		  FROM json_each(?) h
		 CROSS JOIN parley_post p ON p.post_id = unhex(h.key)
		 WHERE p.fence = h.value AND p.lease_until <> 0
		   AND (SELECT v.schema_version FROM parley_meta v) <= :newest`
)

// many are the statements for many rows.
type many struct{ removePosts, reclaimGroups, reclaimPosts, heldPosts *sqlstore.Stmt }

// own lists them.
func (m *many) own() sqlstore.Own {
	return sqlstore.Own{
		&m.removePosts:   {"remove posts", removePostsSQL},
		&m.reclaimGroups: {"reclaim groups", reclaimGroupsSQL},
		&m.reclaimPosts:  {"reclaim posts", reclaimPostsSQL},
		&m.heldPosts:     {"held posts", heldPostsSQL},
	}
}

// remove removes posts and returns how many there were.
func (m *many) remove(ctx context.Context, tx *sqlstore.Tx, ids []backend.ID) (int64, error) {
	if len(ids) == 1 {
		return tx.Exec(ctx, tx.Q().PostDelete, ids[0])
	}
	b := []byte{'['}
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = hex.AppendEncode(b, id[:])
		b = append(b, '"')
	}
	return tx.Exec(ctx, m.removePosts, string(append(b, ']')))
}

// fences writes holds as an object of ids and fences.
func fences(holds []*backend.Hold) string {
	b := []byte{'{'}
	for i, h := range holds {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = hex.AppendEncode(b, h.Group[:])
		b = append(b, '"', ':')
		b = strconv.AppendInt(b, h.Fence, 10)
	}
	return string(append(b, '}'))
}

// reclaim takes leases into the transaction and returns those that it had.
func (m *many) reclaim(ctx context.Context, tx *sqlstore.Tx, holds []*backend.Hold) (had []backend.ID, err error) {
	groups, posts := sqlstore.SplitHolds(holds)
	if len(groups) > 0 {
		if had, err = tx.IDs(ctx, m.reclaimGroups, fences(groups)); err != nil {
			return nil, err
		}
	}
	if len(posts) > 0 {
		ids, err := tx.IDs(ctx, m.reclaimPosts, fences(posts))
		return append(had, ids...), err
	}
	return had, nil
}

// held counts the posts that are still held by their fences.
func (m *many) held(ctx context.Context, tx *sqlstore.Tx, posts []*backend.Hold) (n int64, err error) {
	_, err = tx.Row(ctx, []any{&n}, m.heldPosts, fences(posts))
	return n, err
}

// release ends the leases of posts that are held.
func (m *many) release(ctx context.Context, tx *sqlstore.Tx, posts []*backend.Hold) error {
	_, err := tx.IDs(ctx, m.reclaimPosts, fences(posts))
	return err
}
