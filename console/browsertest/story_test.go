package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/applock"
	"github.com/parleymq/parley/internal/slow"
	"github.com/parleymq/parley/internal/sure"
	"github.com/parleymq/parley/phases"
	"github.com/parleymq/parley/recurring"
)

// pictures is the folder of docs/console.md's pictures if they are to be made, or empty.
func pictures() string {
	if os.Getenv("PICTURES") == "" {
		return ""
	}
	return "../../docs/console"
}

// TestStory shows a shop in the middle of its work. With PICTURES=1 it makes the pictures of docs/console.md.
func TestStory(t *testing.T) {
	b := store(t, "sqlite")
	shop(t, b)
	site := serve(t, handler(t, b))
	snap := func(w *window, name string) {
		if folder := pictures(); folder != "" {
			w.picture(filepath.Join(folder, name+".png"), false)
		}
	}
	tall := look{width: 1280, height: 860}
	w := open(t, tall)
	w.show(site + "/")
	if os.Getenv("PICTURES") != "quick" && pictures() != "" { // the line of the last minutes needs some
		for range 12 {
			time.Sleep(4 * time.Second)
			for range 3 {
				must(b.Post(t.Context(), "thumbnails", parley.Payload{}))
			}
		}
	}
	w.view(site+"/", []string{"orders", "mail", "thumbnails"})
	snap(w, "overview")

	w.view(site+"/queue?name=orders", []string{"Ann Lee", "held"})
	w.until(`document.querySelectorAll(".grip").length > 8`)
	from, to := w.at(w.handle("Gus Lam"), 0.5), w.at(w.row("Dan Fox"), 0.3)
	event := func(kind input.DispatchMouseEventType, p point) step {
		return command(input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: kind, X: p.X, Y: p.Y, Button: input.MouseButtonLeft, Buttons: 1})
	}
	w.run(event(input.DispatchMouseEventTypeMousePressed, from), event(input.DispatchMouseEventTypeMouseMoved, to))
	w.until(`document.querySelector("[data-drop] .name")?.innerText.trim() === "Dan Fox"`)
	w.check() // also while a row is dragged
	snap(w, "queue")
	w.moved(func() { w.run(event(input.DispatchMouseEventTypeMouseReleased, to)) })

	w = open(t, tall.inDark())
	w.view(site+"/plan?name=month-end", []string{"Phase 30", "waits for phase 20"})
	snap(w, "plan")
	w.view(site+"/dead", []string{"550 mailbox unavailable"})
	w.view(site+"/locks", []string{"stock/7"})

	w = open(t, narrow.inDark())
	w.view(site+"/queue?name=mail", []string{"parked", "550 mailbox unavailable"})
}

// shop fills a store with the work of a shop, some of which is under way.
func shop(t *testing.T, b *parley.Broker) {
	t.Helper()
	ctx := t.Context()
	check := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	check(b.Define(ctx, parley.Catalog{
		Types:  []parley.MessageType{{Name: "Order"}, {Name: "Mail"}, {Name: "Picture"}},
		Queues: []parley.Queue{{Name: "orders"}, {Name: "mail"}, {Name: "thumbnails"}},
	}))
	post := func(queue, typ, key string, priority int, after time.Duration) {
		o := []parley.PostOption{parley.Priority(priority)}
		if key != "" {
			o = append(o, parley.Key(key))
		}
		if after > 0 {
			o = append(o, parley.After(after))
		}
		_, err := b.Post(ctx, queue, parley.Payload{Type: typ}, o...)
		check(err)
	}
	for i, end := range []error{parley.Park(errors.New("550 mailbox unavailable")), parley.DeadLetter(errors.New("550 mailbox unavailable")),
		parley.DeadLetter(errors.New("the body is no JSON: unexpected end of input")), parley.Defer(9 * time.Minute), parley.Park(errors.New("554 rejected as spam"))} {
		post("mail", "Mail", fmt.Sprintf("customer/%d", 1040+i), 5, 0)
		check(sure.Of(b.NewWorker("mail", parley.HandlerFunc(func(context.Context, *parley.Message) error { return end }), nil)).Drain(ctx))
	}
	post("mail", "Mail", "customer/1063", 5, 0)
	post("mail", "Mail", "", 5, time.Hour)
	for i, name := range []string{"Ann Lee", "Bob Roe", "Cleo May", "Dan Fox", "Eve Ash", "Fay Orr", "Gus Lam", "Hal Poe", "Ida Ray", "Jon Elm", "Kim Ito", "Lou Day"} {
		for range 1 + i*i%3 {
			post("orders", "Order", name, 5, 0)
		}
	}
	for range 60 {
		post("thumbnails", "Picture", "", 3, 0)
	}
	check(b.PromoteKey(ctx, "orders", "Hal Poe"))
	check(recurring.Define(ctx, b, recurring.Job{Name: "digest", Queue: "mail", Type: "Mail", Cron: "0 7 * * *", Zone: "Europe/Berlin"}))
	work(t, b, "orders", 2)
	work(t, b, "mail", 1)
	work(t, b, "thumbnails", 4)
	monthEnd(t, b)
	stock(t, b)
}

// work starts a worker whose handlers are at work until the end of the test.
func work(t *testing.T, b *parley.Broker, queue string, readers int) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	busy, release, over := make(chan struct{}, 1000), make(chan struct{}), make(chan struct{})
	worker := sure.Of(b.NewWorker(queue, parley.HandlerFunc(func(context.Context, *parley.Message) error {
		busy <- struct{}{}
		<-release
		return errors.New("the test is over")
	}), &parley.WorkerOptions{MaxReaders: readers, MaxBatch: 1, Hold: parley.HoldLease}))
	go func() { defer close(over); _ = worker.Run(ctx) }()
	t.Cleanup(func() { end(); close(release); <-over })
	<-busy
}

// monthEnd makes a plan of three phases, of which the second is under way.
func monthEnd(t *testing.T, b *parley.Broker) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	plan, err := phases.Open(ctx, b, "month-end", &phases.Options{Purpose: "the books of October", Caller: "accounting"})
	if err == nil {
		err = plan.Submit(ctx, phases.Task{Phase: 10, Type: "orders"}, phases.Task{Phase: 10, Type: "payments"}, phases.Task{Phase: 10, Type: "refunds"},
			phases.Task{Phase: 20, Type: "match"}, phases.Task{Phase: 20, Type: "taxes"}, phases.Task{Phase: 20, Type: "ledger"}, phases.Task{Phase: 30, Type: "report"})
	}
	if err != nil {
		t.Fatal(err)
	}
	takes := map[string]time.Duration{"orders": 900, "payments": 500, "refunds": 300, "match": 400}
	at, over := make(chan struct{}, 10), make(chan struct{})
	go func() {
		defer close(over)
		_ = plan.Run(ctx, phases.Handlers{"": func(ctx context.Context, r *phases.Running) error {
			wait := takes[r.Type] * time.Millisecond
			if wait == 0 {
				at <- struct{}{}
				wait = time.Hour
			}
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
			return ctx.Err()
		}}, &phases.PoolOptions{Workers: 2})
	}()
	t.Cleanup(func() { end(); <-over })
	<-at
	<-at
}

// stock has an owner hold a lock for which another one waits.
func stock(t *testing.T, b *parley.Broker) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	first, second := must(applock.Open(ctx, b, &applock.Options{Owner: "checkout"})), must(applock.Open(ctx, b, &applock.Options{Owner: "stocktaking"}))
	must(first.Lock(ctx, "stock/7", applock.Exclusive, 0))
	over := make(chan struct{})
	go func() { defer close(over); _, _ = second.Lock(ctx, "stock/7", applock.Shared, -1) }()
	t.Cleanup(func() { end(); <-over; first.Close(); second.Close() })
	slow.Eventually(t, 10*time.Second, "a waiter", func() (any, bool) {
		list, err := applock.List(ctx, b, "")
		return err, len(list) == 2
	})
}
