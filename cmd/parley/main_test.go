package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/conformance"
)

// tool runs the command as a shell would.
func tool(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// works runs a command that must succeed.
func works(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := tool(t, args...)
	if code != 0 {
		t.Fatalf("parley %s: exit code %d\n%s", strings.Join(args, " "), code, errs)
	}
	return out
}

// database makes a migrated SQLite file with a queue on which two conversations
// wait, and returns its name and the groups in their order.
func database(t *testing.T) (db string, groups []parley.ID) {
	t.Helper()
	ctx := t.Context()
	db = "sqlite:" + filepath.Join(t.TempDir(), "tool.db")
	works(t, "migrate", "--db", db)
	b, err := parley.Open(ctx, db, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	err = b.Define(ctx, parley.Catalog{
		Contracts: []parley.Contract{},
		Queues:    []parley.Queue{{Name: "work"}, {Name: "home"}},
		Services:  []parley.Service{{Name: "Home", Queue: "home"}, {Name: "Work", Queue: "work", Contracts: []string{parley.DefaultContract}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		err := b.InTx(ctx, func(tx *parley.Tx) error {
			c, err := tx.Begin(ctx, "Home", "Work", nil)
			if err != nil {
				return err
			}
			return c.Send(ctx, "", []byte("do"))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	list, err := b.Admin().Groups(ctx, "work", parley.Place{}, 10)
	if err != nil || len(list) != 2 {
		t.Fatalf("%d groups, %v", len(list), err)
	}
	return db, []parley.ID{list[0].Group, list[1].Group}
}

func TestStatus(t *testing.T) {
	db, _ := database(t)
	out := works(t, "status", "--db", db)
	if !strings.Contains(out, "work") || !strings.Contains(out, "on") {
		t.Errorf("status prints\n%s", out)
	}
	var queues []parley.QueueStatus
	if err := json.Unmarshal([]byte(works(t, "status", "--db", db, "--json")), &queues); err != nil {
		t.Fatal(err)
	}
	depth := map[string]int{}
	for _, q := range queues {
		depth[q.Name] = q.Depth
	}
	if depth["work"] != 2 || depth["home"] != 0 {
		t.Errorf("depths are %v, want 2 messages in work", depth)
	}
}

func TestPromoteAndDemote(t *testing.T) {
	db, groups := database(t)
	first := func() string {
		lines := strings.Split(works(t, "groups", "work", "--db", db), "\n")
		return strings.Fields(lines[1])[0]
	}
	if got := first(); got != groups[0].String() {
		t.Fatalf("the first group is %s, want the older, %s", got, groups[0])
	}
	works(t, "promote", groups[1].String(), "90", "--db", db)
	if got := first(); got != groups[1].String() {
		t.Errorf("after its promotion the first group is %s, want %s", got, groups[1])
	}
	works(t, "demote", groups[1].String(), "--db", db)
	if got := first(); got != groups[0].String() {
		t.Errorf("after demote the first group is %s, want %s", got, groups[0])
	}
	b, err := parley.Open(t.Context(), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Post(t.Context(), "work", parley.Payload{}, parley.Key("customer-7")); err != nil {
		t.Fatal(err)
	}
	works(t, "promote", "work", "--key", "customer-7", "--db", db)
	if got := first(); got == groups[0].String() || got == groups[1].String() {
		t.Errorf("after the promotion of a key the first group is %s", got)
	}
	for _, key := range []string{"eu/1", "us/1", "eu/2"} {
		if _, err := b.Post(t.Context(), "work", parley.Payload{}, parley.Key(key)); err != nil {
			t.Fatal(err)
		}
	}
	if out := works(t, "promote", "work", "--prefix", "eu/", "120", "--db", db); !strings.Contains(out, "2") {
		t.Errorf("two keys begin with eu/: %s", out)
	}
	if list, err := b.Admin().Groups(t.Context(), "work", parley.Place{}, 3); err != nil || list[0].Key != "eu/1" || list[1].Key != "eu/2" || list[2].Key != "customer-7" {
		t.Errorf("after the promotion of two keys the first groups are %+v, %v", list, err)
	}
	if out := works(t, "promote", "work", "--older", "1h", "--db", db); !strings.Contains(out, "0") {
		t.Errorf("nothing is so old: %s", out)
	}
	if code, _, _ := tool(t, "promote", "work", "--older", "1h", "--key", "none", "--db", db); code == 0 {
		t.Error("both a key and a filter")
	}
	if code, _, errs := tool(t, "promote", "work", "--key", "none", "--db", db); code != 1 || !strings.Contains(errs, "no such conversation group") {
		t.Errorf("a key without posts: exit code %d, %s", code, errs)
	}
}

func TestConversations(t *testing.T) {
	db, _ := database(t)
	var sides []parley.ConversationStatus
	if err := json.Unmarshal([]byte(works(t, "conversations", "--db", db, "--json")), &sides); err != nil {
		t.Fatal(err)
	}
	if len(sides) != 4 {
		t.Fatalf("%d sides of 2 conversations", len(sides))
	}
	one := works(t, "conversations", sides[0].Handle.String(), "--db", db)
	if n := strings.Count(one, "\n"); n != 3 { // the head and both sides
		t.Errorf("one conversation is printed in %d lines:\n%s", n, one)
	}
}

func TestMigratePrint(t *testing.T) {
	db := "sqlite:" + filepath.Join(t.TempDir(), "print.db")
	out := works(t, "migrate", "--print", "--db", db)
	if !strings.Contains(out, "CREATE TABLE") || !strings.Contains(out, "parley_message") {
		t.Errorf("migrate --print prints\n%.300s", out)
	}
	if code, _, errs := tool(t, "status", "--db", db); code != 1 || !strings.Contains(errs, "parley migrate") {
		t.Errorf("status of a database that is not there: exit code %d, %s", code, errs)
	}
}

func TestBadInput(t *testing.T) {
	db, _ := database(t)
	t.Setenv("PARLEY_DB", "")
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 2, "Usage"},
		{[]string{"fly"}, 2, `unknown command "fly"`},
		{[]string{"status"}, 2, "--db"},
		{[]string{"status", "--db", "nosuch:thing"}, 1, "forgotten import"},
		{[]string{"status", "--fly"}, 2, "fly"},
		{[]string{"groups", "--db", db}, 2, "QUEUE"},
		{[]string{"groups", "nowhere", "--db", db}, 1, `"nowhere"`},
		{[]string{"groups", "work", "--limit", "0", "--db", db}, 1, "limit 0"},
		{[]string{"promote", "x", "--db", db}, 1, `"x" is not an id`},
		{[]string{"promote", parley.NewID().String(), "--db", db}, 1, "no such conversation group"},
		{[]string{"promote", parley.NewID().String(), "many", "--db", db}, 1, "level"},
		{[]string{"promote", parley.NewID().String(), "256", "--db", db}, 1, "256"},
		{[]string{"demo"}, 2, "priority"},
		{[]string{"demo", "nothing"}, 2, "nothing"},
		{[]string{"conformance"}, 2, "--db"},
	} {
		code, out, errs := tool(t, test.args...)
		if code != test.code || !strings.Contains(errs, test.says) {
			t.Errorf("parley %s: exit code %d, want %d, and this, want %q:\n%s%s", strings.Join(test.args, " "), code, test.code, test.says, out, errs)
		}
	}
}

func TestDemo(t *testing.T) {
	_, out, errs := tool(t, "demo", "priority", "--requests", "21", "--work", "1ms")
	if !strings.Contains(errs, "parley console --write --db 'sqlite:") {
		t.Errorf("the demo says nothing of how to look at it: %s", errs)
	}
	want := "response 0\nresponse 20\nresponse 10\nresponse 1\nresponse 2\n"
	if !strings.HasPrefix(out, want) || strings.Count(out, "response") != 21 {
		t.Errorf("the demo prints\n%s\nwant it to begin with\n%s", out, want)
	}
}

func TestDemoPhases(t *testing.T) {
	out := works(t, "demo", "phases", "--unit", "5ms")
	if strings.Count(out, "|") != 20 || !strings.Contains(out, "\n10 tasks, ") {
		t.Errorf("the demo prints\n%s", out)
	}
}

func TestConformanceCommand(t *testing.T) {
	db, groups := database(t)
	out := works(t, "conformance", "--db", db, "--run", "^D0[12]/")
	if !strings.Contains(out, "sqlite") || !strings.HasSuffix(strings.TrimSpace(out), "0 failed, 0 skipped") {
		t.Errorf("conformance prints\n%s", out)
	}
	list := works(t, "groups", "work", "--db", db)
	if !strings.Contains(list, groups[0].String()) {
		t.Errorf("after the suite the installation beside it has the groups\n%s", list)
	}
	if out := works(t, "conformance", "--list"); !strings.Contains(out, "D01") {
		t.Errorf("conformance --list prints\n%.300s", out)
	}
}

// TestConformanceReport: one command writes one file with all results of an engine, without the
// names of its host and file.
func TestConformanceReport(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for five seconds")
	}
	dbs := map[string]string{"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "report.db")}
	for engine, name := range map[string]string{"postgres": "PARLEY_TEST_POSTGRES", "mariadb": "PARLEY_TEST_MARIADB"} {
		if db := os.Getenv(name); db != "" {
			dbs[engine] = db
		}
	}
	for engine, db := range dbs {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "out.json")
			works(t, "conformance", "--db", db, "--run", "^D0[12]/", "--report", file, "--time", "1s")
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var r conformance.Report
			if err := json.Unmarshal(text, &r); err != nil {
				t.Fatal(err)
			}
			figures, _ := r.Figures.([]any)
			if r.Engine != engine || r.Passed < 2 || r.Failed > 0 || len(r.Checks) < 2 || len(r.Locks) < 50 || len(figures) != 5 || len(r.Problems) > 0 {
				t.Errorf("engine %s, %d passed, %d failed, %d checks, %d pairs of locks, figures %v, problems %v",
					r.Engine, r.Passed, r.Failed, len(r.Checks), len(r.Locks), figures, r.Problems)
			}
			result := func(first, then string) string {
				i := slices.IndexFunc(r.Locks, func(x conformance.LockProbe) bool { return x.First == first && x.Then == then })
				return r.Locks[i].Result
			}
			if got := result("send on a conversation", "send on a conversation"); got != "waits" {
				t.Errorf("two senders of one conversation: %s", got)
			}
			if got := result("nothing", "claim a group"); got != "passes: waits in one" {
				t.Errorf("a claim alone: %s", got)
			}
			for _, secret := range secrets(db) {
				if strings.Contains(string(text), secret) {
					t.Errorf("%q is in the report", secret)
				}
			}
		})
	}
}

// TestSecrets: what a report must not contain of a database's name.
func TestSecrets(t *testing.T) {
	for db, want := range map[string][]string{
		"sqlserver://sa:p%40ss@db.example.com:1433?database=app&server+spn=MSSQLSvc/x": {"db.example.com", "p@ss", "p%40ss", "MSSQLSvc/x"},
		"postgres:///app?host=/run/pg&sslpassword=key":                                 {"/run/pg", "key"},
		"postgres://u:pw@one.example:1,two.example:2/app":                              {"one.example", "two.example", "pw"},
		"sqlite:/home/me/app.db":                                                       {"/home/me/app.db"},
		"sqlite:app.db?x=1":                                                            {"app.db"},
	} {
		got := secrets(db)
		for _, s := range want {
			if !slices.Contains(got, s) {
				t.Errorf("%s: %q lacks %q", db, got, s)
			}
		}
	}
	for _, s := range secrets("sqlite:x.db") {
		if s == "" {
			t.Error("an empty text is no secret")
		}
	}
}

// bench measures in separate tables and leaves none behind.
func TestBench(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for five seconds")
	}
	db := "sqlite:" + filepath.Join(t.TempDir(), "bench.db")
	var got struct {
		Engine  string
		Figures []figure
	}
	if err := json.Unmarshal([]byte(works(t, "bench", "--db", db, "--time", "1s", "--json")), &got); err != nil {
		t.Fatal(err)
	}
	if got.Engine != "sqlite" || len(got.Figures) != 5 {
		t.Fatalf("got %+v, want 5 figures of sqlite", got)
	}
	for _, f := range got.Figures {
		if f.Messages == 0 || f.Rate <= 0 && (f.P50 <= 0 || f.P99 < f.P50) {
			t.Errorf("%+v: want something measured", f)
		}
	}
	file, err := sql.Open("sqlite", strings.TrimPrefix(db, "sqlite:"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var left int
	if err := file.QueryRow("SELECT count(*) FROM sqlite_master WHERE name LIKE 'parley%'").Scan(&left); err != nil || left > 0 {
		t.Errorf("%d tables and indexes are left behind, %v", left, err)
	}
}

func TestBenchRefusesArguments(t *testing.T) {
	db := "sqlite:" + filepath.Join(t.TempDir(), "bench.db")
	for _, args := range [][]string{{"--time", "1ms"}, {"--senders", "0"}, {"--size", "-1"}, {"more"}} {
		if code, _, errs := tool(t, append([]string{"bench", "--db", db}, args...)...); code != 2 || errs == "" {
			t.Errorf("bench %v: exit code %d, %q; want 2 and a reason", args, code, errs)
		}
	}
}

// TestMigrateReports: the command says what it did, and prints what a schema lacks.
func TestMigrateReports(t *testing.T) {
	db := "sqlite:" + filepath.Join(t.TempDir(), "app.db")
	if out := works(t, "migrate", "--db", db); !strings.Contains(out, "schema 1\n") || !strings.Contains(out, "had version 0 and has version ") {
		t.Errorf("the first migrate prints\n%s", out)
	}
	if out := works(t, "migrate", "--db", db); !strings.Contains(out, "nothing to add") {
		t.Errorf("the second migrate prints\n%s", out)
	}
	var did migrated
	if err := json.Unmarshal([]byte(works(t, "migrate", "--json", "--db", db)), &did); err != nil || did.To < 3 || did.From != did.To || len(did.Steps) > 0 {
		t.Errorf("migrate --json says %+v, %v", did, err)
	}
	file, err := sql.Open("sqlite", strings.TrimPrefix(db, "sqlite:"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Exec("UPDATE parley_meta SET min_program = 0, oldest_program = 0"); err != nil {
		t.Fatal(err)
	}
	if out := works(t, "migrate", "--db", db); strings.Contains(out, "older") {
		t.Errorf("migrate without --finish prints\n%s", out)
	}
	for _, want := range []bool{true, false} {
		if out := works(t, "migrate", "--finish", "--db", db); strings.Contains(out, "is left\n") != want {
			t.Errorf("migrate --finish prints\n%s", out)
		}
	}
	if out := works(t, "migrate", "--print", "--from", "2", "--db", db); !strings.Contains(out, "min_program") || strings.Contains(out, "parley_message (") {
		t.Errorf("migrate --print --from 2 prints\n%.300s", out)
	}
	if out := works(t, "migrate", "--print", "--from", fmt.Sprint(did.To), "--db", db); out != "" {
		t.Errorf("there is nothing after the last version, but this is printed:\n%s", out)
	}
	for _, from := range []string{"-1", "99"} {
		if code, _, errs := tool(t, "migrate", "--print", "--from="+from, "--db", db); code != 1 || !strings.Contains(errs, "want a version from 0 to") {
			t.Errorf("--from=%s: exit code %d, %s", from, code, errs)
		}
	}
}

// TestGrants: SQLite says that it has no roles, and an unknown role is refused.
// The engines' tests try what the others print.
func TestGrants(t *testing.T) {
	db, _ := database(t)
	code, out, errs := tool(t, "grants", "--db", db, "--role", "sender")
	if code != 1 || out != "" || !strings.Contains(errs, "file system") {
		t.Errorf("on SQLite: exit code %d, %q, %q", code, out, errs)
	}
	if code, _, errs = tool(t, "grants", "--db", db, "--role", "king"); code != 1 || !strings.Contains(errs, "sender") {
		t.Errorf("of a role that there is not: exit code %d, %q", code, errs)
	}
	if code, _, _ = tool(t, "grants", "--db", db); code != 2 {
		t.Errorf("without a role: exit code %d", code)
	}
}
