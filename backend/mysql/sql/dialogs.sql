-- name: BeginState
-- What a conversation with a message depends on: the catalog, and whether the queues of targets are on.
--
-- queues
SELECT v.catalog_version,
       (SELECT count(*) FROM parley_queue q WHERE q.enabled = 1 AND (?))
  FROM parley_meta v
 WHERE v.id = 1
-- name: NewEndpoints
-- handle, conversation, far handle, initiator, service, far service, contract, queue, group, priority, time
INSERT INTO parley_endpoint (handle, conversation, peer, initiator, service, far, contract, queue_id, group_id, priority, begun) VALUES ?
-- name: NewDialogs
-- id, kind, group, queue, endpoint, priority, number, closed, held, time
INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, endpoint, priority, next_seq, closed, held, touched) VALUES ?
-- name: StreamRead
-- What a transaction of the application's reads with a lock is the stream alone: a
-- queue that is read in a subquery is not locked.
SELECT s.kind, s.group_id, s.queue_id, s.endpoint, s.priority, s.next_seq, s.closed, s.held,
       (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = s.queue_id),
       (SELECT count(*) FROM parley_closing c WHERE c.handle = s.stream_id),
       (SELECT v.catalog_version FROM parley_meta v WHERE v.id = 1)
  FROM parley_stream s
 WHERE s.stream_id = ?
-- name: MarkersAstray
-- A stream is listed too whose subqueries an interrupted statement did not run: CASE looks at the witness last
-- (sqlstore.Witness).
SELECT s.stream_id
  FROM parley_stream s
  LEFT JOIN parley_ready r ON r.group_id = s.group_id AND r.stream_id = s.stream_id
 WHERE s.group_id = ?
   AND CASE WHEN coalesce(r.since, -1) <> (SELECT m.since FROM parley_message m FORCE INDEX (PRIMARY)
                                            WHERE m.stream_id = s.stream_id
                                            ORDER BY m.stream_id, m.seq LIMIT 1) THEN 1
            WHEN (SELECT w.kind FROM parley_stream w WHERE w.stream_id = s.stream_id LIMIT 1) IS NULL THEN 1
            ELSE 0 END = 1
 ORDER BY s.priority DESC, s.endpoint, s.kind, s.stream_id -- as they are received
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
