package mysql

import (
	"reflect"
	"regexp"
	"strings"

	"github.com/parleymq/parley/backend/sqlstore"
)

// now is the engine's clock: the time of the statement, in a form that no time
// zone has a part in. SYSDATE(), which is later still, would keep the server from
// using an index.
const now = `TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))`

// statements are the portable ones and those below: the statements that lock,
// and inserts that may find their row there.
//
// A row that is looked up by its whole primary key stays locked even if another
// condition then leaves it out, as the server does not look at it again: "for
// UPDATE or DELETE statements, InnoDB holds locks only for rows that it updates
// or deletes" does not hold for it. So where there is such a condition, the key is
// one of two, the other of which no row has, which makes it a range.
func statements(prefix string) sqlstore.Statements[string] {
	s := sqlstore.Portable()
	fields := reflect.ValueOf(&s).Elem()
	for i := range fields.NumField() {
		f := fields.Field(i)
		f.SetString(lookups(ascending.ReplaceAllString(f.String(), "${1}urgency")))
	}
	s.SchemaExists = `
		SELECT 1 FROM information_schema.tables
		 WHERE table_schema = DATABASE() AND table_name = '` + prefix + `meta'`
	s.CatalogLock = `
		SELECT 1 FROM parley_meta WHERE id = 1 FOR UPDATE`
	s.CatalogBump = `
		UPDATE parley_meta SET catalog_version = catalog_version + 1 WHERE id = 1`
	// What is counted as changed depends on the handle's clientFoundRows, so that
	// something has to change in every case.
	s.QueueUpdate = `
		UPDATE parley_queue SET enabled = ?, retention = ?, keep_processed = ?, edited = edited + 1
		 WHERE name = ?`
	s.GroupTry = `
		SELECT 1 FROM parley_grp WHERE group_id = ? FOR UPDATE SKIP LOCKED`
	s.GroupFree = `
		SELECT 1 FROM parley_grp WHERE group_id IN (?, '') AND lease_until < :now FOR UPDATE SKIP LOCKED`
	s.GroupExtend = `
		UPDATE parley_grp SET lease_until = greatest(:now + ?, lease_until + 1)
		 WHERE group_id = ? AND fence = ? AND lease_until <> 0`
	s.PostTry = `
		SELECT 1 FROM parley_post WHERE post_id = ? FOR UPDATE SKIP LOCKED`
	s.PostFree = `
		SELECT 1 FROM parley_post WHERE post_id IN (?, '') AND lease_until < :now FOR UPDATE SKIP LOCKED`
	s.PostExtend = `
		UPDATE parley_post SET lease_until = greatest(:now + ?, lease_until + 1)
		 WHERE post_id IN (?, '') AND fence = ? AND lease_until <> 0`
	s.GuardLock = `
		SELECT 1 FROM parley_stream WHERE stream_id = ? FOR UPDATE`
	s.GuardTry = `
		SELECT 1 FROM parley_stream WHERE stream_id = ? FOR UPDATE SKIP LOCKED`
	s.DelayedTry = `
		SELECT 1 FROM parley_delayed WHERE post_id = ? FOR UPDATE SKIP LOCKED`
	s.TimerTry = `
		SELECT 1 FROM parley_timer WHERE handle = ? AND kind = ? FOR UPDATE SKIP LOCKED`
	s.TimerDelete = `
		DELETE FROM parley_timer WHERE handle = ? AND kind = ?`
	s.TimerExpire = `
		DELETE FROM parley_timer WHERE handle = ? AND kind = ? AND due <= :now`
	s.PromotionTry = `
		SELECT 1 FROM parley_promotion WHERE group_id IN (?, '') AND version = ? FOR UPDATE SKIP LOCKED`
	s.OwnerTry = `
		SELECT 1 FROM parley_lock_owner WHERE owner_id = ? FOR UPDATE SKIP LOCKED`
	s.ScheduleTry = `
		SELECT 1 FROM parley_schedule WHERE name = ? FOR UPDATE SKIP LOCKED`
	s.TaskTry = `
		SELECT 1 FROM parley_task WHERE task_id = ? FOR UPDATE SKIP LOCKED`
	s.TaskExtend = `
		UPDATE parley_task SET due = greatest(:now + ?, due + 1)
		 WHERE task_id = ? AND fence = ? AND state = 1`
	// What is changed is found by values that are equal to the first columns of an
	// index: a scan of the table, or of a range, would wait for tasks beside it whose
	// workers have them locked.
	s.TasksCancel = `
		UPDATE parley_task FORCE INDEX (state)
		   SET state = 5, live = 0, ended = :now
		 WHERE schedule_id = ? AND state IN (0, 2) AND (1 = ? OR task_id = ?)`
	s.TasksRetry = `
		UPDATE parley_task FORCE INDEX (state)
		   SET state = 0, live = 1, due = 1, attempts = 0, ended = 0, given = 0
		 WHERE schedule_id = ? AND state = 4 AND (1 = ? OR task_id = ?)`
	s.TasksSkip = `
		UPDATE parley_task FORCE INDEX (state)
		   SET state = 6, given = 0
		 WHERE schedule_id = ? AND state = 4 AND (1 = ? OR task_id = ?)`
	s.WorkerAlive = `
		UPDATE parley_worker FORCE INDEX (worker) SET until = :now + ? WHERE worker_id = ?`
	s.WorkerInsert = `
		INSERT INTO parley_worker (worker_id, queue_id, owner, readers, since, until, in_hand, alone, reader_id)
		VALUES (?, ?, ?, ?, :now, :now + ?, ?, ?, ?)
		ON DUPLICATE KEY UPDATE worker_id = VALUES(worker_id), queue_id = VALUES(queue_id),
		       owner = VALUES(owner), readers = VALUES(readers), since = VALUES(since),
		       until = VALUES(until), in_hand = VALUES(in_hand), alone = VALUES(alone)`
	// IGNORE waits for whoever has inserted the same key and not yet committed, and
	// then inserts nothing or the row. There is nothing else in these rows for it
	// to overlook.
	s.GroupInsert = `
		INSERT IGNORE INTO parley_grp (group_id, queue_id, service, name) VALUES (?, ?, ?, ?)`
	s.MarkerInsert = `
		INSERT IGNORE INTO parley_ready (queue_id, group_id, stream_id, priority, since)
		VALUES (?, ?, ?, ?, :now)`
	s.KeyInsert = `
		INSERT IGNORE INTO parley_key (queue_id, name, stream_id) VALUES (?, ?, ?)`
	s.UniqueInsert = `
		INSERT IGNORE INTO parley_uniq (queue_id, value, post_id) VALUES (?, ?, ?)`
	s.OnceInsert = `
		INSERT IGNORE INTO parley_once (name, since) VALUES (?, :now)`
	s.FenceInsert = `
		INSERT IGNORE INTO parley_fence (name, fence, uses) VALUES (?, ?, 1)`
	s.ScheduleInsert = `
		INSERT IGNORE INTO parley_schedule (name, schedule_id, max_active, go_on, accept_late, max_attempts,
		       caller, purpose, made)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, :now)`
	s.TimerPut = `
		INSERT INTO parley_timer (handle, kind, due) VALUES (?, ?, :now + ?)
		ON DUPLICATE KEY UPDATE due = VALUES(due)`
	s.FailurePut = `
		INSERT INTO parley_failure (message_id, attempts, suspicion, last_error) VALUES (?, ?, ?, ?)
		ON DUPLICATE KEY UPDATE attempts = VALUES(attempts), suspicion = VALUES(suspicion),
		       last_error = VALUES(last_error)`
	s.PromotionPut = `
		INSERT INTO parley_promotion (group_id, queue_id, level, since, version, sticky)
		VALUES (?, ?, ?, :now, :now, ?)
		ON DUPLICATE KEY UPDATE level = VALUES(level), since = VALUES(since), sticky = VALUES(sticky),
		       version = greatest(version + 1, VALUES(version))`
	// A table in FROM cannot depend on the rest of the statement, so what is counted
	// up to a bound is counted if there are not more rows than that.
	s.QueueStatus = `
		SELECT q.queue_id, q.name, q.enabled,
		       CASE WHEN (SELECT 1 FROM parley_ready r
		                   STRAIGHT_JOIN parley_message m ON m.stream_id = r.stream_id
		                   WHERE r.queue_id = q.queue_id LIMIT 1 OFFSET 9999) IS NOT NULL
		            THEN 10000
		            ELSE (SELECT count(*) FROM parley_ready r
		                   STRAIGHT_JOIN parley_message m ON m.stream_id = r.stream_id
		                   WHERE r.queue_id = q.queue_id) END
		     + CASE WHEN (SELECT 1 FROM parley_post p
		                   WHERE p.queue_id = q.queue_id AND p.blocked = 0 LIMIT 1 OFFSET 9999) IS NOT NULL
		            THEN 10000
		            ELSE (SELECT count(*) FROM parley_post p
		                   WHERE p.queue_id = q.queue_id AND p.blocked = 0) END,
		       CASE WHEN (SELECT 1 FROM parley_delayed d
		                   WHERE d.queue_id = q.queue_id LIMIT 1 OFFSET 9999) IS NOT NULL
		            THEN 10000
		            ELSE (SELECT count(*) FROM parley_delayed d WHERE d.queue_id = q.queue_id) END,
		       CASE WHEN (SELECT 1 FROM parley_ready r
		                   STRAIGHT_JOIN parley_grp g ON g.group_id = r.group_id
		                   WHERE r.queue_id = q.queue_id AND g.lease_until > :now LIMIT 1 OFFSET 9999) IS NOT NULL
		            THEN 10000
		            ELSE (SELECT count(DISTINCT r.group_id) FROM parley_ready r
		                   STRAIGHT_JOIN parley_grp g ON g.group_id = r.group_id
		                   WHERE r.queue_id = q.queue_id AND g.lease_until > :now) END
		     + CASE WHEN (SELECT 1 FROM parley_post p
		                   WHERE p.queue_id = q.queue_id AND p.blocked = 0
		                     AND p.lease_until > :now LIMIT 1 OFFSET 9999) IS NOT NULL
		            THEN 10000
		            ELSE (SELECT count(*) FROM parley_post p
		                   WHERE p.queue_id = q.queue_id AND p.blocked = 0 AND p.lease_until > :now) END,
		       (SELECT count(*) FROM parley_grp g WHERE g.blocked = 1 AND g.queue_id = q.queue_id)
		     + (SELECT count(*) FROM parley_post p WHERE p.blocked = 1 AND p.queue_id = q.queue_id),
		       (SELECT count(*) FROM parley_grp g WHERE g.blocked = 2 AND g.queue_id = q.queue_id)
		     + (SELECT count(*) FROM parley_post p WHERE p.blocked = 2 AND p.queue_id = q.queue_id),
		       (SELECT count(*) FROM parley_stream s
		         STRAIGHT_JOIN parley_held h ON h.stream_id = s.stream_id
		         WHERE s.held = 1 AND s.queue_id = q.queue_id),
		       (SELECT r.priority FROM parley_ready r
		         WHERE r.queue_id = q.queue_id
		           AND (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id LIMIT 1) IS NOT NULL
		         ORDER BY r.queue_id, r.urgency, r.since LIMIT 1),
		       (SELECT r.since FROM parley_ready r
		         WHERE r.queue_id = q.queue_id
		           AND (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id LIMIT 1) IS NOT NULL
		         ORDER BY r.queue_id, r.urgency, r.since LIMIT 1),
		       (SELECT p.priority FROM parley_post p
		         WHERE p.queue_id = q.queue_id AND p.blocked = 0
		         ORDER BY p.queue_id, p.urgency, p.since LIMIT 1),
		       (SELECT p.since FROM parley_post p
		         WHERE p.queue_id = q.queue_id AND p.blocked = 0
		         ORDER BY p.queue_id, p.urgency, p.since LIMIT 1),
		       :now
		  FROM parley_queue q
		 WHERE q.queue_id BETWEEN ? AND ?
		 ORDER BY q.name`
	s.ConversationCounts = `
		SELECT e.begun, :now,
		       (SELECT t.due FROM parley_timer t WHERE t.handle = e.handle AND t.kind = 0),
		       (SELECT count(*)
		          FROM parley_stream s
		         STRAIGHT_JOIN parley_message m ON m.stream_id = s.stream_id
		         WHERE s.group_id = e.group_id AND s.endpoint = e.handle),
		       (SELECT count(*) FROM parley_held h WHERE h.stream_id = e.handle),
		       (SELECT h.status FROM parley_held h WHERE h.stream_id = e.handle ORDER BY h.seq LIMIT 1)
		  FROM parley_endpoint e
		 WHERE e.handle = ?`
	s.ListWithheld = `
		SELECT s.stream_id,
		       (SELECT count(*) FROM parley_held h WHERE h.stream_id = s.stream_id),
		       (SELECT h.status FROM parley_held h WHERE h.stream_id = s.stream_id ORDER BY h.seq LIMIT 1),
		       (SELECT h.since FROM parley_held h WHERE h.stream_id = s.stream_id ORDER BY h.seq LIMIT 1),
		       :now
		  FROM parley_stream s
		 WHERE s.held = 1
		 ORDER BY s.stream_id
		 LIMIT ?`
	return s
}

// ascending matches how the portable statements walk from the most urgent.
var ascending = regexp.MustCompile(`(\w+\.|\b)(?:priority|level) DESC`)

// lookups writes EXISTS as a lookup for each row: the optimizers like to make a
// join of it, and then read all of a large table for the first row.
func lookups(text string) string {
	for {
		i := strings.Index(text, "EXISTS (SELECT 1")
		if i < 0 {
			return text
		}
		depth, end := 0, i
		for end = i; end < len(text); end++ {
			if text[end] == '(' {
				depth++
			} else if text[end] == ')' {
				if depth--; depth == 0 {
					break
				}
			}
		}
		before, is := text[:i], " IS NOT NULL"
		if b, ok := strings.CutSuffix(before, "NOT "); ok {
			before, is = b, " IS NULL"
		}
		text = before + text[i+len("EXISTS "):end] + " LIMIT 1)" + is + text[end+1:]
	}
}

// hot are the statements that do in few trips what package sqlstore does row by
// row. A list stands for one of their parameters; see inline.
//
// "A locking read clause in an outer statement does not lock the rows of a table
// in a nested subquery statement unless a locking read clause is also specified
// in the subquery" (Locking Reads), nor the other way round. So a walk reads the
// order without locking it, and for one entry after the other a subquery locks
// the row of the group, if it is free, until the walk has as many as it wants.
// CASE keeps the lock behind the conditions.
type hot struct {
	advance, insert, place, states, next, append, mark *sqlstore.Stmt
	postMany, keys                                     *sqlstore.Stmt
	head, promoted, walk, posts, postsOnly, flow       *sqlstore.Stmt
	readyAfter, postAfter                              *sqlstore.Stmt
	claimOne, lockOne, read, messages                  *sqlstore.Stmt
	leaseGroups, unleaseGroups, leasePosts             *sqlstore.Stmt
	remove, removePosts, guards, look                  *sqlstore.Stmt
	dropMarkers, dropNotes, restand                    *sqlstore.Stmt
	submit, start                                      *sqlstore.Stmt
	probe, probed, unprobe                             *sqlstore.Stmt
	retain, keep, keepPosts                            *sqlstore.Stmt
	reclaimGroups, reclaimPosts, tookGroups, tookPosts *sqlstore.Stmt
	extendGroups, extendPosts, leasedGroups            *sqlstore.Stmt
	leasedPosts                                        *sqlstore.Stmt
}

// compile makes the statements; they are a dialect's as well.
func (h *hot) compile(d *sqlstore.Dialect) error {
	for _, x := range []struct {
		to         **sqlstore.Stmt
		name, text string
	}{
		{&h.advance, "advance", advanceSQL},
		{&h.insert, "insert", insertSQL},
		{&h.place, "place", placeSQL},
		{&h.states, "state of streams", statesSQL},
		{&h.next, "next numbers", nextSQL},
		{&h.append, "append", appendSQL},
		{&h.mark, "mark", markSQL},
		{&h.postMany, "post many", postManySQL},
		{&h.keys, "keys", keysSQL},
		{&h.head, "heads", headSQL},
		{&h.promoted, "walk promotions", promotedSQL},
		{&h.walk, "walk streams", walkSQL},
		{&h.flow, "walk streams alone", flowSQL},
		{&h.posts, "take posts", postsSQL},
		{&h.postsOnly, "take posts alone", postsOnlySQL},
		{&h.readyAfter, "next stream", readyAfterSQL},
		{&h.postAfter, "next post", postAfterSQL},
		{&h.claimOne, "claim one", claimOneSQL},
		{&h.lockOne, "lock one", lockOneSQL},
		{&h.read, "read groups", readSQL},
		{&h.messages, "read messages", messagesSQL},
		{&h.leaseGroups, "lease groups", leaseGroupsSQL},
		{&h.unleaseGroups, "unlease groups", unleaseGroupsSQL},
		{&h.leasePosts, "lease posts", leasePostsSQL},
		{&h.remove, "remove", removeSQL},
		{&h.removePosts, "remove posts", removePostsSQL},
		{&h.guards, "guards", guardsSQL},
		{&h.look, "look", lookSQL},
		{&h.dropMarkers, "drop markers", dropMarkersSQL},
		{&h.dropNotes, "drop notes", dropNotesSQL},
		{&h.restand, "restand", restandSQL},
		{&h.probe, "probe", probeSQL},
		{&h.probed, "insert probe", probedSQL},
		{&h.unprobe, "delete probe", unprobeSQL},
		{&h.submit, "submit tasks", submitSQL},
		{&h.start, "start tasks", startSQL},
		{&h.retain, "retain", retainSQL},
		{&h.keep, "keep", keepSQL},
		{&h.keepPosts, "keep posts", keepPostsSQL},
		{&h.reclaimGroups, "reclaim groups", reclaimGroupsSQL},
		{&h.reclaimPosts, "reclaim posts", reclaimPostsSQL},
		{&h.tookGroups, "took groups", tookGroupsSQL},
		{&h.tookPosts, "took posts", tookPostsSQL},
		{&h.extendGroups, "extend groups", extendGroupsSQL},
		{&h.extendPosts, "extend posts", extendPostsSQL},
		{&h.leasedGroups, "leased groups", leasedGroupsSQL},
		{&h.leasedPosts, "leased posts", leasedPostsSQL},
	} {
		s, err := d.Stmt(x.name, x.text)
		if err != nil {
			return err
		}
		*x.to = s
	}
	return nil
}

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

// Streams whose guards are ours get their next numbers and their ranks.
//
// numbers by stream, ranks by stream, streams
const nextSQL = `
	UPDATE parley_stream SET next_seq = ?, priority = ?, touched = :now WHERE stream_id IN (?)`

// stream, number, id, kind, type, body, unique value, time
const appendSQL = `
	INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, uniq, since) VALUES ?`

// queue, group, stream, priority, time
const markSQL = `
	INSERT IGNORE INTO parley_ready (queue_id, group_id, stream_id, priority, since) VALUES ?`

// id, queue, rank, type, body, time
const postManySQL = `
	INSERT INTO parley_post (post_id, queue_id, priority, type, body, since) VALUES ?`

// The streams of keys.
//
// queues and names
const keysSQL = `
	SELECT queue_id, name, stream_id FROM parley_key WHERE ?`

// A place in the order as one number: what comes first is less. An instant has 16
// digits.
//
// What a claim finds first, without locking: the catalog's version and whether the
// queue is on; whether there are promotions; the places of the first stream and
// the first post that are not held by lease; and whether there is anything that is
// not blocked.
//
// queue, five times
const headSQL = `
	SELECT v.catalog_version, q.enabled,
	       (SELECT 1 FROM parley_promotion p WHERE p.queue_id = ? LIMIT 1),
	       (SELECT r.urgency * 10000000000000000 + r.since
	          FROM parley_ready r FORCE INDEX (place)
	         WHERE r.queue_id = ?
	           AND (SELECT 1 FROM parley_grp g
	                 WHERE g.group_id = r.group_id AND g.blocked = 0 AND g.lease_until < :now LIMIT 1) IS NOT NULL
	           AND (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id LIMIT 1) IS NOT NULL
	         ORDER BY r.queue_id, r.urgency, r.since LIMIT 1),
	       (SELECT p.urgency * 10000000000000000 + p.since
	          FROM parley_post p FORCE INDEX (place)
	         WHERE p.queue_id = ? AND p.blocked = 0 AND p.lease_until < :now
	         ORDER BY p.queue_id, p.blocked, p.urgency, p.since LIMIT 1),
	       (SELECT 1 FROM parley_ready r FORCE INDEX (place)
	         WHERE r.queue_id = ?
	           AND (SELECT 1 FROM parley_grp g
	                 WHERE g.group_id = r.group_id AND g.blocked = 0 LIMIT 1) IS NOT NULL LIMIT 1),
	       (SELECT 1 FROM parley_post p FORCE INDEX (place) WHERE p.queue_id = ? AND p.blocked = 0 LIMIT 1)
	  FROM parley_meta v
	  LEFT JOIN parley_queue q ON q.queue_id = ?
	 WHERE v.id = 1`

// Promoted groups and posts, locked.
//
// queue, at most
const promotedSQL = `
	SELECT p.group_id, (SELECT 1 FROM parley_grp g WHERE g.group_id = p.group_id LIMIT 1) IS NULL
	  FROM parley_promotion p FORCE INDEX (place)
	 WHERE p.queue_id = ?
	   AND CASE WHEN (SELECT 1 FROM parley_grp g
	                   WHERE g.group_id = p.group_id AND g.blocked = 0 AND g.lease_until < :now LIMIT 1) IS NOT NULL
	             AND (SELECT 1 FROM parley_ready r
	                   STRAIGHT_JOIN parley_message m ON m.stream_id = r.stream_id
	                   WHERE r.group_id = p.group_id LIMIT 1) IS NOT NULL
	            THEN (SELECT 1 FROM parley_grp g WHERE g.group_id = p.group_id FOR UPDATE SKIP LOCKED)
	            WHEN (SELECT 1 FROM parley_post o
	                   WHERE o.post_id = p.group_id AND o.blocked = 0 AND o.lease_until < :now LIMIT 1) IS NOT NULL
	            THEN (SELECT 1 FROM parley_post o WHERE o.post_id = p.group_id FOR UPDATE SKIP LOCKED)
	       END IS NOT NULL
	 ORDER BY p.queue_id, p.urgency, p.since
	 LIMIT ?`

// Groups in ready order, locked, of streams that do not come after a place.
//
// queue, place, at most
const walkSQL = `
	SELECT r.group_id
	  FROM parley_ready r FORCE INDEX (place)
	 WHERE r.queue_id = ? AND r.urgency * 10000000000000000 + r.since <= ?
	   AND CASE WHEN (SELECT 1 FROM parley_grp g
	                   WHERE g.group_id = r.group_id AND g.blocked = 0 AND g.lease_until < :now LIMIT 1) IS NOT NULL
	             AND (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id LIMIT 1) IS NOT NULL
	            THEN (SELECT 1 FROM parley_grp g WHERE g.group_id = r.group_id FOR UPDATE SKIP LOCKED)
	       END IS NOT NULL
	 ORDER BY r.queue_id, r.urgency, r.since
	 LIMIT ?`

// The same for a queue in which there are neither posts nor promotions, with the
// state of the catalog and the queue. If there are, nothing comes back.
//
// queue, at most
const flowSQL = `
	SELECT r.group_id,
	       (SELECT v.catalog_version FROM parley_meta v WHERE v.id = 1),
	       (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = r.queue_id)
	  FROM parley_ready r FORCE INDEX (place)
	 WHERE r.queue_id = ?
	   AND CASE WHEN (SELECT 1 FROM parley_promotion p WHERE p.queue_id = r.queue_id LIMIT 1) IS NULL
	             AND (SELECT 1 FROM parley_post p WHERE p.queue_id = r.queue_id AND p.blocked = 0 LIMIT 1) IS NULL
	             AND (SELECT 1 FROM parley_grp g
	                   WHERE g.group_id = r.group_id AND g.blocked = 0 AND g.lease_until < :now LIMIT 1) IS NOT NULL
	             AND (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id LIMIT 1) IS NOT NULL
	            THEN (SELECT 1 FROM parley_grp g WHERE g.group_id = r.group_id FOR UPDATE SKIP LOCKED)
	       END IS NOT NULL
	 ORDER BY r.queue_id, r.urgency, r.since
	 LIMIT ?`

// Posts in their order, locked, that do not come after a place. What can change of
// a post is read with the lock. It is a subquery that locks here, too, and not the
// walk: MariaDB would leave the posts locked that a walk through an index passes by.
//
// queue, place, at most
const postsSQL = `
	SELECT p.post_id, p.queue_id, p.priority, p.since, p.type, p.body, p.uniq, :now,
	       CASE WHEN p.lease_until < :now
	            THEN (SELECT concat_ws(',', o.fence, o.lease_until, o.blocked, o.attempts, o.suspicion,
	                                   coalesce(o.last_error, ''))
	                    FROM parley_post o WHERE o.post_id = p.post_id FOR UPDATE SKIP LOCKED)
	       END AS locked
	  FROM parley_post p FORCE INDEX (place)
	 WHERE p.queue_id = ? AND p.blocked = 0 AND p.urgency * 10000000000000000 + p.since <= ?
	HAVING locked IS NOT NULL
	 ORDER BY p.queue_id, p.blocked, p.urgency, p.since
	 LIMIT ?`

// The same for a queue in which there are neither streams nor promotions, with the
// state of the catalog and the queue. If there are, nothing comes back.
//
// queue, at most
const postsOnlySQL = `
	SELECT p.post_id, p.queue_id, p.priority, p.since, p.type, p.body, p.uniq, :now,
	       CASE WHEN p.lease_until < :now
	             AND (SELECT 1 FROM parley_ready r WHERE r.queue_id = p.queue_id LIMIT 1) IS NULL
	             AND (SELECT 1 FROM parley_promotion o WHERE o.queue_id = p.queue_id LIMIT 1) IS NULL
	            THEN (SELECT concat_ws(',', o.fence, o.lease_until, o.blocked, o.attempts, o.suspicion,
	                                   coalesce(o.last_error, ''))
	                    FROM parley_post o WHERE o.post_id = p.post_id FOR UPDATE SKIP LOCKED)
	       END AS locked,
	       (SELECT v.catalog_version FROM parley_meta v WHERE v.id = 1),
	       (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = p.queue_id)
	  FROM parley_post p FORCE INDEX (place)
	 WHERE p.queue_id = ? AND p.blocked = 0
	HAVING locked IS NOT NULL
	 ORDER BY p.queue_id, p.blocked, p.urgency, p.since
	 LIMIT ?`

// The place of the first stream, or post, that comes after a place.
//
// queue, place
const (
	readyAfterSQL = `
		SELECT r.urgency * 10000000000000000 + r.since
		  FROM parley_ready r FORCE INDEX (place)
		 WHERE r.queue_id = ? AND r.urgency * 10000000000000000 + r.since > ?
		   AND (SELECT 1 FROM parley_grp g
		         WHERE g.group_id = r.group_id AND g.blocked = 0 AND g.lease_until < :now LIMIT 1) IS NOT NULL
		   AND (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id LIMIT 1) IS NOT NULL
		 ORDER BY r.queue_id, r.urgency, r.since LIMIT 1`
	postAfterSQL = `
		SELECT p.urgency * 10000000000000000 + p.since
		  FROM parley_post p FORCE INDEX (place)
		 WHERE p.queue_id = ? AND p.blocked = 0 AND p.lease_until < :now
		   AND p.urgency * 10000000000000000 + p.since > ?
		 ORDER BY p.queue_id, p.blocked, p.urgency, p.since LIMIT 1`
)

// The group of a claim for one group or endpoint, if there is something in it for
// us.
//
// group, endpoint, group, queue, queue
const claimOneSQL = `
	SELECT v.catalog_version, q.enabled, g.group_id
	  FROM parley_meta v
	  LEFT JOIN parley_queue q ON q.queue_id = ?
	  LEFT JOIN parley_grp g
	    ON g.group_id = coalesce((SELECT e.group_id FROM parley_endpoint e WHERE e.handle = ?), ?)
	   AND g.group_id = coalesce(?, g.group_id)
	   AND g.queue_id = ? AND g.blocked = 0
	   AND (SELECT 1 FROM parley_ready r
	         STRAIGHT_JOIN parley_message m ON m.stream_id = r.stream_id
	         WHERE r.group_id = g.group_id LIMIT 1) IS NOT NULL
	 WHERE v.id = 1`

// group
const lockOneSQL = `
	SELECT group_id FROM parley_grp
	 WHERE group_id IN (?, '') AND blocked = 0 AND lease_until < :now
	   FOR UPDATE SKIP LOCKED`

// What there is in groups that are locked: their streams in the order in which
// they are received, with what is known of the endpoint, and the first message of
// each. A new statement, so it sees what was committed before the locks. How far a
// stream goes is told by its next number.
//
// groups
const readSQL = `
	SELECT g.group_id, g.name, g.fence, g.lease_until, g.blocked, g.lease_until > :now,
	       o.level, o.version, o.sticky,
	       r.stream_id, s.kind, r.priority, s.endpoint, e.group_id, e.conversation, e.initiator, e.service,
	       e.far, e.contract, e.closed_at, s.next_seq,
	       m.seq, m.message_id, m.kind, m.type, m.body, m.since, m.uniq, f.attempts, f.suspicion, f.last_error
	  FROM parley_grp g
	  LEFT JOIN parley_promotion o ON o.group_id = g.group_id
	  LEFT JOIN parley_ready r ON r.group_id = g.group_id
	  LEFT JOIN parley_stream s ON s.stream_id = r.stream_id
	  LEFT JOIN parley_endpoint e ON e.handle = s.endpoint
	  LEFT JOIN parley_message m
	    ON m.stream_id = r.stream_id
	   AND m.seq = (SELECT y.seq FROM parley_message y WHERE y.stream_id = r.stream_id ORDER BY y.seq LIMIT 1)
	  LEFT JOIN parley_failure f ON f.message_id = m.message_id
	 WHERE g.group_id IN (?)
	 ORDER BY g.group_id, r.priority DESC, s.endpoint, s.kind, s.stream_id`

// Further messages: those of streams with numbers from one to another.
//
// streams and numbers
const messagesSQL = `
	SELECT m.stream_id, m.seq, m.message_id, m.kind, m.type, m.body, m.since, m.uniq,
	       f.attempts, f.suspicion, f.last_error
	  FROM parley_message m FORCE INDEX (PRIMARY)
	  LEFT JOIN parley_failure f ON f.message_id = m.message_id
	 WHERE ?
	 ORDER BY m.stream_id, m.seq`

// Groups and posts that are locked become held by lease, or lose the token that an
// expired lease has left behind.
const (
	leaseGroupsSQL = `
		UPDATE parley_grp
		   SET fence = fence + 1, lease_until = :now + ?, held_since = :now, owner = ?
		 WHERE group_id IN (?)`
	unleaseGroupsSQL = `
		UPDATE parley_grp SET fence = fence + 1, lease_until = 0, owner = '' WHERE group_id IN (?)`
	leasePostsSQL = `
		UPDATE parley_post
		   SET suspicion = suspicion + CASE WHEN lease_until <> 0 THEN 1 ELSE 0 END, -- its receiver died
		       fence = fence + 1,
		       lease_until = CASE WHEN ? > 0 THEN :now + ? ELSE 0 END,
		       held_since = CASE WHEN ? > 0 THEN :now ELSE 0 END,
		       owner = ?
		 WHERE post_id IN (?)`
)

// Delivered messages, by their keys: a range would wait for the next one's sender.
// The number removed must be that of the keys.
const (
	removeSQL      = `DELETE FROM parley_message WHERE ?`
	removePostsSQL = `DELETE FROM parley_post WHERE post_id IN (?)`
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
// streams
const lookSQL = `
	SELECT s.stream_id, s.kind, s.group_id, r.since,
	       (SELECT m.since FROM parley_message m WHERE m.stream_id = s.stream_id ORDER BY m.seq LIMIT 1),
	       coalesce(g.blocked, 1)
	  FROM parley_stream s
	  LEFT JOIN parley_ready r ON r.group_id = s.group_id AND r.stream_id = s.stream_id
	  LEFT JOIN parley_grp g ON g.group_id = s.group_id
	 WHERE s.stream_id IN (?)`

// The ready order is put right by it. A stream that was made for one message goes
// with it.
const (
	dropMarkersSQL = `DELETE FROM parley_ready WHERE ?`
	dropNotesSQL   = `DELETE FROM parley_stream WHERE stream_id IN (?)`
	restandSQL     = `UPDATE parley_ready SET since = ? WHERE ?`
)

// A row by which the level of a transaction is found out.
const (
	probeSQL   = `SELECT 1 FROM parley_probe WHERE probe_id = ?`
	probedSQL  = `INSERT INTO parley_probe (probe_id) VALUES (?)`
	unprobeSQL = `DELETE FROM parley_probe WHERE probe_id = ?`
)

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
		 WHERE ? AND lease_until <> 0 FOR UPDATE SKIP LOCKED`
	reclaimPostsSQL = `
		SELECT post_id FROM parley_post FORCE INDEX (PRIMARY)
		 WHERE ? AND lease_until <> 0 FOR UPDATE SKIP LOCKED`
	tookGroupsSQL = `UPDATE parley_grp SET lease_until = 0, owner = '' WHERE group_id IN (?)`
	tookPostsSQL  = `UPDATE parley_post SET lease_until = 0, owner = '' WHERE post_id IN (?)`
)

// Leases that are locked are prolonged. Of the others, those that are still there
// as committed are in their owner's transaction.
//
// for how long, ids; ids and fences
const (
	extendGroupsSQL = `UPDATE parley_grp SET lease_until = :now + ? WHERE group_id IN (?)`
	extendPostsSQL  = `UPDATE parley_post SET lease_until = :now + ? WHERE post_id IN (?)`
	leasedGroupsSQL = `SELECT group_id FROM parley_grp WHERE ? AND lease_until > :now`
	leasedPostsSQL  = `SELECT post_id FROM parley_post WHERE ? AND lease_until > :now`
)
