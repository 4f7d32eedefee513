package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/sure"
	"github.com/parleymq/parley/internal/wait"
)

// day is a database in an operator's hands, and what was typed and printed.
type day struct {
	t   *testing.T
	db  string
	b   *parley.Broker
	log strings.Builder
	ids []string // in the order in which they were seen
}

var (
	anID   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)
	aTime  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	anAge  = regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?m?s\b`)
	aCount = regexp.MustCompile(`("id"|_seconds"): [\d.e-]+`)
	spaces = regexp.MustCompile(`  +`)
)

// parley types a command. What differs between runs is named: ids by the order in which they
// come, times and ages by what they are.
func (d *day) parley(line string, more ...string) string {
	d.t.Helper()
	for i, id := range d.ids {
		line = strings.ReplaceAll(line, fmt.Sprintf("<%d>", i+1), id)
	}
	args := append(strings.Fields(line), more...)
	code, out, errs := tool(d.t, append(args, "--db", d.db)...)
	if more != nil {
		line += fmt.Sprintf(" %q", more)
	}
	text := fmt.Sprintf("$ parley %s\n%s%s", line, out, errs)
	if code != 0 {
		text += fmt.Sprintf("exit code %d\n", code)
	}
	text = anID.ReplaceAllStringFunc(text, func(id string) string {
		for i, known := range d.ids {
			if known == id {
				return fmt.Sprintf("<%d>", i+1)
			}
		}
		d.ids = append(d.ids, id)
		return fmt.Sprintf("<%d>", len(d.ids))
	})
	text = aCount.ReplaceAllString(text, "$1: NUMBER")
	text = anAge.ReplaceAllString(aTime.ReplaceAllString(text, "TIME"), "AGE")
	d.log.WriteString(spaces.ReplaceAllString(text, "  ") + "\n")
	return out
}

// work drains the queue as a program does that knows no customer 7.
func (d *day) work(knows bool) {
	d.t.Helper()
	mux := parley.NewMux()
	mux.HandleFunc("order", func(_ context.Context, m *parley.Message) error {
		switch {
		case knows:
			return nil
		case m.Key == "customer-7":
			return parley.Park(errors.New("no such customer"))
		case m.Key == "":
			return parley.DeadLetter(errors.New("no such article"))
		}
		return parley.Defer(time.Hour)
	})
	if err := sure.Of(d.b.NewWorker("orders", mux, nil)).Drain(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
}

// TestOperatorsDay plays a day of an operator who has nothing but the command, on each engine,
// and compares what is printed with testdata/day.txt. UPDATE=1 writes that file.
func TestOperatorsDay(t *testing.T) {
	dbs := map[string]string{"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "day.db")}
	for engine, name := range map[string]string{"postgres": "PARLEY_TEST_POSTGRES", "mariadb": "PARLEY_TEST_MARIADB", "mysql": "PARLEY_TEST_MYSQL"} {
		if db := os.Getenv(name); db != "" {
			dbs[engine] = withPrefix(db, "parley_day"+parley.NewID().String()[24:]+"_")
		}
	}
	for engine, db := range dbs {
		t.Run(engine, func(t *testing.T) { playDay(t, engine, db) })
	}
}

func playDay(t *testing.T, engine, db string) {
	works(t, "migrate", "--db", db)
	b, err := parley.Open(t.Context(), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := wait.Cleanup(t.Context())
		defer cancel()
		if err := b.Backend().Uninstall(ctx); err != nil {
			t.Error(err)
		}
		b.Close()
	})
	err = b.Define(t.Context(), parley.Catalog{
		Types:  []parley.MessageType{{Name: "order"}},
		Queues: []parley.Queue{{Name: "mail"}, {Name: "orders"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	d := &day{t: t, db: db, b: b}

	d.stuckGroup()
	d.stoppedQueue()
	d.delayedAndRecurring()

	const file = "testdata/day.txt"
	got := d.log.String()
	if os.Getenv("UPDATE") != "" && engine == "sqlite" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the day differs from %s (UPDATE=1 writes it):\n%s", file, difference(string(want), got))
	}
}

// stuckGroup: a group is stuck; it is found, explained and retried.
func (d *day) stuckGroup() {
	d.parley("post orders --type order --key customer-7 --body", "first")
	d.parley("post orders --type order --key customer-7 --body", "second")
	d.parley("post orders --type order --key customer-8 --body", "third")
	d.parley("post orders --type order --body", "\x1b[2J")
	d.parley("peek orders --limit 2")
	d.work(false)

	d.parley("status orders")
	d.parley("parked")
	d.parley("doctor <5>")
	d.parley("parked show --queue orders")
	d.parley("parked retry --error", "no such customer")
	d.parley("groups orders")
	d.parley("retry", d.groupOf("customer-8"))
	d.parley("dead show --type order")
	d.parley("dead requeue --type order")
	d.parley("promote orders --key customer-8 90")
	d.parley("groups orders")
}

// stoppedQueue: a queue is stopped and goes on.
func (d *day) stoppedQueue() {
	d.parley("disable orders")
	d.parley("status orders mail")
	d.parley("drain orders --timeout 1ms")
	d.parley("enable orders")
	d.work(true)
	d.parley("drain orders")
}

// delayedAndRecurring: posts that are not due yet, one of which is taken back, and a recurring
// job that is defined, run, paused and removed.
func (d *day) delayedAndRecurring() {
	d.parley("post mail --after 1h --unique digest --body", "x")
	d.parley("post mail --after 1h --unique digest --json --body", "x")
	d.parley("post mail --after 10000h --unique digest --per 5000h --body", "x")
	d.parley("post mail --after 10000h --unique digest --per 5000h --json --body", "x")
	d.parley("post mail --per 1h --body", "x")
	d.parley("cancel mail <8>")
	d.parley("cancel mail <8>")

	d.parley("recurring define digest --queue mail --every 1h")
	d.parley("cron run digest")
	d.parley("recurring pause digest")
	d.parley("cron list")
	d.parley("recurring remove digest")
	d.parley("status --json mail")
	d.parley("parked discard --queue orders --yes")
	d.parley("doctor orders")
}

// groupOf is the group of a key.
func (d *day) groupOf(key string) string {
	d.t.Helper()
	list, err := d.b.Admin().Groups(d.t.Context(), "orders", parley.Place{}, 100)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, g := range list {
		if g.Key == key {
			return g.Group.String()
		}
	}
	d.t.Fatalf("no group has the key %q", key)
	return ""
}

// difference shows the first lines that differ.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d:\nwant %s\ngot  %s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("want %d lines, got %d", len(a), len(b))
}
