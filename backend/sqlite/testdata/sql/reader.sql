-- name: ConversationCounts
SELECT e.begun, ?2,
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
 WHERE e.handle = ?1

-- name: FindMessage
SELECT s.group_id
  FROM parley_message m
  JOIN parley_stream s ON s.stream_id = m.stream_id
 WHERE m.message_id = ?1
 UNION ALL
SELECT h.stream_id FROM parley_held h WHERE h.message_id = ?2
 UNION ALL
SELECT o.post_id FROM parley_post o WHERE o.post_id = ?3

-- name: GroupDetails
SELECT g.group_id, g.service, g.name, g.queue_id, g.lease_until, g.held_since, g.owner, g.blocked, g.blocked_since,
       g.blocked_until, g.reason, ?101, p.level, p.sticky,
       (SELECT max(r.priority) FROM parley_ready r
         WHERE r.group_id = g.group_id),
       c.messages, c.since, c.astray
  FROM parley_grp g
  LEFT JOIN parley_promotion p ON p.group_id = g.group_id
  LEFT JOIN (SELECT x.group_id, count(*) AS messages, min(x.since) AS since, count(x.astray) AS astray
               FROM (SELECT s.group_id, m.since, CASE WHEN r.stream_id IS NULL THEN 1 END AS astray
                       FROM parley_stream s
                       LEFT JOIN parley_ready r ON r.group_id = s.group_id AND r.stream_id = s.stream_id
                       JOIN parley_message m ON m.stream_id = s.stream_id
                      WHERE s.group_id IN (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38, ?39, ?40, ?41, ?42, ?43, ?44, ?45, ?46, ?47, ?48, ?49, ?50)
                      LIMIT 10000) x
              GROUP BY x.group_id) c ON c.group_id = g.group_id
 WHERE g.group_id IN (?51, ?52, ?53, ?54, ?55, ?56, ?57, ?58, ?59, ?60, ?61, ?62, ?63, ?64, ?65, ?66, ?67, ?68, ?69, ?70, ?71, ?72, ?73, ?74, ?75, ?76, ?77, ?78, ?79, ?80, ?81, ?82, ?83, ?84, ?85, ?86, ?87, ?88, ?89, ?90, ?91, ?92, ?93, ?94, ?95, ?96, ?97, ?98, ?99, ?100)

-- name: ListAstray
SELECT m.stream_id, s.stream_id, s.group_id,
       CASE WHEN r.stream_id IS NULL AND g.blocked = 0 AND g.resweep = 0 THEN 1 ELSE 0 END
  FROM (SELECT x.stream_id FROM parley_message x
         WHERE x.stream_id > ?1
         ORDER BY x.stream_id, x.seq
         LIMIT +?2) m
  LEFT JOIN parley_stream s ON s.stream_id = m.stream_id
  LEFT JOIN parley_grp g ON g.group_id = s.group_id
  LEFT JOIN parley_ready r ON r.group_id = s.group_id AND r.stream_id = s.stream_id
 ORDER BY m.stream_id

-- name: ListBlocked
SELECT group_id, blocked_until, blocked_since, reason, service, name, ?7 FROM parley_grp
 WHERE blocked = +?1 AND blocked <> 0 AND queue_id = +?2 AND blocked_until >= ?3 AND (blocked_until > ?4 OR group_id > ?5)
 ORDER BY blocked, blocked_until, group_id
 LIMIT +?6

-- name: ListBlockedPosts
SELECT post_id, blocked_until, blocked_since, reason, '', '', ?7 FROM parley_post
 WHERE blocked = +?1 AND blocked <> 0 AND queue_id = +?2 AND blocked_until >= ?3 AND (blocked_until > ?4 OR post_id > ?5)
 ORDER BY blocked, blocked_until, post_id
 LIMIT +?6

-- name: ListConversation
SELECT e.handle, e.conversation
  FROM parley_endpoint e
  JOIN parley_endpoint x ON x.conversation = e.conversation
 WHERE x.handle = ?1 AND e.conversation > ?2
 ORDER BY e.conversation, e.initiator DESC
 LIMIT +?3

-- name: ListConversations
SELECT handle, conversation FROM parley_endpoint
 WHERE conversation > ?1 AND queue_id > 0
 ORDER BY conversation, initiator DESC
 LIMIT +?2

-- name: ListConversationsOfGroup
SELECT handle, conversation FROM parley_endpoint
 WHERE group_id = ?1 AND conversation > ?2
 ORDER BY conversation, initiator DESC
 LIMIT +?3

-- name: ListDead
SELECT queue_id, message_id, stream_id, seq, group_id, kind, type,
       CASE WHEN ?1 = 1 THEN body END, coalesce(length(body), 0), headers, since, name,
       handle, conversation, initiator, service, far, contract, priority, attempts,
       suspicion, last_error, errors, reason, died, ?6
  FROM parley_dead_letter
 WHERE died <= ?2 AND (died < ?3 OR message_id < ?4)
 ORDER BY died DESC, message_id DESC
 LIMIT +?5

-- name: ListDeadOf
SELECT queue_id, message_id, stream_id, seq, group_id, kind, type,
       CASE WHEN ?1 = 1 THEN body END, coalesce(length(body), 0), headers, since, name,
       handle, conversation, initiator, service, far, contract, priority, attempts,
       suspicion, last_error, errors, reason, died, ?7
  FROM parley_dead_letter
 WHERE queue_id = +?2 AND died <= ?3 AND (died < ?4 OR message_id < ?5)
 ORDER BY queue_id, died DESC, message_id DESC
 LIMIT +?6

-- name: ListHeld
SELECT h.stream_id, h.seq, h.message_id, h.stream_id, NULL,
       (SELECT s.queue_id FROM parley_stream s WHERE s.stream_id = h.stream_id), h.type, h.headers
  FROM parley_held h
 WHERE h.stream_id > ?1
 ORDER BY h.stream_id, h.seq
 LIMIT +?2

-- name: ListHeldIn
SELECT h.stream_id, h.seq, h.message_id, h.stream_id, NULL,
       (SELECT s.queue_id FROM parley_stream s WHERE s.stream_id = h.stream_id), h.type, h.headers
  FROM parley_held h
 WHERE h.stream_id = ?1 AND h.seq > ?2
 ORDER BY h.stream_id, h.seq
 LIMIT +?3

-- name: ListLater
SELECT post_id, 0, post_id, NULL, NULL, queue_id, type, headers
  FROM parley_delayed
 WHERE post_id > ?1
 ORDER BY post_id
 LIMIT +?2

-- name: ListMessages
SELECT m.stream_id, m.seq, m.message_id, m.stream_id,
       (SELECT s.group_id FROM parley_stream s WHERE s.stream_id = m.stream_id),
       (SELECT s.queue_id FROM parley_stream s WHERE s.stream_id = m.stream_id), m.type, m.headers
  FROM parley_message m
 WHERE m.stream_id > ?1
 ORDER BY m.stream_id, m.seq
 LIMIT +?2

-- name: ListMessagesIn
SELECT m.stream_id, m.seq, m.message_id, m.stream_id,
       (SELECT s.group_id FROM parley_stream s WHERE s.stream_id = m.stream_id),
       (SELECT s.queue_id FROM parley_stream s WHERE s.stream_id = m.stream_id), m.type, m.headers
  FROM parley_message m
 WHERE m.stream_id = ?1 AND m.seq > ?2
 ORDER BY m.stream_id, m.seq
 LIMIT +?3

-- name: ListPosts
SELECT o.post_id, o.priority, o.since, 1
  FROM parley_post o
 WHERE o.queue_id = +?1 AND o.blocked = 0 AND o.priority < ?2
   AND CASE WHEN o.lease_until < ?5 THEN 1 ELSE 2 END <> ?3
   AND NOT EXISTS (SELECT 1 FROM parley_promotion p
                    WHERE p.group_id = o.post_id AND p.queue_id = o.queue_id)
 ORDER BY o.queue_id, o.priority DESC, o.since, o.post_id
 LIMIT +?4

-- name: ListPostsAfter
SELECT o.post_id, o.priority, o.since, 1
  FROM parley_post o
 WHERE o.queue_id = +?1 AND o.blocked = 0 AND o.priority = +?2 AND o.since >= ?3 AND (o.since > ?4 OR o.post_id > ?5)
   AND CASE WHEN o.lease_until < ?8 THEN 1 ELSE 2 END <> ?6
   AND NOT EXISTS (SELECT 1 FROM parley_promotion p
                    WHERE p.group_id = o.post_id AND p.queue_id = o.queue_id)
 ORDER BY o.queue_id, o.priority DESC, o.since, o.post_id
 LIMIT +?7

-- name: ListPostsByID
SELECT post_id, 0, post_id, post_id, post_id, queue_id, type, headers
  FROM parley_post
 WHERE post_id > ?1
 ORDER BY post_id
 LIMIT +?2

-- name: ListPromoted
SELECT p.group_id, p.level, p.since,
       CASE WHEN EXISTS (SELECT 1 FROM parley_grp g WHERE g.group_id = p.group_id)
            THEN 0 ELSE 1 END
  FROM parley_promotion p
 WHERE p.queue_id = +?1 AND p.level < ?2
   AND (EXISTS (SELECT 1
                  FROM parley_ready r
                  JOIN parley_grp g ON g.group_id = r.group_id
                  JOIN parley_message m ON m.stream_id = r.stream_id
                 WHERE r.group_id = p.group_id AND g.blocked = 0
                   AND CASE WHEN g.lease_until < ?6 THEN 1 ELSE 2 END <> ?3)
     OR EXISTS (SELECT 1 FROM parley_post o
                 WHERE o.post_id = p.group_id AND o.blocked = 0
                   AND CASE WHEN o.lease_until < ?6 THEN 1 ELSE 2 END <> ?4))
 ORDER BY p.queue_id, p.level DESC, p.since, p.group_id
 LIMIT +?5

-- name: ListPromotedAfter
SELECT p.group_id, p.level, p.since,
       CASE WHEN EXISTS (SELECT 1 FROM parley_grp g WHERE g.group_id = p.group_id)
            THEN 0 ELSE 1 END
  FROM parley_promotion p
 WHERE p.queue_id = +?1 AND p.level = +?2 AND p.since >= ?3 AND (p.since > ?4 OR p.group_id > ?5)
   AND (EXISTS (SELECT 1
                  FROM parley_ready r
                  JOIN parley_grp g ON g.group_id = r.group_id
                  JOIN parley_message m ON m.stream_id = r.stream_id
                 WHERE r.group_id = p.group_id AND g.blocked = 0
                   AND CASE WHEN g.lease_until < ?9 THEN 1 ELSE 2 END <> ?6)
     OR EXISTS (SELECT 1 FROM parley_post o
                 WHERE o.post_id = p.group_id AND o.blocked = 0
                   AND CASE WHEN o.lease_until < ?9 THEN 1 ELSE 2 END <> ?7))
 ORDER BY p.queue_id, p.level DESC, p.since, p.group_id
 LIMIT +?8

-- name: ListPromotions
SELECT p.group_id, p.queue_id, p.level, p.sticky,
       CASE WHEN EXISTS (SELECT 1 FROM parley_endpoint e
                          WHERE e.group_id = p.group_id AND e.closed_at IS NULL)
              OR EXISTS (SELECT 1 FROM parley_stream s WHERE s.stream_id = p.group_id AND s.kind = 3)
              OR EXISTS (SELECT 1 FROM parley_post o WHERE o.post_id = p.group_id)
              OR EXISTS (SELECT 1 FROM parley_delayed d WHERE d.post_id = p.group_id)
            THEN 0 ELSE 1 END
  FROM parley_promotion p
 WHERE p.group_id > ?1 AND p.queue_id > 0
 ORDER BY p.group_id
 LIMIT +?2

-- name: ListReady
SELECT r.group_id, r.priority, r.since, 0
  FROM parley_ready r
 WHERE r.queue_id = +?1 AND r.priority < ?2
   AND EXISTS (SELECT 1 FROM parley_grp g
                WHERE g.group_id = r.group_id AND g.blocked = 0
                  AND CASE WHEN g.lease_until < ?5 THEN 1 ELSE 2 END <> ?3)
   AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)
   AND NOT EXISTS (SELECT 1 FROM parley_promotion p
                    WHERE p.group_id = r.group_id AND p.queue_id = r.queue_id)
   AND NOT EXISTS (SELECT 1 FROM parley_ready b
                    WHERE b.group_id = r.group_id
                      AND (b.priority > r.priority OR b.priority = r.priority AND b.since < r.since)
                      AND EXISTS (SELECT 1 FROM parley_message m
                                   WHERE m.stream_id = b.stream_id))
 ORDER BY r.queue_id, r.priority DESC, r.since, r.group_id
 LIMIT +?4

-- name: ListReadyAfter
SELECT r.group_id, r.priority, r.since, 0
  FROM parley_ready r
 WHERE r.queue_id = +?1 AND r.priority = +?2 AND r.since >= ?3 AND (r.since > ?4 OR r.group_id > ?5)
   AND EXISTS (SELECT 1 FROM parley_grp g
                WHERE g.group_id = r.group_id AND g.blocked = 0
                  AND CASE WHEN g.lease_until < ?8 THEN 1 ELSE 2 END <> ?6)
   AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)
   AND NOT EXISTS (SELECT 1 FROM parley_promotion p
                    WHERE p.group_id = r.group_id AND p.queue_id = r.queue_id)
   AND NOT EXISTS (SELECT 1 FROM parley_ready b
                    WHERE b.group_id = r.group_id
                      AND (b.priority > r.priority OR b.priority = r.priority AND b.since < r.since)
                      AND EXISTS (SELECT 1 FROM parley_message m
                                   WHERE m.stream_id = b.stream_id))
 ORDER BY r.queue_id, r.priority DESC, r.since, r.group_id
 LIMIT +?7

-- name: ListRetained
SELECT stream_id, seq, sent, message_id, kind, type, body, headers, since
  FROM parley_retained
 WHERE handle = ?1
 ORDER BY since, kept, stream_id, seq

-- name: ListWithheld
SELECT s.stream_id,
       (SELECT count(*)
          FROM (SELECT 1 AS one FROM parley_held h WHERE h.stream_id = s.stream_id LIMIT 10000) x),
       (SELECT h.status FROM parley_held h WHERE h.stream_id = s.stream_id ORDER BY h.seq LIMIT 1),
       (SELECT h.since FROM parley_held h WHERE h.stream_id = s.stream_id ORDER BY h.seq LIMIT 1),
       ?3
  FROM parley_stream s
 WHERE s.held = 1 AND s.stream_id > ?1
 ORDER BY s.stream_id
 LIMIT +?2

-- name: PostDetails
SELECT o.post_id, o.queue_id, o.lease_until, o.held_since, o.owner, o.blocked, o.blocked_since, o.blocked_until,
       o.reason, ?51, p.level, p.sticky, o.priority, o.since
  FROM parley_post o
  LEFT JOIN parley_promotion p ON p.group_id = o.post_id
 WHERE o.post_id IN (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38, ?39, ?40, ?41, ?42, ?43, ?44, ?45, ?46, ?47, ?48, ?49, ?50)

-- name: PostStatusKeyed
SELECT g.name, m.type, m.body, m.headers
  FROM parley_message m
  JOIN parley_stream s ON s.stream_id = m.stream_id
  JOIN parley_grp g ON g.group_id = s.group_id
 WHERE m.message_id = ?1 AND m.kind = 4 AND s.queue_id = +?2

-- name: PostStatusPost
SELECT type, body, headers FROM parley_post WHERE post_id = ?1 AND queue_id = +?2

-- name: PostStatusProcessed
SELECT name, type, body, headers FROM parley_processed WHERE post_id = ?1 AND queue_id = +?2

-- name: QueueStatus
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
                               WHERE g.lease_until > ?3) x)
     + (SELECT count(*) FROM (SELECT lease_until FROM parley_post
                               WHERE queue_id = q.queue_id AND blocked = 0
                               ORDER BY queue_id, priority DESC, since
                               LIMIT 10000) p
         WHERE p.lease_until > ?3),
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
       CASE WHEN EXISTS (SELECT 1 FROM parley_ready r WHERE r.queue_id = q.queue_id) THEN
         (SELECT min(x.since)
            FROM (SELECT (SELECT r.since FROM parley_ready r
                           WHERE r.queue_id = q.queue_id AND r.priority = l.priority
                             AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)
                           ORDER BY r.since LIMIT 1) AS since
                    FROM (SELECT 1 AS priority UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4
                           UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8
                           UNION ALL SELECT 9 UNION ALL SELECT 10) l) x) END,
       CASE WHEN EXISTS (SELECT 1 FROM parley_post p WHERE p.queue_id = q.queue_id AND p.blocked = 0) THEN
         (SELECT min(x.since)
            FROM (SELECT (SELECT p.since FROM parley_post p
                           WHERE p.queue_id = q.queue_id AND p.priority = l.priority AND p.blocked = 0
                           ORDER BY p.since LIMIT 1) AS since
                    FROM (SELECT 1 AS priority UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4
                           UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8
                           UNION ALL SELECT 9 UNION ALL SELECT 10) l) x) END,
       ?3
  FROM parley_queue q
 WHERE q.queue_id BETWEEN ?1 AND ?2
 ORDER BY q.name
