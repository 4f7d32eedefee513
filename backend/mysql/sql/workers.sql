-- name: WorkerAlive
UPDATE parley_worker FORCE INDEX (worker) SET until = :now + ? WHERE worker_id = ?
-- name: WorkerInsert
INSERT INTO parley_worker (worker_id, queue_id, owner, readers, since, until, in_hand, alone, reader_id)
VALUES (?, ?, ?, ?, :now, :now + ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE worker_id = VALUES(worker_id), queue_id = VALUES(queue_id),
       owner = VALUES(owner), readers = VALUES(readers), since = VALUES(since),
       until = VALUES(until), in_hand = VALUES(in_hand), alone = VALUES(alone)
-- name: WorkerSweep
-- sql_safe_updates refuses it without a limit, because no index leads to old records.
DELETE FROM parley_worker WHERE until < :now - ? AND (in_hand IS NULL OR until < :now - ?)
 ORDER BY reader_id LIMIT 1000
