-- name: LockTurn
-- No fence is ever drawn twice, because the clock has gone on since. That holds even
-- when a transaction is rolled back together with what it drew, as on an engine with
-- one writer.
UPDATE parley_lock_stripe
   SET fence = CASE WHEN fence >= :now THEN fence + 1 ELSE :now END
 WHERE stripe = ?
-- name: LockFence
-- Application locks are rows, and so are their owners. Who decides about a lock has its
-- stripe, so the rows of its name are his. An owner that is a transaction has its row
-- locked by a change for as long as it lives. It is read without a lock, and tried by
-- READPAST.
SELECT fence FROM parley_lock_stripe {read wait} WHERE stripe = ?
-- name: LockRows
SELECT l.seq, l.owner_id, l.mode, l.times, l.waiting, l.wait_until,
       o.kind, {until}, :now
  FROM parley_lock l {read wait}
  LEFT JOIN parley_lock_owner o {read dirty} ON o.owner_id = l.owner_id
 WHERE l.name = ?{exact l.}
 ORDER BY l.seq
-- name: LockInsert
INSERT INTO parley_lock (name{bytes bytes}, seq, owner_id, mode, times, waiting, since, wait_until)
VALUES (?{bytes ?}, ?, ?, ?, ?, ?, :now, :now + ?)
-- name: LockChange
UPDATE parley_lock SET mode = ?, times = ? WHERE name = ?{exact} AND seq = ?
-- name: LockWait
UPDATE parley_lock SET wait_until = :now + ? WHERE name = ?{exact} AND seq = ?
-- name: LockDelete
DELETE FROM parley_lock WHERE name = ?{exact} AND seq = ?
-- name: LockDrop
DELETE FROM parley_lock WHERE owner_id = ?
-- name: LockGraph
SELECT l.name, l.seq, l.owner_id, l.mode, l.waiting
  FROM parley_lock l
 WHERE l.name IN (SELECT w.name FROM parley_lock w WHERE w.waiting = 1)
 ORDER BY l.name, l.seq
-- name: OwnerInsert
INSERT INTO parley_lock_owner (owner_id, kind, owner, until, touched)
VALUES (?, ?, ?, :now + ?, 0)
-- name: OwnerRead
SELECT kind FROM parley_lock_owner {read dirty} WHERE owner_id = ?
-- name: OwnerTry
SELECT 1 FROM parley_lock_owner {lock skip} WHERE owner_id = ?
-- name: OwnerTouch
UPDATE parley_lock_owner SET touched = touched + 1
 WHERE owner_id = ? AND kind <> 1 AND until > :now
-- name: OwnerHold
UPDATE parley_lock_owner SET touched = touched + 1 WHERE owner_id = ?
-- name: OwnerRenew
UPDATE parley_lock_owner SET until = :now + ?, touched = touched + 1
 WHERE owner_id = ? AND kind <> 1 AND until > :now
-- name: OwnerExpire
DELETE FROM parley_lock_owner WHERE owner_id = ? AND {expired}
-- name: OwnerDelete
DELETE FROM parley_lock_owner WHERE owner_id = ?
-- name: OwnersExpired
SELECT owner_id FROM parley_lock_owner {read skip}
 WHERE kind <> 1 AND until <= :now ORDER BY owner_id {limit ?}
-- name: FenceInsert
{new} INTO parley_fence (name{bytes bytes}, fence, uses) VALUES (?{bytes ?}, ?, 1) {otherwise}
-- name: FenceRaise
UPDATE parley_fence SET fence = ?, uses = uses + 1 WHERE name = ?{exact} AND fence <= ?
-- name: ListLocks
SELECT l.name, l.owner_id, o.owner, l.mode, l.waiting, l.times, l.seq, l.since,
       o.kind, {until}, l.wait_until, :now
  FROM parley_lock l {read skip}
  LEFT JOIN parley_lock_owner o {read dirty} ON o.owner_id = l.owner_id
 ORDER BY l.name{bytes l.bytes}, l.waiting, l.seq
