-- name: Advance
-- A send is three statements. The first takes the guard, and returns the message's number as the
-- LAST_INSERT_ID. Without the hint MariaDB may find the row by the index held. Then it locks that
-- index entry first, which others lock last.
--
-- from
UPDATE parley_stream FORCE INDEX (PRIMARY)
   SET next_seq = LAST_INSERT_ID(next_seq + 1), touched = :now
 WHERE stream_id IN (?, '') AND kind = 2 AND closed = 0 AND held = 0 AND queue_id IS NOT NULL

-- name: Insert
-- The second inserts the message unless something refuses it, and returns the queue as the
-- LAST_INSERT_ID.
--
-- number, message id, kind, type, body, headers, from, catalog version
INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since)
SELECT s.stream_id, ?, ?, ?, ?, ?, ?, :now + 0 * LAST_INSERT_ID(s.queue_id)
  FROM parley_stream s
 STRAIGHT_JOIN parley_queue q ON q.queue_id = s.queue_id
 STRAIGHT_JOIN parley_meta v ON v.id = 1
 WHERE s.stream_id = ? AND q.enabled = 1 AND v.catalog_version = ?
   AND (SELECT 1 FROM parley_closing c WHERE c.handle = s.stream_id LIMIT 1) IS NULL

-- name: Place
-- The third puts the stream into the order unless it is there.
--
-- from
INSERT IGNORE INTO parley_ready (queue_id, group_id, stream_id, priority, since)
SELECT s.queue_id, s.group_id, s.stream_id, s.priority, :now
  FROM parley_stream s WHERE s.stream_id = ?

-- name: PlaceSent
-- Place in the same text as Insert, if that has sent something.
--
-- from
INSERT IGNORE INTO parley_ready (queue_id, group_id, stream_id, priority, since)
SELECT s.queue_id, s.group_id, s.stream_id, s.priority, :now
  FROM parley_stream s WHERE s.stream_id = ? AND ROW_COUNT() > 0

-- name: States
-- axis: locked
-- The guards of a batch, locked in the order of their ids, and what else a sender depends on. The
-- columns of the stream are those of the locked row. The rest is as of the statement's beginning,
-- which is recent enough: the caller cannot know of later changes.
--
-- streams
SELECT s.stream_id, s.kind, s.group_id, s.queue_id, s.endpoint, s.priority, s.next_seq, s.closed,
       s.held,
       (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = s.queue_id),
       (SELECT count(*) FROM parley_closing c WHERE c.handle = s.stream_id),
       (SELECT v.catalog_version FROM parley_meta v WHERE v.id = 1)
  FROM parley_stream s FORCE INDEX (PRIMARY)
 WHERE s.stream_id IN (?)
 ORDER BY s.stream_id
   FOR UPDATE :locked

-- name: Next
-- Streams whose guards are ours get their next numbers and their ranks. Without the hint a small
-- table is read completely, and at REPEATABLE READ locked.
--
-- numbers by stream, ranks by stream, streams
UPDATE parley_stream FORCE INDEX (PRIMARY)
   SET next_seq = ?, priority = ?, touched = :now
 WHERE stream_id IN (?)

-- name: Append
-- stream, number, id, kind, type, body, headers, time
INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since) VALUES ?

-- name: Mark
-- queue, group, stream, priority, time
INSERT IGNORE INTO parley_ready (queue_id, group_id, stream_id, priority, since) VALUES ?

-- name: PostMany
-- id, queue, rank, type, body, headers, time
INSERT INTO parley_post (post_id, queue_id, priority, type, body, headers, since) VALUES ?

-- name: NewKey
-- A new key. If two transactions make it at once, the second waits, and inserts nothing. It waits
-- in the subquery. In an INSERT it would get a lock on the gap if the first rolls back, and two
-- such transactions would deadlock. From 8.0.17 on MySQL turns a NOT EXISTS, but not this form,
-- into a join, which may read whole tables.
--
-- queue, name, id, queue, name
INSERT IGNORE INTO parley_key (queue_id, name, stream_id)
SELECT ?, ?, ?
  FROM DUAL
 WHERE (SELECT 1 FROM parley_key k WHERE k.queue_id = ? AND k.name = ? FOR UPDATE) IS NULL

-- name: NewKeysFree
-- Several keys at once, if no other transaction is making one of them. Otherwise it fails without waiting. The
-- subquery meets the locks on uncommitted rows. It counts no row, because no stream has that id. So it keeps no
-- lock on existing keys, for which others would wait in another order. A NULL of an interrupted statement only lets
-- the INSERT wait.
--
-- keys, keys
INSERT IGNORE INTO parley_key (queue_id, name, stream_id)
SELECT k.queue_id, k.name, k.stream_id
  FROM (?) k
 WHERE COALESCE((SELECT count(*) FROM parley_key x FORCE INDEX (PRIMARY)
                  WHERE x.stream_id = '' AND ? FOR UPDATE NOWAIT), 0) = 0

-- name: NewKeys
-- New keys, in the order in which all transactions make them, for a transaction that may be at REPEATABLE READ. At that
-- level a locking read of a missing row locks the gap at once. So the wait is in the INSERT.
--
-- queue, name, id
INSERT IGNORE INTO parley_key (queue_id, name, stream_id) VALUES ?

-- name: NewGroups
-- id, queue, service, name
INSERT INTO parley_grp (group_id, queue_id, service, name) VALUES ?

-- name: NewStreams
-- id, kind, group, queue, priority, number, closed, held, time
INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, priority, next_seq, closed, held, touched) VALUES ?

-- name: Keys
-- The streams of keys.
--
-- queues and names
SELECT queue_id, name, stream_id FROM parley_key WHERE ?

-- name: JoinLock
-- Delayed posts that can be locked at once move to their queues, and leave their table.
--
-- ids
SELECT post_id FROM parley_delayed FORCE INDEX (PRIMARY)
 WHERE post_id IN (?) ORDER BY post_id
   FOR UPDATE SKIP LOCKED

-- name: JoinPosts
-- ids
INSERT INTO parley_post (post_id, queue_id, priority, type, body, headers, uniq, since)
SELECT d.post_id, d.queue_id, d.priority, d.type, d.body, d.headers, d.uniq, :now
  FROM (?) k STRAIGHT_JOIN parley_delayed d FORCE INDEX (PRIMARY)
 WHERE d.post_id = k.post_id

-- name: JoinDelete
-- ids
{safely}
DELETE x FROM (?) k STRAIGHT_JOIN parley_delayed x FORCE INDEX (PRIMARY)
 WHERE x.post_id = k.post_id
