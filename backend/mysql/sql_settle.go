package mysql

// Delivered messages, by their keys: a range would wait for the next one's sender.
// The number removed must be that of the keys.
//
// A DELETE with a list of keys reads the whole table where that is said to be
// small, and waits for every row that somebody else has locked, whatever index it
// is told to use. A join looks up one key after the other. With sql_safe_updates
// MariaDB, which alone reads the comment, takes it for a DELETE without a key.
//
// keys; posts
const (
	removeSQL = safely + `
		DELETE x FROM (?) k STRAIGHT_JOIN parley_message x FORCE INDEX (PRIMARY)
		 WHERE x.stream_id = k.stream_id AND x.seq = k.seq`
	removePostsSQL = safely + `
		DELETE x FROM (?) k STRAIGHT_JOIN parley_post x FORCE INDEX (PRIMARY)
		 WHERE x.post_id = k.post_id`
)

// The guards of streams, where they can be had without waiting.
//
// streams
const guardsSQL = `
	SELECT stream_id FROM parley_stream FORCE INDEX (PRIMARY)
	 WHERE stream_id IN (?) ORDER BY stream_id
	   FOR UPDATE SKIP LOCKED`

// What has become of streams whose guards are ours. It must not be one with the
// statement that takes the guards: that sees what was committed when it began, and
// not the message of a sender that it has just waited for.
//
// The last column is a witness. A statement that is interrupted (max_statement_time,
// max_execution_time, KILL QUERY) may end without an error. Both servers answer NULL for
// each subquery that has not begun by then, and look at the interrupt only when they read
// the next row (Item_subselect::exec). A NULL therefore proves that a stream is empty only
// if a later subquery, the witness, has found its row.
//
// streams
const lookSQL = `
	SELECT s.stream_id, s.kind, s.group_id, r.since,
	       (SELECT m.since FROM parley_message m FORCE INDEX (PRIMARY)
	         WHERE m.stream_id = s.stream_id ORDER BY m.stream_id, m.seq LIMIT 1),
	       coalesce(g.blocked, 1),
	       (SELECT w.kind FROM parley_stream w WHERE w.stream_id = s.stream_id LIMIT 1)
	  FROM parley_stream s
	  LEFT JOIN parley_ready r ON r.group_id = s.group_id AND r.stream_id = s.stream_id
	  LEFT JOIN parley_grp g ON g.group_id = s.group_id
	 WHERE s.stream_id IN (?)`

// The ready order is put right by it. A stream that was made for one message goes
// with it.
const (
	dropMarkersSQL = safely + `
		DELETE x FROM (?) k STRAIGHT_JOIN parley_ready x FORCE INDEX (PRIMARY)
		 WHERE x.group_id = k.group_id AND x.stream_id = k.stream_id`
	dropNotesSQL = safely + `
		DELETE x FROM (?) k STRAIGHT_JOIN parley_stream x FORCE INDEX (PRIMARY)
		 WHERE x.stream_id = k.stream_id`
	restandSQL = `
		UPDATE parley_ready FORCE INDEX (PRIMARY) SET since = ?
		 WHERE ?`
)

// What belongs in the ready order of a group, of streams whose guards are ours, with a
// witness as in lookSQL; and its rows, which replace those that have another time.
//
// group, streams; queue, group, stream, priority, time
const (
	belongSQL = `
		SELECT s.queue_id, s.stream_id, s.priority,
		       (SELECT m.since FROM parley_message m FORCE INDEX (PRIMARY)
		         WHERE m.stream_id = s.stream_id ORDER BY m.stream_id, m.seq LIMIT 1),
		       (SELECT w.kind FROM parley_stream w WHERE w.stream_id = s.stream_id LIMIT 1)
		  FROM parley_stream s
		 WHERE s.group_id = ? AND s.stream_id IN (?)`
	restoreSQL = `
		INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since) VALUES ?
		ON DUPLICATE KEY UPDATE since = VALUES(since)`
)

// Copies of messages that are about to be removed, for their receivers.
//
// handles by stream, keys
const retainSQL = `
	INSERT INTO parley_retained (handle, stream_id, seq, sent, message_id, kind, type, body, since, kept)
	SELECT ?, m.stream_id, m.seq, 0, m.message_id, m.kind, m.type, m.body, m.since, :now
	  FROM parley_message m
	 WHERE ?`

// Copies of keyed posts that have been processed.
//
// queue, name, for how long, keys
const keepSQL = `
	INSERT INTO parley_processed (post_id, queue_id, name, type, body, keep_until)
	SELECT m.message_id, ?, ?, m.type, m.body, :now + ?
	  FROM parley_message m
	 WHERE ?`

// for how long, ids
const keepPostsSQL = `
	INSERT INTO parley_processed (post_id, queue_id, name, type, body, keep_until)
	SELECT p.post_id, p.queue_id, '', p.type, p.body, :now + ?
	  FROM parley_post p
	 WHERE p.post_id IN (?)`

// Leases are taken into the transaction, where they can be had without waiting.
//
// ids and fences; ids
const (
	reclaimGroupsSQL = `
		SELECT group_id FROM parley_grp FORCE INDEX (PRIMARY)
		 WHERE ? AND lease_until <> 0
		   AND (SELECT v.schema_version FROM parley_meta v WHERE v.id = 1) <= :newest
		   FOR UPDATE SKIP LOCKED`
	reclaimPostsSQL = `
		SELECT post_id FROM parley_post FORCE INDEX (PRIMARY)
		 WHERE ? AND lease_until <> 0
		   AND (SELECT v.schema_version FROM parley_meta v WHERE v.id = 1) <= :newest
		   FOR UPDATE SKIP LOCKED`
	tookGroupsSQL = `UPDATE parley_grp FORCE INDEX (PRIMARY) SET lease_until = 0, owner = '' WHERE group_id IN (?)`
	tookPostsSQL  = `UPDATE parley_post FORCE INDEX (PRIMARY) SET lease_until = 0, owner = '' WHERE post_id IN (?)`
)

// Leases that are locked are prolonged. Of the others, those that are still there
// as committed are in their owner's transaction.
//
// for how long, ids; ids and fences
const (
	extendGroupsSQL = `UPDATE parley_grp FORCE INDEX (PRIMARY) SET lease_until = :now + ? WHERE group_id IN (?)`
	extendPostsSQL  = `UPDATE parley_post FORCE INDEX (PRIMARY) SET lease_until = :now + ? WHERE post_id IN (?)`
	leasedGroupsSQL = `SELECT group_id FROM parley_grp WHERE ? AND lease_until > :now`
	leasedPostsSQL  = `SELECT post_id FROM parley_post WHERE ? AND lease_until > :now`
)
