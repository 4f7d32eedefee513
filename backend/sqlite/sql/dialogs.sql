-- name: MarkerMove
UPDATE parley_ready SET group_id = ?, held_until = 0
 WHERE group_id = ? AND stream_id = ?
-- name: BeginGroups
-- New groups, unless the catalog has another version or one of the queues is off. What is done to many rows at once takes them
-- as JSON, ids in hexadecimal.
--
-- groups, version, queues, how many
INSERT INTO parley_grp (group_id, queue_id, service, name)
SELECT unhex(k.value ->> 0), k.value ->> 1, k.value ->> 2, ''
  FROM json_each(?1) k
 WHERE (SELECT v.catalog_version FROM parley_meta v) = ?2
   AND (SELECT count(*) FROM parley_queue q
         WHERE q.enabled = 1 AND q.queue_id IN (SELECT value FROM json_each(?3))) = ?4
-- name: NewEndpoints
INSERT INTO parley_endpoint (handle, conversation, peer, initiator, service, far, contract, queue_id, group_id, priority, begun)
SELECT unhex(k.value ->> 0), unhex(k.value ->> 1), unhex(k.value ->> 2), k.value ->> 3, k.value ->> 4, k.value ->> 5,
       k.value ->> 6, k.value ->> 7, unhex(k.value ->> 0), k.value ->> 8, :now
  FROM json_each(?1) k
-- name: NewDialogs
INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, endpoint, priority, next_seq, closed, held, touched)
SELECT unhex(k.value ->> 0), 2, unhex(k.value ->> 1), k.value ->> 2, unhex(k.value ->> 1), k.value ->> 3, k.value ->> 4,
       0, 0, :now
  FROM json_each(?1) k
-- name: Mark
-- One microsecond apart, in the order of the call.
INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
SELECT k.value ->> 0, unhex(k.value ->> 1), unhex(k.value ->> 2), k.value ->> 3, :now + k.key
  FROM json_each(?1) k
-- name: Advance
-- The next number of a stream on which one may send.
UPDATE parley_stream SET next_seq = next_seq + 1, touched = :now
 WHERE stream_id = ?1 AND kind = 2 AND closed = 0 AND held = 0
   AND (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = parley_stream.queue_id) = 1
   AND NOT EXISTS (SELECT 1 FROM parley_closing c WHERE c.handle = ?1)
   AND (SELECT v.catalog_version FROM parley_meta v) = ?2
RETURNING next_seq - 1, queue_id, group_id, priority
-- name: EndUnread
-- EndRead of several sides with what waits for each: its streams and their messages, in each row one. The last count is 1 if the
-- other side receives one stream in which nothing waits; it is asked for by the first parameter.
--
-- whether the other ones may have ended, handles
SELECT e.peer, e.group_id, e.closed_at, s.group_id, s.queue_id, s.endpoint, s.priority, s.next_seq,
       s.held, q.enabled,
       (SELECT count(*) FROM parley_closing d WHERE d.handle = e.peer AND d.kind = 1),
       (SELECT count(*) FROM parley_timer t WHERE t.handle IN (e.handle, e.peer)),
       (SELECT count(*) FROM parley_retained t WHERE t.handle IN (e.handle, e.peer)),
       (SELECT count(*) FROM parley_held t WHERE t.stream_id IN (e.handle, e.peer)),
       c.kind, c.by_peer,
       (SELECT count(*) + count(n.seq)
          FROM parley_stream y
          LEFT JOIN parley_message n ON n.stream_id = y.stream_id
         WHERE ? = 1 AND y.group_id = s.group_id AND y.endpoint = s.endpoint),
       e.handle, x.stream_id, x.kind, m.seq, m.message_id, f.message_id
  FROM json_each(?) k
 CROSS JOIN parley_endpoint e ON e.handle = unhex(k.value)
 CROSS JOIN parley_stream s ON s.stream_id = e.handle
  LEFT JOIN parley_queue q ON q.queue_id = s.queue_id
  LEFT JOIN parley_closing c ON c.handle = e.handle
  LEFT JOIN parley_stream x ON x.group_id = e.group_id AND x.endpoint = e.handle
  LEFT JOIN parley_message m ON m.stream_id = x.stream_id
  LEFT JOIN parley_failure f ON f.message_id = m.message_id
-- name: Closings
-- handle, id, kind
INSERT INTO parley_closing (handle, id, kind, by_peer)
SELECT unhex(k.value ->> 0), unhex(k.value ->> 1), k.value ->> 2, 1 FROM json_each(?1) k
-- name: Ends
-- The last messages of streams.
--
-- stream, number, id, kind, type
INSERT INTO parley_message (stream_id, seq, message_id, kind, type, since)
SELECT unhex(k.value ->> 0), k.value ->> 1, unhex(k.value ->> 2), k.value ->> 3, k.value ->> 4, :now FROM json_each(?1) k
-- name: CloseStreams
UPDATE parley_stream SET next_seq = next_seq + 1, closed = 1, touched = :now
 WHERE stream_id IN (SELECT unhex(value) FROM json_each(?))
-- name: CloseEndpoints
UPDATE parley_endpoint SET closed_at = :now WHERE handle IN (SELECT unhex(value) FROM json_each(?))
-- name: MarkersDelete
-- groups and streams
DELETE FROM parley_ready
 WHERE (group_id, stream_id) IN (SELECT unhex(value ->> 0), unhex(value ->> 1) FROM json_each(?))
-- name: StreamsOf
DELETE FROM parley_stream WHERE stream_id IN (SELECT unhex(value) FROM json_each(?))
-- name: ClosingsOf
DELETE FROM parley_closing WHERE handle IN (SELECT unhex(value) FROM json_each(?))
-- name: EndpointsOf
DELETE FROM parley_endpoint WHERE handle IN (SELECT unhex(value) FROM json_each(?))
