-- name: RemovePosts
-- What is done to many rows at once takes them as JSON: ids in hexadecimal, or an
-- object of ids and fences.
DELETE FROM parley_post WHERE post_id IN (SELECT unhex(value) FROM json_each(?))
-- name: ReclaimGroups
UPDATE parley_grp SET lease_until = 0, owner = ''
 WHERE (group_id, fence) IN (SELECT unhex(key), value FROM json_each(?))
   AND lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v) <= :newest
RETURNING group_id
-- name: ReclaimPosts
UPDATE parley_post SET lease_until = 0, owner = ''
 WHERE (post_id, fence) IN (SELECT unhex(key), value FROM json_each(?))
   AND lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v) <= :newest
RETURNING post_id
-- name: HeldPosts
SELECT count(*)
  FROM json_each(?) h
 CROSS JOIN parley_post p ON p.post_id = unhex(h.key)
 WHERE p.fence = h.value AND p.lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v) <= :newest
