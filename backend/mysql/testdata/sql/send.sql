-- name: Advance
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_stream FORCE INDEX (PRIMARY)
   SET next_seq = LAST_INSERT_ID(next_seq + 1), touched = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
 WHERE stream_id IN (?, '') AND kind = 2 AND closed = 0 AND held = 0 AND queue_id IS NOT NULL

-- name: Append
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since) VALUES ?

-- name: Insert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since)
SELECT s.stream_id, ?, ?, ?, ?, ?, ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + 0 * LAST_INSERT_ID(s.queue_id)
  FROM parley_stream s
 STRAIGHT_JOIN parley_queue q ON q.queue_id = s.queue_id
 STRAIGHT_JOIN parley_meta v ON v.id = 1
 WHERE s.stream_id = ? AND q.enabled = 1 AND v.catalog_version = ?
   AND (SELECT 1 FROM parley_closing c WHERE c.handle = s.stream_id LIMIT 1) IS NULL

-- name: JoinDelete
/*M! SET STATEMENT sql_safe_updates = 0, max_statement_time = 0 FOR */
DELETE x FROM (?) k STRAIGHT_JOIN parley_delayed x FORCE INDEX (PRIMARY)
 WHERE x.post_id = k.post_id

-- name: JoinLock
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT post_id FROM parley_delayed FORCE INDEX (PRIMARY)
 WHERE post_id IN (?) ORDER BY post_id
   FOR UPDATE SKIP LOCKED

-- name: JoinPosts
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_post (post_id, queue_id, priority, type, body, headers, uniq, since)
SELECT d.post_id, d.queue_id, d.priority, d.type, d.body, d.headers, d.uniq, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
  FROM (?) k STRAIGHT_JOIN parley_delayed d FORCE INDEX (PRIMARY)
 WHERE d.post_id = k.post_id

-- name: Keys
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT queue_id, name, stream_id FROM parley_key WHERE ?

-- name: Mark
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT IGNORE INTO parley_ready (queue_id, group_id, stream_id, priority, since) VALUES ?

-- name: NewGroups
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_grp (group_id, queue_id, service, name) VALUES ?

-- name: NewKey
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT IGNORE INTO parley_key (queue_id, name, stream_id)
SELECT ?, ?, ?
  FROM DUAL
 WHERE (SELECT 1 FROM parley_key k WHERE k.queue_id = ? AND k.name = ? FOR UPDATE) IS NULL

-- name: NewKeys
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT IGNORE INTO parley_key (queue_id, name, stream_id) VALUES ?

-- name: NewKeysFree
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT IGNORE INTO parley_key (queue_id, name, stream_id)
SELECT k.queue_id, k.name, k.stream_id
  FROM (?) k
 WHERE COALESCE((SELECT count(*) FROM parley_key x FORCE INDEX (PRIMARY)
                  WHERE x.stream_id = '' AND ? FOR UPDATE NOWAIT), 0) = 0

-- name: NewStreams
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, priority, next_seq, closed, held, touched) VALUES ?

-- name: Next
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_stream FORCE INDEX (PRIMARY)
   SET next_seq = ?, priority = ?, touched = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
 WHERE stream_id IN (?)

-- name: Place
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT IGNORE INTO parley_ready (queue_id, group_id, stream_id, priority, since)
SELECT s.queue_id, s.group_id, s.stream_id, s.priority, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
  FROM parley_stream s WHERE s.stream_id = ?

-- name: PlaceSent
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT IGNORE INTO parley_ready (queue_id, group_id, stream_id, priority, since)
SELECT s.queue_id, s.group_id, s.stream_id, s.priority, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
  FROM parley_stream s WHERE s.stream_id = ? AND ROW_COUNT() > 0

-- name: PostMany
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_post (post_id, queue_id, priority, type, body, headers, since) VALUES ?

-- name: States[0]
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT s.stream_id, s.kind, s.group_id, s.queue_id, s.endpoint, s.priority, s.next_seq, s.closed,
       s.held,
       (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = s.queue_id),
       (SELECT count(*) FROM parley_closing c WHERE c.handle = s.stream_id),
       (SELECT v.catalog_version FROM parley_meta v WHERE v.id = 1)
  FROM parley_stream s FORCE INDEX (PRIMARY)
 WHERE s.stream_id IN (?)
 ORDER BY s.stream_id
   FOR UPDATE

-- name: States[1]
-- 19323a019a67f01c
