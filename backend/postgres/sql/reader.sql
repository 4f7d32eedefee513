-- name: ListReady
SELECT r.group_id, r.priority, r.since
  FROM (SELECT x.group_id, x.stream_id, x.priority, x.since FROM parley_ready x
         WHERE x.queue_id = $1
         ORDER BY x.queue_id, x.priority DESC, x.since) r
 CROSS JOIN LATERAL (SELECT 1 FROM parley_grp g
                      WHERE g.group_id = r.group_id AND g.blocked = 0
                        AND (g.lease_until < :now OR $2 = 0) LIMIT 1) g
 CROSS JOIN LATERAL (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id LIMIT 1) m
 LIMIT $3
