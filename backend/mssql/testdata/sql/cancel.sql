-- name: CancelDelete
DELETE FROM parley_cancel WHERE id = @p1 AND request = @p2

-- name: CancelInsert
INSERT INTO parley_cancel (id, request, queue_id, since) VALUES (@p1, @p2, @p3, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()))

-- name: CancelList
SELECT id, request, queue_id, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) - since FROM parley_cancel WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)

-- name: CancelPlan
SELECT s.name FROM parley_task t WITH (READUNCOMMITTED)
  JOIN parley_schedule s WITH (READUNCOMMITTED) ON s.schedule_id = t.schedule_id
 WHERE t.task_id = @p1 AND t.live = 1

-- name: PendingDelayed
SELECT post_id, name, type FROM parley_delayed WITH (READUNCOMMITTED)
 WHERE queue_id = @p1 AND post_id > @p2
 ORDER BY post_id
 OFFSET 0 ROWS FETCH NEXT @p3 ROWS ONLY

-- name: PendingDelayedOfKey
SELECT post_id, name, type FROM parley_delayed WITH (READUNCOMMITTED)
 WHERE queue_id = @p1 AND name = @p2 AND post_id > @p3
 ORDER BY post_id
 OFFSET 0 ROWS FETCH NEXT @p4 ROWS ONLY

-- name: PendingKeyed
SELECT m.message_id, k.name, m.type
  FROM parley_message m WITH (READUNCOMMITTED)
  JOIN parley_key k WITH (READUNCOMMITTED) ON k.stream_id = m.stream_id
 WHERE m.kind = 4 AND k.queue_id = @p1 AND m.message_id > @p2
 ORDER BY m.message_id
 OFFSET 0 ROWS FETCH NEXT @p3 ROWS ONLY

-- name: PendingOfKey
SELECT m.message_id, k.name, m.type
  FROM parley_key k WITH (READUNCOMMITTED)
  JOIN parley_message m WITH (READUNCOMMITTED) ON m.stream_id = k.stream_id
 WHERE k.queue_id = @p1 AND k.name = @p2 AND k.bytes = DATALENGTH(@p2) AND m.message_id > @p3
 ORDER BY m.message_id
 OFFSET 0 ROWS FETCH NEXT @p4 ROWS ONLY

-- name: PendingPosts
SELECT post_id, '', type FROM parley_post WITH (READUNCOMMITTED)
 WHERE queue_id = @p1 AND post_id > @p2
 ORDER BY post_id
 OFFSET 0 ROWS FETCH NEXT @p3 ROWS ONLY
