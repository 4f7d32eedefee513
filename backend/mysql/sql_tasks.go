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
