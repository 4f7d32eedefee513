package postgres

import (
	"slices"
	"strconv"
	"strings"

	"github.com/parleymq/parley/backend/sqlstore"
)

// now is the engine's clock. clock_timestamp and not now(): an expiry is tested
// with the time of the statement, not with that of the transaction.
const now = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

// statements are the portable ones and those below: the statements that lock,
// and inserts that may find their row there.
//
// Rows of groups and streams are locked FOR NO KEY UPDATE, "which is weaker and
// does not block SELECT FOR KEY SHARE" (Explicit Locking, 13.3.2): tables of
// the application's may refer to them.
func statements(schemaName, prefix string) sqlstore.Statements[string] {
	s := sqlstore.Portable()
	meta := "'" + schemaName + prefix + "meta'"
	s.SchemaExists = `
		SELECT 1 WHERE to_regclass(` + meta + `) IS NOT NULL`
	s.CatalogLock = `
		SELECT 1 FROM parley_meta FOR NO KEY UPDATE`
	s.GroupTry = `
		SELECT 1 FROM parley_grp WHERE group_id = $1 FOR NO KEY UPDATE SKIP LOCKED`
	s.GroupFree = `
		SELECT 1 FROM parley_grp WHERE group_id = $1 AND lease_until < :now
		   FOR NO KEY UPDATE SKIP LOCKED`
	s.PostFree = `
		SELECT 1 FROM parley_post WHERE post_id = $1 AND lease_until < :now
		   FOR NO KEY UPDATE SKIP LOCKED`
	s.GroupReclaim = `
		UPDATE parley_grp SET lease_until = 0, owner = ''
		 WHERE group_id = (SELECT g.group_id FROM parley_grp g
		                    WHERE g.group_id = $1 AND g.fence = $2 AND g.lease_until <> 0
		                      FOR NO KEY UPDATE SKIP LOCKED)`
	s.PostReclaim = `
		UPDATE parley_post SET lease_until = 0, owner = ''
		 WHERE post_id = (SELECT p.post_id FROM parley_post p
		                   WHERE p.post_id = $1 AND p.fence = $2 AND p.lease_until <> 0
		                     FOR NO KEY UPDATE SKIP LOCKED)`
	s.GuardLock = `
		SELECT 1 FROM parley_stream WHERE stream_id = $1 FOR NO KEY UPDATE`
	s.GuardTry = `
		SELECT 1 FROM parley_stream WHERE stream_id = $1 FOR NO KEY UPDATE SKIP LOCKED`
	s.PostTry = `
		SELECT 1 FROM parley_post WHERE post_id = $1 FOR NO KEY UPDATE SKIP LOCKED`
	s.DelayedTry = `
		SELECT 1 FROM parley_delayed WHERE post_id = $1 FOR NO KEY UPDATE SKIP LOCKED`
	s.TimerTry = `
		SELECT 1 FROM parley_timer WHERE handle = $1 AND kind + 0 = $2 FOR NO KEY UPDATE SKIP LOCKED`
	s.PromotionTry = `
		SELECT 1 FROM parley_promotion WHERE group_id = $1 AND version = $2
		   FOR NO KEY UPDATE SKIP LOCKED`
	s.OwnerTry = `
		SELECT 1 FROM parley_lock_owner WHERE owner_id = $1 FOR UPDATE SKIP LOCKED`
	s.ScheduleTry = `
		SELECT 1 FROM parley_schedule WHERE name = $1 FOR NO KEY UPDATE SKIP LOCKED`
	s.TaskTry = `
		SELECT 1 FROM parley_task WHERE task_id = $1 FOR NO KEY UPDATE SKIP LOCKED`
	// The planner takes a limit in a parameter for a tenth of all rows, and would
	// sort a million of them to find the first. The inner limit has it walk the
	// index; it is more than is ever asked for at once.
	s.TasksDue = `
		SELECT t.task_id, t.n, t.type, t.body, t.state, t.due, t.attempts, t.fence
		  FROM (SELECT y.task_id, y.due, y.n
		          FROM (SELECT task_id, due, n
		                  FROM parley_task
		                 WHERE schedule_id = $1 AND live = 1 AND phase = $2 AND due <= :now
		                 ORDER BY schedule_id, phase, due, n
		                 LIMIT 200) y
		         ORDER BY y.due, y.n
		         LIMIT $3) x
		  JOIN parley_task t ON t.task_id = x.task_id
		 ORDER BY x.due, x.n`
	s.FenceInsert = `
		INSERT INTO parley_fence (name, fence, uses) VALUES ($1, $2, 1)
		ON CONFLICT DO NOTHING`
	s.ScheduleInsert = `
		INSERT INTO parley_schedule (name, schedule_id, max_active, go_on, accept_late, max_attempts,
		       caller, purpose, made)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, :now)
		ON CONFLICT DO NOTHING`
	s.GroupInsert = `
		INSERT INTO parley_grp (group_id, queue_id, service, name) VALUES ($1, $2, $3, $4)
		ON CONFLICT DO NOTHING`
	s.MarkerInsert = `
		INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
		VALUES ($1, $2, $3, $4, :now)
		ON CONFLICT DO NOTHING`
	s.KeyInsert = `
		INSERT INTO parley_key (queue_id, name, stream_id) VALUES ($1, $2, $3)
		ON CONFLICT DO NOTHING`
	s.UniqueInsert = `
		INSERT INTO parley_uniq (queue_id, value, post_id) VALUES ($1, $2, $3)
		ON CONFLICT DO NOTHING`
	s.OnceInsert = `
		INSERT INTO parley_once (name, since) VALUES ($1, :now)
		ON CONFLICT DO NOTHING`
	s.TimerPut = `
		INSERT INTO parley_timer (handle, kind, due) VALUES ($1, $2, :now + $3)
		ON CONFLICT (handle, kind) DO UPDATE SET due = excluded.due`
	s.FailurePut = `
		INSERT INTO parley_failure (message_id, attempts, suspicion, last_error) VALUES ($1, $2, $3, $4)
		ON CONFLICT (message_id) DO UPDATE
		   SET attempts = excluded.attempts, suspicion = excluded.suspicion, last_error = excluded.last_error`
	// The commit of a record need not wait for the disk: it has to survive the
	// death of its process, not that of the machine.
	s.WorkerAttend = `
		WITH quick AS MATERIALIZED (
		  SELECT set_config('synchronous_commit', 'off', true)),
		put AS (
		  INSERT INTO parley_worker (worker_id, queue_id, owner, readers, since, until, in_hand, alone, reader_id)
		  SELECT $1::uuid, $2, $3, $4, :now, :now + $5, $6, $7, $8::uuid FROM quick
		  ON CONFLICT (reader_id) DO UPDATE
		     SET worker_id = excluded.worker_id, queue_id = excluded.queue_id, owner = excluded.owner,
		         readers = excluded.readers, since = excluded.since, until = excluded.until,
		         in_hand = excluded.in_hand, alone = excluded.alone)
		SELECT w.reader_id, w.worker_id, w.in_hand, w.alone FROM parley_worker w
		 WHERE w.queue_id = $2 AND w.worker_id <> $1::uuid AND w.in_hand IS NOT NULL AND $6::bytea IS NOT NULL`
	s.PromotionPut = `
		INSERT INTO parley_promotion AS p (group_id, queue_id, level, since, version, sticky)
		VALUES ($1, $2, $3, :now, :now, $4)
		ON CONFLICT (group_id) DO UPDATE
		   SET level = excluded.level, since = excluded.since, sticky = excluded.sticky,
		       version = greatest(p.version + 1, excluded.version)`
	// The orders keep the planner from a sequential scan, which it prefers where
	// it expects to find a row soon.
	s.Waiting = `
		SELECT 1
		 WHERE (SELECT 1
		          FROM (SELECT x.group_id FROM parley_ready x
		                 WHERE x.queue_id = $1
		                 ORDER BY x.queue_id, x.priority DESC, x.since) r
		         CROSS JOIN LATERAL (SELECT 1 FROM parley_grp g
		                              WHERE g.group_id = r.group_id AND g.blocked = 0 LIMIT 1) g
		         LIMIT 1) IS NOT NULL
		    OR (SELECT 1
		          FROM (SELECT x.post_id FROM parley_post x
		                 WHERE x.queue_id = $2 AND x.blocked = 0
		                 ORDER BY x.queue_id, x.priority DESC, x.since
		                 LIMIT 1) p) IS NOT NULL`
	s.ListReady = `
		SELECT r.group_id, r.priority, r.since
		  FROM (SELECT x.group_id, x.stream_id, x.priority, x.since FROM parley_ready x
		         WHERE x.queue_id = $1
		         ORDER BY x.queue_id, x.priority DESC, x.since) r
		 CROSS JOIN LATERAL (SELECT 1 FROM parley_grp g
		                      WHERE g.group_id = r.group_id AND g.blocked = 0
		                        AND (g.lease_until < :now OR $2 = 0) LIMIT 1) g
		 CROSS JOIN LATERAL (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id LIMIT 1) m
		 LIMIT $3`
	s.DueTimers = `
		SELECT t.handle
		  FROM (SELECT x.handle, x.due FROM parley_timer x
		         WHERE x.kind = $1 AND x.due <= :now ORDER BY x.due) t
		 CROSS JOIN LATERAL (SELECT x.queue_id FROM parley_endpoint x WHERE x.handle = t.handle LIMIT 1) e
		 CROSS JOIN LATERAL (SELECT 1 FROM parley_queue x
		                      WHERE x.queue_id = e.queue_id AND x.enabled = 1 LIMIT 1) q
		 LIMIT $2`
	s.NextTimer = `
		SELECT t.due - :now
		  FROM (SELECT x.handle, x.due FROM parley_timer x
		         WHERE x.kind = $1 AND x.due < 9223372036854775807 ORDER BY x.due) t
		 CROSS JOIN LATERAL (SELECT x.queue_id FROM parley_endpoint x WHERE x.handle = t.handle LIMIT 1) e
		 CROSS JOIN LATERAL (SELECT 1 FROM parley_queue x
		                      WHERE x.queue_id = e.queue_id AND x.enabled = 1 LIMIT 1) q
		 LIMIT 1`
	s.Stale = `
		SELECT r.stream_id, r.group_id, g.blocked
		  FROM (SELECT x.stream_id, x.group_id
		          FROM parley_ready x
		         WHERE x.queue_id = $1
		         ORDER BY x.queue_id, x.priority DESC, x.since
		         LIMIT 1000) r
		  LEFT JOIN LATERAL (SELECT x.blocked FROM parley_grp x WHERE x.group_id = r.group_id LIMIT 1) g ON true
		  LEFT JOIN LATERAL (SELECT true AS yes FROM parley_message m
		                      WHERE m.stream_id = r.stream_id LIMIT 1) m ON true
		 WHERE coalesce(g.blocked, 1) <> 0 OR m.yes IS NULL`
	return s
}

// hot are the statements that do in one trip what package sqlstore does row by
// row.
//
// They are written so that there is one sensible plan, whatever the planner
// believes of the tables, which are empty at one moment and hold a hundred
// thousand rows at the next. A join becomes a LATERAL subquery that the planner
// cannot merge into the rest (LIMIT, OFFSET 0, or a locking clause in it), so
// that it is a lookup by key for each row outside; and rows are changed by the
// ctid that such a lookup found, which holds because they are locked by us. For
// the same reason the indexes by which tables are walked in order have no column
// by which rows are looked up: to a planner that expects one row a scan of such
// an index from end to end is as good as a lookup.
//
// Arrays are hidden from the planner in (SELECT $1), as it estimates the rows of
// a prepared statement by the first arrays that it sees, and plans anew for each
// execution as long as those are shorter than the ten elements that it expects of
// any array. Planning these statements takes longer than executing them.
type hot struct {
	send, sendRetain, sendState, append, keyState *sqlstore.Stmt
	postMany, postKeyed                           *sqlstore.Stmt
	claims, deepClaims, postClaims                map[int]*sqlstore.Stmt // by their limit
	claimOne, read                                *sqlstore.Stmt
	remove, removePosts, finish, guards           *sqlstore.Stmt
	submit, finishTasks                           *sqlstore.Stmt
	retain, keep, keepPosts                       *sqlstore.Stmt
	leasePosts, extend, reclaim                   *sqlstore.Stmt
}

// compile makes the statements; they are a dialect's as well.
func (h *hot) compile(d *sqlstore.Dialect) error {
	for _, x := range []struct {
		to         **sqlstore.Stmt
		name, text string
	}{
		{&h.send, "send", sendSQL},
		{&h.sendRetain, "send and retain", sendRetainSQL},
		{&h.sendState, "state of streams", sendStateSQL},
		{&h.append, "append", appendSQL},
		{&h.keyState, "state of keys", keyStateSQL},
		{&h.postMany, "post many", postManySQL},
		{&h.postKeyed, "post with a key", postKeyedSQL},
		{&h.claimOne, "claim one", claimOneSQL},
		{&h.read, "read", readSQL},
		{&h.remove, "remove", removeSQL},
		{&h.removePosts, "remove posts", removePostsSQL},
		{&h.submit, "submit tasks", submitSQL},
		{&h.finishTasks, "finish tasks", finishTasksSQL},
		{&h.guards, "guards", guardsSQL},
		{&h.finish, "finish", finishSQL},
		{&h.retain, "retain", retainSQL},
		{&h.keep, "keep", keepSQL},
		{&h.keepPosts, "keep posts", keepPostsSQL},
		{&h.leasePosts, "lease posts", leasePostsSQL},
		{&h.extend, "extend", extendSQL},
		{&h.reclaim, "reclaim", reclaimSQL},
	} {
		s, err := d.Stmt(x.name, x.text)
		if err != nil {
			return err
		}
		*x.to = s
	}
	for _, x := range []struct {
		to         *map[int]*sqlstore.Stmt
		name, text string
		window     func(int) int
	}{
		{&h.claims, "claim", claimSQL, window},
		{&h.deepClaims, "deep claim", claimSQL, func(int) int { return deepWindow }},
		{&h.postClaims, "claim of posts", claimPostsSQL, window},
	} {
		*x.to = make(map[int]*sqlstore.Stmt, len(limits))
		for _, n := range limits {
			values := strings.NewReplacer(":limit", strconv.Itoa(n), ":window", strconv.Itoa(x.window(n)))
			s, err := d.Stmt(x.name, values.Replace(x.text))
			if err != nil {
				return err
			}
			(*x.to)[n] = s
		}
	}
	return nil
}

// window is how far a claim of n groups walks into an order. What is beyond is
// for a claim that walks up to deepWindow, after one that found nothing.
func window(n int) int { return 8*n + 50 }

const deepWindow = 10000

// limits are the numbers of groups that a claim can ask for. They stand in the
// text of the statement, which there is once for each, and so does the window: a
// limit in a parameter is "a tenth of the rows" to the planner. So with a million
// rows it plans anew for each execution, or, when it does not, expects the
// statement to be so costly that it compiles it first (jit_above_cost), which
// takes half a second; and without a limit it prefers sorting all there is to
// walking an index.
var limits = [...]int{1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 50, 64, 80, 100, 128, 160, 200, 256, 320, 400, 512, 640, 800, 1000}

// limit returns the greatest of the limits that is not above n.
func limit(n int) int {
	i, _ := slices.BinarySearch(limits[:], n+1)
	return limits[max(i-1, 0)]
}

// A send is one statement. Whoever waited for the guard has its conditions
// checked again on the row as it is then. Nothing comes back if the message is
// refused; sendState says why.
//
// $1 from, $2 message id, $3 type, $4 body, $5 kind, $6 catalog version
const sendSQL = `
	WITH s AS (
	  UPDATE parley_stream x
	     SET next_seq = x.next_seq + 1, touched = :now
	   WHERE x.stream_id = $1 AND x.kind = 2 AND x.closed = 0 AND x.held = 0 AND x.queue_id IS NOT NULL
	     AND (SELECT v.catalog_version FROM parley_meta v) = $6
	     AND (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = x.queue_id) = 1
	     AND NOT EXISTS (SELECT 1 FROM parley_closing c WHERE c.handle = $1)
	  RETURNING x.stream_id, x.group_id, x.queue_id, x.priority, x.next_seq - 1 AS seq),
	m AS (
	  INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, since)
	  SELECT s.stream_id, s.seq, $2, $5, $3, $4, :now FROM s),
	r AS (
	  INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
	  SELECT s.queue_id, s.group_id, s.stream_id, s.priority, :now FROM s
	  ON CONFLICT DO NOTHING)
	SELECT s.seq, s.queue_id FROM s`

// sendRetainSQL is sendSQL with a copy for the sender.
const sendRetainSQL = `
	WITH s AS (
	  UPDATE parley_stream x
	     SET next_seq = x.next_seq + 1, touched = :now
	   WHERE x.stream_id = $1 AND x.kind = 2 AND x.closed = 0 AND x.held = 0 AND x.queue_id IS NOT NULL
	     AND (SELECT v.catalog_version FROM parley_meta v) = $6
	     AND (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = x.queue_id) = 1
	     AND NOT EXISTS (SELECT 1 FROM parley_closing c WHERE c.handle = $1)
	  RETURNING x.stream_id, x.group_id, x.queue_id, x.priority, x.next_seq - 1 AS seq),
	m AS (
	  INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, since)
	  SELECT s.stream_id, s.seq, $2, $5, $3, $4, :now FROM s),
	c AS (
	  INSERT INTO parley_retained (handle, stream_id, seq, sent, message_id, kind, type, body, since, kept)
	  SELECT s.stream_id, s.stream_id, s.seq, 1, $2, $5, $3, $4, :now, :now FROM s),
	r AS (
	  INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
	  SELECT s.queue_id, s.group_id, s.stream_id, s.priority, :now FROM s
	  ON CONFLICT DO NOTHING)
	SELECT s.seq, s.queue_id FROM s`

// The guards of a batch, locked in the order of $1, and what else a sender
// depends on. The columns of the stream are those of the locked row; the counts
// of closings are as of the statement's beginning, which is no older than the
// caller could know of.
//
// $1 streams
const sendStateSQL = `
	SELECT s.stream_id, s.kind, s.group_id, s.queue_id, s.endpoint, s.priority, s.next_seq, s.closed,
	       s.held,
	       (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = s.queue_id),
	       (SELECT count(*) FROM parley_closing c WHERE c.handle = s.stream_id),
	       (SELECT v.catalog_version FROM parley_meta v)
	  FROM unnest((SELECT $1::uuid[])) WITH ORDINALITY k(id, n)
	 CROSS JOIN LATERAL (
	        SELECT x.* FROM parley_stream x WHERE x.stream_id = k.id FOR NO KEY UPDATE) s
	 ORDER BY k.n`

// The streams of keys, locked in the order of the arrays.
//
// $1 queues, $2 names
const keyStateSQL = `
	SELECT k.n, s.stream_id, s.group_id, s.priority, s.next_seq
	  FROM unnest((SELECT $1::bigint[]), (SELECT $2::text[])) WITH ORDINALITY k(queue_id, name, n)
	 CROSS JOIN LATERAL (
	        SELECT y.stream_id FROM parley_key y
	         WHERE y.queue_id = k.queue_id AND y.name = k.name LIMIT 1) y
	 CROSS JOIN LATERAL (
	        SELECT x.stream_id, x.group_id, x.priority, x.next_seq FROM parley_stream x
	         WHERE x.stream_id = y.stream_id FOR NO KEY UPDATE) s
	 ORDER BY k.n`

// A post with a key that has been used before, as a send is one statement.
// Nothing comes back if the key is new or swept, the catalog is another one, or
// the queue is off: then the post takes the way of many.
//
// $1 queue, $2 key, $3 message id, $4 type, $5 body, $6 rank, $7 catalog version
const postKeyedSQL = `
	WITH s AS (
	  UPDATE parley_stream x
	     SET next_seq = x.next_seq + 1, priority = $6, touched = :now
	   WHERE x.stream_id = (SELECT y.stream_id FROM parley_key y WHERE y.queue_id = $1 AND y.name = $2 LIMIT 1)
	     AND (SELECT v.catalog_version FROM parley_meta v) = $7
	     AND (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = $1) = 1
	  RETURNING x.stream_id, x.group_id, x.priority, x.next_seq - 1 AS seq),
	m AS (
	  INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, since)
	  SELECT s.stream_id, s.seq, $3, 4, $4, $5, :now FROM s),
	r AS (
	  INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
	  SELECT $1, s.group_id, s.stream_id, s.priority, :now FROM s
	  ON CONFLICT DO NOTHING)
	SELECT s.seq FROM s`

// Messages appended to streams whose guards are ours.
//
// messages: $1 streams, $2 seqs, $3 ids, $4 kinds, $5 types, $6 bodies, $7 unique values
// streams: $8 ids, $9 next numbers, $10 queues, $11 groups, $12 priorities
const appendSQL = `
	WITH s AS MATERIALIZED (
	  SELECT k.* FROM unnest((SELECT $8::uuid[]), (SELECT $9::bigint[]), (SELECT $10::bigint[]), (SELECT $11::uuid[]), (SELECT $12::smallint[]))
	         WITH ORDINALITY k(id, next, queue_id, group_id, priority, n)),
	m AS (
	  INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, uniq, since)
	  SELECT k.*, :now
	    FROM unnest((SELECT $1::uuid[]), (SELECT $2::bigint[]), (SELECT $3::uuid[]), (SELECT $4::smallint[]), (SELECT $5::text[]), (SELECT $6::bytea[]), (SELECT $7::text[])) k),
	r AS (
	  INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
	  SELECT s.queue_id, s.group_id, s.id, s.priority, :now FROM s ORDER BY s.n
	  ON CONFLICT DO NOTHING)
	UPDATE parley_stream x
	   SET next_seq = (SELECT s.next FROM s WHERE s.id = x.stream_id),
	       priority = (SELECT s.priority FROM s WHERE s.id = x.stream_id),
	       touched = :now
	 WHERE x.ctid = ANY (ARRAY(
	         SELECT y.ctid FROM s
	          CROSS JOIN LATERAL (SELECT z.ctid FROM parley_stream z WHERE z.stream_id = s.id LIMIT 1) y))`

// Posts without key, delay or unique value; their queues have been looked at.
//
// $1 ids, $2 queues, $3 ranks, $4 types, $5 bodies
const postManySQL = `
	INSERT INTO parley_post (post_id, queue_id, priority, type, body, since)
	SELECT k.id, k.queue_id, k.priority, k.type, k.body, :now
	  FROM unnest((SELECT $1::uuid[]), (SELECT $2::bigint[]), (SELECT $3::smallint[]), (SELECT $4::text[]), (SELECT $5::bytea[]))
	       WITH ORDINALITY k(id, queue_id, priority, type, body, n)
	 ORDER BY k.n`

// A claim's first statement: what there is to claim, locked.
//
// Promotions come first, one at a time: a group and a post locked together could
// not be returned together. Then one of two orders, that of the streams and that of
// the posts without key: the one whose head, locked or not, ranks higher, or the
// one that $3 prefers (1 streams, 2 posts); and if nothing in it can be locked,
// the other. Posts are one row each, and a locking
// clause returns that row as it is when the lock is granted, so they come with
// their bodies, up to $2 bytes. Groups come without messages: these are read by
// a new statement (rule R-A). Beside what was found the rows say what the heads
// of both orders are, and whether there is anything but posts; and if there is
// nothing to claim, how many streams were looked at, and whether something is
// there that is not blocked.
//
// $1 queue, $2 bytes at most, $3 which order is preferred; :limit groups at most,
// :window how far to walk
const claimSQL = `
	WITH t AS MATERIALIZED (SELECT :now AS now),
	promoted AS MATERIALIZED (
	  SELECT p.group_id, g.group_id IS NULL AS post, g.free
	    FROM (SELECT x.group_id FROM parley_promotion x
	           WHERE x.queue_id = $1
	           ORDER BY x.queue_id, x.level DESC, x.since
	           LIMIT :window) p
	    LEFT JOIN LATERAL (
	           SELECT g.group_id, g.blocked = 0 AND g.lease_until < (SELECT now FROM t) AS free
	             FROM parley_grp g
	            WHERE g.group_id = p.group_id
	              AND EXISTS (SELECT 1 FROM parley_grp y
	                           WHERE y.group_id = p.group_id AND y.blocked = 0
	                             AND y.lease_until < (SELECT now FROM t))
	              AND EXISTS (SELECT 1 FROM parley_ready r
	                           CROSS JOIN LATERAL (SELECT 1 FROM parley_message m
	                                                WHERE m.stream_id = r.stream_id LIMIT 1) m
	                           WHERE r.group_id = p.group_id)
	              FOR NO KEY UPDATE SKIP LOCKED) g ON true
	    LEFT JOIN LATERAL (
	           SELECT o.post_id FROM parley_post o
	            WHERE o.post_id = p.group_id AND o.blocked = 0 AND o.lease_until < (SELECT now FROM t)
	              FOR NO KEY UPDATE SKIP LOCKED) o ON true
	   WHERE g.group_id IS NOT NULL OR o.post_id IS NOT NULL
	   LIMIT 1),
	streams AS MATERIALIZED (
	  SELECT x.group_id, x.stream_id, x.priority, x.since FROM parley_ready x
	   WHERE x.queue_id = $1
	   ORDER BY x.queue_id, x.priority DESC, x.since
	   LIMIT :window),
	ready_head AS MATERIALIZED (
	  SELECT r.priority, r.since
	    FROM streams r
	   CROSS JOIN LATERAL (
	           SELECT 1 FROM parley_grp g
	            WHERE g.group_id = r.group_id AND g.blocked = 0 AND g.lease_until < (SELECT now FROM t)
	            LIMIT 1) g
	   CROSS JOIN LATERAL (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id LIMIT 1) m
	   WHERE (SELECT count(*) FROM promoted) = 0
	   LIMIT 1),
	post_head AS MATERIALIZED (
	  SELECT x.priority, x.since FROM parley_post x
	   WHERE x.queue_id = $1 AND x.blocked = 0 AND x.lease_until < (SELECT now FROM t)
	     AND (SELECT count(*) FROM promoted) = 0
	   ORDER BY x.queue_id, x.priority DESC, x.since
	   LIMIT 1),
	posts_first AS MATERIALIZED (
	  SELECT CASE $3::int WHEN 1 THEN false WHEN 2 THEN true ELSE
	         NOT EXISTS (SELECT 1 FROM ready_head)
	         OR (SELECT (-p.priority, p.since) < (-r.priority, r.since) FROM post_head p, ready_head r) END AS yes
	    FROM post_head),
	ready_first AS MATERIALIZED (
	  SELECT r.group_id, g.free, r.priority, r.since
	    FROM streams r
	   CROSS JOIN LATERAL (
	           SELECT g.blocked = 0 AND g.lease_until < (SELECT now FROM t) AS free FROM parley_grp g
	            WHERE g.group_id = r.group_id
	              AND EXISTS (SELECT 1 FROM parley_grp y
	                           WHERE y.group_id = r.group_id AND y.blocked = 0
	                             AND y.lease_until < (SELECT now FROM t))
	              AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)
	              FOR NO KEY UPDATE SKIP LOCKED) g
	   WHERE (SELECT count(*) FROM ready_head) > 0 AND (SELECT yes FROM posts_first) IS NOT TRUE
	   LIMIT :limit),
	posts AS MATERIALIZED (
	  SELECT x.post_id, x.priority, x.since, x.type, x.body, x.uniq, x.attempts, x.suspicion,
	         x.last_error, x.fence, x.lease_until
	    FROM parley_post x
	   WHERE x.queue_id = $1 AND x.blocked = 0 AND x.lease_until < (SELECT now FROM t)
	     AND (SELECT count(*) FROM post_head) > 0 AND (SELECT count(*) FROM ready_first) = 0
	   ORDER BY x.queue_id, x.priority DESC, x.since
	   LIMIT :limit
	     FOR NO KEY UPDATE SKIP LOCKED),
	ready_last AS MATERIALIZED (
	  SELECT r.group_id, g.free, r.priority, r.since
	    FROM streams r
	   CROSS JOIN LATERAL (
	           SELECT g.blocked = 0 AND g.lease_until < (SELECT now FROM t) AS free FROM parley_grp g
	            WHERE g.group_id = r.group_id
	              AND EXISTS (SELECT 1 FROM parley_grp y
	                           WHERE y.group_id = r.group_id AND y.blocked = 0
	                             AND y.lease_until < (SELECT now FROM t))
	              AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)
	              FOR NO KEY UPDATE SKIP LOCKED) g
	   WHERE (SELECT count(*) FROM ready_head) > 0 AND (SELECT yes FROM posts_first)
	     AND (SELECT count(*) FROM posts) = 0
	   LIMIT :limit),
	found AS (
	  SELECT CASE WHEN post THEN 1 WHEN free THEN 0 ELSE 3 END AS what, group_id AS id,
	         NULL::smallint AS priority, NULL::bigint AS since, NULL::text AS type, NULL::bytea AS body,
	         NULL::text AS uniq, NULL::int AS attempts, NULL::int AS suspicion, NULL::text AS last_error,
	         NULL::bigint AS fence, NULL::bigint AS lease_until
	    FROM promoted
	   UNION ALL
	  SELECT CASE WHEN free THEN 0 ELSE 3 END, group_id, priority, since, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
	    FROM ready_first
	   UNION ALL
	  SELECT CASE WHEN free THEN 0 ELSE 3 END, group_id, priority, since, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
	    FROM ready_last
	   UNION ALL
	  SELECT 2, post_id, priority, since, type, body, uniq, attempts, suspicion, last_error, fence, lease_until
	    FROM (SELECT p.*,
	                 sum(coalesce(octet_length(p.body), 0)) OVER w AS bytes,
	                 row_number() OVER w AS n
	            FROM posts p
	          WINDOW w AS (ORDER BY p.priority DESC, p.since, p.post_id
	                       ROWS UNBOUNDED PRECEDING)) p
	   WHERE p.n = 1 OR p.bytes <= $2)
	SELECT v.catalog_version, q.enabled,
	       (SELECT h.priority FROM ready_head h), (SELECT h.since FROM ready_head h),
	       (SELECT h.priority FROM post_head h), (SELECT h.since FROM post_head h),
	       EXISTS (SELECT 1 FROM streams)
	       OR (SELECT 1 FROM parley_promotion x WHERE x.queue_id = $1
	            ORDER BY x.queue_id, x.level DESC, x.since LIMIT 1) IS NOT NULL,
	       CASE WHEN f.id IS NULL THEN (SELECT count(*) FROM streams) END,
	       CASE WHEN f.id IS NULL
	            THEN EXISTS (SELECT 1 FROM streams r
	                          CROSS JOIN LATERAL (SELECT 1 FROM parley_grp g
	                                               WHERE g.group_id = r.group_id AND g.blocked = 0 LIMIT 1) g)
	              OR (SELECT 1 FROM (SELECT 1 FROM parley_post x
	                                  WHERE x.queue_id = $1 AND x.blocked = 0
	                                  ORDER BY x.queue_id, x.priority DESC, x.since
	                                  LIMIT 1) p) IS NOT NULL END,
	       f.*
	  FROM parley_meta v
	  LEFT JOIN LATERAL (SELECT x.enabled FROM parley_queue x WHERE x.queue_id = $1) q ON true
	  LEFT JOIN found f ON true`

// A claim of a queue in which there have been nothing but posts: the same for
// less. If there is something else, it returns no posts, and says so.
//
// $1 queue, $2 bytes at most; :limit posts at most
const claimPostsSQL = `
	WITH other AS MATERIALIZED (
	  SELECT (SELECT 1 FROM parley_ready x WHERE x.queue_id = $1
	           ORDER BY x.queue_id, x.priority DESC, x.since LIMIT 1) IS NOT NULL
	      OR (SELECT 1 FROM parley_promotion x WHERE x.queue_id = $1
	           ORDER BY x.queue_id, x.level DESC, x.since LIMIT 1) IS NOT NULL AS yes),
	posts AS MATERIALIZED (
	  SELECT x.post_id, x.priority, x.since, x.type, x.body, x.uniq, x.attempts, x.suspicion,
	         x.last_error, x.fence, x.lease_until
	    FROM parley_post x
	   WHERE x.queue_id = $1 AND x.blocked = 0 AND x.lease_until < (SELECT :now)
	     AND NOT (SELECT yes FROM other)
	   ORDER BY x.queue_id, x.priority DESC, x.since
	   LIMIT :limit
	     FOR NO KEY UPDATE SKIP LOCKED)
	SELECT v.catalog_version, q.enabled, p.post_id, p.priority, p.since, p.type, p.body, p.uniq, p.attempts,
	       p.suspicion, p.last_error, p.fence, p.lease_until
	  FROM parley_meta v
	  LEFT JOIN LATERAL (SELECT x.enabled FROM parley_queue x WHERE x.queue_id = $1) q ON true
	  LEFT JOIN (SELECT p.*,
	                    sum(coalesce(octet_length(p.body), 0)) OVER w AS bytes,
	                    row_number() OVER w AS n
	               FROM posts p
	             WINDOW w AS (ORDER BY p.priority DESC, p.since, p.post_id
	                          ROWS UNBOUNDED PRECEDING)) p ON p.n = 1 OR p.bytes <= $2
	 WHERE NOT (SELECT yes FROM other)`

// A claim's first statement when it is for one group: $2, or that of endpoint
// $3. What stands in the way is told apart: there is the group (seen), and it
// has something to claim for us (group_id).
//
// $1 queue, $2 group, $3 handle
const claimOneSQL = `
	SELECT v.catalog_version, q.enabled, s.group_id, g.group_id
	  FROM parley_meta v
	  LEFT JOIN LATERAL (SELECT x.enabled FROM parley_queue x WHERE x.queue_id = $1) q ON true
	  LEFT JOIN LATERAL (
	         SELECT x.group_id FROM parley_grp x
	          WHERE x.group_id = coalesce((SELECT e.group_id FROM parley_endpoint e WHERE e.handle = $3::uuid), $2::uuid)
	            AND ($2::uuid IS NULL OR x.group_id = $2::uuid)
	            AND x.queue_id = $1 AND x.blocked = 0
	            AND EXISTS (SELECT 1 FROM parley_ready r
	                         CROSS JOIN LATERAL (SELECT 1 FROM parley_message m
	                                              WHERE m.stream_id = r.stream_id LIMIT 1) m
	                         WHERE r.group_id = x.group_id)
	          LIMIT 1) s ON true
	  LEFT JOIN LATERAL (
	         SELECT x.group_id FROM parley_grp x
	          WHERE x.group_id = s.group_id AND x.blocked = 0 AND x.lease_until < :now
	            FOR NO KEY UPDATE SKIP LOCKED) g ON true`

// A claim's second statement: the messages of groups that are locked, in the
// order in which they are received, read with a snapshot that is younger than
// the locks; and what is known of the groups. Bodies beyond $4 bytes stay where
// they are. With a lease the groups that have messages are marked as held; a
// token that an expired lease left behind is taken away.
//
// What is known of a stream's endpoint comes with the first of its messages
// only. Streams that cannot be received come without messages: those for an
// endpoint that has ended (state 1), or that is in another group by now (2).
//
// $1 groups, $2 messages of each, $3 bytes, $4 handle, $5 lease, $6 owner,
// $7 whether to lock only
const readSQL = `
	WITH g AS MATERIALIZED (
	  SELECT k.n, x.group_id, x.name, x.fence, x.lease_until, x.tid, p.level, p.version, p.sticky
	    FROM unnest((SELECT $1::uuid[])) WITH ORDINALITY k(id, n)
	   CROSS JOIN LATERAL (
	           SELECT y.group_id, y.name, y.fence, y.lease_until, y.ctid AS tid FROM parley_grp y
	            WHERE y.group_id = k.id AND y.blocked = 0 LIMIT 1) x
	    LEFT JOIN LATERAL (
	           SELECT y.level, y.version, y.sticky FROM parley_promotion y
	            WHERE y.group_id = k.id LIMIT 1) p ON true),
	s AS MATERIALIZED (
	  SELECT g.n, g.group_id, r.stream_id, r.priority, x.kind, x.endpoint, e.conversation, e.initiator,
	         e.service, e.far, e.contract,
	         CASE WHEN x.endpoint IS NULL THEN 0
	              WHEN e.group_id IS NULL OR e.closed_at IS NOT NULL THEN 1
	              WHEN e.group_id <> g.group_id THEN 2
	              ELSE 0 END AS state
	    FROM g
	   CROSS JOIN LATERAL (
	           SELECT y.stream_id, y.priority FROM parley_ready y
	            WHERE y.group_id = g.group_id OFFSET 0) r
	   CROSS JOIN LATERAL (
	           SELECT y.kind, y.endpoint FROM parley_stream y WHERE y.stream_id = r.stream_id LIMIT 1) x
	    LEFT JOIN LATERAL (
	           SELECT y.* FROM parley_endpoint y WHERE y.handle = x.endpoint LIMIT 1) e ON true
	   WHERE $7::int = 0),
	m AS MATERIALIZED (
	  SELECT s.*, x.seq, x.message_id, x.kind AS message_kind, x.type, x.body, x.since, x.uniq,
	         row_number() OVER (PARTITION BY s.n
	                            ORDER BY s.priority DESC, s.endpoint, s.kind, s.stream_id, x.seq) AS i
	    FROM s
	   CROSS JOIN LATERAL (
	           SELECT y.* FROM parley_message y
	            WHERE y.stream_id = s.stream_id ORDER BY y.seq LIMIT $2) x
	   WHERE s.state = 0 AND ($4::uuid IS NULL OR s.endpoint = $4::uuid)),
	taken AS MATERIALIZED (
	  SELECT x.*
	    FROM (SELECT m.*,
	                 sum(coalesce(octet_length(m.body), 0)) OVER w AS bytes,
	                 row_number() OVER w AS k,
	                 lag(m.stream_id) OVER w IS DISTINCT FROM m.stream_id AS first
	            FROM m
	           WHERE m.i <= $2
	          WINDOW w AS (ORDER BY m.n, m.i ROWS UNBOUNDED PRECEDING)) x
	   WHERE x.k = 1 OR x.bytes <= $3),
	held AS (
	  UPDATE parley_grp y
	     SET fence = y.fence + 1,
	         lease_until = CASE WHEN $5::bigint > 0 THEN :now + $5::bigint ELSE 0 END,
	         held_since = CASE WHEN $5::bigint > 0 THEN :now ELSE 0 END,
	         owner = CASE WHEN $5::bigint > 0 THEN $6 ELSE '' END
	   WHERE y.ctid = ANY (ARRAY(
	           SELECT g.tid FROM g
	            WHERE ($5::bigint > 0 OR g.lease_until <> 0)
	              AND ($7::int = 1 OR g.n IN (SELECT taken.n FROM taken)))))
	SELECT g.n, g.fence, g.lease_until, g.level, g.version, g.sticky, g.name, x.state, x.stream_id, x.seq, x.message_id,
	       x.message_kind, x.type, x.body, x.since, x.uniq, f.attempts, f.suspicion, f.last_error,
	       CASE WHEN x.first THEN x.priority END, CASE WHEN x.first THEN x.endpoint END,
	       CASE WHEN x.first THEN x.conversation END, CASE WHEN x.first THEN x.initiator END,
	       CASE WHEN x.first THEN x.service END, CASE WHEN x.first THEN x.far END,
	       CASE WHEN x.first THEN x.contract END, x.kind
	  FROM g
	  LEFT JOIN (
	         SELECT t.n, t.k, t.state, t.stream_id, t.seq, t.message_id, t.message_kind, t.type, t.body,
	                t.since, t.uniq, t.first, t.priority, t.endpoint, t.conversation, t.initiator,
	                t.service, t.far, t.contract, t.kind
	           FROM taken t
	          UNION ALL
	         SELECT s.n, 0, s.state, s.stream_id, NULL, NULL, NULL, NULL, NULL,
	                NULL, NULL, true, s.priority, s.endpoint, NULL, NULL,
	                NULL, NULL, NULL, s.kind
	           FROM s WHERE s.state <> 0) x ON x.n = g.n
	  LEFT JOIN LATERAL (
	         SELECT y.attempts, y.suspicion, y.last_error FROM parley_failure y
	          WHERE y.message_id = x.message_id LIMIT 1) f ON true
	 ORDER BY g.n, x.k`

// Posts that were locked become held by lease.
//
// $1 ids, $2 lease, $3 owner
const leasePostsSQL = `
	UPDATE parley_post y
	   SET fence = y.fence + 1,
	       suspicion = y.suspicion + CASE WHEN y.lease_until <> 0 THEN 1 ELSE 0 END, -- its receiver died
	       lease_until = CASE WHEN $2::bigint > 0 THEN :now + $2::bigint ELSE 0 END,
	       held_since = CASE WHEN $2::bigint > 0 THEN :now ELSE 0 END,
	       owner = CASE WHEN $2::bigint > 0 THEN $3 ELSE '' END
	 WHERE y.ctid = ANY (ARRAY(
	         SELECT x.ctid FROM unnest((SELECT $1::uuid[])) k(id)
	          CROSS JOIN LATERAL (SELECT z.ctid FROM parley_post z WHERE z.post_id = k.id LIMIT 1) x))`

// Delivered messages are removed by their keys, and the guards of their streams
// are taken, where they can be had without waiting. The number removed must be
// that of the keys.
//
// $1 streams, $2 seqs, $3 guards, in their order
const removeSQL = `
	WITH d AS (
	  DELETE FROM parley_message y
	   WHERE y.ctid = ANY (ARRAY(
	           SELECT x.ctid FROM unnest((SELECT $1::uuid[]), (SELECT $2::bigint[])) k(stream_id, seq)
	            CROSS JOIN LATERAL (
	                    SELECT z.ctid FROM parley_message z
	                     WHERE z.stream_id = k.stream_id AND z.seq = k.seq LIMIT 1) x))
	  RETURNING 1)
	SELECT (SELECT count(*) FROM d), s.stream_id
	  FROM (SELECT 1) one
	  LEFT JOIN LATERAL (
	         SELECT x.stream_id FROM unnest((SELECT $3::uuid[])) WITH ORDINALITY k(id, n)
	          CROSS JOIN LATERAL (
	                  SELECT z.stream_id FROM parley_stream z WHERE z.stream_id = k.id
	                     FOR NO KEY UPDATE SKIP LOCKED) x) s ON true`

// The guards of streams, where they can be had without waiting.
//
// $1 streams
const guardsSQL = `
	SELECT x.stream_id FROM unnest((SELECT $1::uuid[])) WITH ORDINALITY k(id, n)
	 CROSS JOIN LATERAL (
	         SELECT z.stream_id FROM parley_stream z WHERE z.stream_id = k.id
	            FOR NO KEY UPDATE SKIP LOCKED) x`

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

const removePostsSQL = `
	DELETE FROM parley_post y
	 WHERE y.ctid = ANY (ARRAY(
	         SELECT x.ctid FROM unnest((SELECT $1::uuid[])) k(id)
	          CROSS JOIN LATERAL (SELECT z.ctid FROM parley_post z WHERE z.post_id = k.id LIMIT 1) x))`

// The ready order is put right for streams whose guards are ours. It must not
// share a statement with the one that takes the guards: it would look with a
// snapshot from before, and remove the marker of a message that a sender has
// just committed. A stream that was made for one message goes with it.
//
// $1 streams
const finishSQL = `
	WITH h AS MATERIALIZED (
	  SELECT s.tid AS stream_tid, s.kind, r.tid, r.since AS stands, m.since AS first, g.blocked
	    FROM unnest((SELECT $1::uuid[])) k(id)
	   CROSS JOIN LATERAL (
	           SELECT y.ctid AS tid, y.kind, y.queue_id, y.group_id FROM parley_stream y
	            WHERE y.stream_id = k.id LIMIT 1) s
	    LEFT JOIN LATERAL (
	           SELECT y.ctid AS tid, y.since FROM parley_ready y
	            WHERE y.group_id = s.group_id AND y.stream_id = k.id
	            LIMIT 1) r ON true
	    LEFT JOIN LATERAL (
	           SELECT y.since FROM parley_message y
	            WHERE y.stream_id = k.id ORDER BY y.seq LIMIT 1) m ON true
	    LEFT JOIN LATERAL (
	           SELECT y.blocked FROM parley_grp y WHERE y.group_id = s.group_id LIMIT 1) g ON true),
	gone AS (
	  DELETE FROM parley_stream y
	   WHERE y.ctid = ANY (ARRAY(SELECT h.stream_tid FROM h WHERE h.kind < 2 AND h.first IS NULL))),
	out AS (
	  DELETE FROM parley_ready y
	   WHERE y.ctid = ANY (ARRAY(SELECT h.tid FROM h
	                              WHERE h.tid IS NOT NULL AND (h.first IS NULL OR h.blocked <> 0))))
	UPDATE parley_ready y
	   SET since = (SELECT m.since FROM parley_message m
	                 WHERE m.stream_id = y.stream_id ORDER BY m.seq LIMIT 1)
	 WHERE y.ctid = ANY (ARRAY(SELECT h.tid FROM h
	                            WHERE h.tid IS NOT NULL AND h.blocked = 0 AND h.first <> h.stands))`

// Copies of messages that are about to be removed, for their receivers.
//
// $1 handles, $2 streams, $3 seqs
const retainSQL = `
	INSERT INTO parley_retained (handle, stream_id, seq, sent, message_id, kind, type, body, since, kept)
	SELECT k.handle, m.stream_id, m.seq, 0, m.message_id, m.kind, m.type, m.body, m.since, :now
	  FROM unnest((SELECT $1::uuid[]), (SELECT $2::uuid[]), (SELECT $3::bigint[])) k(handle, stream_id, seq)
	 CROSS JOIN LATERAL (
	         SELECT x.* FROM parley_message x
	          WHERE x.stream_id = k.stream_id AND x.seq = k.seq LIMIT 1) m`

// Copies of keyed posts that have been processed.
//
// $1 streams, $2 seqs, $3 names, $4 queue, $5 for how long
const keepSQL = `
	INSERT INTO parley_processed (post_id, queue_id, name, type, body, keep_until)
	SELECT m.message_id, $4::bigint, k.name, m.type, m.body, :now + $5
	  FROM unnest((SELECT $1::uuid[]), (SELECT $2::bigint[]), (SELECT $3::text[])) k(stream_id, seq, name)
	 CROSS JOIN LATERAL (
	         SELECT x.* FROM parley_message x
	          WHERE x.stream_id = k.stream_id AND x.seq = k.seq LIMIT 1) m`

// $1 ids, $2 for how long
const keepPostsSQL = `
	INSERT INTO parley_processed (post_id, queue_id, name, type, body, keep_until)
	SELECT p.post_id, p.queue_id, '', p.type, p.body, :now + $2
	  FROM unnest((SELECT $1::uuid[])) k(id)
	 CROSS JOIN LATERAL (SELECT x.* FROM parley_post x WHERE x.post_id = k.id LIMIT 1) p`

// Leases are prolonged, of groups and posts. A row that is locked is in its
// owner's own transaction, or in that of somebody who has taken it over: it is
// not waited for. Those whose row, as committed, has another fence are lost.
//
// groups: $1 ids, $2 fences; posts: $3 ids, $4 fences; $5 for how long
const extendSQL = `
	WITH g AS MATERIALIZED (
	  SELECT k.id, k.fence FROM unnest((SELECT $1::uuid[]), (SELECT $2::bigint[])) k(id, fence)),
	p AS MATERIALIZED (
	  SELECT k.id, k.fence FROM unnest((SELECT $3::uuid[]), (SELECT $4::bigint[])) k(id, fence)),
	eg AS (
	  UPDATE parley_grp y SET lease_until = :now + $5
	   WHERE y.ctid = ANY (ARRAY(
	           SELECT x.ctid FROM g
	            CROSS JOIN LATERAL (
	                    SELECT z.ctid FROM parley_grp z
	                     WHERE z.group_id = g.id AND z.fence = g.fence AND z.lease_until <> 0
	                       FOR NO KEY UPDATE SKIP LOCKED) x))
	  RETURNING y.group_id),
	ep AS (
	  UPDATE parley_post y SET lease_until = :now + $5
	   WHERE y.ctid = ANY (ARRAY(
	           SELECT x.ctid FROM p
	            CROSS JOIN LATERAL (
	                    SELECT z.ctid FROM parley_post z
	                     WHERE z.post_id = p.id AND z.fence = p.fence AND z.lease_until <> 0
	                       FOR NO KEY UPDATE SKIP LOCKED) x))
	  RETURNING y.post_id)
	SELECT (SELECT count(*) FROM g
	         WHERE g.id NOT IN (SELECT eg.group_id FROM eg)
	           AND NOT EXISTS (SELECT 1 FROM parley_grp z
	                            WHERE z.group_id = g.id AND z.fence = g.fence AND z.lease_until > :now))
	     + (SELECT count(*) FROM p
	         WHERE p.id NOT IN (SELECT ep.post_id FROM ep)
	           AND NOT EXISTS (SELECT 1 FROM parley_post z
	                            WHERE z.post_id = p.id AND z.fence = p.fence AND z.lease_until > :now))`

// Leases are taken into the transaction, where they can be had without waiting.
//
// groups: $1 ids, $2 fences; posts: $3 ids, $4 fences
const reclaimSQL = `
	WITH g AS (
	  UPDATE parley_grp y SET lease_until = 0, owner = ''
	   WHERE y.ctid = ANY (ARRAY(
	           SELECT x.ctid FROM unnest((SELECT $1::uuid[]), (SELECT $2::bigint[])) k(id, fence)
	            CROSS JOIN LATERAL (
	                    SELECT z.ctid FROM parley_grp z
	                     WHERE z.group_id = k.id AND z.fence = k.fence AND z.lease_until <> 0
	                       FOR NO KEY UPDATE SKIP LOCKED) x))
	  RETURNING y.group_id),
	p AS (
	  UPDATE parley_post y SET lease_until = 0, owner = ''
	   WHERE y.ctid = ANY (ARRAY(
	           SELECT x.ctid FROM unnest((SELECT $3::uuid[]), (SELECT $4::bigint[])) k(id, fence)
	            CROSS JOIN LATERAL (
	                    SELECT z.ctid FROM parley_post z
	                     WHERE z.post_id = k.id AND z.fence = k.fence AND z.lease_until <> 0
	                       FOR NO KEY UPDATE SKIP LOCKED) x))
	  RETURNING y.post_id)
	SELECT group_id FROM g UNION ALL SELECT post_id FROM p`
