-- name: BeginDialogs
WITH k AS MATERIALIZED (
  SELECT x.*
    FROM unnest((SELECT $2::uuid[]), (SELECT $3::uuid[]), (SELECT $4::uuid[]), (SELECT $5::text[]), (SELECT $6::text[]),
                (SELECT $7::text[]), (SELECT $8::bigint[]), (SELECT $9::smallint[]), (SELECT $10::bigint[]),
                (SELECT $11::smallint[]), (SELECT $12::bigint[])) WITH ORDINALITY
         x(handle, conversation, peer, service, far, contract, queue_id, priority, far_queue, far_priority, messages, n)),
ok AS MATERIALIZED (
  SELECT 1
   WHERE (SELECT v.catalog_version FROM parley_meta v) = $1
     AND NOT EXISTS (SELECT 1 FROM k
                      WHERE k.messages > 0
                        AND (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = k.far_queue) IS DISTINCT FROM 1)),
d AS MATERIALIZED (SELECT k.* FROM k WHERE EXISTS (SELECT 1 FROM ok)),
sides AS MATERIALIZED (
  SELECT d.n, 1 AS initiator, d.handle, d.conversation, d.peer, d.service, d.far, d.contract, d.queue_id, d.priority,
         d.far_queue, d.far_priority, d.messages
    FROM d
   UNION ALL
  SELECT d.n, 0, d.peer, d.conversation, d.handle, d.far, d.service, d.contract, d.far_queue, d.far_priority,
         d.queue_id, d.priority, 0
    FROM d),
g AS (
  INSERT INTO parley_grp (group_id, queue_id, service, name)
  SELECT s.handle, s.queue_id, s.service, '' FROM sides s WHERE s.queue_id <> 0),
e AS (
  INSERT INTO parley_endpoint (handle, conversation, peer, initiator, service, far, contract, queue_id, group_id, priority, begun)
  SELECT s.handle, s.conversation, s.peer, s.initiator, s.service, s.far, s.contract, s.queue_id, s.handle, s.priority, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
    FROM sides s WHERE s.queue_id <> 0),
t AS (
  INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, endpoint, priority, next_seq, closed, held, touched)
  SELECT s.handle, 2, CASE WHEN s.far_queue <> 0 THEN s.peer END, nullif(s.far_queue, 0),
         CASE WHEN s.far_queue <> 0 THEN s.peer END,
         CASE WHEN s.far_queue <> 0 THEN s.far_priority ELSE s.priority END, s.messages, 0, 0, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
    FROM sides s),
m AS (
  INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since)
  SELECT x.stream_id, x.seq, x.message_id, x.kind, x.type, x.body, nullif(x.headers, ''), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
    FROM unnest((SELECT $13::uuid[]), (SELECT $14::bigint[]), (SELECT $15::uuid[]), (SELECT $16::smallint[]), (SELECT $17::text[]),
                (SELECT $18::bytea[]), (SELECT $19::text[])) x(stream_id, seq, message_id, kind, type, body, headers)
   WHERE EXISTS (SELECT 1 FROM ok)),
r AS (
  INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
  SELECT d.far_queue, d.peer, d.handle, d.far_priority, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM d WHERE d.messages > 0 ORDER BY d.n)
SELECT 1 FROM ok

-- name: ClosingDelete
DELETE FROM parley_closing WHERE handle = $1

-- name: ClosingInsert
INSERT INTO parley_closing (handle, id, kind, by_peer, code, description)
VALUES ($1, $2, $3, $4, $5, $6)

-- name: ClosingsDelete
DELETE FROM parley_closing WHERE handle IN ($1, $2)

-- name: DropUnread
WITH side AS MATERIALIZED (SELECT $1::uuid AS group_id, $2::uuid AS handle),
streams AS MATERIALIZED (
  SELECT e.handle, e.group_id, x.stream_id, x.kind, x.tid
    FROM side e
   CROSS JOIN LATERAL (
           SELECT y.stream_id, y.kind, y.ctid AS tid FROM parley_stream y
            WHERE y.group_id = e.group_id AND y.endpoint = e.handle OFFSET 0) x),
messages AS MATERIALIZED (
  SELECT x.handle, x.stream_id, x.kind, m.seq, m.message_id, m.tid
    FROM streams x
   CROSS JOIN LATERAL (
           SELECT y.seq, y.message_id, y.ctid AS tid FROM parley_message y
            WHERE y.stream_id = x.stream_id ORDER BY y.seq OFFSET 0) m),
dropped AS (
  DELETE FROM parley_message y WHERE y.ctid = ANY (ARRAY(SELECT m.tid FROM messages m))),
failures AS (
  DELETE FROM parley_failure y WHERE y.ctid = ANY (ARRAY(
           SELECT f.tid FROM messages m
            CROSS JOIN LATERAL (
                    SELECT z.ctid AS tid FROM parley_failure z WHERE z.message_id = m.message_id LIMIT 1) f))),
notes AS (
  DELETE FROM parley_stream y WHERE y.ctid = ANY (ARRAY(SELECT x.tid FROM streams x WHERE x.kind < 2))),
markers AS (
  DELETE FROM parley_ready y WHERE y.ctid = ANY (ARRAY(
           SELECT r.tid FROM streams x
            CROSS JOIN LATERAL (
                    SELECT z.ctid AS tid FROM parley_ready z
                     WHERE z.group_id = x.group_id AND z.stream_id = x.stream_id AND x.kind < 2 LIMIT 1) r)))
SELECT x.stream_id, x.kind, m.seq
  FROM streams x
  LEFT JOIN messages m ON m.stream_id = x.stream_id
 ORDER BY x.stream_id, m.seq

-- name: EndFirst
WITH k AS MATERIALIZED (
  SELECT x.handle, x.message_id FROM unnest((SELECT $1::uuid[]), (SELECT $2::uuid[])) x(handle, message_id)),
s AS (
  UPDATE parley_stream x
     SET closed = 1, next_seq = x.next_seq + 1, touched = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
   WHERE x.stream_id = ANY (ARRAY(SELECT k.handle FROM k)) AND x.kind = 2 AND x.closed <> 1 AND x.held = 0 AND x.queue_id IS NOT NULL
     AND (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = x.queue_id) = 1
     AND EXISTS (SELECT 1 FROM parley_endpoint e WHERE e.handle = x.stream_id AND e.closed_at IS NULL)
     AND NOT EXISTS (SELECT 1 FROM parley_closing c WHERE c.handle = x.stream_id)
     AND NOT EXISTS (SELECT 1 FROM parley_closing c WHERE c.handle = x.endpoint AND c.kind = 1)
  RETURNING x.stream_id, x.group_id, x.queue_id, x.endpoint, x.priority, x.next_seq - 1 AS seq,
            (SELECT k.message_id FROM k WHERE k.handle = x.stream_id) AS message_id),
side AS (
  UPDATE parley_endpoint e SET closed_at = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
   WHERE e.handle = ANY (ARRAY(SELECT s.stream_id FROM s))
  RETURNING e.handle, e.group_id),
word AS (
  INSERT INTO parley_closing (handle, id, kind, by_peer)
  SELECT s.endpoint, s.message_id, 0, 1 FROM s),
message AS (
  INSERT INTO parley_message (stream_id, seq, message_id, kind, type, since)
  SELECT s.stream_id, s.seq, s.message_id, 3, $3, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM s),
ready AS (
  INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
  SELECT s.queue_id, s.group_id, s.stream_id, s.priority, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM s
  ON CONFLICT DO NOTHING),
timers AS (DELETE FROM parley_timer t WHERE t.handle = ANY (ARRAY(SELECT s.stream_id FROM s))),
copies AS (DELETE FROM parley_retained c WHERE c.handle = ANY (ARRAY(SELECT s.stream_id FROM s))),
streams AS MATERIALIZED (
  SELECT e.handle, e.group_id, x.stream_id, x.kind, x.tid
    FROM side e
   CROSS JOIN LATERAL (
           SELECT y.stream_id, y.kind, y.ctid AS tid FROM parley_stream y
            WHERE y.group_id = e.group_id AND y.endpoint = e.handle OFFSET 0) x),
messages AS MATERIALIZED (
  SELECT x.handle, x.stream_id, x.kind, m.seq, m.message_id, m.tid
    FROM streams x
   CROSS JOIN LATERAL (
           SELECT y.seq, y.message_id, y.ctid AS tid FROM parley_message y
            WHERE y.stream_id = x.stream_id ORDER BY y.seq OFFSET 0) m),
dropped AS (
  DELETE FROM parley_message y WHERE y.ctid = ANY (ARRAY(SELECT m.tid FROM messages m))),
failures AS (
  DELETE FROM parley_failure y WHERE y.ctid = ANY (ARRAY(
           SELECT f.tid FROM messages m
            CROSS JOIN LATERAL (
                    SELECT z.ctid AS tid FROM parley_failure z WHERE z.message_id = m.message_id LIMIT 1) f))),
notes AS (
  DELETE FROM parley_stream y WHERE y.ctid = ANY (ARRAY(SELECT x.tid FROM streams x WHERE x.kind < 2))),
markers AS (
  DELETE FROM parley_ready y WHERE y.ctid = ANY (ARRAY(
           SELECT r.tid FROM streams x
            CROSS JOIN LATERAL (
                    SELECT z.ctid AS tid FROM parley_ready z
                     WHERE z.group_id = x.group_id AND z.stream_id = x.stream_id AND x.kind < 2 LIMIT 1) r)))
SELECT s.stream_id, s.queue_id, m.stream_id, m.kind, m.seq
  FROM s
  LEFT JOIN messages m ON m.handle = s.stream_id
 ORDER BY m.stream_id, m.seq

-- name: EndGuards
WITH own AS MATERIALIZED (
  SELECT x.stream_id FROM parley_stream x WHERE x.stream_id = $1 FOR NO KEY UPDATE)
SELECT 1
  FROM own
 CROSS JOIN LATERAL (
        SELECT z.stream_id FROM parley_stream z WHERE z.stream_id = $2 AND own.stream_id IS NOT NULL
           FOR NO KEY UPDATE SKIP LOCKED) x

-- name: EndLast
WITH side AS MATERIALIZED (
  SELECT e.handle, e.group_id, e.peer, s.group_id AS far_group, s.endpoint AS far
    FROM unnest((SELECT $1::uuid[])) k(handle)
   CROSS JOIN LATERAL (
           SELECT y.handle, y.group_id, y.peer FROM parley_endpoint y
            WHERE y.handle = k.handle AND y.closed_at IS NULL LIMIT 1) e
   CROSS JOIN LATERAL (
           SELECT y.group_id, y.endpoint FROM parley_stream y
            WHERE y.stream_id = k.handle AND y.held = 0 AND y.queue_id IS NOT NULL LIMIT 1) s
   CROSS JOIN LATERAL (
           SELECT 1 FROM parley_closing y WHERE y.handle = k.handle AND y.kind = 0 LIMIT 1) c
   WHERE (SELECT count(*) FROM parley_stream y
           CROSS JOIN LATERAL (SELECT 1 FROM parley_message m WHERE m.stream_id = y.stream_id LIMIT 1) m
           WHERE y.group_id = s.group_id AND y.endpoint = s.endpoint) = 0),
streams AS MATERIALIZED (
  SELECT e.handle, e.group_id, x.stream_id, x.kind, x.tid
    FROM side e
   CROSS JOIN LATERAL (
           SELECT y.stream_id, y.kind, y.ctid AS tid FROM parley_stream y
            WHERE y.group_id = e.group_id AND y.endpoint = e.handle OFFSET 0) x),
messages AS MATERIALIZED (
  SELECT x.handle, x.stream_id, x.kind, m.seq, m.message_id, m.tid
    FROM streams x
   CROSS JOIN LATERAL (
           SELECT y.seq, y.message_id, y.ctid AS tid FROM parley_message y
            WHERE y.stream_id = x.stream_id ORDER BY y.seq OFFSET 0) m),
dropped AS (
  DELETE FROM parley_message y WHERE y.ctid = ANY (ARRAY(SELECT m.tid FROM messages m))),
failures AS (
  DELETE FROM parley_failure y WHERE y.ctid = ANY (ARRAY(
           SELECT f.tid FROM messages m
            CROSS JOIN LATERAL (
                    SELECT z.ctid AS tid FROM parley_failure z WHERE z.message_id = m.message_id LIMIT 1) f))),
notes AS (
  DELETE FROM parley_stream y WHERE y.ctid = ANY (ARRAY(SELECT x.tid FROM streams x WHERE x.kind < 2))),
markers AS (
  DELETE FROM parley_ready y WHERE y.ctid = ANY (ARRAY(
           SELECT r.tid FROM streams x
            CROSS JOIN LATERAL (
                    SELECT z.ctid AS tid FROM parley_ready z
                     WHERE z.group_id = x.group_id AND z.stream_id = x.stream_id AND x.kind < 2 LIMIT 1) r))),
rest AS MATERIALIZED (
  SELECT x.group_id, x.stream_id, x.tid FROM streams x WHERE x.kind >= 2
   UNION ALL
  SELECT x.group_id, x.stream_id, x.tid
    FROM side
   CROSS JOIN LATERAL (
           SELECT y.group_id, y.stream_id, y.ctid AS tid FROM parley_stream y
            WHERE y.group_id = side.far_group AND y.endpoint = side.far OFFSET 0) x),
places AS (
  DELETE FROM parley_ready y WHERE y.ctid = ANY (ARRAY(
           SELECT r.tid FROM rest x
            CROSS JOIN LATERAL (
                    SELECT z.ctid AS tid FROM parley_ready z
                     WHERE z.group_id = x.group_id AND z.stream_id = x.stream_id LIMIT 1) r))),
guards AS (DELETE FROM parley_stream y WHERE y.ctid = ANY (ARRAY(SELECT x.tid FROM rest x))),
handles AS MATERIALIZED (SELECT side.handle FROM side UNION ALL SELECT side.peer FROM side),
held AS (DELETE FROM parley_held y WHERE y.stream_id = ANY (ARRAY(SELECT h.handle FROM handles h))),
timers AS (DELETE FROM parley_timer y WHERE y.handle = ANY (ARRAY(SELECT h.handle FROM handles h))),
copies AS (DELETE FROM parley_retained y WHERE y.handle = ANY (ARRAY(SELECT h.handle FROM handles h))),
closings AS (DELETE FROM parley_closing y WHERE y.handle = ANY (ARRAY(SELECT h.handle FROM handles h))),
ends AS (DELETE FROM parley_endpoint y WHERE y.handle = ANY (ARRAY(SELECT h.handle FROM handles h)))
SELECT side.handle, 0, m.stream_id, m.kind, m.seq
  FROM side
  LEFT JOIN messages m ON m.handle = side.handle
 ORDER BY m.stream_id, m.seq

-- name: EndRead
SELECT e.peer, e.group_id, e.closed_at, s.group_id, s.queue_id, s.endpoint, s.priority, s.next_seq,
       s.held, q.enabled,
       (SELECT count(*) FROM parley_closing d WHERE d.handle = e.peer AND d.kind = 1),
       (SELECT count(*) FROM parley_timer a WHERE a.handle = e.handle)
     + (SELECT count(*) FROM parley_timer b WHERE b.handle = e.peer),
       (SELECT count(*) FROM parley_retained a WHERE a.handle = e.handle)
     + (SELECT count(*) FROM parley_retained b WHERE b.handle = e.peer),
       (SELECT count(*) FROM parley_held a WHERE a.stream_id = e.handle)
     + (SELECT count(*) FROM parley_held b WHERE b.stream_id = e.peer),
       c.kind, c.by_peer
  FROM parley_endpoint e
  JOIN parley_stream s ON s.stream_id = e.handle
  LEFT JOIN parley_queue q ON q.queue_id = s.queue_id
  LEFT JOIN parley_closing c ON c.handle = e.handle
 WHERE e.handle = $1

-- name: EndpointClose
UPDATE parley_endpoint SET closed_at = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint WHERE handle = $1

-- name: EndpointDelete
DELETE FROM parley_endpoint WHERE handle = $1

-- name: EndpointFinish
UPDATE parley_endpoint SET finish_at = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $1 WHERE handle = $2

-- name: EndpointHome
SELECT e.group_id, e.queue_id, e.priority, e.peer, e.service, e.closed_at, q.enabled
  FROM parley_endpoint e
  JOIN parley_queue q ON q.queue_id = e.queue_id
 WHERE e.handle = $1

-- name: EndpointInsert
INSERT INTO parley_endpoint (handle, conversation, peer, initiator, service, far,
       contract, queue_id, group_id, priority, lifetime_until, begun)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $11, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)

-- name: EndpointMove
UPDATE parley_endpoint SET group_id = $1 WHERE handle = $2

-- name: EndpointRead
SELECT e.handle, e.conversation, e.peer, e.initiator, e.service, e.far, e.contract, e.queue_id,
       e.group_id, e.priority, e.lifetime_until, e.closed_at, s.next_seq, s.closed,
       c.id, c.kind, c.by_peer, c.code, c.description, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
  FROM parley_endpoint e
  LEFT JOIN parley_stream s ON s.stream_id = e.handle
  LEFT JOIN parley_closing c ON c.handle = e.handle
 WHERE e.handle = $1

-- name: EndpointsDelete
DELETE FROM parley_endpoint WHERE handle IN ($1, $2)

-- name: EndpointsOfGroup
SELECT e.handle, e.conversation, e.peer, e.initiator, e.service, e.far, e.contract, e.queue_id,
       e.group_id, e.priority, e.lifetime_until, e.closed_at, s.next_seq, s.closed,
       c.id, c.kind, c.by_peer, c.code, c.description, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
  FROM parley_endpoint e
  LEFT JOIN parley_stream s ON s.stream_id = e.handle
  LEFT JOIN parley_closing c ON c.handle = e.handle
 WHERE e.group_id = $1
 ORDER BY e.handle

-- name: GuardLock
SELECT 1 FROM parley_stream WHERE stream_id = $1
FOR NO KEY UPDATE

-- name: GuardTry
SELECT 1 FROM parley_stream WHERE stream_id = $1
FOR NO KEY UPDATE SKIP LOCKED

-- name: HeldDelete
DELETE FROM parley_held WHERE stream_id = $1

-- name: HeldInsert
INSERT INTO parley_held (stream_id, seq, message_id, kind, type, body, headers, since, status)
VALUES ($1, $2, $3, $4, $5, $6, $7, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $8)

-- name: HeldMove
UPDATE parley_held SET stream_id = $1, seq = seq + $2, status = $3
 WHERE stream_id = $4 AND type <> $5

-- name: HeldRead
SELECT seq, message_id, kind, type, body, headers, since FROM parley_held
 WHERE stream_id = $1 ORDER BY seq

-- name: MarkerDelete
DELETE FROM parley_ready WHERE group_id = $1 AND stream_id = $2

-- name: MarkerInsert
INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
VALUES ($1, $2, $3, $4, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) ON CONFLICT DO NOTHING

-- name: MarkerMove
UPDATE parley_ready SET group_id = $1
 WHERE group_id = $2 AND stream_id = $3

-- name: MarkerRaise
UPDATE parley_ready SET priority = $1
 WHERE group_id = $2 AND stream_id = $3 AND priority < $4

-- name: MarkerRead
SELECT stream_id FROM parley_ready WHERE group_id = $1 ORDER BY stream_id

-- name: MarkerSince
UPDATE parley_ready SET since = $1
 WHERE group_id = $2 AND stream_id = $3 AND since <> $4

-- name: MarkerTry
SELECT 1 FROM parley_ready WHERE group_id = $1 AND stream_id = $2
FOR NO KEY UPDATE SKIP LOCKED

-- name: MarkersAstray
SELECT s.stream_id
  FROM parley_stream s
  LEFT JOIN parley_ready r
    ON r.group_id = s.group_id AND r.stream_id = s.stream_id
 WHERE s.group_id = $1
   AND coalesce(r.since, -1) <> (SELECT CASE WHEN m.since > $2 THEN m.since ELSE $3 END FROM parley_message m
                                  WHERE m.stream_id = s.stream_id
                                  ORDER BY m.seq LIMIT 1)
 ORDER BY s.priority DESC, s.endpoint, s.kind, s.stream_id
 LIMIT 10000

-- name: MessageDelete
DELETE FROM parley_message WHERE stream_id = $1 AND seq = $2

-- name: MessageFind
SELECT m.stream_id, m.seq, m.uniq, s.group_id, s.queue_id
  FROM parley_message m
  JOIN parley_stream s ON s.stream_id = m.stream_id
 WHERE m.message_id = $1 AND m.kind = 4

-- name: MessageFirst
SELECT seq, since FROM parley_message WHERE stream_id = $1 ORDER BY seq LIMIT 1

-- name: MessageInsert
INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since, uniq)
VALUES ($1, $2, $3, $4, $5, $6, $7, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $8)

-- name: MessageKeys
SELECT seq, message_id FROM parley_message WHERE stream_id = $1 ORDER BY seq

-- name: MessageRead
SELECT m.seq, m.message_id, m.kind, m.type, m.body, m.headers, m.since, m.uniq,
       f.attempts, f.suspicion, f.last_error, f.errors
  FROM parley_message m
  LEFT JOIN parley_failure f ON f.message_id = m.message_id
 WHERE m.stream_id = $1 AND m.seq > $2
 ORDER BY m.seq
 LIMIT $3

-- name: MessagesOfEndpoint
SELECT s.stream_id, s.kind, m.seq, m.message_id, f.message_id
  FROM parley_stream s
  LEFT JOIN LATERAL (
         SELECT x.seq, x.message_id FROM parley_message x
          WHERE x.stream_id = s.stream_id ORDER BY x.seq OFFSET 0) m ON true
  LEFT JOIN LATERAL (
         SELECT x.message_id FROM parley_failure x WHERE x.message_id = m.message_id LIMIT 1) f ON true
 WHERE s.group_id = $1 AND s.endpoint = $2
 ORDER BY s.stream_id, m.seq

-- name: RemoveSides
WITH streams AS MATERIALIZED (
  SELECT x.stream_id, x.tid, x.group_id, x.endpoint
    FROM unnest(ARRAY[$1::uuid, $2::uuid]) k(id)
   CROSS JOIN LATERAL (
           SELECT y.group_id, y.endpoint FROM parley_stream y
            WHERE y.stream_id = k.id AND y.group_id IS NOT NULL LIMIT 1) h
   CROSS JOIN LATERAL (
           SELECT y.stream_id, y.ctid AS tid, y.group_id, y.endpoint FROM parley_stream y
            WHERE y.group_id = h.group_id AND y.endpoint = h.endpoint OFFSET 0) x),
ok AS MATERIALIZED (
  SELECT 1
   WHERE (SELECT count(*) FROM streams x
           CROSS JOIN LATERAL (SELECT 1 FROM parley_message m WHERE m.stream_id = x.stream_id LIMIT 1) m) = 0),
sides AS MATERIALIZED (
  SELECT k.id FROM unnest(ARRAY[$1::uuid, $2::uuid]) k(id) WHERE EXISTS (SELECT 1 FROM ok)),
markers AS (
  DELETE FROM parley_ready y WHERE y.ctid = ANY (ARRAY(
           SELECT r.tid FROM streams x
            CROSS JOIN LATERAL (
                    SELECT z.ctid AS tid FROM parley_ready z
                     WHERE z.group_id = x.group_id AND z.stream_id = x.stream_id LIMIT 1) r
            WHERE EXISTS (SELECT 1 FROM ok)))),
received AS (
  DELETE FROM parley_stream y
   WHERE y.ctid = ANY (ARRAY(SELECT x.tid FROM streams x WHERE EXISTS (SELECT 1 FROM ok)
                              UNION ALL
                             SELECT z.tid FROM sides
                              CROSS JOIN LATERAL (
                                      SELECT w.ctid AS tid FROM parley_stream w WHERE w.stream_id = sides.id LIMIT 1) z))),
held AS (DELETE FROM parley_held y WHERE y.stream_id = ANY (ARRAY(SELECT id FROM sides))),
timers AS (DELETE FROM parley_timer y WHERE y.handle = ANY (ARRAY(SELECT id FROM sides))),
copies AS (DELETE FROM parley_retained y WHERE y.handle = ANY (ARRAY(SELECT id FROM sides))),
closings AS (DELETE FROM parley_closing y WHERE y.handle = ANY (ARRAY(SELECT id FROM sides))),
ends AS (DELETE FROM parley_endpoint y WHERE y.handle = ANY (ARRAY(SELECT id FROM sides)))
SELECT 1 FROM ok

-- name: StreamAdvance
UPDATE parley_stream SET next_seq = $1, touched = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint WHERE stream_id = $2

-- name: StreamClose
UPDATE parley_stream SET next_seq = $1, closed = 1, touched = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint WHERE stream_id = $2

-- name: StreamDelete
DELETE FROM parley_stream WHERE stream_id = $1

-- name: StreamHold
UPDATE parley_stream SET next_seq = $1, held = 1, touched = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint WHERE stream_id = $2

-- name: StreamHome
UPDATE parley_stream SET group_id = $1, queue_id = $2, endpoint = $3, priority = $4
 WHERE stream_id = $5

-- name: StreamInsert
INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, endpoint, priority,
       next_seq, closed, held, touched)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)

-- name: StreamMove
UPDATE parley_stream SET group_id = $1 WHERE stream_id = $2

-- name: StreamRank
UPDATE parley_stream SET priority = $1 WHERE stream_id = $2

-- name: StreamRead
SELECT s.kind, s.group_id, s.queue_id, s.endpoint, s.priority, s.next_seq, s.closed, s.held,
       q.enabled,
       (SELECT count(*) FROM parley_closing c WHERE c.handle = s.stream_id),
       (SELECT v.catalog_version FROM parley_meta v)
  FROM parley_stream s
  LEFT JOIN parley_queue q ON q.queue_id = s.queue_id
 WHERE s.stream_id = $1

-- name: StreamSeal
UPDATE parley_stream SET closed = 2 WHERE stream_id = $1

-- name: StreamUnhold
UPDATE parley_stream SET held = 0 WHERE stream_id = $1

-- name: StreamsDelete
DELETE FROM parley_stream WHERE stream_id IN ($1, $2)

-- name: StreamsOfEndpoint
SELECT stream_id, kind FROM parley_stream
 WHERE group_id = $1 AND endpoint = $2 ORDER BY stream_id

-- name: StreamsOfGroup
SELECT stream_id FROM parley_stream WHERE group_id = $1 ORDER BY stream_id
