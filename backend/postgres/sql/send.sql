-- name: Send
-- axis: copy
-- A send is one statement. After a wait for the guard its conditions are checked again on the
-- current row. Nothing comes back if the message is refused; sendState says why.
--
-- $1 from, $2 message id, $3 type, $4 body, $5 kind, $6 catalog version, $7 headers
WITH s AS (
  UPDATE parley_stream x
     SET next_seq = x.next_seq + 1, touched = :now
   WHERE x.stream_id = $1 AND x.kind = 2 AND x.closed = 0 AND x.held = 0 AND x.queue_id IS NOT NULL
     AND (SELECT v.catalog_version FROM parley_meta v) = $6
     AND (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = x.queue_id) = 1
     AND NOT EXISTS (SELECT 1 FROM parley_closing c WHERE c.handle = $1)
  RETURNING x.stream_id, x.group_id, x.queue_id, x.priority, x.next_seq - 1 AS seq),
m AS (
  INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since)
  SELECT s.stream_id, s.seq, $2, $5, $3, $4, $7, :now FROM s),
:copy
r AS (
  INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
  SELECT s.queue_id, s.group_id, s.stream_id, s.priority, :now FROM s
  ON CONFLICT DO NOTHING)
SELECT s.seq, s.queue_id FROM s

-- name: SendMany
-- Messages on different conversations, which are sent if their guards are free and none of them is refused.
-- Otherwise nothing comes back. Should only some of them have been sent, it fails, with division_by_zero.
--
-- $1 from, $2 message ids, $3 types, $4 bodies, $5 kinds, $6 headers, $7 catalog version
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
     SET next_seq = x.next_seq + 1, touched = :now
   WHERE x.stream_id = ANY (ARRAY(SELECT g.stream_id FROM g))
     AND (SELECT count(*) FROM g) = cardinality($1::uuid[])
     AND (SELECT v.catalog_version FROM parley_meta v) = $7
  RETURNING x.stream_id, x.group_id, x.queue_id, x.priority, x.next_seq - 1 AS seq),
m AS (
  INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since)
  SELECT s.stream_id, s.seq, k.message_id, k.kind, k.type, k.body, nullif(k.headers, ''), :now
    FROM s JOIN k ON k.id = s.stream_id),
r AS (
  INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
  SELECT s.queue_id, s.group_id, s.stream_id, s.priority, :now
    FROM s JOIN k ON k.id = s.stream_id ORDER BY k.n
  ON CONFLICT DO NOTHING)
SELECT k.n, s.seq, s.queue_id / (SELECT (count(*) = cardinality($1::uuid[]))::int FROM s)
  FROM s JOIN k ON k.id = s.stream_id

-- name: Copy
-- What makes it keep a copy for the sender.
c AS (
  INSERT INTO parley_retained (handle, stream_id, seq, sent, message_id, kind, type, body, headers, since, kept)
  SELECT s.stream_id, s.stream_id, s.seq, 1, $2, $5, $3, $4, $7, :now, :now FROM s),

-- name: SendState
-- The guards of a batch, locked in the order of $1, and what else a sender depends on. The columns
-- of the stream are those of the locked row. The counts of closings are as of the statement's
-- beginning, which is recent enough: the caller cannot know of later ones.
--
-- $1 streams
SELECT s.stream_id, s.kind, s.group_id, s.queue_id, s.endpoint, s.priority, s.next_seq, s.closed,
       s.held,
       (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = s.queue_id),
       (SELECT count(*) FROM parley_closing c WHERE c.handle = s.stream_id),
       (SELECT v.catalog_version FROM parley_meta v)
  FROM unnest((SELECT $1::uuid[])) WITH ORDINALITY k(id, n)
 CROSS JOIN LATERAL (
        SELECT x.* FROM parley_stream x WHERE x.stream_id = k.id FOR NO KEY UPDATE) s
 ORDER BY k.n

-- name: KeyState
-- The streams of keys, locked in the order of the arrays. If a key is missing, none of them comes
-- back, because it has to be made first.
--
-- $1 queues, $2 names
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

-- name: PostKeyed
-- A post with an existing key is one statement, like a send. Nothing comes back if the key is new
-- or removed, the catalog is another one, or the queue is off. Then PostNewKey is tried, and after
-- that the statements for several posts.
--
-- $1 queue, $2 key, $3 message id, $4 type, $5 body, $6 rank, $7 catalog version, $8 headers
WITH s AS (
  UPDATE parley_stream x
     SET next_seq = x.next_seq + 1, priority = $6, touched = :now
   WHERE x.stream_id = (SELECT y.stream_id FROM parley_key y WHERE y.queue_id = $1 AND y.name = $2 LIMIT 1)
     AND (SELECT v.catalog_version FROM parley_meta v) = $7
     AND (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = $1) = 1
  RETURNING x.stream_id, x.group_id, x.priority, x.next_seq - 1 AS seq),
m AS (
  INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since)
  SELECT s.stream_id, s.seq, $3, 4, $4, $5, $8, :now FROM s),
r AS (
  INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
  SELECT $1, s.group_id, s.stream_id, s.priority, :now FROM s
  ON CONFLICT DO NOTHING)
SELECT s.seq FROM s

-- name: PostNewKey
-- A post with a new key. Nothing comes back if another transaction has made the key, or if
-- PostKeyed would also return nothing.
--
-- $1 queue, $2 key, $3 message id, $4 type, $5 body, $6 rank, $7 catalog version,
-- $8 id of the key's group and stream, $9 headers
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
  SELECT k.stream_id, 3, k.stream_id, k.queue_id, $6::smallint, 1, 0, 0, :now FROM k),
m AS (
  INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since)
  SELECT k.stream_id, 0, $3::uuid, 4, $4, $5::bytea, $9, :now FROM k),
r AS (
  INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
  SELECT k.queue_id, k.stream_id, k.stream_id, $6::smallint, :now FROM k)
SELECT k.stream_id FROM k

-- name: NewKeys
-- New keys, with their groups and streams. If two transactions make the same key at once, the
-- second waits here, and gets no row for it.
--
-- $1 queues, $2 names, $3 ids
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
  SELECT k.stream_id, 3, k.stream_id, k.queue_id, 0, 0, 0, 0, :now FROM k)
SELECT k.queue_id, k.name, k.stream_id FROM k

-- name: Append
-- Messages appended to streams whose guards are ours.
--
-- messages: $1 streams, $2 seqs, $3 ids, $4 kinds, $5 types, $6 bodies, $7 headers
-- streams: $8 ids, $9 next numbers, $10 queues, $11 groups, $12 priorities
WITH s AS MATERIALIZED (
  SELECT k.* FROM unnest((SELECT $8::uuid[]), (SELECT $9::bigint[]), (SELECT $10::bigint[]), (SELECT $11::uuid[]), (SELECT $12::smallint[]))
         WITH ORDINALITY k(id, next, queue_id, group_id, priority, n)),
m AS (
  INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since)
  SELECT k.stream_id, k.seq, k.message_id, k.kind, k.type, k.body, nullif(k.headers, ''), :now
    FROM unnest((SELECT $1::uuid[]), (SELECT $2::bigint[]), (SELECT $3::uuid[]), (SELECT $4::smallint[]), (SELECT $5::text[]), (SELECT $6::bytea[]),
                (SELECT $7::text[])) k(stream_id, seq, message_id, kind, type, body, headers)),
r AS (
  INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
  SELECT s.queue_id, s.group_id, s.id, s.priority, :now FROM s ORDER BY s.n
  ON CONFLICT DO NOTHING)
UPDATE parley_stream x
   SET next_seq = (SELECT s.next FROM s WHERE s.id = x.stream_id),
       priority = (SELECT s.priority FROM s WHERE s.id = x.stream_id),
       touched = :now
 WHERE x.ctid = ANY (ARRAY(
         SELECT y.ctid FROM s
          CROSS JOIN LATERAL (SELECT z.ctid FROM parley_stream z WHERE z.stream_id = s.id LIMIT 1) y))

-- name: PostMany
-- Posts without key, delay or unique value. If the catalog is another one or a queue is off, it adds none.
--
-- $1 ids, $2 queues, $3 ranks, $4 types, $5 bodies, $6 headers, $7 catalog version or 0, $8 the queues, each once
INSERT INTO parley_post (post_id, queue_id, priority, type, body, headers, since)
SELECT k.id, k.queue_id, k.priority, k.type, k.body, nullif(k.headers, ''), :now
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
-- name: PostLater
-- PostOne in a batch that commits before its results are read. If the catalog is another one or the queue is off,
-- PostOne adds nothing. PostLater then fails with division_by_zero, and the batch with it.
--
-- $1 message id, $2 rank, $3 type, $4 body, $5 headers, $6 queue, $7 catalog version
WITH p AS (
  INSERT INTO parley_post (post_id, queue_id, priority, since, type, body, headers)
  SELECT $1, q.queue_id, $2, :now, $3, $4, $5
    FROM parley_queue q
   CROSS JOIN parley_meta v
   WHERE q.queue_id = $6 AND q.enabled = 1 AND v.catalog_version = $7
  RETURNING 1)
SELECT 1 / (SELECT count(*) FROM p)
-- name: PostJoined
-- A post in a joined transaction, which returns the number of that: see commits.
--
-- $1 message id, $2 rank, $3 type, $4 body, $5 headers, $6 queue, $7 catalog version
INSERT INTO parley_post (post_id, queue_id, priority, since, type, body, headers)
SELECT $1, q.queue_id, $2, :now, $3, $4, $5
  FROM parley_queue q
 CROSS JOIN parley_meta v
 WHERE q.queue_id = $6 AND q.enabled = 1 AND v.catalog_version = $7
RETURNING pg_current_xact_id()::text
-- name: Notify
-- $1 the channel, or NULL if the store does not know its schema yet; $2 a channel's name in a schema
SELECT pg_notify(coalesce($1, left(current_schema() || $2, 63)), $3)
-- name: Number
SELECT pg_current_xact_id()::text
-- name: Became
-- $1 numbers of transactions, with commas between. The server no longer knows what became of old ones.
SELECT n, coalesce(pg_xact_status(n::xid8), 'committed') FROM unnest(string_to_array($1, ',')) n
-- name: JoinPosts
-- Delayed posts move to their queues, in the order in which they are due. The row of a delayed post
-- never changes, so the locked row is the row that was read.
--
-- $1 ids
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
SELECT d.post_id, d.queue_id, d.priority, d.type, d.body, d.headers, d.uniq, :now
  FROM d
 ORDER BY d.due, d.post_id
