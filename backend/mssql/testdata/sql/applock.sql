-- name: FenceInsert
SET XACT_ABORT OFF; SET @rows = 0;
BEGIN TRY
  INSERT INTO parley_fence (name, bytes, fence, uses) VALUES (@p1, DATALENGTH(@p1), @p2, 1) ;
  SET @rows = @@ROWCOUNT;
END TRY
BEGIN CATCH
  IF ERROR_NUMBER() NOT IN (2601, 2627) THROW;
END CATCH

-- name: FenceRaise
UPDATE parley_fence SET fence = @p1, uses = uses + 1 WHERE name = @p2 AND bytes = DATALENGTH(@p2) AND fence <= @p3

-- name: ListLocks
SELECT l.name, l.owner_id, o.owner, l.mode, l.waiting, l.times, l.seq, l.since,
       o.kind, o.until, l.wait_until, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())
  FROM parley_lock l WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
  LEFT JOIN parley_lock_owner o WITH (READUNCOMMITTED) ON o.owner_id = l.owner_id
 ORDER BY l.name, l.bytes, l.waiting, l.seq

-- name: LockChange
UPDATE parley_lock SET mode = @p1, times = @p2 WHERE name = @p3 AND bytes = DATALENGTH(@p3) AND seq = @p4

-- name: LockDelete
DELETE FROM parley_lock WHERE name = @p1 AND bytes = DATALENGTH(@p1) AND seq = @p2

-- name: LockDrop
DELETE FROM parley_lock WHERE owner_id = @p1

-- name: LockFence
SELECT fence FROM parley_lock_stripe WITH (READCOMMITTEDLOCK, ROWLOCK) WHERE stripe = @p1

-- name: LockGraph
SELECT l.name, l.seq, l.owner_id, l.mode, l.waiting
  FROM parley_lock l WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE EXISTS (SELECT 1 FROM parley_lock w WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                WHERE w.name = l.name AND w.bytes = l.bytes AND w.waiting = 1)
 ORDER BY l.name, l.bytes, l.seq

-- name: LockInsert
INSERT INTO parley_lock (name, bytes, seq, owner_id, mode, times, waiting, since, wait_until)
VALUES (@p1, DATALENGTH(@p1), @p2, @p3, @p4, @p5, @p6, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()), DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) + @p7)

-- name: LockRows
SELECT l.seq, l.owner_id, l.mode, l.times, l.waiting, l.wait_until,
       o.kind, o.until, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())
  FROM parley_lock l WITH (READCOMMITTEDLOCK, ROWLOCK)
  LEFT JOIN parley_lock_owner o WITH (READUNCOMMITTED) ON o.owner_id = l.owner_id
 WHERE l.name = @p1 AND l.bytes = DATALENGTH(@p1)
 ORDER BY l.seq

-- name: LockTurn
UPDATE parley_lock_stripe
   SET fence = CASE WHEN fence >= DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) THEN fence + 1 ELSE DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) END
 WHERE stripe = @p1

-- name: LockWait
UPDATE parley_lock SET wait_until = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) + @p1 WHERE name = @p2 AND bytes = DATALENGTH(@p2) AND seq = @p3

-- name: OwnerDelete
DELETE FROM parley_lock_owner WHERE owner_id = @p1

-- name: OwnerExpire
DELETE FROM parley_lock_owner WHERE owner_id = @p1 AND kind <> 1 AND until <= DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())

-- name: OwnerHold
UPDATE parley_lock_owner SET touched = touched + 1 WHERE owner_id = @p1

-- name: OwnerInsert
INSERT INTO parley_lock_owner (owner_id, kind, owner, until, touched)
VALUES (@p1, @p2, @p3, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) + @p4, 0)

-- name: OwnerRead
SELECT kind FROM parley_lock_owner WITH (READUNCOMMITTED) WHERE owner_id = @p1

-- name: OwnerRenew
UPDATE parley_lock_owner SET until = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) + @p1, touched = touched + 1
 WHERE owner_id = @p2 AND kind <> 1 AND until > DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())

-- name: OwnerTouch
UPDATE parley_lock_owner SET touched = touched + 1
 WHERE owner_id = @p1 AND kind <> 1 AND until > DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())

-- name: OwnerTry
SELECT 1 FROM parley_lock_owner WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST) WHERE owner_id = @p1

-- name: OwnersExpired
SELECT owner_id FROM parley_lock_owner WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE kind <> 1 AND until <= DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) ORDER BY owner_id OFFSET 0 ROWS FETCH NEXT @p1 ROWS ONLY

-- name: ListLocks of store 2
SELECT l.name, l.owner_id, o.owner, l.mode, l.waiting, l.times, l.seq, l.since,
       o.kind, CASE WHEN o.kind = 2 AND APPLOCK_TEST(N'public', CONCAT(N'parley ', OBJECT_ID(N'parley_lock'), N' ', N'session ', CONVERT(nvarchar(32), o.owner_id, 2)), N'Shared', N'Session') = 1 THEN 0 ELSE o.until END, l.wait_until, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())
  FROM parley_lock l WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
  LEFT JOIN parley_lock_owner o WITH (READUNCOMMITTED) ON o.owner_id = l.owner_id
 ORDER BY l.name, l.bytes, l.waiting, l.seq

-- name: LockRows of store 2
SELECT l.seq, l.owner_id, l.mode, l.times, l.waiting, l.wait_until,
       o.kind, CASE WHEN o.kind = 2 AND APPLOCK_TEST(N'public', CONCAT(N'parley ', OBJECT_ID(N'parley_lock'), N' ', N'session ', CONVERT(nvarchar(32), o.owner_id, 2)), N'Shared', N'Session') = 1 THEN 0 ELSE o.until END, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())
  FROM parley_lock l WITH (READCOMMITTEDLOCK, ROWLOCK)
  LEFT JOIN parley_lock_owner o WITH (READUNCOMMITTED) ON o.owner_id = l.owner_id
 WHERE l.name = @p1 AND l.bytes = DATALENGTH(@p1)
 ORDER BY l.seq

-- name: OwnerExpire of store 2
DELETE FROM parley_lock_owner WHERE owner_id = @p1 AND 1 = CASE WHEN kind = 0 AND until <= DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) THEN 1 WHEN kind = 2 AND APPLOCK_TEST(N'public', CONCAT(N'parley ', OBJECT_ID(N'parley_lock'), N' ', N'session ', CONVERT(nvarchar(32), owner_id, 2)), N'Shared', N'Session') = 1 THEN 1 ELSE 0 END
