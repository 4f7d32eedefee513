-- name: AdvanceKey
UPDATE parley_stream SET next_seq = next_seq + 1, priority = +?3, touched = ?5
 WHERE stream_id = (SELECT k.stream_id FROM parley_key k WHERE k.queue_id = +?1 AND k.name = ?2)
   AND (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = +?1) = 1
   AND (SELECT v.catalog_version FROM parley_meta v) = ?4
RETURNING stream_id, next_seq - 1, group_id

-- name: DelayedDelete
DELETE FROM parley_delayed WHERE post_id = ?1

-- name: DelayedFree
SELECT post_id, uniq FROM parley_delayed WHERE post_id IN (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38, ?39, ?40, ?41, ?42, ?43, ?44, ?45, ?46, ?47, ?48, ?49, ?50) AND +queue_id = +?51

-- name: DelayedInsert
INSERT INTO parley_delayed (post_id, queue_id, name, priority, type, body, headers, uniq, begun, due)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?10, ?10 + ?9)

-- name: DelayedRead
SELECT queue_id, name, priority, type, body, headers, uniq, due, ?2
  FROM parley_delayed WHERE post_id = ?1

-- name: JoinDelete
DELETE FROM parley_delayed WHERE post_id IN (SELECT unhex(value) FROM json_each(?1))

-- name: JoinPosts
INSERT INTO parley_post (post_id, queue_id, priority, type, body, headers, uniq, since)
SELECT post_id, queue_id, priority, type, body, headers, uniq, ?2
  FROM parley_delayed
 WHERE post_id IN (SELECT unhex(value) FROM json_each(?1))
 ORDER BY due, post_id

-- name: KeyDelete
DELETE FROM parley_key WHERE queue_id = +?1 AND name = ?2

-- name: KeyInsert
INSERT INTO parley_key (queue_id, name, stream_id) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING

-- name: KeyRead
SELECT stream_id FROM parley_key WHERE queue_id = +?1 AND name = ?2

-- name: NewKey
INSERT INTO parley_key (queue_id, name, stream_id)
SELECT ?1, ?2, ?3
 WHERE (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = +?1) = 1
   AND (SELECT v.catalog_version FROM parley_meta v) = ?4
ON CONFLICT DO NOTHING

-- name: PostBlock
UPDATE parley_post
   SET blocked = +?1, blocked_since = ?5, blocked_until = ?5 + ?2, reason = ?3
 WHERE post_id = ?4

-- name: PostDelete
DELETE FROM parley_post WHERE post_id = ?1

-- name: PostDue
UPDATE parley_post SET sent = coalesce(sent, since), since = blocked_until, blocked = 0, blocked_until = 0, reason = ''
 WHERE post_id = ?1 AND blocked = 1 AND blocked_until <= ?2

-- name: PostExtend
UPDATE parley_post SET lease_until = ?4 + ?1
 WHERE post_id = ?2 AND fence = ?3 AND lease_until <> 0

-- name: PostFail
UPDATE parley_post SET attempts = ?1, suspicion = ?2, last_error = ?3, errors = replace(?4, '"at":null', '"at":' || ?6) WHERE post_id = ?5

-- name: PostInsert
INSERT INTO parley_post (post_id, queue_id, priority, since, type, body, headers, uniq)
VALUES (?1, ?2, ?3, ?8, ?4, ?5, ?6, ?7)

-- name: PostLease
UPDATE parley_post
   SET fence = fence + 1, lease_until = ?4 + ?1, held_since = ?4, owner = ?2
 WHERE post_id = ?3

-- name: PostOne
INSERT INTO parley_post (post_id, queue_id, priority, since, type, body, headers)
SELECT ?1, q.queue_id, ?2, ?8, ?3, ?4, ?5
  FROM parley_queue q
 CROSS JOIN parley_meta v
 WHERE q.queue_id = +?6 AND q.enabled = 1 AND v.catalog_version = +?7

-- name: PostRead
SELECT post_id, queue_id, priority, since, sent, type, body, headers, uniq, attempts, suspicion,
       last_error, errors, fence, lease_until, blocked, ?2
  FROM parley_post WHERE post_id = ?1

-- name: PostReclaim
UPDATE parley_post SET lease_until = 0, owner = ''
 WHERE post_id = ?1 AND fence = ?2 AND lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v) <= 12

-- name: PostReclaimWait
UPDATE parley_post SET lease_until = 0, owner = ''
 WHERE post_id = ?1 AND fence = ?2 AND lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v) <= 12

-- name: PostUnblock
UPDATE parley_post SET blocked = 0, blocked_until = 0, reason = '' WHERE post_id = ?1

-- name: PostUnlease
UPDATE parley_post SET fence = fence + 1, lease_until = 0, owner = '' WHERE post_id = ?1

-- name: PostsFree
SELECT post_id, uniq FROM parley_post WHERE post_id IN (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38, ?39, ?40, ?41, ?42, ?43, ?44, ?45, ?46, ?47, ?48, ?49, ?50) AND +queue_id = +?51 AND lease_until < ?52

-- name: ProcessedInsert
INSERT INTO parley_processed (post_id, queue_id, name, type, body, headers, keep_until)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?8 + ?7)

-- name: UniqueDelete
DELETE FROM parley_uniq WHERE queue_id = +?1 AND value = ?2

-- name: UniqueInsert
INSERT INTO parley_uniq (queue_id, value, post_id) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING

-- name: UniqueRead
SELECT post_id FROM parley_uniq WHERE queue_id = +?1 AND value = ?2
