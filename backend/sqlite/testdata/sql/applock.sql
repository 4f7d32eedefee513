-- name: FenceInsert
INSERT INTO parley_fence (name, fence, uses) VALUES (?1, ?2, 1) ON CONFLICT DO NOTHING

-- name: FenceRaise
UPDATE parley_fence SET fence = ?1, uses = uses + 1 WHERE name = ?2 AND fence <= ?3

-- name: ListLocks
SELECT l.name, l.owner_id, o.owner, l.mode, l.waiting, l.times, l.seq, l.since,
       o.kind, o.until, l.wait_until, ?1
  FROM parley_lock l
  LEFT JOIN parley_lock_owner o ON o.owner_id = l.owner_id
 ORDER BY l.name, l.waiting, l.seq

-- name: LockChange
UPDATE parley_lock SET mode = ?1, times = ?2 WHERE name = ?3 AND seq = ?4

-- name: LockDelete
DELETE FROM parley_lock WHERE name = ?1 AND seq = ?2

-- name: LockDrop
DELETE FROM parley_lock WHERE owner_id = ?1

-- name: LockFence
SELECT fence FROM parley_lock_stripe WHERE stripe = ?1

-- name: LockGraph
SELECT l.name, l.seq, l.owner_id, l.mode, l.waiting
  FROM parley_lock l
 WHERE l.name IN (SELECT w.name FROM parley_lock w WHERE w.waiting = 1)
 ORDER BY l.name, l.seq

-- name: LockInsert
INSERT INTO parley_lock (name, seq, owner_id, mode, times, waiting, since, wait_until)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?8, ?8 + ?7)

-- name: LockRows
SELECT l.seq, l.owner_id, l.mode, l.times, l.waiting, l.wait_until,
       o.kind, o.until, ?2
  FROM parley_lock l
  LEFT JOIN parley_lock_owner o ON o.owner_id = l.owner_id
 WHERE l.name = ?1
 ORDER BY l.seq

-- name: LockTurn
UPDATE parley_lock_stripe
   SET fence = CASE WHEN fence >= ?2 THEN fence + 1 ELSE ?2 END
 WHERE stripe = ?1

-- name: LockWait
UPDATE parley_lock SET wait_until = ?4 + ?1 WHERE name = ?2 AND seq = ?3

-- name: OwnerDelete
DELETE FROM parley_lock_owner WHERE owner_id = ?1

-- name: OwnerExpire
DELETE FROM parley_lock_owner WHERE owner_id = ?1 AND kind <> 1 AND until <= ?2

-- name: OwnerHold
UPDATE parley_lock_owner SET touched = touched + 1 WHERE owner_id = ?1

-- name: OwnerInsert
INSERT INTO parley_lock_owner (owner_id, kind, owner, until, touched)
VALUES (?1, ?2, ?3, ?5 + ?4, 0)

-- name: OwnerRead
SELECT kind FROM parley_lock_owner WHERE owner_id = ?1

-- name: OwnerRenew
UPDATE parley_lock_owner SET until = ?3 + ?1, touched = touched + 1
 WHERE owner_id = ?2 AND kind <> 1 AND until > ?3

-- name: OwnerTouch
UPDATE parley_lock_owner SET touched = touched + 1
 WHERE owner_id = ?1 AND kind <> 1 AND until > ?2

-- name: OwnersExpired
SELECT owner_id FROM parley_lock_owner
 WHERE kind <> 1 AND until <= ?2 ORDER BY owner_id LIMIT +?1
