-- name: RecurringInsert
INSERT INTO parley_recurring (name, state)
VALUES (?1, 'removed') ON CONFLICT DO NOTHING

-- name: RecurringList
SELECT r.name, r.revision, r.queue, r.type, r.body, r.cron, r.zone, r.every, r.jitter, r.grace,
       r.catch_up, r.overlap, r.state, r.due, r.look, r.last_due, r.fired, r.skipped,
       r.failures, r.error, ?1
  FROM parley_recurring r

-- name: RecurringLook
SELECT name, look - ?1 FROM parley_recurring
 WHERE state = 'active'
 ORDER BY look, name
 LIMIT 100

-- name: RecurringRead
SELECT r.name, r.revision, r.queue, r.type, r.body, r.cron, r.zone, r.every, r.jitter, r.grace,
       r.catch_up, r.overlap, r.state, r.due, r.look, r.last_due, r.fired, r.skipped,
       r.failures, r.error, ?2
  FROM parley_recurring r
 WHERE r.name = ?1

-- name: RecurringUpdate
UPDATE parley_recurring
   SET revision = ?1, queue = ?2, type = ?3, body = ?4, cron = ?5, zone = ?6, every = ?7, jitter = ?8, grace = ?9,
       catch_up = ?10, overlap = ?11, state = ?12, due = ?13, look = ?14, last_due = ?15, fired = ?16, skipped = ?17,
       failures = ?18, error = ?19
 WHERE name = ?20
