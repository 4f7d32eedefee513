-- name: GroupReclaim
-- "When specified in an UPDATE statement, READPAST is applied only when reading
-- data to identify which records to update." A row that is locked belongs to
-- a receiver that has taken over, or to a heartbeat.
UPDATE parley_grp WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) SET lease_until = 0, owner = N''
 WHERE group_id = @p1 AND fence = @p2 AND lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v WITH (READCOMMITTEDLOCK, ROWLOCK)) <= :newest
