-- name: WorkerOther
SELECT reader_id, worker_id, in_hand, alone FROM parley_worker
 WHERE queue_id = ? AND worker_id <> ? AND instr(in_hand, ?) > 0
