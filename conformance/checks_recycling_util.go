package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// recCatalog makes Client of a world send to Server by a Sender.
func recCatalog(ordered bool) func(*parley.Catalog) {
	return func(c *parley.Catalog) {
		c.Contracts[0].Messages = c.Contracts[0].Messages[:1] // what the initiator sends
		c.Services[0].Recycles = []parley.Recycle{{Contract: c.Contracts[0].Name, Ordered: ordered}}
	}
}

// recSender makes a Sender of a world on a broker.
func recSender(w *world, b *parley.Broker, o parley.SenderOptions) *parley.Sender {
	o.From, o.To, o.Contract = w.Client, w.Server, w.Contract
	s, err := b.NewSender(w.Ctx, &o)
	if err != nil {
		dlgFatal(w.env, "new sender: %v", err)
	}
	return s
}

// recSend sends one message in a separate transaction.
func recSend(w *world, b *parley.Broker, s *parley.Sender, body string) error {
	return b.InTx(w.Ctx, func(tx *parley.Tx) error {
		return s.Send(w.Ctx, tx, parley.Payload{Type: w.Ask, Body: []byte(body)})
	})
}

// recMust is recSend for bodies whose send must not fail.
func recMust(w *world, b *parley.Broker, s *parley.Sender, bodies ...string) {
	for _, body := range bodies {
		if err := recSend(w, b, s, body); err != nil {
			dlgFatal(w.env, "send %q: %v", body, err)
		}
	}
}

// recTake receives as a target does: it takes one delivery and ends the
// conversation when EndOfStream comes. Nil: there was none within the wait.
func recTake(w *world, wait time.Duration) []*parley.Message {
	d := w.TryReceive(w.SQ, nil, wait)
	if d == nil {
		return nil
	}
	for _, m := range d.Messages {
		if m.Type == parley.EndOfStream {
			w.Must(m.End(w.Ctx))
		}
	}
	w.Must(d.Ack(w.Ctx))
	return d.Messages
}

// recUntil receives until there are n messages besides EndOfStream, and returns
// them and the conversations in which it came.
func recUntil(w *world, n int) (got []*parley.Message, ended []parley.ID) {
	for len(got) < n {
		ms := recTake(w, 10*time.Second)
		if ms == nil {
			dlgFatal(w.env, "received %s, want %d messages", describe(got), n)
		}
		for _, m := range ms {
			if m.Type == parley.EndOfStream {
				ended = append(ended, m.ConversationID)
			} else {
				got = append(got, m)
			}
		}
	}
	if len(got) > n {
		dlgFatal(w.env, "received %s, want %d messages", describe(got), n)
	}
	return got, ended
}

// recGone ends the check unless all conversations of the world's queues are over
// soon. What comes meanwhile is received as a target does, and may be
// EndOfStream only. Two sides that ended at the same time are found by a walk that
// begins each ten seconds.
func recGone(w *world, handles ...parley.ID) {
	left := ""
	ok := w.Soon(30*time.Second, func() bool {
		for _, m := range recTake(w, 0) {
			if m.Type != parley.EndOfStream {
				dlgFatal(w.env, "received %s after all messages", describe([]*parley.Message{m}))
			}
		}
		left = ""
		for _, h := range handles {
			list, err := w.B.Admin().Conversations(w.Ctx, parley.ConversationQuery{Handle: h})
			w.Must(err)
			for _, c := range list {
				left += fmt.Sprintf(" %s (%s)", c.Handle, c.State)
			}
		}
		return left == ""
	})
	if !ok {
		dlgFatal(w.env, "conversations are left:%s", left)
	}
}

func handlesOf(ms []*parley.Message) (handles []parley.ID) {
	for _, m := range ms {
		if !slices.Contains(handles, m.Conversation) {
			handles = append(handles, m.Conversation)
		}
	}
	return handles
}

// recLog collects what is logged.
type recLog struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
}

func newRecLog() *recLog { return &recLog{Handler: slog.DiscardHandler} }

func (l *recLog) Enabled(context.Context, slog.Level) bool { return true }

func (l *recLog) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool { line += fmt.Sprintf(" %s=%v", a.Key, a.Value); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

// with returns the lines that have all the parts.
func (l *recLog) with(parts ...string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) }) {
			found = append(found, line)
		}
	}
	return found
}

// recFail gives one side of a conversation an error of the broker's.
func recFail(w *world, h parley.ID, code int) {
	tx, err := w.Handle().Begin(w.Ctx)
	w.Must(err)
	defer tx.Rollback(w.Ctx)
	w.Must(tx.Notice(w.Ctx, backend.Notice{To: h, Kind: backend.KindError, Error: &backend.DialogError{Code: code, Text: "made by the check"}}))
	w.Must(tx.Commit(w.Ctx))
}

// recPending makes a world whose target has one message of a dialog and whose
// sender has three more that it cannot deliver. It returns both handles of the
// dialog.
func recPending(e *env, log *recLog, key string) (w *world, s *parley.Sender, client, server parley.ID) {
	e.r.forget() // a broker that is open serves every Sender's dialogs, and this one is to log it
	b := e.Broker(&parley.Options{Logger: slog.New(log)})
	w = e.WorldOn(b, recCatalog(true))
	s = recSender(w, b, parley.SenderOptions{})
	if key != "" {
		s = s.Key(key)
	}
	recMust(w, b, s, "0")
	got, _ := recUntil(w, 1)
	server = got[0].Conversation
	client = dlgPeer(w, server)
	e.Must(b.Admin().DisableQueue(e.Ctx, w.SQ))
	recMust(w, b, s, "1", "2", "3")
	if held := dlgWithheld(w, client); held == nil || held.Count != 3 {
		e.Fatalf("%+v is withheld, want three messages", held)
	}
	return w, s, client, server
}

// recDead returns the bodies of the dead letters that Server should have got.
func recDead(w *world) (bodies []string) {
	dead, err := w.B.Admin().DeadLetters(w.Ctx, "", parley.Place{}, 1000)
	w.Must(err)
	for _, d := range dead {
		if d.Message.Service == w.Server {
			bodies = append(bodies, string(d.Message.Body))
		}
	}
	slices.Sort(bodies)
	return bodies
}

func dlgHeldOf(w *world, service string) (of []parley.WithheldStream) {
	list, err := w.B.Admin().Withheld(w.Ctx, parley.ID{}, backend.CountLimit)
	w.Must(err)
	for _, s := range list {
		if s.From.Service == service {
			of = append(of, s)
		}
	}
	return of
}
