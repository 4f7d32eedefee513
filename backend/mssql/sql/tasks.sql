-- name: SchedulesReady
SELECT TOP (64) s.name
  FROM parley_schedule s WITH (READUNCOMMITTED)
 WHERE s.live = 1
   AND (NOT EXISTS (SELECT 1 FROM parley_task a WITH (READUNCOMMITTED)
                     WHERE a.schedule_id = s.schedule_id AND a.live = 1)
     OR EXISTS (SELECT 1 FROM parley_task t WITH (READUNCOMMITTED)
                 WHERE t.schedule_id = s.schedule_id AND t.live = 1 AND t.due <= :now
                   AND t.phase = (SELECT min(p.phase) FROM parley_task p WITH (READUNCOMMITTED)
                                   WHERE p.schedule_id = s.schedule_id AND p.live = 1))
    AND (s.max_active = 0
      OR s.max_active > (SELECT count(*) FROM parley_task r WITH (READUNCOMMITTED)
                          WHERE r.schedule_id = s.schedule_id AND r.state = 1 AND r.due > :now)))
 ORDER BY s.served, s.name

-- name: Submit
-- Tasks of a schedule, with the numbers from @p3 on.
--
-- @p1 tasks (seq: the phase), @p2 schedule, @p3 first number, @p4 caller
INSERT INTO parley_task (task_id, schedule_id, n, phase, type, body, caller, submitted)
SELECT k.message_id, @p2, @p3 + k.n - 1, k.seq, k.type, k.body, @p4, :now FROM @p1 k ORDER BY k.n
