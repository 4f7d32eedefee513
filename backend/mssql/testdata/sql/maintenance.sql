-- name: DelayedFirsts
SELECT q.queue_id,
       (SELECT d.due FROM parley_delayed d WITH (READUNCOMMITTED)
         WHERE d.queue_id = q.queue_id AND d.due < 9223372036854775807
         ORDER BY d.queue_id, d.due OFFSET 0 ROWS FETCH NEXT 1 ROWS ONLY) - DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())
  FROM parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK)
 WHERE q.enabled = 1

-- name: DueDelayed
SELECT d.post_id, d.due, d.name, d.queue_id
  FROM parley_delayed d WITH (READUNCOMMITTED)
 WHERE d.queue_id = @p1 AND (SELECT q.enabled FROM parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK) WHERE q.queue_id = @p2) = 1
   AND d.due <= DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) AND d.due >= @p3 AND (d.due > @p4 OR d.post_id > @p5)
 ORDER BY d.due, d.post_id
 OFFSET 0 ROWS FETCH NEXT 100 ROWS ONLY

-- name: DueGroups
SELECT TOP (@p1) x.group_id
  FROM (SELECT group_id FROM parley_grp WITH (READUNCOMMITTED) WHERE resweep = 1
         UNION ALL
        SELECT group_id FROM parley_grp WITH (READUNCOMMITTED)
         WHERE blocked = 1 AND blocked <> 0 AND blocked_until <= DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) AND resweep = 0) x

-- name: DuePosts
SELECT post_id, blocked_until, '', queue_id FROM parley_post WITH (READUNCOMMITTED)
 WHERE blocked = 1 AND blocked_until <= DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) AND blocked_until >= @p1 AND (blocked_until > @p2 OR post_id > @p3)
 ORDER BY blocked_until, post_id
 OFFSET 0 ROWS FETCH NEXT 100 ROWS ONLY

-- name: DueProcessed
SELECT post_id FROM parley_processed WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE keep_until <= DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) ORDER BY keep_until OFFSET 0 ROWS FETCH NEXT @p1 ROWS ONLY

-- name: DueTimers
SELECT t.handle, t.due, '', t.queue_id
  FROM parley_timer t WITH (READUNCOMMITTED)
 WHERE t.kind = @p1 AND t.queue_id = @p2
   AND coalesce((SELECT q.enabled FROM parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK) WHERE q.queue_id = @p3), 1) = 1
   AND t.due <= DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) AND t.due >= @p4 AND (t.due > @p5 OR t.handle > @p6)
 ORDER BY t.due, t.handle
 OFFSET 0 ROWS FETCH NEXT 100 ROWS ONLY

-- name: EndpointsAfter
SELECT e.handle,
       CASE WHEN e.closed_at IS NOT NULL AND e.finish_at IS NULL
             AND (p.handle IS NULL
                  AND NOT EXISTS (SELECT 1 FROM parley_stream s WITH (READUNCOMMITTED)
                                   WHERE s.stream_id = e.handle AND s.held = 1)
                  OR p.closed_at IS NOT NULL AND p.finish_at IS NULL) THEN 1 ELSE 0 END
  FROM parley_endpoint e WITH (READUNCOMMITTED)
  LEFT JOIN parley_endpoint p WITH (READUNCOMMITTED) ON p.handle = e.peer
 WHERE e.handle > @p1 AND e.queue_id > 0
 ORDER BY e.handle
 OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY

-- name: FinishedEndpoints
SELECT TOP (@p1) handle FROM parley_endpoint WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE finish_at <= DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) AND finish_at IS NOT NULL ORDER BY finish_at

-- name: GroupDue
SELECT 1 FROM parley_grp WITH (READUNCOMMITTED)
 WHERE group_id = @p1 AND (blocked = 1 AND blocked_until <= DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) OR blocked = 0 AND resweep = 1)

-- name: GroupsAfter
SELECT g.group_id,
       CASE WHEN NOT EXISTS (SELECT 1 FROM parley_endpoint e WITH (READUNCOMMITTED) WHERE e.group_id = g.group_id)
             AND NOT EXISTS (SELECT 1 FROM parley_stream s WITH (READUNCOMMITTED)
                              WHERE s.group_id = g.group_id
                                AND (s.kind <> 3 OR s.touched > DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) - 60000000))
             AND NOT EXISTS (SELECT 1 FROM parley_ready r WITH (READUNCOMMITTED)
                              WHERE r.group_id = g.group_id)
            THEN 1
            WHEN g.blocked = 0
             AND EXISTS (SELECT 1 FROM parley_stream s WITH (READUNCOMMITTED)
                          WHERE s.group_id = g.group_id
                            AND EXISTS (SELECT 1 FROM parley_message m WITH (READUNCOMMITTED)
                                         WHERE m.stream_id = s.stream_id)
                            AND NOT EXISTS (SELECT 1 FROM parley_ready r WITH (READUNCOMMITTED)
                                             WHERE r.group_id = s.group_id AND r.stream_id = s.stream_id))
            THEN 2 ELSE 0 END
  FROM parley_grp g WITH (READUNCOMMITTED)
 WHERE g.group_id > @p1 AND g.queue_id > 0
 ORDER BY g.group_id
 OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY

-- name: LostPromotions
SELECT p.group_id, 1 FROM parley_promotion p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE p.queue_id > 0
   AND NOT EXISTS (SELECT 1 FROM parley_grp g WITH (READUNCOMMITTED) WHERE g.group_id = p.group_id)
   AND NOT EXISTS (SELECT 1 FROM parley_post o WITH (READUNCOMMITTED) WHERE o.post_id = p.group_id)
   AND NOT EXISTS (SELECT 1 FROM parley_delayed d WITH (READUNCOMMITTED) WHERE d.post_id = p.group_id)
 ORDER BY (SELECT NULL) OFFSET 0 ROWS FETCH NEXT @p1 ROWS ONLY

-- name: NextFinished
SELECT finish_at - DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) FROM parley_endpoint WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE finish_at IS NOT NULL
 ORDER BY finish_at OFFSET 0 ROWS FETCH NEXT 1 ROWS ONLY

-- name: NextGroup
SELECT blocked_until - DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) FROM parley_grp WITH (READUNCOMMITTED)
 WHERE blocked = 1 AND blocked <> 0
 ORDER BY blocked_until OFFSET 0 ROWS FETCH NEXT 1 ROWS ONLY

-- name: NextPost
SELECT 0, blocked_until - DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) FROM parley_post WITH (READUNCOMMITTED)
 WHERE blocked = 1
 ORDER BY blocked_until OFFSET 0 ROWS FETCH NEXT 1 ROWS ONLY

-- name: NextProcessed
SELECT keep_until - DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) FROM parley_processed WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ORDER BY keep_until OFFSET 0 ROWS FETCH NEXT 1 ROWS ONLY

-- name: OnceDelete
DELETE FROM parley_once WITH (ROWLOCK)
 WHERE name = @p1 AND bytes = DATALENGTH(@p1) AND keep_until <= DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())

-- name: OnceDue
SELECT name FROM parley_once WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE keep_until <= DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) ORDER BY keep_until OFFSET 0 ROWS FETCH NEXT @p1 ROWS ONLY

-- name: ProcessedDelete
DELETE FROM parley_processed WHERE post_id = @p1

-- name: ReadyQueues
SELECT q.queue_id FROM parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK)
 WHERE EXISTS (SELECT 1 FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE r.queue_id = q.queue_id)

-- name: Stale
SELECT r.stream_id, r.group_id, g.blocked
  FROM (SELECT x.stream_id, x.group_id
          FROM parley_ready x WITH (INDEX(by_order), READCOMMITTEDLOCK, ROWLOCK, READPAST)
         WHERE x.queue_id = @p1
         ORDER BY x.queue_id, x.priority DESC, x.since
         OFFSET 0 ROWS FETCH NEXT 1000 ROWS ONLY) r
  LEFT JOIN parley_grp g WITH (READUNCOMMITTED) ON g.group_id = r.group_id
 WHERE coalesce(g.blocked, 1) <> 0
    OR NOT EXISTS (SELECT 1 FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE m.stream_id = r.stream_id)

-- name: TimerFirsts
SELECT f.queue_id,
       (SELECT t.due FROM parley_timer t WITH (READUNCOMMITTED)
         WHERE t.kind = @p1 AND t.queue_id = f.queue_id AND t.due < 9223372036854775807
         ORDER BY t.kind, t.queue_id, t.due OFFSET 0 ROWS FETCH NEXT 1 ROWS ONLY) - DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())
  FROM (SELECT q.queue_id FROM parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK) WHERE q.enabled = 1 UNION ALL SELECT 0) f

-- name: WalkPlace
SELECT place FROM parley_walk WITH (READCOMMITTEDLOCK, ROWLOCK) WHERE duty = @p1

-- name: WalkPut
UPDATE parley_walk SET place = @p1, owner = @p2, until = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) + @p3
 WHERE duty = @p4 AND (owner = @p5 OR until <= DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()))

-- name: WalkStep
UPDATE parley_walk SET place = @p1 WHERE duty = @p2 AND place = @p3
