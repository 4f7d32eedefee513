-- name: GroupReclaim
UPDATE parley_grp SET lease_until = 0, owner = ''
 WHERE group_id = (SELECT g.group_id FROM parley_grp g
                    WHERE g.group_id = $1 AND g.fence = $2 AND g.lease_until <> 0
                      AND (SELECT v.schema_version FROM parley_meta v) <= :newest
                      FOR NO KEY UPDATE SKIP LOCKED)
