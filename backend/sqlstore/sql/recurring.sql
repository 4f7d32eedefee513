-- name: RecurringInsert
-- Recurring jobs. A row is changed by the transaction that has it locked. What a claim looks at is its place in the
-- order of look; what the row says counts once it is locked.
{new} INTO parley_recurring (name{bytes bytes}, state)
VALUES (?{bytes ?}, 'removed') {otherwise}
-- name: RecurringUpdate
UPDATE parley_recurring
   SET revision = ?, queue = ?, type = ?, body = ?, cron = ?, zone = ?, every = ?, jitter = ?, grace = ?,
       catch_up = ?, overlap = ?, state = ?, due = ?, look = ?, last_due = ?, fired = ?, skipped = ?,
       failures = ?, error = ?
 WHERE name = ?{exact}
-- name: RecurringLook
SELECT name, look - :now FROM parley_recurring {read skip}
 WHERE state = 'active'
 ORDER BY look, name
 {limit 100}
-- name: RecurringTry
SELECT 1 FROM parley_recurring {lock skip} WHERE name = ?{exact}
-- name: RecurringLock
SELECT 1 FROM parley_recurring {lock wait} WHERE name = ?{exact}
-- name: RecurringList
SELECT r.name, r.revision, r.queue, r.type, r.body, r.cron, r.zone, r.every, r.jitter, r.grace,
       r.catch_up, r.overlap, r.state, r.due, r.look, r.last_due, r.fired, r.skipped,
       r.failures, r.error, :now
  FROM parley_recurring r {read dirty}
-- name: RecurringRead
{RecurringList}
 WHERE r.name = ?{exact r.}
