package conformance

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(check{ID: "X21", Name: "errors of attempts", Run: checkErrorsOfAttempts})
}

// failer is a handler that fails, and knows which errors its messages must have.
type failer struct {
	*world
	mu    sync.Mutex
	at    map[string][]int // numbers of attempts, by the message's body
	calls map[string]int
}

const failures = backend.MaxAttempts + 2 // before a message becomes a dead letter

// fail is a handler: the message's first call is deferred, and the last one asks for a dead letter.
func (f *failer) fail(_ context.Context, m *parley.Message) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	body := string(m.Body)
	f.sameErrors("attempt "+fmt.Sprint(m.Attempt), m)
	for i := range m.Errors {
		m.Errors[i].Error = "the handler's copy"
	}
	if f.calls[body]++; f.calls[body] == 1 {
		return parley.Defer(time.Millisecond)
	}
	f.at[body] = append(f.at[body], m.Attempt)
	// Neither a database nor a terminal could show the whole of it.
	err := fmt.Errorf("%s\x00\xff%s", failure(body, m.Attempt), strings.Repeat("\"ü\n", 100*m.Attempt))
	if m.Attempt > failures {
		return parley.DeadLetter(err)
	}
	return err
}

func failure(body string, attempt int) string {
	return fmt.Sprintf("%s failed at attempt %d: ", body, attempt)
}

// sameErrors compares the errors of a message with what its handler has returned.
func (f *failer) sameErrors(what string, m *parley.Message) {
	body := string(m.Body)
	want := f.at[body]
	want = want[max(len(want)-backend.MaxAttempts, 0):]
	if len(m.Errors) != len(want) {
		f.Errorf("%s of %s has %d errors, want %d", what, body, len(m.Errors), len(want))
		return
	}
	last := m.Enqueued
	for i, a := range m.Errors {
		if a.Attempt != want[i] || !strings.HasPrefix(a.Error, failure(body, want[i])) {
			f.Errorf("%s of %s: error %d is of attempt %d, want %d, and says %.40q", what, body, i, a.Attempt, want[i], a.Error)
		}
		if len(a.Error) > backend.MaxAttemptError || !backend.IsText(a.Error) {
			f.Errorf("%s of %s: error %d has %d bytes, want valid text of at most %d: %q", what, body, i, len(a.Error), backend.MaxAttemptError, a.Error)
		}
		if a.At.Before(last) {
			f.Errorf("%s of %s: error %d is of %v, before %v", what, body, i, a.At, last)
		}
		last = a.At
	}
}

func checkErrorsOfAttempts(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		f := &failer{world: w, at: make(map[string][]int), calls: make(map[string]int)}
		w.Dialog("dialog")
		w.posts([]string{"k"}, "key")
		w.posts(nil, "post")
		var list []parley.DeadStatus
		r := w.work(w.B, &parley.WorkerOptions{Hold: hold, MaxAttempts: -1, Backoff: soonAgain}, f.fail)
		if !w.Soon(30*time.Second, func() bool {
			var err error
			list, err = w.B.Admin().DeadLetters(e.Ctx, w.SQ, parley.Place{}, 10)
			e.Must(err)
			return len(list) == 3
		}) {
			e.Errorf("%d of 3 messages have become dead letters within 30 s, after %v calls", len(list), f.calls)
		}
		r.Stop()
		w.posts(nil, "later")
		d := w.Receive(w.SQ, nil)
		later := d.Messages[0].Enqueued
		e.Must(d.Ack(e.Ctx))
		for _, x := range list {
			f.sameErrors("the dead letter", x.Message)
			if n := len(x.Message.Errors); n > 0 && x.Message.Errors[n-1].At.After(later) {
				e.Errorf("the last error of a dead letter is of %v, after a later post of %v", x.Message.Errors[n-1].At, later)
			}
			if !x.Message.ConversationID.IsZero() {
				continue
			}
			_, err := w.B.Admin().RequeueDead(e.Ctx, x)
			e.Must(err)
			d := w.Receive(w.SQ, nil)
			if m := d.Messages[0]; m.Attempt != 1 || len(m.Errors) > 0 {
				e.Errorf("a dead letter was put back with attempt %d and the errors %v", m.Attempt, m.Errors)
			}
			e.Must(d.Ack(e.Ctx))
		}
	}
}
