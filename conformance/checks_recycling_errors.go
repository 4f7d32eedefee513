package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		check{ID: "C05", Name: "dialogs that are of no use", Run: checkDeadDialogReplaced},
		check{ID: "C05", Name: "ten dialogs that take nothing", Run: checkTenDialogs},
		check{ID: "C06", Name: "errors that say nothing against the messages", Run: checkResent},
		check{ID: "C06", Name: "errors that do", Run: func(e *env) { checkNotResent(e, "") }},
		check{ID: "C06", Name: "errors that do, by key", Run: func(e *env) { checkNotResent(e, "k") }},
	)
}

func checkDeadDialogReplaced(e *env) {
	w := e.World(recCatalog(false))
	s := recSender(w, w.B, parley.SenderOptions{})
	for _, death := range []struct {
		how string
		do  func(client, server parley.ID)
	}{
		{"ended with an error by the target", func(_, server parley.ID) { dlgEndError(w, server, 17, "no more") }},
		{"ended by the target", func(_, server parley.ID) { dlgEnd(w, server) }},
		{"cleaned up at the target", func(_, server parley.ID) { dlgCleanup(w, server) }},
		{"ended by this side", func(client, _ parley.ID) { dlgEnd(w, client) }},
		{"gone", func(client, server parley.ID) { dlgCleanup(w, server); dlgCleanup(w, client) }},
	} {
		for _, s := range []*parley.Sender{s, s.Key("k")} {
			recMust(w, w.B, s, "first")
			first, _ := recUntil(w, 1)
			server := first[0].Conversation
			client := dlgPeer(w, server)
			death.do(client, server)
			recMust(w, w.B, s, "second", "third")
			// A dialog that this side ended brings the target an EndDialog.
			var got []*parley.Message
			for len(got) < 2 {
				ms := recTake(w, 5*time.Second)
				if ms == nil {
					e.Fatalf("%s: received %s, want the two messages that were sent afterwards", death.how, describe(got))
				}
				for _, m := range ms {
					if m.Type == w.Ask {
						got = append(got, m)
					}
				}
			}
			dlgSame(e, death.how+": received", bodiesOf(got), []string{"second", "third"})
			if hs := handlesOf(got); len(hs) != 1 || hs[0] == server {
				e.Errorf("%s: the messages came on %v, want one new conversation and not %s", death.how, hs, server)
			}
			// The next round begins with a new one.
			dlgEnd(w, got[0].Conversation)
			w.Drain(w.SQ)
		}
	}
}

// recCounter counts the dialogs that a broker begins.
type recCounter struct {
	backend.Backend
	begun atomic.Int64
}

type recCounterTx struct {
	backend.Tx
	n *atomic.Int64
}

func (c *recCounter) Begin(ctx context.Context) (backend.Tx, error) {
	tx, err := c.Backend.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &recCounterTx{tx, &c.begun}, nil
}

func (c *recCounterTx) BeginDialog(ctx context.Context, version int64, d backend.NewDialog) error {
	c.n.Add(1)
	return c.Tx.BeginDialog(ctx, version, d)
}

func checkTenDialogs(e *env) {
	log := newRecLog()
	be := &recCounter{Backend: e.Handle()}
	b, err := parley.New(e.Ctx, be, &parley.Options{Logger: slog.New(log)})
	e.Must(err)
	defer b.Close()
	w := e.WorldOn(b, recCatalog(false), func(c *parley.Catalog) { c.Services[1].Contracts = nil })
	s := recSender(w, b, parley.SenderOptions{})
	for i, s := range []*parley.Sender{s, s.Key("k")} {
		be.begun.Store(0)
		e.Must(b.InTx(e.Ctx, func(tx *parley.Tx) error {
			err := s.Send(e.Ctx, tx, parley.Payload{Type: w.Ask})
			dlgNames(e, "send to a service that does not take the contract", err, parley.ErrSenderFailed, w.Server)
			return nil // the transaction goes on
		}))
		if n := be.begun.Load(); n != 10 {
			e.Errorf("%d dialogs were tried, want 10", n)
		}
		if lines := log.with("ERROR", "event=sender.failed", w.Server); len(lines) != i+1 {
			e.Errorf("%d times was it logged that a sender failed, want %d: %q", len(lines), i+1, lines)
		}
	}
	list, err := b.Admin().Conversations(e.Ctx, parley.ConversationQuery{Limit: backend.CountLimit})
	e.Must(err)
	for _, c := range list {
		if c.Service == w.Client {
			e.Errorf("conversation %s was left behind", c.Handle)
		}
	}
	// Once the service takes it, the same senders go on.
	e.Must(b.Define(e.Ctx, parley.Catalog{Services: []parley.Service{{Name: w.Server, Queue: w.SQ, Contracts: []string{w.Contract}}}}))
	recMust(w, b, s, "1")
	recMust(w, b, s.Key("k"), "2")
	recUntil(w, 2)
}

func checkResent(e *env) {
	for i, code := range []int{parley.CodeLifetime, parley.CodeRemoteClosed, parley.CodeRestored, parley.CodeKeyChanged} {
		log := newRecLog()
		key := []string{"", "k"}[i%2]
		w, s, client, server := recPending(e, log, key)
		recFail(w, client, code)
		if !e.Soon(10*time.Second, func() bool { return len(log.with("event=recycle.error", fmt.Sprint("code=", code), "resent=3")) > 0 }) {
			e.Fatalf("code %d: it was not logged that three messages were sent again: %q", code, log.with(""))
		}
		dlgEnd(w, server) // which the error of the other side does not end
		recMust(w, w.B, s, "4")
		e.Must(w.B.Admin().EnableQueue(e.Ctx, w.SQ))
		got, _ := recUntil(w, 4)
		if key != "" {
			dlgSame(e, fmt.Sprintf("code %d: received", code), bodiesOf(got), []string{"1", "2", "3", "4"})
		}
		var again []*parley.Message // what was sent again
		for _, m := range got {
			if string(m.Body) != "4" {
				again = append(again, m)
			}
		}
		dlgSame(e, fmt.Sprintf("code %d: received again", code), bodiesOf(again), []string{"1", "2", "3"})
		if hs := handlesOf(again); len(hs) != 1 || hs[0] == server {
			e.Errorf("code %d: they came on %v, want one conversation and not %s", code, hs, server)
		}
		recGone(w, append(handlesOf(again), server)...)
		if dead := recDead(w); len(dead) > 0 {
			e.Errorf("code %d: %q are dead letters", code, dead)
		}
		e.Must(w.B.Close())
	}
}

func checkNotResent(e *env, key string) {
	const code = -8425
	log := newRecLog()
	w, s, client, server := recPending(e, log, key)
	recFail(w, client, code)
	if !e.Soon(10*time.Second, func() bool {
		return len(log.with("event=recycle.error", fmt.Sprint("code=", code))) > 0 && len(log.with("event=recycle.lost", "messages=3")) > 0
	}) {
		e.Fatalf("it was not logged that three messages are lost: %q", log.with(""))
	}
	e.Must(w.B.Admin().EnableQueue(e.Ctx, w.SQ))
	dlgEnd(w, server)
	recMust(w, w.B, s, "4")
	got, _ := recUntil(w, 1)
	dlgSame(e, "received", bodiesOf(got), []string{"4"})
	dlgSame(e, "dead letters", recDead(w), []string{"1", "2", "3"})
	recGone(w, server)
}
