-- name: Probe
-- A row that reveals the level of a transaction.
SELECT 1 FROM parley_probe WHERE probe_id = ?
-- name: Probed
INSERT INTO parley_probe (probe_id) VALUES (?)
-- name: Unprobe
DELETE FROM parley_probe WHERE probe_id = ?
-- name: Where
-- The server of a session, which a proxy may hide.
SELECT concat_ws(' ', @@hostname, @@port, @@server_id)

-- name: Remove
-- Delivered messages, by their keys: a range would wait for the next one's sender.
-- The number removed must be that of the keys.
--
-- A DELETE with a list of keys reads the whole table if its statistics say that it is small,
-- whatever the index hint. Then it waits for every row that another transaction has locked. A join
-- looks up one key after the other. With sql_safe_updates MariaDB, which alone reads the comment,
-- takes it for a DELETE without a key.
--
-- keys; posts
{safely}
DELETE x FROM (?) k STRAIGHT_JOIN parley_message x FORCE INDEX (PRIMARY)
 WHERE x.stream_id = k.stream_id AND x.seq = k.seq
-- name: RemovePosts
{safely}
DELETE x FROM (?) k STRAIGHT_JOIN parley_post x FORCE INDEX (PRIMARY)
 WHERE x.post_id = k.post_id

-- name: Guards
-- The guards of streams that are free, without waiting.
--
-- streams
SELECT stream_id FROM parley_stream FORCE INDEX (PRIMARY)
 WHERE stream_id IN (?) ORDER BY stream_id
   FOR UPDATE SKIP LOCKED

-- name: Look
-- The state of streams whose guards are ours. This must be separate from the statement that takes
-- the guards. That statement sees what was committed when it began, and not the message of a sender
-- for which it has just waited.
--
-- The last column is a witness: see sqlstore.Witness.
--
-- messages that count as gone, streams
SELECT s.stream_id, s.kind, s.group_id, r.since,
       (SELECT m.since FROM parley_message m FORCE INDEX (PRIMARY)
         WHERE m.stream_id = s.stream_id AND NOT ? ORDER BY m.stream_id, m.seq LIMIT 1),
       coalesce(g.blocked, 1),
       (SELECT w.kind FROM parley_stream w WHERE w.stream_id = s.stream_id LIMIT 1)
  FROM parley_stream s
  LEFT JOIN parley_ready r ON r.group_id = s.group_id AND r.stream_id = s.stream_id
  LEFT JOIN parley_grp g ON g.group_id = s.group_id
 WHERE s.stream_id IN (?)

-- name: Clear
-- Rows of several tables are removed by their keys, one key in each row of k. A NULL there is looked up in no table.
-- See Remove. This corrects the ready order; a stream that was made for a single message is removed with it.
--
-- messages, numbers, groups of markers, their streams, streams
{safely}
DELETE m, r, s
  FROM (?) k
  LEFT JOIN parley_message m FORCE INDEX (PRIMARY) ON m.stream_id = k.message AND m.seq = k.seq
  LEFT JOIN parley_ready r FORCE INDEX (PRIMARY) ON r.group_id = k.grp AND r.stream_id = k.marker
  LEFT JOIN parley_stream s FORCE INDEX (PRIMARY) ON s.stream_id = k.stream
-- name: Restand
UPDATE parley_ready FORCE INDEX (PRIMARY) SET since = ?
 WHERE ?

-- name: Belong
-- The entries that a group's streams should have in the ready order, with a witness as in Look. The
-- guards of the streams are ours. The rows replace those with another time.
--
-- group, streams; queue, group, stream, priority, time
SELECT s.queue_id, s.stream_id, s.priority,
       (SELECT m.since FROM parley_message m FORCE INDEX (PRIMARY)
         WHERE m.stream_id = s.stream_id ORDER BY m.stream_id, m.seq LIMIT 1),
       (SELECT w.kind FROM parley_stream w WHERE w.stream_id = s.stream_id LIMIT 1)
  FROM parley_stream s
 WHERE s.group_id = ? AND s.stream_id IN (?)
-- name: Restore
INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since) VALUES ?
ON DUPLICATE KEY UPDATE since = VALUES(since)

-- name: Retain
-- Copies of messages that are about to be removed, for their receivers.
--
-- handles by stream, keys
INSERT INTO parley_retained (handle, stream_id, seq, sent, message_id, kind, type, body, headers, since, kept)
SELECT ?, m.stream_id, m.seq, 0, m.message_id, m.kind, m.type, m.body, m.headers, m.since, :now
  FROM parley_message m
 WHERE ?

-- name: Keep
-- Copies of keyed posts that have been processed.
--
-- queue, name, how long, keys
INSERT INTO parley_processed (post_id, queue_id, name, type, body, headers, keep_until)
SELECT m.message_id, ?, ?, m.type, m.body, m.headers, :now + ?
  FROM parley_message m
 WHERE ?

-- name: KeepPosts
-- how long, ids
INSERT INTO parley_processed (post_id, queue_id, name, type, body, headers, keep_until)
SELECT p.post_id, p.queue_id, '', p.type, p.body, p.headers, :now + ?
  FROM parley_post p
 WHERE p.post_id IN (?)

-- name: ReclaimGroups
-- Leases are taken into the transaction if their rows are free, without waiting.
--
-- ids and fences; ids
SELECT group_id FROM parley_grp FORCE INDEX (PRIMARY)
 WHERE ? AND lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v WHERE v.id = 1) <= :newest
   FOR UPDATE SKIP LOCKED
-- name: ReclaimPosts
SELECT post_id FROM parley_post FORCE INDEX (PRIMARY)
 WHERE ? AND lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v WHERE v.id = 1) <= :newest
   FOR UPDATE SKIP LOCKED
-- name: TookGroups
UPDATE parley_grp FORCE INDEX (PRIMARY) SET lease_until = 0, owner = '' WHERE group_id IN (?)
-- name: TookPosts
UPDATE parley_post FORCE INDEX (PRIMARY) SET lease_until = 0, owner = '' WHERE post_id IN (?)

-- name: ExtendGroups
-- Locked leases are extended. Of the others, those that still exist in the committed state are in
-- their owner's transaction.
--
-- how long, ids; ids and fences
UPDATE parley_grp FORCE INDEX (PRIMARY) SET lease_until = :now + ? WHERE group_id IN (?)
-- name: ExtendPosts
UPDATE parley_post FORCE INDEX (PRIMARY) SET lease_until = :now + ? WHERE post_id IN (?)
-- name: LeasedGroups
SELECT group_id FROM parley_grp WHERE ? AND lease_until > :now
-- name: LeasedPosts
SELECT post_id FROM parley_post WHERE ? AND lease_until > :now
