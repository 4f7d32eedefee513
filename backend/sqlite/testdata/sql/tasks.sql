-- name: ListRunning
SELECT s.name, t.task_id, t.phase, t.type, t.state, t.caller, t.owner, t.attempts,
       t.error, t.submitted, t.started, t.ended
  FROM parley_task t
  JOIN parley_schedule s ON s.schedule_id = t.schedule_id
 WHERE t.state = 1
 ORDER BY t.started, t.task_id
 LIMIT +?1

-- name: ListSchedules
SELECT name FROM parley_schedule ORDER BY made, name

-- name: ListTasks
SELECT s.name, t.task_id, t.phase, t.type, t.state, t.caller, t.owner, t.attempts,
       t.error, t.submitted, t.started, t.ended
  FROM parley_schedule s
  JOIN parley_task t ON t.schedule_id = s.schedule_id
 WHERE s.name = ?1 AND (0 = ?2 OR t.state = 1)
   AND t.n > coalesce((SELECT b.n FROM parley_task b WHERE b.task_id = ?3), 0)
 ORDER BY t.n
 LIMIT +?4

-- name: OneTask
SELECT s.name, t.task_id, t.phase, t.type, t.state, t.caller, t.owner, t.attempts,
       t.error, t.submitted, t.started, t.ended
  FROM parley_task t
  JOIN parley_schedule s ON s.schedule_id = t.schedule_id
 WHERE t.task_id = ?1

-- name: ScheduleCounts
SELECT state, count(*) FROM parley_task WHERE schedule_id = ?1 GROUP BY state

-- name: ScheduleDelete
DELETE FROM parley_schedule WHERE name = ?1

-- name: ScheduleError
SELECT error FROM parley_task
 WHERE schedule_id = ?1 AND error <> '' ORDER BY ended DESC, n DESC LIMIT 1

-- name: ScheduleInsert
INSERT INTO parley_schedule (name, schedule_id, max_active, go_on, accept_late, max_attempts,
       caller, purpose, made)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO NOTHING

-- name: ScheduleLock
UPDATE parley_schedule SET serial = serial + ?1, live = 1 WHERE name = ?2

-- name: ScheduleRead
SELECT s.schedule_id, s.sealed, s.max_active, s.go_on, s.accept_late, s.max_attempts,
       s.caller, s.purpose, s.serial, s.latest,
       (SELECT a.phase FROM parley_task a
         WHERE a.schedule_id = s.schedule_id AND a.live = 1
         ORDER BY a.phase LIMIT 1),
       (SELECT d.phase FROM parley_task d
         WHERE d.schedule_id = s.schedule_id AND d.state = 4
         ORDER BY d.phase LIMIT 1),
       (SELECT count(*) FROM parley_task r
         WHERE r.schedule_id = s.schedule_id AND r.state = 1),
       (SELECT count(*) FROM parley_task r
         WHERE r.schedule_id = s.schedule_id AND r.state = 1 AND r.due > ?2)
  FROM parley_schedule s WHERE s.name = ?1

-- name: ScheduleRest
UPDATE parley_schedule SET live = 0 WHERE name = ?1

-- name: ScheduleSeal
UPDATE parley_schedule SET sealed = 1 WHERE name = ?1

-- name: ScheduleServed
UPDATE parley_schedule
   SET served = ?4, latest = CASE WHEN latest < ?1 THEN ?2 ELSE latest END
 WHERE name = ?3

-- name: SchedulesReady
SELECT s.name
  FROM parley_schedule s
 WHERE s.live = 1
   AND ((SELECT a.phase FROM parley_task a
          WHERE a.schedule_id = s.schedule_id AND a.live = 1
          ORDER BY a.phase LIMIT 1) IS NULL
     OR (SELECT t.due FROM parley_task t
          WHERE t.schedule_id = s.schedule_id AND t.live = 1 AND t.due <= ?1
            AND t.phase = (SELECT p.phase FROM parley_task p
                            WHERE p.schedule_id = s.schedule_id AND p.live = 1
                            ORDER BY p.phase LIMIT 1)
          ORDER BY t.due LIMIT 1) IS NOT NULL
    AND (s.max_active = 0
      OR s.max_active > (SELECT count(*) FROM parley_task r
                          WHERE r.schedule_id = s.schedule_id AND r.state = 1
                            AND r.due > ?1)))
 ORDER BY s.served, s.name
 LIMIT 64

-- name: TaskExtend
UPDATE parley_task SET due = ?4 + ?1, touched = touched + 1
 WHERE task_id = ?2 AND fence = ?3 AND state = 1

-- name: TaskFinish
UPDATE parley_task
   SET state = ?1, live = ?2, due = ?7 + ?3, error = ?4, ended = ?7
 WHERE task_id = ?5 AND fence = ?6 AND state = 1

-- name: TaskGiven
UPDATE parley_task SET given = 1 WHERE task_id = ?1 AND live = 0 AND given = 0

-- name: TaskHold
UPDATE parley_task SET touched = touched + 1
 WHERE task_id = ?1 AND fence = ?2 AND state = 1

-- name: TaskInsert
INSERT INTO parley_task (task_id, schedule_id, n, phase, type, body, caller, submitted)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)

-- name: TaskRead
SELECT state, fence, due, live, given, stop, ?2 FROM parley_task WHERE task_id = ?1

-- name: TaskReturn
UPDATE parley_task
   SET state = 0, due = 1, attempts = attempts - 1, error = ?1
 WHERE task_id = ?2 AND fence = ?3 AND state = 1

-- name: TaskStart
UPDATE parley_task
   SET state = 1, fence = fence + 1, attempts = attempts + 1, stop = 0, owner = ?1,
       started = ?5, due = ?5 + ?2
 WHERE task_id = ?3 AND fence = ?4 AND live = 1

-- name: TaskStop
UPDATE parley_task SET stop = 1 WHERE task_id = ?1 AND state = 1

-- name: TasksCancel
UPDATE parley_task
   SET state = 5, live = 0, ended = ?4
 WHERE schedule_id = ?1 AND live = 1 AND state <> 1 AND (1 = ?2 OR task_id = ?3)

-- name: TasksDelete
DELETE FROM parley_task WHERE schedule_id = ?1

-- name: TasksDue
SELECT task_id, n, type, body, state, due, attempts, fence
  FROM parley_task
 WHERE schedule_id = ?1 AND live = 1 AND phase = +?2 AND due <= ?4
 ORDER BY schedule_id, phase, due, n
 LIMIT +?3

-- name: TasksFinished
SELECT task_id FROM parley_task
 WHERE schedule_id = ?1 AND live = 0 AND given = 0
 ORDER BY schedule_id, ended, n
 LIMIT 20

-- name: TasksRetry
UPDATE parley_task
   SET state = 0, live = 1, due = 1, attempts = 0, ended = 0, given = 0
 WHERE schedule_id = ?1 AND state = 4 AND (1 = ?2 OR task_id = ?3)

-- name: TasksRunning
SELECT task_id FROM parley_task
 WHERE schedule_id = ?1 AND state = 1 AND (1 = ?2 OR task_id = ?3)
 ORDER BY task_id

-- name: TasksSkip
UPDATE parley_task SET state = 6, given = 0
 WHERE schedule_id = ?1 AND state = 4 AND (1 = ?2 OR task_id = ?3)

-- name: TasksStart
UPDATE parley_task
   SET state = 1, fence = fence + 1, attempts = attempts + 1, stop = 0, owner = ?1,
       started = ?7, due = ?7 + ?2
 WHERE schedule_id = ?3 AND live = 1 AND phase = +?4 AND due = 0 AND n >= ?5 AND n <= ?6
