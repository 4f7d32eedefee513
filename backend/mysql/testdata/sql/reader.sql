-- name: ConversationCounts
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT e.begun, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)),
       (SELECT t.due FROM parley_timer t WHERE t.handle = e.handle AND t.kind = 0),
       (SELECT count(*)
          FROM parley_stream s
         STRAIGHT_JOIN parley_message m ON m.stream_id = s.stream_id
         WHERE s.group_id = e.group_id AND s.endpoint = e.handle),
       (SELECT count(*) FROM parley_held h WHERE h.stream_id = e.handle),
       (SELECT h.status FROM parley_held h WHERE h.stream_id = e.handle ORDER BY h.stream_id, h.seq LIMIT 1)
  FROM parley_endpoint e
 WHERE e.handle = ?

-- name: FindMessage
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT s.group_id
  FROM parley_message m
  JOIN parley_stream s ON s.stream_id = m.stream_id
 WHERE m.message_id = ?
 UNION ALL
SELECT h.stream_id FROM parley_held h WHERE h.message_id = ?
 UNION ALL
SELECT o.post_id FROM parley_post o WHERE o.post_id = ?

-- name: GroupDetails
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT g.group_id, g.service, g.name, g.queue_id, g.lease_until, g.held_since, g.owner, g.blocked, g.blocked_since,
       g.blocked_until, g.reason, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), p.level, p.sticky,
       (SELECT max(r.priority) FROM parley_ready r WHERE r.group_id = g.group_id),
       c.messages, c.since, c.astray
  FROM parley_grp g FORCE INDEX (PRIMARY)
  LEFT JOIN parley_promotion p ON p.group_id = g.group_id
  LEFT JOIN (SELECT x.group_id, count(*) AS messages, min(x.since) AS since, count(x.astray) AS astray
               FROM (SELECT s.group_id, m.since, CASE WHEN r.stream_id IS NULL THEN 1 END AS astray
                       FROM parley_stream s FORCE INDEX (group_id)
                       LEFT JOIN parley_ready r FORCE INDEX (PRIMARY) ON r.group_id = s.group_id AND r.stream_id = s.stream_id
                       STRAIGHT_JOIN parley_message m FORCE INDEX (PRIMARY) ON m.stream_id = s.stream_id
                      WHERE s.group_id IN (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                      LIMIT 10000) x
              GROUP BY x.group_id) c ON c.group_id = g.group_id
 WHERE g.group_id IN (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: ListAstray
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT m.stream_id, s.stream_id, s.group_id,
       CASE WHEN r.stream_id IS NULL AND g.blocked = 0 AND g.resweep = 0 THEN 1 ELSE 0 END
  FROM (SELECT x.stream_id FROM parley_message x
         WHERE x.stream_id > ?
         ORDER BY x.stream_id, x.seq
         LIMIT ?) m
  LEFT JOIN parley_stream s ON s.stream_id = m.stream_id
  LEFT JOIN parley_grp g ON g.group_id = s.group_id
  LEFT JOIN parley_ready r ON r.group_id = s.group_id AND r.stream_id = s.stream_id
 ORDER BY m.stream_id

-- name: ListBlocked
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT group_id, blocked_until, blocked_since, reason, service, name, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) FROM parley_grp
 WHERE blocked = ? AND blocked <> 0 AND queue_id = ? AND blocked_until >= ? AND (blocked_until > ? OR group_id > ?)
 ORDER BY blocked, blocked_until, group_id
 LIMIT ?

-- name: ListBlockedPosts
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT post_id, blocked_until, blocked_since, reason, '', '', TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) FROM parley_post
 WHERE blocked = ? AND blocked <> 0 AND queue_id = ? AND blocked_until >= ? AND (blocked_until > ? OR post_id > ?)
 ORDER BY blocked, blocked_until, post_id
 LIMIT ?

-- name: ListConversation
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT e.handle, e.conversation
  FROM parley_endpoint e
  JOIN parley_endpoint x ON x.conversation = e.conversation
 WHERE x.handle = ? AND e.conversation > ?
 ORDER BY e.conversation, e.initiator DESC
 LIMIT ?

-- name: ListConversations
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT handle, conversation FROM parley_endpoint
 WHERE conversation > ? AND queue_id > 0
 ORDER BY conversation, initiator DESC
 LIMIT ?

-- name: ListConversationsOfGroup
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT handle, conversation FROM parley_endpoint
 WHERE group_id = ? AND conversation > ?
 ORDER BY conversation, initiator DESC
 LIMIT ?

-- name: ListDead
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT queue_id, message_id, stream_id, seq, group_id, kind, type,
       CASE WHEN ? = 1 THEN body END, coalesce(length(body), 0), headers, since, name,
       handle, conversation, initiator, service, far, contract, priority, attempts,
       suspicion, last_error, errors, reason, died, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
  FROM parley_dead_letter
 WHERE died <= ? AND (died < ? OR message_id < ?)
 ORDER BY died DESC, message_id DESC
 LIMIT ?

-- name: ListDeadOf
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT queue_id, message_id, stream_id, seq, group_id, kind, type,
       CASE WHEN ? = 1 THEN body END, coalesce(length(body), 0), headers, since, name,
       handle, conversation, initiator, service, far, contract, priority, attempts,
       suspicion, last_error, errors, reason, died, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
  FROM parley_dead_letter
 WHERE queue_id = ? AND died <= ? AND (died < ? OR message_id < ?)
 ORDER BY queue_id, died DESC, message_id DESC
 LIMIT ?

-- name: ListHeld
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT h.stream_id, h.seq, h.message_id, h.stream_id, NULL,
       (SELECT s.queue_id FROM parley_stream s WHERE s.stream_id = h.stream_id), h.type, h.headers
  FROM parley_held h
 WHERE h.stream_id > ?
 ORDER BY h.stream_id, h.seq
 LIMIT ?

-- name: ListHeldIn
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT h.stream_id, h.seq, h.message_id, h.stream_id, NULL,
       (SELECT s.queue_id FROM parley_stream s WHERE s.stream_id = h.stream_id), h.type, h.headers
  FROM parley_held h
 WHERE h.stream_id = ? AND h.seq > ?
 ORDER BY h.stream_id, h.seq
 LIMIT ?

-- name: ListLater
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT post_id, 0, post_id, NULL, NULL, queue_id, type, headers
  FROM parley_delayed
 WHERE post_id > ?
 ORDER BY post_id
 LIMIT ?

-- name: ListMessages
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT m.stream_id, m.seq, m.message_id, m.stream_id,
       (SELECT s.group_id FROM parley_stream s WHERE s.stream_id = m.stream_id),
       (SELECT s.queue_id FROM parley_stream s WHERE s.stream_id = m.stream_id), m.type, m.headers
  FROM parley_message m
 WHERE m.stream_id > ?
 ORDER BY m.stream_id, m.seq
 LIMIT ?

-- name: ListMessagesIn
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT m.stream_id, m.seq, m.message_id, m.stream_id,
       (SELECT s.group_id FROM parley_stream s WHERE s.stream_id = m.stream_id),
       (SELECT s.queue_id FROM parley_stream s WHERE s.stream_id = m.stream_id), m.type, m.headers
  FROM parley_message m
 WHERE m.stream_id = ? AND m.seq > ?
 ORDER BY m.stream_id, m.seq
 LIMIT ?

-- name: ListPosts
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT o.post_id, o.priority, o.since, 1
  FROM parley_post o
 WHERE o.queue_id = ? AND o.blocked = 0 AND o.urgency > -?
   AND CASE WHEN o.lease_until < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) THEN 1 ELSE 2 END <> ?
   AND (SELECT 1 FROM parley_promotion p
                    WHERE p.group_id = o.post_id AND p.queue_id = o.queue_id LIMIT 1) IS NULL
 ORDER BY o.queue_id, o.urgency, o.since, o.post_id
 LIMIT ?

-- name: ListPostsAfter
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT o.post_id, o.priority, o.since, 1
  FROM parley_post o
 WHERE o.queue_id = ? AND o.blocked = 0 AND o.urgency = -? AND o.since >= ? AND (o.since > ? OR o.post_id > ?)
   AND CASE WHEN o.lease_until < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) THEN 1 ELSE 2 END <> ?
   AND (SELECT 1 FROM parley_promotion p
                    WHERE p.group_id = o.post_id AND p.queue_id = o.queue_id LIMIT 1) IS NULL
 ORDER BY o.queue_id, o.urgency, o.since, o.post_id
 LIMIT ?

-- name: ListPostsByID
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT post_id, 0, post_id, post_id, post_id, queue_id, type, headers
  FROM parley_post
 WHERE post_id > ?
 ORDER BY post_id
 LIMIT ?

-- name: ListPromoted
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT p.group_id, p.level, p.since,
       CASE WHEN (SELECT 1 FROM parley_grp g WHERE g.group_id = p.group_id LIMIT 1) IS NOT NULL
            THEN 0 ELSE 1 END
  FROM parley_promotion p
 WHERE p.queue_id = ? AND p.urgency > -?
   AND ((SELECT 1
                  FROM parley_ready r
                  JOIN parley_grp g ON g.group_id = r.group_id
                  JOIN parley_message m ON m.stream_id = r.stream_id
                 WHERE r.group_id = p.group_id AND g.blocked = 0
                   AND CASE WHEN g.lease_until < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) THEN 1 ELSE 2 END <> ? LIMIT 1) IS NOT NULL
     OR (SELECT 1 FROM parley_post o
                 WHERE o.post_id = p.group_id AND o.blocked = 0
                   AND CASE WHEN o.lease_until < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) THEN 1 ELSE 2 END <> ? LIMIT 1) IS NOT NULL)
 ORDER BY p.queue_id, p.urgency, p.since, p.group_id
 LIMIT ?

-- name: ListPromotedAfter
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT p.group_id, p.level, p.since,
       CASE WHEN (SELECT 1 FROM parley_grp g WHERE g.group_id = p.group_id LIMIT 1) IS NOT NULL
            THEN 0 ELSE 1 END
  FROM parley_promotion p
 WHERE p.queue_id = ? AND p.urgency = -? AND p.since >= ? AND (p.since > ? OR p.group_id > ?)
   AND ((SELECT 1
                  FROM parley_ready r
                  JOIN parley_grp g ON g.group_id = r.group_id
                  JOIN parley_message m ON m.stream_id = r.stream_id
                 WHERE r.group_id = p.group_id AND g.blocked = 0
                   AND CASE WHEN g.lease_until < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) THEN 1 ELSE 2 END <> ? LIMIT 1) IS NOT NULL
     OR (SELECT 1 FROM parley_post o
                 WHERE o.post_id = p.group_id AND o.blocked = 0
                   AND CASE WHEN o.lease_until < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) THEN 1 ELSE 2 END <> ? LIMIT 1) IS NOT NULL)
 ORDER BY p.queue_id, p.urgency, p.since, p.group_id
 LIMIT ?

-- name: ListPromotions
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT p.group_id, p.queue_id, p.level, p.sticky,
       CASE WHEN (SELECT 1 FROM parley_endpoint e
                          WHERE e.group_id = p.group_id AND e.closed_at IS NULL LIMIT 1) IS NOT NULL
              OR (SELECT 1 FROM parley_stream s WHERE s.stream_id = p.group_id AND s.kind = 3 LIMIT 1) IS NOT NULL
              OR (SELECT 1 FROM parley_post o WHERE o.post_id = p.group_id LIMIT 1) IS NOT NULL
              OR (SELECT 1 FROM parley_delayed d WHERE d.post_id = p.group_id LIMIT 1) IS NOT NULL
            THEN 0 ELSE 1 END
  FROM parley_promotion p
 WHERE p.group_id > ? AND p.queue_id > 0
 ORDER BY p.group_id
 LIMIT ?

-- name: ListReady
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT r.group_id, r.priority, r.since, 0
  FROM parley_ready r
 WHERE r.queue_id = ? AND r.urgency > -?
   AND (SELECT 1 FROM parley_grp g
                WHERE g.group_id = r.group_id AND g.blocked = 0
                  AND CASE WHEN g.lease_until < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) THEN 1 ELSE 2 END <> ? LIMIT 1) IS NOT NULL
   AND (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id LIMIT 1) IS NOT NULL
   AND (SELECT 1 FROM parley_promotion p
                    WHERE p.group_id = r.group_id AND p.queue_id = r.queue_id LIMIT 1) IS NULL
   AND (SELECT 1 FROM parley_ready b
                    WHERE b.group_id = r.group_id
                      AND (b.priority > r.priority OR b.priority = r.priority AND b.since < r.since)
                      AND (SELECT 1 FROM parley_message m
                                   WHERE m.stream_id = b.stream_id LIMIT 1) IS NOT NULL LIMIT 1) IS NULL
 ORDER BY r.queue_id, r.urgency, r.since, r.group_id
 LIMIT ?

-- name: ListReadyAfter
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT r.group_id, r.priority, r.since, 0
  FROM parley_ready r
 WHERE r.queue_id = ? AND r.urgency = -? AND r.since >= ? AND (r.since > ? OR r.group_id > ?)
   AND (SELECT 1 FROM parley_grp g
                WHERE g.group_id = r.group_id AND g.blocked = 0
                  AND CASE WHEN g.lease_until < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) THEN 1 ELSE 2 END <> ? LIMIT 1) IS NOT NULL
   AND (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id LIMIT 1) IS NOT NULL
   AND (SELECT 1 FROM parley_promotion p
                    WHERE p.group_id = r.group_id AND p.queue_id = r.queue_id LIMIT 1) IS NULL
   AND (SELECT 1 FROM parley_ready b
                    WHERE b.group_id = r.group_id
                      AND (b.priority > r.priority OR b.priority = r.priority AND b.since < r.since)
                      AND (SELECT 1 FROM parley_message m
                                   WHERE m.stream_id = b.stream_id LIMIT 1) IS NOT NULL LIMIT 1) IS NULL
 ORDER BY r.queue_id, r.urgency, r.since, r.group_id
 LIMIT ?

-- name: ListRetained
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT stream_id, seq, sent, message_id, kind, type, body, headers, since
  FROM parley_retained
 WHERE handle = ?
 ORDER BY since, kept, stream_id, seq

-- name: ListWithheld
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT s.stream_id,
       (SELECT count(*) FROM parley_held h WHERE h.stream_id = s.stream_id),
       (SELECT h.status FROM parley_held h WHERE h.stream_id = s.stream_id ORDER BY h.stream_id, h.seq LIMIT 1),
       (SELECT h.since FROM parley_held h WHERE h.stream_id = s.stream_id ORDER BY h.stream_id, h.seq LIMIT 1),
       TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
  FROM parley_stream s
 WHERE s.held = 1 AND s.stream_id > ?
 ORDER BY s.stream_id
 LIMIT ?

-- name: PostDetails
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT o.post_id, o.queue_id, o.lease_until, o.held_since, o.owner, o.blocked, o.blocked_since, o.blocked_until,
       o.reason, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), p.level, p.sticky, o.priority, o.since
  FROM parley_post o
  LEFT JOIN parley_promotion p ON p.group_id = o.post_id
 WHERE o.post_id IN (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: PostStatusKeyed
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT g.name, m.type, m.body, m.headers
  FROM parley_message m
  JOIN parley_stream s ON s.stream_id = m.stream_id
  JOIN parley_grp g ON g.group_id = s.group_id
 WHERE m.message_id = ? AND m.kind = 4 AND s.queue_id = ?

-- name: PostStatusPost
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT type, body, headers FROM parley_post WHERE post_id = ? AND queue_id = ?

-- name: PostStatusProcessed
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT name, type, body, headers FROM parley_processed WHERE post_id = ? AND queue_id = ?

-- name: QueueStatus
/*M! SET STATEMENT max_statement_time = 0 FOR */
WITH l AS (SELECT -1 AS urgency UNION ALL SELECT -2 UNION ALL SELECT -3 UNION ALL SELECT -4 UNION ALL SELECT -5
           UNION ALL SELECT -6 UNION ALL SELECT -7 UNION ALL SELECT -8 UNION ALL SELECT -9 UNION ALL SELECT -10)
SELECT q.queue_id, q.name, q.enabled,
       CASE WHEN (SELECT 1 FROM parley_ready r
                   STRAIGHT_JOIN parley_message m ON m.stream_id = r.stream_id
                   WHERE r.queue_id = q.queue_id LIMIT 1 OFFSET 9999) IS NOT NULL
            THEN 10000
            ELSE (SELECT count(*) FROM parley_ready r
                   STRAIGHT_JOIN parley_message m ON m.stream_id = r.stream_id
                   WHERE r.queue_id = q.queue_id) END
     + CASE WHEN (SELECT 1 FROM parley_post p FORCE INDEX (place)
                   WHERE p.queue_id = q.queue_id AND p.blocked = 0 LIMIT 1 OFFSET 9999) IS NOT NULL
            THEN 10000
            ELSE (SELECT count(*) FROM parley_post p FORCE INDEX (place)
                   WHERE p.queue_id = q.queue_id AND p.blocked = 0) END,
       CASE WHEN (SELECT 1 FROM parley_delayed d
                   WHERE d.queue_id = q.queue_id LIMIT 1 OFFSET 9999) IS NOT NULL
            THEN 10000
            ELSE (SELECT count(*) FROM parley_delayed d WHERE d.queue_id = q.queue_id) END,
       (SELECT count(DISTINCT r.group_id) FROM parley_ready r
         STRAIGHT_JOIN parley_grp g ON g.group_id = r.group_id
         WHERE r.queue_id = q.queue_id AND g.lease_until > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)))
     + (SELECT count(*) FROM parley_post p FORCE INDEX (place)
         WHERE p.queue_id = q.queue_id AND p.blocked = 0 AND p.lease_until > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))),
       (SELECT count(*) FROM parley_grp g WHERE g.blocked = 1 AND g.queue_id = q.queue_id)
     + (SELECT count(*) FROM parley_post p FORCE INDEX (place) WHERE p.blocked = 1 AND p.queue_id = q.queue_id),
       (SELECT count(*) FROM parley_grp g WHERE g.blocked = 2 AND g.queue_id = q.queue_id)
     + (SELECT count(*) FROM parley_post p FORCE INDEX (place) WHERE p.blocked = 2 AND p.queue_id = q.queue_id),
       (SELECT count(*) FROM parley_stream s
         STRAIGHT_JOIN parley_held h ON h.stream_id = s.stream_id
         WHERE s.held = 1 AND s.queue_id = q.queue_id),
       CASE WHEN EXISTS (SELECT 1 FROM parley_ready r WHERE r.queue_id = q.queue_id) THEN
         (SELECT min((SELECT r.since FROM parley_ready r FORCE INDEX (place)
                       WHERE r.queue_id = q.queue_id AND r.urgency = l.urgency
                         AND (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id LIMIT 1) IS NOT NULL
                       ORDER BY r.queue_id, r.urgency, r.since LIMIT 1))
            FROM l) END,
       CASE WHEN EXISTS (SELECT 1 FROM parley_post p FORCE INDEX (place)
                          WHERE p.queue_id = q.queue_id AND p.blocked = 0) THEN
         (SELECT min((SELECT p.since FROM parley_post p FORCE INDEX (place)
                       WHERE p.queue_id = q.queue_id AND p.urgency = l.urgency AND p.blocked = 0
                       ORDER BY p.queue_id, p.blocked, p.urgency, p.since LIMIT 1))
            FROM l) END,
       TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
  FROM parley_queue q
 WHERE q.queue_id BETWEEN ? AND ?
 ORDER BY q.name
