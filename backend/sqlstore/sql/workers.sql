-- name: WorkerUpdate
UPDATE parley_worker
   SET worker_id = ?, queue_id = ?, owner = ?, readers = ?, since = :now, until = :now + ?, in_hand = ?,
       alone = ?
 WHERE reader_id = ?
-- name: WorkerInsert
INSERT INTO parley_worker (worker_id, queue_id, owner, readers, since, until, in_hand, alone, reader_id)
VALUES (?, ?, ?, ?, :now, :now + ?, ?, ?, ?)
-- name: WorkerOthers
-- Records of readers, which only their own reader changes while it lives. WorkerInHand
-- reads one that WorkerLock has locked.
SELECT reader_id, worker_id, in_hand, alone FROM parley_worker {read dirty}
 WHERE queue_id = ? AND worker_id <> ? AND in_hand IS NOT NULL
-- name: WorkerOther
-- WorkerOthers for a reader that has one message in hand: records with this one.
SELECT reader_id, worker_id, in_hand, alone FROM parley_worker {read dirty}
 WHERE queue_id = ? AND worker_id <> ? AND POSITION(? IN in_hand) > 0
-- name: WorkerPutDown
UPDATE parley_worker SET in_hand = NULL WHERE reader_id = ?
-- name: WorkerLock
UPDATE parley_worker SET alone = alone WHERE reader_id = ?
-- name: WorkerInHand
SELECT in_hand FROM parley_worker {read dirty} WHERE reader_id = ?
-- name: WorkerKeep
UPDATE parley_worker SET in_hand = ? WHERE reader_id = ?
-- name: WorkerAlive
UPDATE parley_worker SET until = :now + ? WHERE worker_id = ?
-- name: WorkerLeave
DELETE FROM parley_worker WHERE worker_id = ?
-- name: WorkerLeaveOne
DELETE FROM parley_worker WHERE reader_id = ?
-- name: WorkerList
SELECT reader_id, worker_id, queue_id, owner, readers, :now - since, until - :now, in_hand, alone
  FROM parley_worker {read dirty}
 ORDER BY queue_id, worker_id, reader_id
-- name: WorkerSweep
DELETE FROM parley_worker WHERE until < :now - ? AND (in_hand IS NULL OR until < :now - ?)
