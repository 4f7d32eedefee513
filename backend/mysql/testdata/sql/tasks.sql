-- name: FinishTasks
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_task
   SET state = ?, live = ?, due = ?, attempts = attempts - ?, error = ?, ended = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
 WHERE task_id IN (?)

-- name: HoldTasks
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT task_id, fence FROM parley_task FORCE INDEX (PRIMARY)
 WHERE ? AND state = 1 ORDER BY task_id FOR UPDATE

-- name: ListRunning
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT s.name, t.task_id, t.phase, t.type, t.state, t.caller, t.owner, t.attempts,
       t.error, t.submitted, t.started, t.ended
  FROM parley_task t
  JOIN parley_schedule s ON s.schedule_id = t.schedule_id
 WHERE t.state = 1
 ORDER BY t.started, t.task_id
 LIMIT ?

-- name: ListSchedules
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT name FROM parley_schedule ORDER BY made, name

-- name: ListTasks
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT s.name, t.task_id, t.phase, t.type, t.state, t.caller, t.owner, t.attempts,
       t.error, t.submitted, t.started, t.ended
  FROM parley_schedule s
  JOIN parley_task t ON t.schedule_id = s.schedule_id
 WHERE s.name = ? AND (0 = ? OR t.state = 1)
   AND t.n > coalesce((SELECT b.n FROM parley_task b WHERE b.task_id = ?), 0)
 ORDER BY t.n
 LIMIT ?

-- name: OneTask
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT s.name, t.task_id, t.phase, t.type, t.state, t.caller, t.owner, t.attempts,
       t.error, t.submitted, t.started, t.ended
  FROM parley_task t
  JOIN parley_schedule s ON s.schedule_id = t.schedule_id
 WHERE t.task_id = ?

-- name: ScheduleCounts
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT state, count(*) FROM parley_task WHERE schedule_id = ? GROUP BY state

-- name: ScheduleDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_schedule WHERE name = ?

-- name: ScheduleError
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT error FROM parley_task
 WHERE schedule_id = ? AND error <> '' ORDER BY ended DESC, n DESC LIMIT 1

-- name: ScheduleInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT IGNORE INTO parley_schedule (name, schedule_id, max_active, go_on, accept_late, max_attempts,
       caller, purpose, made)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)))

-- name: ScheduleLock
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_schedule SET serial = serial + ?, live = 1 WHERE name = ?

-- name: ScheduleRead
/*M! SET STATEMENT max_statement_time = 0 FOR */
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
         WHERE r.schedule_id = s.schedule_id AND r.state = 1 AND r.due > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)))
  FROM parley_schedule s WHERE s.name = ?

-- name: ScheduleRest
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_schedule SET live = 0 WHERE name = ?

-- name: ScheduleSeal
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_schedule SET sealed = 1 WHERE name = ?

-- name: ScheduleServed
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_schedule
   SET served = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), latest = CASE WHEN latest < ? THEN ? ELSE latest END
 WHERE name = ?

-- name: ScheduleTry
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT 1 FROM parley_schedule WHERE name = ?
FOR UPDATE SKIP LOCKED

-- name: SchedulesReady
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT s.name
  FROM parley_schedule s
 WHERE s.live = 1
   AND ((SELECT a.due FROM parley_task a FORCE INDEX (place)
          WHERE a.schedule_id = s.schedule_id AND a.live = 1
          ORDER BY a.schedule_id, a.live, a.phase, a.due LIMIT 1) IS NULL
     OR (SELECT t.due FROM parley_task t FORCE INDEX (place)
          WHERE t.schedule_id = s.schedule_id AND t.live = 1
          ORDER BY t.schedule_id, t.live, t.phase, t.due LIMIT 1) <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
    AND (s.max_active = 0
      OR s.max_active > (SELECT count(*) FROM parley_task r FORCE INDEX (state)
                          WHERE r.schedule_id = s.schedule_id AND r.state = 1
                            AND r.due > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)))))
 ORDER BY s.served, s.name
 LIMIT 64

-- name: Start
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_task
   SET state = 1, fence = fence + 1, attempts = attempts + 1, stop = 0, owner = ?,
       started = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), due = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?
 WHERE task_id IN (?) AND live = 1 AND due = 0

-- name: Submit
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_task (task_id, schedule_id, n, phase, type, body, caller, submitted) VALUES ?

-- name: TaskExtend
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_task SET due = greatest(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?, due + 1)
 WHERE task_id = ? AND fence = ? AND state = 1

-- name: TaskFinish
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_task
   SET state = ?, live = ?, due = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?, error = ?, ended = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
 WHERE task_id = ? AND fence = ? AND state = 1

-- name: TaskGiven
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_task SET given = 1 WHERE task_id = ? AND live = 0 AND given = 0

-- name: TaskHold
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_task SET touched = touched + 1
 WHERE task_id = ? AND fence = ? AND state = 1

-- name: TaskInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_task (task_id, schedule_id, n, phase, type, body, caller, submitted)
VALUES (?, ?, ?, ?, ?, ?, ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)))

-- name: TaskRead
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT state, fence, due, live, given, stop, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) FROM parley_task WHERE task_id = ?

-- name: TaskReturn
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_task
   SET state = 0, due = 1, attempts = attempts - 1, error = ?
 WHERE task_id = ? AND fence = ? AND state = 1

-- name: TaskStart
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_task
   SET state = 1, fence = fence + 1, attempts = attempts + 1, stop = 0, owner = ?,
       started = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), due = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?
 WHERE task_id = ? AND fence = ? AND live = 1

-- name: TaskStop
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_task SET stop = 1 WHERE task_id = ? AND state = 1

-- name: TaskTry
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT 1 FROM parley_task WHERE task_id = ?
FOR UPDATE SKIP LOCKED

-- name: TasksCancel
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_task FORCE INDEX (state)
   SET state = 5, live = 0, ended = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
 WHERE schedule_id = ? AND state IN (0, 2) AND (1 = ? OR task_id = ?)

-- name: TasksDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_task WHERE schedule_id = ?

-- name: TasksDue
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT task_id, n, type, body, state, due, attempts, fence
  FROM parley_task
 WHERE schedule_id = ? AND live = 1 AND phase = ? AND due <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
 ORDER BY schedule_id, phase, due, n
 LIMIT ?

-- name: TasksFinished
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT task_id FROM parley_task
 WHERE schedule_id = ? AND live = 0 AND given = 0
 ORDER BY schedule_id, ended, n
 LIMIT 20

-- name: TasksRetry
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_task FORCE INDEX (state)
   SET state = 0, live = 1, due = 1, attempts = 0, ended = 0, given = 0
 WHERE schedule_id = ? AND state = 4 AND (1 = ? OR task_id = ?)

-- name: TasksRunning
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT task_id FROM parley_task
 WHERE schedule_id = ? AND state = 1 AND (1 = ? OR task_id = ?)
 ORDER BY task_id

-- name: TasksSkip
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_task FORCE INDEX (state)
   SET state = 6, given = 0
 WHERE schedule_id = ? AND state = 4 AND (1 = ? OR task_id = ?)

-- name: TasksStart
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_task
   SET state = 1, fence = fence + 1, attempts = attempts + 1, stop = 0, owner = ?,
       started = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), due = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?
 WHERE schedule_id = ? AND live = 1 AND phase = ? AND due = 0 AND n >= ? AND n <= ?
