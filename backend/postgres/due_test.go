package postgres

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestDuePlans: a process that asks every second whether anything is due does not
// read what is not.
func TestDuePlans(t *testing.T) {
	ctx := context.Background()
	db, _ := database(t, "due")
	s := New(db, &Options{Pooler: PoolerNever})
	if err := s.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	run := func(text string) {
		t.Helper()
		if _, err := db.Exec(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	later := strconv.FormatInt(time.Now().Add(24*time.Hour).UnixMicro(), 10)
	const none = "00000000-0000-0000-0000-000000000000"
	const schedule = "00000000-0000-0000-0000-0000000000aa"
	run(`INSERT INTO parley_queue VALUES (1, 'q', 1, 0, 0)`)
	run(`INSERT INTO parley_schedule (name, schedule_id, max_active, go_on, accept_late, max_attempts, caller, purpose, made)
	     VALUES ('s', '` + schedule + `', 0, 0, 0, 1, '', '', 0)`)
	for _, text := range []string{
		`grp (group_id, queue_id, service, name, blocked, blocked_until) SELECT gen_random_uuid(), 1, 's', '', 1, later`,
		`post (post_id, queue_id, priority, since, type, blocked, blocked_until) SELECT gen_random_uuid(), 1, 5, n, 'm', 1, later`,
		`endpoint (handle, conversation, peer, initiator, service, far, contract, queue_id, group_id, priority, begun, finish_at)
		 SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 0, 's', 's', 'c', 1, gen_random_uuid(), 5, 0, later`,
		`delayed (post_id, queue_id, name, priority, type, begun, due) SELECT gen_random_uuid(), 1, '', 5, 'm', 0, later`,
		`timer (handle, kind, due, queue_id) SELECT gen_random_uuid(), n % 2, later, 1`,
		`processed (post_id, queue_id, name, type, keep_until) SELECT gen_random_uuid(), 1, '', 'm', later`,
		`once (name, keep_until) SELECT 'n' || n, later`,
		`task (task_id, schedule_id, n, phase, type, caller, submitted, state, due) SELECT gen_random_uuid(), '` + schedule + `', n, 1, 'm', '', 0, 1, later`,
	} {
		run(strings.ReplaceAll("INSERT INTO parley_"+text+" FROM generate_series(1, 20000) n", "later", later))
	}
	q := s.Q()
	look := func(situation string) {
		t.Helper()
		conn, err := db.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, x := range []execution{
			{q.DelayedFirsts, nil},
			{q.DueDelayed, []any{1, 1, 0, 0, none}},
			{q.TimerFirsts, []any{0}},
			{q.DueTimers, []any{1, 1, 1, 0, 0, none}},
			{q.DueGroups, []any{100}},
			{q.NextPost, nil},
			{q.DuePosts, []any{0, 0, none}},
			{q.DueProcessed, []any{100}},
			{q.OnceDue, []any{100}},
			{q.FinishedEndpoints, []any{100}},
			{q.TasksDue, []any{schedule, 1, 100}},
			{q.SchedulesReady, nil},
		} {
			if pages, plan := explain(t, conn, x.q, x.args); pages > 50 {
				t.Errorf("%s, %s: %d pages\n%s", situation, x.q.Name, pages, plan)
			}
		}
	}
	look("rows that the planner does not know of")
	run("ANALYZE")
	look("rows that it knows")

	// A batch of many that are due reads what it moves, and none of other queues.
	run(`INSERT INTO parley_queue VALUES (2, 'other', 0, 0, 0)`)
	for _, queue := range []string{"1", "2"} {
		run(`INSERT INTO parley_delayed (post_id, queue_id, name, priority, type, begun, due)
		     SELECT gen_random_uuid(), ` + queue + `, '', 5, 'm', 0, 1 + (n * 7919) % 20000 FROM generate_series(1, 20000) n`)
		run(`INSERT INTO parley_timer (handle, kind, due, queue_id)
		     SELECT gen_random_uuid(), n % 2, 1 + (n * 7919) % 20000, ` + queue + ` FROM generate_series(1, 20000) n`)
	}
	run(`INSERT INTO parley_post (post_id, queue_id, priority, since, type, blocked, blocked_until)
	     SELECT gen_random_uuid(), 1, 5, n, 'm', 1, 1 + (n * 7919) % 20000 FROM generate_series(1, 20000) n`)
	for range 2 {
		conn, err := db.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []execution{
			{q.DelayedFirsts, nil},
			{q.TimerFirsts, []any{0}},
			{q.DueDelayed, []any{1, 1, 0, 0, none}},
			{q.DueDelayed, []any{1, 1, 10000, 10000, none}},
			{q.DueDelayed, []any{2, 2, 0, 0, none}},
			{q.DueTimers, []any{0, 1, 1, 0, 0, none}},
			{q.DueTimers, []any{0, 2, 2, 0, 0, none}},
			{q.DuePosts, []any{0, 0, none}},
		} {
			if pages, plan := explain(t, conn, x.q, x.args); pages > 250 {
				t.Errorf("a batch of many that are due, %s %v: %d pages\n%s", x.q.Name, x.args, pages, plan)
			}
		}
		conn.Close()
		run("ANALYZE")
	}
}
