-- name: EndpointRead
-- Whether a side has ended is asked of the row as it is committed. A row that is locked
-- is being ended or moved, and has not ended yet for us.
SELECT e.handle, e.conversation, e.peer, e.initiator, e.service, e.far, e.contract, e.queue_id,
       e.group_id, e.priority, e.lifetime_until, x.closed_at, s.next_seq, s.closed,
       c.id, c.kind, c.by_peer, c.code, c.description, :now
  FROM parley_endpoint e WITH (READUNCOMMITTED)
  LEFT JOIN parley_endpoint x WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON x.handle = e.handle
  LEFT JOIN parley_stream s WITH (READUNCOMMITTED) ON s.stream_id = e.handle
  LEFT JOIN parley_closing c WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON c.handle = e.handle
 WHERE e.handle = @p1
-- name: EndpointsOfGroup
SELECT e.handle, e.conversation, e.peer, e.initiator, e.service, e.far, e.contract, e.queue_id,
       e.group_id, e.priority, e.lifetime_until, x.closed_at, s.next_seq, s.closed,
       c.id, c.kind, c.by_peer, c.code, c.description, :now
  FROM parley_endpoint e WITH (READUNCOMMITTED)
  LEFT JOIN parley_endpoint x WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON x.handle = e.handle
  LEFT JOIN parley_stream s WITH (READUNCOMMITTED) ON s.stream_id = e.handle
  LEFT JOIN parley_closing c WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON c.handle = e.handle
 WHERE e.group_id = @p1
 ORDER BY e.handle
-- name: EndpointHome
SELECT e.group_id, e.queue_id, e.priority, e.peer, e.service, x.closed_at, q.enabled
  FROM parley_endpoint e WITH (READUNCOMMITTED)
  LEFT JOIN parley_endpoint x WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON x.handle = e.handle
  JOIN parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK) ON q.queue_id = e.queue_id
 WHERE e.handle = @p1
-- name: MessageRead
-- Messages. Those of a sender in flight are skipped, or receivers would wait for the
-- sender. But a scan is not one instant. It can skip a message, whose sender then
-- commits, and meet the next one, of another sender, committed as well. So the first
-- statement finds the last message that can be seen; by then all before it are
-- committed. The second reads no further. The second does not skip. A commit releases
-- its locks one by one. So the lock of the guard may be free, and the next sender be
-- done, while the message's own lock is still there. It waits until it is released.
-- What is known of failed attempts is written by transactions that have had the group,
-- and read in the same way.
DECLARE @last bigint = (
  SELECT max(m.seq) FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE m.stream_id = @p1);
SELECT m.seq, m.message_id, m.kind, m.type, m.body, m.headers, m.since, m.uniq,
       f.attempts, f.suspicion, f.last_error
  FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK)
  LEFT JOIN parley_failure f WITH (READCOMMITTEDLOCK, ROWLOCK) ON f.message_id = m.message_id
 WHERE m.stream_id = @p1 AND m.seq > @p2 AND m.seq <= @last
 ORDER BY m.seq OFFSET 0 ROWS FETCH NEXT @p3 ROWS ONLY
-- name: MessageFirst
-- Whether a stream is empty. It is asked with the guard, so that no sender is in
-- flight, but not always with the group. A message that is locked is being removed by a
-- receiver, who may yet roll back. To skip it would be to lose it, and to wait would
-- make senders wait, as the guard is ours. It counts as there.
SET XACT_ABORT OFF;
DECLARE @seq bigint, @since bigint;
BEGIN TRY
  SELECT TOP (1) @seq = seq, @since = since FROM parley_message WITH (READCOMMITTEDLOCK, ROWLOCK, NOWAIT)
   WHERE stream_id = @p1 ORDER BY seq;
END TRY
BEGIN CATCH
  IF ERROR_NUMBER() <> 1222 THROW;
  SELECT @seq = 0, @since = :now;
END CATCH;
SELECT @seq, @since WHERE @seq IS NOT NULL
-- name: MarkerInsert
-- The ready order. The guard is ours, so no other transaction can insert the same marker.
INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
SELECT @p1, @p2, @p3, @p4, :now
 WHERE NOT EXISTS (SELECT 1 FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK)
                    WHERE r.group_id = @p2 AND r.stream_id = @p3)
-- name: MarkersAstray
SELECT TOP (10000) s.stream_id
  FROM parley_stream s WITH (INDEX(by_group), READCOMMITTEDLOCK, ROWLOCK, READPAST)
  LEFT JOIN parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
    ON r.group_id = s.group_id AND r.stream_id = s.stream_id
  LEFT JOIN parley_stream x WITH (READUNCOMMITTED) ON x.stream_id = s.stream_id
 WHERE s.group_id = @p1
   AND coalesce(r.since, -1) <> (SELECT TOP (1) m.since
                                   FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                                  WHERE m.stream_id = s.stream_id
                                  ORDER BY m.seq)
 ORDER BY x.priority DESC, s.endpoint, s.kind, s.stream_id
