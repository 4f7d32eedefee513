-- name: DelayedFirsts
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT q.queue_id,
       (SELECT d.due FROM parley_delayed d FORCE INDEX (place)
         WHERE d.queue_id = q.queue_id AND d.due < 9223372036854775807
         ORDER BY d.queue_id, d.due LIMIT 1) - TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
  FROM parley_queue q
 WHERE q.enabled = 1

-- name: DueDelayed
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT d.post_id, d.due, d.name, d.queue_id
  FROM parley_delayed d FORCE INDEX (place)
 WHERE d.queue_id = ? AND (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = ?) = 1
   AND d.due <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) AND d.due >= ? AND (d.due > ? OR d.post_id > ?)
 ORDER BY d.due, d.post_id
 LIMIT 100

-- name: DueGroups
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT group_id FROM parley_grp WHERE resweep = 1
 UNION ALL
SELECT group_id FROM parley_grp
 WHERE blocked = 1 AND blocked <> 0 AND blocked_until <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) AND resweep = 0
 LIMIT ?

-- name: DuePosts
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT post_id, blocked_until, '', queue_id FROM parley_post FORCE INDEX (blocked)
 WHERE blocked = 1 AND blocked_until <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) AND blocked_until >= ? AND (blocked_until > ? OR post_id > ?)
 ORDER BY blocked_until, post_id
 LIMIT 100

-- name: DueProcessed
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT post_id FROM parley_processed WHERE keep_until <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) ORDER BY keep_until LIMIT ?

-- name: DueTimers
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT t.handle, t.due, '', t.queue_id
  FROM parley_timer t FORCE INDEX (place)
 WHERE t.kind = ? AND t.queue_id = ?
   AND coalesce((SELECT q.enabled FROM parley_queue q WHERE q.queue_id = ?), 1) = 1
   AND t.due <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) AND t.due >= ? AND (t.due > ? OR t.handle > ?)
 ORDER BY t.due, t.handle
 LIMIT 100

-- name: EndpointsAfter
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT e.handle,
       CASE WHEN e.closed_at IS NOT NULL AND e.finish_at IS NULL
             AND (p.handle IS NULL
                  AND (SELECT 1 FROM parley_stream s
                                   WHERE s.stream_id = e.handle AND s.held = 1 LIMIT 1) IS NULL
                  OR p.closed_at IS NOT NULL AND p.finish_at IS NULL) THEN 1 ELSE 0 END
  FROM parley_endpoint e
  LEFT JOIN parley_endpoint p ON p.handle = e.peer
 WHERE e.handle > ? AND e.queue_id > 0
 ORDER BY e.handle
 LIMIT ?

-- name: FinishedEndpoints
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT handle FROM parley_endpoint WHERE finish_at <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) ORDER BY finish_at LIMIT ?

-- name: GroupDue
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT 1 FROM parley_grp
 WHERE group_id = ? AND (blocked = 1 AND blocked_until <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) OR blocked = 0 AND resweep = 1)

-- name: GroupsAfter
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT g.group_id,
       CASE WHEN (SELECT 1 FROM parley_endpoint e WHERE e.group_id = g.group_id LIMIT 1) IS NULL
             AND (SELECT 1 FROM parley_stream s
                              WHERE s.group_id = g.group_id
                                AND (s.kind <> 3 OR s.touched > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 60000000) LIMIT 1) IS NULL
             AND (SELECT 1 FROM parley_ready r
                              WHERE r.group_id = g.group_id LIMIT 1) IS NULL
            THEN 1
            WHEN g.blocked = 0
             AND (SELECT 1 FROM parley_stream s
                          WHERE s.group_id = g.group_id
                            AND (SELECT 1 FROM parley_message m
                                         WHERE m.stream_id = s.stream_id LIMIT 1) IS NOT NULL
                            AND (SELECT 1 FROM parley_ready r
                                             WHERE r.group_id = s.group_id AND r.stream_id = s.stream_id LIMIT 1) IS NULL LIMIT 1) IS NOT NULL
            THEN 2 ELSE 0 END
  FROM parley_grp g
 WHERE g.group_id > ? AND g.queue_id > 0
 ORDER BY g.group_id
 LIMIT ?

-- name: LostPromotions
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT p.group_id, (SELECT 1 FROM parley_promotion w WHERE w.group_id = p.group_id LIMIT 1) FROM parley_promotion p
 WHERE p.queue_id > 0
   AND (SELECT 1 FROM parley_grp g WHERE g.group_id = p.group_id LIMIT 1) IS NULL
   AND (SELECT 1 FROM parley_post o WHERE o.post_id = p.group_id LIMIT 1) IS NULL
   AND (SELECT 1 FROM parley_delayed d WHERE d.post_id = p.group_id LIMIT 1) IS NULL
 LIMIT ?

-- name: NextFinished
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT finish_at - TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) FROM parley_endpoint
 WHERE finish_at IS NOT NULL
 ORDER BY finish_at LIMIT 1

-- name: NextGroup
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT blocked_until - TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) FROM parley_grp
 WHERE blocked = 1 AND blocked <> 0
 ORDER BY blocked_until LIMIT 1

-- name: NextPost
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT 0, blocked_until - TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) FROM parley_post FORCE INDEX (blocked)
 WHERE blocked = 1
 ORDER BY blocked_until LIMIT 1

-- name: NextProcessed
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT keep_until - TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) FROM parley_processed ORDER BY keep_until LIMIT 1

-- name: OnceDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_once WHERE name = ? AND keep_until <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))

-- name: OnceDue
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT name FROM parley_once WHERE keep_until <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) ORDER BY keep_until LIMIT ?

-- name: ProcessedDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_processed WHERE post_id = ?

-- name: ReadyQueues
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT q.queue_id FROM parley_queue q
 WHERE (SELECT 1 FROM parley_ready r WHERE r.queue_id = q.queue_id LIMIT 1) IS NOT NULL

-- name: Stale
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT r.stream_id, r.group_id, g.blocked
  FROM (SELECT x.stream_id, x.group_id
          FROM parley_ready x
         WHERE x.queue_id = ?
         ORDER BY x.queue_id, x.urgency, x.since
         LIMIT 1000) r
  LEFT JOIN parley_grp g ON g.group_id = r.group_id
 WHERE coalesce(g.blocked, 1) <> 0
    OR (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id LIMIT 1) IS NULL

-- name: TimerFirsts
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT f.queue_id,
       (SELECT t.due FROM parley_timer t FORCE INDEX (place)
         WHERE t.kind = f.kind AND t.queue_id = f.queue_id AND t.due < 9223372036854775807
         ORDER BY t.kind, t.queue_id, t.due LIMIT 1) - TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
  FROM (SELECT k.kind, q.queue_id
          FROM (SELECT ? AS kind) k,
               (SELECT q.queue_id FROM parley_queue q WHERE q.enabled = 1 UNION ALL SELECT 0) q) f

-- name: WalkPlace
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT place FROM parley_walk WHERE duty = ?

-- name: WalkPut
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_walk SET place = ?, owner = ?, until = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?
 WHERE duty = ? AND (owner = ? OR until <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)))

-- name: WalkStep
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_walk SET place = ? WHERE duty = ? AND place = ?
