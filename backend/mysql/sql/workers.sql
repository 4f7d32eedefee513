-- name: WorkerAlive
UPDATE parley_worker FORCE INDEX (worker) SET until = :now + ? WHERE worker_id = ?
-- name: WorkerInsert
INSERT INTO parley_worker (worker_id, queue_id, owner, readers, since, until, in_hand, alone, reader_id)
VALUES (?, ?, ?, ?, :now, :now + ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE worker_id = VALUES(worker_id), queue_id = VALUES(queue_id),
       owner = VALUES(owner), readers = VALUES(readers), since = VALUES(since),
       until = VALUES(until), in_hand = VALUES(in_hand), alone = VALUES(alone)
