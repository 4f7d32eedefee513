package sqlstore

// portableReader has those for operators.
func portableReader(s *Statements[string]) {
	// Everything of all queues in one trip. Counts are bounded one by one.
	s.QueueStatus = `
		SELECT q.queue_id, q.name, q.enabled,
		       (SELECT count(*) FROM (SELECT 1 AS one
		                                FROM parley_ready r
		                                JOIN parley_message m ON m.stream_id = r.stream_id
		                               WHERE r.queue_id = q.queue_id
		                               LIMIT 10000) x)
		     + (SELECT count(*) FROM (SELECT 1 AS one FROM parley_post p
		                               WHERE p.queue_id = q.queue_id AND p.blocked = 0
		                               LIMIT 10000) x),
		       (SELECT count(*) FROM (SELECT 1 AS one FROM parley_delayed d
		                               WHERE d.queue_id = q.queue_id
		                               LIMIT 10000) x),
		       (SELECT count(*) FROM (SELECT DISTINCT r.group_id
		                                FROM (SELECT group_id FROM parley_ready
		                                       WHERE queue_id = q.queue_id
		                                       ORDER BY queue_id, priority DESC, since
		                                       LIMIT 10000) r
		                                JOIN parley_grp g ON g.group_id = r.group_id
		                               WHERE g.lease_until > :now) x)
		     + (SELECT count(*) FROM (SELECT lease_until FROM parley_post
		                               WHERE queue_id = q.queue_id AND blocked = 0
		                               ORDER BY queue_id, priority DESC, since
		                               LIMIT 10000) p
		         WHERE p.lease_until > :now),
		       (SELECT count(*) FROM (SELECT 1 AS one FROM parley_grp g
		                               WHERE g.blocked = 1 AND g.queue_id = q.queue_id AND g.blocked <> 0
		                               LIMIT 10000) x)
		     + (SELECT count(*) FROM (SELECT 1 AS one FROM parley_post p
		                               WHERE p.blocked = 1 AND p.queue_id = q.queue_id AND p.blocked <> 0
		                               LIMIT 10000) x),
		       (SELECT count(*) FROM (SELECT 1 AS one FROM parley_grp g
		                               WHERE g.blocked = 2 AND g.queue_id = q.queue_id AND g.blocked <> 0
		                               LIMIT 10000) x)
		     + (SELECT count(*) FROM (SELECT 1 AS one FROM parley_post p
		                               WHERE p.blocked = 2 AND p.queue_id = q.queue_id AND p.blocked <> 0
		                               LIMIT 10000) x),
		       (SELECT count(*) FROM (SELECT 1 AS one
		                                FROM parley_stream s
		                                JOIN parley_held h ON h.stream_id = s.stream_id
		                               WHERE s.held = 1 AND s.queue_id = q.queue_id
		                               LIMIT 10000) x),
		       (SELECT r.priority FROM parley_ready r
		         WHERE r.queue_id = q.queue_id
		           AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)
		         ORDER BY r.queue_id, r.priority DESC, r.since LIMIT 1),
		       (SELECT r.since FROM parley_ready r
		         WHERE r.queue_id = q.queue_id
		           AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)
		         ORDER BY r.queue_id, r.priority DESC, r.since LIMIT 1),
		       (SELECT p.priority FROM parley_post p
		         WHERE p.queue_id = q.queue_id AND p.blocked = 0
		         ORDER BY p.queue_id, p.priority DESC, p.since LIMIT 1),
		       (SELECT p.since FROM parley_post p
		         WHERE p.queue_id = q.queue_id AND p.blocked = 0
		         ORDER BY p.queue_id, p.priority DESC, p.since LIMIT 1),
		       :now
		  FROM parley_queue q
		 WHERE q.queue_id BETWEEN ? AND ?
		 ORDER BY q.name`
	s.ListPromotions = `
		SELECT p.group_id, p.queue_id, p.level, p.sticky,
		       CASE WHEN EXISTS (SELECT 1 FROM parley_endpoint e
		                          WHERE e.group_id = p.group_id AND e.closed_at IS NULL)
		              OR EXISTS (SELECT 1 FROM parley_stream s WHERE s.stream_id = p.group_id AND s.kind = 3)
		              OR EXISTS (SELECT 1 FROM parley_post o WHERE o.post_id = p.group_id)
		              OR EXISTS (SELECT 1 FROM parley_delayed d WHERE d.post_id = p.group_id)
		            THEN 0 ELSE 1 END
		  FROM parley_promotion p
		 WHERE p.queue_id > 0
		 ORDER BY p.queue_id, p.level DESC, p.since, p.group_id
		 LIMIT ?`
	s.ListPromoted = `
		SELECT p.group_id, p.level, p.sticky,
		       CASE WHEN EXISTS (SELECT 1 FROM parley_grp g WHERE g.group_id = p.group_id)
		            THEN 0 ELSE 1 END
		  FROM parley_promotion p
		 WHERE p.queue_id = ?
		   AND (EXISTS (SELECT 1
		                  FROM parley_ready r
		                  JOIN parley_grp g ON g.group_id = r.group_id
		                  JOIN parley_message m ON m.stream_id = r.stream_id
		                 WHERE r.group_id = p.group_id AND g.blocked = 0
		                   AND (g.lease_until < :now OR ? = 0))
		     OR EXISTS (SELECT 1 FROM parley_post o
		                 WHERE o.post_id = p.group_id AND o.blocked = 0
		                   AND (o.lease_until < :now OR ? = 0)))
		 ORDER BY p.queue_id, p.level DESC, p.since, p.group_id
		 LIMIT ?`
	s.ListReady = `
		SELECT r.group_id, r.priority, r.since
		  FROM parley_ready r
		  JOIN parley_grp g ON g.group_id = r.group_id
		 WHERE r.queue_id = ? AND g.blocked = 0 AND (g.lease_until < :now OR ? = 0)
		   AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)
		 ORDER BY r.queue_id, r.priority DESC, r.since
		 LIMIT ?`
	s.ListPosts = `
		SELECT post_id, priority, since
		  FROM parley_post
		 WHERE queue_id = ? AND blocked = 0 AND (lease_until < :now OR ? = 0)
		 ORDER BY queue_id, priority DESC, since
		 LIMIT ?`
	s.ListBlocked = `
		SELECT group_id, blocked_since FROM parley_grp
		 WHERE queue_id = ? AND blocked <> 0
		 ORDER BY blocked_since, group_id
		 LIMIT ?`
	s.ListBlockedPosts = `
		SELECT post_id, blocked_since FROM parley_post
		 WHERE queue_id = ? AND blocked <> 0
		 ORDER BY blocked_since, post_id
		 LIMIT ?`
	s.GroupDetail = `
		SELECT g.service, g.name, g.lease_until, g.held_since, g.owner, g.blocked, g.blocked_since,
		       g.blocked_until, g.reason, :now, p.level, p.sticky,
		       (SELECT max(r.priority) FROM parley_ready r
		         WHERE r.group_id = g.group_id)
		  FROM parley_grp g
		  LEFT JOIN parley_promotion p ON p.group_id = g.group_id
		 WHERE g.group_id = ?`
	s.PostDetail = `
		SELECT o.lease_until, o.held_since, o.owner, o.blocked, o.blocked_since, o.blocked_until,
		       o.reason, :now, p.level, p.sticky, o.priority, o.since
		  FROM parley_post o
		  LEFT JOIN parley_promotion p ON p.group_id = o.post_id
		 WHERE o.post_id = ?`
	s.GroupCount = `
		SELECT count(*), min(x.since)
		  FROM (SELECT m.since
		          FROM parley_stream s
		          JOIN parley_message m ON m.stream_id = s.stream_id
		         WHERE s.group_id = ?
		         LIMIT 10000) x`
	s.ListConversations = `
		SELECT handle, conversation FROM parley_endpoint
		 WHERE conversation > ? AND queue_id > 0
		 ORDER BY conversation, initiator DESC
		 LIMIT ?`
	s.ListConversation = `
		SELECT e.handle, e.conversation
		  FROM parley_endpoint e
		  JOIN parley_endpoint x ON x.conversation = e.conversation
		 WHERE x.handle = ? AND e.conversation > ?
		 ORDER BY e.conversation, e.initiator DESC
		 LIMIT ?`
	s.ListConversationsOfGroup = `
		SELECT handle, conversation FROM parley_endpoint
		 WHERE group_id = ? AND conversation > ?
		 ORDER BY conversation, initiator DESC
		 LIMIT ?`
	s.ConversationCounts = `
		SELECT e.begun, :now,
		       (SELECT t.due FROM parley_timer t WHERE t.handle = e.handle AND t.kind = 0),
		       (SELECT count(*)
		          FROM (SELECT 1 AS one
		                  FROM parley_stream s
		                  JOIN parley_message m ON m.stream_id = s.stream_id
		                 WHERE s.group_id = e.group_id AND s.endpoint = e.handle
		                 LIMIT 10000) x),
		       (SELECT count(*)
		          FROM (SELECT 1 AS one FROM parley_held h WHERE h.stream_id = e.handle LIMIT 10000) x),
		       (SELECT h.status FROM parley_held h WHERE h.stream_id = e.handle ORDER BY h.seq LIMIT 1)
		  FROM parley_endpoint e
		 WHERE e.handle = ?`
	s.ListWithheld = `
		SELECT s.stream_id,
		       (SELECT count(*)
		          FROM (SELECT 1 AS one FROM parley_held h WHERE h.stream_id = s.stream_id LIMIT 10000) x),
		       (SELECT h.status FROM parley_held h WHERE h.stream_id = s.stream_id ORDER BY h.seq LIMIT 1),
		       (SELECT h.since FROM parley_held h WHERE h.stream_id = s.stream_id ORDER BY h.seq LIMIT 1),
		       :now
		  FROM parley_stream s
		 WHERE s.held = 1
		 ORDER BY s.stream_id
		 LIMIT ?`
	s.ListRetained = `
		SELECT stream_id, seq, sent, message_id, kind, type, body, since
		  FROM parley_retained
		 WHERE handle = ?
		 ORDER BY since, kept, stream_id, seq`
	s.ListDead = `
		SELECT queue_id, message_id, stream_id, seq, group_id, kind, type, body, since, name,
		       handle, conversation, initiator, service, far, contract, priority, attempts,
		       suspicion, last_error, reason, died, :now
		  FROM parley_dead_letter
		 ORDER BY died DESC, message_id DESC
		 LIMIT ?`
	s.ListDeadOf = `
		SELECT queue_id, message_id, stream_id, seq, group_id, kind, type, body, since, name,
		       handle, conversation, initiator, service, far, contract, priority, attempts,
		       suspicion, last_error, reason, died, :now
		  FROM parley_dead_letter
		 WHERE queue_id = ?
		 ORDER BY queue_id, died DESC, message_id DESC
		 LIMIT ?`
	s.FindMessage = `
		SELECT s.group_id
		  FROM parley_message m
		  JOIN parley_stream s ON s.stream_id = m.stream_id
		 WHERE m.message_id = ?
		 UNION ALL
		SELECT h.stream_id FROM parley_held h WHERE h.message_id = ?
		 UNION ALL
		SELECT o.post_id FROM parley_post o WHERE o.post_id = ?`
	s.PostStatusPost = `
		SELECT type, body FROM parley_post WHERE post_id = ? AND queue_id = ?`
	s.PostStatusKeyed = `
		SELECT g.name, m.type, m.body
		  FROM parley_message m
		  JOIN parley_stream s ON s.stream_id = m.stream_id
		  JOIN parley_grp g ON g.group_id = s.group_id
		 WHERE m.message_id = ? AND m.kind = 4 AND s.queue_id = ?`
	s.PostStatusProcessed = `
		SELECT name, type, body FROM parley_processed WHERE post_id = ? AND queue_id = ?`
}
