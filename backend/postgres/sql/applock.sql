-- name: OwnerTry
SELECT 1 FROM parley_lock_owner WHERE owner_id = ? FOR UPDATE SKIP LOCKED
-- name: OwnerExpire
DELETE FROM parley_lock_owner o
 WHERE o.owner_id = $1
   AND CASE o.kind WHEN 0 THEN o.until <= :now
                   WHEN 2 THEN pg_try_advisory_xact_lock_shared({session})
                   ELSE false END
-- name: OwnerEnd
-- The columns of a 64-bit key in pg_locks: System Views, 53.13.
SELECT count(pg_terminate_backend(l.pid))
  FROM parley_lock_owner o
  JOIN pg_locks l ON l.locktype = 'advisory' AND l.objsubid = 1 AND l.mode = 'ExclusiveLock' AND l.granted
   AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
   AND (l.classid::bigint << 32 | l.objid::bigint) = ({session})
 WHERE o.owner_id = $1 AND o.kind = 2 AND o.until <= :now
