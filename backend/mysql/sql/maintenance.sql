-- name: TimerFirsts
-- The kind comes from a derived table. With a constant the server prefers a range of all timers of the kind to a
-- lookup for each queue.
SELECT f.queue_id,
       (SELECT t.due FROM parley_timer t FORCE INDEX (place)
         WHERE t.kind = f.kind AND t.queue_id = f.queue_id AND t.due < 9223372036854775807
         ORDER BY t.kind, t.queue_id, t.due LIMIT 1) - :now
  FROM (SELECT k.kind, q.queue_id
          FROM (SELECT ? AS kind) k,
               (SELECT q.queue_id FROM parley_queue q WHERE q.enabled = 1 UNION ALL SELECT 0) q) f
