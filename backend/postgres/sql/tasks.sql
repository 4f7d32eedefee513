-- name: TasksDue
-- The planner assumes that a limit in a parameter is a tenth of all rows. It would sort a million
-- rows to find the first. The inner limit makes it walk the index; it is higher than any requested
-- limit.
SELECT t.task_id, t.n, t.type, t.body, t.state, t.due, t.attempts, t.fence
  FROM (SELECT y.task_id, y.due, y.n
          FROM (SELECT task_id, due, n
                  FROM parley_task
                 WHERE schedule_id = $1 AND live = 1 AND phase = $2 AND due <= {once}
                 ORDER BY schedule_id, phase, due, n
                 LIMIT 200) y
         ORDER BY y.due, y.n
         LIMIT $3) x
  JOIN parley_task t ON t.task_id = x.task_id
 ORDER BY x.due, x.n

-- name: Submit
-- $1 ids
INSERT INTO parley_task (task_id, schedule_id, n, phase, type, body, caller, submitted)
SELECT x.id, $1::uuid, $2::bigint + x.ord - 1, x.phase, x.type, x.body, $3::text, :now
  FROM unnest((SELECT $4::uuid[]), (SELECT $5::bigint[]), (SELECT $6::text[]), (SELECT $7::bytea[]))
       WITH ORDINALITY AS x (id, phase, type, body, ord)

-- name: FinishTasks
-- A released task has been due since 1, see Portable.
UPDATE parley_task t
   SET state = x.state, live = x.live, due = CASE x.state WHEN 0 THEN 1 ELSE :now + x.delay END,
       attempts = CASE x.state WHEN 0 THEN t.attempts - 1 ELSE t.attempts END,
       error = x.error, ended = :now
  FROM unnest((SELECT $1::uuid[]), (SELECT $2::bigint[]), (SELECT $3::smallint[]),
              (SELECT $4::smallint[]), (SELECT $5::bigint[]), (SELECT $6::text[]))
       AS x (id, fence, state, live, delay, error)
 WHERE t.task_id = x.id AND t.fence = x.fence AND t.state = 1
RETURNING t.task_id
