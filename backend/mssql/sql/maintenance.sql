-- name: DueGroups
SELECT TOP (@p1) x.group_id
  FROM (SELECT group_id FROM parley_grp WITH (READUNCOMMITTED) WHERE resweep = 1
         UNION ALL
        SELECT group_id FROM parley_grp WITH (READUNCOMMITTED)
         WHERE blocked = 1 AND blocked <> 0 AND blocked_until <= :now AND resweep = 0) x
-- name: OnceDelete
DELETE FROM parley_once WITH (ROWLOCK)
 WHERE name = @p1 AND bytes = DATALENGTH(@p1) AND keep_until <= :now
-- name: FinishedEndpoints
SELECT TOP (@p1) handle FROM parley_endpoint WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE finish_at <= :now AND finish_at IS NOT NULL ORDER BY finish_at
