package mysql

// A send is three statements. The first takes the guard, and the message's number
// comes back as the LAST_INSERT_ID. Without the hint MariaDB may find the row by the
// index held, and locks its entry first, which others lock last.
//
// from
const advanceSQL = `
	UPDATE parley_stream FORCE INDEX (PRIMARY)
	   SET next_seq = LAST_INSERT_ID(next_seq + 1), touched = :now
	 WHERE stream_id IN (?, '') AND kind = 2 AND closed = 0 AND held = 0 AND queue_id IS NOT NULL`

// The second inserts the message if nothing is in its way, and returns the queue
// as the LAST_INSERT_ID.
//
// number, message id, kind, type, body, from, catalog version
const insertSQL = `
	INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, since)
	SELECT s.stream_id, ?, ?, ?, ?, ?, :now + 0 * LAST_INSERT_ID(s.queue_id)
	  FROM parley_stream s
	 STRAIGHT_JOIN parley_queue q ON q.queue_id = s.queue_id
	 STRAIGHT_JOIN parley_meta v ON v.id = 1
	 WHERE s.stream_id = ? AND q.enabled = 1 AND v.catalog_version = ?
	   AND (SELECT 1 FROM parley_closing c WHERE c.handle = s.stream_id LIMIT 1) IS NULL`

// The third puts the stream into the order unless it is there.
//
// from
const placeSQL = `
	INSERT IGNORE INTO parley_ready (queue_id, group_id, stream_id, priority, since)
	SELECT s.queue_id, s.group_id, s.stream_id, s.priority, :now
	  FROM parley_stream s WHERE s.stream_id = ?`

// The guards of a batch, locked in the order of their ids, and what else a sender
// depends on. The columns of the stream are those of the locked row; the rest is as
// of the statement's beginning, which is no older than the caller could know of.
//
// streams
const statesSQL = `
	SELECT s.stream_id, s.kind, s.group_id, s.queue_id, s.endpoint, s.priority, s.next_seq, s.closed,
	       s.held,
	       (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = s.queue_id),
	       (SELECT count(*) FROM parley_closing c WHERE c.handle = s.stream_id),
	       (SELECT v.catalog_version FROM parley_meta v WHERE v.id = 1)
	  FROM parley_stream s FORCE INDEX (PRIMARY)
	 WHERE s.stream_id IN (?)
	 ORDER BY s.stream_id
	   FOR UPDATE`

// Streams whose guards are ours get their next numbers and their ranks. Without the
// hint a small table is read whole, and at REPEATABLE READ locked.
//
// numbers by stream, ranks by stream, streams
const nextSQL = `
	UPDATE parley_stream FORCE INDEX (PRIMARY)
	   SET next_seq = ?, priority = ?, touched = :now
	 WHERE stream_id IN (?)`

// stream, number, id, kind, type, body, time
const appendSQL = `
	INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, since) VALUES ?`

// queue, group, stream, priority, time
const markSQL = `
	INSERT IGNORE INTO parley_ready (queue_id, group_id, stream_id, priority, since) VALUES ?`

// id, queue, rank, type, body, time
const postManySQL = `
	INSERT INTO parley_post (post_id, queue_id, priority, type, body, since) VALUES ?`

// Keys that are new, their groups and their streams. Of two who make the same key at
// once the second waits, and inserts nothing. It waits in the subquery: who waits in
// an INSERT for a row that is then rolled back gets a lock on the gap, and with
// another such one a deadlock. From 8.0.17 on MySQL makes a join, by which it may
// read whole tables, of a NOT EXISTS but not of this.
//
// queue, name, id
const newKeysSQL = `
	INSERT IGNORE INTO parley_key (queue_id, name, stream_id)
	SELECT n.queue_id, n.name, n.stream_id
	  FROM (?) n
	 WHERE (SELECT 1 FROM parley_key k
	         WHERE k.queue_id = n.queue_id AND k.name = n.name FOR UPDATE) IS NULL`

// The same for a transaction that may be at REPEATABLE READ, where to look with a lock
// for what is not there locks the gap at once.
//
// queue, name, id
const newKeysJoinedSQL = `
	INSERT IGNORE INTO parley_key (queue_id, name, stream_id) VALUES ?`

// id, queue, service, name
const newGroupsSQL = `
	INSERT INTO parley_grp (group_id, queue_id, service, name) VALUES ?`

// id, kind, group, queue, priority, number, closed, held, time
const newStreamsSQL = `
	INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, priority, next_seq, closed, held, touched) VALUES ?`

// The streams of keys.
//
// queues and names
const keysSQL = `
	SELECT queue_id, name, stream_id FROM parley_key WHERE ?`
