package parleytest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend/memory"
	"github.com/parleymq/parley/backend/postgres"
	"github.com/parleymq/parley/parleytest"
	"github.com/parleymq/parley/recurring"
)

// shop is the catalog of the tests.
var shop = parleytest.Catalog(parley.Catalog{
	Types: []parley.MessageType{{Name: "OrderPlaced"}, {Name: "Receipt"}},
	Contracts: []parley.Contract{{Name: "Orders", Messages: []parley.ContractEntry{
		{Type: "OrderPlaced", SentBy: parley.ByInitiator}, {Type: "Receipt", SentBy: parley.ByTarget}}}},
	Queues: []parley.Queue{{Name: "orders"}, {Name: "mail"}, {Name: "shop"}, {Name: "billing"}},
	Services: []parley.Service{{Name: "Shop", Queue: "shop"},
		{Name: "Billing", Queue: "billing", Contracts: []string{"Orders"}}},
})

// each runs a test on each store: in memory, on SQLite, and on PostgreSQL if there is a server.
func each(t *testing.T, f func(t *testing.T, store parleytest.Option)) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) { t.Parallel(); f(t, parleytest.Store("memory:")) })
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		f(t, parleytest.Store("sqlite:"+filepath.Join(t.TempDir(), "test.db")))
	})
	if dsn := os.Getenv("PARLEY_TEST_POSTGRES"); dsn != "" {
		t.Run("postgres", func(t *testing.T) { f(t, onServer(t, dsn)) })
	}
}

var schemas struct {
	sync.Mutex
	n int
}

// onServer is a store in a separate schema.
func onServer(t *testing.T, dsn string) parleytest.Option {
	schemas.Lock()
	schemas.n++
	schema := fmt.Sprintf("parleytest_%d_%d", os.Getpid(), schemas.n)
	schemas.Unlock()
	db, err := sql.Open("postgres", dsn)
	must(err)
	t.Cleanup(func() {
		_, err := db.Exec("DROP SCHEMA IF EXISTS " + schema + " CASCADE")
		must(errors.Join(err, db.Close()))
	})
	be, err := postgres.Open(t.Context(), dsn, &postgres.Options{Schema: schema})
	must(err)
	b, err := parley.New(context.Background(), be, nil)
	must(err)
	t.Cleanup(func() { b.Close() })
	must(b.Migrate(t.Context()))
	return parleytest.Use(b)
}

func orders(f func(ctx context.Context, m *parley.Message) error) *parley.Mux {
	mux := parley.NewMux()
	mux.HandleFunc("OrderPlaced", f)
	return mux
}

func nothing(context.Context, *parley.Message) error { return nil }

// receipt posts a message in the transaction of another one.
func receipt(ctx context.Context, m *parley.Message) error {
	tx, err := m.Tx(ctx)
	if err == nil {
		_, err = Receipts.Post(ctx, tx, "mail", Receipt{Order: "7"})
	}
	return err
}

func post(t testing.TB, queue string) *parley.Message {
	m := parleytest.Message(t, Placed, OrderPlaced{ID: "7"})
	m.Queue = queue
	return m
}

func is(t *testing.T, r parleytest.Result, want parleytest.Outcome, committed bool, sent int) {
	t.Helper()
	if r.Outcome != want || r.Committed != committed || len(r.Sent) != sent {
		t.Errorf("%v, committed %v, %d messages sent; want %v, %v, %d", r, r.Committed, len(r.Sent), want, committed, sent)
	}
}

// TestEarlierErrors: a handler sees the errors that a test gave its message, and a failure adds to them.
func TestEarlierErrors(t *testing.T) {
	each(t, func(t *testing.T, store parleytest.Option) {
		kit := parleytest.New(t, store, shop)
		m := post(t, "orders")
		m.Attempt, m.Errors = 3, []parley.FailedAttempt{{Attempt: 2, At: time.Unix(1, 0), Error: "it was broken"}}
		r := kit.Handle(orders(func(context.Context, *parley.Message) error { return errors.New("again") }), m)
		is(t, r, parleytest.Retried, false, 0)
		if got := r.Message.Errors; len(got) != 1 || got[0] != m.Errors[0] {
			t.Errorf("the handler has seen %v", got)
		}
		got := kit.Posted("orders")[0].Errors
		if len(got) != 2 || got[0] != m.Errors[0] || got[1].Attempt != 3 || got[1].Error != "again" || got[1].At.IsZero() {
			t.Errorf("the message has %v now", got)
		}
	})
}

// TestOutcomes: whatever a handler does, the result says what the worker has made of it.
func TestOutcomes(t *testing.T) {
	each(t, func(t *testing.T, store parleytest.Option) {
		kit := parleytest.New(t, store, shop, parleytest.WorkerOptions(parley.WorkerOptions{MaxAttempts: 5,
			Backoff: func(int) time.Duration { return time.Hour }}))
		broken := errors.New("broken")
		after := func(err error) *parley.Mux { // all of them write first
			return orders(func(ctx context.Context, m *parley.Message) error {
				if err := receipt(ctx, m); err != nil {
					return err
				}
				return err
			})
		}
		r := kit.Handle(after(nil), post(t, "orders"))
		is(t, r, parleytest.Acknowledged, true, 1)
		if s := r.Sent[0]; s.Type != "Receipt" || s.Queue != "mail" || r.Err != nil || r.Message.Type != "OrderPlaced" {
			t.Errorf("%v has sent %v", r, s)
		}

		m := post(t, "orders")
		m.Attempt, m.LastError, m.Key = 3, "it was broken", "k3"
		r = kit.Handle(after(broken), m)
		is(t, r, parleytest.Retried, false, 0)
		if got := r.Message; r.Attempts != 3 || r.Retry <= 0 || !errors.Is(r.Err, broken) ||
			got.Attempt != 3 || !got.Redelivered || got.LastError != "it was broken" || got.Key != "k3" || got.ID != m.ID {
			t.Errorf("%+v of %+v", r, got)
		}

		m = post(t, "orders")
		m.Attempt = 5
		r = kit.Handle(after(broken), m)
		is(t, r, parleytest.Parked, false, 0)
		if r.Attempts != 5 || r.Reason != "broken" {
			t.Errorf("%+v", r)
		}

		r = kit.Handle(orders(func(context.Context, *parley.Message) error { panic("oops") }), post(t, "orders"))
		is(t, r, parleytest.Retried, false, 0)
		if p := new(parley.PanicError); !errors.As(r.Err, &p) || r.Attempts != 1 {
			t.Errorf("a panic is %+v", r)
		}

		r = kit.Handle(after(parley.Defer(time.Minute)), post(t, "orders"))
		is(t, r, parleytest.Deferred, false, 0)
		if r.Retry != time.Minute || r.Attempts != 0 {
			t.Errorf("%+v", r)
		}
		is(t, kit.Handle(after(parley.Park(broken)), post(t, "orders")), parleytest.Parked, false, 0)
		is(t, kit.Handle(after(parley.DeadLetter(broken)), post(t, "orders")), parleytest.DeadLettered, false, 0)
		is(t, kit.Handle(after(parley.Poison(broken)), post(t, "orders")), parleytest.Parked, false, 0)
		is(t, kit.Handle(parley.NewMux(), post(t, "orders")), parleytest.Deferred, false, 0)
		is(t, kit.Handle(parley.GroupFunc(func(ctx context.Context, all []*parley.Message) error {
			return receipt(ctx, all[0])
		}), post(t, "orders")), parleytest.Acknowledged, true, 1)
		if n := len(kit.Posted("mail")); n != 2 {
			t.Errorf("%d receipts wait, want those of the two handlers that have succeeded", n)
		}
		states := map[string]int{}
		for _, s := range kit.Posted("orders") {
			states[s.State]++
		}
		// A second after its handling the one of an unknown type is ready again.
		if states["parked"] != 3 || states["deferred"] < 3 || states["deferred"]+states["ready"] != 4 {
			t.Errorf("there are %v, want 3 that are parked and 4 that are deferred", states)
		}
	})
}

// TestPolicies: the options of the worker are those of production.
func TestPolicies(t *testing.T) {
	each(t, func(t *testing.T, store parleytest.Option) {
		with := func(o parley.WorkerOptions) *parleytest.Kit {
			return parleytest.New(t, store, shop, parleytest.WorkerOptions(o))
		}
		broken := orders(func(ctx context.Context, m *parley.Message) error {
			return errors.Join(errors.New("broken"), receipt(ctx, m))
		})
		heard := new(observer)
		kit := with(parley.WorkerOptions{Isolation: parley.IsolateBatch, MaxBatch: 50, Observer: heard})
		is(t, kit.Handle(broken, post(t, "orders")), parleytest.Retried, false, 0)
		kit.AssertNotPosted("mail")
		if heard.handled != 1 || heard.settled != 1 || heard.poisoned != 0 {
			t.Errorf("the program's observer has heard %+v", heard)
		}

		kit = with(parley.WorkerOptions{Release: parley.BeforeWork})
		is(t, kit.Handle(orders(nothing), post(t, "orders")), parleytest.Acknowledged, false, 0)
		m := post(t, "orders")
		if r := kit.Handle(broken, m); r.Outcome != parleytest.Released || r.Err == nil {
			t.Errorf("%v", r)
		}
		kit.AssertNotPosted("orders", parleytest.Where("its ID", func(s parleytest.Sent) bool { return s.ID == m.ID }))

		heard = new(observer)
		kit = with(parley.WorkerOptions{MaxAttempts: 1, Poison: parley.ActionDisableQueue, Observer: heard})
		is(t, kit.Handle(broken, post(t, "orders")), parleytest.QueueDisabled, false, 0)
		q, err := kit.Broker.Admin().Queues(t.Context(), "orders")
		if must(err); !q[0].Disabled || heard.poisoned != 1 {
			t.Errorf("the queue is %+v, and the program's observer has heard %+v", q[0], heard)
		}
	})
}

// observer is one of the program's.
type observer struct {
	parley.NopObserver
	handled, settled, poisoned int
}

func (o *observer) Handled(context.Context, parley.HandleEvent)  { o.handled++ }
func (o *observer) Settled(context.Context, parley.SettleEvent)  { o.settled++ }
func (o *observer) Poisoned(context.Context, parley.PoisonEvent) { o.poisoned++ }

// TestReceiveInHandler: a handler that receives by itself gets what is there.
func TestReceiveInHandler(t *testing.T) {
	each(t, func(t *testing.T, store parleytest.Option) {
		kit := parleytest.New(t, store, shop)
		parleytest.Post(kit, "mail", Receipts, Receipt{Order: "7"})
		r := kit.Handle(orders(func(ctx context.Context, m *parley.Message) error {
			tx, err := m.Tx(ctx)
			if err == nil {
				_, err = tx.Receive(ctx, "mail", nil)
			}
			return err
		}), post(t, "orders"))
		is(t, r, parleytest.Acknowledged, true, 0)
		kit.AssertNotPosted("mail")
	})
}

// TestDialogs: messages of conversations, of each kind, and what becomes of conversations.
func TestDialogs(t *testing.T) {
	each(t, func(t *testing.T, store parleytest.Option) {
		kit := parleytest.New(t, store, shop)
		order := func() *parley.Message {
			m := parleytest.Message(t, Placed, OrderPlaced{ID: "7"})
			m.Service, m.FarService, m.Contract = "Billing", "Shop", "Orders"
			return m
		}
		m := order()
		m.Attempt = 2
		r := kit.Handle(orders(func(ctx context.Context, m *parley.Message) error {
			return m.Reply(ctx, "Receipt", []byte(`{"Order":"7"}`))
		}), m)
		is(t, r, parleytest.Acknowledged, true, 1)
		if m := r.Message; m.Service != "Billing" || m.FarService != "Shop" || m.Queue != "billing" || m.Attempt != 2 {
			t.Errorf("the handler has seen %+v", m)
		}
		if s := r.Sent[0]; s.Service != "Shop" || s.FarService != "Billing" || s.Queue != "shop" || !s.Initiator {
			t.Errorf("it has replied %+v", s.Message)
		}
		near := r.Message.Conversation
		v, s := parleytest.RequirePosted(kit, "shop", Receipts, parleytest.From("Billing"))
		if v.Order != "7" || s.Conversation != r.Sent[0].Conversation {
			t.Errorf("%v waits: %v", v, s)
		}

		for _, typ := range []string{parley.DialogTimer, parley.EndDialog} {
			r = kit.Handle(parley.NewMux(), &parley.Message{Conversation: near, Type: typ})
			if r.Outcome != parleytest.Acknowledged || r.Message.Type != typ || r.Message.Conversation != near {
				t.Errorf("%s: %v, of %+v", typ, r, r.Message)
			}
		}
		if len(r.Ended) != 1 || r.Ended[0] != near {
			t.Errorf("EndDialog has ended %v", r.Ended)
		}

		r = kit.Handle(orders(func(context.Context, *parley.Message) error {
			return parley.EndWithError(42, "no such item")
		}), order())
		if r.Outcome != parleytest.EndedInError || len(r.Sent) != 1 || r.Sent[0].Err().Code != 42 {
			t.Errorf("%v", r)
		}

		near = kit.Handle(orders(nothing), order()).Message.Conversation
		e := &parley.DialogError{Code: -8489, Text: "its lifetime is over"}
		r = kit.Handle(parley.NewMux(), &parley.Message{Conversation: near, Type: parley.ErrorMessageType, Body: e.Body()})
		if r.Outcome != parleytest.Acknowledged || r.Message.Err().Code != -8489 {
			t.Errorf("%v", r)
		}
	})
}

// TestAdvance: everything that waits for a time is there when the clock has moved.
func TestAdvance(t *testing.T) {
	each(t, func(t *testing.T, store parleytest.Option) {
		kit := parleytest.New(t, store, shop)
		if err := kit.CanAdvance(); err != nil {
			if !errors.Is(err, parleytest.ErrServerClock) || !strings.HasSuffix(t.Name(), "/postgres") {
				t.Error(err)
			}
			_, text := run(func(t *fakeT) { parleytest.New(t, parleytest.Use(kit.Broker)).Advance(time.Hour) })
			if !strings.Contains(text, parleytest.ErrServerClock.Error()) {
				t.Errorf("Advance says %q", text)
			}
			return
		}
		ctx := t.Context()
		was := kit.Now()
		parleytest.Post(kit, "orders", Placed, OrderPlaced{ID: "later"}, parley.After(24*time.Hour))
		must(kit.Broker.InTx(ctx, func(tx *parley.Tx) error {
			c, err := tx.Begin(ctx, "Shop", "Billing",
				&parley.DialogOptions{Contract: "Orders", Lifetime: 48 * time.Hour})
			if err == nil {
				err = c.SetTimer(ctx, 23*time.Hour)
			}
			return err
		}))
		kit.AssertNotPosted("shop")
		kit.AssertPosted("orders", parleytest.After(24*time.Hour))
		kit.Advance(23 * time.Hour)
		kit.AssertPosted("shop", parleytest.Type(parley.DialogTimer))
		kit.Advance(time.Hour)
		if all := kit.Posted("orders"); len(all) != 1 || all[0].State != "ready" || all[0].Delay != 24*time.Hour {
			t.Errorf("a day later there are %v", all)
		}
		kit.Advance(24 * time.Hour)
		kit.AssertPosted("shop", parleytest.Type(parley.ErrorMessageType))
		if d := kit.Now().Sub(was) - 48*time.Hour; d < 0 || d > time.Minute {
			t.Errorf("the clock has moved by %v more than it was told", d)
		}

		// A lease: another process has the message, and dies.
		d, err := kit.Broker.Receive(ctx, "orders", &parley.ReceiveOptions{Hold: parley.HoldLease})
		must(err)
		kit.AssertNotPosted("orders")
		kit.Advance(time.Minute)
		r := kit.Work(orders(receipt), "orders")
		is(t, r, parleytest.Acknowledged, true, 1)
		if !r.Message.Redelivered {
			t.Error("the receiver that has died left no trace")
		}
		if err := d.Ack(ctx); !errors.Is(err, parley.ErrFenced) {
			t.Errorf("the late receiver gets %v", err)
		}
	})
}

// TestAdvanceRecurring: each due time brings its message, whether a process runs the jobs or not.
func TestAdvanceRecurring(t *testing.T) {
	each(t, func(t *testing.T, store parleytest.Option) {
		kit := parleytest.New(t, store, shop)
		if kit.CanAdvance() != nil {
			return
		}
		ctx := t.Context()
		must(recurring.Define(ctx, kit.Broker,
			recurring.Job{Name: "daily", Queue: "mail", Type: "Receipt", Cron: "0 4 * * *"},
			recurring.Job{Name: "often", Queue: "orders", Type: "OrderPlaced", Every: 8 * time.Hour}))
		kit.Advance(24 * time.Hour)
		must(recurring.Start(ctx, kit.Broker))
		kit.Advance(24 * time.Hour)
		if m, o := len(kit.Posted("mail")), len(kit.Posted("orders")); m != 2 || o != 6 {
			t.Errorf("in two days the jobs have posted %d and %d messages, want 2 and 6", m, o)
		}
	})
	_, text := run(func(t *fakeT) {
		kit := parleytest.New(t, shop)
		must(recurring.Define(t.Context(), kit.Broker,
			recurring.Job{Name: "n", Queue: "mail", Type: "Receipt", Every: 10 * time.Millisecond}))
		kit.Advance(48 * time.Hour)
	})
	if !strings.Contains(text, "it passes more than 10000 due times") {
		t.Errorf("a clock that passes millions of due times says %q", text)
	}
}

// TestIdempotence: the same message can be handled twice.
func TestIdempotence(t *testing.T) {
	each(t, func(t *testing.T, store parleytest.Option) {
		kit := parleytest.New(t, store, shop)
		charged := 0
		h := orders(func(ctx context.Context, m *parley.Message) error {
			tx, err := m.Tx(ctx)
			if err != nil {
				return err
			}
			if fresh, err := tx.Once(ctx, m.ID.String()); err != nil || !fresh {
				return err
			}
			charged++
			return nil
		})
		m := post(t, "orders")
		for range 2 {
			is(t, kit.Handle(h, m), parleytest.Acknowledged, true, 0)
		}
		if charged != 1 {
			t.Errorf("the card was charged %d times", charged)
		}
	})
}

// TestFaults: what is told to fail fails once, and the worker does what it does in production.
func TestFaults(t *testing.T) {
	each(t, func(t *testing.T, store parleytest.Option) {
		kit := parleytest.New(t, store, shop)
		h := orders(receipt)
		m := post(t, "orders")

		kit.FailCommit(nil)
		r := kit.Handle(h, m)
		is(t, r, parleytest.NotCommitted, false, 0)
		if !errors.Is(r.Err, parley.ErrSerialization) {
			t.Errorf("%v", r)
		}
		kit.AssertNotPosted("mail")
		kit.LoseCommit(false)
		r = kit.Handle(h, m)
		is(t, r, parleytest.NotCommitted, false, 0)
		if !errors.Is(r.Err, parley.ErrConnection) {
			t.Errorf("%v", r)
		}
		lost := errors.New("lost")
		kit.FailSend(lost)
		r = kit.Handle(h, m)
		is(t, r, parleytest.Retried, false, 0)
		if !errors.Is(r.Err, lost) {
			t.Errorf("%v", r)
		}
		kit.LoseCommit(true)
		r = kit.Handle(h, post(t, "orders"))
		is(t, r, parleytest.NotCommitted, true, 1)
		kit.AssertPosted("mail", parleytest.Value(Receipts, Receipt{Order: "7"}))
		if n := len(kit.Posted("orders")); n != 1 {
			t.Errorf("%d orders wait, want only the order whose mail failed", n)
		}

		seen := error(nil)
		m = post(t, "orders")
		kit.LoseLease()
		r = kit.Handle(orders(func(ctx context.Context, m *parley.Message) error {
			_, seen = m.Tx(ctx)
			return seen
		}), m)
		is(t, r, parleytest.LeaseLost, false, 0)
		if !errors.Is(seen, parley.ErrFenced) {
			t.Errorf("the handler gets %v", seen)
		}
		kit.LoseLease()
		is(t, kit.Handle(orders(nothing), m), parleytest.LeaseLost, false, 0)
		is(t, kit.Handle(h, m), parleytest.Acknowledged, true, 1)

		r = kit.Handle(orders(func(ctx context.Context, m *parley.Message) error {
			err := receipt(ctx, m)
			kit.BreakConnections()
			return err
		}), post(t, "orders"))
		is(t, r, parleytest.NotCommitted, false, 0)

		// The application's own transactions fail too, and those of the kit do not.
		kit.FailCommit(lost)
		parleytest.Post(kit, "mail", Receipts, Receipt{})
		if _, err := kit.Broker.Post(t.Context(), "mail", parley.Payload{Type: "Receipt"}); !errors.Is(err, lost) {
			t.Errorf("a post whose commit fails: %v", err)
		}
		if n := kit.Drain(t.Context(), parley.HandlerFunc(nothing), "mail"); n != 3 {
			t.Errorf("%d messages in the mail, want 3", n)
		}
	})
	_, text := run(func(t *fakeT) {
		kit := parleytest.New(t)
		kit.FailCommit(errors.New("first"))
		kit.FailSend(errors.New("second"))
		kit.LoseLease()
	})
	for _, part := range []string{"first", "second", "lease"} {
		if !strings.Contains(text, part) {
			t.Errorf("faults that nothing meets: %q, without %q", text, part)
		}
	}
}

// TestDrain: a drain ends when nothing is due, over several queues, and finds handlers that never end.
func TestDrain(t *testing.T) {
	each(t, func(t *testing.T, store parleytest.Option) {
		kit := parleytest.New(t, store, shop, parleytest.WorkerOptions(parley.WorkerOptions{MaxReaders: 4}))
		mux := orders(receipt)
		mux.HandleFunc("Receipt", nothing)
		for range 20 {
			parleytest.Post(kit, "orders", Placed, OrderPlaced{})
		}
		parleytest.Post(kit, "orders", Placed, OrderPlaced{ID: "later"}, parley.After(time.Hour))
		if n := kit.Drain(t.Context(), mux, "orders", "mail"); n != 40 {
			t.Errorf("%d messages, want 20 orders and 20 receipts", n)
		}
		if all := kit.Posted("orders"); len(all) != 1 || all[0].State != "delayed" {
			t.Errorf("there are %v, want only the delayed order", all)
		}
		if n := kit.Drain(t.Context(), mux, "orders", "mail"); n != 0 {
			t.Errorf("%d messages of empty queues", n)
		}
	})
	again := func(ctx context.Context, m *parley.Message) error {
		tx, err := m.Tx(ctx)
		if err == nil {
			_, err = tx.Post(ctx, "orders", parley.Payload{Type: m.Type, Body: m.Body})
		}
		return err
	}
	_, text := run(func(t *fakeT) {
		kit := parleytest.New(t, shop, parleytest.DrainLimit(50))
		parleytest.Post(kit, "orders", Placed, OrderPlaced{ID: "for ever"})
		kit.Drain(t.Context(), orders(again), "orders")
	})
	if !strings.Contains(text, "messages there are more") || !strings.Contains(text, "for ever") {
		t.Errorf("a handler that posts to its own queue: %q", text)
	}
	_, text = run(func(t *fakeT) {
		ctx, cancel := context.WithCancelCause(t.Context())
		kit := parleytest.New(t, shop)
		parleytest.Post(kit, "orders", Placed, OrderPlaced{})
		kit.Drain(ctx, orders(func(context.Context, *parley.Message) error {
			cancel(errors.New("enough"))
			return nil
		}), "orders")
	})
	if !strings.Contains(text, "after 1 messages: enough") {
		t.Errorf("a context that ends: %q", text)
	}
}

// TestFailures: what fails a test says why, and what is there.
func TestFailures(t *testing.T) {
	t.Parallel()
	fails := func(what string, f func(t *fakeT, kit *parleytest.Kit), parts ...string) {
		t.Helper()
		_, text := run(func(t *fakeT) {
			kit := parleytest.New(t, shop)
			parleytest.Post(kit, "mail", Receipts, Receipt{Order: "7"}, parley.Key("k"), parley.Unique("u"))
			parleytest.Post(kit, "mail", Receipts, Receipt{Order: "8"}, parley.After(time.Hour))
			f(t, kit)
		})
		for _, part := range append(parts, "parleytest: ") {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q, without %q", what, text, part)
			}
		}
	}
	there := []string{
		`Receipt {"Order":"7"}, queue "mail", key "k", unique "u"`,
		`Receipt {"Order":"8"}, queue "mail", after 1h0m0s, delayed`,
	}
	fails("AssertPosted", func(t *fakeT, kit *parleytest.Kit) {
		kit.AssertPosted("mail", parleytest.Key("other"), parleytest.Type("Receipt"), parleytest.Unique("u"))
	}, append(there, `no message in queue "mail" with key "other", type Receipt, unique "u"`)...)
	fails("AssertNotPosted", func(t *fakeT, kit *parleytest.Kit) {
		kit.AssertNotPosted("mail", parleytest.After(0))
	}, append(there, `1 messages in queue "mail" with after 0s, want none`)...)
	fails("RequirePosted of two", func(t *fakeT, kit *parleytest.Kit) {
		parleytest.RequirePosted(kit, "mail", Receipts)
	}, append(there, "2 messages", "want one")...)
	fails("RequirePosted of a value", func(t *fakeT, kit *parleytest.Kit) {
		parleytest.RequirePosted(kit, "mail", Receipts, parleytest.Value(Receipts, Receipt{Order: "9"}))
	}, append(there, "0 messages", "Receipt {Order:9}")...)
	fails("an empty queue", func(t *fakeT, kit *parleytest.Kit) { kit.AssertPosted("orders") }, "Nothing waits there")
	fails("a queue that is not defined", func(t *fakeT, kit *parleytest.Kit) { kit.Posted("nowhere") }, "not defined", "nowhere")
	fails("Work without a message", func(t *fakeT, kit *parleytest.Kit) {
		kit.Work(parley.NewMux(), "orders")
	}, "no message of queue", "orders")
	fails("Handle of a type that is not defined", func(t *fakeT, kit *parleytest.Kit) {
		kit.Handle(parley.NewMux(), &parley.Message{Queue: "orders", Type: "Unknown"})
	}, "not defined", "Unknown")
	fails("Handle behind another message", func(t *fakeT, kit *parleytest.Kit) {
		m := parleytest.Message(t, Receipts, Receipt{})
		m.Queue, m.Key = "mail", "k"
		kit.Handle(parley.NewMux(), m)
	}, "is before it", there[0])
	fails("Handle of a failed message behind another one", func(t *fakeT, kit *parleytest.Kit) {
		m := parleytest.Message(t, Receipts, Receipt{})
		m.Queue, m.Key, m.Attempt = "mail", "k", 3
		kit.Handle(parley.NewMux(), m)
	}, "is before it")
	fails("Handle of a message for a service that is not there", func(t *fakeT, kit *parleytest.Kit) {
		kit.Handle(parley.NewMux(),
			&parley.Message{Type: "OrderPlaced", Service: "Nowhere", FarService: "Shop", Contract: "Orders"})
	}, `is service "Nowhere" defined`)
	fails("Handle without a handler", func(t *fakeT, kit *parleytest.Kit) {
		kit.Handle(nil, post(t, "orders"))
	}, "handler is nil")
	fails("Drain without a queue", func(t *fakeT, kit *parleytest.Kit) {
		kit.Drain(t.Context(), parley.NewMux())
	}, "name the queues")
	fails("a clock that goes back", func(t *fakeT, kit *parleytest.Kit) { kit.Advance(-time.Hour) }, "does not go back")
	fails("an unknown store", func(t *fakeT, kit *parleytest.Kit) {
		parleytest.New(t, parleytest.Store("nothing:"))
	}, "open the store")
	fails("options that are wrong", func(t *fakeT, kit *parleytest.Kit) {
		parleytest.New(t, parleytest.BrokerOptions(parley.Options{Lease: 1}))
	}, "make a Broker", "Lease")
	fails("a value that cannot be encoded", func(t *fakeT, kit *parleytest.Kit) {
		parleytest.Message(t, parley.Type[func()]("F", parley.JSON), nil)
	}, "encode")
}

// TestUse: a kit on a Broker that is open sees what that has posted, and leaves the store open.
func TestUse(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b, err := parley.New(ctx, memory.New(nil).Open(), nil)
	must(err)
	defer b.Close()
	must(b.Migrate(ctx))
	_, failures := run(func(t *fakeT) {
		kit := parleytest.New(t, parleytest.Use(b), shop)
		_, err := b.Post(ctx, "orders", parley.Payload{Type: "OrderPlaced"})
		must(err)
		kit.AssertPosted("orders")
		if r := kit.Work(orders(receipt), "orders"); r.Outcome != parleytest.Acknowledged {
			t.Errorf("%v", r)
		}
	})
	if d, err := b.Receive(ctx, "mail", nil); failures != "" || err != nil || d.Ack(ctx) != nil {
		t.Errorf("%s; the store that was open has %v", failures, err)
	}
}

// TestLog: the Broker's log goes to the test, until that is over.
func TestLog(t *testing.T) {
	t.Parallel()
	b := new(parley.Broker)
	ft, _ := run(func(t *fakeT) {
		kit := parleytest.New(t, shop)
		kit.Handle(orders(func(context.Context, *parley.Message) error {
			return errors.New("broken")
		}), post(t, "orders"))
		b = kit.Broker
	})
	b.Logger().Warn("late")
	if all := strings.Join(ft.logs, "\n"); !strings.Contains(all, "message.failed") || ft.late > 0 {
		t.Errorf("the log has %d late lines, and %s", ft.late, all)
	}
	if _, err := b.Post(t.Context(), "orders", parley.Payload{}); !errors.Is(err, parley.ErrClosed) {
		t.Errorf("after the test: %v", err)
	}
}

// TestWithTx: a handler that is called by hand works in the transaction that its message is given.
func TestWithTx(t *testing.T) {
	t.Parallel()
	kit := parleytest.New(t, shop)
	m := parleytest.Message(t, Placed, OrderPlaced{ID: "7"})
	for _, none := range []*parley.Message{m, m.WithTx(nil)} {
		if err := receipt(t.Context(), none); !errors.Is(err, parley.ErrNotReceived) {
			t.Errorf("without a transaction: %v", err)
		}
	}
	must(kit.Broker.InTx(t.Context(), func(tx *parley.Tx) error { return receipt(t.Context(), m.WithTx(tx)) }))
	kit.AssertPosted("mail", parleytest.Type("Receipt"))
}

// TestJoined: what is posted in a transaction of the application's is seen when it has committed.
func TestJoined(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	file := filepath.Join(t.TempDir(), "test.db")
	kit := parleytest.New(t, shop, parleytest.Store("sqlite:"+file))
	db, err := sql.Open("sqlite", file+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	must(err)
	defer db.Close()
	for _, end := range []func(*sql.Tx) error{(*sql.Tx).Rollback, (*sql.Tx).Commit} {
		tx, err := db.BeginTx(ctx, nil)
		must(err)
		_, err = Receipts.Post(ctx, kit.Broker.Join(tx), "mail", Receipt{Order: "7"},
			parley.After(time.Hour), parley.Unique("u"))
		must(err)
		must(end(tx))
	}
	if all := kit.Posted("mail"); len(all) != 1 || all[0].Unique != "u" {
		t.Errorf("there are %v, want one", all)
	}
}

// TestHeaders: the handler sees the message's headers, and the test those of what it sent.
func TestHeaders(t *testing.T) {
	each(t, func(t *testing.T, store parleytest.Option) {
		kit := parleytest.New(t, store, shop)
		for _, m := range []*parley.Message{
			{Queue: "orders", Type: "OrderPlaced", Headers: map[string]string{"trace": "1"}},
			{Service: "Billing", FarService: "Shop", Contract: "Orders", Type: "OrderPlaced", Headers: map[string]string{"trace": "1"}},
		} {
			r := kit.Handle(parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
				tx, err := m.Tx(ctx)
				if err != nil {
					return err
				}
				_, err = tx.Post(ctx, "mail", parley.Payload{Type: "Receipt", Headers: m.Headers})
				return err
			}), m)
			if len(r.Sent) != 1 || r.Message.Headers["trace"] != "1" || r.Sent[0].Headers["trace"] != "1" {
				t.Errorf("the handler got %v, and sent %v", r.Message, r.Sent)
			}
		}
		if all := kit.Posted("mail"); len(all) != 2 || !strings.Contains(all[0].String(), `headers "{\"trace\":\"1\"}"`) {
			t.Errorf("posted are %v", all)
		}
	})
}
