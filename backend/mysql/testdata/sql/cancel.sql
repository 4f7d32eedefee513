-- name: CancelDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_cancel WHERE id = ? AND request = ?

-- name: CancelInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_cancel (id, request, queue_id, since) VALUES (?, ?, ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)))

-- name: CancelList
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT id, request, queue_id, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - since FROM parley_cancel

-- name: CancelPlan
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT s.name FROM parley_task t
  JOIN parley_schedule s ON s.schedule_id = t.schedule_id
 WHERE t.task_id = ? AND t.live = 1

-- name: PendingDelayed
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT post_id, name, type FROM parley_delayed
 WHERE queue_id = ? AND post_id > ?
 ORDER BY post_id
 LIMIT ?

-- name: PendingDelayedOfKey
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT post_id, name, type FROM parley_delayed
 WHERE queue_id = ? AND name = ? AND post_id > ?
 ORDER BY post_id
 LIMIT ?

-- name: PendingKeyed
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT m.message_id, k.name, m.type
  FROM parley_message m
  JOIN parley_key k ON k.stream_id = m.stream_id
 WHERE m.kind = 4 AND k.queue_id = ? AND m.message_id > ?
 ORDER BY m.message_id
 LIMIT ?

-- name: PendingOfKey
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT m.message_id, k.name, m.type
  FROM parley_key k
  JOIN parley_message m ON m.stream_id = k.stream_id
 WHERE k.queue_id = ? AND k.name = ? AND m.message_id > ?
 ORDER BY m.message_id
 LIMIT ?

-- name: PendingPosts
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT post_id, '', type FROM parley_post
 WHERE queue_id = ? AND post_id > ?
 ORDER BY post_id
 LIMIT ?
