package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/recurring"
)

// jobs is a new database with queues, and the name of it.
func jobs(t *testing.T) (b *parley.Broker, db string) {
	db = "sqlite:" + filepath.Join(t.TempDir(), "tool.db")
	works(t, "migrate", "--db", db)
	b, err := parley.Open(t.Context(), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if err := b.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "mail"}, {Name: "post"}}}); err != nil {
		t.Fatal(err)
	}
	return b, db
}

// stored returns the only job.
func stored(t *testing.T, b *parley.Broker) recurring.Status {
	t.Helper()
	list, err := recurring.List(t.Context(), b)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d jobs, %v", len(list), err)
	}
	return list[0]
}

// TestRecurringDefine defines a job and changes it: what the flags do not say stays.
func TestRecurringDefine(t *testing.T) {
	b, db := jobs(t)
	for _, test := range []struct{ flags, want string }{
		{"--queue mail --body daily --cron 0,30,2,*,*,* --zone Europe/Berlin --jitter 1m --catch-up once --overlap skip",
			"1 mail daily [0 30 2 * * *] [Europe/Berlin] 0s 1m0s 1m0s once skip"},
		{"--queue post --every 1h", "2 post daily [] [] 1h0m0s 1m0s 1m0s once skip"},
		{"--cron @daily --catch-up all", "3 post daily [@daily] [] 0s 1m0s 1m0s all skip"},
		{"--zone Asia/Tokyo --grace 5m --revision 7", "7 post daily [@daily] [Asia/Tokyo] 0s 1m0s 5m0s all skip"},
	} {
		args := strings.Fields(test.flags)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], ",", " ")
		}
		works(t, append([]string{"recurring", "define", "digest", "--db", db}, args...)...)
		j := stored(t, b)
		got := fmt.Sprintf("%d %s %s [%s] [%s] %v %v %v %s %s", j.Revision, j.Queue, j.Body, j.Cron, j.Zone, j.Every, j.Jitter, j.Grace, j.CatchUp, j.Overlap)
		if got != test.want || !j.Due.After(j.Now) {
			t.Errorf("%s: the job is %s, due at %v, want %s", test.flags, got, j.Due, test.want)
		}
	}
	out := works(t, "recurring", "list", "--db", db)
	for _, want := range []string{"digest", "active", "@daily Asia/Tokyo", "up to 1m0s later", "all", "skip", date(stored(t, b).Due)} {
		if !strings.Contains(out, want) {
			t.Errorf("list prints\n%s\nwithout %q", out, want)
		}
	}
}

// TestRecurringVerbs runs a job that is paused, resumes, removes and defines it again.
func TestRecurringVerbs(t *testing.T) {
	b, db := jobs(t)
	works(t, "recurring", "define", "digest", "--queue", "mail", "--every", "1h", "--overlap", "skip", "--db", db)
	works(t, "recurring", "pause", "digest", "--db", db)
	id := strings.TrimSpace(works(t, "recurring", "run", "digest", "--db", db))
	code, again, errs := tool(t, "recurring", "run", "digest", "--db", db)
	if code != 1 || strings.TrimSpace(again) != id || !strings.Contains(errs, "pending") {
		t.Errorf("run again: exit code %d, %q, %q", code, again, errs)
	}
	d, err := b.Receive(t.Context(), "mail", nil)
	if err != nil || d.Messages[0].ID.String() != id {
		t.Fatalf("received is %v, %v", d, err)
	}
	if err := d.Ack(t.Context()); err != nil {
		t.Fatal(err)
	}
	if j := stored(t, b); j.State != recurring.StatePaused {
		t.Errorf("paused, the job is %+v", j)
	}
	for _, test := range []struct {
		args string
		code int
		says string
	}{
		{"resume digest", 0, ""},
		{"run digest", 0, ""},
		{"remove digest", 0, ""},
		{"", 2, "which verb"},
		{"fly digest", 2, `unknown command "fly"`},
		{"pause", 2, "JOB"},
		{"list digest", 2, "unknown command"},
		{"pause digest", 1, "no such recurring job"},
		{"define digest --every 1h --queue none", 1, "queue is not defined"},
		{"define digest --every 1h --queue mail --revision 1", 0, ""}, // an old revision: it stays removed
		{"run digest", 1, "no such recurring job"},
		{"define digest --every 1h --queue mail", 0, ""}, // the next one
		{"define digest --every 1ms", 1, "invalid option"},
		{"run digest", 0, ""},
	} {
		code, _, errs := tool(t, append(append([]string{"recurring"}, strings.Fields(test.args)...), "--db", db)...)
		if code != test.code || !strings.Contains(errs, test.says) {
			t.Errorf("parley recurring %s: exit code %d, %q", test.args, code, errs)
		}
	}
	if j := stored(t, b); j.Revision != 2 || j.State != recurring.StateActive || j.Overlap != "allow" {
		t.Errorf("defined anew, the job is %+v", j)
	}
}
