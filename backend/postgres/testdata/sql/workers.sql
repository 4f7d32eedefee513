-- name: WorkerAlive
UPDATE parley_worker SET until = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $1 WHERE worker_id = $2

-- name: WorkerInHand
SELECT in_hand FROM parley_worker WHERE reader_id = $1

-- name: WorkerInsert
INSERT INTO parley_worker (worker_id, queue_id, owner, readers, since, until, in_hand, alone, reader_id)
VALUES ($1, $2, $3, $4, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $5, $6, $7, $8)

-- name: WorkerKeep
UPDATE parley_worker SET in_hand = $1 WHERE reader_id = $2

-- name: WorkerLeave
DELETE FROM parley_worker WHERE worker_id = $1

-- name: WorkerLeaveOne
DELETE FROM parley_worker WHERE reader_id = $1

-- name: WorkerList
SELECT reader_id, worker_id, queue_id, owner, readers, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - since, until - (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, in_hand, alone
  FROM parley_worker
 ORDER BY queue_id, worker_id, reader_id

-- name: WorkerLock
UPDATE parley_worker SET alone = alone WHERE reader_id = $1

-- name: WorkerOther
SELECT reader_id, worker_id, in_hand, alone FROM parley_worker
 WHERE queue_id = $1 AND worker_id <> $2 AND POSITION($3 IN in_hand) > 0

-- name: WorkerOthers
SELECT reader_id, worker_id, in_hand, alone FROM parley_worker
 WHERE queue_id = $1 AND worker_id <> $2 AND in_hand IS NOT NULL

-- name: WorkerPut
WITH quick AS MATERIALIZED (
  SELECT set_config('synchronous_commit', 'off', true)),
put AS (
  INSERT INTO parley_worker (worker_id, queue_id, owner, readers, since, until, in_hand, alone, reader_id)
  SELECT $1::uuid, $2, $3, $4, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $5, $6, $7, $8::uuid FROM quick
  ON CONFLICT (reader_id) DO UPDATE
     SET worker_id = excluded.worker_id, queue_id = excluded.queue_id, owner = excluded.owner,
         readers = excluded.readers, since = excluded.since, until = excluded.until,
         in_hand = excluded.in_hand, alone = excluded.alone)
SELECT w.reader_id, w.worker_id, w.in_hand, w.alone FROM parley_worker w
 WHERE w.queue_id = $2 AND w.worker_id <> $1::uuid AND w.in_hand IS NOT NULL AND $6::bytea IS NOT NULL
   AND (octet_length($6) > 16 OR position($6 IN w.in_hand) > 0)

-- name: WorkerPutDown
UPDATE parley_worker SET in_hand = NULL WHERE reader_id = $1

-- name: WorkerSweep
DELETE FROM parley_worker WHERE until < (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - $1 AND (in_hand IS NULL OR until < (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - $2)

-- name: WorkerUpdate
UPDATE parley_worker
   SET worker_id = $1, queue_id = $2, owner = $3, readers = $4, since = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, until = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $5, in_hand = $6,
       alone = $7
 WHERE reader_id = $8
