-- name: BeginGroups
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_grp (group_id, queue_id, service, name)
SELECT k.group_id, k.queue_id, k.service, k.name
  FROM (?) k
 STRAIGHT_JOIN parley_meta v ON v.id = 1
 WHERE v.catalog_version = ?
   AND (SELECT count(*) FROM parley_queue q WHERE q.enabled = 1 AND (?)) = ?

-- name: BeginState
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT v.catalog_version,
       (SELECT count(*) FROM parley_queue q WHERE q.enabled = 1 AND (?))
  FROM parley_meta v
 WHERE v.id = 1

-- name: CloseSides
/*M! SET STATEMENT sql_safe_updates = 0, max_statement_time = 0 FOR */
UPDATE (?) k
 STRAIGHT_JOIN parley_stream s FORCE INDEX (PRIMARY) ON s.stream_id = k.handle
 STRAIGHT_JOIN parley_endpoint e FORCE INDEX (PRIMARY) ON e.handle = k.handle
   SET s.next_seq = s.next_seq + 1, s.closed = 1, s.touched = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), e.closed_at = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))

-- name: ClosingDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_closing WHERE handle = ?

-- name: ClosingInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_closing (handle, id, kind, by_peer, code, description)
VALUES (?, ?, ?, ?, ?, ?)

-- name: Closings
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_closing (handle, id, kind, by_peer) VALUES ?

-- name: ClosingsDelete
/*M! SET STATEMENT sql_safe_updates = 0, max_statement_time = 0 FOR */
DELETE x FROM (SELECT ? AS id UNION ALL SELECT ?) k STRAIGHT_JOIN parley_closing x FORCE INDEX (PRIMARY)
 WHERE x.handle = k.id

-- name: EndGuards
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT s.stream_id,
       (SELECT o.stream_id FROM parley_stream o FORCE INDEX (PRIMARY)
         WHERE o.stream_id = CASE WHEN s.stream_id IS NULL THEN '' ELSE ? END
           FOR UPDATE SKIP LOCKED)
  FROM parley_stream s FORCE INDEX (PRIMARY)
 WHERE s.stream_id = ?
   FOR UPDATE

-- name: EndRead
/*M! SET STATEMENT max_statement_time = 0 FOR */
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
 WHERE e.handle = ?

-- name: EndUnread
/*M! SET STATEMENT max_statement_time = 0 FOR */
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

-- name: EndpointClose
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_endpoint SET closed_at = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) WHERE handle = ?

-- name: EndpointDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_endpoint WHERE handle = ?

-- name: EndpointFinish
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_endpoint SET finish_at = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ? WHERE handle = ?

-- name: EndpointHome
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT e.group_id, e.queue_id, e.priority, e.peer, e.service, e.closed_at, q.enabled
  FROM parley_endpoint e
  JOIN parley_queue q ON q.queue_id = e.queue_id
 WHERE e.handle = ?

-- name: EndpointInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_endpoint (handle, conversation, peer, initiator, service, far,
       contract, queue_id, group_id, priority, lifetime_until, begun)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)))

-- name: EndpointMove
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_endpoint SET group_id = ? WHERE handle = ?

-- name: EndpointRead
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT e.handle, e.conversation, e.peer, e.initiator, e.service, e.far, e.contract, e.queue_id,
       e.group_id, e.priority, e.lifetime_until, e.closed_at, s.next_seq, s.closed,
       c.id, c.kind, c.by_peer, c.code, c.description, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
  FROM parley_endpoint e
  LEFT JOIN parley_stream s ON s.stream_id = e.handle
  LEFT JOIN parley_closing c ON c.handle = e.handle
 WHERE e.handle = ?

-- name: EndpointsDelete
/*M! SET STATEMENT sql_safe_updates = 0, max_statement_time = 0 FOR */
DELETE x FROM (SELECT ? AS id UNION ALL SELECT ?) k STRAIGHT_JOIN parley_endpoint x FORCE INDEX (PRIMARY)
 WHERE x.handle = k.id

-- name: EndpointsOfGroup
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT e.handle, e.conversation, e.peer, e.initiator, e.service, e.far, e.contract, e.queue_id,
       e.group_id, e.priority, e.lifetime_until, e.closed_at, s.next_seq, s.closed,
       c.id, c.kind, c.by_peer, c.code, c.description, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
  FROM parley_endpoint e
  LEFT JOIN parley_stream s ON s.stream_id = e.handle
  LEFT JOIN parley_closing c ON c.handle = e.handle
 WHERE e.group_id = ?
 ORDER BY e.handle

-- name: GuardLock
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT 1 FROM parley_stream WHERE stream_id = ?
FOR UPDATE

-- name: GuardTry
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT 1 FROM parley_stream WHERE stream_id = ?
FOR UPDATE SKIP LOCKED

-- name: HeldDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_held WHERE stream_id = ?

-- name: HeldInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_held (stream_id, seq, message_id, kind, type, body, headers, since, status)
VALUES (?, ?, ?, ?, ?, ?, ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), ?)

-- name: HeldMove
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_held SET stream_id = ?, seq = seq + ?, status = ?
 WHERE stream_id = ? AND type <> ?

-- name: HeldRead
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT seq, message_id, kind, type, body, headers, since FROM parley_held
 WHERE stream_id = ? ORDER BY seq

-- name: MarkerDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_ready WHERE group_id = ? AND stream_id = ?

-- name: MarkerInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT IGNORE INTO parley_ready (queue_id, group_id, stream_id, priority, since)
VALUES (?, ?, ?, ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)))

-- name: MarkerMove
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_ready SET group_id = ?
 WHERE group_id = ? AND stream_id = ?

-- name: MarkerRaise
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_ready SET priority = ?
 WHERE group_id = ? AND stream_id = ? AND priority < ?

-- name: MarkerRead
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT stream_id FROM parley_ready WHERE group_id = ? ORDER BY stream_id

-- name: MarkerSince
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_ready SET since = ?
 WHERE group_id = ? AND stream_id = ? AND since <> ?

-- name: MarkerTry
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT 1 FROM parley_ready WHERE group_id = ? AND stream_id = ?
FOR UPDATE SKIP LOCKED

-- name: MarkersAstray
/*M! SET STATEMENT max_statement_time = 0 FOR */
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

-- name: MessageDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_message WHERE stream_id = ? AND seq = ?

-- name: MessageFind
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT m.stream_id, m.seq, m.uniq, s.group_id, s.queue_id
  FROM parley_message m
  JOIN parley_stream s ON s.stream_id = m.stream_id
 WHERE m.message_id = ? AND m.kind = 4

-- name: MessageFirst
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT seq, since FROM parley_message WHERE stream_id = ? ORDER BY seq LIMIT 1

-- name: MessageInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since, uniq)
VALUES (?, ?, ?, ?, ?, ?, ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), ?)

-- name: MessageKeys
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT seq, message_id FROM parley_message WHERE stream_id = ? ORDER BY seq

-- name: MessageRead
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT m.seq, m.message_id, m.kind, m.type, m.body, m.headers, m.since, m.uniq,
       f.attempts, f.suspicion, f.last_error, f.errors
  FROM parley_message m
  LEFT JOIN parley_failure f ON f.message_id = m.message_id
 WHERE m.stream_id = ? AND m.seq > ?
 ORDER BY m.seq
 LIMIT ?

-- name: MessagesOfEndpoint
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT s.stream_id, s.kind, m.seq, m.message_id, f.message_id
  FROM parley_stream s
  LEFT JOIN parley_message m ON m.stream_id = s.stream_id
  LEFT JOIN parley_failure f ON f.message_id = m.message_id
 WHERE s.group_id = ? AND s.endpoint = ?
 ORDER BY s.stream_id, m.seq

-- name: NewDialogs
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, endpoint, priority, next_seq, closed, held, touched) VALUES ?

-- name: NewEndpoints
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_endpoint (handle, conversation, peer, initiator, service, far, contract, queue_id, group_id, priority, begun) VALUES ?

-- name: RemoveQuiet
/*M! SET STATEMENT sql_safe_updates = 0, max_statement_time = 0 FOR */
DELETE m, r, s, c, e
  FROM (?) k
  LEFT JOIN parley_message m FORCE INDEX (PRIMARY) ON m.stream_id = k.message AND m.seq = k.seq
  LEFT JOIN parley_ready r FORCE INDEX (PRIMARY) ON r.group_id = k.grp AND r.stream_id = k.marker
  LEFT JOIN parley_stream s FORCE INDEX (PRIMARY) ON s.stream_id = k.stream
  LEFT JOIN parley_closing c FORCE INDEX (PRIMARY) ON c.handle = k.handle
  LEFT JOIN parley_endpoint e FORCE INDEX (PRIMARY) ON e.handle = k.handle

-- name: StreamAdvance
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_stream SET next_seq = ?, touched = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) WHERE stream_id = ?

-- name: StreamClose
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_stream SET next_seq = ?, closed = 1, touched = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) WHERE stream_id = ?

-- name: StreamDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_stream WHERE stream_id = ?

-- name: StreamHold
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_stream SET next_seq = ?, held = 1, touched = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) WHERE stream_id = ?

-- name: StreamHome
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_stream SET group_id = ?, queue_id = ?, endpoint = ?, priority = ?
 WHERE stream_id = ?

-- name: StreamInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, endpoint, priority,
       next_seq, closed, held, touched)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)))

-- name: StreamMove
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_stream SET group_id = ? WHERE stream_id = ?

-- name: StreamRank
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_stream SET priority = ? WHERE stream_id = ?

-- name: StreamRead
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT s.kind, s.group_id, s.queue_id, s.endpoint, s.priority, s.next_seq, s.closed, s.held,
       (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = s.queue_id),
       (SELECT count(*) FROM parley_closing c WHERE c.handle = s.stream_id),
       (SELECT v.catalog_version FROM parley_meta v WHERE v.id = 1)
  FROM parley_stream s
 WHERE s.stream_id = ?

-- name: StreamSeal
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_stream SET closed = 2 WHERE stream_id = ?

-- name: StreamUnhold
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_stream SET held = 0 WHERE stream_id = ?

-- name: StreamsDelete
/*M! SET STATEMENT sql_safe_updates = 0, max_statement_time = 0 FOR */
DELETE x FROM (SELECT ? AS id UNION ALL SELECT ?) k STRAIGHT_JOIN parley_stream x FORCE INDEX (PRIMARY)
 WHERE x.stream_id = k.id

-- name: StreamsOfEndpoint
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT stream_id, kind FROM parley_stream
 WHERE group_id = ? AND endpoint = ? ORDER BY stream_id

-- name: StreamsOfGroup
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT stream_id FROM parley_stream WHERE group_id = ? ORDER BY stream_id
