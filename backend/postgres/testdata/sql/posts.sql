-- name: DelayedDelete
DELETE FROM parley_delayed WHERE post_id = $1

-- name: DelayedFree
SELECT x.post_id, x.uniq
  FROM unnest(ARRAY[$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44, $45, $46, $47, $48, $49, $50]::uuid[]) AS k(id)
 CROSS JOIN LATERAL (
         SELECT y.post_id, y.uniq FROM parley_delayed y WHERE y.post_id = k.id AND y.queue_id + 0 = $51
            FOR UPDATE SKIP LOCKED) x

-- name: DelayedInsert
INSERT INTO parley_delayed (post_id, queue_id, name, priority, type, body, headers, uniq, begun, due)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $9)

-- name: DelayedRead
SELECT queue_id, name, priority, type, body, headers, uniq, due, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
  FROM parley_delayed WHERE post_id = $1

-- name: DelayedTry
SELECT 1 FROM parley_delayed WHERE post_id = $1
FOR NO KEY UPDATE SKIP LOCKED

-- name: KeyDelete
DELETE FROM parley_key WHERE queue_id = $1 AND name = $2

-- name: KeyInsert
INSERT INTO parley_key (queue_id, name, stream_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING

-- name: KeyRead
SELECT stream_id FROM parley_key WHERE queue_id = $1 AND name = $2

-- name: KeyedFind
SELECT m.message_id, m.stream_id, m.seq, m.uniq, s.group_id, CASE WHEN f.message_id IS NULL THEN 0 ELSE 1 END
  FROM unnest(ARRAY[$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44, $45, $46, $47, $48, $49, $50]::uuid[]) AS k(id)
 CROSS JOIN LATERAL (SELECT y.* FROM parley_message y WHERE y.message_id = k.id AND y.kind = 4 LIMIT 1) m
 CROSS JOIN LATERAL (SELECT y.group_id, y.queue_id FROM parley_stream y WHERE y.stream_id = m.stream_id LIMIT 1) s
  LEFT JOIN LATERAL (SELECT y.message_id FROM parley_failure y WHERE y.message_id = k.id LIMIT 1) f ON true
 WHERE s.queue_id = $51

-- name: PostBlock
UPDATE parley_post
   SET blocked = $1, blocked_since = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, blocked_until = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $2, reason = $3
 WHERE post_id = $4

-- name: PostDelete
DELETE FROM parley_post WHERE post_id = $1

-- name: PostDue
UPDATE parley_post SET sent = coalesce(sent, since), since = blocked_until, blocked = 0, blocked_until = 0, reason = ''
 WHERE post_id = $1 AND blocked = 1 AND blocked_until <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint

-- name: PostExtend
UPDATE parley_post SET lease_until = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $1
 WHERE post_id = $2 AND fence = $3 AND lease_until <> 0

-- name: PostFail
UPDATE parley_post SET attempts = $1, suspicion = $2, last_error = $3, errors = replace($4, '"at":null', '"at":' || (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) WHERE post_id = $5

-- name: PostFree
SELECT 1 FROM parley_post WHERE post_id = $1 AND lease_until < (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FOR NO KEY UPDATE SKIP LOCKED

-- name: PostInsert
INSERT INTO parley_post (post_id, queue_id, priority, since, type, body, headers, uniq)
VALUES ($1, $2, $3, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $4, $5, $6, $7)

-- name: PostLease
UPDATE parley_post
   SET fence = fence + 1, lease_until = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $1, held_since = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, owner = $2
 WHERE post_id = $3

-- name: PostOne
INSERT INTO parley_post (post_id, queue_id, priority, since, type, body, headers)
SELECT $1, q.queue_id, $2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $3, $4, $5
  FROM parley_queue q
 CROSS JOIN parley_meta v
 WHERE q.queue_id = $6 AND q.enabled = 1 AND v.catalog_version = $7

-- name: PostRead
SELECT post_id, queue_id, priority, since, sent, type, body, headers, uniq, attempts, suspicion,
       last_error, errors, fence, lease_until, blocked, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
  FROM parley_post WHERE post_id = $1

-- name: PostReclaim
UPDATE parley_post SET lease_until = 0, owner = ''
 WHERE post_id = (SELECT p.post_id FROM parley_post p
                   WHERE p.post_id = $1 AND p.fence = $2 AND p.lease_until <> 0
                     AND (SELECT v.schema_version FROM parley_meta v) <= 12
                     FOR NO KEY UPDATE SKIP LOCKED)

-- name: PostReclaimWait
UPDATE parley_post SET lease_until = 0, owner = ''
 WHERE post_id = $1 AND fence = $2 AND lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v) <= 12

-- name: PostTry
SELECT 1 FROM parley_post WHERE post_id = $1
FOR NO KEY UPDATE SKIP LOCKED

-- name: PostUnblock
UPDATE parley_post SET blocked = 0, blocked_until = 0, reason = '' WHERE post_id = $1

-- name: PostUnlease
UPDATE parley_post SET fence = fence + 1, lease_until = 0, owner = '' WHERE post_id = $1

-- name: PostsFree
SELECT x.post_id, x.uniq
  FROM unnest(ARRAY[$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44, $45, $46, $47, $48, $49, $50]::uuid[]) AS k(id)
 CROSS JOIN LATERAL (
         SELECT y.post_id, y.uniq FROM parley_post y
          WHERE y.post_id = k.id AND y.queue_id + 0 = $51 AND y.lease_until < (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
            FOR UPDATE SKIP LOCKED) x

-- name: ProcessedInsert
INSERT INTO parley_processed (post_id, queue_id, name, type, body, headers, keep_until)
VALUES ($1, $2, $3, $4, $5, $6, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $7)

-- name: UniqueDelete
DELETE FROM parley_uniq WHERE queue_id = $1 AND value = $2

-- name: UniqueInsert
INSERT INTO parley_uniq (queue_id, value, post_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING

-- name: UniqueRead
SELECT post_id FROM parley_uniq WHERE queue_id = $1 AND value = $2
