package conformance

import (
	"bufio"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		check{ID: "C07", Name: "one dialog after the other", Run: checkDialogsInOrder},
		check{ID: "C07", Name: "the end of a target, while its dialog is locked", Run: checkEndBesideLock},
		check{ID: "C08", Name: "the broker of the sender was closed", Run: checkSenderClosed},
		check{ID: "C08", Name: "the process of the sender was killed", Run: checkSenderKilled},
	)
	addRole("sender", recChild)
}

func checkDialogsInOrder(e *env) {
	w := e.World(recCatalog(true))
	s := recSender(w, w.B, parley.SenderOptions{MaxMessages: 2}).Key("k")
	recMust(w, w.B, s, "1", "2", "3", "4", "5")
	recMust(w, w.B, recSender(w, w.B, parley.SenderOptions{}).Key("other"), "other") // waits for no other dialog

	var seen []string
	for len(seen) < 6 {
		d := w.Receive(w.SQ, nil)
		for _, m := range d.Messages {
			if m.Type != parley.EndOfStream {
				seen = append(seen, string(m.Body))
			}
		}
		if slices.Contains(seen, "2") && !slices.Contains(seen, "3") {
			// As long as the target has not ended, nothing of the next one comes, and
			// it says why.
			held := dlgHeldOf(w, w.Client)
			if len(held) != 2 {
				e.Fatalf("after %q %d dialogs are withheld, want 2", seen, len(held))
			}
			for _, h := range held {
				if !strings.Contains(h.Status, "the dialog before it is not finished") && !strings.Contains(h.Status, "earlier messages") {
					e.Errorf("the status of what is withheld is %q", h.Status)
				}
			}
			for range 3 {
				if o := w.TryReceive(w.SQ, nil, 50*time.Millisecond); o != nil {
					for _, m := range o.Messages {
						if string(m.Body) != "other" {
							e.Fatalf("received %s before the first dialog was finished", describe(o.Messages))
						}
						seen = append(seen, "other")
					}
					e.Must(o.Ack(e.Ctx))
				}
			}
		}
		for _, m := range d.Messages {
			if m.Type == parley.EndOfStream {
				e.Must(m.End(e.Ctx))
			}
		}
		e.Must(d.Ack(e.Ctx))
	}
	seen = slices.DeleteFunc(seen, func(s string) bool { return s == "other" })
	dlgSame(e, "received", seen, []string{"1", "2", "3", "4", "5"})
}

// dlgHeldOf returns what is withheld of a service. checkEndBesideLock: the rows of the conversation
// cannot be removed when its target ends. The next dialog does not wait until they are.
func checkEndBesideLock(e *env) {
	if !e.ManyWriters() {
		e.Skipf("this store has a single writer: nothing can be locked while another transaction ends a conversation")
	}
	log := newRecLog()
	w, s, client, server := recPending(e, log, "k")
	recFail(w, client, -8425)
	if !e.Soon(10*time.Second, func() bool { return len(log.with("event=recycle.error")) > 0 }) {
		e.Fatalf("it was not logged that the dialog failed: %q", log.with(""))
	}
	e.Must(w.B.Admin().EnableQueue(e.Ctx, w.SQ))
	if !e.Soon(10*time.Second, func() bool { return len(dlgHeldOf(w, w.Client)) == 0 }) {
		e.Fatalf("what the first dialog's end says is withheld from a queue that is enabled")
	}
	lock := func(h parley.ID) (free func()) {
		tx, err := w.Handle().Begin(e.Ctx)
		e.Must(err)
		if !e.Soon(5*time.Second, func() bool { err = tx.TryStream(e.Ctx, h); return !errors.Is(err, backend.ErrStreamBusy) }) || err != nil {
			e.Fatalf("lock %s: %v", h, err)
		}
		return func() { e.Must(tx.Rollback(e.Ctx)) }
	}
	free := lock(client)
	dlgEnd(w, server)
	over := lock(server) // in place of the other lock, which a sender of the key waits for
	free()
	recMust(w, w.B, s, "4")
	if held := dlgHeldOf(w, w.Client); len(held) > 0 {
		e.Errorf("the target of the first dialog has ended, and %q is withheld", held[0].Status)
	}
	got, _ := recUntil(w, 1)
	dlgSame(e, "received", bodiesOf(got), []string{"4"})
	over()
	recGone(w, server)
}

func checkSenderClosed(e *env) {
	w := e.World(recCatalog(false))
	be := e.Handle()
	b, err := newBroker(e.Ctx, be, nil)
	e.Must(err)
	s := recSender(w, b, parley.SenderOptions{MaxAge: 300 * time.Millisecond})
	recMust(w, b, s, "1")
	recMust(w, b, s.Key("k"), "2")
	e.Must(b.Close())
	got, _ := recUntil(w, 2)
	recGone(w, handlesOf(got)...)
}

// recChild sends on a dialog, which it keeps, and waits to be killed.
func recChild(ctx context.Context, b *parley.Broker, args []string, say func(string, ...any), hear *bufio.Scanner) error {
	s, err := b.NewSender(ctx, &parley.SenderOptions{From: args[0], To: args[1], Contract: args[2], MaxAge: time.Second})
	if err != nil {
		return err
	}
	for _, s := range []*parley.Sender{s, s.Key("k")} {
		if err := b.InTx(ctx, func(tx *parley.Tx) error {
			return s.Send(ctx, tx, parley.Payload{Type: args[3], Body: []byte("from the child")})
		}); err != nil {
			return err
		}
	}
	say("sent")
	hear.Scan()
	return nil
}

func checkSenderKilled(e *env) {
	w := e.World(recCatalog(false))
	c := e.Child("sender", w.Client, w.Server, w.Contract, w.Ask)
	if line := c.Hear(); line != "sent" {
		e.Fatalf("the child says %q", line)
	}
	c.Kill()
	got, _ := recUntil(w, 2)
	recGone(w, handlesOf(got)...)
}
