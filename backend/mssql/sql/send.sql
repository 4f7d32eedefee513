-- name: Posts
-- Posts without key, delay or unique value; their queues have been looked at.
--
-- @p1 posts
INSERT INTO parley_post (post_id, queue_id, priority, since, type, body, headers)
SELECT k.message_id, k.queue_id, k.priority, :now, k.type, k.body, nullif(k.headers, N'') FROM @p1 k ORDER BY k.n

-- name: Send
-- A send of one message, if its guard can be locked at once and nothing refuses it. It locks the
-- guard, and then reads by a new statement. It inserts the message last, because the rows before it
-- do no harm without it.
--
-- @p1 from, @p2 message id, @p3 type, @p4 body, @p5 kind, @p6 catalog version,
-- @p7 whether to keep a copy, @p8 headers
SET NOCOUNT ON;
DECLARE @now bigint = :now, @seq bigint, @queue bigint, @group binary(16), @priority smallint;
BEGIN TRY
  SELECT @seq = next_seq
    FROM parley_stream WITH (READCOMMITTEDLOCK, XLOCK, ROWLOCK, READPAST) WHERE stream_id = @p1;
  SELECT @queue = s.queue_id, @group = s.group_id, @priority = s.priority
    FROM parley_stream s WITH (READUNCOMMITTED)
    JOIN parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK) ON q.queue_id = s.queue_id
   CROSS JOIN parley_meta v WITH (READCOMMITTEDLOCK, ROWLOCK)
   WHERE @seq IS NOT NULL AND s.stream_id = @p1 AND s.kind = 2 AND s.closed = 0 AND s.held = 0
     AND q.enabled = 1 AND v.catalog_version = @p6
     AND NOT EXISTS (SELECT 1 FROM parley_closing c WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                      WHERE c.handle = @p1);
  IF @queue IS NOT NULL
  BEGIN
    UPDATE parley_stream SET next_seq = @seq + 1, touched = @now WHERE stream_id = @p1;
    INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
    SELECT @queue, @group, @p1, @priority, @now
     WHERE NOT EXISTS (SELECT 1 FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK)
                        WHERE r.group_id = @group AND r.stream_id = @p1);
    IF @p7 = 1
      INSERT INTO parley_retained (handle, stream_id, seq, sent, message_id, kind, type, body, headers, since, kept)
      VALUES (@p1, @p1, @seq, 1, @p2, @p5, @p3, @p4, nullif(@p8, N''), @now, @now);
    INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since)
    VALUES (@p1, @seq, @p2, @p5, @p3, @p4, nullif(@p8, N''), @now);
    SELECT @seq, @queue;
  END
END TRY
BEGIN CATCH
  THROW;
END CATCH

-- name: Guards
-- The guards of a batch, locked in the order of the list, and then the rows on which a sender
-- depends.
--
-- @p1 streams
DECLARE @locked int;
SELECT @locked = count(s.kind)
  FROM @p1 k
 INNER LOOP JOIN parley_stream s WITH (READCOMMITTEDLOCK, XLOCK, ROWLOCK) ON s.stream_id = k.id;
SELECT s.stream_id, s.kind, s.group_id, s.queue_id, s.endpoint, s.priority, s.next_seq, s.closed, s.held,
       (SELECT q.enabled FROM parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK) WHERE q.queue_id = s.queue_id),
       (SELECT count(*) FROM parley_closing c WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
         WHERE c.handle = s.stream_id),
       (SELECT v.catalog_version FROM parley_meta v WITH (READCOMMITTEDLOCK, ROWLOCK))
  FROM @p1 k
  JOIN parley_stream s WITH (READUNCOMMITTED) ON s.stream_id = k.id

-- name: Append
-- Messages appended to streams whose guards are ours.
--
-- @p1 messages
SET NOCOUNT ON;
DECLARE @now bigint = :now;
BEGIN TRY
  UPDATE s SET next_seq = k.next_seq, priority = k.priority, touched = @now
    FROM (SELECT b.stream_id, max(b.seq) + 1 AS next_seq, max(b.priority) AS priority
            FROM @p1 b GROUP BY b.stream_id) k
   INNER LOOP JOIN parley_stream s WITH (READCOMMITTEDLOCK, ROWLOCK) ON s.stream_id = k.stream_id;
  INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
  SELECT k.queue_id, k.group_id, k.stream_id, k.priority, @now
    FROM @p1 k
   WHERE k.n = (SELECT min(b.n) FROM @p1 b WHERE b.stream_id = k.stream_id)
     AND NOT EXISTS (SELECT 1 FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK)
                      WHERE r.group_id = k.group_id AND r.stream_id = k.stream_id);
  INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since)
  SELECT k.stream_id, k.seq, k.message_id, k.kind, k.type, k.body, nullif(k.headers, N''), @now FROM @p1 k ORDER BY k.n;
END TRY
BEGIN CATCH
  THROW;
END CATCH
