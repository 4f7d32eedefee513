-- name: GroupTry
-- The claim's lock skips what others have claimed or are changing, and readers of the row do
-- not wait for it. On SQL Server it is U. The statement returns nothing but that; the next
-- one looks.
SELECT 1 FROM parley_grp {lock skip} WHERE group_id = ?
-- name: GroupFree
SELECT 1 FROM parley_grp {lock skip} WHERE {key group_id} AND lease_until < :now
-- name: GroupRead
-- A group that another transaction is changing is read as that leaves it. Its
-- queue, service and name do not change. A transaction that needs the rest has it
-- locked, or only asks whether the fence is still its own.
SELECT queue_id, service, name, fence, lease_until, blocked, blocked_until, resweep, :now
  FROM parley_grp {read dirty} WHERE group_id = ?
-- name: GroupInsert
{new} INTO parley_grp (group_id, queue_id, service, name) VALUES (?, ?, ?, ?) {otherwise}
-- name: GroupLease
UPDATE parley_grp
   SET fence = fence + 1, lease_until = :now + ?, held_since = :now, owner = ?
 WHERE group_id = ?
-- name: GroupUnlease
UPDATE parley_grp SET fence = fence + 1, lease_until = 0, owner = '' WHERE group_id = ?
-- name: GroupReclaimWait
UPDATE parley_grp SET lease_until = 0, owner = ''
 WHERE group_id = ? AND fence = ? AND lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v {read wait}) <= :newest
-- name: GroupExtend
UPDATE parley_grp SET lease_until = :now + ?
 WHERE group_id = ? AND fence = ? AND lease_until <> 0
-- name: GroupBlock
UPDATE parley_grp
   SET blocked = ?, blocked_since = :now, blocked_until = :now + ?, reason = ?,
       resweep = 0 -- Unpark and JobDeferred look at every stream again
 WHERE group_id = ?
-- name: GroupUnblock
-- blocked_until becomes the end of the deferral that was over, or 0.
UPDATE parley_grp SET blocked = 0, blocked_until = ?, reason = '', resweep = ?
 WHERE group_id = ?
-- name: GroupJoin
-- Changes nothing, but conflicts with a transaction that looked at the group
-- before with a snapshot.
UPDATE parley_grp SET resweep = resweep WHERE group_id = ?
-- name: GroupDelete
DELETE FROM parley_grp WHERE group_id = ?
-- name: GroupUse
-- What stands in the way of removing a group: endpoints, streams with
-- messages or markers, streams other than the key's own, and delayed posts.
SELECT (SELECT count(*) FROM parley_endpoint e {read dirty} WHERE e.group_id = g.group_id)
     + (SELECT count(*) FROM parley_stream s {read dirty by_group}
         WHERE s.group_id = g.group_id AND s.stream_id <> g.group_id)
     + (SELECT count(*) FROM parley_ready r {read dirty}
         WHERE r.group_id = g.group_id)
     + (SELECT count(*) FROM parley_message m {read dirty} WHERE m.stream_id = g.group_id)
     + (SELECT count(*) FROM parley_delayed d {read dirty}
         WHERE d.queue_id = g.queue_id AND d.name = g.name{exact d.name g.name} AND g.name <> '')
     + (SELECT count(*) FROM parley_stream s {read dirty}
         WHERE s.stream_id = g.group_id AND (s.kind <> 3 OR s.touched > :now - 60000000))
  FROM parley_grp g {read dirty} WHERE g.group_id = ?
