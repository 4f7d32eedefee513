package mysql

// id, schedule, number, phase, type, body, caller, time
const submitSQL = `
	INSERT INTO parley_task (task_id, schedule_id, n, phase, type, body, caller, submitted) VALUES ?`

// Tasks that were never claimed. They are found by their ids and not, as elsewhere,
// by a range of numbers: it would wait for the task behind it.
//
// owner, for how long, ids
const startSQL = `
	UPDATE parley_task
	   SET state = 1, fence = fence + 1, attempts = attempts + 1, stop = 0, owner = ?,
	       started = :now, due = :now + ?
	 WHERE task_id IN (?) AND live = 1 AND due = 0`

// Tasks that are held still. The order in which they are locked is the same for all
// who end many.
//
// ids and fences
const holdTasksSQL = `
	SELECT task_id, fence FROM parley_task FORCE INDEX (PRIMARY)
	 WHERE ? AND state = 1 ORDER BY task_id FOR UPDATE`

// What became of tasks that are locked. No value is made of another column's, which
// may or may not have changed by then.
//
// states, whether they are live, when due, attempts to be taken back, errors, ids
const finishTasksSQL = `
	UPDATE parley_task
	   SET state = ?, live = ?, due = ?, attempts = attempts - ?, error = ?, ended = :now
	 WHERE task_id IN (?)`
