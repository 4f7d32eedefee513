-- name: GroupBlock
UPDATE parley_grp
   SET blocked = $1, blocked_since = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, blocked_until = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $2, reason = $3,
       resweep = 0 
 WHERE group_id = $4

-- name: GroupDelete
DELETE FROM parley_grp WHERE group_id = $1

-- name: GroupExtend
UPDATE parley_grp SET lease_until = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $1
 WHERE group_id = $2 AND fence = $3 AND lease_until <> 0

-- name: GroupFree
SELECT 1 FROM parley_grp WHERE group_id = $1 AND lease_until < (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FOR NO KEY UPDATE SKIP LOCKED

-- name: GroupInsert
INSERT INTO parley_grp (group_id, queue_id, service, name) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING

-- name: GroupJoin
UPDATE parley_grp SET resweep = resweep WHERE group_id = $1

-- name: GroupLease
UPDATE parley_grp
   SET fence = fence + 1, lease_until = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $1, held_since = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, owner = $2
 WHERE group_id = $3

-- name: GroupRead
SELECT queue_id, service, name, fence, lease_until, blocked, blocked_until, resweep, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
  FROM parley_grp WHERE group_id = $1

-- name: GroupReclaim
UPDATE parley_grp SET lease_until = 0, owner = ''
 WHERE group_id = (SELECT g.group_id FROM parley_grp g
                    WHERE g.group_id = $1 AND g.fence = $2 AND g.lease_until <> 0
                      AND (SELECT v.schema_version FROM parley_meta v) <= 12
                      FOR NO KEY UPDATE SKIP LOCKED)

-- name: GroupReclaimWait
UPDATE parley_grp SET lease_until = 0, owner = ''
 WHERE group_id = $1 AND fence = $2 AND lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v) <= 12

-- name: GroupTry
SELECT 1 FROM parley_grp WHERE group_id = $1
FOR NO KEY UPDATE SKIP LOCKED

-- name: GroupUnblock
UPDATE parley_grp SET blocked = 0, blocked_until = $1, reason = '', resweep = $2
 WHERE group_id = $3

-- name: GroupUnlease
UPDATE parley_grp SET fence = fence + 1, lease_until = 0, owner = '' WHERE group_id = $1

-- name: GroupUse
SELECT (SELECT count(*) FROM parley_endpoint e WHERE e.group_id = g.group_id)
     + (SELECT count(*) FROM parley_stream s
         WHERE s.group_id = g.group_id AND s.stream_id <> g.group_id)
     + (SELECT count(*) FROM parley_ready r
         WHERE r.group_id = g.group_id)
     + (SELECT count(*) FROM parley_message m WHERE m.stream_id = g.group_id)
     + (SELECT count(*) FROM parley_delayed d
         WHERE d.queue_id = g.queue_id AND d.name = g.name AND g.name <> '')
     + (SELECT count(*) FROM parley_stream s
         WHERE s.stream_id = g.group_id AND (s.kind <> 3 OR s.touched > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - 60000000))
  FROM parley_grp g WHERE g.group_id = $1
