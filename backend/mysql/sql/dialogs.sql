-- name: BeginState
-- What a conversation with a message depends on: the catalog, and whether the queues of targets are on.
--
-- queues
SELECT v.catalog_version,
       (SELECT count(*) FROM parley_queue q WHERE q.enabled = 1 AND (?))
  FROM parley_meta v
 WHERE v.id = 1
-- name: BeginGroups
-- New groups, unless the catalog has another version or one of the queues is off. In a transaction at REPEATABLE READ
-- it would lock what it reads.
--
-- groups, version, queues, how many
INSERT INTO parley_grp (group_id, queue_id, service, name)
SELECT k.group_id, k.queue_id, k.service, k.name
  FROM (?) k
 STRAIGHT_JOIN parley_meta v ON v.id = 1
 WHERE v.catalog_version = ?
   AND (SELECT count(*) FROM parley_queue q WHERE q.enabled = 1 AND (?)) = ?
-- name: NewEndpoints
-- handle, conversation, far handle, initiator, service, far service, contract, queue, group, priority, time
INSERT INTO parley_endpoint (handle, conversation, peer, initiator, service, far, contract, queue_id, group_id, priority, begun) VALUES ?
-- name: NewDialogs
-- id, kind, group, queue, endpoint, priority, number, closed, held, time
INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, endpoint, priority, next_seq, closed, held, touched) VALUES ?
-- name: StreamRead
-- A joined transaction reads only the stream with a lock: a queue that is read in a subquery is not
-- locked.
SELECT s.kind, s.group_id, s.queue_id, s.endpoint, s.priority, s.next_seq, s.closed, s.held,
       (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = s.queue_id),
       (SELECT count(*) FROM parley_closing c WHERE c.handle = s.stream_id),
       (SELECT v.catalog_version FROM parley_meta v WHERE v.id = 1)
  FROM parley_stream s
 WHERE s.stream_id = ?
-- name: EndUnread
-- EndRead of several sides with what waits for each: its streams and their messages, one in each row. The last count is 1 if the
-- other side receives one stream in which nothing waits; the first parameter asks for it.
--
-- whether the guards of the other ones are ours, handles
SELECT e.peer, e.group_id, e.closed_at, s.group_id, s.queue_id, s.endpoint, s.priority, s.next_seq,
       s.held, q.enabled,
       (SELECT count(*) FROM parley_closing d FORCE INDEX (PRIMARY) WHERE d.handle = e.peer AND d.kind = 1),
       (SELECT count(*) FROM parley_timer a WHERE a.handle = e.handle)
     + (SELECT count(*) FROM parley_timer b WHERE b.handle = e.peer),
       (SELECT count(*) FROM parley_retained a WHERE a.handle = e.handle)
     + (SELECT count(*) FROM parley_retained b WHERE b.handle = e.peer),
       (SELECT count(*) FROM parley_held a WHERE a.stream_id = e.handle)
     + (SELECT count(*) FROM parley_held b WHERE b.stream_id = e.peer),
       c.kind, c.by_peer,
       (SELECT count(*) + count(n.seq)
          FROM parley_stream y FORCE INDEX (group_id)
          LEFT JOIN parley_message n FORCE INDEX (PRIMARY) ON n.stream_id = y.stream_id
         WHERE ? = 1 AND y.group_id = s.group_id AND y.endpoint = s.endpoint),
       e.handle, x.stream_id, x.kind, m.seq, m.message_id, f.message_id
  FROM parley_endpoint e FORCE INDEX (PRIMARY)
 STRAIGHT_JOIN parley_stream s FORCE INDEX (PRIMARY) ON s.stream_id = e.handle
  LEFT JOIN parley_queue q FORCE INDEX (PRIMARY) ON q.queue_id = s.queue_id
  LEFT JOIN parley_closing c FORCE INDEX (PRIMARY) ON c.handle = e.handle
  LEFT JOIN parley_stream x FORCE INDEX (group_id) ON x.group_id = e.group_id AND x.endpoint = e.handle
  LEFT JOIN parley_message m FORCE INDEX (PRIMARY) ON m.stream_id = x.stream_id
  LEFT JOIN parley_failure f FORCE INDEX (PRIMARY) ON f.message_id = m.message_id
 WHERE e.handle IN (?)
-- name: EndGuards
-- The guards of both sides of a conversation of which one has ended. The guard of the ended side, which sends
-- no more, is tried after ours.
--
-- the other one's handle, handle
SELECT s.stream_id,
       (SELECT o.stream_id FROM parley_stream o FORCE INDEX (PRIMARY)
         WHERE o.stream_id = CASE WHEN s.stream_id IS NULL THEN '' ELSE ? END
           FOR UPDATE SKIP LOCKED)
  FROM parley_stream s FORCE INDEX (PRIMARY)
 WHERE s.stream_id = ?
   FOR UPDATE
-- name: Closings
-- handle, id, kind, by the other side
INSERT INTO parley_closing (handle, id, kind, by_peer) VALUES ?
-- name: CloseSides
-- Sides whose guards are ours, which have had their last messages. It is a join, as Remove is.
--
-- handles
{safely}
UPDATE (?) k
 STRAIGHT_JOIN parley_stream s FORCE INDEX (PRIMARY) ON s.stream_id = k.handle
 STRAIGHT_JOIN parley_endpoint e FORCE INDEX (PRIMARY) ON e.handle = k.handle
   SET s.next_seq = s.next_seq + 1, s.closed = 1, s.touched = :now, e.closed_at = :now
-- name: RemoveQuiet
-- What is left of a conversation: Clear with its endpoints, and all that these have been told.
--
-- messages, numbers, groups of markers, their streams, streams, handles
{safely}
DELETE m, r, s, c, e
  FROM (?) k
  LEFT JOIN parley_message m FORCE INDEX (PRIMARY) ON m.stream_id = k.message AND m.seq = k.seq
  LEFT JOIN parley_ready r FORCE INDEX (PRIMARY) ON r.group_id = k.grp AND r.stream_id = k.marker
  LEFT JOIN parley_stream s FORCE INDEX (PRIMARY) ON s.stream_id = k.stream
  LEFT JOIN parley_closing c FORCE INDEX (PRIMARY) ON c.handle = k.handle
  LEFT JOIN parley_endpoint e FORCE INDEX (PRIMARY) ON e.handle = k.handle
-- name: MarkersAstray
-- A stream is listed too whose subqueries an interrupted statement did not run: CASE looks at the witness last
-- (sqlstore.Witness).
SELECT s.stream_id
  FROM parley_stream s
  LEFT JOIN parley_ready r ON r.group_id = s.group_id AND r.stream_id = s.stream_id
 WHERE s.group_id = ?
   AND CASE WHEN coalesce(r.since, -1) <> (SELECT greatest(m.since, ?, ?) FROM parley_message m FORCE INDEX (PRIMARY)
                                            WHERE m.stream_id = s.stream_id
                                            ORDER BY m.stream_id, m.seq LIMIT 1) THEN 1
            WHEN (SELECT w.kind FROM parley_stream w WHERE w.stream_id = s.stream_id LIMIT 1) IS NULL THEN 1
            ELSE 0 END = 1
 ORDER BY s.priority DESC, s.endpoint, s.kind, s.stream_id
 LIMIT 10000
-- name: ClosingsDelete
-- A DELETE with a list of keys may read the whole table: see Remove.
{safely}
DELETE x FROM (SELECT ? AS id UNION ALL SELECT ?) k STRAIGHT_JOIN parley_closing x FORCE INDEX (PRIMARY)
 WHERE x.handle = k.id
-- name: StreamsDelete
{safely}
DELETE x FROM (SELECT ? AS id UNION ALL SELECT ?) k STRAIGHT_JOIN parley_stream x FORCE INDEX (PRIMARY)
 WHERE x.stream_id = k.id
-- name: EndpointsDelete
{safely}
DELETE x FROM (SELECT ? AS id UNION ALL SELECT ?) k STRAIGHT_JOIN parley_endpoint x FORCE INDEX (PRIMARY)
 WHERE x.handle = k.id
