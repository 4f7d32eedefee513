-- name: WorkerPut
-- The commit of a record need not wait for the disk. The record has to survive the death of its
-- process, not a crash of the machine. For one message in hand only records with this one come back.
WITH quick AS MATERIALIZED (
  SELECT set_config('synchronous_commit', 'off', true)),
put AS (
  INSERT INTO parley_worker (worker_id, queue_id, owner, readers, since, until, in_hand, alone, reader_id)
  SELECT $1::uuid, $2, $3, $4, :now, :now + $5, $6, $7, $8::uuid FROM quick
  ON CONFLICT (reader_id) DO UPDATE
     SET worker_id = excluded.worker_id, queue_id = excluded.queue_id, owner = excluded.owner,
         readers = excluded.readers, since = excluded.since, until = excluded.until,
         in_hand = excluded.in_hand, alone = excluded.alone)
SELECT w.reader_id, w.worker_id, w.in_hand, w.alone FROM parley_worker w
 WHERE w.queue_id = $2 AND w.worker_id <> $1::uuid AND w.in_hand IS NOT NULL AND $6::bytea IS NOT NULL
   AND (octet_length($6) > 16 OR position($6 IN w.in_hand) > 0)
