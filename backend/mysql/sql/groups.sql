-- name: GroupExtend
UPDATE parley_grp SET lease_until = greatest(:now + ?, lease_until + 1)
 WHERE group_id = ? AND fence = ? AND lease_until <> 0
