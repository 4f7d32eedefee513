-- name: ClaimOne
SELECT v.catalog_version, q.enabled, s.group_id, g.group_id
  FROM parley_meta v
  LEFT JOIN LATERAL (SELECT x.enabled FROM parley_queue x WHERE x.queue_id = $1) q ON true
  LEFT JOIN LATERAL (
         SELECT x.group_id FROM parley_grp x
          WHERE x.group_id = coalesce((SELECT e.group_id FROM parley_endpoint e WHERE e.handle = $3::uuid), $2::uuid)
            AND ($2::uuid IS NULL OR x.group_id = $2::uuid)
            AND x.queue_id = $1 AND x.blocked = 0
            AND EXISTS (SELECT 1 FROM parley_ready r
                         CROSS JOIN LATERAL (SELECT 1 FROM parley_message m
                                              WHERE m.stream_id = r.stream_id LIMIT 1) m
                         WHERE r.group_id = x.group_id)
          LIMIT 1) s ON true
  LEFT JOIN LATERAL (
         SELECT x.group_id FROM parley_grp x
          WHERE x.group_id = s.group_id AND x.blocked = 0 AND x.lease_until < (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
            FOR NO KEY UPDATE SKIP LOCKED) g ON true

-- name: Claims[0][0]
WITH t AS MATERIALIZED (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now),
promotions AS MATERIALIZED (
  SELECT x.group_id, (-x.level::bigint * 10000000000000000 + x.since) AS place FROM parley_promotion x
   WHERE x.queue_id = $1
   ORDER BY x.queue_id, x.level DESC, x.since
   LIMIT 58),
promoted AS MATERIALIZED (
  SELECT p.group_id, g.group_id IS NULL AS post, g.free
    FROM promotions p
LEFT JOIN LATERAL (
	           SELECT g.group_id, g.blocked = 0 AND g.lease_until < (SELECT now FROM t) AS free
	             FROM parley_grp g
	            WHERE g.group_id = p.group_id
	              AND EXISTS (SELECT 1 FROM parley_grp y
	                           WHERE y.group_id = p.group_id AND y.blocked = 0
	                             AND y.lease_until < (SELECT now FROM t))
	              AND EXISTS (SELECT 1 FROM parley_ready r
	                           CROSS JOIN LATERAL (SELECT 1 FROM parley_message m
	                                                WHERE m.stream_id = r.stream_id LIMIT 1) m
	                           WHERE r.group_id = p.group_id)
	              FOR NO KEY UPDATE SKIP LOCKED) g ON true
	    LEFT JOIN LATERAL (
	           SELECT o.post_id FROM parley_post o
	            WHERE o.post_id = p.group_id AND o.blocked = 0 AND o.lease_until < (SELECT now FROM t)
	              FOR NO KEY UPDATE SKIP LOCKED) o ON true
	   WHERE g.group_id IS NOT NULL OR o.post_id IS NOT NULL
   LIMIT 1),
promotions_end AS MATERIALIZED (
  SELECT p.place FROM promotions p
   WHERE (SELECT count(*) FROM promoted) = 0 AND $3::int < 4
  OFFSET 58 - 1),
ordinary AS MATERIALIZED (
  SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM promoted) AND NOT EXISTS (SELECT 1 FROM promotions_end)),
entries AS MATERIALIZED (
  SELECT x.group_id, x.stream_id, x.priority, x.since FROM parley_ready x
   WHERE x.queue_id = $1
   ORDER BY x.queue_id, x.priority DESC, x.since
   LIMIT 58),
streams AS MATERIALIZED (SELECT e.* FROM entries e WHERE true),
ready_head AS MATERIALIZED (
  SELECT r.priority, r.since
    FROM streams r
   CROSS JOIN LATERAL (
           SELECT 1 FROM parley_grp g
            WHERE g.group_id = r.group_id AND g.blocked = 0 AND g.lease_until < (SELECT now FROM t)
            LIMIT 1) g
   CROSS JOIN LATERAL (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id LIMIT 1) m
   WHERE (SELECT count(*) FROM ordinary) > 0
   LIMIT 1),
post_head AS MATERIALIZED (
  SELECT x.priority, x.since FROM parley_post x
   WHERE x.queue_id = $1 AND x.blocked = 0 AND x.lease_until < (SELECT now FROM t)
     AND (SELECT count(*) FROM ordinary) > 0
   ORDER BY x.queue_id, x.priority DESC, x.since
   LIMIT 1),
posts_first AS MATERIALIZED (
  SELECT CASE $3::int & 3 WHEN 1 THEN false WHEN 2 THEN true ELSE
         NOT EXISTS (SELECT 1 FROM ready_head)
         OR (SELECT (-p.priority, p.since) < (-r.priority, r.since) FROM post_head p, ready_head r) END AS yes
    FROM post_head),
ready_first AS MATERIALIZED (
  SELECT r.group_id, g.free, r.priority, r.since
    FROM streams r
   CROSS JOIN LATERAL (
           SELECT g.blocked = 0 AND g.lease_until < (SELECT now FROM t) AS free FROM parley_grp g
            WHERE g.group_id = r.group_id
              AND EXISTS (SELECT 1 FROM parley_grp y
                           WHERE y.group_id = r.group_id AND y.blocked = 0
                             AND y.lease_until < (SELECT now FROM t))
              AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)
              FOR NO KEY UPDATE SKIP LOCKED) g
   WHERE (-r.priority, r.since) >= (SELECT -h.priority, h.since FROM ready_head h)
     AND (SELECT yes FROM posts_first) IS NOT TRUE
   LIMIT 1),
entries_end AS MATERIALIZED (
  SELECT (-e.priority::bigint * 10000000000000000 + e.since) AS place FROM entries e OFFSET 58 - 1),
posts AS MATERIALIZED (
  SELECT x.post_id, x.priority, x.since, x.sent, x.type, x.body, x.headers, x.uniq, x.attempts, x.suspicion,
         x.last_error, x.errors, x.fence, x.lease_until
    FROM parley_post x
   WHERE x.queue_id = $1 AND x.blocked = 0 AND x.lease_until < (SELECT now FROM t)
     AND (SELECT count(*) FROM post_head) > 0 AND (SELECT count(*) FROM ready_first) = 0
     AND ((SELECT yes FROM posts_first) AND EXISTS (SELECT 1 FROM ready_head)
          OR NOT EXISTS (SELECT 1 FROM entries_end))
   ORDER BY x.queue_id, x.priority DESC, x.since
   LIMIT 1
     FOR NO KEY UPDATE SKIP LOCKED),
ready_last AS MATERIALIZED (
  SELECT r.group_id, g.free, r.priority, r.since
    FROM streams r
   CROSS JOIN LATERAL (
           SELECT g.blocked = 0 AND g.lease_until < (SELECT now FROM t) AS free FROM parley_grp g
            WHERE g.group_id = r.group_id
              AND EXISTS (SELECT 1 FROM parley_grp y
                           WHERE y.group_id = r.group_id AND y.blocked = 0
                             AND y.lease_until < (SELECT now FROM t))
              AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)
              FOR NO KEY UPDATE SKIP LOCKED) g
   WHERE (-r.priority, r.since) >= (SELECT -h.priority, h.since FROM ready_head h)
     AND (SELECT yes FROM posts_first) AND (SELECT count(*) FROM posts) = 0
   LIMIT 1),
found AS (
  SELECT CASE WHEN post THEN 1 WHEN free THEN 0 ELSE 3 END AS what, group_id AS id,
         NULL::smallint AS priority, NULL::bigint AS since, NULL::bigint AS sent, NULL::text AS type, NULL::bytea AS body,
         NULL::text AS headers, NULL::text AS uniq, NULL::int AS attempts, NULL::int AS suspicion, NULL::text AS last_error,
         NULL::text AS errors, NULL::bigint AS fence, NULL::bigint AS lease_until
    FROM promoted
   UNION ALL
  SELECT CASE WHEN free THEN 0 ELSE 3 END, group_id, priority, since, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM ready_first
   UNION ALL
  SELECT CASE WHEN free THEN 0 ELSE 3 END, group_id, priority, since, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM ready_last
   UNION ALL
  SELECT 2, post_id, priority, since, sent, type, body, headers, uniq, attempts, suspicion, last_error, errors, fence,
         lease_until
    FROM (SELECT p.*,
                 sum(coalesce(octet_length(p.body), 0) + coalesce(octet_length(p.headers), 0)) OVER w AS bytes,
                 row_number() OVER w AS n
            FROM posts p
          WINDOW w AS (ROWS UNBOUNDED PRECEDING)) p
   WHERE p.n = 1 OR p.bytes <= $2)
SELECT v.catalog_version, q.enabled,
       (SELECT h.priority FROM ready_head h), (SELECT h.since FROM ready_head h),
       (SELECT h.priority FROM post_head h), (SELECT h.since FROM post_head h),
       EXISTS (SELECT 1 FROM entries),
       (SELECT 1 FROM parley_promotion x WHERE x.queue_id = $1
         ORDER BY x.queue_id, x.level DESC, x.since LIMIT 1) IS NOT NULL,
       CASE WHEN f.id IS NULL THEN (SELECT place FROM promotions_end) END,
       CASE WHEN f.id IS NULL AND EXISTS (SELECT 1 FROM ordinary) THEN (SELECT place FROM entries_end) END,
       CASE WHEN f.id IS NULL
            THEN EXISTS (SELECT 1 FROM entries r
                          CROSS JOIN LATERAL (SELECT 1 FROM parley_grp g
                                               WHERE g.group_id = r.group_id AND g.blocked = 0 LIMIT 1) g)
              OR (SELECT 1 FROM (SELECT 1 FROM parley_post x
                                  WHERE x.queue_id = $1 AND x.blocked = 0
                                  ORDER BY x.queue_id, x.priority DESC, x.since
                                  LIMIT 1) p) IS NOT NULL END,
       f.*
  FROM parley_meta v
  LEFT JOIN LATERAL (SELECT x.enabled FROM parley_queue x WHERE x.queue_id = $1) q ON true
  LEFT JOIN found f ON true

-- name: Claims[0][10]
-- e24b46fe2f59f730

-- name: Claims[0][1]
-- eedfbb0b8db9e86a

-- name: Claims[0][2]
-- 66a6371977481f1f

-- name: Claims[0][3]
-- 28d01ae696ebb95c

-- name: Claims[0][4]
-- 795659f43106aa7b

-- name: Claims[0][5]
-- 98c1271071569c9b

-- name: Claims[0][6]
-- 138eafa8b3a5457e

-- name: Claims[0][7]
-- 12094262ffe4f428

-- name: Claims[0][8]
-- 29ba5f000556aafe

-- name: Claims[0][9]
-- d853ce74104256f9

-- name: Claims[1][0]
WITH t AS MATERIALIZED (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now),
promotions AS MATERIALIZED (
  SELECT x.group_id, (-x.level::bigint * 10000000000000000 + x.since) AS place FROM parley_promotion x
   WHERE x.queue_id = $1
   ORDER BY x.queue_id, x.level DESC, x.since
   LIMIT 58),
promoted AS MATERIALIZED (
  SELECT p.group_id, g.group_id IS NULL AS post, g.free
    FROM promotions p
LEFT JOIN LATERAL (
	           SELECT g.group_id, g.blocked = 0 AND g.lease_until < (SELECT now FROM t) AS free
	             FROM parley_grp g
	            WHERE g.group_id = p.group_id
	              AND EXISTS (SELECT 1 FROM parley_grp y
	                           WHERE y.group_id = p.group_id AND y.blocked = 0
	                             AND y.lease_until < (SELECT now FROM t))
	              AND EXISTS (SELECT 1 FROM parley_ready r
	                           CROSS JOIN LATERAL (SELECT 1 FROM parley_message m
	                                                WHERE m.stream_id = r.stream_id LIMIT 1) m
	                           WHERE r.group_id = p.group_id)
	              FOR NO KEY UPDATE SKIP LOCKED) g ON true
	    LEFT JOIN LATERAL (
	           SELECT o.post_id FROM parley_post o
	            WHERE o.post_id = p.group_id AND o.blocked = 0 AND o.lease_until < (SELECT now FROM t)
	              FOR NO KEY UPDATE SKIP LOCKED) o ON true
	   WHERE g.group_id IS NOT NULL OR o.post_id IS NOT NULL
   LIMIT 1),
promotions_end AS MATERIALIZED (
  SELECT p.place FROM promotions p
   WHERE (SELECT count(*) FROM promoted) = 0 AND $3::int < 4
  OFFSET 58 - 1),
ordinary AS MATERIALIZED (
  SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM promoted) AND NOT EXISTS (SELECT 1 FROM promotions_end)),
entries AS MATERIALIZED (
  SELECT x.group_id, x.stream_id, x.priority, x.since FROM parley_ready x
   WHERE x.queue_id = $1
   ORDER BY x.queue_id, x.priority DESC, x.since
   LIMIT 5000),
streams AS MATERIALIZED (SELECT e.* FROM entries e WHERE e.group_id NOT IN (
           SELECT g.group_id FROM parley_grp g
            WHERE g.queue_id = $1 AND g.lease_until <> 0 AND g.lease_until > (SELECT now FROM t)
            ORDER BY g.queue_id, g.lease_until
            LIMIT 20000)),
ready_head AS MATERIALIZED (
  SELECT r.priority, r.since
    FROM streams r
   CROSS JOIN LATERAL (
           SELECT 1 FROM parley_grp g
            WHERE g.group_id = r.group_id AND g.blocked = 0 AND g.lease_until < (SELECT now FROM t)
            LIMIT 1) g
   CROSS JOIN LATERAL (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id LIMIT 1) m
   WHERE (SELECT count(*) FROM ordinary) > 0
   LIMIT 1),
post_head AS MATERIALIZED (
  SELECT x.priority, x.since FROM parley_post x
   WHERE x.queue_id = $1 AND x.blocked = 0 AND x.lease_until < (SELECT now FROM t)
     AND (SELECT count(*) FROM ordinary) > 0
   ORDER BY x.queue_id, x.priority DESC, x.since
   LIMIT 1),
posts_first AS MATERIALIZED (
  SELECT CASE $3::int & 3 WHEN 1 THEN false WHEN 2 THEN true ELSE
         NOT EXISTS (SELECT 1 FROM ready_head)
         OR (SELECT (-p.priority, p.since) < (-r.priority, r.since) FROM post_head p, ready_head r) END AS yes
    FROM post_head),
ready_first AS MATERIALIZED (
  SELECT r.group_id, g.free, r.priority, r.since
    FROM streams r
   CROSS JOIN LATERAL (
           SELECT g.blocked = 0 AND g.lease_until < (SELECT now FROM t) AS free FROM parley_grp g
            WHERE g.group_id = r.group_id
              AND EXISTS (SELECT 1 FROM parley_grp y
                           WHERE y.group_id = r.group_id AND y.blocked = 0
                             AND y.lease_until < (SELECT now FROM t))
              AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)
              FOR NO KEY UPDATE SKIP LOCKED) g
   WHERE (-r.priority, r.since) >= (SELECT -h.priority, h.since FROM ready_head h)
     AND (SELECT yes FROM posts_first) IS NOT TRUE
   LIMIT 1),
entries_end AS MATERIALIZED (
  SELECT (-e.priority::bigint * 10000000000000000 + e.since) AS place FROM entries e OFFSET 5000 - 1),
posts AS MATERIALIZED (
  SELECT x.post_id, x.priority, x.since, x.sent, x.type, x.body, x.headers, x.uniq, x.attempts, x.suspicion,
         x.last_error, x.errors, x.fence, x.lease_until
    FROM parley_post x
   WHERE x.queue_id = $1 AND x.blocked = 0 AND x.lease_until < (SELECT now FROM t)
     AND (SELECT count(*) FROM post_head) > 0 AND (SELECT count(*) FROM ready_first) = 0
     AND ((SELECT yes FROM posts_first) AND EXISTS (SELECT 1 FROM ready_head)
          OR NOT EXISTS (SELECT 1 FROM entries_end))
   ORDER BY x.queue_id, x.priority DESC, x.since
   LIMIT 1
     FOR NO KEY UPDATE SKIP LOCKED),
ready_last AS MATERIALIZED (
  SELECT r.group_id, g.free, r.priority, r.since
    FROM streams r
   CROSS JOIN LATERAL (
           SELECT g.blocked = 0 AND g.lease_until < (SELECT now FROM t) AS free FROM parley_grp g
            WHERE g.group_id = r.group_id
              AND EXISTS (SELECT 1 FROM parley_grp y
                           WHERE y.group_id = r.group_id AND y.blocked = 0
                             AND y.lease_until < (SELECT now FROM t))
              AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)
              FOR NO KEY UPDATE SKIP LOCKED) g
   WHERE (-r.priority, r.since) >= (SELECT -h.priority, h.since FROM ready_head h)
     AND (SELECT yes FROM posts_first) AND (SELECT count(*) FROM posts) = 0
   LIMIT 1),
found AS (
  SELECT CASE WHEN post THEN 1 WHEN free THEN 0 ELSE 3 END AS what, group_id AS id,
         NULL::smallint AS priority, NULL::bigint AS since, NULL::bigint AS sent, NULL::text AS type, NULL::bytea AS body,
         NULL::text AS headers, NULL::text AS uniq, NULL::int AS attempts, NULL::int AS suspicion, NULL::text AS last_error,
         NULL::text AS errors, NULL::bigint AS fence, NULL::bigint AS lease_until
    FROM promoted
   UNION ALL
  SELECT CASE WHEN free THEN 0 ELSE 3 END, group_id, priority, since, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM ready_first
   UNION ALL
  SELECT CASE WHEN free THEN 0 ELSE 3 END, group_id, priority, since, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM ready_last
   UNION ALL
  SELECT 2, post_id, priority, since, sent, type, body, headers, uniq, attempts, suspicion, last_error, errors, fence,
         lease_until
    FROM (SELECT p.*,
                 sum(coalesce(octet_length(p.body), 0) + coalesce(octet_length(p.headers), 0)) OVER w AS bytes,
                 row_number() OVER w AS n
            FROM posts p
          WINDOW w AS (ROWS UNBOUNDED PRECEDING)) p
   WHERE p.n = 1 OR p.bytes <= $2)
SELECT v.catalog_version, q.enabled,
       (SELECT h.priority FROM ready_head h), (SELECT h.since FROM ready_head h),
       (SELECT h.priority FROM post_head h), (SELECT h.since FROM post_head h),
       EXISTS (SELECT 1 FROM entries),
       (SELECT 1 FROM parley_promotion x WHERE x.queue_id = $1
         ORDER BY x.queue_id, x.level DESC, x.since LIMIT 1) IS NOT NULL,
       CASE WHEN f.id IS NULL THEN (SELECT place FROM promotions_end) END,
       CASE WHEN f.id IS NULL AND EXISTS (SELECT 1 FROM ordinary) THEN (SELECT place FROM entries_end) END,
       CASE WHEN f.id IS NULL
            THEN EXISTS (SELECT 1 FROM entries r
                          CROSS JOIN LATERAL (SELECT 1 FROM parley_grp g
                                               WHERE g.group_id = r.group_id AND g.blocked = 0 LIMIT 1) g)
              OR (SELECT 1 FROM (SELECT 1 FROM parley_post x
                                  WHERE x.queue_id = $1 AND x.blocked = 0
                                  ORDER BY x.queue_id, x.priority DESC, x.since
                                  LIMIT 1) p) IS NOT NULL END,
       f.*
  FROM parley_meta v
  LEFT JOIN LATERAL (SELECT x.enabled FROM parley_queue x WHERE x.queue_id = $1) q ON true
  LEFT JOIN found f ON true

-- name: Claims[1][10]
-- c98096f59f6f6345

-- name: Claims[1][1]
-- 2a8cb85200dc0933

-- name: Claims[1][2]
-- d4365edf18f820dd

-- name: Claims[1][3]
-- ecd936535713175d

-- name: Claims[1][4]
-- 0f499361b7ee90a4

-- name: Claims[1][5]
-- 932887d89d8c4bdf

-- name: Claims[1][6]
-- db0768d059b3fa84

-- name: Claims[1][7]
-- 79703c649bb0ca3e

-- name: Claims[1][8]
-- 372dd99f214a0fcb

-- name: Claims[1][9]
-- e487c9d14578d207

-- name: DeadDelete
DELETE FROM parley_dead_letter WHERE message_id = $1

-- name: DeadInsert
INSERT INTO parley_dead_letter (message_id, queue_id, stream_id, seq, group_id, kind, type,
       body, headers, since, name, handle, conversation, initiator, service, far, contract,
       priority, attempts, suspicion, last_error, errors, reason, died)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, replace($22, '"at":null', '"at":' || (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), $23, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)

-- name: FailureDelete
DELETE FROM parley_failure WHERE message_id = $1

-- name: FailurePut
INSERT INTO parley_failure (message_id, attempts, suspicion, last_error, errors) VALUES ($1, $2, $3, $4, replace($5, '"at":null', '"at":' || (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
ON CONFLICT (message_id) DO UPDATE
   SET attempts = excluded.attempts, suspicion = excluded.suspicion, last_error = excluded.last_error,
       errors = excluded.errors

-- name: GroupStreams
SELECT r.stream_id, s.kind, r.priority, s.endpoint, e.group_id, e.conversation,
       e.initiator, e.service, e.far, e.contract, e.closed_at,
       (SELECT m.since FROM parley_message m
         WHERE m.stream_id = r.stream_id ORDER BY m.stream_id, m.seq LIMIT 1)
  FROM parley_ready r
  JOIN parley_stream s ON s.stream_id = r.stream_id
  LEFT JOIN parley_endpoint e ON e.handle = s.endpoint
 WHERE r.group_id = $1

-- name: GroupVisible
SELECT 1 FROM parley_ready r
 WHERE r.group_id = $1
   AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)
 LIMIT 1

-- name: GroupWaits
SELECT CASE WHEN EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = s.stream_id) THEN 1 ELSE 0 END,
       1
  FROM parley_stream s
 WHERE s.group_id = $1

-- name: LeaseLocked
UPDATE parley_post y
   SET fence = y.fence + 1,
       suspicion = y.suspicion + CASE WHEN y.lease_until <> 0 THEN 1 ELSE 0 END, 
       lease_until = CASE WHEN $2::bigint > 0 THEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $2::bigint ELSE 0 END,
       held_since = CASE WHEN $2::bigint > 0 THEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint ELSE 0 END,
       owner = CASE WHEN $2::bigint > 0 THEN $3 ELSE '' END
 WHERE y.ctid = ANY (ARRAY(
         SELECT x.ctid FROM unnest((SELECT $1::uuid[])) k(id)
          CROSS JOIN LATERAL (SELECT z.ctid FROM parley_post z WHERE z.post_id = k.id LIMIT 1) x))

-- name: OnceInsert
INSERT INTO parley_once (name, keep_until) VALUES ($1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $2) ON CONFLICT DO NOTHING

-- name: Pages[0]
WITH t AS MATERIALIZED (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now),
streams AS MATERIALIZED (
  SELECT e.group_id, e.stream_id, (-e.priority::bigint * 10000000000000000 + e.since) AS place
    FROM ((SELECT x.group_id, x.stream_id, x.priority, x.since FROM parley_ready x
            WHERE x.queue_id = $1 AND x.priority = $2 AND x.since >= $3
            ORDER BY x.queue_id, x.priority DESC, x.since
            LIMIT 2000)
           UNION ALL
          (SELECT x.group_id, x.stream_id, x.priority, x.since FROM parley_ready x
            WHERE x.queue_id = $1 AND x.priority < $2
            ORDER BY x.queue_id, x.priority DESC, x.since
            LIMIT 2000)) e
   LIMIT 2000),
posts AS MATERIALIZED (
  SELECT e.post_id, e.lease_until, (-e.priority::bigint * 10000000000000000 + e.since) AS place
    FROM ((SELECT x.post_id, x.lease_until, x.priority, x.since FROM parley_post x
            WHERE x.queue_id = $1 AND x.priority = $2 AND x.since >= $3 AND x.blocked = 0
            ORDER BY x.queue_id, x.priority DESC, x.since
            LIMIT 2000)
           UNION ALL
          (SELECT x.post_id, x.lease_until, x.priority, x.since FROM parley_post x
            WHERE x.queue_id = $1 AND x.priority < $2 AND x.blocked = 0
            ORDER BY x.queue_id, x.priority DESC, x.since
            LIMIT 2000)) e
   LIMIT 2000),
page AS MATERIALIZED (
  SELECT least((SELECT s.place FROM streams s OFFSET 2000 - 1),
               (SELECT p.place FROM posts p OFFSET 2000 - 1)) AS ends),
found AS MATERIALIZED (
  SELECT CASE WHEN o.post_id IS NOT NULL THEN 1 WHEN g.free THEN 0 ELSE 3 END AS what, w.id, w.place
    FROM (SELECT s.group_id AS id, s.stream_id, s.place FROM streams s
           WHERE s.place <= coalesce((SELECT ends FROM page), 9223372036854775807)
           UNION ALL
          SELECT p.post_id, NULL, p.place FROM posts p
           WHERE p.place <= coalesce((SELECT ends FROM page), 9223372036854775807)
             AND p.lease_until < (SELECT now FROM t)
           ORDER BY place) w
    LEFT JOIN LATERAL (
           SELECT g.blocked = 0 AND g.lease_until < (SELECT now FROM t) AS free FROM parley_grp g
            WHERE g.group_id = w.id AND w.stream_id IS NOT NULL
              AND EXISTS (SELECT 1 FROM parley_grp y
                           WHERE y.group_id = w.id AND y.blocked = 0
                             AND y.lease_until < (SELECT now FROM t))
              AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = w.stream_id)
              FOR NO KEY UPDATE SKIP LOCKED) g ON true
    LEFT JOIN LATERAL (
           SELECT o.post_id FROM parley_post o
            WHERE o.post_id = w.id AND w.stream_id IS NULL
              AND o.blocked = 0 AND o.lease_until < (SELECT now FROM t)
              FOR NO KEY UPDATE SKIP LOCKED) o ON true
   WHERE g.free IS NOT NULL OR o.post_id IS NOT NULL
   LIMIT (SELECT CASE WHEN EXISTS (SELECT 1 FROM posts) THEN 1 ELSE $4::int END))
SELECT p.ends,
       CASE WHEN f.id IS NULL
            THEN EXISTS (SELECT 1 FROM streams r
                          CROSS JOIN LATERAL (SELECT 1 FROM parley_grp g
                                               WHERE g.group_id = r.group_id AND g.blocked = 0 LIMIT 1) g)
              OR EXISTS (SELECT 1 FROM posts) END,
       f.what, f.id, f.place
  FROM page p
  LEFT JOIN found f ON true

-- name: Pages[1]
-- fdc59ae0796f0bd9

-- name: Pages[2]
-- 2b0cea56d233c1e1

-- name: Pages[3]
-- ec54363be6236e38

-- name: Pages[4]
-- dc4209c22c613422

-- name: PostClaims[0]
WITH other AS MATERIALIZED (
  SELECT (SELECT 1 FROM parley_ready x WHERE x.queue_id = $1
           ORDER BY x.queue_id, x.priority DESC, x.since LIMIT 1) IS NOT NULL
      OR (SELECT 1 FROM parley_promotion x WHERE x.queue_id = $1
           ORDER BY x.queue_id, x.level DESC, x.since LIMIT 1) IS NOT NULL AS yes),
posts AS MATERIALIZED (
  SELECT x.post_id, x.priority, x.since, x.type, x.body, x.headers,
         CASE WHEN x.sent <> 0 OR x.uniq IS NOT NULL OR x.attempts <> 0 OR x.suspicion <> 0
                OR x.last_error IS NOT NULL OR x.errors IS NOT NULL OR x.fence <> 0 OR x.lease_until <> 0
              THEN json_build_array(x.sent, x.uniq, x.attempts, x.suspicion, x.last_error, x.errors,
                                    x.fence, x.lease_until)::text END AS seldom,
         coalesce(octet_length(x.body), 0) + coalesce(octet_length(x.headers), 0) AS bytes
    FROM parley_post x
   WHERE x.queue_id = $1 AND x.blocked = 0 AND x.lease_until < (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
     AND NOT (SELECT yes FROM other)
   ORDER BY x.queue_id, x.priority DESC, x.since
   LIMIT 1
     FOR NO KEY UPDATE SKIP LOCKED)
SELECT v.catalog_version, q.enabled,
       CASE WHEN p.post_id IS NULL
            THEN (SELECT 1 FROM (SELECT 1 FROM parley_post x
                                  WHERE x.queue_id = $1 AND x.blocked = 0
                                  ORDER BY x.queue_id, x.priority DESC, x.since
                                  LIMIT 1) w) IS NOT NULL END,
       p.post_id, p.priority, p.since, p.type, p.body, p.headers, p.seldom
  FROM parley_meta v
  LEFT JOIN LATERAL (SELECT x.enabled FROM parley_queue x WHERE x.queue_id = $1) q ON true
  LEFT JOIN posts p
    ON (SELECT sum(x.bytes) FROM posts x) <= $2
    OR p.post_id IN (SELECT y.post_id
                       FROM (SELECT x.post_id, row_number() OVER w AS n, sum(x.bytes) OVER w AS bytes
                               FROM posts x
                             WINDOW w AS (ROWS UNBOUNDED PRECEDING)) y
                      WHERE y.n = 1 OR y.bytes <= $2)
 WHERE NOT (SELECT yes FROM other)

-- name: PostClaims[10]
-- abb8a6c1cd91a86a

-- name: PostClaims[1]
-- 8257584e70daab2b

-- name: PostClaims[2]
-- 8c559e3ef90436e0

-- name: PostClaims[3]
-- d1597a5dfe80e062

-- name: PostClaims[4]
-- 18b5608bd48f8eaf

-- name: PostClaims[5]
-- 6e104d1d7fb01692

-- name: PostClaims[6]
-- 2da38f2beb54f13f

-- name: PostClaims[7]
-- 4e332803656aa106

-- name: PostClaims[8]
-- 2a3d9c2ffb08f938

-- name: PostClaims[9]
-- 87c6612a03b0b851

-- name: PromotionDelete
DELETE FROM parley_promotion WHERE group_id = $1 AND version = $2

-- name: PromotionDrop
DELETE FROM parley_promotion WHERE group_id = $1

-- name: PromotionEmpty
DELETE FROM parley_promotion WHERE group_id = $1 AND version = $2 AND sticky = 2

-- name: PromotionPut
INSERT INTO parley_promotion AS p (group_id, queue_id, level, since, version, sticky)
VALUES ($1, $2, $3, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $4)
ON CONFLICT (group_id) DO UPDATE
   SET level = excluded.level, since = excluded.since, sticky = excluded.sticky,
       version = greatest(p.version + 1, excluded.version)

-- name: PromotionRead
SELECT level, version, sticky FROM parley_promotion WHERE group_id = $1

-- name: PromotionTry
SELECT 1 FROM parley_promotion WHERE group_id = $1 AND version = $2
FOR NO KEY UPDATE SKIP LOCKED

-- name: Promotions[0]
WITH t AS MATERIALIZED (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now),
promotions AS MATERIALIZED (
  SELECT e.group_id, (-e.level::bigint * 10000000000000000 + e.since) AS place
    FROM ((SELECT x.group_id, x.level, x.since FROM parley_promotion x
            WHERE x.queue_id = $1 AND x.level = $2 AND x.since >= $3
            ORDER BY x.queue_id, x.level DESC, x.since
            LIMIT 2000)
           UNION ALL
          (SELECT x.group_id, x.level, x.since FROM parley_promotion x
            WHERE x.queue_id = $1 AND x.level < $2
            ORDER BY x.queue_id, x.level DESC, x.since
            LIMIT 2000)) e
   LIMIT 2000),
found AS MATERIALIZED (
  SELECT CASE WHEN g.group_id IS NULL THEN 1 WHEN g.free THEN 0 ELSE 3 END AS what, p.group_id AS id, p.place
    FROM promotions p
LEFT JOIN LATERAL (
	           SELECT g.group_id, g.blocked = 0 AND g.lease_until < (SELECT now FROM t) AS free
	             FROM parley_grp g
	            WHERE g.group_id = p.group_id
	              AND EXISTS (SELECT 1 FROM parley_grp y
	                           WHERE y.group_id = p.group_id AND y.blocked = 0
	                             AND y.lease_until < (SELECT now FROM t))
	              AND EXISTS (SELECT 1 FROM parley_ready r
	                           CROSS JOIN LATERAL (SELECT 1 FROM parley_message m
	                                                WHERE m.stream_id = r.stream_id LIMIT 1) m
	                           WHERE r.group_id = p.group_id)
	              FOR NO KEY UPDATE SKIP LOCKED) g ON true
	    LEFT JOIN LATERAL (
	           SELECT o.post_id FROM parley_post o
	            WHERE o.post_id = p.group_id AND o.blocked = 0 AND o.lease_until < (SELECT now FROM t)
	              FOR NO KEY UPDATE SKIP LOCKED) o ON true
	   WHERE g.group_id IS NOT NULL OR o.post_id IS NOT NULL
   LIMIT 1)
SELECT (SELECT p.place FROM promotions p OFFSET 2000 - 1), NULL, f.what, f.id, f.place
  FROM (SELECT 1) one
  LEFT JOIN found f ON true

-- name: Promotions[1]
-- cb19f99cbc903e1b

-- name: Promotions[2]
-- e8090cc70ec42d8f

-- name: Promotions[3]
-- 5ca1a6933efd899e

-- name: Promotions[4]
-- abe8d177561e6e14

-- name: ReadUsual[0]
SELECT x.n, 0, 0, x.level, x.version, x.sticky, x.name,
       CASE WHEN x.usual AND (x.k = 1 OR x.bytes <= $3) THEN 0 ELSE 3 END,
       x.stream_id, x.seq, x.message_id, x.message_kind, x.type, x.body, x.headers, x.since, x.uniq,
       x.attempts, x.suspicion, x.last_error, x.errors,
       x.priority, x.endpoint, x.conversation, x.initiator, x.service, x.far, x.contract, x.kind
  FROM (SELECT k.n, p.level, p.version, p.sticky, g.name, r.stream_id, r.priority, s.kind, s.endpoint,
               e.conversation, e.initiator, e.service, e.far, e.contract,
               m.seq, m.message_id, m.kind AS message_kind, m.type, m.body, m.headers, m.since, m.uniq,
               f.attempts, f.suspicion, f.last_error, f.errors,
               g.lease_until = 0 AND NOT r.several
               AND (s.endpoint IS NULL OR e.group_id = k.id AND e.closed_at IS NULL) AS usual,
               row_number() OVER w AS k,
               coalesce(octet_length(m.body), 0) + coalesce(octet_length(m.headers), 0) AS own,
               sum(coalesce(octet_length(m.body), 0) + coalesce(octet_length(m.headers), 0)) OVER w AS bytes
          FROM unnest((SELECT $1::uuid[])) WITH ORDINALITY k(id, n)
         CROSS JOIN LATERAL (
                 SELECT y.name, y.lease_until FROM parley_grp y
                  WHERE y.group_id = k.id AND y.blocked = 0 LIMIT 1) g
          LEFT JOIN LATERAL (
                 SELECT y.level, y.version, y.sticky FROM parley_promotion y
                  WHERE y.group_id = k.id LIMIT 1) p ON true
         CROSS JOIN LATERAL (
                 SELECT y.stream_id, y.priority,
                        EXISTS (SELECT 1 FROM parley_ready z
                                 WHERE z.group_id = k.id AND z.stream_id > y.stream_id) AS several
                   FROM parley_ready y WHERE y.group_id = k.id ORDER BY y.stream_id LIMIT 1) r
         CROSS JOIN LATERAL (
                 SELECT y.kind, y.endpoint FROM parley_stream y WHERE y.stream_id = r.stream_id LIMIT 1) s
          LEFT JOIN LATERAL (
                 SELECT y.group_id, y.closed_at, y.conversation, y.initiator, y.service, y.far, y.contract
                   FROM parley_endpoint y WHERE y.handle = s.endpoint LIMIT 1) e ON true
          LEFT JOIN LATERAL (
                 SELECT y.* FROM (SELECT z.* FROM parley_message z
                                   WHERE z.stream_id = r.stream_id ORDER BY z.seq LIMIT 1000) y
                  LIMIT (SELECT $2::int)) m ON true
          LEFT JOIN LATERAL (
                 SELECT y.attempts, y.suspicion, y.last_error, y.errors FROM parley_failure y
                  WHERE y.message_id = m.message_id LIMIT 1) f ON true
        WINDOW w AS (ROWS UNBOUNDED PRECEDING)) x
 WHERE x.k = 1 OR x.bytes - x.own <= $3

-- name: ReadUsual[1]
-- 37e1f392cc188caf

-- name: Read[0]
WITH g AS MATERIALIZED (
  SELECT k.n, x.group_id, x.name, x.fence, x.lease_until, x.tid, p.level, p.version, p.sticky
    FROM unnest((SELECT $1::uuid[])) WITH ORDINALITY k(id, n)
   CROSS JOIN LATERAL (
           SELECT y.group_id, y.name, y.fence, y.lease_until, y.ctid AS tid FROM parley_grp y
            WHERE y.group_id = k.id AND y.blocked = 0 LIMIT 1) x
    LEFT JOIN LATERAL (
           SELECT y.level, y.version, y.sticky FROM parley_promotion y
            WHERE y.group_id = k.id LIMIT 1) p ON true),
s AS MATERIALIZED (
  SELECT g.*, r.stream_id, r.priority, x.kind, x.endpoint, e.conversation, e.initiator,
         e.service, e.far, e.contract,
         CASE WHEN x.endpoint IS NULL THEN 0
              WHEN e.group_id IS NULL OR e.closed_at IS NOT NULL THEN 1
              WHEN e.group_id <> g.group_id THEN 2
              ELSE 0 END AS state
    FROM g
   CROSS JOIN LATERAL (
           SELECT y.stream_id, y.priority FROM parley_ready y
            WHERE y.group_id = g.group_id OFFSET 0) r
   CROSS JOIN LATERAL (
           SELECT y.kind, y.endpoint FROM parley_stream y WHERE y.stream_id = r.stream_id LIMIT 1) x
    LEFT JOIN LATERAL (
           SELECT y.* FROM parley_endpoint y WHERE y.handle = x.endpoint LIMIT 1) e ON true
   WHERE $7::int = 0),
taken AS MATERIALIZED (
  SELECT x.*
    FROM (SELECT s.*, m.seq, m.message_id, m.kind AS message_kind, m.type, m.body, m.headers, m.since, m.uniq,
                 sum(coalesce(octet_length(m.body), 0) + coalesce(octet_length(m.headers), 0)) OVER w AS bytes,
                 row_number() OVER w AS k,
                 lag(s.stream_id) OVER w IS DISTINCT FROM s.stream_id AS first
            FROM (SELECT y.*, row_number() OVER (PARTITION BY y.n
                                                 ORDER BY y.priority DESC, y.oldest, y.endpoint, y.kind, y.stream_id) AS place
                    FROM (SELECT s.*, min(m.since) OVER (PARTITION BY s.n, s.endpoint) AS oldest
                            FROM s
                           CROSS JOIN LATERAL (
                                   SELECT m.since FROM parley_message m
                                    WHERE m.stream_id = s.stream_id ORDER BY m.stream_id, m.seq LIMIT 1) m
                           WHERE s.state = 0 AND ($4::uuid IS NULL OR s.endpoint = $4::uuid)) y) s
           CROSS JOIN LATERAL (
                   SELECT y.* FROM (SELECT z.* FROM parley_message z
                                     WHERE z.stream_id = s.stream_id ORDER BY z.seq LIMIT 1000) y
                    LIMIT (SELECT $2::int)) m
           WHERE s.place <= $2
          WINDOW w AS (ORDER BY s.n, s.place, m.seq ROWS UNBOUNDED PRECEDING)) x
   WHERE x.k = 1 OR x.bytes <= $3),
held AS (
  UPDATE parley_grp y
     SET fence = y.fence + 1,
         lease_until = CASE WHEN $5::bigint > 0 THEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $5::bigint ELSE 0 END,
         held_since = CASE WHEN $5::bigint > 0 THEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint ELSE 0 END,
         owner = CASE WHEN $5::bigint > 0 THEN $6 ELSE '' END
   WHERE y.ctid = ANY (ARRAY(
           SELECT g.tid FROM g
            WHERE ($5::bigint > 0 OR g.lease_until <> 0)
              AND ($7::int = 1 OR g.n IN (SELECT taken.n FROM taken)))))
SELECT t.n, t.fence, t.lease_until, t.level, t.version, t.sticky, t.name, t.state, t.stream_id,
       t.seq, t.message_id, t.message_kind, t.type, t.body, t.headers, t.since, t.uniq,
       f.attempts, f.suspicion, f.last_error, f.errors,
       CASE WHEN t.first THEN t.priority END, CASE WHEN t.first THEN t.endpoint END,
       CASE WHEN t.first THEN t.conversation END, CASE WHEN t.first THEN t.initiator END,
       CASE WHEN t.first THEN t.service END, CASE WHEN t.first THEN t.far END,
       CASE WHEN t.first THEN t.contract END, t.kind
  FROM taken t
  LEFT JOIN LATERAL (
         SELECT y.attempts, y.suspicion, y.last_error, y.errors FROM parley_failure y
          WHERE y.message_id = t.message_id LIMIT 1) f ON true
 UNION ALL
SELECT s.n, s.fence, s.lease_until, s.level, s.version, s.sticky, s.name, s.state, s.stream_id,
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL, NULL,
       s.priority, s.endpoint, NULL, NULL, NULL, NULL, NULL, s.kind
  FROM s WHERE s.state <> 0
 UNION ALL
SELECT g.n, g.fence, g.lease_until, g.level, g.version, g.sticky, g.name, NULL, NULL,
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL, NULL,
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
  FROM g WHERE $7::int = 1

-- name: Read[1]
-- 18e64dd8e3141e65

-- name: RetainedDelete
DELETE FROM parley_retained WHERE handle = $1

-- name: RetainedInsert
INSERT INTO parley_retained (handle, stream_id, seq, sent, message_id, kind, type, body,
       headers, since, kept)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, coalesce($10, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)

-- name: StreamClaims[0][0]
WITH t AS MATERIALIZED (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now),
other AS MATERIALIZED (
  SELECT (SELECT 1 FROM parley_promotion x WHERE x.queue_id = $1
           ORDER BY x.queue_id, x.level DESC, x.since LIMIT 1) IS NOT NULL
      OR (SELECT 1 FROM parley_post x
           WHERE x.queue_id = $1 AND x.blocked = 0 AND x.lease_until < (SELECT now FROM t)
           ORDER BY x.queue_id, x.priority DESC, x.since LIMIT 1) IS NOT NULL AS yes),
ready AS MATERIALIZED (
  SELECT e.group_id, g.free
    FROM (SELECT x.group_id, x.stream_id FROM parley_ready x
           WHERE x.queue_id = $1
           ORDER BY x.queue_id, x.priority DESC, x.since
           LIMIT 58) e
   CROSS JOIN LATERAL (
           SELECT g.blocked = 0 AND g.lease_until < (SELECT now FROM t) AS free FROM parley_grp g
            WHERE g.group_id = e.group_id
              AND EXISTS (SELECT 1 FROM parley_grp y
                           WHERE y.group_id = e.group_id AND y.blocked = 0
                             AND y.lease_until < (SELECT now FROM t))
              AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = e.stream_id)
              FOR NO KEY UPDATE SKIP LOCKED) g
   WHERE NOT (SELECT yes FROM other) AND true
   LIMIT 1)
SELECT v.catalog_version, q.enabled,
       CASE WHEN f.group_id IS NULL
            THEN (SELECT (-e.priority::bigint * 10000000000000000 + e.since) FROM (SELECT x.priority, x.since FROM parley_ready x
                                                  WHERE x.queue_id = $1
                                                  ORDER BY x.queue_id, x.priority DESC, x.since
                                                  LIMIT 58) e OFFSET 58 - 1) END,
       CASE WHEN f.group_id IS NULL
            THEN EXISTS (SELECT 1 FROM (SELECT x.group_id FROM parley_ready x
                                         WHERE x.queue_id = $1
                                         ORDER BY x.queue_id, x.priority DESC, x.since
                                         LIMIT 58) e
                          CROSS JOIN LATERAL (SELECT 1 FROM parley_grp g
                                               WHERE g.group_id = e.group_id AND g.blocked = 0 LIMIT 1) g)
              OR (SELECT 1 FROM (SELECT 1 FROM parley_post x
                                  WHERE x.queue_id = $1 AND x.blocked = 0
                                  ORDER BY x.queue_id, x.priority DESC, x.since
                                  LIMIT 1) p) IS NOT NULL END,
       f.group_id, f.free
  FROM parley_meta v
  LEFT JOIN LATERAL (SELECT x.enabled FROM parley_queue x WHERE x.queue_id = $1) q ON true
  LEFT JOIN ready f ON true
 WHERE NOT (SELECT yes FROM other)

-- name: StreamClaims[0][10]
-- 616258a0eb402ad3

-- name: StreamClaims[0][1]
-- 5c1c42cf70574cc2

-- name: StreamClaims[0][2]
-- f4d4eb0e6ee1337e

-- name: StreamClaims[0][3]
-- 308e0909fe0547db

-- name: StreamClaims[0][4]
-- b8d485753d9b1781

-- name: StreamClaims[0][5]
-- 1706e5d656cd161a

-- name: StreamClaims[0][6]
-- 00a3409bf580b3be

-- name: StreamClaims[0][7]
-- a6c36415b0dfb3e4

-- name: StreamClaims[0][8]
-- 01ab9dee5695f849

-- name: StreamClaims[0][9]
-- 2cb5ef4eecc6072e

-- name: StreamClaims[1][0]
WITH t AS MATERIALIZED (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now),
other AS MATERIALIZED (
  SELECT (SELECT 1 FROM parley_promotion x WHERE x.queue_id = $1
           ORDER BY x.queue_id, x.level DESC, x.since LIMIT 1) IS NOT NULL
      OR (SELECT 1 FROM parley_post x
           WHERE x.queue_id = $1 AND x.blocked = 0 AND x.lease_until < (SELECT now FROM t)
           ORDER BY x.queue_id, x.priority DESC, x.since LIMIT 1) IS NOT NULL AS yes),
ready AS MATERIALIZED (
  SELECT e.group_id, g.free
    FROM (SELECT x.group_id, x.stream_id FROM parley_ready x
           WHERE x.queue_id = $1
           ORDER BY x.queue_id, x.priority DESC, x.since
           LIMIT 5000) e
   CROSS JOIN LATERAL (
           SELECT g.blocked = 0 AND g.lease_until < (SELECT now FROM t) AS free FROM parley_grp g
            WHERE g.group_id = e.group_id
              AND EXISTS (SELECT 1 FROM parley_grp y
                           WHERE y.group_id = e.group_id AND y.blocked = 0
                             AND y.lease_until < (SELECT now FROM t))
              AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = e.stream_id)
              FOR NO KEY UPDATE SKIP LOCKED) g
   WHERE NOT (SELECT yes FROM other) AND e.group_id NOT IN (
           SELECT g.group_id FROM parley_grp g
            WHERE g.queue_id = $1 AND g.lease_until <> 0 AND g.lease_until > (SELECT now FROM t)
            ORDER BY g.queue_id, g.lease_until
            LIMIT 20000)
   LIMIT 1)
SELECT v.catalog_version, q.enabled,
       CASE WHEN f.group_id IS NULL
            THEN (SELECT (-e.priority::bigint * 10000000000000000 + e.since) FROM (SELECT x.priority, x.since FROM parley_ready x
                                                  WHERE x.queue_id = $1
                                                  ORDER BY x.queue_id, x.priority DESC, x.since
                                                  LIMIT 5000) e OFFSET 5000 - 1) END,
       CASE WHEN f.group_id IS NULL
            THEN EXISTS (SELECT 1 FROM (SELECT x.group_id FROM parley_ready x
                                         WHERE x.queue_id = $1
                                         ORDER BY x.queue_id, x.priority DESC, x.since
                                         LIMIT 5000) e
                          CROSS JOIN LATERAL (SELECT 1 FROM parley_grp g
                                               WHERE g.group_id = e.group_id AND g.blocked = 0 LIMIT 1) g)
              OR (SELECT 1 FROM (SELECT 1 FROM parley_post x
                                  WHERE x.queue_id = $1 AND x.blocked = 0
                                  ORDER BY x.queue_id, x.priority DESC, x.since
                                  LIMIT 1) p) IS NOT NULL END,
       f.group_id, f.free
  FROM parley_meta v
  LEFT JOIN LATERAL (SELECT x.enabled FROM parley_queue x WHERE x.queue_id = $1) q ON true
  LEFT JOIN ready f ON true
 WHERE NOT (SELECT yes FROM other)

-- name: StreamClaims[1][10]
-- 8c83b9e83d051451

-- name: StreamClaims[1][1]
-- 18273767a683d2dd

-- name: StreamClaims[1][2]
-- 6138be6b243080c0

-- name: StreamClaims[1][3]
-- 21da73743eecc06e

-- name: StreamClaims[1][4]
-- 2c8aec6ee6bf51f3

-- name: StreamClaims[1][5]
-- a751562093dac6f5

-- name: StreamClaims[1][6]
-- ebcd7ef1bb0d7bf2

-- name: StreamClaims[1][7]
-- 0ecdbb8499412abc

-- name: StreamClaims[1][8]
-- 932b664064986462

-- name: StreamClaims[1][9]
-- c11abc68980735ee

-- name: TimerDelete
DELETE FROM parley_timer WHERE handle = $1 AND kind + 0 = $2

-- name: TimerExpire
DELETE FROM parley_timer WHERE handle = $1 AND kind + 0 = $2 AND due <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint

-- name: TimerPut
INSERT INTO parley_timer (handle, kind, due, queue_id) VALUES ($1, $2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $3, $4)
ON CONFLICT (handle, kind) DO UPDATE SET due = excluded.due, queue_id = excluded.queue_id

-- name: TimerQueue
UPDATE parley_timer SET queue_id = $1 WHERE handle = $2 AND kind + 0 = $3

-- name: TimerTry
SELECT 1 FROM parley_timer WHERE handle = $1 AND kind + 0 = $2
FOR NO KEY UPDATE SKIP LOCKED

-- name: TimersDelete
DELETE FROM parley_timer WHERE handle = $1

-- name: Waiting
SELECT 1
 WHERE (SELECT 1
          FROM (SELECT x.group_id FROM parley_ready x
                 WHERE x.queue_id = $1
                 ORDER BY x.queue_id, x.priority DESC, x.since) r
         CROSS JOIN LATERAL (SELECT 1 FROM parley_grp g
                              WHERE g.group_id = r.group_id AND g.blocked = 0 LIMIT 1) g
         LIMIT 1) IS NOT NULL
    OR (SELECT 1
          FROM (SELECT x.post_id FROM parley_post x
                 WHERE x.queue_id = $2 AND x.blocked = 0
                 ORDER BY x.queue_id, x.priority DESC, x.since
                 LIMIT 1) p) IS NOT NULL
