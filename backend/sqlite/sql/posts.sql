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
