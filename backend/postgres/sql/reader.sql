-- name: ListReady
SELECT r.group_id, r.priority, r.since, 0
  FROM (SELECT x.group_id, x.stream_id, x.priority, x.since FROM parley_ready x
         WHERE x.queue_id = $1 AND x.priority < $2
         ORDER BY x.queue_id, x.priority DESC, x.since, x.group_id) r
 CROSS JOIN LATERAL (SELECT 1 FROM parley_grp g
                      WHERE g.group_id = r.group_id AND g.blocked = 0
                        AND CASE WHEN g.lease_until < :now THEN 1 ELSE 2 END <> $3 LIMIT 1) g
 CROSS JOIN LATERAL (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id LIMIT 1) m
 WHERE (SELECT 1 FROM parley_promotion p WHERE p.group_id = r.group_id AND p.queue_id = $1 LIMIT 1) IS NULL
   AND (SELECT 1 FROM parley_ready b
         CROSS JOIN LATERAL (SELECT 1 FROM parley_message m WHERE m.stream_id = b.stream_id LIMIT 1) m
         WHERE b.group_id = r.group_id
           AND (b.priority > r.priority OR b.priority = r.priority AND b.since < r.since) LIMIT 1) IS NULL
 LIMIT $4
-- name: ListReadyAfter
SELECT r.group_id, r.priority, r.since, 0
  FROM (SELECT x.group_id, x.stream_id, x.priority, x.since FROM parley_ready x
         WHERE x.queue_id = $1 AND x.priority = $2 AND x.since >= $3 AND (x.since > $4 OR x.group_id > $5)
         ORDER BY x.queue_id, x.priority DESC, x.since, x.group_id) r
 CROSS JOIN LATERAL (SELECT 1 FROM parley_grp g
                      WHERE g.group_id = r.group_id AND g.blocked = 0
                        AND CASE WHEN g.lease_until < :now THEN 1 ELSE 2 END <> $6 LIMIT 1) g
 CROSS JOIN LATERAL (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id LIMIT 1) m
 WHERE (SELECT 1 FROM parley_promotion p WHERE p.group_id = r.group_id AND p.queue_id = $1 LIMIT 1) IS NULL
   AND (SELECT 1 FROM parley_ready b
         CROSS JOIN LATERAL (SELECT 1 FROM parley_message m WHERE m.stream_id = b.stream_id LIMIT 1) m
         WHERE b.group_id = r.group_id
           AND (b.priority > r.priority OR b.priority = r.priority AND b.since < r.since) LIMIT 1) IS NULL
 LIMIT $7
-- name: GroupDetails
-- Every plan looks up each group, however small the tables were when the statement was planned.
SELECT g.group_id, g.service, g.name, g.queue_id, g.lease_until, g.held_since, g.owner, g.blocked, g.blocked_since,
       g.blocked_until, g.reason, :now, p.level, p.sticky,
       (SELECT max(r.priority) FROM parley_ready r WHERE r.group_id = g.group_id),
       c.messages, c.since, c.astray
  FROM unnest(ARRAY[{{50 ?}}]::uuid[]) AS k(id)
 CROSS JOIN LATERAL (SELECT x.* FROM parley_grp x WHERE x.group_id = k.id LIMIT 1) g
  LEFT JOIN LATERAL (SELECT x.level, x.sticky FROM parley_promotion x WHERE x.group_id = k.id LIMIT 1) p ON true
 CROSS JOIN LATERAL (
       SELECT count(*) AS messages, min(x.since) AS since, count(x.astray) AS astray
         FROM (SELECT m.since, CASE WHEN r.stream_id IS NULL THEN 1 END AS astray
                 FROM parley_stream s
                 LEFT JOIN parley_ready r ON r.group_id = s.group_id AND r.stream_id = s.stream_id
                 JOIN parley_message m ON m.stream_id = s.stream_id
                WHERE s.group_id = k.id
                LIMIT 10000) x) c
 WHERE g.group_id IN ({{50 ?}})
