-- name: RecurringInsert
SET XACT_ABORT OFF; SET @rows = 0;
BEGIN TRY
  INSERT INTO parley_recurring (name, bytes, state)
VALUES (@p1, DATALENGTH(@p1), 'removed') ;
  SET @rows = @@ROWCOUNT;
END TRY
BEGIN CATCH
  IF ERROR_NUMBER() NOT IN (2601, 2627) THROW;
END CATCH

-- name: RecurringList
SELECT r.name, r.revision, r.queue, r.type, r.body, r.cron, r.zone, r.every, r.jitter, r.grace,
       r.catch_up, r.overlap, r.state, r.due, r.look, r.last_due, r.fired, r.skipped,
       r.failures, r.error, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())
  FROM parley_recurring r WITH (READUNCOMMITTED)

-- name: RecurringLock
SELECT 1 FROM parley_recurring WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK) WHERE name = @p1 AND bytes = DATALENGTH(@p1)

-- name: RecurringLook
SELECT name, look - DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) FROM parley_recurring WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE state = 'active'
 ORDER BY look, name
 OFFSET 0 ROWS FETCH NEXT 100 ROWS ONLY

-- name: RecurringRead
SELECT r.name, r.revision, r.queue, r.type, r.body, r.cron, r.zone, r.every, r.jitter, r.grace,
       r.catch_up, r.overlap, r.state, r.due, r.look, r.last_due, r.fired, r.skipped,
       r.failures, r.error, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())
  FROM parley_recurring r WITH (READUNCOMMITTED)
 WHERE r.name = @p1 AND r.bytes = DATALENGTH(@p1)

-- name: RecurringTry
SELECT 1 FROM parley_recurring WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST) WHERE name = @p1 AND bytes = DATALENGTH(@p1)

-- name: RecurringUpdate
UPDATE parley_recurring
   SET revision = @p1, queue = @p2, type = @p3, body = @p4, cron = @p5, zone = @p6, every = @p7, jitter = @p8, grace = @p9,
       catch_up = @p10, overlap = @p11, state = @p12, due = @p13, look = @p14, last_due = @p15, fired = @p16, skipped = @p17,
       failures = @p18, error = @p19
 WHERE name = @p20 AND bytes = DATALENGTH(@p20)
