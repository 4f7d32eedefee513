-- name: GroupBlock
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_grp
   SET blocked = ?, blocked_since = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), blocked_until = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?, reason = ?,
       resweep = 0 
 WHERE group_id = ?

-- name: GroupDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_grp WHERE group_id = ?

-- name: GroupExtend
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_grp SET lease_until = greatest(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?, lease_until + 1)
 WHERE group_id = ? AND fence = ? AND lease_until <> 0

-- name: GroupFree
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT 1 FROM parley_grp WHERE group_id IN (?, '') AND lease_until < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
FOR UPDATE SKIP LOCKED

-- name: GroupInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT IGNORE INTO parley_grp (group_id, queue_id, service, name) VALUES (?, ?, ?, ?)

-- name: GroupJoin
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_grp SET resweep = resweep WHERE group_id = ?

-- name: GroupLease
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_grp
   SET fence = fence + 1, lease_until = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?, held_since = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), owner = ?
 WHERE group_id = ?

-- name: GroupRead
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT queue_id, service, name, fence, lease_until, blocked, blocked_until, resweep, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
  FROM parley_grp WHERE group_id = ?

-- name: GroupReclaimWait
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_grp SET lease_until = 0, owner = ''
 WHERE group_id = ? AND fence = ? AND lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v) <= 12

-- name: GroupTry
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT 1 FROM parley_grp WHERE group_id = ?
FOR UPDATE SKIP LOCKED

-- name: GroupUnblock
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_grp SET blocked = 0, blocked_until = ?, reason = '', resweep = ?
 WHERE group_id = ?

-- name: GroupUnlease
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_grp SET fence = fence + 1, lease_until = 0, owner = '' WHERE group_id = ?

-- name: GroupUse
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT (SELECT count(*) FROM parley_endpoint e WHERE e.group_id = g.group_id)
     + (SELECT count(*) FROM parley_stream s
         WHERE s.group_id = g.group_id AND s.stream_id <> g.group_id)
     + (SELECT count(*) FROM parley_ready r
         WHERE r.group_id = g.group_id)
     + (SELECT count(*) FROM parley_message m WHERE m.stream_id = g.group_id)
     + (SELECT count(*) FROM parley_delayed d
         WHERE d.queue_id = g.queue_id AND d.name = g.name AND g.name <> '')
     + (SELECT count(*) FROM parley_stream s
         WHERE s.stream_id = g.group_id AND (s.kind <> 3 OR s.touched > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 60000000))
  FROM parley_grp g WHERE g.group_id = ?
