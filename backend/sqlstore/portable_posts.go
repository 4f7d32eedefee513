package sqlstore

// portablePosts has those for posts.
func portablePosts(s *Statements[string]) {
	s.KeyRead = `
		SELECT stream_id FROM parley_key WHERE queue_id = ? AND name = ?`
	s.KeyInsert = `
		INSERT INTO parley_key (queue_id, name, stream_id) VALUES (?, ?, ?)
		ON CONFLICT DO NOTHING`
	s.KeyDelete = `
		DELETE FROM parley_key WHERE queue_id = ? AND name = ?`

	s.PostOne = `
		INSERT INTO parley_post (post_id, queue_id, priority, since, type, body)
		SELECT ?, q.queue_id, ?, :now, ?, ?
		  FROM parley_queue q
		 CROSS JOIN parley_meta v
		 WHERE q.queue_id = ? AND q.enabled = 1 AND v.catalog_version = ?`
	s.PostInsert = `
		INSERT INTO parley_post (post_id, queue_id, priority, since, type, body, uniq)
		VALUES (?, ?, ?, :now, ?, ?, ?)`
	s.PostRead = `
		SELECT post_id, queue_id, priority, since, type, body, uniq, attempts, suspicion,
		       last_error, fence, lease_until, blocked, :now
		  FROM parley_post WHERE post_id = ?`
	s.PostLease = `
		UPDATE parley_post
		   SET fence = fence + 1, lease_until = :now + ?, held_since = :now, owner = ?
		 WHERE post_id = ?`
	s.PostUnlease = `
		UPDATE parley_post SET fence = fence + 1, lease_until = 0, owner = '' WHERE post_id = ?`
	s.PostReclaimWait = `
		UPDATE parley_post SET lease_until = 0, owner = ''
		 WHERE post_id = ? AND fence = ? AND lease_until <> 0
		   AND (SELECT v.schema_version FROM parley_meta v) <= :newest`
	s.PostExtend = `
		UPDATE parley_post SET lease_until = :now + ?
		 WHERE post_id = ? AND fence = ? AND lease_until <> 0`
	s.PostBlock = `
		UPDATE parley_post
		   SET blocked = ?, blocked_since = :now, blocked_until = :now + ?, reason = ?
		 WHERE post_id = ?`
	s.PostUnblock = `
		UPDATE parley_post SET blocked = 0, blocked_until = 0, reason = '' WHERE post_id = ?`
	s.PostDue = `
		UPDATE parley_post SET blocked = 0, blocked_until = 0, reason = ''
		 WHERE post_id = ? AND blocked = 1 AND blocked_until <= :now`
	s.PostFail = `
		UPDATE parley_post SET attempts = ?, suspicion = ?, last_error = ? WHERE post_id = ?`
	s.PostDelete = `
		DELETE FROM parley_post WHERE post_id = ?`
	s.DelayedInsert = `
		INSERT INTO parley_delayed (post_id, queue_id, name, priority, type, body, uniq, begun, due)
		VALUES (?, ?, ?, ?, ?, ?, ?, :now, :now + ?)`
	s.DelayedRead = `
		SELECT queue_id, name, priority, type, body, uniq, due, :now
		  FROM parley_delayed WHERE post_id = ?`
	s.DelayedDelete = `
		DELETE FROM parley_delayed WHERE post_id = ?`
	s.UniqueRead = `
		SELECT post_id FROM parley_uniq WHERE queue_id = ? AND value = ?`
	s.UniqueInsert = `
		INSERT INTO parley_uniq (queue_id, value, post_id) VALUES (?, ?, ?)
		ON CONFLICT DO NOTHING`
	s.UniqueDelete = `
		DELETE FROM parley_uniq WHERE queue_id = ? AND value = ?`
	s.ProcessedInsert = `
		INSERT INTO parley_processed (post_id, queue_id, name, type, body, keep_until)
		VALUES (?, ?, ?, ?, ?, :now + ?)`
}
