package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/slow"
)

// Helpers of the checks of dialogs, ends, retention and input.

// dlgFatal ends the check with a failure at the line that called the helper.
func dlgFatal(e *env, format string, args ...any) {
	where := ""
	if e.explain == nil { // else the script says where
		where = dlgCaller()
	}
	e.fail(where + fmt.Sprintf(format, args...))
	runtime.Goexit()
}

// dlgCaller finds the check's own line: the first caller outside this file.
func dlgCaller() string {
	pcs := make([]uintptr, 16)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		f, more := frames.Next()
		if !strings.HasSuffix(f.File, "_util.go") && strings.Contains(f.File, "checks_") || !more {
			return at(f.File, f.Line)
		}
	}
}

// dlgStatus reads one side of a conversation; nil if there is none.
func dlgStatus(w *world, h parley.ID) *parley.Endpoint {
	var ep *parley.Endpoint
	w.Tx(func(tx *parley.Tx) (err error) {
		ep, err = tx.Conversation(h).Status(w.Ctx)
		if errors.Is(err, parley.ErrNoConversation) {
			ep, err = nil, nil
		}
		return err
	})
	return ep
}

// dlgPeer returns the handle of the other side.
func dlgPeer(w *world, h parley.ID) parley.ID {
	ep := dlgStatus(w, h)
	if ep == nil {
		dlgFatal(w.env, "conversation %s is gone", h)
	}
	return ep.FarHandle
}

// dlgState ends the check unless a side is in the state; "" stands for none.
func dlgState(w *world, h parley.ID, want parley.State) {
	got := parley.State("")
	if ep := dlgStatus(w, h); ep != nil {
		got = ep.State
	}
	if got != want {
		dlgFatal(w.env, "side %s is in state %q, want %q", h, got, want)
	}
}

// dlgGone ends the check unless the sides disappear, if need be with the help
// of the clean-up that every process does from time to time.
func dlgGone(w *world, handles ...parley.ID) {
	be := w.Handle()
	for _, h := range handles {
		gone := func() bool {
			list, err := w.B.Admin().Conversations(w.Ctx, parley.ConversationQuery{Handle: h})
			w.Must(err)
			return len(list) == 0
		}
		ok := w.Soon(5*time.Second, func() bool {
			if gone() {
				return true
			}
			_, err := be.Maintain(w.Ctx, backend.JobClosed, 100)
			w.Must(err)
			return gone()
		})
		if !ok {
			dlgFatal(w.env, "side %s is still there though both have ended", h)
		}
		dlgState(w, h, "")
	}
}

// dlgEnd ends sides, each in a separate transaction.
func dlgEnd(w *world, handles ...parley.ID) {
	for _, h := range handles {
		if err := w.B.InTx(w.Ctx, func(tx *parley.Tx) error { return tx.Conversation(h).End(w.Ctx) }); err != nil {
			dlgFatal(w.env, "end %s: %v", h, err)
		}
	}
}

// dlgEndError ends a side with an error.
func dlgEndError(w *world, h parley.ID, code int, text string) {
	err := w.B.InTx(w.Ctx, func(tx *parley.Tx) error { return tx.Conversation(h).EndWithError(w.Ctx, code, text) })
	if err != nil {
		dlgFatal(w.env, "end %s with an error: %v", h, err)
	}
}

// dlgCleanup cleans a side up.
func dlgCleanup(w *world, h parley.ID) {
	if err := w.B.InTx(w.Ctx, func(tx *parley.Tx) error { return tx.Conversation(h).Cleanup(w.Ctx) }); err != nil {
		dlgFatal(w.env, "clean %s up: %v", h, err)
	}
}

// dlgTake receives and acknowledges until there are n messages, and ends the
// check if they do not come or come in excess.
func dlgTake(w *world, queue string, n int, o *parley.ReceiveOptions) []*parley.Message {
	var all []*parley.Message
	for len(all) < n {
		d := w.TryReceive(queue, o, 15*time.Second)
		if d == nil {
			dlgFatal(w.env, "received %d messages from %s (%s), want %d", len(all), queue, describe(all), n)
		}
		all = append(all, d.Messages...)
		if err := d.Ack(w.Ctx); err != nil {
			dlgFatal(w.env, "acknowledge: %v", err)
		}
	}
	if len(all) > n {
		dlgFatal(w.env, "received %d messages from %s (%s), want %d", len(all), queue, describe(all), n)
	}
	return all
}

// dlgBodies ends the check unless exactly these bodies can be received, in this
// order.
func dlgBodies(w *world, queue string, o *parley.ReceiveOptions, want ...string) []*parley.Message {
	ms := dlgTake(w, queue, len(want), o)
	dlgSame(w.env, "received from "+queue, bodiesOf(ms), want)
	return ms
}

// dlgSame ends the check unless the lists are equal.
func dlgSame(e *env, what string, got, want []string) {
	if slices.Equal(got, want) {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	dlgFatal(e, "%s: %d, want %d; number %d is %.200q, want %.200q; all are %.500q, want %.500q",
		what, len(got), len(want), i+1, got[i:min(i+1, len(got))], want[i:min(i+1, len(want))], got, want)
}

// dlgError receives one message from a queue and ends the check unless it is an
// Error with the code.
func dlgError(w *world, queue string, code int) *parley.Message {
	m := dlgTake(w, queue, 1, nil)[0]
	if m.Type != parley.ErrorMessageType || m.Err().Code != code {
		dlgFatal(w.env, "received %s, want an Error with code %d", describe([]*parley.Message{m}), code)
	}
	return m
}

// dlgQuiet looks at queues a few times: nothing may come, whatever the
// background does meanwhile.
func dlgQuiet(w *world, queues ...string) {
	for range 3 {
		for _, q := range queues {
			if d := w.TryReceive(q, nil, 25*time.Millisecond); d != nil {
				dlgFatal(w.env, "received %s from %s, where nothing should be", describe(d.Messages), q)
			}
		}
	}
}

// dlgDepth ends the check unless so many messages wait in a queue, possibly
// after a claim has met and removed what no receiver will get.
func dlgDepth(w *world, queue string, want int) {
	w.Soon(5*time.Second, func() bool { return dlgWaiting(w, queue) == want })
	dlgDepthNow(w, queue, want)
}

// dlgDepthNow is dlgDepth for what must be so without the help of a claim.
func dlgDepthNow(w *world, queue string, want int) {
	if got := dlgWaiting(w, queue); got != want {
		dlgFatal(w.env, "%d messages wait in %s, want %d", got, queue, want)
	}
}

// dlgWaiting returns how many messages wait in a queue.
func dlgWaiting(w *world, queue string) int {
	list, err := w.B.Admin().Queues(w.Ctx, queue)
	w.Must(err)
	if len(list) != 1 || list[0].Name != queue {
		dlgFatal(w.env, "asked for the state of %q, told %+v", queue, list)
	}
	return list[0].Depth
}

// dlgWithheld returns what is withheld of a side, nil for nothing.
func dlgWithheld(w *world, h parley.ID) *parley.WithheldStream {
	list, err := w.B.Admin().Withheld(w.Ctx, parley.ID{}, backend.CountLimit)
	w.Must(err)
	for _, s := range list {
		if s.From.Handle == h {
			return &s
		}
	}
	return nil
}

// dlgNames ends the check unless an error is of a kind and names something.
func dlgNames(e *env, what string, err, want error, name string) {
	switch {
	case !errors.Is(err, want):
		dlgFatal(e, "%s: the error is %v, want %q", what, err, want)
	case !strings.Contains(err.Error(), name):
		dlgFatal(e, "%s: the error %q does not name %q", what, err, name)
	}
}

// dlgGo runs f in a goroutine. The returned function gives its error, or ends
// the check if f is not done in time.
func dlgGo(e *env, what string, f func() error) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return func() error {
		select {
		case err := <-done:
			return err
		case <-time.After(slow.By(20 * time.Second)):
			e.late()
			dlgFatal(e, "%s: not done after %v", what, slow.By(20*time.Second))
			return nil
		}
	}
}

// dlgSession opens an owner of application locks.
func dlgSession(e *env, be backend.Backend, owner string) backend.Session {
	e.Needs(partLocks)
	s, err := be.OpenSession(e.Ctx, time.Minute, owner)
	if err != nil {
		dlgFatal(e, "open a session: %v", err)
	}
	return s
}

// dlgEach calls f for 0 to n-1 at the same time and returns when all are done.
func dlgEach(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// dlgInState makes a conversation whose initiator's side is in the state that
// is told, and returns both handles.
func dlgInState(w *world, state string) (client, server parley.ID) {
	client = w.Dialog("first")
	server = dlgPeer(w, client)
	switch state {
	case "conversing":
	case "ended":
		dlgEnd(w, client)
	case "peer ended":
		dlgEnd(w, server)
	case "errored":
		dlgEndError(w, server, 77, "it is broken")
	case "both ended":
		dlgEnd(w, server, client)
		dlgGone(w, client, server)
	default:
		dlgFatal(w.env, "no state %q", state)
	}
	return client, server
}

// dlgVerb is one thing that can be asked of a conversation.
type dlgVerb struct {
	name string
	do   func(ctx context.Context, tx *parley.Tx, h parley.ID) error
}

// dlgVerbs are the verbs on a handle that change something: those that send and
// the others.
func dlgVerbs(w *world) (sending, others []dlgVerb) {
	sending = []dlgVerb{
		{"Send", func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			return tx.Conversation(h).Send(ctx, w.Any, []byte("x"))
		}},
		{"SendTo", func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			return tx.SendTo(ctx, []*parley.Conversation{tx.Conversation(h)}, w.Any, []byte("x"))
		}},
		{"SendBatch", func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			p := parley.Payload{Type: w.Any, Body: []byte("x")}
			return tx.SendBatch(ctx, []parley.Sending{{To: tx.Conversation(h), Payload: p}, {To: tx.Conversation(h), Payload: p}})
		}},
		{"Promote", func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			return tx.Conversation(h).Promote(ctx, parley.PromoteLevel(1))
		}},
	}
	others = []dlgVerb{
		{"End", func(ctx context.Context, tx *parley.Tx, h parley.ID) error { return tx.Conversation(h).End(ctx) }},
		{"EndWithError", func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			return tx.Conversation(h).EndWithError(ctx, 1, "an error")
		}},
		{"Cleanup", func(ctx context.Context, tx *parley.Tx, h parley.ID) error { return tx.Conversation(h).Cleanup(ctx) }},
		{"SetTimer", func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			return tx.Conversation(h).SetTimer(ctx, time.Hour)
		}},
		{"Move", func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			return tx.Conversation(h).Move(ctx, parley.NewID())
		}},
		{"Begin with RelatedConversation", func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			_, err := tx.Begin(ctx, w.Client, w.Server, &parley.DialogOptions{Contract: w.Contract, RelatedConversation: h})
			return err
		}},
		{"Receive", func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			_, err := tx.Receive(ctx, w.CQ, &parley.ReceiveOptions{Conversation: h})
			return err
		}},
		{"GetGroup", func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			_, err := tx.GetGroup(ctx, w.CQ, &parley.ReceiveOptions{Conversation: h})
			return err
		}},
	}
	return sending, others
}
