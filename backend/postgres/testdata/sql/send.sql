-- name: Append
WITH s AS MATERIALIZED (
  SELECT k.* FROM unnest((SELECT $8::uuid[]), (SELECT $9::bigint[]), (SELECT $10::bigint[]), (SELECT $11::uuid[]), (SELECT $12::smallint[]))
         WITH ORDINALITY k(id, next, queue_id, group_id, priority, n)),
m AS (
  INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since)
  SELECT k.stream_id, k.seq, k.message_id, k.kind, k.type, k.body, nullif(k.headers, ''), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
    FROM unnest((SELECT $1::uuid[]), (SELECT $2::bigint[]), (SELECT $3::uuid[]), (SELECT $4::smallint[]), (SELECT $5::text[]), (SELECT $6::bytea[]),
                (SELECT $7::text[])) k(stream_id, seq, message_id, kind, type, body, headers)),
r AS (
  INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
  SELECT s.queue_id, s.group_id, s.id, s.priority, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM s ORDER BY s.n
  ON CONFLICT DO NOTHING)
UPDATE parley_stream x
   SET next_seq = (SELECT s.next FROM s WHERE s.id = x.stream_id),
       priority = (SELECT s.priority FROM s WHERE s.id = x.stream_id),
       touched = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
 WHERE x.ctid = ANY (ARRAY(
         SELECT y.ctid FROM s
          CROSS JOIN LATERAL (SELECT z.ctid FROM parley_stream z WHERE z.stream_id = s.id LIMIT 1) y))

-- name: Became
SELECT n, coalesce(pg_xact_status(n::xid8), 'committed') FROM unnest(string_to_array($1, ',')) n

-- name: JoinPosts
WITH l AS MATERIALIZED (
  SELECT x.post_id
    FROM unnest((SELECT $1::uuid[])) k(id)
   CROSS JOIN LATERAL (
          SELECT z.post_id FROM parley_delayed z WHERE z.post_id = k.id FOR UPDATE SKIP LOCKED) x),
d AS (
  DELETE FROM parley_delayed y
   WHERE y.ctid = ANY (ARRAY(
           SELECT x.ctid FROM l
            CROSS JOIN LATERAL (SELECT z.ctid FROM parley_delayed z WHERE z.post_id = l.post_id LIMIT 1) x))
  RETURNING y.post_id, y.queue_id, y.priority, y.type, y.body, y.headers, y.uniq, y.due)
INSERT INTO parley_post (post_id, queue_id, priority, type, body, headers, uniq, since)
SELECT d.post_id, d.queue_id, d.priority, d.type, d.body, d.headers, d.uniq, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
  FROM d
 ORDER BY d.due, d.post_id

-- name: KeyState
WITH k AS MATERIALIZED (
  SELECT x.n, y.stream_id
    FROM unnest((SELECT $1::bigint[]), (SELECT $2::text[])) WITH ORDINALITY x(queue_id, name, n)
   CROSS JOIN LATERAL (
          SELECT z.stream_id FROM parley_key z
           WHERE z.queue_id = x.queue_id AND z.name = x.name LIMIT 1) y
   ORDER BY x.n)
SELECT k.n, s.stream_id, s.group_id, s.priority, s.next_seq
  FROM k
 CROSS JOIN LATERAL (
        SELECT x.stream_id, x.group_id, x.priority, x.next_seq FROM parley_stream x
         WHERE x.stream_id = k.stream_id FOR NO KEY UPDATE) s
 WHERE (SELECT count(*) FROM k) = cardinality($1::bigint[])
 ORDER BY k.n

-- name: NewKeys
WITH k AS (
  INSERT INTO parley_key (queue_id, name, stream_id)
  SELECT x.queue_id, x.name, x.id
    FROM unnest((SELECT $1::bigint[]), (SELECT $2::text[]), (SELECT $3::uuid[]))
         WITH ORDINALITY x(queue_id, name, id, n)
   ORDER BY x.n
  ON CONFLICT DO NOTHING
  RETURNING queue_id, name, stream_id),
g AS (
  INSERT INTO parley_grp (group_id, queue_id, service, name)
  SELECT k.stream_id, k.queue_id, '', k.name FROM k),
s AS (
  INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, priority, next_seq, closed, held, touched)
  SELECT k.stream_id, 3, k.stream_id, k.queue_id, 0, 0, 0, 0, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM k)
SELECT k.queue_id, k.name, k.stream_id FROM k

-- name: Notify
SELECT pg_notify(coalesce($1, left(current_schema() || $2, 63)), $3)

-- name: Number
SELECT pg_current_xact_id()::text

-- name: PostJoined
INSERT INTO parley_post (post_id, queue_id, priority, since, type, body, headers)
SELECT $1, q.queue_id, $2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $3, $4, $5
  FROM parley_queue q
 CROSS JOIN parley_meta v
 WHERE q.queue_id = $6 AND q.enabled = 1 AND v.catalog_version = $7
RETURNING pg_current_xact_id()::text

-- name: PostKeyed
WITH s AS (
  UPDATE parley_stream x
     SET next_seq = x.next_seq + 1, priority = $6, touched = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
   WHERE x.stream_id = (SELECT y.stream_id FROM parley_key y WHERE y.queue_id = $1 AND y.name = $2 LIMIT 1)
     AND (SELECT v.catalog_version FROM parley_meta v) = $7
     AND (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = $1) = 1
  RETURNING x.stream_id, x.group_id, x.priority, x.next_seq - 1 AS seq),
m AS (
  INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since)
  SELECT s.stream_id, s.seq, $3, 4, $4, $5, $8, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM s),
r AS (
  INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
  SELECT $1, s.group_id, s.stream_id, s.priority, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM s
  ON CONFLICT DO NOTHING)
SELECT s.seq FROM s

-- name: PostLater
WITH p AS (
  INSERT INTO parley_post (post_id, queue_id, priority, since, type, body, headers)
  SELECT $1, q.queue_id, $2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $3, $4, $5
    FROM parley_queue q
   CROSS JOIN parley_meta v
   WHERE q.queue_id = $6 AND q.enabled = 1 AND v.catalog_version = $7
  RETURNING 1)
SELECT 1 / (SELECT count(*) FROM p)

-- name: PostMany
INSERT INTO parley_post (post_id, queue_id, priority, type, body, headers, since)
SELECT k.id, k.queue_id, k.priority, k.type, k.body, nullif(k.headers, ''), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
  FROM unnest((SELECT $1::uuid[]), (SELECT $2::bigint[]), (SELECT $3::smallint[]), (SELECT $4::text[]), (SELECT $5::bytea[]),
              (SELECT $6::text[]))
       WITH ORDINALITY k(id, queue_id, priority, type, body, headers, n)
 WHERE $7::bigint = 0
    OR (SELECT v.catalog_version FROM parley_meta v) = $7
       AND NOT EXISTS (SELECT 1
                         FROM unnest((SELECT $8::bigint[])) d(id)
                         LEFT JOIN parley_queue q ON q.queue_id = d.id AND q.enabled = 1
                        WHERE q.queue_id IS NULL)
 ORDER BY k.n

-- name: PostNewKey
WITH k AS (
  INSERT INTO parley_key (queue_id, name, stream_id)
  SELECT $1::bigint, $2, $8::uuid
   WHERE (SELECT v.catalog_version FROM parley_meta v) = $7
     AND (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = $1) = 1
  ON CONFLICT DO NOTHING
  RETURNING queue_id, name, stream_id),
g AS (
  INSERT INTO parley_grp (group_id, queue_id, service, name)
  SELECT k.stream_id, k.queue_id, '', k.name FROM k),
s AS (
  INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, priority, next_seq, closed, held, touched)
  SELECT k.stream_id, 3, k.stream_id, k.queue_id, $6::smallint, 1, 0, 0, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM k),
m AS (
  INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since)
  SELECT k.stream_id, 0, $3::uuid, 4, $4, $5::bytea, $9, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM k),
r AS (
  INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
  SELECT k.queue_id, k.stream_id, k.stream_id, $6::smallint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM k)
SELECT k.stream_id FROM k

-- name: SendMany
WITH k AS MATERIALIZED (
  SELECT x.*
    FROM unnest((SELECT $1::uuid[]), (SELECT $2::uuid[]), (SELECT $3::text[]), (SELECT $4::bytea[]), (SELECT $5::smallint[]),
                (SELECT $6::text[])) WITH ORDINALITY x(id, message_id, type, body, kind, headers, n)),
g AS MATERIALIZED (
  SELECT l.stream_id
    FROM k
   CROSS JOIN LATERAL (
          SELECT x.stream_id FROM parley_stream x
           WHERE x.stream_id = k.id AND x.kind = 2 AND x.closed = 0 AND x.held = 0 AND x.queue_id IS NOT NULL
             AND (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = x.queue_id) = 1
             AND NOT EXISTS (SELECT 1 FROM parley_closing c WHERE c.handle = x.stream_id)
             FOR NO KEY UPDATE SKIP LOCKED) l),
s AS (
  UPDATE parley_stream x
     SET next_seq = x.next_seq + 1, touched = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
   WHERE x.stream_id = ANY (ARRAY(SELECT g.stream_id FROM g))
     AND (SELECT count(*) FROM g) = cardinality($1::uuid[])
     AND (SELECT v.catalog_version FROM parley_meta v) = $7
  RETURNING x.stream_id, x.group_id, x.queue_id, x.priority, x.next_seq - 1 AS seq),
m AS (
  INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since)
  SELECT s.stream_id, s.seq, k.message_id, k.kind, k.type, k.body, nullif(k.headers, ''), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
    FROM s JOIN k ON k.id = s.stream_id),
r AS (
  INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
  SELECT s.queue_id, s.group_id, s.stream_id, s.priority, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
    FROM s JOIN k ON k.id = s.stream_id ORDER BY k.n
  ON CONFLICT DO NOTHING)
SELECT k.n, s.seq, s.queue_id / (SELECT (count(*) = cardinality($1::uuid[]))::int FROM s)
  FROM s JOIN k ON k.id = s.stream_id

-- name: SendState
SELECT s.stream_id, s.kind, s.group_id, s.queue_id, s.endpoint, s.priority, s.next_seq, s.closed,
       s.held,
       (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = s.queue_id),
       (SELECT count(*) FROM parley_closing c WHERE c.handle = s.stream_id),
       (SELECT v.catalog_version FROM parley_meta v)
  FROM unnest((SELECT $1::uuid[])) WITH ORDINALITY k(id, n)
 CROSS JOIN LATERAL (
        SELECT x.* FROM parley_stream x WHERE x.stream_id = k.id FOR NO KEY UPDATE) s
 ORDER BY k.n

-- name: Send[0]
WITH s AS (
  UPDATE parley_stream x
     SET next_seq = x.next_seq + 1, touched = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
   WHERE x.stream_id = $1 AND x.kind = 2 AND x.closed = 0 AND x.held = 0 AND x.queue_id IS NOT NULL
     AND (SELECT v.catalog_version FROM parley_meta v) = $6
     AND (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = x.queue_id) = 1
     AND NOT EXISTS (SELECT 1 FROM parley_closing c WHERE c.handle = $1)
  RETURNING x.stream_id, x.group_id, x.queue_id, x.priority, x.next_seq - 1 AS seq),
m AS (
  INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since)
  SELECT s.stream_id, s.seq, $2, $5, $3, $4, $7, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM s),

r AS (
  INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
  SELECT s.queue_id, s.group_id, s.stream_id, s.priority, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM s
  ON CONFLICT DO NOTHING)
SELECT s.seq, s.queue_id FROM s

-- name: Send[1]
-- beef37756a1a9713
