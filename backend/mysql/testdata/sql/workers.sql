-- name: WorkerAlive
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_worker FORCE INDEX (worker) SET until = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ? WHERE worker_id = ?

-- name: WorkerInHand
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT in_hand FROM parley_worker WHERE reader_id = ?

-- name: WorkerInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_worker (worker_id, queue_id, owner, readers, since, until, in_hand, alone, reader_id)
VALUES (?, ?, ?, ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE worker_id = VALUES(worker_id), queue_id = VALUES(queue_id),
       owner = VALUES(owner), readers = VALUES(readers), since = VALUES(since),
       until = VALUES(until), in_hand = VALUES(in_hand), alone = VALUES(alone)

-- name: WorkerKeep
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_worker SET in_hand = ? WHERE reader_id = ?

-- name: WorkerLeave
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_worker WHERE worker_id = ?

-- name: WorkerLeaveOne
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_worker WHERE reader_id = ?

-- name: WorkerList
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT reader_id, worker_id, queue_id, owner, readers, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - since, until - TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), in_hand, alone
  FROM parley_worker
 ORDER BY queue_id, worker_id, reader_id

-- name: WorkerLock
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_worker SET alone = alone WHERE reader_id = ?

-- name: WorkerOther
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT reader_id, worker_id, in_hand, alone FROM parley_worker
 WHERE queue_id = ? AND worker_id <> ? AND POSITION(? IN in_hand) > 0

-- name: WorkerOthers
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT reader_id, worker_id, in_hand, alone FROM parley_worker
 WHERE queue_id = ? AND worker_id <> ? AND in_hand IS NOT NULL

-- name: WorkerPutDown
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_worker SET in_hand = NULL WHERE reader_id = ?

-- name: WorkerSweep
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_worker WHERE until < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - ? AND (in_hand IS NULL OR until < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - ?)
 ORDER BY reader_id LIMIT 1000

-- name: WorkerUpdate
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_worker
   SET worker_id = ?, queue_id = ?, owner = ?, readers = ?, since = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), until = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?, in_hand = ?,
       alone = ?
 WHERE reader_id = ?
