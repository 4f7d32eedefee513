-- name: ClaimOne
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT v.catalog_version, q.enabled, g.group_id
  FROM parley_meta v
  LEFT JOIN parley_queue q ON q.queue_id = ?
  LEFT JOIN parley_grp g
    ON g.group_id = coalesce((SELECT e.group_id FROM parley_endpoint e WHERE e.handle = ?), ?)
   AND g.group_id = coalesce(?, g.group_id)
   AND g.queue_id = ? AND g.blocked = 0
   AND (SELECT m.type FROM parley_ready r
         STRAIGHT_JOIN parley_message m FORCE INDEX (PRIMARY) ON m.stream_id = r.stream_id
         WHERE r.group_id = g.group_id LIMIT 1) IS NOT NULL
 WHERE v.id = 1

-- name: DeadDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_dead_letter WHERE message_id = ?

-- name: DeadInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_dead_letter (message_id, queue_id, stream_id, seq, group_id, kind, type,
       body, headers, since, name, handle, conversation, initiator, service, far, contract,
       priority, attempts, suspicion, last_error, errors, reason, died)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, replace(?, '"at":null', concat('"at":', TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)))), ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)))

-- name: FailureDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_failure WHERE message_id = ?

-- name: FailurePut
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_failure (message_id, attempts, suspicion, last_error, errors) VALUES (?, ?, ?, ?, replace(?, '"at":null', concat('"at":', TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)))))
ON DUPLICATE KEY UPDATE attempts = VALUES(attempts), suspicion = VALUES(suspicion),
       last_error = VALUES(last_error), errors = VALUES(errors)

-- name: Flow
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT r.group_id,
       (SELECT v.catalog_version FROM parley_meta v WHERE v.id = 1),
       (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = ?)
  FROM parley_ready r FORCE INDEX (place)
 STRAIGHT_JOIN parley_grp g FORCE INDEX (PRIMARY) ON g.group_id = r.group_id
 WHERE r.queue_id = ?
   AND CASE WHEN (SELECT 1 FROM parley_promotion p WHERE p.queue_id = ? LIMIT 1) IS NULL
             AND (SELECT 1 FROM parley_post p WHERE p.queue_id = ? AND p.blocked = 0 LIMIT 1) IS NULL
             AND g.blocked = 0 AND g.lease_until < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
             AND (SELECT m.type FROM parley_message m FORCE INDEX (PRIMARY)
                   WHERE m.stream_id = r.stream_id LIMIT 1) IS NOT NULL
            THEN (SELECT 1 FROM parley_grp x WHERE x.group_id = r.group_id FOR UPDATE SKIP LOCKED)
       END IS NOT NULL
 ORDER BY r.queue_id, r.urgency, r.since
 LIMIT ?

-- name: GroupStreams
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT r.stream_id, s.kind, r.priority, s.endpoint, e.group_id, e.conversation,
       e.initiator, e.service, e.far, e.contract, e.closed_at,
       (SELECT m.since FROM parley_message m
         WHERE m.stream_id = r.stream_id ORDER BY m.stream_id, m.seq LIMIT 1)
  FROM parley_ready r
  JOIN parley_stream s ON s.stream_id = r.stream_id
  LEFT JOIN parley_endpoint e ON e.handle = s.endpoint
 WHERE r.group_id = ?

-- name: GroupVisible
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT 1 FROM parley_ready r
 WHERE r.group_id = ?
   AND (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id LIMIT 1) IS NOT NULL
 LIMIT 1

-- name: GroupWaits
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT CASE WHEN (SELECT 1 FROM parley_message m WHERE m.stream_id = s.stream_id LIMIT 1) IS NOT NULL THEN 1 ELSE 0 END,
       (SELECT 1 FROM parley_stream w WHERE w.stream_id = s.stream_id LIMIT 1)
  FROM parley_stream s
 WHERE s.group_id = ?

-- name: Head
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT v.catalog_version, q.enabled,
       (SELECT 1 FROM parley_promotion p WHERE p.queue_id = ? LIMIT 1),
       (SELECT r.urgency * 10000000000000000 + r.since
          FROM parley_ready r FORCE INDEX (place)
         WHERE r.queue_id = ?
           AND (SELECT 1 FROM parley_grp g
                 WHERE g.group_id = r.group_id AND g.blocked = 0 AND g.lease_until < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) LIMIT 1) IS NOT NULL
           AND (SELECT m.type FROM parley_message m FORCE INDEX (PRIMARY)
                 WHERE m.stream_id = r.stream_id LIMIT 1) IS NOT NULL
         ORDER BY r.queue_id, r.urgency, r.since LIMIT 1),
       (SELECT p.urgency * 10000000000000000 + p.since
          FROM parley_post p FORCE INDEX (place)
         WHERE p.queue_id = ? AND p.blocked = 0 AND p.lease_until < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
         ORDER BY p.queue_id, p.blocked, p.urgency, p.since LIMIT 1),
       (SELECT 1 FROM parley_ready r FORCE INDEX (place)
         WHERE r.queue_id = ?
           AND (SELECT 1 FROM parley_grp g
                 WHERE g.group_id = r.group_id AND g.blocked = 0 LIMIT 1) IS NOT NULL LIMIT 1),
       (SELECT 1 FROM parley_post p FORCE INDEX (place) WHERE p.queue_id = ? AND p.blocked = 0 LIMIT 1)
  FROM parley_meta v
  LEFT JOIN parley_queue q ON q.queue_id = ?
 WHERE v.id = 1

-- name: LeaseGroups
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_grp
   SET fence = fence + 1, lease_until = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?, held_since = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), owner = ?
 WHERE group_id IN (?)

-- name: LeaseLocked
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_post
   SET suspicion = suspicion + CASE WHEN lease_until <> 0 THEN 1 ELSE 0 END, 
       fence = fence + 1,
       lease_until = CASE WHEN ? > 0 THEN TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ? ELSE 0 END,
       held_since = CASE WHEN ? > 0 THEN TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) ELSE 0 END,
       owner = ?
 WHERE post_id IN (?)

-- name: LockOne
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT group_id FROM parley_grp
 WHERE group_id IN (?, '') AND blocked = 0 AND lease_until < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
   FOR UPDATE SKIP LOCKED

-- name: Messages
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT m.stream_id, m.seq, m.message_id, m.kind, m.type, m.body, m.headers, m.since, m.uniq,
       f.attempts, f.suspicion, f.last_error, f.errors
  FROM parley_message m FORCE INDEX (PRIMARY)
  LEFT JOIN parley_failure f ON f.message_id = m.message_id
 WHERE ?
 ORDER BY m.stream_id, m.seq

-- name: Newest
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT q.queue_id,
       (SELECT r.since FROM parley_ready r FORCE INDEX (place)
         WHERE r.queue_id = q.queue_id AND r.urgency = u.urgency ORDER BY r.queue_id DESC, r.urgency DESC, r.since DESC LIMIT 1),
       (SELECT p.since FROM parley_post p FORCE INDEX (place)
         WHERE p.queue_id = q.queue_id AND p.blocked = 0 AND p.urgency = u.urgency
         ORDER BY p.queue_id DESC, p.blocked DESC, p.urgency DESC, p.since DESC LIMIT 1)
  FROM parley_queue q
 CROSS JOIN (SELECT -1 AS urgency UNION ALL SELECT -2 UNION ALL SELECT -3 UNION ALL SELECT -4 UNION ALL SELECT -5
             UNION ALL SELECT -6 UNION ALL SELECT -7 UNION ALL SELECT -8 UNION ALL SELECT -9 UNION ALL SELECT -10) u
 WHERE q.queue_id IN (?)

-- name: OnceInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT IGNORE INTO parley_once (name, keep_until) VALUES (?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?)

-- name: PostAfter
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT p.urgency * 10000000000000000 + p.since
  FROM parley_post p FORCE INDEX (place)
 WHERE p.queue_id = ? AND p.blocked = 0 AND p.lease_until < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
   AND p.urgency * 10000000000000000 + p.since > ?
 ORDER BY p.queue_id, p.blocked, p.urgency, p.since LIMIT 1

-- name: Posts
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT p.post_id, p.queue_id, p.priority, p.since, p.sent, p.type, p.body, p.headers, p.uniq, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)),
       p.fence, p.lease_until, p.attempts, p.suspicion, p.last_error, p.errors
  FROM parley_post p FORCE INDEX (place)
 WHERE p.queue_id = ? AND p.blocked = 0 AND p.urgency * 10000000000000000 + p.since <= ?
   AND CASE WHEN p.lease_until < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
            THEN (SELECT 1 FROM parley_post o
                   WHERE o.post_id = p.post_id AND o.fence = p.fence AND o.lease_until = p.lease_until
                     AND o.blocked = 0 AND o.attempts = p.attempts AND o.suspicion = p.suspicion
                     FOR UPDATE SKIP LOCKED)
       END IS NOT NULL
 ORDER BY p.queue_id, p.blocked, p.urgency, p.since
 LIMIT ?

-- name: PostsOnly
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT p.post_id, p.queue_id, p.priority, p.since, p.sent, p.type, p.body, p.headers, p.uniq, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)),
       p.fence, p.lease_until, p.attempts, p.suspicion, p.last_error, p.errors,
       (SELECT v.catalog_version FROM parley_meta v WHERE v.id = 1),
       (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = ?)
  FROM parley_post p FORCE INDEX (place)
 WHERE p.queue_id = ? AND p.blocked = 0
   AND CASE WHEN p.lease_until < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
             AND (SELECT 1 FROM parley_ready r WHERE r.queue_id = ? LIMIT 1) IS NULL
             AND (SELECT 1 FROM parley_promotion o WHERE o.queue_id = ? LIMIT 1) IS NULL
            THEN (SELECT 1 FROM parley_post o
                   WHERE o.post_id = p.post_id AND o.fence = p.fence AND o.lease_until = p.lease_until
                     AND o.blocked = 0 AND o.attempts = p.attempts AND o.suspicion = p.suspicion
                     FOR UPDATE SKIP LOCKED)
       END IS NOT NULL
 ORDER BY p.queue_id, p.blocked, p.urgency, p.since
 LIMIT ?

-- name: Promoted
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT p.group_id, (SELECT 1 FROM parley_grp g WHERE g.group_id = p.group_id LIMIT 1) IS NULL
  FROM parley_promotion p FORCE INDEX (place)
 WHERE p.queue_id = ?
   AND CASE WHEN (SELECT 1 FROM parley_grp g
                   WHERE g.group_id = p.group_id AND g.blocked = 0 AND g.lease_until < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) LIMIT 1) IS NOT NULL
             AND (SELECT m.type FROM parley_ready r
                   STRAIGHT_JOIN parley_message m FORCE INDEX (PRIMARY) ON m.stream_id = r.stream_id
                   WHERE r.group_id = p.group_id LIMIT 1) IS NOT NULL
            THEN (SELECT 1 FROM parley_grp g WHERE g.group_id = p.group_id FOR UPDATE SKIP LOCKED)
            WHEN (SELECT 1 FROM parley_post o
                   WHERE o.post_id = p.group_id AND o.blocked = 0 AND o.lease_until < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) LIMIT 1) IS NOT NULL
            THEN (SELECT 1 FROM parley_post o WHERE o.post_id = p.group_id FOR UPDATE SKIP LOCKED)
       END IS NOT NULL
 ORDER BY p.queue_id, p.urgency, p.since
 LIMIT ?

-- name: PromotionDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_promotion WHERE group_id = ? AND version = ?

-- name: PromotionDrop
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_promotion WHERE group_id = ?

-- name: PromotionEmpty
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_promotion WHERE group_id = ? AND version = ? AND sticky = 2

-- name: PromotionPut
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_promotion (group_id, queue_id, level, since, version, sticky)
VALUES (?, ?, ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), ?)
ON DUPLICATE KEY UPDATE level = VALUES(level), since = VALUES(since), sticky = VALUES(sticky),
       version = greatest(version + 1, VALUES(version))

-- name: PromotionRead
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT level, version, sticky FROM parley_promotion WHERE group_id = ?

-- name: PromotionTry
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT 1 FROM parley_promotion WHERE group_id IN (?, '') AND version = ?
FOR UPDATE SKIP LOCKED

-- name: Read
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT g.group_id, g.name, g.fence, g.lease_until, g.blocked, g.lease_until > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)),
       o.level, o.version, o.sticky,
       r.stream_id, s.kind, r.priority, s.endpoint, e.group_id, e.conversation, e.initiator, e.service,
       e.far, e.contract, e.closed_at, s.next_seq,
       m.seq, m.message_id, m.kind, m.type, m.body, m.headers, m.since, m.uniq, f.attempts, f.suspicion, f.last_error, f.errors
FROM parley_grp g
  LEFT JOIN parley_promotion o ON o.group_id = g.group_id
  LEFT JOIN parley_ready r ON r.group_id = g.group_id
  LEFT JOIN parley_stream s ON s.stream_id = r.stream_id
  LEFT JOIN parley_endpoint e ON e.handle = s.endpoint
  LEFT JOIN parley_message m
    ON m.stream_id = r.stream_id
   AND m.seq = (SELECT y.seq FROM parley_message y FORCE INDEX (PRIMARY)
                 WHERE y.stream_id = r.stream_id AND y.type >= ''
                 ORDER BY y.stream_id, y.seq LIMIT 1)
  LEFT JOIN parley_failure f ON f.message_id = m.message_id
 WHERE g.group_id IN (?)

-- name: ReadTwo
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT g.group_id, g.name, g.fence, g.lease_until, g.blocked, g.lease_until > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)),
       o.level, o.version, o.sticky,
       r.stream_id, s.kind, r.priority, s.endpoint, e.group_id, e.conversation, e.initiator, e.service,
       e.far, e.contract, e.closed_at, s.next_seq,
       m.seq, m.message_id, m.kind, m.type, m.body, m.headers, m.since, m.uniq, f.attempts, f.suspicion, f.last_error, f.errors,
       n.seq, n.message_id, n.kind, n.type, n.body, n.headers, n.since, n.uniq, h.attempts, h.suspicion, h.last_error,
       h.errors
FROM parley_grp g
  LEFT JOIN parley_promotion o ON o.group_id = g.group_id
  LEFT JOIN parley_ready r ON r.group_id = g.group_id
  LEFT JOIN parley_stream s ON s.stream_id = r.stream_id
  LEFT JOIN parley_endpoint e ON e.handle = s.endpoint
  LEFT JOIN parley_message m
    ON m.stream_id = r.stream_id
   AND m.seq = (SELECT y.seq FROM parley_message y FORCE INDEX (PRIMARY)
                 WHERE y.stream_id = r.stream_id AND y.type >= ''
                 ORDER BY y.stream_id, y.seq LIMIT 1)
  LEFT JOIN parley_failure f ON f.message_id = m.message_id
  LEFT JOIN parley_message n FORCE INDEX (PRIMARY)
    ON n.stream_id = m.stream_id AND n.seq = m.seq + 1
   AND coalesce(octet_length(n.body), 0) + coalesce(octet_length(n.headers), 0) < 4096
  LEFT JOIN parley_failure h ON h.message_id = n.message_id
 WHERE g.group_id IN (?)

-- name: ReadyAfter
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT r.urgency * 10000000000000000 + r.since
  FROM parley_ready r FORCE INDEX (place)
 WHERE r.queue_id = ? AND r.urgency * 10000000000000000 + r.since > ?
   AND (SELECT 1 FROM parley_grp g
         WHERE g.group_id = r.group_id AND g.blocked = 0 AND g.lease_until < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) LIMIT 1) IS NOT NULL
   AND (SELECT m.type FROM parley_message m FORCE INDEX (PRIMARY)
         WHERE m.stream_id = r.stream_id LIMIT 1) IS NOT NULL
 ORDER BY r.queue_id, r.urgency, r.since LIMIT 1

-- name: RetainedDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_retained WHERE handle = ?

-- name: RetainedInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_retained (handle, stream_id, seq, sent, message_id, kind, type, body,
       headers, since, kept)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, coalesce(?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))), TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)))

-- name: TimerDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_timer WHERE handle = ? AND kind = ?

-- name: TimerExpire
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_timer WHERE handle = ? AND kind = ? AND due <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))

-- name: TimerPut
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_timer (handle, kind, due, queue_id) VALUES (?, ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?, ?)
ON DUPLICATE KEY UPDATE due = VALUES(due), queue_id = VALUES(queue_id)

-- name: TimerQueue
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_timer SET queue_id = ? WHERE handle = ? AND kind = ?

-- name: TimerTry
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT 1 FROM parley_timer WHERE handle = ? AND kind = ?
FOR UPDATE SKIP LOCKED

-- name: TimersDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_timer WHERE handle = ?

-- name: UnleaseGroups
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_grp SET fence = fence + 1, lease_until = 0, owner = '' WHERE group_id IN (?)

-- name: Waiting
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT 1 FROM parley_meta
 WHERE (SELECT 1 FROM parley_ready r
                 JOIN parley_grp g ON g.group_id = r.group_id
                WHERE r.queue_id = ? AND g.blocked = 0 LIMIT 1) IS NOT NULL
    OR (SELECT 1 FROM parley_post p WHERE p.queue_id = ? AND p.blocked = 0 LIMIT 1) IS NOT NULL

-- name: Walk
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT r.group_id
  FROM parley_ready r FORCE INDEX (place)
 STRAIGHT_JOIN parley_grp g FORCE INDEX (PRIMARY) ON g.group_id = r.group_id
 WHERE r.queue_id = ? AND r.urgency * 10000000000000000 + r.since <= ?
   AND CASE WHEN g.blocked = 0 AND g.lease_until < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
             AND (SELECT m.type FROM parley_message m FORCE INDEX (PRIMARY)
                   WHERE m.stream_id = r.stream_id LIMIT 1) IS NOT NULL
            THEN (SELECT 1 FROM parley_grp x WHERE x.group_id = r.group_id FOR UPDATE SKIP LOCKED)
       END IS NOT NULL
 ORDER BY r.queue_id, r.urgency, r.since
 LIMIT ?
