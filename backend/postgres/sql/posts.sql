-- name: PostReclaim
UPDATE parley_post SET lease_until = 0, owner = ''
 WHERE post_id = (SELECT p.post_id FROM parley_post p
                   WHERE p.post_id = $1 AND p.fence = $2 AND p.lease_until <> 0
                     AND (SELECT v.schema_version FROM parley_meta v) <= :newest
                     FOR NO KEY UPDATE SKIP LOCKED)

-- name: PostsFree
-- Every plan looks up each post by its id, however small the table was when the statement was planned.
SELECT x.post_id, x.uniq
  FROM unnest(ARRAY[{{50 ?}}]::uuid[]) AS k(id)
 CROSS JOIN LATERAL (
         SELECT y.post_id, y.uniq FROM parley_post y
          WHERE y.post_id = k.id AND y.queue_id + 0 = ? AND y.lease_until < :now
            FOR UPDATE SKIP LOCKED) x
-- name: DelayedFree
SELECT x.post_id, x.uniq
  FROM unnest(ARRAY[{{50 ?}}]::uuid[]) AS k(id)
 CROSS JOIN LATERAL (
         SELECT y.post_id, y.uniq FROM parley_delayed y WHERE y.post_id = k.id AND y.queue_id + 0 = ?
            FOR UPDATE SKIP LOCKED) x
-- name: KeyedFind
SELECT m.message_id, m.stream_id, m.seq, m.uniq, s.group_id, CASE WHEN f.message_id IS NULL THEN 0 ELSE 1 END
  FROM unnest(ARRAY[{{50 ?}}]::uuid[]) AS k(id)
 CROSS JOIN LATERAL (SELECT y.* FROM parley_message y WHERE y.message_id = k.id AND y.kind = 4 LIMIT 1) m
 CROSS JOIN LATERAL (SELECT y.group_id, y.queue_id FROM parley_stream y WHERE y.stream_id = m.stream_id LIMIT 1) s
  LEFT JOIN LATERAL (SELECT y.message_id FROM parley_failure y WHERE y.message_id = k.id LIMIT 1) f ON true
 WHERE s.queue_id = ?
