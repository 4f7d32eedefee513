-- name: HeldPosts
SELECT count(*)
  FROM json_each(?1) h
 CROSS JOIN parley_post p ON p.post_id = unhex(h.key)
 WHERE p.fence = h.value AND p.lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v) <= 8

-- name: ReclaimGroups
UPDATE parley_grp SET lease_until = 0, owner = ''
 WHERE (group_id, fence) IN (SELECT unhex(key), value FROM json_each(?1))
   AND lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v) <= 8
RETURNING group_id

-- name: ReclaimPosts
UPDATE parley_post SET lease_until = 0, owner = ''
 WHERE (post_id, fence) IN (SELECT unhex(key), value FROM json_each(?1))
   AND lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v) <= 8
RETURNING post_id

-- name: RemovePosts
DELETE FROM parley_post WHERE post_id IN (SELECT unhex(value) FROM json_each(?1))
