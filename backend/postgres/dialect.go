package postgres

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/parleymq/parley/backend/sqlstore"
)

// now is the engine's clock. clock_timestamp and not now(): an expiry is tested
// with the time of the statement, not with that of the transaction.
const now = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

// statements are the portable ones and those below, mostly statements that lock.
//
// Rows of groups and streams are locked FOR NO KEY UPDATE: "this lock will not block
// SELECT FOR KEY SHARE commands that attempt to acquire a lock on the same rows"
// (Explicit Locking, 13.3.2), so tables of the application's may refer to them.
func statements(schemaName, prefix string) sqlstore.Statements[string] {
	s := sqlstore.Portable()
	meta := "'" + schemaName + prefix + "meta'"
	s.SchemaExists = `
		SELECT 1 WHERE to_regclass(` + meta + `) IS NOT NULL`
	s.SchemaClock = `
		SELECT :now`
	s.SchemaTables = `
		SELECT c.relname,
		       concat_ws(', ', CASE WHEN NOT has_table_privilege(c.oid, 'SELECT') THEN 'SELECT' END,
		                       CASE WHEN NOT has_table_privilege(c.oid, 'INSERT') THEN 'INSERT' END,
		                       CASE WHEN NOT has_table_privilege(c.oid, 'UPDATE') THEN 'UPDATE' END,
		                       CASE WHEN NOT has_table_privilege(c.oid, 'DELETE') THEN 'DELETE' END)
		  FROM pg_class c
		 WHERE c.relkind = 'r'
		   AND c.relnamespace = (SELECT m.relnamespace FROM pg_class m WHERE m.oid = to_regclass(` + meta + `))`
	s.SchemaIndexes = `
		SELECT t.relname, i.relname, CASE WHEN x.indisvalid AND x.indisready THEN 1 ELSE 0 END
		  FROM pg_index x
		  JOIN pg_class i ON i.oid = x.indexrelid
		  JOIN pg_class t ON t.oid = x.indrelid
		 WHERE t.relnamespace = (SELECT m.relnamespace FROM pg_class m WHERE m.oid = to_regclass(` + meta + `))`
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
		                      AND (SELECT v.schema_version FROM parley_meta v) <= :newest
		                      FOR NO KEY UPDATE SKIP LOCKED)`
	s.PostReclaim = `
		UPDATE parley_post SET lease_until = 0, owner = ''
		 WHERE post_id = (SELECT p.post_id FROM parley_post p
		                   WHERE p.post_id = $1 AND p.fence = $2 AND p.lease_until <> 0
		                     AND (SELECT v.schema_version FROM parley_meta v) <= :newest
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
	// The walks over whole tables are along an index even when the planner believes
	// that next to none of the rows belong to a queue, since the limit comes first;
	// and what they ask for each row is asked by an index, since NOT EXISTS may be
	// answered by reading the whole of the other table once. The rows that are there
	// for the planner alone have the lowest ids.
	s.EndpointsAfter = `
		SELECT e.handle,
		       CASE WHEN e.closed_at IS NOT NULL AND e.finish_at IS NULL
		             AND (p.handle IS NULL AND NOT EXISTS (
		                    SELECT 1 FROM parley_stream s
		                     WHERE s.stream_id = e.handle AND s.held = 1)
		                  OR p.closed_at IS NOT NULL AND p.finish_at IS NULL) THEN 1 ELSE 0 END
		  FROM (SELECT x.handle, x.peer, x.closed_at, x.finish_at FROM parley_endpoint x
		         WHERE x.handle > greatest($1, '00000000-0000-0000-0000-00000000ffff'::uuid)
		         ORDER BY x.handle LIMIT 1000) e
		  LEFT JOIN LATERAL (SELECT x.handle, x.closed_at, x.finish_at FROM parley_endpoint x
		                      WHERE x.handle = e.peer LIMIT 1) p ON true
		 ORDER BY e.handle
		 LIMIT $2`
	s.GroupsAfter = `
		SELECT g.group_id,
		       CASE WHEN (SELECT 1 FROM parley_endpoint e WHERE e.group_id = g.group_id LIMIT 1) IS NULL
		             AND (SELECT 1 FROM parley_stream s
		                   WHERE s.group_id = g.group_id
		                     AND (s.kind <> 3 OR s.touched > :now - 60000000)
		                   LIMIT 1) IS NULL
		             AND (SELECT 1 FROM parley_ready r WHERE r.group_id = g.group_id LIMIT 1) IS NULL
		            THEN 1 ELSE 0 END
		  FROM (SELECT x.group_id FROM parley_grp x
		         WHERE x.group_id > greatest($1, '00000000-0000-0000-0000-00000000ffff'::uuid)
		         ORDER BY x.group_id LIMIT 1000) g
		 ORDER BY g.group_id
		 LIMIT $2`
	// Of two bounds of a range the planner expects that they leave next to nothing, and
	// sorts all that is due; of a row that is compared it does not.
	for _, q := range []*string{&s.DueDelayed, &s.DueTimers, &s.DuePosts} {
		*q = behind.ReplaceAllString(*q, "($1, $2) > (greatest(?::bigint, ?::bigint), ?)")
	}
	// Of two indexes that have the order the planner may take the one without the queue,
	// and pass all that others have. So one of them has it as an expression.
	for _, q := range []*string{&s.DueDelayed, &s.DelayedFirsts, &s.DueTimers, &s.TimerFirsts} {
		*q = strings.NewReplacer("d.due", "(d.due + 0)", "t.due", "(t.due + 0)").Replace(*q)
	}
	// clock_timestamp is volatile: what is compared with it is looked up in no index,
	// and to find that nothing is due all rows would be read. As a subquery it is
	// called once.
	for _, q := range []*string{
		&s.DueDelayed, &s.DueTimers, &s.DueGroups, &s.DuePosts, &s.DueProcessed, &s.OnceDue,
		&s.FinishedEndpoints, &s.TasksDue, &s.SchedulesReady,
	} {
		*q = strings.ReplaceAll(strings.ReplaceAll(*q, "< :now", "< (SELECT :now)"), "<= :now", "<= (SELECT :now)")
	}
	return s
}

// behind matches how the portable statements go on behind a place.
var behind = regexp.MustCompile(`([\w.]+) >= \? AND \([\w.]+ > \? OR ([\w.]+) > \?\)`)

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
	postMany, postKeyed, postNewKey, newKeys      *sqlstore.Stmt
	claims, streamClaims                          walks
	postClaims                                    [len(limits)]*sqlstore.Stmt
	pages, promotions                             [sqlstore.Widths]*sqlstore.Stmt
	claimOne, read, readMany                      *sqlstore.Stmt
	remove, removePosts, finish, guards, restore  *sqlstore.Stmt
	submit, finishTasks                           *sqlstore.Stmt
	retain, keep, keepPosts                       *sqlstore.Stmt
	leasePosts, extend, reclaim                   *sqlstore.Stmt
	notify                                        *sqlstore.Stmt
}

// own lists them.
func (h *hot) own() sqlstore.Own {
	own := sqlstore.Own{
		&h.send:        {"send", sendSQL},
		&h.sendRetain:  {"send and retain", sendRetainSQL},
		&h.sendState:   {"state of streams", sendStateSQL},
		&h.append:      {"append", appendSQL},
		&h.keyState:    {"state of keys", keyStateSQL},
		&h.postMany:    {"post many", postManySQL},
		&h.postKeyed:   {"post with a key", postKeyedSQL},
		&h.postNewKey:  {"post with a new key", postNewKeySQL},
		&h.newKeys:     {"new keys", newKeysSQL},
		&h.claimOne:    {"claim one", claimOneSQL},
		&h.read:        {"read", strings.ReplaceAll(readSQL, ":most", strconv.Itoa(mostRead))},
		&h.readMany:    {"read many", strings.ReplaceAll(readSQL, ":most", "$2::int")},
		&h.remove:      {"remove", removeSQL},
		&h.removePosts: {"remove posts", removePostsSQL},
		&h.submit:      {"submit tasks", submitSQL},
		&h.finishTasks: {"finish tasks", finishTasksSQL},
		&h.guards:      {"guards", guardsSQL},
		&h.restore:     {"restore", restoreSQL},
		&h.finish:      {"finish", finishSQL},
		&h.retain:      {"retain", retainSQL},
		&h.keep:        {"keep", keepSQL},
		&h.keepPosts:   {"keep posts", keepPostsSQL},
		&h.leasePosts:  {"lease posts", leasePostsSQL},
		&h.extend:      {"extend", extendSQL},
		&h.reclaim:     {"reclaim", reclaimSQL},
		&h.notify:      {"notify", notifySQL},
	}
	for i, c := range claimTexts() {
		own[&h.claims.near[i]] = [2]string{"claim", c.near}
		own[&h.claims.deep[i]] = [2]string{"deep claim", c.deep}
		own[&h.streamClaims.near[i]] = [2]string{"claim of streams", c.streams}
		own[&h.streamClaims.deep[i]] = [2]string{"deep claim of streams", c.deepStreams}
		own[&h.postClaims[i]] = [2]string{"claim of posts", c.posts}
	}
	for i := range h.pages {
		window := pageWindow * int(math.Pow10(i))
		own[&h.pages[i]] = [2]string{"page of a claim", windowed(pageSQL, window)}
		own[&h.promotions[i]] = [2]string{"page of promotions", windowed(promotionsSQL, window)}
	}
	return own
}

// rank is the place of an entry in an order, as package sqlstore writes it.
var rank = regexp.MustCompile(`:rank\((\w+)\.(\w+)\)`)

// windowed writes a window, and what statements have in common, into the text of one.
func windowed(sql string, window int) string {
	sql = strings.NewReplacer(":promoted", promotedSQL, ":window", strconv.Itoa(window)).Replace(sql)
	return rank.ReplaceAllString(sql, "(-$1.$2::bigint * "+strconv.FormatInt(sqlstore.Rank, 10)+" + $1.since)")
}

// walks are a claim's first statement, by its limit: one that looks at the head of
// the order, and one that walks far.
type walks struct{ near, deep [len(limits)]*sqlstore.Stmt }

// claimTexts are the texts of the claims for each of the limits.
var claimTexts = sync.OnceValue(func() (all [len(limits)]struct{ near, deep, streams, deepStreams, posts string }) {
	for i, n := range limits {
		text := func(sql string, far int, passable string) string {
			few := strconv.Itoa(window(n))
			put := strings.NewReplacer(":limit", strconv.Itoa(n), ":few", few, ":passable", passable)
			return windowed(put.Replace(sql), far)
		}
		all[i].near = text(claimSQL, window(n), "true")
		all[i].deep = text(claimSQL, deepWindow, notLeasedSQL)
		all[i].streams = text(claimStreamsSQL, window(n), "true")
		all[i].deepStreams = text(claimStreamsSQL, deepWindow, notLeasedSQL)
		all[i].posts = text(claimPostsSQL, 0, "")
	}
	return all
})
