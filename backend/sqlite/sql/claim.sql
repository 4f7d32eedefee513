-- name: PromotionPut
INSERT INTO parley_promotion (group_id, queue_id, level, since, version, sticky)
VALUES (?, ?, ?, :now, :now, ?)
ON CONFLICT (group_id) DO UPDATE
   SET level = excluded.level, since = excluded.since, sticky = excluded.sticky,
       version = max(version + 1, excluded.version)
-- name: ClaimWalk
-- What a claim reads before it takes anything: the catalog's version, whether the queue is on, and the place of the
-- first post. It also reads whether there are promotions, and streams that an expired lease keeps out of the
-- order. The first free streams of the order come with it, one in each row, or one row without: the stream's group,
-- how many streams the group has in the order, up to two, and the receiving endpoint. If the stream has only one message,
-- which is short, that comes with it, as MessageRead returns it.
--
-- queue, how many streams
WITH free AS MATERIALIZED (
  SELECT r.group_id, r.stream_id, r.priority, r.since, g.queue_id, g.service, g.name, g.fence, g.lease_until, g.blocked, g.blocked_until, g.resweep
    FROM parley_ready r INDEXED BY parley_ready_free
   CROSS JOIN parley_grp g ON g.group_id = r.group_id
   WHERE r.queue_id = ?1 AND r.held_until = 0 AND g.blocked = 0 AND g.lease_until < :now
     AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)
   ORDER BY r.queue_id, r.held_until, r.priority DESC, r.since, r.group_id, r.stream_id
   LIMIT ?2)
SELECT v.catalog_version, q.enabled,
       EXISTS (SELECT 1 FROM parley_promotion p WHERE p.queue_id = ?1),
       EXISTS (SELECT 1 FROM parley_ready r INDEXED BY parley_ready_free
                WHERE r.queue_id = ?1 AND r.held_until > 0 AND r.held_until < :now),
       h.priority, h.since,
       f.group_id, f.priority, f.since, f.queue_id, f.service, f.name, f.fence, f.lease_until, f.blocked, f.blocked_until, f.resweep, :now,
       (SELECT count(*) FROM (SELECT 1 FROM parley_ready r WHERE r.group_id = f.group_id LIMIT 2)),
       s.stream_id, s.kind, s.endpoint, e.group_id, e.conversation, e.initiator, e.service, e.far, e.contract, e.closed_at,
       m.seq, m.message_id, m.kind, m.type, m.body, m.headers, m.since, m.uniq, x.attempts, x.suspicion, x.last_error, x.errors
  FROM parley_meta v
  LEFT JOIN parley_queue q ON q.queue_id = ?1
  LEFT JOIN (SELECT p.priority, p.since
               FROM parley_post p
              WHERE p.queue_id = ?1 AND p.blocked = 0 AND p.lease_until < :now
              ORDER BY p.queue_id, p.priority DESC, p.since
              LIMIT 1) h ON true
  LEFT JOIN free f ON true
  LEFT JOIN parley_stream s ON s.stream_id = f.stream_id
  LEFT JOIN parley_endpoint e ON e.handle = s.endpoint
  LEFT JOIN parley_message m ON m.stream_id = s.stream_id AND m.seq = s.next_seq - 1
   AND ifnull(length(m.body), 0) + ifnull(length(m.headers), 0) <= 4096
   AND NOT EXISTS (SELECT 1 FROM parley_message y WHERE y.stream_id = s.stream_id AND y.seq < s.next_seq - 1)
  LEFT JOIN parley_failure x ON x.message_id = m.message_id
-- name: FirstMessages
-- The first messages of streams, in the order of the streams, as MessageRead returns them.
--
-- streams, how many numbers of each
SELECT m.stream_id, m.seq, m.message_id, m.kind, m.type, m.body, m.headers, m.since, m.uniq,
       f.attempts, f.suspicion, f.last_error, f.errors
  FROM json_each(?1) k
 CROSS JOIN parley_message m ON m.stream_id = unhex(k.value)
  LEFT JOIN parley_failure f ON f.message_id = m.message_id
 WHERE m.seq < ?2 + (SELECT x.seq FROM parley_message x WHERE x.stream_id = unhex(k.value) ORDER BY x.seq LIMIT 1)
-- name: LeaseGroups
-- groups, how long, owner
UPDATE parley_grp
   SET fence = fence + 1, lease_until = :now + ?2, held_since = :now, owner = ?3
 WHERE group_id IN (SELECT unhex(value) FROM json_each(?1))
-- name: WalkPromoted
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
 LIMIT ?
-- name: FreeReady
UPDATE parley_ready INDEXED BY parley_ready_free SET held_until = 0
 WHERE queue_id = ? AND held_until > 0 AND held_until < :now
-- name: TakePosts
SELECT post_id, queue_id, priority, since, sent, type, body, headers, uniq, attempts, suspicion,
       last_error, errors, fence, lease_until, blocked, :now
  FROM parley_post
 WHERE queue_id = ? AND blocked = 0 AND lease_until < :now
 ORDER BY queue_id, priority DESC, since, post_id
 LIMIT ?
-- name: LeasePosts
UPDATE parley_post
   SET fence = fence + 1, lease_until = :now + ?3, held_since = :now, owner = ?4,
       suspicion = suspicion + (lease_until <> 0) -- its receiver died
 WHERE post_id IN (SELECT p.post_id FROM parley_post p
                    WHERE p.queue_id = ?1 AND p.blocked = 0 AND p.lease_until < :now
                    ORDER BY p.queue_id, p.priority DESC, p.since, p.post_id
                    LIMIT ?2)
RETURNING post_id, queue_id, priority, since, sent, type, body, headers, uniq, attempts, suspicion,
          last_error, errors, fence - 1, 0, blocked, :now
-- name: Claimable
SELECT 1
 WHERE EXISTS (SELECT 1
                 FROM parley_post p
                WHERE p.queue_id = ?1 AND p.blocked = 0 AND p.lease_until < :now)
    OR EXISTS (SELECT 1
                 FROM parley_ready r INDEXED BY parley_ready_free
                CROSS JOIN parley_grp g ON g.group_id = r.group_id
                WHERE r.queue_id = ?1 AND r.held_until < :now
                  AND g.blocked = 0 AND g.lease_until < :now
                  AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id))
