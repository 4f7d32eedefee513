-- name: PostReclaim
UPDATE parley_post SET lease_until = 0, owner = ''
 WHERE post_id = (SELECT p.post_id FROM parley_post p
                   WHERE p.post_id = $1 AND p.fence = $2 AND p.lease_until <> 0
                     AND (SELECT v.schema_version FROM parley_meta v) <= :newest
                     FOR NO KEY UPDATE SKIP LOCKED)
