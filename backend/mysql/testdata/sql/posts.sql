-- name: AdvanceKey
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_stream FORCE INDEX (PRIMARY)
   SET next_seq = LAST_INSERT_ID(next_seq + 1), priority = ?, touched = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
 WHERE stream_id = (SELECT k.stream_id FROM parley_key k WHERE k.queue_id = ? AND k.name = ?)

-- name: DelayedDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_delayed WHERE post_id = ?

-- name: DelayedFree
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT post_id, uniq FROM parley_delayed FORCE INDEX (PRIMARY)
 WHERE post_id IN (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) AND queue_id = ?
   FOR UPDATE SKIP LOCKED

-- name: DelayedInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_delayed (post_id, queue_id, name, priority, type, body, headers, uniq, begun, due)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?)

-- name: DelayedRead
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT queue_id, name, priority, type, body, headers, uniq, due, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
  FROM parley_delayed WHERE post_id = ?

-- name: DelayedTry
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT 1 FROM parley_delayed WHERE post_id = ?
FOR UPDATE SKIP LOCKED

-- name: InsertKeyed
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since)
SELECT k.stream_id, ?, ?, ?, ?, ?, ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
  FROM parley_key k
 STRAIGHT_JOIN parley_queue q ON q.queue_id = k.queue_id
 STRAIGHT_JOIN parley_meta v ON v.id = 1
 WHERE k.queue_id = ? AND k.name = ? AND q.enabled = 1 AND v.catalog_version = ?

-- name: KeyDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_key WHERE queue_id = ? AND name = ?

-- name: KeyInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT IGNORE INTO parley_key (queue_id, name, stream_id) VALUES (?, ?, ?)

-- name: KeyRead
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT stream_id FROM parley_key WHERE queue_id = ? AND name = ?

-- name: KeyedFind
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT m.message_id, m.stream_id, m.seq, m.uniq, s.group_id, CASE WHEN f.message_id IS NULL THEN 0 ELSE 1 END
  FROM parley_message m FORCE INDEX (message_id)
 STRAIGHT_JOIN parley_stream s FORCE INDEX (PRIMARY) ON s.stream_id = m.stream_id
  LEFT JOIN parley_failure f FORCE INDEX (PRIMARY) ON f.message_id = m.message_id
 WHERE m.message_id IN (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) AND m.kind = 4 AND s.queue_id = ?

-- name: PlaceKey
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT IGNORE INTO parley_ready (queue_id, group_id, stream_id, priority, since)
SELECT s.queue_id, s.group_id, s.stream_id, s.priority, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
  FROM parley_key k
 STRAIGHT_JOIN parley_stream s ON s.stream_id = k.stream_id
 WHERE k.queue_id = ? AND k.name = ?

-- name: PostBlock
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_post
   SET blocked = ?, blocked_since = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), blocked_until = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?, reason = ?
 WHERE post_id = ?

-- name: PostDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_post WHERE post_id = ?

-- name: PostDue
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_post SET sent = coalesce(sent, since), since = blocked_until, blocked = 0, blocked_until = 0, reason = ''
 WHERE post_id = ? AND blocked = 1 AND blocked_until <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))

-- name: PostExtend
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_post SET lease_until = greatest(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?, lease_until + 1)
 WHERE post_id IN (?, '') AND fence = ? AND lease_until <> 0

-- name: PostFail
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_post SET attempts = ?, suspicion = ?, last_error = ?, errors = replace(?, '"at":null', concat('"at":', TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)))) WHERE post_id = ?

-- name: PostFree
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT 1 FROM parley_post WHERE post_id IN (?, '') AND lease_until < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
FOR UPDATE SKIP LOCKED

-- name: PostInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_post (post_id, queue_id, priority, since, type, body, headers, uniq)
VALUES (?, ?, ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), ?, ?, ?, ?)

-- name: PostLease
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_post
   SET fence = fence + 1, lease_until = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?, held_since = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), owner = ?
 WHERE post_id = ?

-- name: PostOne
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_post (post_id, queue_id, priority, since, type, body, headers)
SELECT ?, q.queue_id, ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), ?, ?, ?
  FROM parley_queue q
 CROSS JOIN parley_meta v
 WHERE q.queue_id = ? AND q.enabled = 1 AND v.catalog_version = ?

-- name: PostRead
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT post_id, queue_id, priority, since, sent, type, body, headers, uniq, attempts, suspicion,
       last_error, errors, fence, lease_until, blocked, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
  FROM parley_post WHERE post_id = ?

-- name: PostReclaimWait
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_post SET lease_until = 0, owner = ''
 WHERE post_id = ? AND fence = ? AND lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v) <= 12

-- name: PostTry
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT 1 FROM parley_post WHERE post_id = ?
FOR UPDATE SKIP LOCKED

-- name: PostUnblock
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_post SET blocked = 0, blocked_until = 0, reason = '' WHERE post_id = ?

-- name: PostUnlease
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_post SET fence = fence + 1, lease_until = 0, owner = '' WHERE post_id = ?

-- name: PostsFree
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT post_id, uniq FROM parley_post FORCE INDEX (PRIMARY)
 WHERE post_id IN (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) AND queue_id = ? AND lease_until < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
   FOR UPDATE SKIP LOCKED

-- name: ProcessedInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_processed (post_id, queue_id, name, type, body, headers, keep_until)
VALUES (?, ?, ?, ?, ?, ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?)

-- name: UniqueDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_uniq WHERE queue_id = ? AND value = ?

-- name: UniqueInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT IGNORE INTO parley_uniq (queue_id, value, post_id) VALUES (?, ?, ?)

-- name: UniqueRead
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT post_id FROM parley_uniq WHERE queue_id = ? AND value = ?
