-- name: CancelDelete
DELETE FROM parley_cancel WHERE id = $1 AND request = $2

-- name: CancelInsert
INSERT INTO parley_cancel (id, request, queue_id, since) VALUES ($1, $2, $3, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)

-- name: CancelList
SELECT id, request, queue_id, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - since FROM parley_cancel

-- name: CancelPlan
SELECT s.name FROM parley_task t
  JOIN parley_schedule s ON s.schedule_id = t.schedule_id
 WHERE t.task_id = $1 AND t.live = 1

-- name: PendingDelayed
SELECT post_id, name, type FROM parley_delayed
 WHERE queue_id = $1 AND post_id > $2
 ORDER BY post_id
 LIMIT $3

-- name: PendingDelayedOfKey
SELECT post_id, name, type FROM parley_delayed
 WHERE queue_id = $1 AND name = $2 AND post_id > $3
 ORDER BY post_id
 LIMIT $4

-- name: PendingKeyed
SELECT m.message_id, k.name, m.type
  FROM parley_key k
 CROSS JOIN LATERAL (SELECT x.message_id, x.type FROM parley_message x
                      WHERE x.stream_id = k.stream_id AND x.kind + 0 = 4 AND x.message_id > $2
                     OFFSET 0) m
 WHERE k.queue_id = $1
 ORDER BY m.message_id
 LIMIT $3

-- name: PendingOfKey
SELECT m.message_id, k.name, m.type
  FROM parley_key k
  JOIN parley_message m ON m.stream_id = k.stream_id
 WHERE k.queue_id = $1 AND k.name = $2 AND m.message_id > $3
 ORDER BY m.message_id
 LIMIT $4

-- name: PendingPosts
SELECT post_id, '', type FROM parley_post
 WHERE queue_id = $1 AND post_id > $2
 ORDER BY post_id
 LIMIT $3
