-- name: Belong
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT s.queue_id, s.stream_id, s.priority,
       (SELECT m.since FROM parley_message m FORCE INDEX (PRIMARY)
         WHERE m.stream_id = s.stream_id ORDER BY m.stream_id, m.seq LIMIT 1),
       (SELECT w.kind FROM parley_stream w WHERE w.stream_id = s.stream_id LIMIT 1)
  FROM parley_stream s
 WHERE s.group_id = ? AND s.stream_id IN (?)

-- name: Clear
/*M! SET STATEMENT sql_safe_updates = 0, max_statement_time = 0 FOR */
DELETE m, r, s
  FROM (?) k
  LEFT JOIN parley_message m FORCE INDEX (PRIMARY) ON m.stream_id = k.message AND m.seq = k.seq
  LEFT JOIN parley_ready r FORCE INDEX (PRIMARY) ON r.group_id = k.grp AND r.stream_id = k.marker
  LEFT JOIN parley_stream s FORCE INDEX (PRIMARY) ON s.stream_id = k.stream

-- name: ExtendGroups
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_grp FORCE INDEX (PRIMARY) SET lease_until = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ? WHERE group_id IN (?)

-- name: ExtendPosts
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_post FORCE INDEX (PRIMARY) SET lease_until = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ? WHERE post_id IN (?)

-- name: Guards
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT stream_id FROM parley_stream FORCE INDEX (PRIMARY)
 WHERE stream_id IN (?) ORDER BY stream_id
   FOR UPDATE SKIP LOCKED

-- name: Keep
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_processed (post_id, queue_id, name, type, body, headers, keep_until)
SELECT m.message_id, ?, ?, m.type, m.body, m.headers, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?
  FROM parley_message m
 WHERE ?

-- name: KeepPosts
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_processed (post_id, queue_id, name, type, body, headers, keep_until)
SELECT p.post_id, p.queue_id, '', p.type, p.body, p.headers, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?
  FROM parley_post p
 WHERE p.post_id IN (?)

-- name: LeasedGroups
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT group_id FROM parley_grp WHERE ? AND lease_until > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))

-- name: LeasedPosts
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT post_id FROM parley_post WHERE ? AND lease_until > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))

-- name: Look
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT s.stream_id, s.kind, s.group_id, r.since,
       (SELECT m.since FROM parley_message m FORCE INDEX (PRIMARY)
         WHERE m.stream_id = s.stream_id AND NOT ? ORDER BY m.stream_id, m.seq LIMIT 1),
       coalesce(g.blocked, 1),
       (SELECT w.kind FROM parley_stream w WHERE w.stream_id = s.stream_id LIMIT 1)
  FROM parley_stream s
  LEFT JOIN parley_ready r ON r.group_id = s.group_id AND r.stream_id = s.stream_id
  LEFT JOIN parley_grp g ON g.group_id = s.group_id
 WHERE s.stream_id IN (?)

-- name: Probe
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT 1 FROM parley_probe WHERE probe_id = ?

-- name: Probed
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_probe (probe_id) VALUES (?)

-- name: ReclaimGroups
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT group_id FROM parley_grp FORCE INDEX (PRIMARY)
 WHERE ? AND lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v WHERE v.id = 1) <= 12
   FOR UPDATE SKIP LOCKED

-- name: ReclaimPosts
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT post_id FROM parley_post FORCE INDEX (PRIMARY)
 WHERE ? AND lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v WHERE v.id = 1) <= 12
   FOR UPDATE SKIP LOCKED

-- name: Remove
/*M! SET STATEMENT sql_safe_updates = 0, max_statement_time = 0 FOR */
DELETE x FROM (?) k STRAIGHT_JOIN parley_message x FORCE INDEX (PRIMARY)
 WHERE x.stream_id = k.stream_id AND x.seq = k.seq

-- name: RemovePosts
/*M! SET STATEMENT sql_safe_updates = 0, max_statement_time = 0 FOR */
DELETE x FROM (?) k STRAIGHT_JOIN parley_post x FORCE INDEX (PRIMARY)
 WHERE x.post_id = k.post_id

-- name: Restand
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_ready FORCE INDEX (PRIMARY) SET since = ?
 WHERE ?

-- name: Restore
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since) VALUES ?
ON DUPLICATE KEY UPDATE since = VALUES(since)

-- name: Retain
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_retained (handle, stream_id, seq, sent, message_id, kind, type, body, headers, since, kept)
SELECT ?, m.stream_id, m.seq, 0, m.message_id, m.kind, m.type, m.body, m.headers, m.since, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
  FROM parley_message m
 WHERE ?

-- name: TookGroups
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_grp FORCE INDEX (PRIMARY) SET lease_until = 0, owner = '' WHERE group_id IN (?)

-- name: TookPosts
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_post FORCE INDEX (PRIMARY) SET lease_until = 0, owner = '' WHERE post_id IN (?)

-- name: Unprobe
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_probe WHERE probe_id = ?

-- name: Where
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT concat_ws(' ', @@hostname, @@port, @@server_id)
