package console_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/applock"
	_ "github.com/parleymq/parley/backend/memory"
	_ "github.com/parleymq/parley/backend/sqlite"
	"github.com/parleymq/parley/console"
	"github.com/parleymq/parley/internal/slow"
	"github.com/parleymq/parley/phases"
	"github.com/parleymq/parley/recurring"
)

// stores are those on which the console is tested.
var stores = []string{"memory", "sqlite"}

// open opens a new store without maintenance of the queues: nothing in it changes by itself.
func open(t testing.TB, store string) *parley.Broker {
	t.Helper()
	dsn := "memory:"
	if store == "sqlite" {
		dsn = "sqlite:" + filepath.Join(t.TempDir(), "console.db")
	}
	b, err := parley.Open(t.Context(), dsn, &parley.Options{Owner: "shop-1/4711", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// filled are the names and ids of what fill has made.
type filled struct {
	keyed, parked, held parley.ID // groups
	handle, dead, task  parley.ID
}

// texts are what fill writes wherever a program can: an ordinary text, or a hostile one.
type texts func(what string) string

func plainTexts(what string) string { return what }

// fill makes one of each thing that the console shows.
func fill(t testing.TB, b *parley.Broker, say texts) (f filled) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	orders, mail, home := say("orders"), say("mail"), say("home")
	must(b.Define(ctx, parley.Catalog{
		Types:      []parley.MessageType{{Name: say("Order"), Validation: parley.ValidationJSON}, {Name: say("Welcome")}},
		Contracts:  []parley.Contract{{Name: say("Orders"), Messages: []parley.ContractEntry{{Type: say("Order"), SentBy: parley.ByAny}}}},
		Queues:     []parley.Queue{{Name: orders, Retention: true}, {Name: mail, KeepProcessed: time.Hour}, {Name: home, Retention: true}, {Name: say("legacy")}},
		Services:   []parley.Service{{Name: say("Shop"), Queue: home}, {Name: say("Billing"), Queue: orders, Contracts: []string{say("Orders")}, FarPromotion: 50}},
		Priorities: []parley.PriorityRule{{Name: say("important"), Contract: say("Orders"), Level: 8}},
	}))
	must(b.InTx(ctx, func(tx *parley.Tx) error {
		c, err := tx.Begin(ctx, say("Shop"), say("Billing"), &parley.DialogOptions{Contract: say("Orders")})
		if err != nil {
			return err
		}
		f.handle = c.Handle()
		return c.SendPayload(ctx, parley.Payload{Type: say("Order"), Body: []byte(`{"item": "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`).Replace(say("chair")) + `"}`),
			Headers: map[string]string{say("trace"): say("abc")}})
	}))
	welcome := parley.Payload{Type: say("Welcome"), Body: []byte(say("secret body"))}
	// One message is parked, one is dead, one is put off.
	for i, end := range []error{parley.Park(errors.New(say("no such address"))), parley.DeadLetter(errors.New(say("gone for good"))), parley.Defer(time.Hour)} {
		_, err := b.Post(ctx, mail, welcome, parley.Key(fmt.Sprint(say("customer"), i)))
		must(err)
		must(b.NewWorker(mail, parley.HandlerFunc(func(context.Context, *parley.Message) error { return end }), nil).Drain(ctx))
	}
	_, err := b.Post(ctx, mail, welcome, parley.Key(say("customer-7")))
	must(err)
	_, err = b.Post(ctx, mail, welcome, parley.After(time.Hour))
	must(err)
	must(b.InTx(ctx, func(tx *parley.Tx) error { return tx.PromoteKey(ctx, mail, say("customer-7")) }))
	groups, err := b.Admin().Groups(ctx, mail, parley.Place{}, 10)
	must(err)
	for _, g := range groups {
		switch g.State {
		case "ready":
			f.keyed = g.Group
		case "parked":
			f.parked = g.Group
		}
	}
	dead, err := b.Admin().DeadLetters(ctx, "", parley.Place{}, 1)
	must(err)
	f.dead = dead[0].Message.ID

	_, err = b.Post(ctx, orders, welcome)
	must(err)
	d, err := b.Receive(ctx, orders, &parley.ReceiveOptions{Hold: parley.HoldLease, Wait: slow.By(5 * time.Second)})
	must(err)
	f.held = d.Messages[0].Group
	t.Cleanup(func() { d.Close() })
	must(b.Admin().DisableQueue(ctx, say("legacy")))

	must(recurring.Define(ctx, b, recurring.Job{Name: "digest", Queue: mail, Type: say("Welcome"), Cron: "0 7 * * *", Zone: "Europe/Berlin", Jitter: time.Minute}))
	fillPlan(t, b, say, &f)
	fillLocks(t, b, say)
	return f
}

// fillPlan makes a plan that a dead task halts.
func fillPlan(t testing.TB, b *parley.Broker, say texts, f *filled) {
	t.Helper()
	ctx := t.Context()
	plan, err := phases.Open(ctx, b, say("nightly"), &phases.Options{Purpose: say("the month's end"), Caller: say("accounting")})
	if err == nil {
		err = plan.Submit(ctx, phases.Task{Phase: 100, Type: say("extract")}, phases.Task{Phase: 100, Type: say("load")}, phases.Task{Phase: 200, Type: say("report")})
	}
	if err != nil {
		t.Fatal(err)
	}
	err = plan.Run(ctx, phases.Handlers{"": func(_ context.Context, r *phases.Running) error {
		if r.Type == say("load") {
			f.task = r.ID
			return phases.Dead(errors.New(say("the disk is full")))
		}
		return nil
	}}, &phases.PoolOptions{Workers: 1})
	if !errors.Is(err, phases.ErrHalted) {
		t.Fatalf("the plan ends with %v", err)
	}
}

// fillLocks has an owner hold a lock and another one wait for it.
func fillLocks(t testing.TB, b *parley.Broker, say texts) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	first, err := applock.Open(ctx, b, &applock.Options{Owner: say("ann")})
	if err != nil {
		t.Fatal(err)
	}
	second, err := applock.Open(ctx, b, &applock.Options{Owner: say("bob")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Lock(ctx, say("stock/7"), applock.Exclusive, 0); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = second.Lock(ctx, say("stock/7"), applock.Shared, -1)
	}()
	t.Cleanup(func() { cancel(); <-over; first.Close(); second.Close() })
	slow.Eventually(t, 10*time.Second, "a waiter", func() (any, bool) {
		list, err := applock.List(ctx, b, "")
		return err, len(list) == 2
	})
}

// site is a console that browsers of this machine can reach.
type site struct {
	t *testing.T
	*httptest.Server
	client *http.Client
}

func serve(t *testing.T, b *parley.Broker, o *console.Options) *site {
	t.Helper()
	h, err := console.New(b, o)
	if err != nil {
		t.Fatal(err)
	}
	return serveHandler(t, h)
}

func serveHandler(t *testing.T, h http.Handler) *site {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &site{t, s, client}
}

// get asks for a page, and returns its status and text.
func (s *site) get(path string, edit ...func(*http.Request)) (*http.Response, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.URL+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.do(r, edit...)
}

func (s *site) do(r *http.Request, edit ...func(*http.Request)) (*http.Response, string) {
	s.t.Helper()
	for _, f := range edit {
		f(r)
	}
	answer, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer, string(text)
}

// page asks for a page that must be there.
func (s *site) page(path string) string {
	s.t.Helper()
	answer, text := s.get(path)
	if answer.StatusCode != http.StatusOK {
		s.t.Fatalf("GET %s: %s\n%s", path, answer.Status, text)
	}
	return text
}
