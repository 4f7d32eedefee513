-- name: Stale
SELECT r.stream_id, r.group_id, g.blocked
  FROM (SELECT x.stream_id, x.group_id
          FROM parley_ready x
         WHERE x.queue_id = $1
         ORDER BY x.queue_id, x.priority DESC, x.since
         LIMIT 1000) r
  LEFT JOIN LATERAL (SELECT x.blocked FROM parley_grp x WHERE x.group_id = r.group_id LIMIT 1) g ON true
  LEFT JOIN LATERAL (SELECT true AS yes FROM parley_message m
                      WHERE m.stream_id = r.stream_id LIMIT 1) m ON true
 WHERE coalesce(g.blocked, 1) <> 0 OR m.yes IS NULL
-- name: EndpointsAfter
-- The walks over whole tables use an index because the limit comes first, even if the planner
-- expects few rows of a queue. Their subqueries for each row are written to use an index. Otherwise
-- the planner may answer NOT EXISTS by reading all of the other table once. Rows that exist only
-- for the planner have the lowest ids.
SELECT e.handle,
       CASE WHEN e.closed_at IS NOT NULL AND e.finish_at IS NULL
             AND (p.handle IS NULL AND NOT EXISTS (
                    SELECT 1 FROM parley_stream s
                     WHERE s.stream_id = e.handle AND s.held = 1)
                  OR p.closed_at IS NOT NULL AND p.finish_at IS NULL) THEN 1 ELSE 0 END
  FROM (SELECT x.handle, x.peer, x.closed_at, x.finish_at FROM parley_endpoint x
         WHERE x.handle > greatest($1, '00000000-0000-0000-0000-00000000ffff'::uuid)
         ORDER BY x.handle LIMIT 1000) e
  LEFT JOIN LATERAL (SELECT x.handle, x.closed_at, x.finish_at FROM parley_endpoint x
                      WHERE x.handle = e.peer LIMIT 1) p ON true
 ORDER BY e.handle
 LIMIT $2
-- name: GroupsAfter
SELECT g.group_id,
       CASE WHEN (SELECT 1 FROM parley_endpoint e WHERE e.group_id = g.group_id LIMIT 1) IS NULL
             AND (SELECT 1 FROM parley_stream s
                   WHERE s.group_id = g.group_id
                     AND (s.kind <> 3 OR s.touched > :now - 60000000)
                   LIMIT 1) IS NULL
             AND (SELECT 1 FROM parley_ready r WHERE r.group_id = g.group_id LIMIT 1) IS NULL
            THEN 1
            WHEN g.blocked = 0
             AND (SELECT 1 FROM parley_stream s
                   WHERE s.group_id = g.group_id
                     AND (SELECT m.seq FROM parley_message m WHERE m.stream_id = s.stream_id LIMIT 1) IS NOT NULL
                     AND (SELECT 1 FROM parley_ready r
                           WHERE r.group_id = s.group_id AND r.stream_id = s.stream_id LIMIT 1) IS NULL
                   LIMIT 1) IS NOT NULL
            THEN 2 ELSE 0 END
  FROM (SELECT x.group_id, x.blocked FROM parley_grp x
         WHERE x.group_id > greatest($1, '00000000-0000-0000-0000-00000000ffff'::uuid)
         ORDER BY x.group_id LIMIT 1000) g
 ORDER BY g.group_id
 LIMIT $2
