-- name: WorkerAlive
UPDATE parley_worker SET until = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) + @p1 WHERE worker_id = @p2

-- name: WorkerInHand
SELECT in_hand FROM parley_worker WITH (READUNCOMMITTED) WHERE reader_id = @p1

-- name: WorkerInsert
INSERT INTO parley_worker (worker_id, queue_id, owner, readers, since, until, in_hand, alone, reader_id)
VALUES (@p1, @p2, @p3, @p4, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()), DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) + @p5, @p6, @p7, @p8)

-- name: WorkerKeep
UPDATE parley_worker SET in_hand = @p1 WHERE reader_id = @p2

-- name: WorkerLeave
DELETE FROM parley_worker WHERE worker_id = @p1

-- name: WorkerLeaveOne
DELETE FROM parley_worker WHERE reader_id = @p1

-- name: WorkerList
SELECT reader_id, worker_id, queue_id, owner, readers, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) - since, until - DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()), in_hand, alone
  FROM parley_worker WITH (READUNCOMMITTED)
 ORDER BY queue_id, worker_id, reader_id

-- name: WorkerLock
UPDATE parley_worker SET alone = alone WHERE reader_id = @p1

-- name: WorkerOther
SELECT reader_id, worker_id, in_hand, alone FROM parley_worker WITH (READUNCOMMITTED)
 WHERE queue_id = @p1 AND worker_id <> @p2 AND (DATALENGTH(in_hand) > 16 OR in_hand = @p3)

-- name: WorkerOthers
SELECT reader_id, worker_id, in_hand, alone FROM parley_worker WITH (READUNCOMMITTED)
 WHERE queue_id = @p1 AND worker_id <> @p2 AND in_hand IS NOT NULL

-- name: WorkerPutDown
UPDATE parley_worker SET in_hand = NULL WHERE reader_id = @p1

-- name: WorkerSweep
DELETE FROM parley_worker WHERE until < DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) - @p1 AND (in_hand IS NULL OR until < DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) - @p2)

-- name: WorkerUpdate
UPDATE parley_worker
   SET worker_id = @p1, queue_id = @p2, owner = @p3, readers = @p4, since = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()), until = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) + @p5, in_hand = @p6,
       alone = @p7
 WHERE reader_id = @p8
