-- name: WorkerOther
-- CHARINDEX compares bytes as characters of some collation. So records of several messages come back, too.
SELECT reader_id, worker_id, in_hand, alone FROM parley_worker {read dirty}
 WHERE queue_id = ? AND worker_id <> ? AND (DATALENGTH(in_hand) > 16 OR in_hand = ?)
