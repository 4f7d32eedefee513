-- name: ScheduleInsert
-- Schedules and tasks. Who submits or claims has the schedule's row. Whether a phase is
-- over is asked of indexes that the lock of a transactional handler does not touch.
-- Skipping that handler's task would end its phase early, and so would a look at what
-- the handler has not committed. What is waited for there is a change of state, which
-- is followed by a commit.
{new} INTO parley_schedule (name{bytes bytes}, schedule_id, max_active, go_on, accept_late, max_attempts,
       caller, purpose, made)
VALUES (?{bytes ?}, ?, ?, ?, ?, ?, ?, ?, :now) {otherwise}
-- name: ScheduleLock
UPDATE parley_schedule SET serial = serial + ?, live = 1 WHERE name = ?{exact}
-- name: ScheduleTry
SELECT 1 FROM parley_schedule {lock skip} WHERE name = ?{exact}
-- name: ScheduleRead
-- It includes the lowest phase that is not over and the lowest phase with a dead task. It counts the
-- running tasks, and those of them with a live worker. The counts are the row's witness (Witness).
SELECT s.schedule_id, s.sealed, s.max_active, s.go_on, s.accept_late, s.max_attempts,
       s.caller, s.purpose, s.serial, s.latest,
       (SELECT a.phase FROM parley_task a {read wait by_order}
         WHERE a.schedule_id = s.schedule_id AND a.live = 1
         ORDER BY a.phase {limit 1}),
       (SELECT d.phase FROM parley_task d {read wait by_dead}
         WHERE d.schedule_id = s.schedule_id AND d.state = 4
         ORDER BY d.phase {limit 1}),
       (SELECT count(*) FROM parley_task r {read wait by_running}
         WHERE r.schedule_id = s.schedule_id AND r.state = 1),
       (SELECT count(*) FROM parley_task r {read wait by_running}
         WHERE r.schedule_id = s.schedule_id AND r.state = 1 AND r.due > :now)
  FROM parley_schedule s {read dirty} WHERE s.name = ?{exact s.}
-- name: ScheduleServed
UPDATE parley_schedule
   SET served = :now, latest = CASE WHEN latest < ? THEN ? ELSE latest END
 WHERE name = ?{exact}
-- name: ScheduleRest
UPDATE parley_schedule SET live = 0 WHERE name = ?{exact}
-- name: ScheduleSeal
UPDATE parley_schedule SET sealed = 1 WHERE name = ?{exact}
-- name: ScheduleDelete
DELETE FROM parley_schedule WHERE name = ?{exact}
-- name: SchedulesReady
-- Schedules where a claim would find something, and those that have
-- nothing any more and can rest; least recently served ones first.
SELECT s.name
  FROM parley_schedule s
 WHERE s.live = 1
   AND ((SELECT a.phase FROM parley_task a
          WHERE a.schedule_id = s.schedule_id AND a.live = 1
          ORDER BY a.phase LIMIT 1) IS NULL
     OR (SELECT t.due FROM parley_task t
          WHERE t.schedule_id = s.schedule_id AND t.live = 1 AND t.due <= {once}
            AND t.phase = (SELECT p.phase FROM parley_task p
                            WHERE p.schedule_id = s.schedule_id AND p.live = 1
                            ORDER BY p.phase LIMIT 1)
          ORDER BY t.due LIMIT 1) IS NOT NULL
    AND (s.max_active = 0
      OR s.max_active > (SELECT count(*) FROM parley_task r
                          WHERE r.schedule_id = s.schedule_id AND r.state = 1
                            AND r.due > :now)))
 ORDER BY s.served, s.name
 LIMIT 64
-- name: TaskInsert
INSERT INTO parley_task (task_id, schedule_id, n, phase, type, body, caller, submitted)
VALUES (?, ?, ?, ?, ?, ?, ?, :now)
-- name: TaskHold
UPDATE parley_task SET touched = touched + 1
 WHERE task_id = ? AND fence = ? AND state = 1
-- name: TaskTry
SELECT 1 FROM parley_task {lock skip} WHERE task_id = ?
-- name: TaskRead
SELECT state, fence, due, live, given, stop, :now FROM parley_task {read dirty} WHERE task_id = ?
-- name: TasksDue
-- Queued tasks are due at 0, failed ones after their delay, running ones at
-- the end of their lease.
SELECT task_id, n, type, body, state, due, attempts, fence
  FROM parley_task {read skip}
 WHERE schedule_id = ? AND live = 1 AND phase = ? AND due <= :now
 ORDER BY schedule_id, phase, due, n
 {limit ?}
-- name: TasksStart
UPDATE parley_task
   SET state = 1, fence = fence + 1, attempts = attempts + 1, stop = 0, owner = ?,
       started = :now, due = :now + ?
 WHERE schedule_id = ? AND live = 1 AND phase = ? AND due = 0 AND n >= ? AND n <= ?
-- name: TaskStart
UPDATE parley_task
   SET state = 1, fence = fence + 1, attempts = attempts + 1, stop = 0, owner = ?,
       started = :now, due = :now + ?
 WHERE task_id = ? AND fence = ? AND live = 1
-- name: TaskFinish
UPDATE parley_task
   SET state = ?, live = ?, due = :now + ?, error = ?, ended = :now
 WHERE task_id = ? AND fence = ? AND state = 1
-- name: TaskReturn
-- It is due, but not as one that was never claimed: those are started many
-- at a time by their numbers.
UPDATE parley_task
   SET state = 0, due = 1, attempts = attempts - 1, error = ?
 WHERE task_id = ? AND fence = ? AND state = 1
-- name: TaskExtend
UPDATE parley_task SET due = :now + ?, touched = touched + 1
 WHERE task_id = ? AND fence = ? AND state = 1
-- name: TaskStop
UPDATE parley_task SET stop = 1 WHERE task_id = ? AND state = 1
-- name: TasksRunning
SELECT task_id FROM parley_task {read dirty}
 WHERE schedule_id = ? AND state = 1 AND (1 = ? OR task_id = ?)
 ORDER BY task_id
-- name: TasksCancel
-- A task whose row is locked runs, and is told to stop instead.
UPDATE parley_task {read skip}
   SET state = 5, live = 0, ended = :now
 WHERE schedule_id = ? AND live = 1 AND state <> 1 AND (1 = ? OR task_id = ?)
-- name: TasksRetry
UPDATE parley_task
   SET state = 0, live = 1, due = 1, attempts = 0, ended = 0, given = 0
 WHERE schedule_id = ? AND state = 4 AND (1 = ? OR task_id = ?)
-- name: TasksSkip
UPDATE parley_task SET state = 6, given = 0
 WHERE schedule_id = ? AND state = 4 AND (1 = ? OR task_id = ?)
-- name: TasksDelete
DELETE FROM parley_task WHERE schedule_id = ?
-- name: TasksFinished
SELECT task_id FROM parley_task {read skip}
 WHERE schedule_id = ? AND live = 0 AND given = 0
 ORDER BY schedule_id, ended, n
 {limit 20}
-- name: TaskGiven
UPDATE parley_task SET given = 1 WHERE task_id = ? AND live = 0 AND given = 0
-- name: ListSchedules
SELECT name FROM parley_schedule {read dirty} ORDER BY made, name
-- name: ScheduleCounts
SELECT state, count(*) FROM parley_task {read dirty} WHERE schedule_id = ? GROUP BY state
-- name: ScheduleError
SELECT error FROM parley_task {read dirty}
 WHERE schedule_id = ? AND error <> '' ORDER BY ended DESC, n DESC {limit 1}
-- name: ListTasks
SELECT s.name, t.task_id, t.phase, t.type, t.state, t.caller, t.owner, t.attempts,
       t.error, t.submitted, t.started, t.ended
  FROM parley_schedule s {read dirty}
  JOIN parley_task t {read dirty} ON t.schedule_id = s.schedule_id
 WHERE s.name = ?{exact s.} AND (0 = ? OR t.state = 1)
   AND t.n > coalesce((SELECT b.n FROM parley_task b {read dirty} WHERE b.task_id = ?), 0)
 ORDER BY t.n
 {limit ?}
-- name: ListRunning
SELECT s.name, t.task_id, t.phase, t.type, t.state, t.caller, t.owner, t.attempts,
       t.error, t.submitted, t.started, t.ended
  FROM parley_task t {read dirty}
  JOIN parley_schedule s {read dirty} ON s.schedule_id = t.schedule_id
 WHERE t.state = 1
 ORDER BY t.started, t.task_id
 {limit ?}
-- name: OneTask
SELECT s.name, t.task_id, t.phase, t.type, t.state, t.caller, t.owner, t.attempts,
       t.error, t.submitted, t.started, t.ended
  FROM parley_task t {read dirty}
  JOIN parley_schedule s {read dirty} ON s.schedule_id = t.schedule_id
 WHERE t.task_id = ?
