-- name: Extend
WITH g AS MATERIALIZED (
  SELECT k.id, k.fence FROM unnest((SELECT $1::uuid[]), (SELECT $2::bigint[])) k(id, fence)),
p AS MATERIALIZED (
  SELECT k.id, k.fence FROM unnest((SELECT $3::uuid[]), (SELECT $4::bigint[])) k(id, fence)),
eg AS (
  UPDATE parley_grp y SET lease_until = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $5
   WHERE y.ctid = ANY (ARRAY(
           SELECT x.ctid FROM g
            CROSS JOIN LATERAL (
                    SELECT z.ctid FROM parley_grp z
                     WHERE z.group_id = g.id AND z.fence = g.fence AND z.lease_until <> 0
                       FOR NO KEY UPDATE SKIP LOCKED) x))
  RETURNING y.group_id),
ep AS (
  UPDATE parley_post y SET lease_until = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $5
   WHERE y.ctid = ANY (ARRAY(
           SELECT x.ctid FROM p
            CROSS JOIN LATERAL (
                    SELECT z.ctid FROM parley_post z
                     WHERE z.post_id = p.id AND z.fence = p.fence AND z.lease_until <> 0
                       FOR NO KEY UPDATE SKIP LOCKED) x))
  RETURNING y.post_id)
SELECT (SELECT count(*) FROM g
         WHERE g.id NOT IN (SELECT eg.group_id FROM eg)
           AND NOT EXISTS (SELECT 1 FROM parley_grp z
                            WHERE z.group_id = g.id AND z.fence = g.fence AND z.lease_until > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
     + (SELECT count(*) FROM p
         WHERE p.id NOT IN (SELECT ep.post_id FROM ep)
           AND NOT EXISTS (SELECT 1 FROM parley_post z
                            WHERE z.post_id = p.id AND z.fence = p.fence AND z.lease_until > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))

-- name: Finish
WITH h AS MATERIALIZED (
  SELECT s.tid AS stream_tid, s.kind, r.tid, r.since AS stands, m.since AS first, g.blocked
    FROM unnest((SELECT $1::uuid[])) k(id)
   CROSS JOIN LATERAL (
           SELECT y.ctid AS tid, y.kind, y.queue_id, y.group_id FROM parley_stream y
            WHERE y.stream_id = k.id LIMIT 1) s
    LEFT JOIN LATERAL (
           SELECT y.ctid AS tid, y.since FROM parley_ready y
            WHERE y.group_id = s.group_id AND y.stream_id = k.id
            LIMIT 1) r ON true
    LEFT JOIN LATERAL (
           SELECT y.since FROM parley_message y
            WHERE y.stream_id = k.id ORDER BY y.seq LIMIT 1) m ON true
    LEFT JOIN LATERAL (
           SELECT y.blocked FROM parley_grp y WHERE y.group_id = s.group_id LIMIT 1) g ON true),
gone AS (
  DELETE FROM parley_stream y
   WHERE y.ctid = ANY (ARRAY(SELECT h.stream_tid FROM h WHERE h.kind < 2 AND h.first IS NULL))),
out AS (
  DELETE FROM parley_ready y
   WHERE y.ctid = ANY (ARRAY(SELECT h.tid FROM h
                              WHERE h.tid IS NOT NULL AND (h.first IS NULL OR h.blocked <> 0))))
UPDATE parley_ready y
   SET since = (SELECT m.since FROM parley_message m
                 WHERE m.stream_id = y.stream_id ORDER BY m.seq LIMIT 1)
 WHERE y.ctid = ANY (ARRAY(SELECT h.tid FROM h
                            WHERE h.tid IS NOT NULL AND h.blocked = 0 AND h.first > h.stands))

-- name: Guards
SELECT x.stream_id FROM unnest((SELECT $1::uuid[])) WITH ORDINALITY k(id, n)
 CROSS JOIN LATERAL (
         SELECT z.stream_id FROM parley_stream z WHERE z.stream_id = k.id
            FOR NO KEY UPDATE SKIP LOCKED) x

-- name: Keep
INSERT INTO parley_processed (post_id, queue_id, name, type, body, headers, keep_until)
SELECT m.message_id, $4::bigint, k.name, m.type, m.body, m.headers, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $5
  FROM unnest((SELECT $1::uuid[]), (SELECT $2::bigint[]), (SELECT $3::text[])) k(stream_id, seq, name)
 CROSS JOIN LATERAL (
         SELECT x.* FROM parley_message x
          WHERE x.stream_id = k.stream_id AND x.seq = k.seq LIMIT 1) m

-- name: KeepPosts
INSERT INTO parley_processed (post_id, queue_id, name, type, body, headers, keep_until)
SELECT p.post_id, p.queue_id, '', p.type, p.body, p.headers, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $2
  FROM unnest((SELECT $1::uuid[])) k(id)
 CROSS JOIN LATERAL (SELECT x.* FROM parley_post x WHERE x.post_id = k.id LIMIT 1) p

-- name: Reclaim
WITH g AS (
  UPDATE parley_grp y SET lease_until = 0, owner = ''
   WHERE y.ctid = ANY (ARRAY(
           SELECT x.ctid FROM unnest((SELECT $1::uuid[]), (SELECT $2::bigint[])) k(id, fence)
            CROSS JOIN LATERAL (
                    SELECT z.ctid FROM parley_grp z
                     WHERE z.group_id = k.id AND z.fence = k.fence AND z.lease_until <> 0
                       AND (SELECT v.schema_version FROM parley_meta v) <= 12
                       FOR NO KEY UPDATE SKIP LOCKED) x))
  RETURNING y.group_id),
p AS (
  UPDATE parley_post y SET lease_until = 0, owner = ''
   WHERE y.ctid = ANY (ARRAY(
           SELECT x.ctid FROM unnest((SELECT $3::uuid[]), (SELECT $4::bigint[])) k(id, fence)
            CROSS JOIN LATERAL (
                    SELECT z.ctid FROM parley_post z
                     WHERE z.post_id = k.id AND z.fence = k.fence AND z.lease_until <> 0
                       AND (SELECT v.schema_version FROM parley_meta v) <= 12
                       FOR NO KEY UPDATE SKIP LOCKED) x))
  RETURNING y.post_id)
SELECT group_id FROM g UNION ALL SELECT post_id FROM p

-- name: Remove
WITH k AS MATERIALIZED (
  SELECT x.tid, k.dropped
    FROM unnest((SELECT $1::uuid[]), (SELECT $2::bigint[]), (SELECT $4::bigint[])) k(stream_id, seq, dropped)
   CROSS JOIN LATERAL (
           SELECT z.ctid AS tid FROM parley_message z
            WHERE z.stream_id = k.stream_id AND z.seq = k.seq LIMIT 1) x),
d AS (
  DELETE FROM parley_message y WHERE y.ctid = ANY (ARRAY(SELECT k.tid FROM k))
  RETURNING 1)
SELECT (SELECT count(*) FROM d) - (SELECT coalesce(sum(k.dropped), 0) FROM k), s.stream_id
  FROM (SELECT 1) one
  LEFT JOIN LATERAL (
         SELECT x.stream_id FROM unnest((SELECT $3::uuid[])) WITH ORDINALITY k(id, n)
          CROSS JOIN LATERAL (
                  SELECT z.stream_id FROM parley_stream z WHERE z.stream_id = k.id
                     FOR NO KEY UPDATE SKIP LOCKED) x) s ON true

-- name: RemovePosts
DELETE FROM parley_post y
 WHERE y.ctid = ANY (ARRAY(
         SELECT x.ctid FROM unnest((SELECT $1::uuid[])) k(id)
          CROSS JOIN LATERAL (SELECT z.ctid FROM parley_post z WHERE z.post_id = k.id LIMIT 1) x))

-- name: Restore
INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
SELECT s.queue_id, s.group_id, k.id, s.priority, greatest(m.since, $3)
  FROM unnest((SELECT $1::uuid[])) k(id)
 CROSS JOIN LATERAL (
         SELECT y.queue_id, y.group_id, y.priority FROM parley_stream y
          WHERE y.stream_id = k.id AND y.group_id = $2 LIMIT 1) s
 CROSS JOIN LATERAL (
         SELECT y.since FROM parley_message y
          WHERE y.stream_id = k.id ORDER BY y.seq LIMIT 1) m
ON CONFLICT (group_id, stream_id) DO UPDATE SET since = excluded.since
 WHERE parley_ready.since <> excluded.since

-- name: Retain
INSERT INTO parley_retained (handle, stream_id, seq, sent, message_id, kind, type, body, headers, since, kept)
SELECT k.handle, m.stream_id, m.seq, 0, m.message_id, m.kind, m.type, m.body, m.headers, m.since, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
  FROM unnest((SELECT $1::uuid[]), (SELECT $2::uuid[]), (SELECT $3::bigint[])) k(handle, stream_id, seq)
 CROSS JOIN LATERAL (
         SELECT x.* FROM parley_message x
          WHERE x.stream_id = k.stream_id AND x.seq = k.seq LIMIT 1) m
