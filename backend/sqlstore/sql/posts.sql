-- name: KeyRead
-- Keys. Of two who make one at once the second does not see it, and waits in the
-- insert.
SELECT stream_id FROM parley_key {read skip} WHERE queue_id = ? AND name = ?{exact}
-- name: KeyInsert
{new} INTO parley_key (queue_id, name{bytes bytes}, stream_id) VALUES (?, ?{bytes ?}, ?) {otherwise}
-- name: KeyDelete
DELETE FROM parley_key WHERE queue_id = ? AND name = ?{exact}
-- name: PostTry
-- Posts without key: the row is group, stream and message in one, so its lock is
-- the claim's.
SELECT 1 FROM parley_post {lock skip} WHERE post_id = ?
-- name: PostFree
SELECT 1 FROM parley_post {lock skip} WHERE {key post_id} AND lease_until < :now
-- name: PostsFree
-- The same for fifty of a queue.
--
-- posts, queue
SELECT post_id, uniq FROM parley_post {lock skip}
 WHERE post_id IN ({{50 ?}}) AND queue_id = ? AND lease_until < :now
-- name: PostOne
INSERT INTO parley_post (post_id, queue_id, priority, since, type, body, headers)
SELECT ?, q.queue_id, ?, :now, ?, {convert ? varbinary(max)}, {convert ? nvarchar(max)}
  FROM parley_queue q {read wait}
 CROSS JOIN parley_meta v {read wait}
 WHERE q.queue_id = ? AND q.enabled = 1 AND v.catalog_version = ?
-- name: PostInsert
INSERT INTO parley_post (post_id, queue_id, priority, since, type, body, headers, uniq)
VALUES (?, ?, ?, :now, ?, ?, ?, ?)
-- name: PostRead
SELECT post_id, queue_id, priority, since, sent, type, body, headers, uniq, attempts, suspicion,
       last_error, errors, fence, lease_until, blocked, :now
  FROM parley_post {read dirty} WHERE post_id = ?
-- name: PostLease
UPDATE parley_post
   SET fence = fence + 1, lease_until = :now + ?, held_since = :now, owner = ?
 WHERE post_id = ?
-- name: PostUnlease
UPDATE parley_post SET fence = fence + 1, lease_until = 0, owner = '' WHERE post_id = ?
-- name: PostReclaimWait
UPDATE parley_post SET lease_until = 0, owner = ''
 WHERE post_id = ? AND fence = ? AND lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v {read wait}) <= :newest
-- name: PostExtend
UPDATE parley_post SET lease_until = :now + ?
 WHERE post_id = ? AND fence = ? AND lease_until <> 0
-- name: PostBlock
UPDATE parley_post
   SET blocked = ?, blocked_since = :now, blocked_until = :now + ?, reason = ?
 WHERE post_id = ?
-- name: PostUnblock
UPDATE parley_post SET blocked = 0, blocked_until = 0, reason = '' WHERE post_id = ?
-- name: PostDue
-- Its place is that of a post that is sent when the deferral ends. MySQL assigns from left to right.
UPDATE parley_post SET sent = coalesce(sent, since), since = blocked_until, blocked = 0, blocked_until = 0, reason = ''
 WHERE post_id = ? AND blocked = 1 AND blocked_until <= :now
-- name: PostFail
UPDATE parley_post SET attempts = ?, suspicion = ?, last_error = ?, errors = {made ?} WHERE post_id = ?
-- name: PostDelete
DELETE FROM parley_post WHERE post_id = ?
-- name: DelayedTry
SELECT 1 FROM parley_delayed {lock skip} WHERE post_id = ?
-- name: DelayedFree
-- The same for fifty of a queue.
--
-- posts, queue
SELECT post_id, uniq FROM parley_delayed {lock skip} WHERE post_id IN ({{50 ?}}) AND queue_id = ?
-- name: DelayedInsert
INSERT INTO parley_delayed (post_id, queue_id, name, priority, type, body, headers, uniq, begun, due)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, :now, :now + ?)
-- name: DelayedRead
SELECT queue_id, name, priority, type, body, headers, uniq, due, :now
  FROM parley_delayed {read dirty} WHERE post_id = ?
-- name: DelayedDelete
DELETE FROM parley_delayed WHERE post_id = ?
-- name: UniqueRead
SELECT post_id FROM parley_uniq {read skip} WHERE queue_id = ? AND value = ?{exact}
-- name: UniqueInsert
{new} INTO parley_uniq (queue_id, value{bytes bytes}, post_id) VALUES (?, ?{bytes ?}, ?) {otherwise}
-- name: UniqueDelete
DELETE FROM parley_uniq WHERE queue_id = ? AND value = ?{exact}
-- name: ProcessedInsert
INSERT INTO parley_processed (post_id, queue_id, name, type, body, headers, keep_until)
VALUES (?, ?, ?, ?, ?, ?, :now + ?)
