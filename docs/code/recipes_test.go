package code

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/doctor"
	"github.com/parleymq/parley/parleytest"
	"github.com/parleymq/parley/recurring"
)

// The code of docs/recipes.md, docs/tenants.md, docs/monitoring.md and docs/kubernetes.md.

func recipesOfPosts(ctx context.Context, tx *parley.Tx, mail Mail) error {
	_, err := SendMail.Post(ctx, tx, "mails", mail,
		parley.After(10*time.Minute),      // not before
		parley.Key(mail.To),               // in the order of this key, one at a time
		parley.Priority(8),                // before posts of rank 7 and less
		parley.Unique("welcome:"+mail.To)) // only if no other one is pending
	return err
}

func reminder(ctx context.Context, tx *parley.Tx, mail Mail) error {
	_, err := SendMail.Post(ctx, tx, "mails", mail,
		parley.UniquePer("reminder:"+mail.To, 24*time.Hour), // one in each day, whatever becomes of it
		parley.After(24*time.Hour))                          // in the day in which it is due
	return err
}

func urgent(ctx context.Context, b *parley.Broker, customer string) error {
	return b.PromoteKey(ctx, "mails", customer) // before the rest of the queue, in its own order
}

func many(ctx context.Context, tx *parley.Tx, mails []Mail) error {
	_, err := SendMail.PostBatch(ctx, tx, "mails", mails) // all or none
	return err
}

func patient(b *parley.Broker, h parley.Handler) (*parley.Worker, error) {
	return b.NewWorker("mails", h, &parley.WorkerOptions{
		MaxAttempts: 5,
		Backoff:     parley.Backoff(time.Second, time.Hour), // doubles from a second to an hour
		Poison:      parley.ActionDeadLetter,
		Timeout:     time.Minute,
	})
}

var errNoAddress, errQuota = errors.New("no such address"), errors.New("too many mails")

func deliver(ctx context.Context, mail Mail) error {
	switch mail.To {
	case "unknown":
		return errNoAddress
	case "many":
		return errQuota
	}
	return nil
}

func outcomes(ctx context.Context, m *parley.Message, mail Mail) error {
	err := deliver(ctx, mail)
	switch {
	case errors.Is(err, errNoAddress):
		return parley.DeadLetter(err) // never again
	case errors.Is(err, errQuota):
		return parley.Defer(time.Hour) // later, and no attempt
	}
	return err // nil: done. Otherwise another attempt after the back-off
}

func requeue(ctx context.Context, b *parley.Broker) error {
	dead, err := b.Admin().DeadLetters(ctx, "mails", parley.Place{}, 1000)
	for _, d := range dead {
		if err == nil && strings.Contains(d.Reason, "no such address") {
			_, err = b.Admin().RequeueDead(ctx, d)
		}
	}
	return err
}

func undo(ctx context.Context, b *parley.Broker, id parley.ID) error {
	err := b.CancelPost(ctx, "mails", id)
	if errors.Is(err, parley.ErrNotPending) {
		return errors.New("it is in a handler's hands, or done")
	}
	return err
}

func cancelAll(ctx context.Context, b *parley.Broker, customer string) error {
	cancelled, err := b.CancelPosts(ctx, "mails", parley.PostFilter{Key: customer})
	if err != nil {
		return err
	}
	log.Printf("%d waited and are gone, %d handlers were asked to stop", len(cancelled.Removed), len(cancelled.Requested))
	return nil
}

func longWork(b *parley.Broker, h parley.Handler) (*parley.Worker, error) {
	return b.NewWorker("mails", h, &parley.WorkerOptions{
		Hold:  parley.HoldLease, // no transaction stays open while the handler works
		Lease: 30 * time.Second, // how long others wait if this process dies; heartbeats extend it
	})
}

func outside(ctx context.Context, m *parley.Message, mail Mail) error {
	if err := sendOnce(ctx, mail, m.ID.String()); err != nil { // the ID is the same at every attempt
		return err
	}
	tx, err := m.Tx(ctx) // asked for after the slow part
	if err != nil {
		return err
	}
	_, err = tx.SQL().ExecContext(ctx, "INSERT INTO sent (name) VALUES ($1)", mail.To)
	return err
}

func sendOnce(context.Context, Mail, string) error { return nil }

func fanOut(ctx context.Context, tx *parley.Tx, p parley.Payload) error {
	for _, queue := range []string{"mails", "audit"} { // a queue for each that wants to know
		if _, err := tx.Post(ctx, queue, p); err != nil {
			return err
		}
	}
	return nil
}

func everyMorning(ctx context.Context, b *parley.Broker) error {
	err := recurring.Define(ctx, b, recurring.Job{Name: "digest", Queue: "mails", Type: "Digest",
		Cron: "0 0 7 * * *", Zone: "Europe/Paris"})
	return errors.Join(err, recurring.Start(ctx, b))
}

type tenantKey struct{}

func tenantOptions() *parley.Options {
	return &parley.Options{Outgoing: func(ctx context.Context, o *parley.Outgoing) error {
		if tenant, ok := ctx.Value(tenantKey{}).(string); ok {
			o.Headers["tenant"] = tenant
		}
		return nil
	}}
}

func tenantOf(next parley.Handler) parley.Handler {
	return parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		return next.HandleMessage(context.WithValue(ctx, tenantKey{}, m.Headers["tenant"]), m)
	})
}

// metrics counts what the workers of a process do.
type metrics struct {
	parley.NopObserver
	handled, failed, poisoned atomic.Int64
	waited                    atomic.Int64 // how long the messages were in the queue, in nanoseconds
}

func (m *metrics) Handled(_ context.Context, e parley.HandleEvent) {
	m.handled.Add(1)
	if e.Err != nil {
		m.failed.Add(1)
	}
	m.waited.Add(int64(e.Age))
}

func (m *metrics) Poisoned(context.Context, parley.PoisonEvent) { m.poisoned.Add(1) }

func gauges(ctx context.Context, b *parley.Broker) (string, error) {
	queues, err := b.Admin().Queues(ctx)
	var text strings.Builder
	for _, q := range queues {
		fmt.Fprintf(&text, "parley_depth{queue=%q} %d\n", q.Name, q.Depth)
		fmt.Fprintf(&text, "parley_oldest_seconds{queue=%q} %g\n", q.Name, q.Oldest.Seconds())
		fmt.Fprintf(&text, "parley_parked_groups{queue=%q} %d\n", q.Name, q.Parked)
	}
	return text.String(), err
}

func findings(ctx context.Context, b *parley.Broker) error {
	report, err := doctor.Diagnose(ctx, b, "")
	if err != nil {
		return err
	}
	for _, f := range report {
		if f.Bad {
			fmt.Println(f.Code, f.Object, f.Text, f.Hint)
		}
	}
	return nil
}

func ready(b *parley.Broker) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if _, err := b.Catalog(ctx); err != nil { // the database answers, and its schema is ours
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
}

func recipeKit(t *testing.T) *parleytest.Kit {
	return parleytest.New(t, parleytest.Queues("mails", "audit"), parleytest.Types("SendMail", "Digest"),
		parleytest.BrokerOptions(*tenantOptions()))
}

func TestRecipes(t *testing.T) {
	k := recipeKit(t)
	ctx := t.Context()
	in := func(f func(tx *parley.Tx) error) {
		t.Helper()
		if err := k.Broker.InTx(ctx, f); err != nil {
			t.Fatal(err)
		}
	}
	mail := Mail{To: "ann", Text: "Welcome."}
	for range 2 {
		in(func(tx *parley.Tx) error { return recipesOfPosts(ctx, tx, mail) })
	}
	k.AssertPosted("mails", parleytest.Key("ann"), parleytest.Unique("welcome:ann"), parleytest.After(10*time.Minute))
	if n := len(k.Posted("mails")); n != 1 {
		t.Errorf("%d posts, one of them a duplicate", n)
	}
	for range 2 {
		in(func(tx *parley.Tx) error { return reminder(ctx, tx, mail) })
	}
	if n := len(k.Posted("mails")); n != 2 {
		t.Errorf("%d posts after two reminders of one day", n-1)
	}
	in(func(tx *parley.Tx) error { return many(ctx, tx, []Mail{{To: "ben"}, {To: "eve"}}) })
	k.Advance(10 * time.Minute)
	if err := urgent(ctx, k.Broker, "ann"); err != nil {
		t.Fatal(err)
	}
	mux := parley.NewMux()
	mux.Use(tenantOf)
	var to []string
	parley.Handle(mux, SendMail, func(ctx context.Context, m *parley.Message, mail Mail) error {
		to = append(to, mail.To)
		return outcomes(ctx, m, mail)
	})
	k.Drain(ctx, mux, "mails")
	if got := strings.Join(to, " "); got != "ann ben eve" {
		t.Error(got)
	}
	for name, want := range map[string]parleytest.Outcome{
		"unknown": parleytest.DeadLettered, "many": parleytest.Deferred, "eve": parleytest.Acknowledged} {
		m := parleytest.Message(t, SendMail, Mail{To: name})
		m.Queue = "mails"
		if r := k.Handle(mux, m); r.Outcome != want {
			t.Error(name, r)
		}
	}
	if err := requeue(ctx, k.Broker); err != nil {
		t.Fatal(err)
	}
	k.AssertPosted("mails", parleytest.Value(SendMail, Mail{To: "unknown"}))
	in(func(tx *parley.Tx) error { return fanOut(ctx, tx, parley.Payload{Type: "Digest"}) })
	k.AssertPosted("audit", parleytest.Type("Digest"))

	var id parley.ID
	in(func(tx *parley.Tx) (err error) {
		id, err = SendMail.Post(ctx, tx, "audit", mail)
		return err
	})
	if err := k.Broker.CancelPost(ctx, "audit", id); err != nil {
		t.Error(err)
	}
	if err := undo(ctx, k.Broker, id); err == nil {
		t.Error("what is done can be undone")
	}
	in(func(tx *parley.Tx) error {
		_, err := SendMail.Post(ctx, tx, "mails", mail, parley.Key("ben"))
		return err
	})
	if err := cancelAll(ctx, k.Broker, "ben"); err != nil {
		t.Error(err)
	}
	if again, err := k.Broker.CancelPosts(ctx, "mails", parley.PostFilter{Key: "ben"}); err != nil || len(again.Removed) > 0 {
		t.Errorf("what is cancelled is still there: %v, %v", again, err)
	}
}

func TestOutside(t *testing.T) {
	k, db := withTable(t)
	m := parleytest.Message(t, SendMail, Mail{To: "ann"})
	m.Queue = "mails"
	mux := parley.NewMux()
	parley.Handle(mux, SendMail, outside)
	if r := k.Handle(mux, m); r.Outcome != parleytest.Acknowledged {
		t.Error(r)
	}
	var n int
	if err := db.QueryRow("SELECT count(*) FROM sent").Scan(&n); err != nil || n != 1 {
		t.Error(n, err)
	}
}

func TestRecipesOfWorkers(t *testing.T) {
	k := recipeKit(t)
	ctx := t.Context()
	h := parley.HandlerFunc(func(context.Context, *parley.Message) error { return nil })
	for _, make := range []func(*parley.Broker, parley.Handler) (*parley.Worker, error){patient, longWork} {
		w, err := make(k.Broker, h)
		if err == nil {
			err = w.Drain(ctx)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if err := everyMorning(ctx, k.Broker); err != nil {
		t.Error(err)
	}
	k.Advance(24 * time.Hour)
	k.AssertPosted("mails", parleytest.Type("Digest"))
	text, err := gauges(ctx, k.Broker)
	if err != nil || !strings.Contains(text, `parley_depth{queue="mails"} 1`) {
		t.Error(text, err)
	}
	if err := findings(ctx, k.Broker); err != nil {
		t.Error(err)
	}
	m := new(metrics)
	worker, err := k.Broker.NewWorker("mails", h, &parley.WorkerOptions{MaxReaders: 1, Observer: m})
	if err == nil {
		err = worker.Drain(ctx)
	}
	if err != nil || m.handled.Load() != 1 {
		t.Error(m.handled.Load(), err)
	}
	w := httptest.NewRecorder()
	ready(k.Broker)(w, httptest.NewRequestWithContext(ctx, "GET", "/ready", nil))
	if w.Code != http.StatusOK {
		t.Error(w.Code)
	}
	k.Broker.Close()
	w = httptest.NewRecorder()
	ready(k.Broker)(w, httptest.NewRequestWithContext(ctx, "GET", "/ready", nil))
	if w.Code != http.StatusServiceUnavailable {
		t.Error("a closed Broker is ready", w.Code)
	}
}

func TestHeadersOfTenants(t *testing.T) {
	k := recipeKit(t)
	ctx := context.WithValue(t.Context(), tenantKey{}, "acme")
	mux := parley.NewMux()
	mux.Use(tenantOf)
	parley.Handle(mux, SendMail, func(ctx context.Context, m *parley.Message, _ Mail) error {
		tx, err := m.Tx(ctx)
		if err == nil {
			_, err = tx.Post(ctx, "audit", parley.Payload{Type: "Digest"})
		}
		return err
	})
	if err := k.Broker.InTx(ctx, func(tx *parley.Tx) error {
		_, err := SendMail.Post(ctx, tx, "mails", Mail{To: "ann"})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	k.Drain(t.Context(), mux, "mails")
	for _, s := range k.Posted("audit") {
		if s.Headers["tenant"] != "acme" {
			t.Errorf("headers of what a handler posts: %v", s.Headers)
		}
	}
}
