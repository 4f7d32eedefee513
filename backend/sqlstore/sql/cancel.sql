-- name: CancelInsert
-- Requests to cancel what others have in hand. Each is a row with a key of its own, which is added and
-- removed and never changed. So no request waits for another one.
INSERT INTO parley_cancel (id, request, queue_id, since) VALUES (?, ?, ?, :now)
-- name: CancelDelete
DELETE FROM parley_cancel WHERE id = ? AND request = ?
-- name: CancelList
SELECT id, request, queue_id, :now - since FROM parley_cancel {read skip}
-- name: CancelPlan
SELECT s.name FROM parley_task t {read dirty}
  JOIN parley_schedule s {read dirty} ON s.schedule_id = t.schedule_id
 WHERE t.task_id = ? AND t.live = 1
-- name: PendingPosts
-- What a page has may be in a receiver's hands, so the lists pass over no locked row. Whether a post is
-- still there, who cancels it finds out.
SELECT post_id, '', type FROM parley_post {read dirty}
 WHERE queue_id = ? AND post_id > ?
 ORDER BY post_id
 {limit ?}
-- name: PendingDelayed
SELECT post_id, name, type FROM parley_delayed {read dirty}
 WHERE queue_id = ? AND post_id > ?
 ORDER BY post_id
 {limit ?}
-- name: PendingDelayedOfKey
SELECT post_id, name, type FROM parley_delayed {read dirty}
 WHERE queue_id = ? AND name = ? AND post_id > ?
 ORDER BY post_id
 {limit ?}
-- name: PendingKeyed
SELECT m.message_id, k.name, m.type
  FROM parley_message m {read dirty}
  JOIN parley_key k {read dirty} ON k.stream_id = m.stream_id
 WHERE m.kind = 4 AND k.queue_id = ? AND m.message_id > ?
 ORDER BY m.message_id
 {limit ?}
-- name: PendingOfKey
SELECT m.message_id, k.name, m.type
  FROM parley_key k {read dirty}
  JOIN parley_message m {read dirty} ON m.stream_id = k.stream_id
 WHERE k.queue_id = ? AND k.name = ?{exact k.} AND m.message_id > ?
 ORDER BY m.message_id
 {limit ?}
