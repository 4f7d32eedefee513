package sqlite_test

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parleymq/parley/backend/sqlstore"
)

// TestPlans looks at how SQLite would carry out each statement, and
// the view of queues. None may read all rows of a table that grows with what waits or is kept.
func TestPlans(t *testing.T) {
	file := path(t)
	b := open(t, file)
	db := user(t, file)
	look := func(name, text string) {
		t.Helper()
		rows, err := db.Query("EXPLAIN QUERY PLAN "+text, zeros(text)...)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
			return
		}
		defer rows.Close()
		var plan []string
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, detail)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		large := func(detail string) bool {
			m := scanned.FindStringSubmatch(detail)
			return m != nil && !slices.Contains(small, m[1]) && !slices.Contains(plan, "CO-ROUTINE "+m[1]) && !slices.Contains(plan, "MATERIALIZE "+m[1])
		}
		sorts := func(detail string) bool { return strings.HasPrefix(detail, "USE TEMP B-TREE") }
		if strings.HasPrefix(name, "Due") && slices.ContainsFunc(plan, sorts) {
			t.Errorf("%s sorts all that is due:\n  %s", name, strings.Join(plan, "\n  "))
		}
		if slices.ContainsFunc(plan, large) {
			t.Errorf("%s reads a whole table:\n  %s", name, strings.Join(plan, "\n  "))
		}
	}
	q := reflect.ValueOf(b.Q()).Elem()
	for i := range q.NumField() {
		s := q.Field(i).Interface().(*sqlstore.Stmt)
		switch s {
		case b.Q().FindMessage: // an operator's look, by an id that only posts are found by
		case b.Q().SchemaLeases: // a migration's look
		case b.Q().RecurringList, b.Q().CancelList: // all of them
		case b.Q().ListLocks, b.Q().SchedulesReady: // small tables, with other names
		default:
			if !s.Empty() {
				look(s.Name, s.Text)
			}
		}
	}
	var detail string
	var unused [3]int
	if err := db.QueryRow("EXPLAIN QUERY PLAN "+b.Q().StreamsOfEndpoint.Text, 0, 0).Scan(&unused[0], &unused[1], &unused[2], &detail); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(detail, "endpoint=?") {
		t.Errorf("to end a conversation is to read all streams of its group: %s", detail)
	}
	look("parley_queues", "SELECT * FROM parley_queues")
}

// scanned is a table, or its alias, that is read without an index.
var scanned = regexp.MustCompile(`^SCAN (\w+)$`)

// small are tables that stay small however much waits: v is parley_meta, q
// parley_queue.
var small = []string{
	"sqlite_master", "parley_meta", "v", "parley_object", "parley_definition", "q", "parley_worker",
	"parley_lock_owner", "parley_schedule",
}

// zeros are arguments for all parameters of a statement.
func zeros(text string) []any {
	most := 0
	for _, m := range parameter.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[1])
		most = max(most, n)
	}
	return slices.Repeat([]any{0}, most)
}

var parameter = regexp.MustCompile(`\?(\d+)`)
