-- name: BeginDialogs
-- Conversations with their targets and messages, which no other transaction knows yet, so there is
-- nothing to lock or to wait for. The statement does and returns nothing if the catalog is another
-- one, or if the queue of a target with messages is off.
--
-- $1 catalog version
-- conversations: $2 handles, $3 conversations, $4 handles of the targets, $5 services, $6 far services,
-- $7 contracts, $8 queues, $9 priorities, $10 queues of the targets (0: none yet), $11 their priorities,
-- $12 numbers of messages
-- messages: $13 streams, $14 seqs, $15 ids, $16 kinds, $17 types, $18 bodies, $19 headers
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
  SELECT s.handle, s.conversation, s.peer, s.initiator, s.service, s.far, s.contract, s.queue_id, s.handle, s.priority, :now
    FROM sides s WHERE s.queue_id <> 0),
t AS (
  INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, endpoint, priority, next_seq, closed, held, touched)
  SELECT s.handle, 2, CASE WHEN s.far_queue <> 0 THEN s.peer END, nullif(s.far_queue, 0),
         CASE WHEN s.far_queue <> 0 THEN s.peer END,
         CASE WHEN s.far_queue <> 0 THEN s.far_priority ELSE s.priority END, s.messages, 0, 0, :now
    FROM sides s),
m AS (
  INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since)
  SELECT x.stream_id, x.seq, x.message_id, x.kind, x.type, x.body, nullif(x.headers, ''), :now
    FROM unnest((SELECT $13::uuid[]), (SELECT $14::bigint[]), (SELECT $15::uuid[]), (SELECT $16::smallint[]), (SELECT $17::text[]),
                (SELECT $18::bytea[]), (SELECT $19::text[])) x(stream_id, seq, message_id, kind, type, body, headers)
   WHERE EXISTS (SELECT 1 FROM ok)),
r AS (
  INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
  SELECT d.far_queue, d.peer, d.handle, d.far_priority, :now FROM d WHERE d.messages > 0 ORDER BY d.n)
SELECT 1 FROM ok

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

-- name: EndFirst
-- Sides of conversations that end first, whose groups are ours, in the ordinary case. The target of such a
-- side exists, accepts messages and has not ended, and neither side has been told of an error. Otherwise
-- nothing comes back for it. After a wait for a guard the conditions are checked again on the current row of
-- the stream. The visible messages for the sides are removed, and with them streams that were made for a
-- single message. They come back with the target's queue, or as one row without a message.
--
-- $1 handles, $2 message ids, $3 message type
WITH k AS MATERIALIZED (
  SELECT x.handle, x.message_id FROM unnest((SELECT $1::uuid[]), (SELECT $2::uuid[])) x(handle, message_id)),
s AS (
  UPDATE parley_stream x
     SET closed = 1, next_seq = x.next_seq + 1, touched = :now
   WHERE x.stream_id = ANY (ARRAY(SELECT k.handle FROM k)) AND x.kind = 2 AND x.closed <> 1 AND x.held = 0 AND x.queue_id IS NOT NULL
     AND (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = x.queue_id) = 1
     AND EXISTS (SELECT 1 FROM parley_endpoint e WHERE e.handle = x.stream_id AND e.closed_at IS NULL)
     AND NOT EXISTS (SELECT 1 FROM parley_closing c WHERE c.handle = x.stream_id)
     AND NOT EXISTS (SELECT 1 FROM parley_closing c WHERE c.handle = x.endpoint AND c.kind = 1)
  RETURNING x.stream_id, x.group_id, x.queue_id, x.endpoint, x.priority, x.next_seq - 1 AS seq,
            (SELECT k.message_id FROM k WHERE k.handle = x.stream_id) AS message_id),
side AS (
  UPDATE parley_endpoint e SET closed_at = :now
   WHERE e.handle = ANY (ARRAY(SELECT s.stream_id FROM s))
  RETURNING e.handle, e.group_id),
word AS (
  INSERT INTO parley_closing (handle, id, kind, by_peer)
  SELECT s.endpoint, s.message_id, 0, 1 FROM s),
message AS (
  INSERT INTO parley_message (stream_id, seq, message_id, kind, type, since)
  SELECT s.stream_id, s.seq, s.message_id, 3, $3, :now FROM s),
ready AS (
  INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
  SELECT s.queue_id, s.group_id, s.stream_id, s.priority, :now FROM s
  ON CONFLICT DO NOTHING),
timers AS (DELETE FROM parley_timer t WHERE t.handle = ANY (ARRAY(SELECT s.stream_id FROM s))),
copies AS (DELETE FROM parley_retained c WHERE c.handle = ANY (ARRAY(SELECT s.stream_id FROM s))),
{Unread}
SELECT s.stream_id, s.queue_id, m.stream_id, m.kind, m.seq
  FROM s
  LEFT JOIN messages m ON m.handle = s.stream_id
 ORDER BY m.stream_id, m.seq

-- name: Unread
-- The unread messages of sides are removed; the rows of the query side have their handles and groups.
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

-- name: EndGuards
-- The guards of both sides of a conversation of which one has ended. The guard of the ended side, which sends
-- no more, is tried after ours.
--
-- $1 handle, $2 the other one's
WITH own AS MATERIALIZED (
  SELECT x.stream_id FROM parley_stream x WHERE x.stream_id = $1 FOR NO KEY UPDATE)
SELECT 1
  FROM own
 CROSS JOIN LATERAL (
        SELECT z.stream_id FROM parley_stream z WHERE z.stream_id = $2 AND own.stream_id IS NOT NULL
           FOR NO KEY UPDATE SKIP LOCKED) x

-- name: EndLast
-- Sides of conversations whose other sides have ended, in the ordinary case: nothing waits for the others, and nothing of
-- this side is withheld. The guards of both are ours. Both sides go, with all that there is of them. What was removed of
-- messages for these sides comes back, or a row without a message. It must be separate from the statement that takes the
-- guards.
--
-- $1 handles
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
{Unread},
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

-- name: DropUnread
-- The unread messages of a side are removed. Its streams come back with their messages, and also
-- without any.
--
-- $1 group, $2 handle
WITH side AS MATERIALIZED (SELECT $1::uuid AS group_id, $2::uuid AS handle),
{Unread}
SELECT x.stream_id, x.kind, m.seq
  FROM streams x
  LEFT JOIN messages m ON m.stream_id = x.stream_id
 ORDER BY x.stream_id, m.seq

-- name: RemoveSides
-- Both sides of a conversation that both have ended, whose guards are ours, and the group of the
-- side that ended last. Its messages are gone. The statement does and returns nothing if there are
-- messages that the other side's receiver may hold. It must be separate from the statement that
-- takes the guards.
--
-- $1 handle, $2 the other one's
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
