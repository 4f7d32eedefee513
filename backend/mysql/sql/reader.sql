-- name: QueueStatus
-- A table in FROM cannot depend on the rest of the statement. So the statement counts rows only if
-- there are not more of them than the bound. It counts leases among all rows. It looks for the
-- oldest message at each priority, because each has its own order.
WITH l AS (SELECT -1 AS urgency UNION ALL SELECT -2 UNION ALL SELECT -3 UNION ALL SELECT -4 UNION ALL SELECT -5
           UNION ALL SELECT -6 UNION ALL SELECT -7 UNION ALL SELECT -8 UNION ALL SELECT -9 UNION ALL SELECT -10)
SELECT q.queue_id, q.name, q.enabled,
       CASE WHEN (SELECT 1 FROM parley_ready r
                   STRAIGHT_JOIN parley_message m ON m.stream_id = r.stream_id
                   WHERE r.queue_id = q.queue_id LIMIT 1 OFFSET 9999) IS NOT NULL
            THEN 10000
            ELSE (SELECT count(*) FROM parley_ready r
                   STRAIGHT_JOIN parley_message m ON m.stream_id = r.stream_id
                   WHERE r.queue_id = q.queue_id) END
     + CASE WHEN (SELECT 1 FROM parley_post p FORCE INDEX (place)
                   WHERE p.queue_id = q.queue_id AND p.blocked = 0 LIMIT 1 OFFSET 9999) IS NOT NULL
            THEN 10000
            ELSE (SELECT count(*) FROM parley_post p FORCE INDEX (place)
                   WHERE p.queue_id = q.queue_id AND p.blocked = 0) END,
       CASE WHEN (SELECT 1 FROM parley_delayed d
                   WHERE d.queue_id = q.queue_id LIMIT 1 OFFSET 9999) IS NOT NULL
            THEN 10000
            ELSE (SELECT count(*) FROM parley_delayed d WHERE d.queue_id = q.queue_id) END,
       (SELECT count(DISTINCT r.group_id) FROM parley_ready r
         STRAIGHT_JOIN parley_grp g ON g.group_id = r.group_id
         WHERE r.queue_id = q.queue_id AND g.lease_until > :now)
     + (SELECT count(*) FROM parley_post p FORCE INDEX (place)
         WHERE p.queue_id = q.queue_id AND p.blocked = 0 AND p.lease_until > :now),
       (SELECT count(*) FROM parley_grp g WHERE g.blocked = 1 AND g.queue_id = q.queue_id)
     + (SELECT count(*) FROM parley_post p FORCE INDEX (place) WHERE p.blocked = 1 AND p.queue_id = q.queue_id),
       (SELECT count(*) FROM parley_grp g WHERE g.blocked = 2 AND g.queue_id = q.queue_id)
     + (SELECT count(*) FROM parley_post p FORCE INDEX (place) WHERE p.blocked = 2 AND p.queue_id = q.queue_id),
       (SELECT count(*) FROM parley_stream s
         STRAIGHT_JOIN parley_held h ON h.stream_id = s.stream_id
         WHERE s.held = 1 AND s.queue_id = q.queue_id),
       CASE WHEN EXISTS (SELECT 1 FROM parley_ready r WHERE r.queue_id = q.queue_id) THEN
         (SELECT min((SELECT r.since FROM parley_ready r FORCE INDEX (place)
                       WHERE r.queue_id = q.queue_id AND r.urgency = l.urgency
                         AND (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id LIMIT 1) IS NOT NULL
                       ORDER BY r.queue_id, r.urgency, r.since LIMIT 1))
            FROM l) END,
       CASE WHEN EXISTS (SELECT 1 FROM parley_post p FORCE INDEX (place)
                          WHERE p.queue_id = q.queue_id AND p.blocked = 0) THEN
         (SELECT min((SELECT p.since FROM parley_post p FORCE INDEX (place)
                       WHERE p.queue_id = q.queue_id AND p.urgency = l.urgency AND p.blocked = 0
                       ORDER BY p.queue_id, p.blocked, p.urgency, p.since LIMIT 1))
            FROM l) END,
       :now
  FROM parley_queue q
 WHERE q.queue_id BETWEEN ? AND ?
 ORDER BY q.name
-- name: ConversationCounts
SELECT e.begun, :now,
       (SELECT t.due FROM parley_timer t WHERE t.handle = e.handle AND t.kind = 0),
       (SELECT count(*)
          FROM parley_stream s
         STRAIGHT_JOIN parley_message m ON m.stream_id = s.stream_id
         WHERE s.group_id = e.group_id AND s.endpoint = e.handle),
       (SELECT count(*) FROM parley_held h WHERE h.stream_id = e.handle),
       (SELECT h.status FROM parley_held h WHERE h.stream_id = e.handle ORDER BY h.stream_id, h.seq LIMIT 1)
  FROM parley_endpoint e
 WHERE e.handle = ?
-- name: ListWithheld
SELECT s.stream_id,
       (SELECT count(*) FROM parley_held h WHERE h.stream_id = s.stream_id),
       (SELECT h.status FROM parley_held h WHERE h.stream_id = s.stream_id ORDER BY h.stream_id, h.seq LIMIT 1),
       (SELECT h.since FROM parley_held h WHERE h.stream_id = s.stream_id ORDER BY h.stream_id, h.seq LIMIT 1),
       :now
  FROM parley_stream s
 WHERE s.held = 1 AND s.stream_id > ?
 ORDER BY s.stream_id
 LIMIT ?
-- name: GroupDetails
-- It fixes the order of the tables. Without that, MySQL sometimes reads all messages first.
SELECT g.group_id, g.service, g.name, g.queue_id, g.lease_until, g.held_since, g.owner, g.blocked, g.blocked_since,
       g.blocked_until, g.reason, :now, p.level, p.sticky,
       (SELECT max(r.priority) FROM parley_ready r WHERE r.group_id = g.group_id),
       c.messages, c.since, c.astray
  FROM parley_grp g FORCE INDEX (PRIMARY)
  LEFT JOIN parley_promotion p ON p.group_id = g.group_id
  LEFT JOIN (SELECT x.group_id, count(*) AS messages, min(x.since) AS since, count(x.astray) AS astray
               FROM (SELECT s.group_id, m.since, CASE WHEN r.stream_id IS NULL THEN 1 END AS astray
                       FROM parley_stream s FORCE INDEX (group_id)
                       LEFT JOIN parley_ready r FORCE INDEX (PRIMARY) ON r.group_id = s.group_id AND r.stream_id = s.stream_id
                       STRAIGHT_JOIN parley_message m FORCE INDEX (PRIMARY) ON m.stream_id = s.stream_id
                      WHERE s.group_id IN ({{50 ?}})
                      LIMIT 10000) x
              GROUP BY x.group_id) c ON c.group_id = g.group_id
 WHERE g.group_id IN ({{50 ?}})
