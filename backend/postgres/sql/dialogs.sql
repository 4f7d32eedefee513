-- name: BeginDialogs
-- Conversations with their targets and messages, which no other transaction knows of yet: nothing is
-- locked, and nothing can be in the way. Nothing comes back, and nothing is done, if the catalog
-- is another one, or if the queue of a target that has messages is off.
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
