package sqlstore

// Portable returns the statements that are the same on every engine: plain
// reads, and changes of rows that the transaction has to itself. Inserts that may
// find their row there have ON CONFLICT, which not every engine knows.
func Portable() Statements[string] {
	s := Statements[string]{
		// No fence is ever drawn twice, not even by a transaction that is rolled back
		// together with what it drew, as on an engine with one writer: the clock has
		// gone on since.
		LockTurn: `
			UPDATE parley_lock_stripe
			   SET fence = CASE WHEN fence >= :now THEN fence + 1 ELSE :now END
			 WHERE stripe = ?`,
		LockFence: `
			SELECT fence FROM parley_lock_stripe WHERE stripe = ?`,
		LockRows: `
			SELECT l.seq, l.owner_id, l.mode, l.times, l.waiting, l.wait_until,
			       o.kind, o.until, :now
			  FROM parley_lock l
			  LEFT JOIN parley_lock_owner o ON o.owner_id = l.owner_id
			 WHERE l.name = ?
			 ORDER BY l.seq`,
		LockInsert: `
			INSERT INTO parley_lock (name, seq, owner_id, mode, times, waiting, since, wait_until)
			VALUES (?, ?, ?, ?, ?, ?, :now, :now + ?)`,
		LockChange: `
			UPDATE parley_lock SET mode = ?, times = ? WHERE name = ? AND seq = ?`,
		LockWait: `
			UPDATE parley_lock SET wait_until = :now + ? WHERE name = ? AND seq = ?`,
		LockDelete: `
			DELETE FROM parley_lock WHERE name = ? AND seq = ?`,
		LockDrop: `
			DELETE FROM parley_lock WHERE owner_id = ?`,
		LockGraph: `
			SELECT l.name, l.seq, l.owner_id, l.mode, l.waiting
			  FROM parley_lock l
			 WHERE l.name IN (SELECT w.name FROM parley_lock w WHERE w.waiting = 1)
			 ORDER BY l.name, l.seq`,
		OwnerInsert: `
			INSERT INTO parley_lock_owner (owner_id, kind, owner, until, touched)
			VALUES (?, ?, ?, :now + ?, 0)`,
		OwnerRead: `
			SELECT kind FROM parley_lock_owner WHERE owner_id = ?`,
		OwnerTouch: `
			UPDATE parley_lock_owner SET touched = touched + 1
			 WHERE owner_id = ? AND kind <> 1 AND until > :now`,
		OwnerHold: `
			UPDATE parley_lock_owner SET touched = touched + 1 WHERE owner_id = ?`,
		OwnerRenew: `
			UPDATE parley_lock_owner SET until = :now + ?, touched = touched + 1
			 WHERE owner_id = ? AND kind <> 1 AND until > :now`,
		OwnerExpire: `
			DELETE FROM parley_lock_owner WHERE owner_id = ? AND kind <> 1 AND until <= :now`,
		OwnerDelete: `
			DELETE FROM parley_lock_owner WHERE owner_id = ?`,
		OwnersExpired: `
			SELECT owner_id FROM parley_lock_owner
			 WHERE kind <> 1 AND until <= :now ORDER BY owner_id LIMIT ?`,
		FenceRaise: `
			UPDATE parley_fence SET fence = ?, uses = uses + 1 WHERE name = ? AND fence <= ?`,
		ListLocks: `
			SELECT l.name, l.owner_id, o.owner, l.mode, l.waiting, l.times, l.seq, l.since,
			       o.kind, o.until, l.wait_until, :now
			  FROM parley_lock l
			  LEFT JOIN parley_lock_owner o ON o.owner_id = l.owner_id
			 ORDER BY l.name, l.waiting, l.seq`,
	}
	portableCatalog(&s)
	portableGroups(&s)
	portableDialogs(&s)
	portablePosts(&s)
	portableClaim(&s)
	portableDuties(&s)
	portableTasks(&s)
	portableReader(&s)
	portableWorkers(&s)
	return s
}
