-- name: TaskExtend
UPDATE parley_task SET due = greatest(:now + ?, due + 1)
 WHERE task_id = ? AND fence = ? AND state = 1
-- name: SchedulesReady
-- The first place of a schedule is the task of its lowest phase that is due
-- first. MySQL has to be told where to find it, or sorts all tasks.
SELECT s.name
  FROM parley_schedule s
 WHERE s.live = 1
   AND ((SELECT a.due FROM parley_task a FORCE INDEX (place)
          WHERE a.schedule_id = s.schedule_id AND a.live = 1
          ORDER BY a.schedule_id, a.live, a.phase, a.due LIMIT 1) IS NULL
     OR (SELECT t.due FROM parley_task t FORCE INDEX (place)
          WHERE t.schedule_id = s.schedule_id AND t.live = 1
          ORDER BY t.schedule_id, t.live, t.phase, t.due LIMIT 1) <= :now
    AND (s.max_active = 0
      OR s.max_active > (SELECT count(*) FROM parley_task r FORCE INDEX (state)
                          WHERE r.schedule_id = s.schedule_id AND r.state = 1
                            AND r.due > :now)))
 ORDER BY s.served, s.name
 LIMIT 64
-- name: TasksCancel
-- The rows are found by equality with the first columns of an index. A scan of the table, or of a
-- range, would wait for neighbouring tasks that workers have locked.
UPDATE parley_task FORCE INDEX (state)
   SET state = 5, live = 0, ended = :now
 WHERE schedule_id = ? AND state IN (0, 2) AND (1 = ? OR task_id = ?)
-- name: TasksRetry
UPDATE parley_task FORCE INDEX (state)
   SET state = 0, live = 1, due = 1, attempts = 0, ended = 0, given = 0
 WHERE schedule_id = ? AND state = 4 AND (1 = ? OR task_id = ?)
-- name: TasksSkip
UPDATE parley_task FORCE INDEX (state)
   SET state = 6, given = 0
 WHERE schedule_id = ? AND state = 4 AND (1 = ? OR task_id = ?)

-- name: Submit
-- id, schedule, number, phase, type, body, caller, time
INSERT INTO parley_task (task_id, schedule_id, n, phase, type, body, caller, submitted) VALUES ?

-- name: Start
-- Tasks that were never claimed. They are found by their ids and not, as in other statements, by a
-- range of numbers, which would wait for the task behind it.
--
-- owner, how long, ids
UPDATE parley_task
   SET state = 1, fence = fence + 1, attempts = attempts + 1, stop = 0, owner = ?,
       started = :now, due = :now + ?
 WHERE task_id IN (?) AND live = 1 AND due = 0

-- name: HoldTasks
-- Tasks that are still held. All transactions that end many tasks lock them in the same order.
--
-- ids and fences
SELECT task_id, fence FROM parley_task FORCE INDEX (PRIMARY)
 WHERE ? AND state = 1 ORDER BY task_id FOR UPDATE

-- name: FinishTasks
-- The outcomes of locked tasks. No value depends on another column, which may or may not have
-- changed by then.
--
-- states, whether they are live, when due, attempts to be taken back, errors, ids
UPDATE parley_task
   SET state = ?, live = ?, due = ?, attempts = attempts - ?, error = ?, ended = :now
 WHERE task_id IN (?)
