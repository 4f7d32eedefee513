package code

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/slow"
	"github.com/parleymq/parley/parleytest"
	"github.com/parleymq/parley/phases"
	"github.com/parleymq/parley/recurring"
)

// The code of docs/phases.md, docs/recycling.md, docs/recurring.md, docs/workers.md and docs/patterns.md.

func monthEnd(ctx context.Context, b *parley.Broker) error {
	plan, err := phases.Open(ctx, b, "month-end", &phases.Options{MaxActive: 10})
	if err != nil {
		return err
	}
	err = plan.Submit(ctx,
		phases.Task{Phase: 100, Type: "close", Body: []byte("north")},
		phases.Task{Phase: 100, Type: "close", Body: []byte("south")},
		phases.Task{Phase: 200, Type: "report"})
	if err != nil {
		return err
	}
	return plan.Wait(ctx)
}

func closers(ctx context.Context, b *parley.Broker, report phases.Handler) error {
	pool, err := phases.NewPool(b, phases.Handlers{
		"close": func(ctx context.Context, t *phases.Running) error {
			tx, err := t.Tx(ctx) // what is written here and the end of the task are one commit
			if err != nil {
				return err
			}
			return closeRegion(ctx, tx, string(t.Body))
		},
		"report": report,
	}, &phases.PoolOptions{Workers: 8})
	if err != nil {
		return err
	}
	return pool.Run(ctx) // in any process, in as many as you like
}

func closeRegion(ctx context.Context, tx *parley.Tx, region string) error {
	_, err := tx.Once(ctx, "closed "+region)
	return err
}

func TestPhases(t *testing.T) {
	b := memory(nil)
	defer b.Close()
	ctx, stop := context.WithCancel(t.Context())
	var reports atomic.Int32
	pool := make(chan error, 1)
	go func() {
		pool <- closers(ctx, b, func(context.Context, *phases.Running) error { reports.Add(1); return nil })
	}()
	if err := monthEnd(ctx, b); err != nil || reports.Load() != 1 {
		t.Error(reports.Load(), err)
	}
	stop()
	if err := <-pool; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

type entryBody struct{ User, Did string }

var Entry = parley.Type[entryBody]("Entry", parley.JSON)

var audit = parley.Catalog{
	Types:  []parley.MessageType{{Name: "Entry"}},
	Queues: []parley.Queue{{Name: "audit"}, {Name: "app-returns"}},
	Contracts: []parley.Contract{{Name: "Audit", Messages: []parley.ContractEntry{
		{Type: "Entry", SentBy: parley.ByInitiator}}}},
	Services: []parley.Service{
		{Name: "AuditLog", Queue: "audit", Contracts: []string{"Audit"}},
		{Name: "App", Queue: "app-returns", Recycles: []parley.Recycle{{Contract: "Audit", Ordered: true}}},
	},
}

func record(ctx context.Context, b *parley.Broker, body []byte, payload parley.Payload, entry entryBody) error {
	log, err := b.NewSender(ctx, &parley.SenderOptions{From: "App", To: "AuditLog", Contract: "Audit"})
	if err != nil {
		return err
	}
	defer log.Close(ctx)
	return b.InTx(ctx, func(tx *parley.Tx) (err error) {
		err = errors.Join(
			log.Send(ctx, tx, parley.Payload{Type: "Entry", Body: body}), // in no order
			log.Key("customer-42").Send(ctx, tx, payload),                // in the key's order
			Entry.SendBy(ctx, log.Key("customer-42"), tx, entry))         // typed
		return err
	})
}

func TestRecycling(t *testing.T) {
	b := memory(nil)
	defer b.Close()
	ctx := t.Context()
	must(b.Define(ctx, audit))
	if err := record(ctx, b, []byte(`{}`), parley.Payload{Type: "Entry", Body: []byte(`{}`)}, entryBody{"ann", "looked"}); err != nil {
		t.Fatal(err)
	}
	entries := 0
	handle := func(ctx context.Context, m *parley.Message) error {
		switch m.Type {
		case parley.EndDialog, parley.ErrorMessageType, parley.EndOfStream:
			return m.End(ctx)
		}
		entries++
		return nil
	}
	worker, err := b.NewWorker("audit", parley.HandlerFunc(handle), &parley.WorkerOptions{MaxReaders: 1})
	if err == nil {
		err = worker.Drain(ctx)
	}
	if err != nil || entries != 3 {
		t.Error(entries, err)
	}
}

func jobs(ctx context.Context, b *parley.Broker) error {
	err := recurring.Define(ctx, b,
		recurring.Job{Name: "invoices", Queue: "billing", Type: "SendInvoices",
			Cron: "0 30 2 * * *", Zone: "Europe/Berlin", CatchUp: recurring.CatchUpOnce},
		recurring.Job{Name: "poll", Queue: "imports", Every: 30 * time.Second, Jitter: 5 * time.Second,
			Overlap: recurring.OverlapSkip})
	if err != nil {
		return err
	}
	return recurring.Start(ctx, b) // in any process, in as many as you like
}

func TestJobs(t *testing.T) {
	k := parleytest.New(t, parleytest.Queues("billing", "imports"), parleytest.Types("SendInvoices"))
	if err := jobs(t.Context(), k.Broker); err != nil {
		t.Fatal(err)
	}
	k.Advance(25 * time.Hour)
	k.AssertPosted("billing", parleytest.Type("SendInvoices"))
	k.AssertPosted("imports")
}

func worker(ctx context.Context, b *parley.Broker) error {
	mux := parley.NewMux()
	parley.Handle(mux, SendMail, func(ctx context.Context, m *parley.Message, mail Mail) error {
		tx, err := m.Tx(ctx) // the transaction in which the message is acknowledged
		if err != nil {
			return err
		}
		_, err = tx.SQL().ExecContext(ctx, "INSERT INTO sent (name) VALUES ($1)", mail.To)
		return err
	})
	worker, err := b.NewWorker("mails", mux, &parley.WorkerOptions{MaxReaders: 10})
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}

// withTable is a store on SQLite with a table of the program's.
func withTable(t *testing.T) (*parleytest.Kit, *sql.DB) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "app.db")
	k := parleytest.New(t, parleytest.Store("sqlite:"+file), parleytest.Queues("mails"), parleytest.Types("SendMail"))
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(5000)")
	must(err)
	t.Cleanup(func() { db.Close() })
	_, err = db.Exec("CREATE TABLE sent (name TEXT)")
	must(err)
	return k, db
}

func TestWorker(t *testing.T) {
	k, db := withTable(t)
	parleytest.Post(k, "mails", SendMail, Mail{To: "ann"})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- worker(ctx, k.Broker) }()
	slow.Eventually(t, time.Minute, "a mail is sent", func() (any, bool) {
		var n int
		must(db.QueryRow("SELECT count(*) FROM sent").Scan(&n))
		return n, n == 1
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func ends(ctx context.Context, m *parley.Message, log *slog.Logger) error {
	switch m.Type {
	case parley.EndDialog:
		return m.End(ctx)
	case parley.ErrorMessageType:
		log.Error("conversation failed", "error", m.Err())
		return m.End(ctx)
	}
	return nil
}

func TestEnds(t *testing.T) {
	b := memory(nil)
	defer b.Close()
	ctx := t.Context()
	must(b.Define(ctx, asking))
	must(b.InTx(ctx, func(tx *parley.Tx) error {
		for _, end := range []func(c *parley.Conversation) error{
			func(c *parley.Conversation) error { return c.End(ctx) },
			func(c *parley.Conversation) error { return c.EndWithError(ctx, 17, "no such item") },
		} {
			c, err := tx.Begin(ctx, "Asking", "Working", &parley.DialogOptions{Contract: "Work"})
			if err != nil {
				return err
			}
			if err := errors.Join(c.Send(ctx, "Request", nil), end(c)); err != nil {
				return err
			}
		}
		return nil
	}))
	h := parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error { return ends(ctx, m, slog.Default()) })
	worker, err := b.NewWorker("working", h, nil)
	must(err)
	must(worker.Drain(ctx))
	if left, err := b.Admin().Conversations(ctx, parley.ConversationQuery{}); err != nil || len(left) > 0 {
		t.Error("conversations stay", left, err)
	}
}
