-- name: PostExtend
UPDATE parley_post SET lease_until = greatest(:now + ?, lease_until + 1)
 WHERE post_id IN (?, '') AND fence = ? AND lease_until <> 0

-- name: AdvanceKey
-- A post with a key that has been used before is three statements, as a send is. Here the key is looked up
-- without a lock.
--
-- rank, queue, key
UPDATE parley_stream FORCE INDEX (PRIMARY)
   SET next_seq = LAST_INSERT_ID(next_seq + 1), priority = ?, touched = :now
 WHERE stream_id = (SELECT k.stream_id FROM parley_key k WHERE k.queue_id = ? AND k.name = ?)

-- name: InsertKeyed
-- number, message id, kind, type, body, headers, queue, key, catalog version
INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since)
SELECT k.stream_id, ?, ?, ?, ?, ?, ?, :now
  FROM parley_key k
 STRAIGHT_JOIN parley_queue q ON q.queue_id = k.queue_id
 STRAIGHT_JOIN parley_meta v ON v.id = 1
 WHERE k.queue_id = ? AND k.name = ? AND q.enabled = 1 AND v.catalog_version = ?

-- name: PlaceKey
-- queue, key
INSERT IGNORE INTO parley_ready (queue_id, group_id, stream_id, priority, since)
SELECT s.queue_id, s.group_id, s.stream_id, s.priority, :now
  FROM parley_key k
 STRAIGHT_JOIN parley_stream s ON s.stream_id = k.stream_id
 WHERE k.queue_id = ? AND k.name = ?

-- name: PostsFree
SELECT post_id, uniq FROM parley_post FORCE INDEX (PRIMARY)
 WHERE post_id IN ({{50 ?}}) AND queue_id = ? AND lease_until < :now
   FOR UPDATE SKIP LOCKED
-- name: DelayedFree
SELECT post_id, uniq FROM parley_delayed FORCE INDEX (PRIMARY)
 WHERE post_id IN ({{50 ?}}) AND queue_id = ?
   FOR UPDATE SKIP LOCKED
-- name: KeyedFind
SELECT m.message_id, m.stream_id, m.seq, m.uniq, s.group_id, CASE WHEN f.message_id IS NULL THEN 0 ELSE 1 END
  FROM parley_message m FORCE INDEX (message_id)
 STRAIGHT_JOIN parley_stream s FORCE INDEX (PRIMARY) ON s.stream_id = m.stream_id
  LEFT JOIN parley_failure f FORCE INDEX (PRIMARY) ON f.message_id = m.message_id
 WHERE m.message_id IN ({{50 ?}}) AND m.kind = 4 AND s.queue_id = ?
