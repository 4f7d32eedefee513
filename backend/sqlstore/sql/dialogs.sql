-- name: EndpointInsert
INSERT INTO parley_endpoint (handle, conversation, peer, initiator, service, far,
       contract, queue_id, group_id, priority, lifetime_until, begun)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, :now + {convert ? bigint}, :now)
-- name: EndpointRead
-- What has been recorded of the other side comes in no order: MySQL and MariaDB would sort
-- one row in a temporary table.
SELECT e.handle, e.conversation, e.peer, e.initiator, e.service, e.far, e.contract, e.queue_id,
       e.group_id, e.priority, e.lifetime_until, e.closed_at, s.next_seq, s.closed,
       c.id, c.kind, c.by_peer, c.code, c.description, :now
  FROM parley_endpoint e
  LEFT JOIN parley_stream s ON s.stream_id = e.handle
  LEFT JOIN parley_closing c ON c.handle = e.handle
 WHERE e.handle = ?
-- name: EndpointsOfGroup
SELECT e.handle, e.conversation, e.peer, e.initiator, e.service, e.far, e.contract, e.queue_id,
       e.group_id, e.priority, e.lifetime_until, e.closed_at, s.next_seq, s.closed,
       c.id, c.kind, c.by_peer, c.code, c.description, :now
  FROM parley_endpoint e
  LEFT JOIN parley_stream s ON s.stream_id = e.handle
  LEFT JOIN parley_closing c ON c.handle = e.handle
 WHERE e.group_id = ?
 ORDER BY e.handle
-- name: EndpointHome
SELECT e.group_id, e.queue_id, e.priority, e.peer, e.service, e.closed_at, q.enabled
  FROM parley_endpoint e
  JOIN parley_queue q ON q.queue_id = e.queue_id
 WHERE e.handle = ?
-- name: EndpointClose
UPDATE parley_endpoint SET closed_at = :now WHERE handle = ?
-- name: EndpointFinish
UPDATE parley_endpoint SET finish_at = :now + ? WHERE handle = ?
-- name: EndpointMove
UPDATE parley_endpoint SET group_id = ? WHERE handle = ?
-- name: EndpointDelete
DELETE FROM parley_endpoint WHERE handle = ?
-- name: ClosingInsert
INSERT INTO parley_closing (handle, id, kind, by_peer, code, description)
VALUES (?, ?, ?, ?, ?, ?)
-- name: ClosingDelete
DELETE FROM parley_closing WHERE handle = ?
-- name: EndRead
-- What the end of a side depends on, whose group and guard are ours. What has been recorded of
-- the other side comes in no order. The counts are of errors that the other side has been told
-- of; and of timers, copies and withheld messages of both.
SELECT e.peer, e.group_id, e.closed_at, s.group_id, s.queue_id, s.endpoint, s.priority, s.next_seq,
       s.held, q.enabled,
       (SELECT count(*) FROM parley_closing d {read skip} WHERE d.handle = e.peer AND d.kind = 1),
       (SELECT count(*) FROM parley_timer a {read dirty} WHERE a.handle = e.handle)
     + (SELECT count(*) FROM parley_timer b {read dirty} WHERE b.handle = e.peer),
       (SELECT count(*) FROM parley_retained a {read dirty} WHERE a.handle = e.handle)
     + (SELECT count(*) FROM parley_retained b {read dirty} WHERE b.handle = e.peer),
       (SELECT count(*) FROM parley_held a {read dirty} WHERE a.stream_id = e.handle)
     + (SELECT count(*) FROM parley_held b {read dirty} WHERE b.stream_id = e.peer),
       c.kind, c.by_peer
  FROM parley_endpoint e {read dirty}
  JOIN parley_stream s {read dirty} ON s.stream_id = e.handle
  LEFT JOIN parley_queue q {read wait} ON q.queue_id = s.queue_id
  LEFT JOIN parley_closing c {read skip} ON c.handle = e.handle
 WHERE e.handle = ?
-- name: ClosingsDelete
DELETE FROM parley_closing WHERE handle IN (?, ?)
-- name: StreamsDelete
DELETE FROM parley_stream WHERE stream_id IN (?, ?)
-- name: EndpointsDelete
DELETE FROM parley_endpoint WHERE handle IN (?, ?)
-- name: GuardLock
-- The guard. Who waits for it is another sender of the same stream; who tries it skips it,
-- and comes again. On SQL Server it is X on the row.
SELECT 1 FROM parley_stream {guard wait} WHERE stream_id = ?
-- name: GuardTry
SELECT 1 FROM parley_stream {guard skip} WHERE stream_id = ?
-- name: StreamInsert
INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, endpoint, priority,
       next_seq, closed, held, touched)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, :now)
-- name: StreamRead
-- Closings are only added: what is skipped is not yet committed.
SELECT s.kind, s.group_id, s.queue_id, s.endpoint, s.priority, s.next_seq, s.closed, s.held,
       q.enabled,
       (SELECT count(*) FROM parley_closing c {read skip} WHERE c.handle = s.stream_id),
       (SELECT v.catalog_version FROM parley_meta v {read wait})
  FROM parley_stream s {read dirty}
  LEFT JOIN parley_queue q {read wait} ON q.queue_id = s.queue_id
 WHERE s.stream_id = ?
-- name: StreamHome
UPDATE parley_stream SET group_id = ?, queue_id = ?, endpoint = ?, priority = ?
 WHERE stream_id = ?
-- name: StreamAdvance
UPDATE parley_stream SET next_seq = ?, touched = :now WHERE stream_id = ?
-- name: StreamRank
UPDATE parley_stream SET priority = ? WHERE stream_id = ?
-- name: StreamHold
UPDATE parley_stream SET next_seq = ?, held = 1, touched = :now WHERE stream_id = ?
-- name: StreamUnhold
UPDATE parley_stream SET held = 0 WHERE stream_id = ?
-- name: StreamClose
UPDATE parley_stream SET next_seq = ?, closed = 1, touched = :now WHERE stream_id = ?
-- name: StreamSeal
UPDATE parley_stream SET closed = 2 WHERE stream_id = ?
-- name: StreamMove
UPDATE parley_stream SET group_id = ? WHERE stream_id = ?
-- name: StreamDelete
DELETE FROM parley_stream WHERE stream_id = ?
-- name: StreamsOfEndpoint
-- The streams of a group are listed by the index, whose rows senders do not lock.
-- What is skipped there is being made or removed. With the table's own rows a
-- sender's would be skipped too, and its stream be forgotten.
SELECT stream_id, kind FROM parley_stream {read skip by_group}
 WHERE group_id = ? AND endpoint = ? ORDER BY stream_id
-- name: StreamsOfGroup
SELECT stream_id FROM parley_stream {read skip by_group} WHERE group_id = ? ORDER BY stream_id
-- name: MessageInsert
INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since, uniq)
VALUES (?, ?, ?, ?, ?, ?, ?, :now, ?)
-- name: MessageDelete
DELETE FROM parley_message WHERE stream_id = ? AND seq = ?
-- name: MessageRead
SELECT m.seq, m.message_id, m.kind, m.type, m.body, m.headers, m.since, m.uniq,
       f.attempts, f.suspicion, f.last_error, f.errors
  FROM parley_message m
  LEFT JOIN parley_failure f ON f.message_id = m.message_id
 WHERE m.stream_id = ? AND m.seq > ?
 ORDER BY m.seq
 LIMIT ?
-- name: MessageFind
-- The condition on kind lets the index of keyed posts be used.
SELECT m.stream_id, m.seq, m.uniq, s.group_id, s.queue_id
  FROM parley_message m {read skip}
  JOIN parley_stream s {read dirty} ON s.stream_id = m.stream_id
 WHERE m.message_id = ? AND m.kind = 4
-- name: KeyedFind
-- The same for fifty of a queue, and whether any attempt has failed.
--
-- messages, queue
SELECT m.message_id, m.stream_id, m.seq, m.uniq, s.group_id, CASE WHEN f.message_id IS NULL THEN 0 ELSE 1 END
  FROM parley_message m {read skip}
  JOIN parley_stream s {read dirty} ON s.stream_id = m.stream_id
  LEFT JOIN parley_failure f {read dirty} ON f.message_id = m.message_id
 WHERE m.message_id IN ({{50 ?}}) AND m.kind = 4 AND s.queue_id = ?
-- name: MessageKeys
SELECT seq, message_id FROM parley_message {read skip} WHERE stream_id = ? ORDER BY seq
-- name: MessagesOfEndpoint
-- The streams that an endpoint receives, with their messages.
SELECT s.stream_id, s.kind, m.seq, m.message_id, f.message_id
  FROM parley_stream s {read skip by_group}
  LEFT JOIN parley_message m {read skip} ON m.stream_id = s.stream_id
  LEFT JOIN parley_failure f {read wait} ON f.message_id = m.message_id
 WHERE s.group_id = ? AND s.endpoint = ?
 ORDER BY s.stream_id, m.seq
-- name: MessageFirst
SELECT seq, since FROM parley_message WHERE stream_id = ? ORDER BY seq LIMIT 1
-- name: MarkerInsert
{new} INTO parley_ready (queue_id, group_id, stream_id, priority, since)
VALUES (?, ?, ?, ?, :now) {otherwise}
-- name: MarkerTry
-- Who has a guard does not wait for a marker: an end removes both in the other order.
SELECT 1 FROM parley_ready {guard skip} WHERE group_id = ? AND stream_id = ?
-- name: MarkerDelete
DELETE FROM parley_ready WHERE group_id = ? AND stream_id = ?
-- name: MarkerSince
UPDATE parley_ready SET since = ?
 WHERE group_id = ? AND stream_id = ? AND since <> ?
-- name: MarkerRaise
UPDATE parley_ready SET priority = ?
 WHERE group_id = ? AND stream_id = ? AND priority < ?
-- name: MarkerMove
UPDATE parley_ready SET group_id = ?
 WHERE group_id = ? AND stream_id = ?
-- name: MarkerRead
SELECT stream_id FROM parley_ready {read skip} WHERE group_id = ? ORDER BY stream_id
-- name: MarkersAstray
-- The place of a stream is the time of its first message, or the end of its group's last deferral if that is later.
--
-- group, the end of the deferral, twice
SELECT s.stream_id
  FROM parley_stream s
  LEFT JOIN parley_ready r
    ON r.group_id = s.group_id AND r.stream_id = s.stream_id
 WHERE s.group_id = ?
   AND coalesce(r.since, -1) <> (SELECT CASE WHEN m.since > ? THEN m.since ELSE ? END FROM parley_message m
                                  WHERE m.stream_id = s.stream_id
                                  ORDER BY m.seq LIMIT 1)
 ORDER BY s.priority DESC, s.endpoint, s.kind, s.stream_id
 LIMIT 10000
-- name: HeldInsert
INSERT INTO parley_held (stream_id, seq, message_id, kind, type, body, headers, since, status)
VALUES (?, ?, ?, ?, ?, ?, ?, :now, ?)
-- name: HeldRead
SELECT seq, message_id, kind, type, body, headers, since FROM parley_held {read skip}
 WHERE stream_id = ? ORDER BY seq
-- name: HeldMove
UPDATE parley_held SET stream_id = ?, seq = seq + ?, status = ?
 WHERE stream_id = ? AND type <> ?
-- name: HeldDelete
DELETE FROM parley_held WHERE stream_id = ?
