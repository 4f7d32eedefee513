-- name: PostReclaim
UPDATE parley_post WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) SET lease_until = 0, owner = N''
 WHERE post_id = @p1 AND fence = @p2 AND lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v WITH (READCOMMITTEDLOCK, ROWLOCK)) <= :newest
