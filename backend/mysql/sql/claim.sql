-- name: TimerDelete
DELETE FROM parley_timer WHERE handle = ? AND kind = ?
-- name: TimerExpire
DELETE FROM parley_timer WHERE handle = ? AND kind = ? AND due <= :now
-- name: TimerPut
INSERT INTO parley_timer (handle, kind, due, queue_id) VALUES (?, ?, :now + ?, ?)
ON DUPLICATE KEY UPDATE due = VALUES(due), queue_id = VALUES(queue_id)
-- name: TimerQueue
UPDATE parley_timer SET queue_id = ? WHERE handle = ? AND kind = ?
-- name: FailurePut
INSERT INTO parley_failure (message_id, attempts, suspicion, last_error, errors) VALUES (?, ?, ?, ?, {made ?})
ON DUPLICATE KEY UPDATE attempts = VALUES(attempts), suspicion = VALUES(suspicion),
       last_error = VALUES(last_error), errors = VALUES(errors)
-- name: PromotionPut
INSERT INTO parley_promotion (group_id, queue_id, level, since, version, sticky)
VALUES (?, ?, ?, :now, :now, ?)
ON DUPLICATE KEY UPDATE level = VALUES(level), since = VALUES(since), sticky = VALUES(sticky),
       version = greatest(version + 1, VALUES(version))

-- name: Head
-- A place in the order as one number: earlier places are less. A time has 16 digits.
--
-- What a claim reads first, without locking: the catalog's version, whether the queue is on, and
-- whether there are promotions. It also reads the places of the first stream and post without a
-- lease, and whether any entry is not blocked.
--
-- A subquery for the first message of a stream also selects its type. MySQL expects to read all of
-- the stream, whatever the LIMIT, and makes InnoDB read ahead as many rows as fit into 128 KiB.
-- With only numbers selected, these are thousands. With the type, which has room for 512 bytes,
-- they are two hundred. MySQL must also be told the index: it would read a whole table that its
-- statistics take for small.
--
-- queue, six times
SELECT v.catalog_version, q.enabled,
       (SELECT 1 FROM parley_promotion p WHERE p.queue_id = ? LIMIT 1),
       (SELECT r.urgency * 10000000000000000 + r.since
          FROM parley_ready r FORCE INDEX (place)
         WHERE r.queue_id = ?
           AND (SELECT 1 FROM parley_grp g
                 WHERE g.group_id = r.group_id AND g.blocked = 0 AND g.lease_until < :now LIMIT 1) IS NOT NULL
           AND (SELECT m.type FROM parley_message m FORCE INDEX (PRIMARY)
                 WHERE m.stream_id = r.stream_id LIMIT 1) IS NOT NULL
         ORDER BY r.queue_id, r.urgency, r.since LIMIT 1),
       (SELECT p.urgency * 10000000000000000 + p.since
          FROM parley_post p FORCE INDEX (place)
         WHERE p.queue_id = ? AND p.blocked = 0 AND p.lease_until < :now
         ORDER BY p.queue_id, p.blocked, p.urgency, p.since LIMIT 1),
       (SELECT 1 FROM parley_ready r FORCE INDEX (place)
         WHERE r.queue_id = ?
           AND (SELECT 1 FROM parley_grp g
                 WHERE g.group_id = r.group_id AND g.blocked = 0 LIMIT 1) IS NOT NULL LIMIT 1),
       (SELECT 1 FROM parley_post p FORCE INDEX (place) WHERE p.queue_id = ? AND p.blocked = 0 LIMIT 1)
  FROM parley_meta v
  LEFT JOIN parley_queue q ON q.queue_id = ?
 WHERE v.id = 1

-- name: Promoted
-- Promoted groups and posts, locked.
--
-- queue, at most
SELECT p.group_id, (SELECT 1 FROM parley_grp g WHERE g.group_id = p.group_id LIMIT 1) IS NULL
  FROM parley_promotion p FORCE INDEX (place)
 WHERE p.queue_id = ?
   AND CASE WHEN (SELECT 1 FROM parley_grp g
                   WHERE g.group_id = p.group_id AND g.blocked = 0 AND g.lease_until < :now LIMIT 1) IS NOT NULL
             AND (SELECT m.type FROM parley_ready r
                   STRAIGHT_JOIN parley_message m FORCE INDEX (PRIMARY) ON m.stream_id = r.stream_id
                   WHERE r.group_id = p.group_id LIMIT 1) IS NOT NULL
            THEN (SELECT 1 FROM parley_grp g WHERE g.group_id = p.group_id FOR UPDATE SKIP LOCKED)
            WHEN (SELECT 1 FROM parley_post o
                   WHERE o.post_id = p.group_id AND o.blocked = 0 AND o.lease_until < :now LIMIT 1) IS NOT NULL
            THEN (SELECT 1 FROM parley_post o WHERE o.post_id = p.group_id FOR UPDATE SKIP LOCKED)
       END IS NOT NULL
 ORDER BY p.queue_id, p.urgency, p.since
 LIMIT ?

-- name: Walk
-- Groups in ready order, locked, of streams that do not come after a place. A skipped entry costs
-- least as a row of a join with its conditions inside the CASE. Outside the CASE they would be
-- checked after it, when the lock is taken.
--
-- queue, place, at most
SELECT r.group_id
  FROM parley_ready r FORCE INDEX (place)
 STRAIGHT_JOIN parley_grp g FORCE INDEX (PRIMARY) ON g.group_id = r.group_id
 WHERE r.queue_id = ? AND r.urgency * 10000000000000000 + r.since <= ?
   AND CASE WHEN g.blocked = 0 AND g.lease_until < :now
             AND (SELECT m.type FROM parley_message m FORCE INDEX (PRIMARY)
                   WHERE m.stream_id = r.stream_id LIMIT 1) IS NOT NULL
            THEN (SELECT 1 FROM parley_grp x WHERE x.group_id = r.group_id FOR UPDATE SKIP LOCKED)
       END IS NOT NULL
 ORDER BY r.queue_id, r.urgency, r.since
 LIMIT ?

-- name: Flow
-- The same for a queue without posts and promotions, with the state of the catalog and the queue.
-- If there are posts or promotions, nothing comes back. The conditions on the queue are numbers, so
-- that they are evaluated once and not for each entry.
--
-- queue, queue, queue, queue, at most
SELECT r.group_id,
       (SELECT v.catalog_version FROM parley_meta v WHERE v.id = 1),
       (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = ?)
  FROM parley_ready r FORCE INDEX (place)
 STRAIGHT_JOIN parley_grp g FORCE INDEX (PRIMARY) ON g.group_id = r.group_id
 WHERE r.queue_id = ?
   AND CASE WHEN (SELECT 1 FROM parley_promotion p WHERE p.queue_id = ? LIMIT 1) IS NULL
             AND (SELECT 1 FROM parley_post p WHERE p.queue_id = ? AND p.blocked = 0 LIMIT 1) IS NULL
             AND g.blocked = 0 AND g.lease_until < :now
             AND (SELECT m.type FROM parley_message m FORCE INDEX (PRIMARY)
                   WHERE m.stream_id = r.stream_id LIMIT 1) IS NOT NULL
            THEN (SELECT 1 FROM parley_grp x WHERE x.group_id = r.group_id FOR UPDATE SKIP LOCKED)
       END IS NOT NULL
 ORDER BY r.queue_id, r.urgency, r.since
 LIMIT ?

-- name: Posts
-- Posts in their order, locked, that do not come after a place. A subquery locks here, too, and not
-- the walk: MariaDB would leave posts locked that a walk through an index skips. The subquery
-- checks that the changeable columns of a post are still as the walk read them. If not, the post is
-- skipped like a post that a receiver holds. The conditions on the queue are numbers, as in Flow.
--
-- queue, place, at most
SELECT p.post_id, p.queue_id, p.priority, p.since, p.sent, p.type, p.body, p.headers, p.uniq, :now,
       p.fence, p.lease_until, p.attempts, p.suspicion, p.last_error, p.errors
  FROM parley_post p FORCE INDEX (place)
 WHERE p.queue_id = ? AND p.blocked = 0 AND p.urgency * 10000000000000000 + p.since <= ?
   AND CASE WHEN p.lease_until < :now
            THEN (SELECT 1 FROM parley_post o
                   WHERE o.post_id = p.post_id AND o.fence = p.fence AND o.lease_until = p.lease_until
                     AND o.blocked = 0 AND o.attempts = p.attempts AND o.suspicion = p.suspicion
                     FOR UPDATE SKIP LOCKED)
       END IS NOT NULL
 ORDER BY p.queue_id, p.blocked, p.urgency, p.since
 LIMIT ?

-- name: PostsOnly
-- The same for a queue without streams and promotions, with the state of the catalog and the queue.
-- If there are streams or promotions, nothing comes back.
--
-- queue, queue, queue, queue, at most
SELECT p.post_id, p.queue_id, p.priority, p.since, p.sent, p.type, p.body, p.headers, p.uniq, :now,
       p.fence, p.lease_until, p.attempts, p.suspicion, p.last_error, p.errors,
       (SELECT v.catalog_version FROM parley_meta v WHERE v.id = 1),
       (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = ?)
  FROM parley_post p FORCE INDEX (place)
 WHERE p.queue_id = ? AND p.blocked = 0
   AND CASE WHEN p.lease_until < :now
             AND (SELECT 1 FROM parley_ready r WHERE r.queue_id = ? LIMIT 1) IS NULL
             AND (SELECT 1 FROM parley_promotion o WHERE o.queue_id = ? LIMIT 1) IS NULL
            THEN (SELECT 1 FROM parley_post o
                   WHERE o.post_id = p.post_id AND o.fence = p.fence AND o.lease_until = p.lease_until
                     AND o.blocked = 0 AND o.attempts = p.attempts AND o.suspicion = p.suspicion
                     FOR UPDATE SKIP LOCKED)
       END IS NOT NULL
 ORDER BY p.queue_id, p.blocked, p.urgency, p.since
 LIMIT ?

-- name: ReadyAfter
-- The place of the first stream, or post, that comes after a place.
--
-- queue, place
SELECT r.urgency * 10000000000000000 + r.since
  FROM parley_ready r FORCE INDEX (place)
 WHERE r.queue_id = ? AND r.urgency * 10000000000000000 + r.since > ?
   AND (SELECT 1 FROM parley_grp g
         WHERE g.group_id = r.group_id AND g.blocked = 0 AND g.lease_until < :now LIMIT 1) IS NOT NULL
   AND (SELECT m.type FROM parley_message m FORCE INDEX (PRIMARY)
         WHERE m.stream_id = r.stream_id LIMIT 1) IS NOT NULL
 ORDER BY r.queue_id, r.urgency, r.since LIMIT 1
-- name: PostAfter
SELECT p.urgency * 10000000000000000 + p.since
  FROM parley_post p FORCE INDEX (place)
 WHERE p.queue_id = ? AND p.blocked = 0 AND p.lease_until < :now
   AND p.urgency * 10000000000000000 + p.since > ?
 ORDER BY p.queue_id, p.blocked, p.urgency, p.since LIMIT 1

-- name: ClaimOne
-- The group of a claim for one group or endpoint, if it has something for us to claim.
--
-- group, endpoint, group, queue, queue
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

-- name: LockOne
-- group
SELECT group_id FROM parley_grp
 WHERE group_id IN (?, '') AND blocked = 0 AND lease_until < :now
   FOR UPDATE SKIP LOCKED

-- name: Read
-- The contents of locked groups: their streams, with the data of the endpoint, and the first
-- message of each. This is a new statement, so it sees everything that was committed before the
-- locks. The next number of a stream shows where it ends. The rows are sorted by their reader,
-- because MariaDB sorts a join with bodies in a table on the disk.
--
-- groups
SELECT {ReadColumns}
{ReadTables}
 WHERE g.group_id IN (?)

-- name: ReadTwo
-- The same for one group with the second message of each stream, such as the end of a conversation behind its last
-- message. It is left out if it is long, because a claim of few bytes may not want it.
--
-- group
SELECT {ReadColumns},
       n.seq, n.message_id, n.kind, n.type, n.body, n.headers, n.since, n.uniq, h.attempts, h.suspicion, h.last_error,
       h.errors
{ReadTables}
  LEFT JOIN parley_message n FORCE INDEX (PRIMARY)
    ON n.stream_id = m.stream_id AND n.seq = m.seq + 1
   AND coalesce(octet_length(n.body), 0) + coalesce(octet_length(n.headers), 0) < 4096
  LEFT JOIN parley_failure h ON h.message_id = n.message_id
 WHERE g.group_id IN (?)

-- name: ReadColumns
g.group_id, g.name, g.fence, g.lease_until, g.blocked, g.lease_until > :now,
       o.level, o.version, o.sticky,
       r.stream_id, s.kind, r.priority, s.endpoint, e.group_id, e.conversation, e.initiator, e.service,
       e.far, e.contract, e.closed_at, s.next_seq,
       m.seq, m.message_id, m.kind, m.type, m.body, m.headers, m.since, m.uniq, f.attempts, f.suspicion, f.last_error, f.errors

-- name: ReadTables
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

-- name: Messages
-- Further messages: those of streams with numbers from one to another.
--
-- streams and numbers
SELECT m.stream_id, m.seq, m.message_id, m.kind, m.type, m.body, m.headers, m.since, m.uniq,
       f.attempts, f.suspicion, f.last_error, f.errors
  FROM parley_message m FORCE INDEX (PRIMARY)
  LEFT JOIN parley_failure f ON f.message_id = m.message_id
 WHERE ?
 ORDER BY m.stream_id, m.seq

-- name: LeaseGroups
-- Locked groups and posts become held by lease, or lose the token of an expired lease.
UPDATE parley_grp
   SET fence = fence + 1, lease_until = :now + ?, held_since = :now, owner = ?
 WHERE group_id IN (?)
-- name: UnleaseGroups
UPDATE parley_grp SET fence = fence + 1, lease_until = 0, owner = '' WHERE group_id IN (?)
-- name: LeaseLocked
UPDATE parley_post
   SET suspicion = suspicion + CASE WHEN lease_until <> 0 THEN 1 ELSE 0 END, -- its receiver died
       fence = fence + 1,
       lease_until = CASE WHEN ? > 0 THEN :now + ? ELSE 0 END,
       held_since = CASE WHEN ? > 0 THEN :now ELSE 0 END,
       owner = ?
 WHERE post_id IN (?)
-- name: Newest
-- The last entries of the ready orders of each queue, one for each priority. Without the whole index in ORDER BY, MySQL
-- reads all entries of a priority. NULL, also of a subquery that was interrupted, says that nothing is new: then the
-- message is found by polling.
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
