-- name: ClaimWalk
WITH free AS MATERIALIZED (
  SELECT r.group_id, r.stream_id, r.priority, r.since, g.queue_id, g.service, g.name, g.fence, g.lease_until, g.blocked, g.blocked_until, g.resweep
    FROM parley_ready r INDEXED BY parley_ready_free
   CROSS JOIN parley_grp g ON g.group_id = r.group_id
   WHERE r.queue_id = +?1 AND r.held_until = 0 AND g.blocked = 0 AND g.lease_until < ?3
     AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)
   ORDER BY r.queue_id, r.held_until, r.priority DESC, r.since, r.group_id, r.stream_id
   LIMIT +?2)
SELECT v.catalog_version, q.enabled,
       EXISTS (SELECT 1 FROM parley_promotion p WHERE p.queue_id = +?1),
       EXISTS (SELECT 1 FROM parley_ready r INDEXED BY parley_ready_free
                WHERE r.queue_id = +?1 AND r.held_until > 0 AND r.held_until < ?3),
       h.priority, h.since,
       f.group_id, f.priority, f.since, f.queue_id, f.service, f.name, f.fence, f.lease_until, f.blocked, f.blocked_until, f.resweep, ?3,
       (SELECT count(*) FROM (SELECT 1 FROM parley_ready r WHERE r.group_id = f.group_id LIMIT 2)),
       s.stream_id, s.kind, s.endpoint, e.group_id, e.conversation, e.initiator, e.service, e.far, e.contract, e.closed_at,
       m.seq, m.message_id, m.kind, m.type, m.body, m.headers, m.since, m.uniq, x.attempts, x.suspicion, x.last_error, x.errors
  FROM parley_meta v
  LEFT JOIN parley_queue q ON q.queue_id = +?1
  LEFT JOIN (SELECT p.priority, p.since
               FROM parley_post p
              WHERE p.queue_id = +?1 AND p.blocked = 0 AND p.lease_until < ?3
              ORDER BY p.queue_id, p.priority DESC, p.since
              LIMIT 1) h ON true
  LEFT JOIN free f ON true
  LEFT JOIN parley_stream s ON s.stream_id = f.stream_id
  LEFT JOIN parley_endpoint e ON e.handle = s.endpoint
  LEFT JOIN parley_message m ON m.stream_id = s.stream_id AND m.seq = s.next_seq - 1
   AND ifnull(length(m.body), 0) + ifnull(length(m.headers), 0) <= 4096
   AND NOT EXISTS (SELECT 1 FROM parley_message y WHERE y.stream_id = s.stream_id AND y.seq < s.next_seq - 1)
  LEFT JOIN parley_failure x ON x.message_id = m.message_id

-- name: Claimable
SELECT 1
 WHERE EXISTS (SELECT 1
                 FROM parley_post p
                WHERE p.queue_id = +?1 AND p.blocked = 0 AND p.lease_until < ?2)
    OR EXISTS (SELECT 1
                 FROM parley_ready r INDEXED BY parley_ready_free
                CROSS JOIN parley_grp g ON g.group_id = r.group_id
                WHERE r.queue_id = +?1 AND r.held_until < ?2
                  AND g.blocked = 0 AND g.lease_until < ?2
                  AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id))

-- name: DeadDelete
DELETE FROM parley_dead_letter WHERE message_id = ?1

-- name: DeadInsert
INSERT INTO parley_dead_letter (message_id, queue_id, stream_id, seq, group_id, kind, type,
       body, headers, since, name, handle, conversation, initiator, service, far, contract,
       priority, attempts, suspicion, last_error, errors, reason, died)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, replace(?22, '"at":null', '"at":' || ?24), ?23, ?24)

-- name: FailureDelete
DELETE FROM parley_failure WHERE message_id = ?1

-- name: FailurePut
INSERT INTO parley_failure (message_id, attempts, suspicion, last_error, errors) VALUES (?1, ?2, ?3, ?4, replace(?5, '"at":null', '"at":' || ?6))
ON CONFLICT (message_id) DO UPDATE
   SET attempts = excluded.attempts, suspicion = excluded.suspicion, last_error = excluded.last_error,
       errors = excluded.errors

-- name: FirstMessages
SELECT m.stream_id, m.seq, m.message_id, m.kind, m.type, m.body, m.headers, m.since, m.uniq,
       f.attempts, f.suspicion, f.last_error, f.errors
  FROM json_each(?1) k
 CROSS JOIN parley_message m ON m.stream_id = unhex(k.value)
  LEFT JOIN parley_failure f ON f.message_id = m.message_id
 WHERE m.seq < ?2 + (SELECT x.seq FROM parley_message x WHERE x.stream_id = unhex(k.value) ORDER BY x.seq LIMIT 1)

-- name: FreeReady
UPDATE parley_ready INDEXED BY parley_ready_free SET held_until = 0
 WHERE queue_id = +?1 AND held_until > 0 AND held_until < ?2

-- name: GroupStreams
SELECT r.stream_id, s.kind, r.priority, s.endpoint, e.group_id, e.conversation,
       e.initiator, e.service, e.far, e.contract, e.closed_at,
       (SELECT m.since FROM parley_message m
         WHERE m.stream_id = r.stream_id ORDER BY m.stream_id, m.seq LIMIT 1)
  FROM parley_ready r
  JOIN parley_stream s ON s.stream_id = r.stream_id
  LEFT JOIN parley_endpoint e ON e.handle = s.endpoint
 WHERE r.group_id = ?1

-- name: GroupVisible
SELECT 1 FROM parley_ready r
 WHERE r.group_id = ?1
   AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)
 LIMIT 1

-- name: GroupWaits
SELECT CASE WHEN EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = s.stream_id) THEN 1 ELSE 0 END,
       1
  FROM parley_stream s
 WHERE s.group_id = ?1

-- name: LeaseGroups
UPDATE parley_grp
   SET fence = fence + 1, lease_until = ?4 + ?2, held_since = ?4, owner = ?3
 WHERE group_id IN (SELECT unhex(value) FROM json_each(?1))

-- name: LeasePosts
UPDATE parley_post
   SET fence = fence + 1, lease_until = ?5 + ?3, held_since = ?5, owner = ?4,
       suspicion = suspicion + (lease_until <> 0) 
 WHERE post_id IN (SELECT p.post_id FROM parley_post p
                    WHERE p.queue_id = +?1 AND p.blocked = 0 AND p.lease_until < ?5
                    ORDER BY p.queue_id, p.priority DESC, p.since, p.post_id
                    LIMIT +?2)
RETURNING post_id, queue_id, priority, since, sent, type, body, headers, uniq, attempts, suspicion,
          last_error, errors, fence - 1, 0, blocked, ?5

-- name: OnceInsert
INSERT INTO parley_once (name, keep_until) VALUES (?1, ?3 + ?2) ON CONFLICT DO NOTHING

-- name: PromotionDelete
DELETE FROM parley_promotion WHERE group_id = ?1 AND version = ?2

-- name: PromotionDrop
DELETE FROM parley_promotion WHERE group_id = ?1

-- name: PromotionEmpty
DELETE FROM parley_promotion WHERE group_id = ?1 AND version = ?2 AND sticky = 2

-- name: PromotionPut
INSERT INTO parley_promotion (group_id, queue_id, level, since, version, sticky)
VALUES (?1, ?2, ?3, ?5, ?5, ?4)
ON CONFLICT (group_id) DO UPDATE
   SET level = excluded.level, since = excluded.since, sticky = excluded.sticky,
       version = max(version + 1, excluded.version)

-- name: PromotionRead
SELECT level, version, sticky FROM parley_promotion WHERE group_id = ?1

-- name: RetainedDelete
DELETE FROM parley_retained WHERE handle = ?1

-- name: RetainedInsert
INSERT INTO parley_retained (handle, stream_id, seq, sent, message_id, kind, type, body,
       headers, since, kept)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, coalesce(?10, ?11), ?11)

-- name: TakePosts
SELECT post_id, queue_id, priority, since, sent, type, body, headers, uniq, attempts, suspicion,
       last_error, errors, fence, lease_until, blocked, ?3
  FROM parley_post
 WHERE queue_id = +?1 AND blocked = 0 AND lease_until < ?3
 ORDER BY queue_id, priority DESC, since, post_id
 LIMIT +?2

-- name: TimerDelete
DELETE FROM parley_timer WHERE handle = ?1 AND kind + 0 = ?2

-- name: TimerExpire
DELETE FROM parley_timer WHERE handle = ?1 AND kind + 0 = ?2 AND due <= ?3

-- name: TimerPut
INSERT INTO parley_timer (handle, kind, due, queue_id) VALUES (?1, ?2, ?5 + ?3, ?4)
ON CONFLICT (handle, kind) DO UPDATE SET due = excluded.due, queue_id = excluded.queue_id

-- name: TimerQueue
UPDATE parley_timer SET queue_id = +?1 WHERE handle = ?2 AND kind + 0 = ?3

-- name: TimersDelete
DELETE FROM parley_timer WHERE handle = ?1

-- name: Waiting
SELECT 1 FROM parley_meta
 WHERE EXISTS (SELECT 1 FROM parley_ready r
                 JOIN parley_grp g ON g.group_id = r.group_id
                WHERE r.queue_id = +?1 AND g.blocked = 0)
    OR EXISTS (SELECT 1 FROM parley_post p WHERE p.queue_id = +?2 AND p.blocked = 0)

-- name: WalkPromoted
SELECT p.group_id, CASE WHEN g.group_id IS NULL THEN 1 ELSE 0 END
  FROM parley_promotion p
  LEFT JOIN parley_grp g ON g.group_id = p.group_id
  LEFT JOIN parley_post o ON o.post_id = p.group_id
 WHERE p.queue_id = +?1
   AND (g.blocked = 0 AND g.lease_until < ?3
        AND EXISTS (SELECT 1
                      FROM parley_ready r
                     CROSS JOIN parley_message m ON m.stream_id = r.stream_id
                     WHERE r.group_id = p.group_id)
     OR o.blocked = 0 AND o.lease_until < ?3)
 ORDER BY p.queue_id, p.level DESC, p.since, p.group_id
 LIMIT +?2
