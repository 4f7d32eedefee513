// Package consoletest has what the tests of the console share, also those in a browser. It has a store with one
// item of each kind, all pages about it, and hostile texts.
package consoletest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/applock"
	"github.com/parleymq/parley/internal/slow"
	"github.com/parleymq/parley/internal/sure"
	"github.com/parleymq/parley/phases"
	"github.com/parleymq/parley/recurring"
)

// Filled are the ids of what Fill has made.
type Filled struct {
	Keyed, Parked, Held parley.ID // groups
	Handle, Dead, Task  parley.ID
}

// Texts are what Fill writes wherever a program can: an ordinary text, or a hostile one.
type Texts func(what string) string

// Plain is an ordinary text.
func Plain(what string) string { return what }

// Fill makes one of each thing that the console shows.
func Fill(t testing.TB, b *parley.Broker, say Texts) (f Filled) {
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
		f.Handle = c.Handle()
		return c.SendPayload(ctx, parley.Payload{Type: say("Order"), Body: []byte(`{"item": "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`).Replace(say("chair")) + `"}`),
			Headers: map[string]string{say("trace"): say("abc")}})
	}))
	welcome := parley.Payload{Type: say("Welcome"), Body: []byte(say("secret body"))}
	// One message is parked, one is dead, one is put off.
	for i, end := range []error{parley.Park(errors.New(say("no such address"))), parley.DeadLetter(errors.New(say("gone for good"))), parley.Defer(time.Hour)} {
		_, err := b.Post(ctx, mail, welcome, parley.Key(fmt.Sprint(say("customer"), i)))
		must(err)
		must(sure.Of(b.NewWorker(mail, parley.HandlerFunc(func(context.Context, *parley.Message) error { return end }), nil)).Drain(ctx))
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
			f.Keyed = g.Group
		case "parked":
			f.Parked = g.Group
		}
	}
	dead, err := b.Admin().DeadLetters(ctx, "", parley.Place{}, 1)
	must(err)
	f.Dead = dead[0].Message.ID

	_, err = b.Post(ctx, orders, welcome)
	must(err)
	d, err := b.Receive(ctx, orders, &parley.ReceiveOptions{Hold: parley.HoldLease, Wait: slow.By(5 * time.Second)})
	must(err)
	f.Held = d.Messages[0].Group
	t.Cleanup(func() { d.Close() })
	must(b.Admin().DisableQueue(ctx, say("legacy")))

	must(recurring.Define(ctx, b, recurring.Job{Name: "digest", Queue: mail, Type: say("Welcome"), Cron: "0 7 * * *", Zone: "Europe/Berlin", Jitter: time.Minute}))
	fillPlan(t, b, say, &f)
	fillLocks(t, b, say)
	return f
}

// fillPlan makes a plan that a dead task halts.
func fillPlan(t testing.TB, b *parley.Broker, say Texts, f *Filled) {
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
			f.Task = r.ID
			return phases.Dead(errors.New(say("the disk is full")))
		}
		return nil
	}}, &phases.PoolOptions{Workers: 1})
	if !errors.Is(err, phases.ErrHalted) {
		t.Fatalf("the plan ends with %v", err)
	}
}

// fillLocks has an owner hold a lock and another one wait for it.
func fillLocks(t testing.TB, b *parley.Broker, say Texts) {
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
