-- name: WorkerAlive
UPDATE parley_worker SET until = ?3 + ?1 WHERE worker_id = ?2

-- name: WorkerInHand
SELECT in_hand FROM parley_worker WHERE reader_id = ?1

-- name: WorkerInsert
INSERT INTO parley_worker (worker_id, queue_id, owner, readers, since, until, in_hand, alone, reader_id)
VALUES (?1, ?2, ?3, ?4, ?9, ?9 + ?5, ?6, ?7, ?8)

-- name: WorkerKeep
UPDATE parley_worker SET in_hand = ?1 WHERE reader_id = ?2

-- name: WorkerLeave
DELETE FROM parley_worker WHERE worker_id = ?1

-- name: WorkerLeaveOne
DELETE FROM parley_worker WHERE reader_id = ?1

-- name: WorkerList
SELECT reader_id, worker_id, queue_id, owner, readers, ?1 - since, until - ?1, in_hand, alone
  FROM parley_worker
 ORDER BY queue_id, worker_id, reader_id

-- name: WorkerLock
UPDATE parley_worker SET alone = alone WHERE reader_id = ?1

-- name: WorkerOther
SELECT reader_id, worker_id, in_hand, alone FROM parley_worker
 WHERE queue_id = +?1 AND worker_id <> ?2 AND instr(in_hand, ?3) > 0

-- name: WorkerOthers
SELECT reader_id, worker_id, in_hand, alone FROM parley_worker
 WHERE queue_id = +?1 AND worker_id <> ?2 AND in_hand IS NOT NULL

-- name: WorkerPutDown
UPDATE parley_worker SET in_hand = NULL WHERE reader_id = ?1

-- name: WorkerSweep
DELETE FROM parley_worker WHERE until < ?3 - ?1 AND (in_hand IS NULL OR until < ?3 - ?2)

-- name: WorkerUpdate
UPDATE parley_worker
   SET worker_id = ?1, queue_id = +?2, owner = ?3, readers = ?4, since = ?9, until = ?9 + ?5, in_hand = ?6,
       alone = ?7
 WHERE reader_id = ?8
