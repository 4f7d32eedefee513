-- name: PostReclaim
{PostReclaimWait}
-- name: JoinPosts
INSERT INTO parley_post (post_id, queue_id, priority, type, body, headers, uniq, since)
SELECT post_id, queue_id, priority, type, body, headers, uniq, :now
  FROM parley_delayed
 WHERE post_id IN (SELECT unhex(value) FROM json_each(?))
 ORDER BY due, post_id
-- name: JoinDelete
DELETE FROM parley_delayed WHERE post_id IN (SELECT unhex(value) FROM json_each(?))
-- name: AdvanceKey
-- The next number of a key that has been used before.
--
-- queue, key, rank, catalog version
UPDATE parley_stream SET next_seq = next_seq + 1, priority = ?3, touched = :now
 WHERE stream_id = (SELECT k.stream_id FROM parley_key k WHERE k.queue_id = ?1 AND k.name = ?2)
   AND (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = ?1) = 1
   AND (SELECT v.catalog_version FROM parley_meta v) = ?4
RETURNING stream_id, next_seq - 1, group_id
-- name: NewKey
-- queue, key, id, catalog version
INSERT INTO parley_key (queue_id, name, stream_id)
SELECT ?1, ?2, ?3
 WHERE (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = ?1) = 1
   AND (SELECT v.catalog_version FROM parley_meta v) = ?4
ON CONFLICT DO NOTHING
-- name: PostsFree
-- The plus sign keeps the planner from the index of the queue, along which it would read all of it.
SELECT post_id, uniq FROM parley_post WHERE post_id IN ({{50 ?}}) AND +queue_id = ? AND lease_until < :now
-- name: DelayedFree
SELECT post_id, uniq FROM parley_delayed WHERE post_id IN ({{50 ?}}) AND +queue_id = ?
