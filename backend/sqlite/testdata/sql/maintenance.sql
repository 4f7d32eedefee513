-- name: DelayedFirsts
SELECT q.queue_id,
       (SELECT d.due FROM parley_delayed d INDEXED BY parley_delayed_order
         WHERE d.queue_id = q.queue_id AND d.due < 9223372036854775807
         ORDER BY d.queue_id, d.due LIMIT 1) - ?1
  FROM parley_queue q
 WHERE q.enabled = 1

-- name: DueDelayed
SELECT d.post_id, d.due, d.name, d.queue_id
  FROM parley_delayed d INDEXED BY parley_delayed_order
 WHERE d.queue_id = +?1 AND (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = +?2) = 1
   AND d.due <= ?6 AND d.due >= ?3 AND (d.due > ?4 OR d.post_id > ?5)
 ORDER BY d.due, d.post_id
 LIMIT 100

-- name: DueGroups
SELECT group_id FROM parley_grp WHERE resweep = 1
 UNION ALL
SELECT group_id FROM parley_grp
 WHERE blocked = 1 AND blocked <> 0 AND blocked_until <= ?2 AND resweep = 0
 LIMIT +?1

-- name: DuePosts
SELECT post_id, blocked_until, '', queue_id FROM parley_post INDEXED BY parley_post_due
 WHERE blocked = 1 AND blocked_until <= ?4 AND blocked_until >= ?1 AND (blocked_until > ?2 OR post_id > ?3)
 ORDER BY blocked_until, post_id
 LIMIT 100

-- name: DueProcessed
SELECT post_id FROM parley_processed WHERE keep_until <= ?2 ORDER BY keep_until LIMIT +?1

-- name: DueTimers
SELECT t.handle, t.due, '', t.queue_id
  FROM parley_timer t INDEXED BY parley_timer_order
 WHERE t.kind = +?1 AND t.queue_id = +?2
   AND coalesce((SELECT q.enabled FROM parley_queue q WHERE q.queue_id = +?3), 1) = 1
   AND t.due <= ?7 AND t.due >= ?4 AND (t.due > ?5 OR t.handle > ?6)
 ORDER BY t.due, t.handle
 LIMIT 100

-- name: EndpointsAfter
SELECT e.handle,
       CASE WHEN e.closed_at IS NOT NULL AND e.finish_at IS NULL
             AND (p.handle IS NULL
                  AND NOT EXISTS (SELECT 1 FROM parley_stream s
                                   WHERE s.stream_id = e.handle AND s.held = 1)
                  OR p.closed_at IS NOT NULL AND p.finish_at IS NULL) THEN 1 ELSE 0 END
  FROM parley_endpoint e
  LEFT JOIN parley_endpoint p ON p.handle = e.peer
 WHERE e.handle > ?1 AND e.queue_id > 0
 ORDER BY e.handle
 LIMIT +?2

-- name: FinishedEndpoints
SELECT handle FROM parley_endpoint WHERE finish_at <= ?2 ORDER BY finish_at LIMIT +?1

-- name: GroupDue
SELECT 1 FROM parley_grp
 WHERE group_id = ?1 AND (blocked = 1 AND blocked_until <= ?2 OR blocked = 0 AND resweep = 1)

-- name: GroupsAfter
SELECT g.group_id,
       CASE WHEN NOT EXISTS (SELECT 1 FROM parley_endpoint e WHERE e.group_id = g.group_id)
             AND NOT EXISTS (SELECT 1 FROM parley_stream s
                              WHERE s.group_id = g.group_id
                                AND (s.kind <> 3 OR s.touched > ?3 - 60000000))
             AND NOT EXISTS (SELECT 1 FROM parley_ready r
                              WHERE r.group_id = g.group_id)
            THEN 1
            WHEN g.blocked = 0
             AND EXISTS (SELECT 1 FROM parley_stream s
                          WHERE s.group_id = g.group_id
                            AND EXISTS (SELECT 1 FROM parley_message m
                                         WHERE m.stream_id = s.stream_id)
                            AND NOT EXISTS (SELECT 1 FROM parley_ready r
                                             WHERE r.group_id = s.group_id AND r.stream_id = s.stream_id))
            THEN 2 ELSE 0 END
  FROM parley_grp g
 WHERE g.group_id > ?1 AND g.queue_id > 0
 ORDER BY g.group_id
 LIMIT +?2

-- name: LostPromotions
SELECT p.group_id, 1 FROM parley_promotion p
 WHERE p.queue_id > 0
   AND NOT EXISTS (SELECT 1 FROM parley_grp g WHERE g.group_id = p.group_id)
   AND NOT EXISTS (SELECT 1 FROM parley_post o WHERE o.post_id = p.group_id)
   AND NOT EXISTS (SELECT 1 FROM parley_delayed d WHERE d.post_id = p.group_id)
 LIMIT +?1

-- name: NextFinished
SELECT finish_at - ?1 FROM parley_endpoint
 WHERE finish_at IS NOT NULL
 ORDER BY finish_at LIMIT 1

-- name: NextGroup
SELECT blocked_until - ?1 FROM parley_grp
 WHERE blocked = 1 AND blocked <> 0
 ORDER BY blocked_until LIMIT 1

-- name: NextPost
SELECT 0, blocked_until - ?1 FROM parley_post INDEXED BY parley_post_due
 WHERE blocked = 1
 ORDER BY blocked_until LIMIT 1

-- name: NextProcessed
SELECT keep_until - ?1 FROM parley_processed ORDER BY keep_until LIMIT 1

-- name: OnceDelete
DELETE FROM parley_once WHERE name = ?1 AND keep_until <= ?2

-- name: OnceDue
SELECT name FROM parley_once WHERE keep_until <= ?2 ORDER BY keep_until LIMIT +?1

-- name: ProcessedDelete
DELETE FROM parley_processed WHERE post_id = ?1

-- name: ReadyQueues
SELECT q.queue_id FROM parley_queue q
 WHERE EXISTS (SELECT 1 FROM parley_ready r WHERE r.queue_id = q.queue_id)

-- name: Stale
SELECT r.stream_id, r.group_id, g.blocked
  FROM (SELECT x.stream_id, x.group_id
          FROM parley_ready x
         WHERE x.queue_id = +?1
         ORDER BY x.queue_id, x.priority DESC, x.since
         LIMIT 1000) r
  LEFT JOIN parley_grp g ON g.group_id = r.group_id
 WHERE coalesce(g.blocked, 1) <> 0
    OR NOT EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)

-- name: TimerFirsts
SELECT f.queue_id,
       (SELECT t.due FROM parley_timer t INDEXED BY parley_timer_order
         WHERE t.kind = +?1 AND t.queue_id = f.queue_id AND t.due < 9223372036854775807
         ORDER BY t.kind, t.queue_id, t.due LIMIT 1) - ?2
  FROM (SELECT q.queue_id FROM parley_queue q WHERE q.enabled = 1 UNION ALL SELECT 0) f

-- name: WalkPlace
SELECT place FROM parley_walk WHERE duty = ?1

-- name: WalkPut
UPDATE parley_walk SET place = ?1, owner = ?2, until = ?6 + ?3
 WHERE duty = ?4 AND (owner = ?5 OR until <= ?6)

-- name: WalkStep
UPDATE parley_walk SET place = ?1 WHERE duty = ?2 AND place = ?3
