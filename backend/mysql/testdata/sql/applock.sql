-- name: FenceInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT IGNORE INTO parley_fence (name, fence, uses) VALUES (?, ?, 1)

-- name: FenceRaise
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_fence SET fence = ?, uses = uses + 1 WHERE name = ? AND fence <= ?

-- name: ListLocks
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT l.name, l.owner_id, o.owner, l.mode, l.waiting, l.times, l.seq, l.since,
       o.kind, o.until, l.wait_until, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
  FROM parley_lock l
  LEFT JOIN parley_lock_owner o ON o.owner_id = l.owner_id
 ORDER BY l.name, l.waiting, l.seq

-- name: LockChange
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_lock SET mode = ?, times = ? WHERE name = ? AND seq = ?

-- name: LockDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_lock WHERE name = ? AND seq = ?

-- name: LockDrop
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_lock WHERE owner_id = ?

-- name: LockFence
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT fence FROM parley_lock_stripe WHERE stripe = ?

-- name: LockGraph
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT l.name, l.seq, l.owner_id, l.mode, l.waiting
  FROM parley_lock l
 WHERE l.name IN (SELECT w.name FROM parley_lock w WHERE w.waiting = 1)
 ORDER BY l.name, l.seq

-- name: LockInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_lock (name, seq, owner_id, mode, times, waiting, since, wait_until)
VALUES (?, ?, ?, ?, ?, ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?)

-- name: LockRows
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT l.seq, l.owner_id, l.mode, l.times, l.waiting, l.wait_until,
       o.kind, o.until, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
  FROM parley_lock l
  LEFT JOIN parley_lock_owner o ON o.owner_id = l.owner_id
 WHERE l.name = ?
 ORDER BY l.seq

-- name: LockTurn
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_lock_stripe
   SET fence = CASE WHEN fence >= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) THEN fence + 1 ELSE TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) END
 WHERE stripe = ?

-- name: LockWait
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_lock SET wait_until = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ? WHERE name = ? AND seq = ?

-- name: OwnerDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_lock_owner WHERE owner_id = ?

-- name: OwnerExpire
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_lock_owner WHERE owner_id = ? AND kind <> 1 AND until <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))

-- name: OwnerHold
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_lock_owner SET touched = touched + 1 WHERE owner_id = ?

-- name: OwnerInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_lock_owner (owner_id, kind, owner, until, touched)
VALUES (?, ?, ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?, 0)

-- name: OwnerRead
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT kind FROM parley_lock_owner WHERE owner_id = ?

-- name: OwnerRenew
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_lock_owner SET until = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?, touched = touched + 1
 WHERE owner_id = ? AND kind <> 1 AND until > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))

-- name: OwnerTouch
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_lock_owner SET touched = touched + 1
 WHERE owner_id = ? AND kind <> 1 AND until > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))

-- name: OwnerTry
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT 1 FROM parley_lock_owner WHERE owner_id = ?
FOR UPDATE SKIP LOCKED

-- name: OwnersExpired
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT owner_id FROM parley_lock_owner
 WHERE kind <> 1 AND until <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) ORDER BY owner_id LIMIT ?
