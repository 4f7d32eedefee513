package sqlstore

// portableClaim has those for claims and what deliveries leave behind.
func portableClaim(s *Statements[string]) {
	s.HeadPost = `
		SELECT post_id, priority, since
		  FROM parley_post
		 WHERE queue_id = ? AND blocked = 0 AND lease_until < :now
		 ORDER BY queue_id, priority DESC, since
		 LIMIT 1`
	s.Waiting = `
		SELECT 1 FROM parley_meta
		 WHERE EXISTS (SELECT 1 FROM parley_ready r
		                 JOIN parley_grp g ON g.group_id = r.group_id
		                WHERE r.queue_id = ? AND g.blocked = 0)
		    OR EXISTS (SELECT 1 FROM parley_post p WHERE p.queue_id = ? AND p.blocked = 0)`
	s.GroupVisible = `
		SELECT 1 FROM parley_ready r
		 WHERE r.group_id = ?
		   AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)
		 LIMIT 1`
	// The streams of a group that have messages, in the order in which they
	// are received, with what is known of the endpoint that receives.
	s.GroupStreams = `
		SELECT r.stream_id, s.kind, r.priority, s.endpoint, e.group_id, e.conversation,
		       e.initiator, e.service, e.far, e.contract, e.closed_at
		  FROM parley_ready r
		  JOIN parley_stream s ON s.stream_id = r.stream_id
		  LEFT JOIN parley_endpoint e ON e.handle = s.endpoint
		 WHERE r.group_id = ?
		 ORDER BY r.priority DESC, s.endpoint, s.kind, s.stream_id`

	s.FailurePut = `
		INSERT INTO parley_failure (message_id, attempts, suspicion, last_error) VALUES (?, ?, ?, ?)
		ON CONFLICT (message_id) DO UPDATE
		   SET attempts = excluded.attempts, suspicion = excluded.suspicion, last_error = excluded.last_error`
	s.FailureDelete = `
		DELETE FROM parley_failure WHERE message_id = ?`
	s.DeadDelete = `
		DELETE FROM parley_dead_letter WHERE message_id = ?`
	s.DeadInsert = `
		INSERT INTO parley_dead_letter (message_id, queue_id, stream_id, seq, group_id, kind, type,
		       body, since, name, handle, conversation, initiator, service, far, contract,
		       priority, attempts, suspicion, last_error, reason, died)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, :now)`
	s.RetainedInsert = `
		INSERT INTO parley_retained (handle, stream_id, seq, sent, message_id, kind, type, body,
		       since, kept)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, coalesce(?, :now), :now)`
	s.RetainedDelete = `
		DELETE FROM parley_retained WHERE handle = ?`

	s.PromotionRead = `
		SELECT level, version, sticky FROM parley_promotion WHERE group_id = ?`
	s.PromotionDelete = `
		DELETE FROM parley_promotion WHERE group_id = ? AND version = ?`
	s.PromotionDrop = `
		DELETE FROM parley_promotion WHERE group_id = ?`

	s.TimerPut = `
		INSERT INTO parley_timer (handle, kind, due, queue_id) VALUES (?, ?, :now + ?, ?)
		ON CONFLICT (handle, kind) DO UPDATE SET due = excluded.due, queue_id = excluded.queue_id`
	s.TimerQueue = `
		UPDATE parley_timer SET queue_id = ? WHERE handle = ? AND kind + 0 = ?`
	// The sum keeps planners from taking the indexes that begin with the kind for these.
	s.TimerDelete = `
		DELETE FROM parley_timer WHERE handle = ? AND kind + 0 = ?`
	s.TimerExpire = `
		DELETE FROM parley_timer WHERE handle = ? AND kind + 0 = ? AND due <= :now`
	s.TimersDelete = `
		DELETE FROM parley_timer WHERE handle = ?`
	s.OnceInsert = `
		INSERT INTO parley_once (name, keep_until) VALUES (?, :now + ?)
		ON CONFLICT DO NOTHING`
}
