-- name: Advance
UPDATE parley_stream SET next_seq = next_seq + 1, touched = ?3
 WHERE stream_id = ?1 AND kind = 2 AND closed = 0 AND held = 0
   AND (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = parley_stream.queue_id) = 1
   AND NOT EXISTS (SELECT 1 FROM parley_closing c WHERE c.handle = ?1)
   AND (SELECT v.catalog_version FROM parley_meta v) = ?2
RETURNING next_seq - 1, queue_id, group_id, priority

-- name: BeginGroups
INSERT INTO parley_grp (group_id, queue_id, service, name)
SELECT unhex(k.value ->> 0), k.value ->> 1, k.value ->> 2, ''
  FROM json_each(?1) k
 WHERE (SELECT v.catalog_version FROM parley_meta v) = ?2
   AND (SELECT count(*) FROM parley_queue q
         WHERE q.enabled = 1 AND q.queue_id IN (SELECT value FROM json_each(?3))) = ?4

-- name: CloseEndpoints
UPDATE parley_endpoint SET closed_at = ?2 WHERE handle IN (SELECT unhex(value) FROM json_each(?1))

-- name: CloseStreams
UPDATE parley_stream SET next_seq = next_seq + 1, closed = 1, touched = ?2
 WHERE stream_id IN (SELECT unhex(value) FROM json_each(?1))

-- name: ClosingDelete
DELETE FROM parley_closing WHERE handle = ?1

-- name: ClosingInsert
INSERT INTO parley_closing (handle, id, kind, by_peer, code, description)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)

-- name: Closings
INSERT INTO parley_closing (handle, id, kind, by_peer)
SELECT unhex(k.value ->> 0), unhex(k.value ->> 1), k.value ->> 2, 1 FROM json_each(?1) k

-- name: ClosingsDelete
DELETE FROM parley_closing WHERE handle IN (?1, ?2)

-- name: ClosingsOf
DELETE FROM parley_closing WHERE handle IN (SELECT unhex(value) FROM json_each(?1))

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
 WHERE e.handle = ?1

-- name: EndUnread
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
         WHERE ?1 = 1 AND y.group_id = s.group_id AND y.endpoint = s.endpoint),
       e.handle, x.stream_id, x.kind, m.seq, m.message_id, f.message_id
  FROM json_each(?2) k
 CROSS JOIN parley_endpoint e ON e.handle = unhex(k.value)
 CROSS JOIN parley_stream s ON s.stream_id = e.handle
  LEFT JOIN parley_queue q ON q.queue_id = s.queue_id
  LEFT JOIN parley_closing c ON c.handle = e.handle
  LEFT JOIN parley_stream x ON x.group_id = e.group_id AND x.endpoint = e.handle
  LEFT JOIN parley_message m ON m.stream_id = x.stream_id
  LEFT JOIN parley_failure f ON f.message_id = m.message_id

-- name: EndpointClose
UPDATE parley_endpoint SET closed_at = ?2 WHERE handle = ?1

-- name: EndpointDelete
DELETE FROM parley_endpoint WHERE handle = ?1

-- name: EndpointFinish
UPDATE parley_endpoint SET finish_at = ?3 + ?1 WHERE handle = ?2

-- name: EndpointHome
SELECT e.group_id, e.queue_id, e.priority, e.peer, e.service, e.closed_at, q.enabled
  FROM parley_endpoint e
  JOIN parley_queue q ON q.queue_id = e.queue_id
 WHERE e.handle = ?1

-- name: EndpointInsert
INSERT INTO parley_endpoint (handle, conversation, peer, initiator, service, far,
       contract, queue_id, group_id, priority, lifetime_until, begun)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?12 + ?11, ?12)

-- name: EndpointMove
UPDATE parley_endpoint SET group_id = ?1 WHERE handle = ?2

-- name: EndpointRead
SELECT e.handle, e.conversation, e.peer, e.initiator, e.service, e.far, e.contract, e.queue_id,
       e.group_id, e.priority, e.lifetime_until, e.closed_at, s.next_seq, s.closed,
       c.id, c.kind, c.by_peer, c.code, c.description, ?2
  FROM parley_endpoint e
  LEFT JOIN parley_stream s ON s.stream_id = e.handle
  LEFT JOIN parley_closing c ON c.handle = e.handle
 WHERE e.handle = ?1

-- name: EndpointsDelete
DELETE FROM parley_endpoint WHERE handle IN (?1, ?2)

-- name: EndpointsOf
DELETE FROM parley_endpoint WHERE handle IN (SELECT unhex(value) FROM json_each(?1))

-- name: EndpointsOfGroup
SELECT e.handle, e.conversation, e.peer, e.initiator, e.service, e.far, e.contract, e.queue_id,
       e.group_id, e.priority, e.lifetime_until, e.closed_at, s.next_seq, s.closed,
       c.id, c.kind, c.by_peer, c.code, c.description, ?2
  FROM parley_endpoint e
  LEFT JOIN parley_stream s ON s.stream_id = e.handle
  LEFT JOIN parley_closing c ON c.handle = e.handle
 WHERE e.group_id = ?1
 ORDER BY e.handle

-- name: Ends
INSERT INTO parley_message (stream_id, seq, message_id, kind, type, since)
SELECT unhex(k.value ->> 0), k.value ->> 1, unhex(k.value ->> 2), k.value ->> 3, k.value ->> 4, ?2 FROM json_each(?1) k

-- name: HeldDelete
DELETE FROM parley_held WHERE stream_id = ?1

-- name: HeldInsert
INSERT INTO parley_held (stream_id, seq, message_id, kind, type, body, headers, since, status)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?9, ?8)

-- name: HeldMove
UPDATE parley_held SET stream_id = ?1, seq = seq + ?2, status = ?3
 WHERE stream_id = ?4 AND type <> ?5

-- name: HeldRead
SELECT seq, message_id, kind, type, body, headers, since FROM parley_held
 WHERE stream_id = ?1 ORDER BY seq

-- name: KeyedFind
SELECT m.message_id, m.stream_id, m.seq, m.uniq, s.group_id, CASE WHEN f.message_id IS NULL THEN 0 ELSE 1 END
  FROM parley_message m
  JOIN parley_stream s ON s.stream_id = m.stream_id
  LEFT JOIN parley_failure f ON f.message_id = m.message_id
 WHERE m.message_id IN (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38, ?39, ?40, ?41, ?42, ?43, ?44, ?45, ?46, ?47, ?48, ?49, ?50) AND m.kind = 4 AND s.queue_id = +?51

-- name: Mark
INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
SELECT k.value ->> 0, unhex(k.value ->> 1), unhex(k.value ->> 2), k.value ->> 3, ?2 + k.key
  FROM json_each(?1) k

-- name: MarkerDelete
DELETE FROM parley_ready WHERE group_id = ?1 AND stream_id = ?2

-- name: MarkerInsert
INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING

-- name: MarkerMove
UPDATE parley_ready SET group_id = ?1, held_until = 0
 WHERE group_id = ?2 AND stream_id = ?3

-- name: MarkerRaise
UPDATE parley_ready SET priority = +?1
 WHERE group_id = ?2 AND stream_id = ?3 AND priority < ?4

-- name: MarkerRead
SELECT stream_id FROM parley_ready WHERE group_id = ?1 ORDER BY stream_id

-- name: MarkerSince
UPDATE parley_ready SET since = ?1
 WHERE group_id = ?2 AND stream_id = ?3 AND since <> ?4

-- name: MarkersAstray
SELECT s.stream_id
  FROM parley_stream s
  LEFT JOIN parley_ready r
    ON r.group_id = s.group_id AND r.stream_id = s.stream_id
 WHERE s.group_id = ?1
   AND coalesce(r.since, -1) <> (SELECT CASE WHEN m.since > ?2 THEN m.since ELSE ?3 END FROM parley_message m
                                  WHERE m.stream_id = s.stream_id
                                  ORDER BY m.seq LIMIT 1)
 ORDER BY s.priority DESC, s.endpoint, s.kind, s.stream_id
 LIMIT 10000

-- name: MarkersDelete
DELETE FROM parley_ready
 WHERE (group_id, stream_id) IN (SELECT unhex(value ->> 0), unhex(value ->> 1) FROM json_each(?1))

-- name: MessageDelete
DELETE FROM parley_message WHERE stream_id = ?1 AND seq = ?2

-- name: MessageFind
SELECT m.stream_id, m.seq, m.uniq, s.group_id, s.queue_id
  FROM parley_message m
  JOIN parley_stream s ON s.stream_id = m.stream_id
 WHERE m.message_id = ?1 AND m.kind = 4

-- name: MessageFirst
SELECT seq, since FROM parley_message WHERE stream_id = ?1 ORDER BY seq LIMIT 1

-- name: MessageInsert
INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since, uniq)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?9, ?8)

-- name: MessageKeys
SELECT seq, message_id FROM parley_message WHERE stream_id = ?1 ORDER BY seq

-- name: MessageRead
SELECT m.seq, m.message_id, m.kind, m.type, m.body, m.headers, m.since, m.uniq,
       f.attempts, f.suspicion, f.last_error, f.errors
  FROM parley_message m
  LEFT JOIN parley_failure f ON f.message_id = m.message_id
 WHERE m.stream_id = ?1 AND m.seq > ?2
 ORDER BY m.seq
 LIMIT +?3

-- name: MessagesOfEndpoint
SELECT s.stream_id, s.kind, m.seq, m.message_id, f.message_id
  FROM parley_stream s
  LEFT JOIN parley_message m ON m.stream_id = s.stream_id
  LEFT JOIN parley_failure f ON f.message_id = m.message_id
 WHERE s.group_id = ?1 AND s.endpoint = ?2
 ORDER BY s.stream_id, m.seq

-- name: NewDialogs
INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, endpoint, priority, next_seq, closed, held, touched)
SELECT unhex(k.value ->> 0), 2, unhex(k.value ->> 1), k.value ->> 2, unhex(k.value ->> 1), k.value ->> 3, k.value ->> 4,
       0, 0, ?2
  FROM json_each(?1) k

-- name: NewEndpoints
INSERT INTO parley_endpoint (handle, conversation, peer, initiator, service, far, contract, queue_id, group_id, priority, begun)
SELECT unhex(k.value ->> 0), unhex(k.value ->> 1), unhex(k.value ->> 2), k.value ->> 3, k.value ->> 4, k.value ->> 5,
       k.value ->> 6, k.value ->> 7, unhex(k.value ->> 0), k.value ->> 8, ?2
  FROM json_each(?1) k

-- name: StreamAdvance
UPDATE parley_stream SET next_seq = ?1, touched = ?3 WHERE stream_id = ?2

-- name: StreamClose
UPDATE parley_stream SET next_seq = ?1, closed = 1, touched = ?3 WHERE stream_id = ?2

-- name: StreamDelete
DELETE FROM parley_stream WHERE stream_id = ?1

-- name: StreamHold
UPDATE parley_stream SET next_seq = ?1, held = 1, touched = ?3 WHERE stream_id = ?2

-- name: StreamHome
UPDATE parley_stream SET group_id = ?1, queue_id = +?2, endpoint = ?3, priority = +?4
 WHERE stream_id = ?5

-- name: StreamInsert
INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, endpoint, priority,
       next_seq, closed, held, touched)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, ?9)

-- name: StreamMove
UPDATE parley_stream SET group_id = ?1 WHERE stream_id = ?2

-- name: StreamRank
UPDATE parley_stream SET priority = +?1 WHERE stream_id = ?2

-- name: StreamRead
SELECT s.kind, s.group_id, s.queue_id, s.endpoint, s.priority, s.next_seq, s.closed, s.held,
       q.enabled,
       (SELECT count(*) FROM parley_closing c WHERE c.handle = s.stream_id),
       (SELECT v.catalog_version FROM parley_meta v)
  FROM parley_stream s
  LEFT JOIN parley_queue q ON q.queue_id = s.queue_id
 WHERE s.stream_id = ?1

-- name: StreamSeal
UPDATE parley_stream SET closed = 2 WHERE stream_id = ?1

-- name: StreamUnhold
UPDATE parley_stream SET held = 0 WHERE stream_id = ?1

-- name: StreamsDelete
DELETE FROM parley_stream WHERE stream_id IN (?1, ?2)

-- name: StreamsOf
DELETE FROM parley_stream WHERE stream_id IN (SELECT unhex(value) FROM json_each(?1))

-- name: StreamsOfEndpoint
SELECT stream_id, kind FROM parley_stream
 WHERE group_id = ?1 AND endpoint = ?2 ORDER BY stream_id

-- name: StreamsOfGroup
SELECT stream_id FROM parley_stream WHERE group_id = ?1 ORDER BY stream_id
