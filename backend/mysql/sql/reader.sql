-- name: QueueStatus
-- A table in FROM cannot depend on the rest of the statement. So the statement counts rows only if
-- there are not more of them than the bound.
SELECT q.queue_id, q.name, q.enabled,
       CASE WHEN (SELECT 1 FROM parley_ready r
                   STRAIGHT_JOIN parley_message m ON m.stream_id = r.stream_id
                   WHERE r.queue_id = q.queue_id LIMIT 1 OFFSET 9999) IS NOT NULL
            THEN 10000
            ELSE (SELECT count(*) FROM parley_ready r
                   STRAIGHT_JOIN parley_message m ON m.stream_id = r.stream_id
                   WHERE r.queue_id = q.queue_id) END
     + CASE WHEN (SELECT 1 FROM parley_post p
                   WHERE p.queue_id = q.queue_id AND p.blocked = 0 LIMIT 1 OFFSET 9999) IS NOT NULL
            THEN 10000
            ELSE (SELECT count(*) FROM parley_post p
                   WHERE p.queue_id = q.queue_id AND p.blocked = 0) END,
       CASE WHEN (SELECT 1 FROM parley_delayed d
                   WHERE d.queue_id = q.queue_id LIMIT 1 OFFSET 9999) IS NOT NULL
            THEN 10000
            ELSE (SELECT count(*) FROM parley_delayed d WHERE d.queue_id = q.queue_id) END,
       CASE WHEN (SELECT 1 FROM parley_ready r
                   STRAIGHT_JOIN parley_grp g ON g.group_id = r.group_id
                   WHERE r.queue_id = q.queue_id AND g.lease_until > :now LIMIT 1 OFFSET 9999) IS NOT NULL
            THEN 10000
            ELSE (SELECT count(DISTINCT r.group_id) FROM parley_ready r
                   STRAIGHT_JOIN parley_grp g ON g.group_id = r.group_id
                   WHERE r.queue_id = q.queue_id AND g.lease_until > :now) END
     + CASE WHEN (SELECT 1 FROM parley_post p
                   WHERE p.queue_id = q.queue_id AND p.blocked = 0
                     AND p.lease_until > :now LIMIT 1 OFFSET 9999) IS NOT NULL
            THEN 10000
            ELSE (SELECT count(*) FROM parley_post p
                   WHERE p.queue_id = q.queue_id AND p.blocked = 0 AND p.lease_until > :now) END,
       (SELECT count(*) FROM parley_grp g WHERE g.blocked = 1 AND g.queue_id = q.queue_id)
     + (SELECT count(*) FROM parley_post p WHERE p.blocked = 1 AND p.queue_id = q.queue_id),
       (SELECT count(*) FROM parley_grp g WHERE g.blocked = 2 AND g.queue_id = q.queue_id)
     + (SELECT count(*) FROM parley_post p WHERE p.blocked = 2 AND p.queue_id = q.queue_id),
       (SELECT count(*) FROM parley_stream s
         STRAIGHT_JOIN parley_held h ON h.stream_id = s.stream_id
         WHERE s.held = 1 AND s.queue_id = q.queue_id),
       (SELECT r.priority FROM parley_ready r
         WHERE r.queue_id = q.queue_id
           AND (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id LIMIT 1) IS NOT NULL
         ORDER BY r.queue_id, r.urgency, r.since LIMIT 1),
       (SELECT r.since FROM parley_ready r
         WHERE r.queue_id = q.queue_id
           AND (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id LIMIT 1) IS NOT NULL
         ORDER BY r.queue_id, r.urgency, r.since LIMIT 1),
       (SELECT p.priority FROM parley_post p
         WHERE p.queue_id = q.queue_id AND p.blocked = 0
         ORDER BY p.queue_id, p.urgency, p.since LIMIT 1),
       (SELECT p.since FROM parley_post p
         WHERE p.queue_id = q.queue_id AND p.blocked = 0
         ORDER BY p.queue_id, p.urgency, p.since LIMIT 1),
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
