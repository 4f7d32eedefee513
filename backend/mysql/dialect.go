package mysql

import (
	"reflect"
	"regexp"
	"strings"
	"sync"

	"github.com/parleymq/parley/backend/sqlstore"
)

// now is the engine's clock: the time of the statement, in a form that no time
// zone has a part in. SYSDATE(), which is later still, would keep the server from
// using an index.
const now = `TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))`

// portable are the statements of all engines, in the words that the optimizers
// here understand.
var portable = sync.OnceValue(func() sqlstore.Statements[string] {
	s := sqlstore.Portable()
	fields := reflect.ValueOf(&s).Elem()
	for i := range fields.NumField() {
		f := fields.Field(i)
		f.SetString(lookups(ascending.ReplaceAllString(f.String(), "${1}urgency")))
	}
	return s
})

// statements are the portable ones and those below: the statements that lock,
// and inserts that may find their row there.
//
// A row that is looked up by its whole primary key stays locked even if another
// condition then leaves it out, as the server does not look at it again: "for
// UPDATE or DELETE statements, InnoDB holds locks only for rows that it updates
// or deletes" does not hold for it. So where there is such a condition, the key is
// one of two, the other of which no row has, which makes it a range.
func statements(prefix string) sqlstore.Statements[string] {
	s := portable()
	s.SchemaExists = `
		SELECT 1 FROM information_schema.tables
		 WHERE table_schema = DATABASE() AND table_name = '` + prefix + `meta'`
	s.SchemaClock = `
		SELECT :now`
	s.SchemaTables = `
		SELECT table_name, '' FROM information_schema.tables
		 WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'`
	s.SchemaIndexes = `
		SELECT DISTINCT table_name, index_name, 1 FROM information_schema.statistics
		 WHERE table_schema = DATABASE()`
	s.CatalogLock = `
		SELECT 1 FROM parley_meta WHERE id = 1 FOR UPDATE`
	s.CatalogBump = `
		UPDATE parley_meta SET catalog_version = catalog_version + 1 WHERE id = 1`
	s.SchemaAnnounce = `
		UPDATE parley_meta SET min_program = ?, catalog_version = catalog_version + 1 WHERE id = 1`
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
	// What a transaction of the application's reads with a lock is the stream alone: a
	// queue that is read in a subquery is not locked.
	s.StreamRead = `
		SELECT s.kind, s.group_id, s.queue_id, s.endpoint, s.priority, s.next_seq, s.closed, s.held,
		       (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = s.queue_id),
		       (SELECT count(*) FROM parley_closing c WHERE c.handle = s.stream_id),
		       (SELECT v.catalog_version FROM parley_meta v WHERE v.id = 1)
		  FROM parley_stream s
		 WHERE s.stream_id = ?`
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
	// The first place of a schedule is the task of its lowest phase that is due
	// first. MySQL has to be told where to find it, or sorts all tasks.
	s.SchedulesReady = `
		SELECT s.name
		  FROM parley_schedule s
		 WHERE s.live = 1
		   AND ((SELECT a.due FROM parley_task a FORCE INDEX (place)
		          WHERE a.schedule_id = s.schedule_id AND a.live = 1
		          ORDER BY a.schedule_id, a.live, a.phase, a.due LIMIT 1) IS NULL
		     OR (SELECT t.due FROM parley_task t FORCE INDEX (place)
		          WHERE t.schedule_id = s.schedule_id AND t.live = 1
		          ORDER BY t.schedule_id, t.live, t.phase, t.due LIMIT 1) <= :now
		    AND (s.max_active = 0
		      OR s.max_active > (SELECT count(*) FROM parley_task r FORCE INDEX (state)
		                          WHERE r.schedule_id = s.schedule_id AND r.state = 1
		                            AND r.due > :now)))
		 ORDER BY s.served, s.name
		 LIMIT 64`
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
	// The last condition lists a stream too whose subqueries an interrupted statement did
	// not run: see lookSQL.
	s.MarkersAstray = `
		SELECT s.stream_id
		  FROM parley_stream s
		  LEFT JOIN parley_ready r ON r.group_id = s.group_id AND r.stream_id = s.stream_id
		 WHERE s.group_id = ?
		   AND (coalesce(r.since, -1) <> (SELECT m.since FROM parley_message m FORCE INDEX (PRIMARY)
		                                   WHERE m.stream_id = s.stream_id
		                                   ORDER BY m.stream_id, m.seq LIMIT 1)
		     OR (SELECT w.kind FROM parley_stream w WHERE w.stream_id = s.stream_id LIMIT 1) IS NULL)
		 ORDER BY s.priority DESC, s.endpoint, s.kind, s.stream_id -- as they are received
		 LIMIT 10000`
	s.KeyInsert = `
		INSERT IGNORE INTO parley_key (queue_id, name, stream_id) VALUES (?, ?, ?)`
	s.UniqueInsert = `
		INSERT IGNORE INTO parley_uniq (queue_id, value, post_id) VALUES (?, ?, ?)`
	s.OnceInsert = `
		INSERT IGNORE INTO parley_once (name, keep_until) VALUES (?, :now + ?)`
	s.FenceInsert = `
		INSERT IGNORE INTO parley_fence (name, fence, uses) VALUES (?, ?, 1)`
	s.ScheduleInsert = `
		INSERT IGNORE INTO parley_schedule (name, schedule_id, max_active, go_on, accept_late, max_attempts,
		       caller, purpose, made)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, :now)`
	s.TimerPut = `
		INSERT INTO parley_timer (handle, kind, due, queue_id) VALUES (?, ?, :now + ?, ?)
		ON DUPLICATE KEY UPDATE due = VALUES(due), queue_id = VALUES(queue_id)`
	s.TimerQueue = `
		UPDATE parley_timer SET queue_id = ? WHERE handle = ? AND kind = ?`
	sqlstore.Hint(&s, "FORCE INDEX (place)", "FORCE INDEX (place)", "FORCE INDEX (blocked)")
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
		       (SELECT h.status FROM parley_held h WHERE h.stream_id = e.handle ORDER BY h.stream_id, h.seq LIMIT 1)
		  FROM parley_endpoint e
		 WHERE e.handle = ?`
	s.ListWithheld = `
		SELECT s.stream_id,
		       (SELECT count(*) FROM parley_held h WHERE h.stream_id = s.stream_id),
		       (SELECT h.status FROM parley_held h WHERE h.stream_id = s.stream_id ORDER BY h.stream_id, h.seq LIMIT 1),
		       (SELECT h.since FROM parley_held h WHERE h.stream_id = s.stream_id ORDER BY h.stream_id, h.seq LIMIT 1),
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
// in a nested subquery unless a locking read clause is also specified in the
// subquery" (Locking Reads), nor the other way round. So a walk reads the
// order without locking it, and for one entry after the other a subquery locks
// the row of the group, if it is free, until the walk has as many as it wants.
// CASE keeps the lock behind the conditions.
type hot struct {
	advance, insert, place, states, next, append, mark *sqlstore.Stmt
	postMany, keys, newGroups, newStreams              *sqlstore.Stmt
	newKeys, newKeysJoined                             *sqlstore.Stmt
	head, promoted, walk, posts, postsOnly, flow       *sqlstore.Stmt
	readyAfter, postAfter                              *sqlstore.Stmt
	claimOne, lockOne, read, messages                  *sqlstore.Stmt
	leaseGroups, unleaseGroups, leasePosts             *sqlstore.Stmt
	remove, removePosts, guards, look, belong, restore *sqlstore.Stmt
	dropMarkers, dropNotes, restand                    *sqlstore.Stmt
	submit, start, holdTasks, finishTasks              *sqlstore.Stmt
	probe, probed, unprobe                             *sqlstore.Stmt
	retain, keep, keepPosts                            *sqlstore.Stmt
	reclaimGroups, reclaimPosts, tookGroups, tookPosts *sqlstore.Stmt
	extendGroups, extendPosts, leasedGroups            *sqlstore.Stmt
	leasedPosts                                        *sqlstore.Stmt
}

// own lists them.
func (h *hot) own() sqlstore.Own {
	return sqlstore.Own{
		&h.advance:       {"advance", advanceSQL},
		&h.insert:        {"insert", insertSQL},
		&h.place:         {"place", placeSQL},
		&h.states:        {"state of streams", statesSQL},
		&h.next:          {"next numbers", nextSQL},
		&h.append:        {"append", appendSQL},
		&h.mark:          {"mark", markSQL},
		&h.postMany:      {"post many", postManySQL},
		&h.keys:          {"keys", keysSQL},
		&h.newKeys:       {"new keys", newKeysSQL},
		&h.newKeysJoined: {"new keys of a joined transaction", newKeysJoinedSQL},
		&h.newGroups:     {"groups of new keys", newGroupsSQL},
		&h.newStreams:    {"streams of new keys", newStreamsSQL},
		&h.head:          {"heads", headSQL},
		&h.promoted:      {"walk promotions", promotedSQL},
		&h.walk:          {"walk streams", walkSQL},
		&h.flow:          {"walk streams alone", flowSQL},
		&h.posts:         {"take posts", postsSQL},
		&h.postsOnly:     {"take posts alone", postsOnlySQL},
		&h.readyAfter:    {"next stream", readyAfterSQL},
		&h.postAfter:     {"next post", postAfterSQL},
		&h.claimOne:      {"claim one", claimOneSQL},
		&h.lockOne:       {"lock one", lockOneSQL},
		&h.read:          {"read groups", readSQL},
		&h.messages:      {"read messages", messagesSQL},
		&h.leaseGroups:   {"lease groups", leaseGroupsSQL},
		&h.unleaseGroups: {"unlease groups", unleaseGroupsSQL},
		&h.leasePosts:    {"lease posts", leasePostsSQL},
		&h.remove:        {"remove", removeSQL},
		&h.removePosts:   {"remove posts", removePostsSQL},
		&h.guards:        {"guards", guardsSQL},
		&h.belong:        {"belong", belongSQL},
		&h.restore:       {"restore", restoreSQL},
		&h.look:          {"look", lookSQL},
		&h.dropMarkers:   {"drop markers", dropMarkersSQL},
		&h.dropNotes:     {"drop notes", dropNotesSQL},
		&h.restand:       {"restand", restandSQL},
		&h.probe:         {"probe", probeSQL},
		&h.probed:        {"insert probe", probedSQL},
		&h.unprobe:       {"delete probe", unprobeSQL},
		&h.submit:        {"submit tasks", submitSQL},
		&h.start:         {"start tasks", startSQL},
		&h.holdTasks:     {"hold tasks", holdTasksSQL},
		&h.finishTasks:   {"finish tasks", finishTasksSQL},
		&h.retain:        {"retain", retainSQL},
		&h.keep:          {"keep", keepSQL},
		&h.keepPosts:     {"keep posts", keepPostsSQL},
		&h.reclaimGroups: {"reclaim groups", reclaimGroupsSQL},
		&h.reclaimPosts:  {"reclaim posts", reclaimPostsSQL},
		&h.tookGroups:    {"took groups", tookGroupsSQL},
		&h.tookPosts:     {"took posts", tookPostsSQL},
		&h.extendGroups:  {"extend groups", extendGroupsSQL},
		&h.extendPosts:   {"extend posts", extendPostsSQL},
		&h.leasedGroups:  {"leased groups", leasedGroupsSQL},
		&h.leasedPosts:   {"leased posts", leasedPostsSQL},
	}
}

// A row by which the level of a transaction is found out.
const (
	probeSQL   = `SELECT 1 FROM parley_probe WHERE probe_id = ?`
	probedSQL  = `INSERT INTO parley_probe (probe_id) VALUES (?)`
	unprobeSQL = `DELETE FROM parley_probe WHERE probe_id = ?`
)
