package sqlstore

// portableWorkers has those for the records of readers.
func portableWorkers(s *Statements[string]) {
	s.WorkerUpdate = `
		UPDATE parley_worker
		   SET worker_id = ?, queue_id = ?, owner = ?, readers = ?, since = :now, until = :now + ?, in_hand = ?,
		       alone = ?
		 WHERE reader_id = ?`
	s.WorkerInsert = `
		INSERT INTO parley_worker (worker_id, queue_id, owner, readers, since, until, in_hand, alone, reader_id)
		VALUES (?, ?, ?, ?, :now, :now + ?, ?, ?, ?)`
	s.WorkerOthers = `
		SELECT reader_id, worker_id, in_hand, alone FROM parley_worker
		 WHERE queue_id = ? AND worker_id <> ? AND in_hand IS NOT NULL`
	s.WorkerPutDown = `
		UPDATE parley_worker SET in_hand = NULL WHERE reader_id = ?`
	s.WorkerLock = `
		UPDATE parley_worker SET alone = alone WHERE reader_id = ?`
	s.WorkerInHand = `
		SELECT in_hand FROM parley_worker WHERE reader_id = ?`
	s.WorkerKeep = `
		UPDATE parley_worker SET in_hand = ? WHERE reader_id = ?`
	s.WorkerAlive = `
		UPDATE parley_worker SET until = :now + ? WHERE worker_id = ?`
	s.WorkerLeave = `
		DELETE FROM parley_worker WHERE worker_id = ?`
	s.WorkerLeaveOne = `
		DELETE FROM parley_worker WHERE reader_id = ?`
	s.WorkerList = `
		SELECT reader_id, worker_id, queue_id, owner, readers, :now - since, until - :now, in_hand, alone
		  FROM parley_worker
		 ORDER BY queue_id, worker_id, reader_id`
	s.WorkerSweep = `
		DELETE FROM parley_worker WHERE until < :now - ? AND (in_hand IS NULL OR until < :now - ?)`
}
