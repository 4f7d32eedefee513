-- name: EndpointRead
-- The committed row says whether a side has ended. A transaction that has the row locked ends or
-- moves the side, which has not ended yet for us.
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
-- Messages of a sender in flight are skipped, so that receivers do not wait for the sender. But a
-- scan takes time. It can skip a message whose sender then commits, and meet the next message, of
-- another sender, which is committed as well. So the first statement finds the last visible
-- message; all messages before it are committed then. The second statement reads up to that message
-- and does not skip. A commit releases its locks one by one. The next sender may have locked the
-- guard and committed while the message itself is still locked. The second statement waits for that
-- lock. Failed attempts are written by transactions that hold the group, and are read in the same
-- way.
DECLARE @last bigint = (
  SELECT max(m.seq) FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE m.stream_id = @p1);
SELECT m.seq, m.message_id, m.kind, m.type, m.body, m.headers, m.since, m.uniq,
       f.attempts, f.suspicion, f.last_error, f.errors
  FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK)
  LEFT JOIN parley_failure f WITH (READCOMMITTEDLOCK, ROWLOCK) ON f.message_id = m.message_id
 WHERE m.stream_id = @p1 AND m.seq > @p2 AND m.seq <= @last
 ORDER BY m.seq OFFSET 0 ROWS FETCH NEXT @p3 ROWS ONLY
-- name: MessageFirst
-- Whether a stream is empty. The caller has the guard, so no sender is in flight, but not always
-- the group. A receiver that has a message locked removes it, but may still roll back. Skipping the
-- message would lose it, and waiting would make senders wait, since the guard is ours. So a locked
-- message counts as present.
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
   AND coalesce(r.since, -1) <> (SELECT TOP (1) CASE WHEN m.since > @p2 THEN m.since ELSE @p3 END
                                   FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                                  WHERE m.stream_id = s.stream_id
                                  ORDER BY m.seq)
 ORDER BY x.priority DESC, s.endpoint, s.kind, s.stream_id
