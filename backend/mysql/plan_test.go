package mysql

import (
	"database/sql"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parleymq/parley/backend"
)

// TestPlans: what changes rows by their keys, or locks them, looks each up by its key, however small the tables are. A scan would wait
// for rows that other transactions have locked.
func TestPlans(t *testing.T) {
	for _, env := range []string{"PARLEY_TEST_MYSQL", "PARLEY_TEST_MARIADB"} {
		t.Run(env, func(t *testing.T) {
			address := os.Getenv(env)
			if address == "" {
				t.Skip(env + " is not set: it is the URL of a database for tests")
			}
			o := &Options{Prefix: fmt.Sprintf("plan%d_", os.Getpid())}
			b, err := Open(t.Context(), address, o)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			defer b.Uninstall(t.Context())
			if err := b.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, rows := range []int{0, 3, 300} {
				fill(t, b.pool.db, o.Prefix, rows)
				for _, s := range planned(b) {
					explain(t, b.pool.db, s, rows)
				}
			}
			for _, from := range []backend.ID{{}, {15: 150}} {
				for _, q := range listed(b) {
					lists(t, b, q, from)
				}
			}
			details(t, b, o.Prefix)
			status(t, b, o.Prefix)
		})
	}
}

// fill puts rows into the tables in which keys are looked up.
func fill(t *testing.T, db *sql.DB, prefix string, n int) {
	t.Helper()
	for i := range n {
		id := fmt.Sprintf("x'%032x'", i+1)
		for _, values := range []string{
			"key (queue_id, name, stream_id) VALUES (1, 'k" + fmt.Sprint(i) + "', ?)",
			"stream (stream_id, kind, group_id, queue_id, endpoint, priority, next_seq, closed, held, touched) VALUES (?, 2, ?, 1, ?, 5, 1, 0, 0, 1)",
			"message (stream_id, seq, message_id, kind, type, since) VALUES (?, 0, ?, 3, 'x', 1)",
			"ready (queue_id, group_id, stream_id, priority, since) VALUES (1, ?, ?, 5, 1)",
			"closing (handle, id, kind, by_peer) VALUES (?, ?, 0, 1)",
			"post (post_id, queue_id, priority, since, type) VALUES (?, 1, 5, 1, 'x')",
			"delayed (post_id, queue_id, name, priority, type, begun, due) VALUES (?, 1, '', 5, 'x', 1, 1)",
			"endpoint (handle, conversation, peer, initiator, service, far, contract, queue_id, group_id, priority, begun) VALUES (?, ?, ?, 1, 'x', 'y', 'z', 1, ?, 5, 1)",
		} {
			if _, err := db.Exec("INSERT IGNORE INTO " + prefix + strings.ReplaceAll(values, "?", id)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := db.Exec("ANALYZE TABLE " + prefix + strings.Join([]string{"key", "stream", "message", "ready", "closing", "endpoint"}, ", "+prefix)); err != nil {
		t.Fatal(err)
	}
}

// statement is one with arguments, and the aliases of tables that it may read whole.
type statement struct {
	name, text string
	args       []any
	whole      []string
}

func planned(b *Store) []statement {
	h, id, other := b.pool.hot, backend.ID{15: 1}, backend.ID{15: 2}
	var c clearing
	c.message(id, 0)
	c.message(other, 0)
	c.marker(id, other)
	c.stream(id)
	c.rows = append(c.rows, []any{nil, nil, nil, nil, nil, id}, []any{nil, nil, nil, nil, nil, other})
	gone := either{columns: []string{"m.stream_id", "m.seq + 0"}, rows: [][]any{{id, 0}}}
	return []statement{
		{"Clear", h.Clear.Text, []any{c.table()}, []string{"k"}},
		{"RemoveQuiet", h.RemoveQuiet.Text, []any{c.table()}, []string{"k"}},
		{"CloseSides", h.CloseSides.Text, []any{tableOf("handle", []backend.ID{id, other})}, []string{"k"}},
		{"EndGuards", h.EndGuards.Text, []any{other[:], id[:]}, nil},
		{"EndUnread", b.Q().EndUnread.Text, []any{1, ids{id, other}}, nil},
		{"Look", h.Look.Text, []any{gone, ids{id, other}}, nil},
		{"AdvanceKey", h.AdvanceKey.Text, []any{5, 1, "k1"}, nil},
		{"InsertKeyed", h.InsertKeyed.Text, []any{1, id[:], 4, "t", []byte("b"), nil, 1, "k1", 1}, []string{"message"}},
		{"PlaceKey", h.PlaceKey.Text, []any{1, "k1"}, []string{"ready"}},
	}
}

// explain looks at the access type of each table.
func explain(t *testing.T, db *sql.DB, s statement, rows int) {
	t.Helper()
	text := s.text
	if strings.HasPrefix(text, "/*M!") {
		_, text, _ = strings.Cut(text, "*/")
	}
	text, args, err := inline(text, s.args, 0)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := db.Query("EXPLAIN FORMAT=TRADITIONAL "+text, args...)
	if err != nil {
		t.Errorf("%s: %v\n%s", s.name, err, text)
		return
	}
	defer plan.Close()
	names, err := plan.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for plan.Next() {
		values := make([]sql.NullString, len(names))
		places := make([]any, len(names))
		for i := range values {
			places[i] = &values[i]
		}
		if err := plan.Scan(places...); err != nil {
			t.Fatal(err)
		}
		table, access := values[slices.Index(names, "table")].String, values[slices.Index(names, "type")].String
		examined, _ := strconv.Atoi(values[slices.Index(names, "rows")].String)
		allowed := strings.HasPrefix(table, "<") || slices.ContainsFunc(s.whole, func(w string) bool { return table == w || strings.HasSuffix(table, "_"+w) })
		if (access == "ALL" || access == "index" || access == "range" && examined > 2) && !allowed {
			t.Errorf("%s reads %d rows of %d in %s by %q", s.name, examined, rows, table, access)
		}
	}
	if err := plan.Err(); err != nil {
		t.Fatal(err)
	}
}
