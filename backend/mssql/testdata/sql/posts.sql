-- name: DelayedDelete
DELETE FROM parley_delayed WHERE post_id = @p1

-- name: DelayedFree
SELECT post_id, uniq FROM parley_delayed WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST) WHERE post_id IN (@p1, @p2, @p3, @p4, @p5, @p6, @p7, @p8, @p9, @p10, @p11, @p12, @p13, @p14, @p15, @p16, @p17, @p18, @p19, @p20, @p21, @p22, @p23, @p24, @p25, @p26, @p27, @p28, @p29, @p30, @p31, @p32, @p33, @p34, @p35, @p36, @p37, @p38, @p39, @p40, @p41, @p42, @p43, @p44, @p45, @p46, @p47, @p48, @p49, @p50) AND queue_id = @p51

-- name: DelayedInsert
INSERT INTO parley_delayed (post_id, queue_id, name, priority, type, body, headers, uniq, begun, due)
VALUES (@p1, @p2, @p3, @p4, @p5, @p6, @p7, @p8, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()), DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) + @p9)

-- name: DelayedRead
SELECT queue_id, name, priority, type, body, headers, uniq, due, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())
  FROM parley_delayed WITH (READUNCOMMITTED) WHERE post_id = @p1

-- name: DelayedTry
SELECT 1 FROM parley_delayed WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST) WHERE post_id = @p1

-- name: KeyDelete
DELETE FROM parley_key WHERE queue_id = @p1 AND name = @p2 AND bytes = DATALENGTH(@p2)

-- name: KeyInsert
SET XACT_ABORT OFF; SET @rows = 0;
BEGIN TRY
  INSERT INTO parley_key (queue_id, name, bytes, stream_id) VALUES (@p1, @p2, DATALENGTH(@p2), @p3) ;
  SET @rows = @@ROWCOUNT;
END TRY
BEGIN CATCH
  IF ERROR_NUMBER() NOT IN (2601, 2627) THROW;
END CATCH

-- name: KeyRead
SELECT stream_id FROM parley_key WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE queue_id = @p1 AND name = @p2 AND bytes = DATALENGTH(@p2)

-- name: PostBlock
UPDATE parley_post
   SET blocked = @p1, blocked_since = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()), blocked_until = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) + @p2, reason = @p3
 WHERE post_id = @p4

-- name: PostDelete
DELETE FROM parley_post WHERE post_id = @p1

-- name: PostDue
UPDATE parley_post SET sent = coalesce(sent, since), since = blocked_until, blocked = 0, blocked_until = 0, reason = ''
 WHERE post_id = @p1 AND blocked = 1 AND blocked_until <= DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())

-- name: PostExtend
UPDATE parley_post SET lease_until = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) + @p1
 WHERE post_id = @p2 AND fence = @p3 AND lease_until <> 0

-- name: PostFail
UPDATE parley_post SET attempts = @p1, suspicion = @p2, last_error = @p3, errors = REPLACE(CONVERT(nvarchar(max), @p4) COLLATE Latin1_General_100_BIN2, N'"at":null', N'"at":' + CONVERT(nvarchar(20), DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()))) WHERE post_id = @p5

-- name: PostFree
SELECT 1 FROM parley_post WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST) WHERE post_id = @p1 AND lease_until < DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())

-- name: PostInsert
INSERT INTO parley_post (post_id, queue_id, priority, since, type, body, headers, uniq)
VALUES (@p1, @p2, @p3, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()), @p4, @p5, @p6, @p7)

-- name: PostLease
UPDATE parley_post
   SET fence = fence + 1, lease_until = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) + @p1, held_since = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()), owner = @p2
 WHERE post_id = @p3

-- name: PostOne
INSERT INTO parley_post (post_id, queue_id, priority, since, type, body, headers)
SELECT @p1, q.queue_id, @p2, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()), @p3, CONVERT(varbinary(max), @p4), CONVERT(nvarchar(max), @p5)
  FROM parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK)
 CROSS JOIN parley_meta v WITH (READCOMMITTEDLOCK, ROWLOCK)
 WHERE q.queue_id = @p6 AND q.enabled = 1 AND v.catalog_version = @p7

-- name: PostRead
SELECT post_id, queue_id, priority, since, sent, type, body, headers, uniq, attempts, suspicion,
       last_error, errors, fence, lease_until, blocked, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())
  FROM parley_post WITH (READUNCOMMITTED) WHERE post_id = @p1

-- name: PostReclaim
UPDATE parley_post WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) SET lease_until = 0, owner = N''
 WHERE post_id = @p1 AND fence = @p2 AND lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v WITH (READCOMMITTEDLOCK, ROWLOCK)) <= 12

-- name: PostReclaimWait
UPDATE parley_post SET lease_until = 0, owner = ''
 WHERE post_id = @p1 AND fence = @p2 AND lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v WITH (READCOMMITTEDLOCK, ROWLOCK)) <= 12

-- name: PostTry
SELECT 1 FROM parley_post WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST) WHERE post_id = @p1

-- name: PostUnblock
UPDATE parley_post SET blocked = 0, blocked_until = 0, reason = '' WHERE post_id = @p1

-- name: PostUnlease
UPDATE parley_post SET fence = fence + 1, lease_until = 0, owner = '' WHERE post_id = @p1

-- name: PostsFree
SELECT post_id, uniq FROM parley_post WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST)
 WHERE post_id IN (@p1, @p2, @p3, @p4, @p5, @p6, @p7, @p8, @p9, @p10, @p11, @p12, @p13, @p14, @p15, @p16, @p17, @p18, @p19, @p20, @p21, @p22, @p23, @p24, @p25, @p26, @p27, @p28, @p29, @p30, @p31, @p32, @p33, @p34, @p35, @p36, @p37, @p38, @p39, @p40, @p41, @p42, @p43, @p44, @p45, @p46, @p47, @p48, @p49, @p50) AND queue_id = @p51 AND lease_until < DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())

-- name: ProcessedInsert
INSERT INTO parley_processed (post_id, queue_id, name, type, body, headers, keep_until)
VALUES (@p1, @p2, @p3, @p4, @p5, @p6, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) + @p7)

-- name: UniqueDelete
DELETE FROM parley_uniq WHERE queue_id = @p1 AND value = @p2 AND bytes = DATALENGTH(@p2)

-- name: UniqueInsert
SET XACT_ABORT OFF; SET @rows = 0;
BEGIN TRY
  INSERT INTO parley_uniq (queue_id, value, bytes, post_id) VALUES (@p1, @p2, DATALENGTH(@p2), @p3) ;
  SET @rows = @@ROWCOUNT;
END TRY
BEGIN CATCH
  IF ERROR_NUMBER() NOT IN (2601, 2627) THROW;
END CATCH

-- name: UniqueRead
SELECT post_id FROM parley_uniq WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE queue_id = @p1 AND value = @p2 AND bytes = DATALENGTH(@p2)
