-- name: DropMarkers
DELETE FROM parley_ready
 WHERE (group_id, stream_id) IN (
         SELECT s.group_id, s.stream_id
           FROM json_each(?1) k
          CROSS JOIN parley_stream s ON s.stream_id = unhex(k.value)
           LEFT JOIN parley_grp g ON g.group_id = s.group_id
          WHERE coalesce(g.blocked, 1) <> 0
             OR NOT EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = s.stream_id))

-- name: HeldPosts
SELECT count(*)
  FROM json_each(?1) h
 CROSS JOIN parley_post p ON p.post_id = unhex(h.key)
 WHERE p.fence = h.value AND p.lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v) <= 12

-- name: ReclaimGroups
UPDATE parley_grp SET lease_until = 0, owner = ''
 WHERE (group_id, fence) IN (SELECT unhex(key), value FROM json_each(?1))
   AND lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v) <= 12
RETURNING group_id

-- name: ReclaimPosts
UPDATE parley_post SET lease_until = 0, owner = ''
 WHERE (post_id, fence) IN (SELECT unhex(key), value FROM json_each(?1))
   AND lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v) <= 12
RETURNING post_id

-- name: Remove
DELETE FROM parley_message
 WHERE (stream_id, seq) IN (SELECT unhex(value ->> 0), value ->> 1 FROM json_each(?1))

-- name: RemovePosts
DELETE FROM parley_post WHERE post_id IN (SELECT unhex(value) FROM json_each(?1))

-- name: Restand
UPDATE parley_ready
   SET since = (SELECT m.since FROM parley_message m WHERE m.stream_id = parley_ready.stream_id ORDER BY m.seq LIMIT 1)
 WHERE (group_id, stream_id) IN (
         SELECT s.group_id, s.stream_id
           FROM json_each(?1) k
          CROSS JOIN parley_stream s ON s.stream_id = unhex(k.value)
          CROSS JOIN parley_ready r ON r.group_id = s.group_id AND r.stream_id = s.stream_id
          WHERE r.since < (SELECT m.since FROM parley_message m WHERE m.stream_id = s.stream_id ORDER BY m.seq LIMIT 1))
