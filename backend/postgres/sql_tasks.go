package postgres

// $1 ids
const submitSQL = `
	INSERT INTO parley_task (task_id, schedule_id, n, phase, type, body, caller, submitted)
	SELECT x.id, $1::uuid, $2::bigint + x.ord - 1, x.phase, x.type, x.body, $3::text, :now
	  FROM unnest((SELECT $4::uuid[]), (SELECT $5::bigint[]), (SELECT $6::text[]), (SELECT $7::bytea[]))
	       WITH ORDINALITY AS x (id, phase, type, body, ord)`

// A task that is given back has been due since 1, see Portable.
const finishTasksSQL = `
	UPDATE parley_task t
	   SET state = x.state, live = x.live, due = CASE x.state WHEN 0 THEN 1 ELSE :now + x.delay END,
	       attempts = CASE x.state WHEN 0 THEN t.attempts - 1 ELSE t.attempts END,
	       error = x.error, ended = :now
	  FROM unnest((SELECT $1::uuid[]), (SELECT $2::bigint[]), (SELECT $3::smallint[]),
	              (SELECT $4::smallint[]), (SELECT $5::bigint[]), (SELECT $6::text[]))
	       AS x (id, fence, state, live, delay, error)
	 WHERE t.task_id = x.id AND t.fence = x.fence AND t.state = 1
	RETURNING t.task_id`
