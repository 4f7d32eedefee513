-- name: LockGraph
SELECT l.name, l.seq, l.owner_id, l.mode, l.waiting
  FROM parley_lock l WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE EXISTS (SELECT 1 FROM parley_lock w WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                WHERE w.name = l.name AND w.bytes = l.bytes AND w.waiting = 1)
 ORDER BY l.name, l.bytes, l.seq
