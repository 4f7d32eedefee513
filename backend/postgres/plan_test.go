package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

func nilDB(t *testing.T) *sql.DB {
	db, err := sql.Open("postgres", "host=127.0.0.1 port=1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// database makes a database that is the test's own, and opens it. VACUUM removes
// nothing that any transaction in the same database may still see.
func database(t *testing.T, prefix string) (db *sql.DB, name string) {
	t.Helper()
	dsn := os.Getenv("PARLEY_TEST_POSTGRES")
	if dsn == "" {
		t.Skip("PARLEY_TEST_POSTGRES is not set")
	}
	name = fmt.Sprintf("%s%d", prefix, os.Getpid())
	admin, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	if u, err := url.Parse(dsn); err == nil && u.Scheme != "" {
		u.Path = "/" + name
		dsn = u.String()
	} else {
		dsn += " dbname=" + name
	}
	db, err = sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		db.Close()
		if _, err := admin.Exec("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Error(err)
		}
		admin.Close()
	})
	return db, name
}

// TestPlans runs the hot statements on tables of a hundred thousand rows, with generic plans, as
// prepared statements have. It does so in the situations that spoil plans. Some plans were made
// before the rows came in. Right after they came in, the planner believes that the tables are empty.
// Later it knows them. After the tables were emptied and filled again, its statistics do not show
// that. Whatever the plan, it must not touch more than some hundred pages, or some thousand where it
// walks or lists.
func TestPlans(t *testing.T) {
	ctx := context.Background()
	db, name := database(t, "plans")
	s := New(db, &Options{Schema: name, Pooler: PoolerNever})
	if err := s.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	run := func(text string) {
		t.Helper()
		if _, err := db.Exec(strings.ReplaceAll(text, "parley_", name+".parley_")); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	const rows = 100000
	// Autovacuum would tell the planner, at some time in the test.
	for _, table := range []string{"grp", "stream", "endpoint", "message", "ready", "post", "key"} {
		run("ALTER TABLE parley_" + table + " SET (autovacuum_enabled = false)")
	}
	run(`INSERT INTO parley_queue VALUES (1, 'both', 1, 0, 0), (3, 'streams', 1, 0, 0), (4, 'posts', 1, 0, 0)`)
	fillStreams := func(queue, rows int) {
		q, n := strconv.Itoa(queue), strconv.Itoa(rows)
		run(`INSERT INTO parley_grp (group_id, queue_id, service, name)
		     SELECT gen_random_uuid(), ` + q + `, 's', '' FROM generate_series(1, ` + n + `)`)
		run(`INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, endpoint, priority, next_seq, closed, held, touched)
		     SELECT group_id, 2, group_id, queue_id, group_id, 5, 1, 0, 0, 0 FROM parley_grp WHERE queue_id = ` + q)
		run(`INSERT INTO parley_endpoint (handle, conversation, peer, initiator, service, far, contract, queue_id, group_id, priority, begun)
		     SELECT group_id, group_id, group_id, 0, 's', 's', 'c', queue_id, group_id, 5, 0 FROM parley_grp WHERE queue_id = ` + q)
		run(`INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, since)
		     SELECT stream_id, 0, gen_random_uuid(), 2, 'm', 'body', row_number() OVER () FROM parley_stream WHERE queue_id = ` + q)
		run(`INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
		     SELECT queue_id, stream_id, stream_id, 5, row_number() OVER () FROM parley_stream WHERE queue_id = ` + q)
	}
	fillPosts := func(queue, rows int) {
		run(fmt.Sprintf(`INSERT INTO parley_post (post_id, queue_id, priority, since, type, body)
		     SELECT gen_random_uuid(), %d, 4, n, 'm', 'body' FROM generate_series(1, %d) n`, queue, rows))
	}
	fill := func() {
		fillStreams(1, rows)
		fillPosts(1, rows)
		fillStreams(3, rows/5)
		fillPosts(4, rows/5)
	}
	empty := func() {
		for _, table := range []string{"grp", "stream", "endpoint", "message", "ready", "post"} {
			ours := "queue_id > 0"
			if table == "message" {
				ours = "since > 0"
			}
			run("DELETE FROM parley_" + table + " WHERE " + ours)
			run("VACUUM ANALYZE parley_" + table)
		}
	}
	known := func() {
		for _, table := range []string{"grp", "stream", "endpoint", "message", "ready", "post"} {
			run("VACUUM ANALYZE parley_" + table)
		}
	}
	connect := func() *sql.Conn {
		t.Helper()
		conn, err := db.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	look := func(situation string, conn *sql.Conn) {
		t.Helper()
		var group, stream, post string
		err := conn.QueryRowContext(ctx, fmt.Sprintf(`
			SELECT array_agg(group_id)::text, array_agg(stream_id)::text,
			       (SELECT array_agg(post_id)::text FROM (SELECT post_id FROM %[1]s.parley_post ORDER BY queue_id DESC LIMIT 10) p)
			  FROM (SELECT group_id, stream_id FROM %[1]s.parley_ready ORDER BY queue_id = 1 DESC LIMIT 10) r`, name)).Scan(&group, &stream, &post)
		if err != nil {
			t.Fatal(err)
		}
		one := strings.Split(strings.Trim(stream, "{}"), ",")[0]
		h, q := &s.pool.hot, s.Q()
		for _, x := range slices.Concat(dialogs(s, one), hotOnes(s, group, stream, post, rows), lists(q, one, rows)) {
			buffers, plan := explain(t, conn, x.q, x.args)
			limit := 500
			switch {
			case x.q == q.Stale:
				// A maintenance job, whose thousand rows need two lookups each; it may sort
				// them too, if that is what the planner wants.
				limit = 14000
			case x.q == q.EndpointsAfter, x.q == q.GroupsAfter, x.q == q.GroupDetails:
				limit = 2000 // a hundred rows of a walk, or fifty groups
			case x.q == h.Pages[0], x.q == h.Promotions[0], x.q == q.PendingKeyed, strings.HasPrefix(x.q.Name, "List"):
				limit = 9000 // walks and lists may sort what there is
			}
			if buffers > limit {
				t.Errorf("%s, %s: %d pages\n%s", situation, x.q.Name, buffers, plan)
			}
			if (x.q == q.StreamsOfEndpoint || x.q == q.MessagesOfEndpoint) && !regexp.MustCompile(`Index Cond: .*endpoint`).MatchString(plan) {
				t.Errorf("%s: to end a conversation is to read all streams of its group\n%s", situation, plan)
			}
			if strings.Contains(plan, "JIT:") && x.q != q.ListReady && x.q != q.ListReadyAfter { // which run without
				t.Errorf("%s, %s: compiled, which takes longer than to run it\n%s", situation, x.q.Name, plan)
			}
		}
		// A claim that walks far does not look up each group that is held by lease.
		for queue, q := range map[int64]*sqlstore.Stmt{
			1: fixedStmt(s, h.Claims[deep][limit(10)], 1, 1<<20, preferHead),
			3: fixedStmt(s, h.StreamClaims[deep][limit(10)], 3),
		} {
			first := fmt.Sprintf(` WHERE group_id IN (SELECT group_id FROM parley_ready WHERE queue_id = %d ORDER BY priority DESC, since LIMIT 1000)`, queue)
			run(`UPDATE parley_grp SET lease_until = 9000000000000000000` + first)
			buffers, plan := explain(t, conn, q, nil)
			if buffers > 2000 {
				t.Errorf("%s, a %s behind 1000 held groups: %d pages\n%s", situation, q.Name, buffers, plan)
			}
			run(`UPDATE parley_grp SET lease_until = 0` + first)
		}
	}
	early := connect()
	look("next to nothing", early)
	fill()
	look("rows that came in after the statements had been planned", early)
	look("rows that the planner does not know of", connect())
	known()
	look("rows that it knows", connect())
	empty()
	fill()
	look("rows in tables that it knows as empty", connect())
}

// fixedStmt is a claim's statement with its arguments in the text.
func fixedStmt(s *Store, q *sqlstore.Stmt, args ...int64) *sqlstore.Stmt {
	q, _ = s.pool.fixed(q, args...)
	return q
}

// hotOnes are the statements that are not those of dialogs and lists.
func hotOnes(s *Store, group, stream, post string, rows int) []execution {
	h, q := &s.pool.hot, s.Q()
	one := strings.Split(strings.Trim(stream, "{}"), ",")[0]
	zeros, ones := "{"+strings.Repeat("0,", 9)+"0}", "{"+strings.Repeat("1,", 9)+"1}"
	return []execution{
		{h.Claims[near][limit(10)], []any{1, 1 << 20, 0}},
		{h.Claims[near][limit(10)], []any{2, 1 << 20, 0}}, // of a queue without anything
		{fixedStmt(s, h.Claims[near][limit(10)], 1, 1<<20, preferHead), nil},
		{fixedStmt(s, h.Claims[near][limit(10)], 2, 1<<20, preferHead), nil},
		{h.StreamClaims[near][limit(10)], []any{3}},
		{fixedStmt(s, h.StreamClaims[near][limit(10)], 2), nil},
		{fixedStmt(s, h.StreamClaims[near][limit(10)], 3), nil},
		{fixedStmt(s, h.PostClaims[limit(10)], 4, 1<<20), nil},
		{h.Pages[0], []any{1, 5, 0, 10}},
		{h.Pages[0], []any{1, 5, rows / 2, 10}},
		{h.Pages[0], []any{2, 900, 0, 10}},
		{h.Pages[0], []any{3, 900, 0, 10}},
		{h.Promotions[0], []any{1, 900, 0}},
		{h.ReadUsual[0], []any{group, 100, 1 << 20}},
		{h.Read[0], []any{group, 100, 1 << 20, nil, int64(time.Minute / time.Microsecond), "", 0}},
		{h.Send[0], []any{one, one, "m", "body", 2, 0, nil}},
		{h.SendState, []any{stream}},
		{h.Append, []any{stream, ones, stream, ones, ones, ones, ones, stream, ones, ones, stream, ones}},
		{h.PostKeyed, []any{1, "k", one, "m", "body", 5, 0, nil}},
		{h.Remove, []any{stream, zeros, stream, zeros}},
		{h.Finish, []any{stream}},
		{h.RemovePosts, []any{post}},
		{h.LeaseLocked, []any{post, 1, ""}},
		{h.Extend, []any{group, zeros, post, zeros, 1}},
		{q.Waiting, []any{1, 1}},
		{q.Stale, []any{1}},
		{q.GroupRead, []any{one}},
		{q.GroupVisible, []any{one}},
		{q.GroupStreams, []any{one}},
		{q.GroupUse, []any{one}},
		{q.GroupDetails, slices.Repeat([]any{one}, 100)},
		{q.GroupsAfter, []any{one, 100}},
		{q.EndpointRead, []any{one}},
		{q.EndpointHome, []any{one}},
		{q.EndpointsAfter, []any{one, 100}},
		{q.StreamRead, []any{one}},
		{q.StreamsOfEndpoint, []any{one, one}},
		{q.MessageRead, []any{one, 0, 100}},
		{q.MessageFind, []any{one}},
		{q.MarkersAstray, []any{one, 0, 0}},
		{h.Restore, []any{stream, one, 0}},
		{q.MarkerRead, []any{one}},
		{q.PostRead, []any{one}},
		{q.PostsFree, append(slices.Repeat([]any{one}, 50), 1)},
		{q.DelayedFree, append(slices.Repeat([]any{one}, 50), 1)},
		{q.ListConversations, []any{one, 100}},
		{q.ListConversation, []any{one, one, 100}},
		{q.ListConversationsOfGroup, []any{one, one, 100}},
		{q.ConversationCounts, []any{one}},
		{q.PostStatusKeyed, []any{one, 1}},
		{q.PostStatusPost, []any{one, 1}},
		{q.DueTimers, []any{0, 1, 1, 0, 0, one}},
		{q.TimerFirsts, []any{0}},
		{q.DueDelayed, []any{1, 1, 0, 0, one}},
		{q.DelayedFirsts, nil},
		{q.LostPromotions, []any{100}},
	}
}

// lists are the lists of groups and of what waits, from their beginnings and from the middle on.
func lists(q *sqlstore.Statements, one string, rows int) []execution {
	return []execution{
		{q.ListReady, []any{1, 900, 0, 100}},
		{q.ListReadyAfter, []any{1, 5, rows / 2, rows / 2, one, 0, 100}},
		{q.ListPosts, []any{1, 900, 0, 100}},
		{q.ListPostsAfter, []any{1, 4, rows / 2, rows / 2, one, 0, 100}},
		{q.ListPromoted, []any{1, 900, 0, 0, 100}},
		{q.ListPromotedAfter, []any{1, 900, 0, 0, one, 0, 0, 100}},
		{q.ListBlocked, []any{2, 1, 0, 0, one, 100}},
		{q.ListBlockedPosts, []any{2, 1, 0, 0, one, 100}},
		{q.ListLater, []any{one, 500}},
		{q.ListHeld, []any{one, 500}},
		{q.ListHeldIn, []any{one, 0, 500}},
		{q.ListMessages, []any{one, 500}},
		{q.ListMessagesIn, []any{one, 0, 500}},
		{q.ListPostsByID, []any{one, 500}},
		{q.PendingKeyed, []any{1, one, 500}},
	}
}

// dialogs are the statements that begin and end conversations, of which one is a side.
func dialogs(s *Store, one string) []execution {
	h, q := &s.pool.hot, s.Q()
	ids := func() string {
		list := make([]backend.ID, 10)
		for i := range list {
			list[i] = backend.NewID()
		}
		return uuids(list)
	}
	some := "{" + one + "," + strings.TrimPrefix(ids(), "{")
	zeros, ones := ints(make([]int, 10)), texts(slices.Repeat([]string{"1"}, 10))
	return []execution{
		{h.SendMany, []any{some, ids(), ones, ones, ones, ones, 0}},
		{h.BeginDialogs, []any{0, ids(), ids(), ids(), ones, ones, ones, ones, ones, zeros, ones, zeros,
			ids(), zeros, ids(), ones, ones, ones, ones}},
		{q.MessagesOfEndpoint, []any{one, one}},
		{q.EndRead, []any{one}},
		{h.EndFirst, []any{some, ids(), "end"}},
		{h.EndLast, []any{some}},
		{h.EndGuards, []any{one, one}},
		{h.DropUnread, []any{one, one}},
		{h.RemoveSides, []any{one, backend.NewID().String()}},
		{q.ClosingsDelete, []any{one, one}},
		{q.StreamsDelete, []any{one, one}},
		{q.EndpointsDelete, []any{one, one}},
	}
}

// execution is a statement with its arguments.
type execution struct {
	q    *sqlstore.Stmt
	args []any
}

var pages = regexp.MustCompile(`(?:shared|local) hit=(\d+)|read=(\d+)`)

// explain runs a prepared statement with a generic plan, in a transaction that is rolled back. It
// returns how many pages the statement has touched. The connection keeps the statement, and its plan.
func explain(t *testing.T, conn *sql.Conn, q *sqlstore.Stmt, args []any) (buffers int, plan string) {
	t.Helper()
	ctx := context.Background()
	exec := func(text string) {
		t.Helper()
		if _, err := conn.ExecContext(ctx, text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	exec("BEGIN")
	defer exec("ROLLBACK")
	exec("SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL statement_timeout = '20s'")
	name, known := fmt.Sprintf("x%p", q), false
	if err := conn.QueryRowContext(ctx, "SELECT count(*) > 0 FROM pg_prepared_statements WHERE name = '"+name+"'").Scan(&known); err != nil {
		t.Fatal(err)
	}
	if !known {
		exec("PREPARE " + name + " AS " + q.Text)
	}
	var list []string
	for _, a := range args {
		switch v := a.(type) {
		case nil:
			list = append(list, "NULL")
		case string:
			list = append(list, "'"+v+"'")
		default:
			list = append(list, fmt.Sprint(v))
		}
	}
	params := ""
	if len(list) > 0 {
		params = "(" + strings.Join(list, ", ") + ")"
	}
	rows, err := conn.QueryContext(ctx, "EXPLAIN (ANALYZE, BUFFERS) EXECUTE "+name+params)
	if err != nil {
		t.Fatalf("%s: %v", q.Name, err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		all = append(all, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", q.Name, err)
	}
	for _, line := range all {
		if strings.HasPrefix(line, " ") && strings.Contains(line, "Buffers:") && buffers == 0 {
			for _, m := range pages.FindAllStringSubmatch(line, -1) {
				n, _ := strconv.Atoi(m[1] + m[2])
				buffers += n
			}
		}
	}
	return buffers, strings.Join(all, "\n")
}
