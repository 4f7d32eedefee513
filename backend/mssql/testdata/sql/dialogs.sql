-- name: ClosingDelete
DELETE FROM parley_closing WHERE handle = @p1

-- name: ClosingInsert
INSERT INTO parley_closing (handle, id, kind, by_peer, code, description)
VALUES (@p1, @p2, @p3, @p4, @p5, @p6)

-- name: ClosingsDelete
DELETE FROM parley_closing WHERE handle IN (@p1, @p2)

-- name: EndRead
SELECT e.peer, e.group_id, e.closed_at, s.group_id, s.queue_id, s.endpoint, s.priority, s.next_seq,
       s.held, q.enabled,
       (SELECT count(*) FROM parley_closing d WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE d.handle = e.peer AND d.kind = 1),
       (SELECT count(*) FROM parley_timer a WITH (READUNCOMMITTED) WHERE a.handle = e.handle)
     + (SELECT count(*) FROM parley_timer b WITH (READUNCOMMITTED) WHERE b.handle = e.peer),
       (SELECT count(*) FROM parley_retained a WITH (READUNCOMMITTED) WHERE a.handle = e.handle)
     + (SELECT count(*) FROM parley_retained b WITH (READUNCOMMITTED) WHERE b.handle = e.peer),
       (SELECT count(*) FROM parley_held a WITH (READUNCOMMITTED) WHERE a.stream_id = e.handle)
     + (SELECT count(*) FROM parley_held b WITH (READUNCOMMITTED) WHERE b.stream_id = e.peer),
       c.kind, c.by_peer
  FROM parley_endpoint e WITH (READUNCOMMITTED)
  JOIN parley_stream s WITH (READUNCOMMITTED) ON s.stream_id = e.handle
  LEFT JOIN parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK) ON q.queue_id = s.queue_id
  LEFT JOIN parley_closing c WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON c.handle = e.handle
 WHERE e.handle = @p1

-- name: EndpointClose
UPDATE parley_endpoint SET closed_at = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) WHERE handle = @p1

-- name: EndpointDelete
DELETE FROM parley_endpoint WHERE handle = @p1

-- name: EndpointFinish
UPDATE parley_endpoint SET finish_at = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) + @p1 WHERE handle = @p2

-- name: EndpointHome
SELECT e.group_id, e.queue_id, e.priority, e.peer, e.service, x.closed_at, q.enabled
  FROM parley_endpoint e WITH (READUNCOMMITTED)
  LEFT JOIN parley_endpoint x WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON x.handle = e.handle
  JOIN parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK) ON q.queue_id = e.queue_id
 WHERE e.handle = @p1

-- name: EndpointInsert
INSERT INTO parley_endpoint (handle, conversation, peer, initiator, service, far,
       contract, queue_id, group_id, priority, lifetime_until, begun)
VALUES (@p1, @p2, @p3, @p4, @p5, @p6, @p7, @p8, @p9, @p10, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) + CONVERT(bigint, @p11), DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()))

-- name: EndpointMove
UPDATE parley_endpoint SET group_id = @p1 WHERE handle = @p2

-- name: EndpointRead
SELECT e.handle, e.conversation, e.peer, e.initiator, e.service, e.far, e.contract, e.queue_id,
       e.group_id, e.priority, e.lifetime_until, x.closed_at, s.next_seq, s.closed,
       c.id, c.kind, c.by_peer, c.code, c.description, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())
  FROM parley_endpoint e WITH (READUNCOMMITTED)
  LEFT JOIN parley_endpoint x WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON x.handle = e.handle
  LEFT JOIN parley_stream s WITH (READUNCOMMITTED) ON s.stream_id = e.handle
  LEFT JOIN parley_closing c WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON c.handle = e.handle
 WHERE e.handle = @p1

-- name: EndpointsDelete
DELETE FROM parley_endpoint WHERE handle IN (@p1, @p2)

-- name: EndpointsOfGroup
SELECT e.handle, e.conversation, e.peer, e.initiator, e.service, e.far, e.contract, e.queue_id,
       e.group_id, e.priority, e.lifetime_until, x.closed_at, s.next_seq, s.closed,
       c.id, c.kind, c.by_peer, c.code, c.description, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())
  FROM parley_endpoint e WITH (READUNCOMMITTED)
  LEFT JOIN parley_endpoint x WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON x.handle = e.handle
  LEFT JOIN parley_stream s WITH (READUNCOMMITTED) ON s.stream_id = e.handle
  LEFT JOIN parley_closing c WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON c.handle = e.handle
 WHERE e.group_id = @p1
 ORDER BY e.handle

-- name: GuardLock
SELECT 1 FROM parley_stream WITH (READCOMMITTEDLOCK, XLOCK, ROWLOCK) WHERE stream_id = @p1

-- name: GuardTry
SELECT 1 FROM parley_stream WITH (READCOMMITTEDLOCK, XLOCK, ROWLOCK, READPAST) WHERE stream_id = @p1

-- name: HeldDelete
DELETE FROM parley_held WHERE stream_id = @p1

-- name: HeldInsert
INSERT INTO parley_held (stream_id, seq, message_id, kind, type, body, headers, since, status)
VALUES (@p1, @p2, @p3, @p4, @p5, @p6, @p7, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()), @p8)

-- name: HeldMove
UPDATE parley_held SET stream_id = @p1, seq = seq + @p2, status = @p3
 WHERE stream_id = @p4 AND type <> @p5

-- name: HeldRead
SELECT seq, message_id, kind, type, body, headers, since FROM parley_held WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE stream_id = @p1 ORDER BY seq

-- name: KeyedFind
SELECT m.message_id, m.stream_id, m.seq, m.uniq, s.group_id, CASE WHEN f.message_id IS NULL THEN 0 ELSE 1 END
  FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
  JOIN parley_stream s WITH (READUNCOMMITTED) ON s.stream_id = m.stream_id
  LEFT JOIN parley_failure f WITH (READUNCOMMITTED) ON f.message_id = m.message_id
 WHERE m.message_id IN (@p1, @p2, @p3, @p4, @p5, @p6, @p7, @p8, @p9, @p10, @p11, @p12, @p13, @p14, @p15, @p16, @p17, @p18, @p19, @p20, @p21, @p22, @p23, @p24, @p25, @p26, @p27, @p28, @p29, @p30, @p31, @p32, @p33, @p34, @p35, @p36, @p37, @p38, @p39, @p40, @p41, @p42, @p43, @p44, @p45, @p46, @p47, @p48, @p49, @p50) AND m.kind = 4 AND s.queue_id = @p51

-- name: MarkerDelete
DELETE FROM parley_ready WHERE group_id = @p1 AND stream_id = @p2

-- name: MarkerInsert
INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
SELECT @p1, @p2, @p3, @p4, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())
 WHERE NOT EXISTS (SELECT 1 FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK)
                    WHERE r.group_id = @p2 AND r.stream_id = @p3)

-- name: MarkerMove
UPDATE parley_ready SET group_id = @p1
 WHERE group_id = @p2 AND stream_id = @p3

-- name: MarkerRaise
UPDATE parley_ready SET priority = @p1
 WHERE group_id = @p2 AND stream_id = @p3 AND priority < @p4

-- name: MarkerRead
SELECT stream_id FROM parley_ready WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE group_id = @p1 ORDER BY stream_id

-- name: MarkerSince
UPDATE parley_ready SET since = @p1
 WHERE group_id = @p2 AND stream_id = @p3 AND since <> @p4

-- name: MarkerTry
SELECT 1 FROM parley_ready WITH (READCOMMITTEDLOCK, XLOCK, ROWLOCK, READPAST) WHERE group_id = @p1 AND stream_id = @p2

-- name: MarkersAstray
SELECT TOP (10000) s.stream_id
  FROM parley_stream s WITH (INDEX(by_group), READCOMMITTEDLOCK, ROWLOCK, READPAST)
  LEFT JOIN parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
    ON r.group_id = s.group_id AND r.stream_id = s.stream_id
  LEFT JOIN parley_stream x WITH (READUNCOMMITTED) ON x.stream_id = s.stream_id
 WHERE s.group_id = @p1
   AND coalesce(r.since, -1) <> (SELECT TOP (1) CASE WHEN m.since > @p2 THEN m.since ELSE @p3 END
                                   FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                                  WHERE m.stream_id = s.stream_id
                                  ORDER BY m.seq)
 ORDER BY x.priority DESC, s.endpoint, s.kind, s.stream_id

-- name: MessageDelete
DELETE FROM parley_message WHERE stream_id = @p1 AND seq = @p2

-- name: MessageFind
SELECT m.stream_id, m.seq, m.uniq, s.group_id, s.queue_id
  FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
  JOIN parley_stream s WITH (READUNCOMMITTED) ON s.stream_id = m.stream_id
 WHERE m.message_id = @p1 AND m.kind = 4

-- name: MessageFirst
SET XACT_ABORT OFF;
DECLARE @seq bigint, @since bigint;
BEGIN TRY
  SELECT TOP (1) @seq = seq, @since = since FROM parley_message WITH (READCOMMITTEDLOCK, ROWLOCK, NOWAIT)
   WHERE stream_id = @p1 ORDER BY seq;
END TRY
BEGIN CATCH
  IF ERROR_NUMBER() <> 1222 THROW;
  SELECT @seq = 0, @since = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME());
END CATCH;
SELECT @seq, @since WHERE @seq IS NOT NULL

-- name: MessageInsert
INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since, uniq)
VALUES (@p1, @p2, @p3, @p4, @p5, @p6, @p7, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()), @p8)

-- name: MessageKeys
SELECT seq, message_id FROM parley_message WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE stream_id = @p1 ORDER BY seq

-- name: MessageRead
DECLARE @last bigint = (
  SELECT max(m.seq) FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE m.stream_id = @p1);
SELECT m.seq, m.message_id, m.kind, m.type, m.body, m.headers, m.since, m.uniq,
       f.attempts, f.suspicion, f.last_error, f.errors
  FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK)
  LEFT JOIN parley_failure f WITH (READCOMMITTEDLOCK, ROWLOCK) ON f.message_id = m.message_id
 WHERE m.stream_id = @p1 AND m.seq > @p2 AND m.seq <= @last
 ORDER BY m.seq OFFSET 0 ROWS FETCH NEXT @p3 ROWS ONLY

-- name: MessagesOfEndpoint
SELECT s.stream_id, s.kind, m.seq, m.message_id, f.message_id
  FROM parley_stream s WITH (INDEX(by_group), READCOMMITTEDLOCK, ROWLOCK, READPAST)
  LEFT JOIN parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON m.stream_id = s.stream_id
  LEFT JOIN parley_failure f WITH (READCOMMITTEDLOCK, ROWLOCK) ON f.message_id = m.message_id
 WHERE s.group_id = @p1 AND s.endpoint = @p2
 ORDER BY s.stream_id, m.seq

-- name: StreamAdvance
UPDATE parley_stream SET next_seq = @p1, touched = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) WHERE stream_id = @p2

-- name: StreamClose
UPDATE parley_stream SET next_seq = @p1, closed = 1, touched = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) WHERE stream_id = @p2

-- name: StreamDelete
DELETE FROM parley_stream WHERE stream_id = @p1

-- name: StreamHold
UPDATE parley_stream SET next_seq = @p1, held = 1, touched = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) WHERE stream_id = @p2

-- name: StreamHome
UPDATE parley_stream SET group_id = @p1, queue_id = @p2, endpoint = @p3, priority = @p4
 WHERE stream_id = @p5

-- name: StreamInsert
INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, endpoint, priority,
       next_seq, closed, held, touched)
VALUES (@p1, @p2, @p3, @p4, @p5, @p6, @p7, @p8, 0, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()))

-- name: StreamMove
UPDATE parley_stream SET group_id = @p1 WHERE stream_id = @p2

-- name: StreamRank
UPDATE parley_stream SET priority = @p1 WHERE stream_id = @p2

-- name: StreamRead
SELECT s.kind, s.group_id, s.queue_id, s.endpoint, s.priority, s.next_seq, s.closed, s.held,
       q.enabled,
       (SELECT count(*) FROM parley_closing c WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE c.handle = s.stream_id),
       (SELECT v.catalog_version FROM parley_meta v WITH (READCOMMITTEDLOCK, ROWLOCK))
  FROM parley_stream s WITH (READUNCOMMITTED)
  LEFT JOIN parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK) ON q.queue_id = s.queue_id
 WHERE s.stream_id = @p1

-- name: StreamSeal
UPDATE parley_stream SET closed = 2 WHERE stream_id = @p1

-- name: StreamUnhold
UPDATE parley_stream SET held = 0 WHERE stream_id = @p1

-- name: StreamsDelete
DELETE FROM parley_stream WHERE stream_id IN (@p1, @p2)

-- name: StreamsOfEndpoint
SELECT stream_id, kind FROM parley_stream WITH (INDEX(by_group), READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE group_id = @p1 AND endpoint = @p2 ORDER BY stream_id

-- name: StreamsOfGroup
SELECT stream_id FROM parley_stream WITH (INDEX(by_group), READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE group_id = @p1 ORDER BY stream_id
