-- The public part of Parley's tables: views to read, and a procedure by which any program can post
-- in its own transaction. The columns of the views stay; new ones come at their ends. Ids are shown
-- as text, instants in UTC.
--
-- The views never wait: they also show changes of transactions in flight. A view has to be alone in
-- its batch, hence the strings.

-- Queues. Counts stop at 10000.
EXEC (N'CREATE VIEW parley_queues AS
SELECT q.name AS queue, CONVERT(bit, q.enabled) AS enabled, CONVERT(bit, q.retention) AS retention,
       CASE WHEN c.posts + c.messages > 10000 THEN 10000 ELSE c.posts + c.messages END AS ready,
       c.delayed, c.deferred, c.parked
  FROM parley_queue q WITH (READUNCOMMITTED)
 CROSS APPLY (
         SELECT (SELECT count(*) FROM (SELECT TOP (10000) 1 AS one FROM parley_post p WITH (READUNCOMMITTED)
                                        WHERE p.queue_id = q.queue_id AND p.blocked = 0) x) AS posts,
                (SELECT count(*) FROM (SELECT TOP (10000) 1 AS one FROM parley_ready r WITH (READUNCOMMITTED)
                                         JOIN parley_message m WITH (READUNCOMMITTED) ON m.stream_id = r.stream_id
                                        WHERE r.queue_id = q.queue_id) x) AS messages,
                (SELECT count(*) FROM (SELECT TOP (10000) 1 AS one FROM parley_delayed d WITH (READUNCOMMITTED)
                                        WHERE d.queue_id = q.queue_id) x) AS delayed,
                (SELECT count(*) FROM (SELECT TOP (10000) 1 AS one FROM parley_grp g WITH (READUNCOMMITTED)
                                        WHERE g.blocked = 1 AND g.blocked <> 0 AND g.queue_id = q.queue_id) x)
              + (SELECT count(*) FROM (SELECT TOP (10000) 1 AS one FROM parley_post p WITH (READUNCOMMITTED)
                                        WHERE p.blocked = 1 AND p.blocked <> 0 AND p.queue_id = q.queue_id) x) AS deferred,
                (SELECT count(*) FROM (SELECT TOP (10000) 1 AS one FROM parley_grp g WITH (READUNCOMMITTED)
                                        WHERE g.blocked = 2 AND g.blocked <> 0 AND g.queue_id = q.queue_id) x)
              + (SELECT count(*) FROM (SELECT TOP (10000) 1 AS one FROM parley_post p WITH (READUNCOMMITTED)
                                        WHERE p.blocked = 2 AND p.blocked <> 0 AND p.queue_id = q.queue_id) x) AS parked) c');

-- Groups with messages in the ready order, deferred and parked ones, and posts
-- without key, which are groups of their own. Holds of transactions cannot be
-- seen.
EXEC (N'CREATE VIEW parley_groups AS
SELECT q.name AS queue, LOWER(STUFF(STUFF(STUFF(STUFF(CONVERT(char(32), x.group_id, 2), 9, 0, ''-''), 14, 0, ''-''), 19, 0, ''-''), 24, 0, ''-'')) AS group_id,
       x.service, x.name AS [key], CONVERT(bit, x.post) AS post, x.priority,
       p.level AS promotion, CONVERT(bit, p.sticky) AS sticky,
       CASE WHEN x.blocked = 2 THEN ''parked''
            WHEN x.blocked = 1 THEN ''deferred''
            WHEN x.lease_until > DATEDIFF_BIG(microsecond, ''19700101'', SYSUTCDATETIME()) THEN ''held''
            ELSE ''ready'' END AS state,
       x.reason, x.owner,
       DATEADD(microsecond, x.oldest % 60000000, DATEADD(minute, x.oldest / 60000000, CONVERT(datetime2(6), ''19700101''))) AS oldest,
       DATEADD(microsecond, x.since % 60000000, DATEADD(minute, x.since / 60000000, CONVERT(datetime2(6), ''19700101''))) AS since,
       DATEADD(microsecond, x.until % 60000000, DATEADD(minute, x.until / 60000000, CONVERT(datetime2(6), ''19700101''))) AS until
  FROM (SELECT g.queue_id, g.group_id, nullif(g.service, N'''') AS service, nullif(g.name, N'''') AS name, 0 AS post,
               (SELECT max(r.priority) FROM parley_ready r WITH (READUNCOMMITTED) WHERE r.group_id = g.group_id) AS priority,
               (SELECT min(r.since) FROM parley_ready r WITH (READUNCOMMITTED) WHERE r.group_id = g.group_id) AS oldest,
               g.blocked, g.reason, g.lease_until, g.owner,
               nullif(CASE g.blocked WHEN 0 THEN g.held_since ELSE g.blocked_since END, 0) AS since,
               nullif(CASE g.blocked WHEN 0 THEN g.lease_until WHEN 1 THEN g.blocked_until END, 0) AS until
          FROM parley_grp g WITH (READUNCOMMITTED)
         WHERE g.blocked <> 0
            OR EXISTS (SELECT 1 FROM parley_ready r WITH (READUNCOMMITTED) WHERE r.group_id = g.group_id)
         UNION ALL
        SELECT o.queue_id, o.post_id, NULL, NULL, 1, o.priority, o.since,
               o.blocked, o.reason, o.lease_until, o.owner,
               nullif(CASE o.blocked WHEN 0 THEN o.held_since ELSE o.blocked_since END, 0),
               nullif(CASE o.blocked WHEN 0 THEN o.lease_until WHEN 1 THEN o.blocked_until END, 0)
          FROM parley_post o WITH (READUNCOMMITTED)) x
  JOIN parley_queue q WITH (READUNCOMMITTED) ON q.queue_id = x.queue_id
  LEFT JOIN parley_promotion p WITH (READUNCOMMITTED) ON p.group_id = x.group_id');

-- Messages and posts that have not been handled. A pending message waits to be received, or a
-- receiver holds it. A delayed post is not yet due. A withheld message has a target that cannot
-- take it.
EXEC (N'CREATE VIEW parley_messages AS
SELECT x.queue, LOWER(STUFF(STUFF(STUFF(STUFF(CONVERT(char(32), x.id, 2), 9, 0, ''-''), 14, 0, ''-''), 19, 0, ''-''), 24, 0, ''-'')) AS message_id,
       LOWER(STUFF(STUFF(STUFF(STUFF(CONVERT(char(32), x.group_id, 2), 9, 0, ''-''), 14, 0, ''-''), 19, 0, ''-''), 24, 0, ''-'')) AS group_id,
       x.name AS [key],
       LOWER(STUFF(STUFF(STUFF(STUFF(CONVERT(char(32), x.handle, 2), 9, 0, ''-''), 14, 0, ''-''), 19, 0, ''-''), 24, 0, ''-'')) AS handle,
       x.type, x.body, x.state, x.status, x.seq,
       DATEADD(microsecond, x.enqueued % 60000000, DATEADD(minute, x.enqueued / 60000000, CONVERT(datetime2(6), ''19700101''))) AS enqueued,
       DATEADD(microsecond, x.due % 60000000, DATEADD(minute, x.due / 60000000, CONVERT(datetime2(6), ''19700101''))) AS due
  FROM (SELECT q.name AS queue, m.message_id AS id, s.group_id, nullif(g.name, N'''') AS name, s.endpoint AS handle,
               m.type, m.body, ''pending'' AS state, CONVERT(nvarchar(max), NULL) AS status, m.seq,
               m.since AS enqueued, CONVERT(bigint, NULL) AS due
          FROM parley_message m WITH (READUNCOMMITTED)
          JOIN parley_stream s WITH (READUNCOMMITTED) ON s.stream_id = m.stream_id
          JOIN parley_queue q WITH (READUNCOMMITTED) ON q.queue_id = s.queue_id
          JOIN parley_grp g WITH (READUNCOMMITTED) ON g.group_id = s.group_id
         UNION ALL
        SELECT q.name, p.post_id, p.post_id, NULL, NULL, p.type, p.body, ''pending'', NULL, 0, p.since, NULL
          FROM parley_post p WITH (READUNCOMMITTED)
          JOIN parley_queue q WITH (READUNCOMMITTED) ON q.queue_id = p.queue_id
         UNION ALL
        SELECT q.name, d.post_id, NULL, nullif(d.name, N''''), NULL, d.type, d.body, ''delayed'', NULL, 0, d.begun, d.due
          FROM parley_delayed d WITH (READUNCOMMITTED)
          JOIN parley_queue q WITH (READUNCOMMITTED) ON q.queue_id = d.queue_id
         UNION ALL
        SELECT q.name, h.message_id, s.group_id, NULL, s.endpoint, h.type, h.body, ''withheld'', h.status, h.seq, h.since, NULL
          FROM parley_held h WITH (READUNCOMMITTED)
          JOIN parley_stream s WITH (READUNCOMMITTED) ON s.stream_id = h.stream_id
          LEFT JOIN parley_queue q WITH (READUNCOMMITTED) ON q.queue_id = s.queue_id) x');

-- Conversations, one row for each side. The states are Service Broker's: SO, CO,
-- DI, DO, ER, CD.
EXEC (N'CREATE VIEW parley_conversations AS
SELECT LOWER(STUFF(STUFF(STUFF(STUFF(CONVERT(char(32), e.conversation, 2), 9, 0, ''-''), 14, 0, ''-''), 19, 0, ''-''), 24, 0, ''-'')) AS conversation,
       LOWER(STUFF(STUFF(STUFF(STUFF(CONVERT(char(32), e.handle, 2), 9, 0, ''-''), 14, 0, ''-''), 19, 0, ''-''), 24, 0, ''-'')) AS handle,
       CONVERT(bit, e.initiator) AS initiator, e.service, e.far AS far_service, e.contract, q.name AS queue,
       LOWER(STUFF(STUFF(STUFF(STUFF(CONVERT(char(32), e.group_id, 2), 9, 0, ''-''), 14, 0, ''-''), 19, 0, ''-''), 24, 0, ''-'')) AS group_id,
       e.priority,
       CASE WHEN e.closed_at IS NOT NULL AND c.gone > 0 THEN ''CD''
            WHEN e.closed_at IS NOT NULL THEN ''DO''
            WHEN c.errors > 0 THEN ''ER''
            WHEN c.ended > 0 THEN ''DI''
            WHEN e.initiator = 1 AND s.next_seq = 0 THEN ''SO''
            ELSE ''CO'' END AS state,
       (SELECT TOP (1) x.code FROM parley_closing x WITH (READUNCOMMITTED)
         WHERE x.handle = e.handle AND x.kind = 1 ORDER BY x.id) AS error_code,
       (SELECT TOP (1) x.description FROM parley_closing x WITH (READUNCOMMITTED)
         WHERE x.handle = e.handle AND x.kind = 1 ORDER BY x.id) AS error_text,
       s.next_seq AS send_sequence,
       DATEADD(microsecond, e.begun % 60000000, DATEADD(minute, e.begun / 60000000, CONVERT(datetime2(6), ''19700101''))) AS begun,
       DATEADD(microsecond, e.lifetime_until % 60000000, DATEADD(minute, e.lifetime_until / 60000000, CONVERT(datetime2(6), ''19700101''))) AS lifetime,
       DATEADD(microsecond, t.due % 60000000, DATEADD(minute, t.due / 60000000, CONVERT(datetime2(6), ''19700101''))) AS timer
  FROM parley_endpoint e WITH (READUNCOMMITTED)
  JOIN parley_queue q WITH (READUNCOMMITTED) ON q.queue_id = e.queue_id
  LEFT JOIN parley_stream s WITH (READUNCOMMITTED) ON s.stream_id = e.handle
  LEFT JOIN parley_timer t WITH (READUNCOMMITTED) ON t.handle = e.handle AND t.kind = 0
 CROSS APPLY (
         SELECT count(CASE WHEN x.kind = 1 THEN 1 END) AS errors,
                count(CASE WHEN x.kind = 0 OR x.kind = 1 AND x.by_peer = 1 THEN 1 END) AS ended,
                count(CASE WHEN x.kind <> 1 OR x.by_peer = 1 THEN 1 END) AS gone
           FROM parley_closing x WITH (READUNCOMMITTED) WHERE x.handle = e.handle) c');

-- Dead letters.
EXEC (N'CREATE VIEW parley_dead AS
SELECT q.name AS queue, LOWER(STUFF(STUFF(STUFF(STUFF(CONVERT(char(32), d.message_id, 2), 9, 0, ''-''), 14, 0, ''-''), 19, 0, ''-''), 24, 0, ''-'')) AS message_id,
       LOWER(STUFF(STUFF(STUFF(STUFF(CONVERT(char(32), d.group_id, 2), 9, 0, ''-''), 14, 0, ''-''), 19, 0, ''-''), 24, 0, ''-'')) AS group_id,
       nullif(d.name, N'''') AS [key],
       LOWER(STUFF(STUFF(STUFF(STUFF(CONVERT(char(32), d.handle, 2), 9, 0, ''-''), 14, 0, ''-''), 19, 0, ''-''), 24, 0, ''-'')) AS handle,
       LOWER(STUFF(STUFF(STUFF(STUFF(CONVERT(char(32), d.conversation, 2), 9, 0, ''-''), 14, 0, ''-''), 19, 0, ''-''), 24, 0, ''-'')) AS conversation,
       d.service, d.far AS far_service, d.contract, d.type, d.body, d.reason, d.attempts, d.last_error,
       DATEADD(microsecond, d.since % 60000000, DATEADD(minute, d.since / 60000000, CONVERT(datetime2(6), ''19700101''))) AS enqueued,
       DATEADD(microsecond, d.died % 60000000, DATEADD(minute, d.died / 60000000, CONVERT(datetime2(6), ''19700101''))) AS died
  FROM parley_dead_letter d WITH (READUNCOMMITTED)
  LEFT JOIN parley_queue q WITH (READUNCOMMITTED) ON q.queue_id = d.queue_id');

-- The execution log: tasks of schedules, with who submitted and who ran them.
-- Running ones have started, but not ended.
EXEC (N'CREATE VIEW parley_executions AS
SELECT s.name AS schedule, LOWER(STUFF(STUFF(STUFF(STUFF(CONVERT(char(32), t.task_id, 2), 9, 0, ''-''), 14, 0, ''-''), 19, 0, ''-''), 24, 0, ''-'')) AS task_id,
       t.n, t.phase, t.type, t.body,
       CASE t.state WHEN 0 THEN ''queued'' WHEN 1 THEN ''running'' WHEN 2 THEN ''failed'' WHEN 3 THEN ''done''
                    WHEN 4 THEN ''dead'' WHEN 5 THEN ''cancelled'' ELSE ''skipped'' END AS state,
       t.caller, nullif(t.owner, N'''') AS worker, t.attempts, nullif(t.error, N'''') AS error,
       DATEADD(microsecond, t.submitted % 60000000, DATEADD(minute, t.submitted / 60000000, CONVERT(datetime2(6), ''19700101''))) AS submitted,
       DATEADD(microsecond, nullif(t.started, 0) % 60000000, DATEADD(minute, nullif(t.started, 0) / 60000000, CONVERT(datetime2(6), ''19700101''))) AS started,
       DATEADD(microsecond, nullif(CASE t.live WHEN 0 THEN t.ended END, 0) % 60000000, DATEADD(minute, nullif(CASE t.live WHEN 0 THEN t.ended END, 0) / 60000000, CONVERT(datetime2(6), ''19700101''))) AS ended
  FROM parley_task t WITH (READUNCOMMITTED)
  JOIN parley_schedule s WITH (READUNCOMMITTED) ON s.schedule_id = t.schedule_id');

-- Application locks, and requests that wait for them. Modes are the sum of 1
-- IntentShared, 2 Shared, 4 Update, 8 IntentExclusive and 16 Exclusive.
EXEC (N'CREATE VIEW parley_locks AS
SELECT l.name, o.owner, l.mode, CONVERT(bit, l.waiting) AS waiting, l.times,
       CASE l.waiting WHEN 0 THEN l.seq END AS fence,
       DATEADD(microsecond, l.since % 60000000, DATEADD(minute, l.since / 60000000, CONVERT(datetime2(6), ''19700101''))) AS since
  FROM parley_lock l WITH (READUNCOMMITTED)
  JOIN parley_lock_owner o WITH (READUNCOMMITTED) ON o.owner_id = l.owner_id
 WHERE (o.kind = 1 OR o.until > DATEDIFF_BIG(microsecond, ''19700101'', SYSUTCDATETIME()))
   AND (l.waiting = 0 OR l.wait_until > DATEDIFF_BIG(microsecond, ''19700101'', SYSUTCDATETIME()))');

-- A post in the caller's transaction, from any program:
--
--     DECLARE @id char(36);
--     EXEC parley_post_message N'emails', N'Welcome', 0x7B7D, @id = @id OUTPUT;
--     EXEC parley_post_message @queue = N'emails', @type = N'Welcome', @body = 0x7B7D, @key = N'customer-42';
--
-- Posts of one key keep the order of their commits. The procedure throws 51001 if the queue is not defined, and 51002
-- if it is disabled. It throws 51003 if the type is not defined, and 51004 if the body is not valid for it. It throws
-- 51005 for XML and Go functions, which only a program can check. The caller's level is READ COMMITTED or REPEATABLE
-- READ. Without a transaction of the caller the procedure uses a separate one.
EXEC (N'CREATE PROCEDURE parley_post_message
  @queue nvarchar(256), @type nvarchar(256) = NULL, @body varbinary(max) = NULL, @key nvarchar(512) = NULL,
  @id char(36) = NULL OUTPUT
AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT OFF;
  DECLARE @queue_id bigint, @enabled smallint, @stream binary(16), @group binary(16), @seq bigint, @random binary(16),
          @message binary(16), @now bigint = DATEDIFF_BIG(microsecond, ''19700101'', SYSUTCDATETIME()),
          @own int = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END,
          @rule nvarchar(16), @text varchar(max) = CONVERT(varchar(max), @body);
  SELECT @queue_id = q.queue_id, @enabled = q.enabled FROM parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK)
   WHERE q.name = @queue AND q.bytes = DATALENGTH(@queue);
  IF @queue_id IS NULL
    THROW 51001, N''parley: the queue is not defined'', 1;
  IF @enabled = 0
    THROW 51002, N''parley: the queue is disabled'', 1;
  IF @type <> N''DEFAULT'' OR DATALENGTH(@type) <> DATALENGTH(N''DEFAULT'')
  BEGIN
    SELECT @rule = coalesce(JSON_VALUE(o.spec, ''$.validation''), N'''')
      FROM parley_object o WITH (READCOMMITTEDLOCK, ROWLOCK)
     WHERE o.kind = N''type'' AND o.name = @type AND o.bytes = DATALENGTH(@type);
    IF @rule IS NULL
      THROW 51003, N''parley: the message type is not defined'', 1;
    IF @rule = N''func'' OR @rule = N''xml'' AND DATALENGTH(@body) > 0
      THROW 51005, N''parley: a body of this type can only be checked by a program'', 1;
    -- ISJSON takes objects and arrays only: what is one value in both of these is JSON.
    IF @rule <> N'''' AND DATALENGTH(@body) > 0
       AND (@rule <> N''json'' OR ISJSON(''['' + @text + '']'') = 0 OR ISJSON(''{"a":'' + @text + ''}'') = 0)
      THROW 51004, N''parley: the body is not valid for its type'', 1;
  END;
  -- UUID version 7: milliseconds, the version, and random bits with the variant.
  SET @random = CONVERT(binary(16), NEWID());
  SET @message = CONVERT(binary(6), @now / 1000)
               + CONVERT(binary(1), 112 + (CONVERT(int, SUBSTRING(@random, 1, 1)) & 15))
               + SUBSTRING(@random, 2, 1) + SUBSTRING(@random, 9, 8);
  SET @id = LOWER(STUFF(STUFF(STUFF(STUFF(CONVERT(char(32), @message, 2), 9, 0, ''-''), 14, 0, ''-''), 19, 0, ''-''), 24, 0, ''-''));
  SET @type = coalesce(@type, N''DEFAULT'');
  IF coalesce(@key, N'''') = N''''
  BEGIN
    INSERT INTO parley_post (post_id, queue_id, priority, since, type, body)
    VALUES (@message, @queue_id, 5, @now, @type, @body);
    RETURN;
  END;
  BEGIN TRY
    IF @own = 1
      BEGIN TRANSACTION;
    WHILE @seq IS NULL
    BEGIN
      SET @stream = NULL;
      SELECT @stream = k.stream_id FROM parley_key k WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
       WHERE k.queue_id = @queue_id AND k.name = @key AND k.bytes = DATALENGTH(@key);
      -- The guard: other posts to the same key wait here.
      IF @stream IS NOT NULL
        SELECT @seq = s.next_seq, @group = s.group_id FROM parley_stream s WITH (READCOMMITTEDLOCK, XLOCK, ROWLOCK)
         WHERE s.stream_id = @stream;
      ELSE
      BEGIN
        -- The key''s first use, or it was swept a moment ago. Of two who make it at
        -- once the second waits, and then finds what the first has made.
        SET @stream = CONVERT(binary(6), @now / 1000) + 0x70
                    + SUBSTRING(CONVERT(binary(16), NEWID()), 8, 1) + SUBSTRING(CONVERT(binary(16), NEWID()), 9, 8);
        BEGIN TRY
          INSERT INTO parley_key (queue_id, name, bytes, stream_id) VALUES (@queue_id, @key, DATALENGTH(@key), @stream);
          INSERT INTO parley_grp (group_id, queue_id, service, name) VALUES (@stream, @queue_id, N'''', @key);
          INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, priority, next_seq, closed, held, touched)
          VALUES (@stream, 3, @stream, @queue_id, 5, 0, 0, 0, @now);
        END TRY
        BEGIN CATCH
          IF ERROR_NUMBER() NOT IN (2601, 2627) THROW;
        END CATCH;
      END;
    END;
    SET @now = DATEDIFF_BIG(microsecond, ''19700101'', SYSUTCDATETIME());
    UPDATE parley_stream SET next_seq = @seq + 1, touched = @now WHERE stream_id = @stream;
    INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
    SELECT @queue_id, @group, @stream, 5, @now
     WHERE NOT EXISTS (SELECT 1 FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK)
                        WHERE r.group_id = @group AND r.stream_id = @stream);
    INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, since)
    VALUES (@stream, @seq, @message, 4, @type, @body, @now);
    IF @own = 1
      COMMIT TRANSACTION;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0
      ROLLBACK TRANSACTION;
    THROW;
  END CATCH;
END');

UPDATE parley_meta SET schema_version = 2;
