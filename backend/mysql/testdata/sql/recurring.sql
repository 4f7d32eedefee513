-- name: RecurringInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT IGNORE INTO parley_recurring (name, state)
VALUES (?, 'removed')

-- name: RecurringList
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT r.name, r.revision, r.queue, r.type, r.body, r.cron, r.zone, r.every, r.jitter, r.grace,
       r.catch_up, r.overlap, r.state, r.due, r.look, r.last_due, r.fired, r.skipped,
       r.failures, r.error, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
  FROM parley_recurring r

-- name: RecurringLock
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT 1 FROM parley_recurring WHERE name = ?
FOR UPDATE

-- name: RecurringLook
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT name, look - TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) FROM parley_recurring
 WHERE state = 'active'
 ORDER BY look, name
 LIMIT 100

-- name: RecurringRead
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT r.name, r.revision, r.queue, r.type, r.body, r.cron, r.zone, r.every, r.jitter, r.grace,
       r.catch_up, r.overlap, r.state, r.due, r.look, r.last_due, r.fired, r.skipped,
       r.failures, r.error, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
  FROM parley_recurring r
 WHERE r.name = ?

-- name: RecurringTry
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT 1 FROM parley_recurring WHERE name = ?
FOR UPDATE SKIP LOCKED

-- name: RecurringUpdate
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_recurring
   SET revision = ?, queue = ?, type = ?, body = ?, cron = ?, zone = ?, every = ?, jitter = ?, grace = ?,
       catch_up = ?, overlap = ?, state = ?, due = ?, look = ?, last_due = ?, fired = ?, skipped = ?,
       failures = ?, error = ?
 WHERE name = ?
