package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/doctor"
	"github.com/parleymq/parley/internal/slow"
	"github.com/parleymq/parley/internal/sure"
)

// ward makes a database in which everything has gone wrong that can, and a
// broker on it.
func ward(t *testing.T) (db string, b *parley.Broker) {
	t.Helper()
	ctx := t.Context()
	db = "sqlite:" + filepath.Join(t.TempDir(), "ward.db")
	works(t, "migrate", "--db", db)
	b, err := parley.Open(ctx, db, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(b.Define(ctx, parley.Catalog{
		Types:    []parley.MessageType{{Name: "fine"}, {Name: "bad"}},
		Queues:   []parley.Queue{{Name: "work"}, {Name: "off"}, {Name: "empty"}},
		Services: []parley.Service{{Name: "Work", Queue: "work"}},
	}))
	post := func(key, typ string, n int) {
		for range n {
			_, err := b.Post(ctx, "work", parley.Payload{
				Type: typ, Body: []byte("body"), Headers: map[string]string{"of": key},
			}, parley.Key(key))
			must(err)
		}
	}
	post("park", "bad", 2)
	post("dead", "bad", 1)
	post("defer", "bad", 1)
	w := sure.Of(b.NewWorker("work", parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		switch m.Key {
		case "park":
			return parley.Park(errors.New("no such customer"))
		case "dead":
			return parley.DeadLetter(errors.New("no such order"))
		}
		return parley.Defer(time.Hour)
	}), nil))
	must(w.Drain(ctx))
	post("held", "fine", 1)
	_, err = b.Receive(ctx, "work", &parley.ReceiveOptions{Lease: time.Minute})
	must(err)
	post("waits", "fine", 1)
	must(b.Admin().DisableQueue(ctx, "off"))
	must(b.InTx(ctx, func(tx *parley.Tx) error {
		c, err := tx.Begin(ctx, "Work", "Nowhere", nil)
		if err != nil {
			return err
		}
		return c.Send(ctx, "", []byte("question"))
	}))
	return db, b
}

func TestDoctor(t *testing.T) {
	db, b := ward(t)
	codes := func(args ...string) (list []string) {
		t.Helper()
		_, out, errs := tool(t, append([]string{"doctor", "--db", db, "--json"}, args...)...)
		var found []doctor.Finding
		if err := json.Unmarshal([]byte(out), &found); err != nil {
			t.Fatalf("%v\n%s%s", err, out, errs)
		}
		for _, f := range found {
			list = append(list, f.Code)
		}
		return list
	}
	all := codes()
	for _, want := range []string{"queue.disabled", "worker.none", "group.parked", "group.deferred", "group.held", "service.unknown"} {
		if !slices.Contains(all, want) {
			t.Errorf("doctor finds %v, and not %s", all, want)
		}
	}
	if got := codes("empty"); len(got) != 0 {
		t.Errorf("of an empty queue doctor finds %v", got)
	}
	parked, err := b.Admin().Parked(t.Context(), "work", parley.Place{}, 10)
	if err != nil || len(parked) != 1 {
		t.Fatalf("%d parked, %v", len(parked), err)
	}
	if got := codes(parked[0].Group.String()); !slices.Contains(got, "group.parked") || slices.Contains(got, "group.held") {
		t.Errorf("of the parked group doctor finds %v", got)
	}
	dead, err := b.Admin().DeadLetters(t.Context(), "work", parley.Place{}, 10)
	if err != nil || len(dead) != 1 {
		t.Fatalf("%d dead letters, %v", len(dead), err)
	}
	if got := codes(dead[0].Message.ID.String()); !slices.Equal(got, []string{"message.dead"}) {
		t.Errorf("of the dead letter doctor finds %v", got)
	}
	if got := codes(parley.NewID().String()); !slices.Equal(got, []string{"unknown"}) {
		t.Errorf("of an id that is nowhere doctor finds %v", got)
	}
	if code, _, _ := tool(t, "doctor", "--db", db); code != 1 {
		t.Errorf("with something bad doctor's exit code is %d", code)
	}
	if code, out, _ := tool(t, "doctor", "empty", "--db", db); code != 0 || !strings.Contains(out, "nothing") {
		t.Errorf("with nothing bad doctor's exit code is %d: %s", code, out)
	}
	empty := filepath.Join(t.TempDir(), "none.db")
	if err := os.WriteFile(empty, nil, 0o600); err != nil { // an empty file is an empty database
		t.Fatal(err)
	}
	none := "sqlite:" + empty
	if code, out, _ := tool(t, "doctor", "--db", none); code != 1 || !strings.Contains(out, "schema.missing") {
		t.Errorf("of a database that is not migrated doctor says, with exit code %d: %s", code, out)
	}

	// A worker that is there, and then is not any more.
	ctx, cancel := context.WithCancel(t.Context())
	started, end := make(chan struct{}), make(chan error, 1)
	w := sure.Of(b.NewWorker("work", parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		close(started)
		<-ctx.Done()
		return ctx.Err()
	}), &parley.WorkerOptions{Grace: -1}))
	go func() { end <- w.Run(ctx) }()
	<-started
	if got := codes("work"); slices.Contains(got, "worker.none") {
		t.Errorf("with a worker doctor finds %v", got)
	}
	out := works(t, "top", "--once", "--every", "10ms", "--db", db)
	if !strings.Contains(out, "work") || !strings.Contains(out, "10") {
		t.Errorf("top prints\n%s", out)
	}
	cancel()
	if err := <-end; err != nil {
		t.Error(err)
	}
	if got := codes("work"); !slices.Contains(got, "worker.none") {
		t.Errorf("without a worker doctor finds %v", got)
	}
}

func TestParked(t *testing.T) {
	db, b := ward(t)
	g := onlyParked(t, b)
	if out := works(t, "parked", "--db", db); !strings.Contains(out, "no such customer") || !strings.Contains(out, g.String()) {
		t.Errorf("parked prints\n%s", out)
	}
	if out := works(t, "parked", "--db", db, "--error", "order"); strings.Contains(out, g.String()) {
		t.Errorf("parked --error order prints\n%s", out)
	}
	for typ, want := range map[string]bool{"bad": true, "fine": false} {
		if out := works(t, "parked", "--db", db, "--type", typ); strings.Contains(out, g.String()) != want {
			t.Errorf("parked --type %s prints\n%s", typ, out)
		}
	}
	if out := works(t, "parked", "--db", db, "--older", "1h"); strings.Contains(out, g.String()) {
		t.Errorf("parked --older 1h prints\n%s", out)
	}
	var shown []struct {
		Queue string
		First []parley.Message
	}
	if out := works(t, "parked", "show", "--queue", "work", "--json", "--db", db); json.Unmarshal([]byte(out), &shown) != nil || len(shown) != 1 || len(shown[0].First) != 2 {
		t.Errorf("parked show --json prints\n%s", out)
	}
	for _, args := range [][]string{
		{"parked", "--queue", "nothing"},
		{"parked", "retry", parley.NewID().String()},
		{"parked", "discard", g.String(), "--type", "fine", "--yes"},
		{"parked", "discard", g.String()}, // no operator answers the question
		{"dead", "discard", parley.NewID().String(), "--yes"},
	} {
		if code, out, _ := tool(t, append(args, "--db", db)...); code != 1 {
			t.Errorf("parley %v: exit code %d\n%s", args, code, out)
		}
	}
	if out := works(t, "parked", "show", g.String(), "--db", db); strings.Count(out, "message ") != 2 {
		t.Errorf("parked show prints\n%s", out)
	}
	if onlyParked(t, b) != g {
		t.Error("show has changed something")
	}
	if code, _, errs := tool(t, "parked", "discard", "--db", db); code != 1 || !strings.Contains(errs, "filter") {
		t.Errorf("discard of everything: exit code %d, %s", code, errs)
	}
}

// onlyParked is the one group that is parked.
func onlyParked(t *testing.T, b *parley.Broker) parley.ID {
	t.Helper()
	list, err := b.Admin().Parked(t.Context(), "work", parley.Place{}, 10)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d parked, %v", len(list), err)
	}
	return list[0].Group
}

// TestParkedVerbs skips the first message of a parked group, retries it and discards it.
func TestParkedVerbs(t *testing.T) {
	db, b := ward(t)
	g := onlyParked(t, b)
	works(t, "parked", "skip", g.String(), "--yes", "--db", db)
	dead, err := b.Admin().DeadLetters(t.Context(), "work", parley.Place{}, 10)
	if err != nil || len(dead) != 2 {
		t.Errorf("after skip there are %d dead letters, %v", len(dead), err)
	}
	d, err := b.Receive(t.Context(), "work", &parley.ReceiveOptions{Group: g})
	if err != nil || len(d.Messages) != 1 {
		t.Fatalf("after skip the group has %v, %v", d, err)
	}
	if err := d.Park(t.Context(), errors.New("again")); err != nil {
		t.Fatal(err)
	}
	works(t, "parked", "retry", "--queue", "work", "--db", db)
	if list, _ := b.Admin().Parked(t.Context(), "work", parley.Place{}, 10); len(list) != 0 {
		t.Errorf("after retry %d groups are parked", len(list))
	}
	if d, err = b.Receive(t.Context(), "work", &parley.ReceiveOptions{Group: g}); err != nil {
		t.Fatal(err)
	}
	d.Park(t.Context(), errors.New("again"))
	works(t, "parked", "discard", g.String(), "--yes", "--db", db)
	if _, err = b.Receive(t.Context(), "work", &parley.ReceiveOptions{Group: g}); !errors.Is(err, parley.ErrNoMessage) {
		t.Errorf("after discard: %v", err)
	}
}

// TestErrorsOfAttempts: what is parked and what is dead says why each attempt has failed.
func TestErrorsOfAttempts(t *testing.T) {
	db, b := ward(t)
	ctx := t.Context()
	for key, final := range map[string]func(error) error{"tried-park": parley.Park, "tried-dead": parley.DeadLetter} {
		if _, err := b.Post(ctx, "empty", parley.Payload{Body: []byte("body")}, parley.Key(key)); err != nil {
			t.Fatal(err)
		}
		w := sure.Of(b.NewWorker("empty", parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
			if err := fmt.Errorf("%s: trouble %d\x1b[2J\nits second line", key, m.Attempt); m.Attempt < 3 {
				return err
			} else {
				return final(err)
			}
		}), &parley.WorkerOptions{Backoff: func(int) time.Duration { return 0 }}))
		slow.Eventually(t, 20*time.Second, "the message has failed for good", func() (any, bool) {
			if err := w.Drain(ctx); err != nil {
				return err, false
			}
			q := sure.Of(b.Admin().Queues(ctx, "empty"))[0]
			return q, q.Depth+q.Deferred == 0
		})
	}
	for verb, key := range map[string]string{"parked": "tried-park", "dead": "tried-dead"} {
		out := works(t, verb, "show", "--queue", "empty", "--db", db)
		if n := strings.Count(out, "its second line"); n != 1 || strings.Contains(out, "\x1b") {
			t.Errorf("%s show prints the whole error %d times, want the last one:\n%q", verb, n, out)
		}
		for i := range 3 {
			if !regexp.MustCompile(fmt.Sprintf(`attempt %d, \S.*: %s: trouble %d`, i+1, key, i+1)).MatchString(out) {
				t.Errorf("%s show does not have attempt %d:\n%s", verb, i+1, out)
			}
		}
		out = works(t, verb, "show", "--queue", "empty", "--json", "--db", db)
		if n := strings.Count(out, `"attempt":`); n < 3 || !strings.Contains(out, `"at": "20`) {
			t.Errorf("%s show --json prints\n%s", verb, out)
		}
	}
}

func TestDead(t *testing.T) {
	db, b := ward(t)
	if out := works(t, "dead", "--db", db, "--type", "bad"); !strings.Contains(out, "no such order") {
		t.Errorf("dead prints\n%s", out)
	}
	if out := works(t, "dead", "--db", db, "--type", "fine"); strings.Contains(out, "no such order") {
		t.Errorf("dead --type fine prints\n%s", out)
	}
	for key, verb := range map[string]string{"dead": "dead", "park": "parked"} {
		out := works(t, verb, "show", "--type", "bad", "--db", db)
		if !strings.Contains(out, fmt.Sprintf(`headers {"of":%q}`, key)) {
			t.Errorf("%s show prints\n%s", verb, out)
		}
	}
	works(t, "dead", "requeue", "--type", "bad", "--db", db)
	d, err := b.Receive(t.Context(), "work", &parley.ReceiveOptions{Wait: time.Second, MaxMessages: 10})
	for err == nil && d.Messages[0].Key != "dead" {
		if err = d.Ack(t.Context()); err == nil {
			d, err = b.Receive(t.Context(), "work", nil)
		}
	}
	if err != nil {
		t.Fatalf("what was put back is not received: %v", err)
	}
	if list, _ := b.Admin().DeadLetters(t.Context(), "work", parley.Place{}, 10); len(list) != 0 {
		t.Errorf("%d dead letters after requeue", len(list))
	}
}
