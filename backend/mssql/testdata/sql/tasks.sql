-- name: ListRunning
SELECT s.name, t.task_id, t.phase, t.type, t.state, t.caller, t.owner, t.attempts,
       t.error, t.submitted, t.started, t.ended
  FROM parley_task t WITH (READUNCOMMITTED)
  JOIN parley_schedule s WITH (READUNCOMMITTED) ON s.schedule_id = t.schedule_id
 WHERE t.state = 1
 ORDER BY t.started, t.task_id
 OFFSET 0 ROWS FETCH NEXT @p1 ROWS ONLY

-- name: ListSchedules
SELECT name FROM parley_schedule WITH (READUNCOMMITTED) ORDER BY made, name

-- name: ListTasks
SELECT s.name, t.task_id, t.phase, t.type, t.state, t.caller, t.owner, t.attempts,
       t.error, t.submitted, t.started, t.ended
  FROM parley_schedule s WITH (READUNCOMMITTED)
  JOIN parley_task t WITH (READUNCOMMITTED) ON t.schedule_id = s.schedule_id
 WHERE s.name = @p1 AND s.bytes = DATALENGTH(@p1) AND (0 = @p2 OR t.state = 1)
   AND t.n > coalesce((SELECT b.n FROM parley_task b WITH (READUNCOMMITTED) WHERE b.task_id = @p3), 0)
 ORDER BY t.n
 OFFSET 0 ROWS FETCH NEXT @p4 ROWS ONLY

-- name: OneTask
SELECT s.name, t.task_id, t.phase, t.type, t.state, t.caller, t.owner, t.attempts,
       t.error, t.submitted, t.started, t.ended
  FROM parley_task t WITH (READUNCOMMITTED)
  JOIN parley_schedule s WITH (READUNCOMMITTED) ON s.schedule_id = t.schedule_id
 WHERE t.task_id = @p1

-- name: ScheduleCounts
SELECT state, count(*) FROM parley_task WITH (READUNCOMMITTED) WHERE schedule_id = @p1 GROUP BY state

-- name: ScheduleDelete
DELETE FROM parley_schedule WHERE name = @p1 AND bytes = DATALENGTH(@p1)

-- name: ScheduleError
SELECT error FROM parley_task WITH (READUNCOMMITTED)
 WHERE schedule_id = @p1 AND error <> '' ORDER BY ended DESC, n DESC OFFSET 0 ROWS FETCH NEXT 1 ROWS ONLY

-- name: ScheduleInsert
SET XACT_ABORT OFF; SET @rows = 0;
BEGIN TRY
  INSERT INTO parley_schedule (name, bytes, schedule_id, max_active, go_on, accept_late, max_attempts,
       caller, purpose, made)
VALUES (@p1, DATALENGTH(@p1), @p2, @p3, @p4, @p5, @p6, @p7, @p8, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())) ;
  SET @rows = @@ROWCOUNT;
END TRY
BEGIN CATCH
  IF ERROR_NUMBER() NOT IN (2601, 2627) THROW;
END CATCH

-- name: ScheduleLock
UPDATE parley_schedule SET serial = serial + @p1, live = 1 WHERE name = @p2 AND bytes = DATALENGTH(@p2)

-- name: ScheduleRead
SELECT s.schedule_id, s.sealed, s.max_active, s.go_on, s.accept_late, s.max_attempts,
       s.caller, s.purpose, s.serial, s.latest,
       (SELECT a.phase FROM parley_task a WITH (INDEX(by_order), READCOMMITTEDLOCK, ROWLOCK)
         WHERE a.schedule_id = s.schedule_id AND a.live = 1
         ORDER BY a.phase OFFSET 0 ROWS FETCH NEXT 1 ROWS ONLY),
       (SELECT d.phase FROM parley_task d WITH (INDEX(by_dead), READCOMMITTEDLOCK, ROWLOCK)
         WHERE d.schedule_id = s.schedule_id AND d.state = 4
         ORDER BY d.phase OFFSET 0 ROWS FETCH NEXT 1 ROWS ONLY),
       (SELECT count(*) FROM parley_task r WITH (INDEX(by_running), READCOMMITTEDLOCK, ROWLOCK)
         WHERE r.schedule_id = s.schedule_id AND r.state = 1),
       (SELECT count(*) FROM parley_task r WITH (INDEX(by_running), READCOMMITTEDLOCK, ROWLOCK)
         WHERE r.schedule_id = s.schedule_id AND r.state = 1 AND r.due > DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()))
  FROM parley_schedule s WITH (READUNCOMMITTED) WHERE s.name = @p1 AND s.bytes = DATALENGTH(@p1)

-- name: ScheduleRest
UPDATE parley_schedule SET live = 0 WHERE name = @p1 AND bytes = DATALENGTH(@p1)

-- name: ScheduleSeal
UPDATE parley_schedule SET sealed = 1 WHERE name = @p1 AND bytes = DATALENGTH(@p1)

-- name: ScheduleServed
UPDATE parley_schedule
   SET served = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()), latest = CASE WHEN latest < @p1 THEN @p2 ELSE latest END
 WHERE name = @p3 AND bytes = DATALENGTH(@p3)

-- name: ScheduleTry
SELECT 1 FROM parley_schedule WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST) WHERE name = @p1 AND bytes = DATALENGTH(@p1)

-- name: SchedulesReady
SELECT TOP (64) s.name
  FROM parley_schedule s WITH (READUNCOMMITTED)
 WHERE s.live = 1
   AND (NOT EXISTS (SELECT 1 FROM parley_task a WITH (READUNCOMMITTED)
                     WHERE a.schedule_id = s.schedule_id AND a.live = 1)
     OR EXISTS (SELECT 1 FROM parley_task t WITH (READUNCOMMITTED)
                 WHERE t.schedule_id = s.schedule_id AND t.live = 1 AND t.due <= DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())
                   AND t.phase = (SELECT min(p.phase) FROM parley_task p WITH (READUNCOMMITTED)
                                   WHERE p.schedule_id = s.schedule_id AND p.live = 1))
    AND (s.max_active = 0
      OR s.max_active > (SELECT count(*) FROM parley_task r WITH (READUNCOMMITTED)
                          WHERE r.schedule_id = s.schedule_id AND r.state = 1 AND r.due > DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()))))
 ORDER BY s.served, s.name

-- name: Submit
INSERT INTO parley_task (task_id, schedule_id, n, phase, type, body, caller, submitted)
SELECT k.message_id, @p2, @p3 + k.n - 1, k.seq, k.type, k.body, @p4, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) FROM @p1 k ORDER BY k.n

-- name: TaskExtend
UPDATE parley_task SET due = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) + @p1, touched = touched + 1
 WHERE task_id = @p2 AND fence = @p3 AND state = 1

-- name: TaskFinish
UPDATE parley_task
   SET state = @p1, live = @p2, due = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) + @p3, error = @p4, ended = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())
 WHERE task_id = @p5 AND fence = @p6 AND state = 1

-- name: TaskGiven
UPDATE parley_task SET given = 1 WHERE task_id = @p1 AND live = 0 AND given = 0

-- name: TaskHold
UPDATE parley_task SET touched = touched + 1
 WHERE task_id = @p1 AND fence = @p2 AND state = 1

-- name: TaskInsert
INSERT INTO parley_task (task_id, schedule_id, n, phase, type, body, caller, submitted)
VALUES (@p1, @p2, @p3, @p4, @p5, @p6, @p7, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()))

-- name: TaskRead
SELECT state, fence, due, live, given, stop, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) FROM parley_task WITH (READUNCOMMITTED) WHERE task_id = @p1

-- name: TaskReturn
UPDATE parley_task
   SET state = 0, due = 1, attempts = attempts - 1, error = @p1
 WHERE task_id = @p2 AND fence = @p3 AND state = 1

-- name: TaskStart
UPDATE parley_task
   SET state = 1, fence = fence + 1, attempts = attempts + 1, stop = 0, owner = @p1,
       started = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()), due = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) + @p2
 WHERE task_id = @p3 AND fence = @p4 AND live = 1

-- name: TaskStop
UPDATE parley_task SET stop = 1 WHERE task_id = @p1 AND state = 1

-- name: TaskTry
SELECT 1 FROM parley_task WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST) WHERE task_id = @p1

-- name: TasksCancel
UPDATE parley_task WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
   SET state = 5, live = 0, ended = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())
 WHERE schedule_id = @p1 AND live = 1 AND state <> 1 AND (1 = @p2 OR task_id = @p3)

-- name: TasksDelete
DELETE FROM parley_task WHERE schedule_id = @p1

-- name: TasksDue
SELECT task_id, n, type, body, state, due, attempts, fence
  FROM parley_task WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE schedule_id = @p1 AND live = 1 AND phase = @p2 AND due <= DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())
 ORDER BY schedule_id, phase, due, n
 OFFSET 0 ROWS FETCH NEXT @p3 ROWS ONLY

-- name: TasksFinished
SELECT task_id FROM parley_task WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE schedule_id = @p1 AND live = 0 AND given = 0
 ORDER BY schedule_id, ended, n
 OFFSET 0 ROWS FETCH NEXT 20 ROWS ONLY

-- name: TasksRetry
UPDATE parley_task
   SET state = 0, live = 1, due = 1, attempts = 0, ended = 0, given = 0
 WHERE schedule_id = @p1 AND state = 4 AND (1 = @p2 OR task_id = @p3)

-- name: TasksRunning
SELECT task_id FROM parley_task WITH (READUNCOMMITTED)
 WHERE schedule_id = @p1 AND state = 1 AND (1 = @p2 OR task_id = @p3)
 ORDER BY task_id

-- name: TasksSkip
UPDATE parley_task SET state = 6, given = 0
 WHERE schedule_id = @p1 AND state = 4 AND (1 = @p2 OR task_id = @p3)

-- name: TasksStart
UPDATE parley_task
   SET state = 1, fence = fence + 1, attempts = attempts + 1, stop = 0, owner = @p1,
       started = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()), due = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) + @p2
 WHERE schedule_id = @p3 AND live = 1 AND phase = @p4 AND due = 0 AND n >= @p5 AND n <= @p6
