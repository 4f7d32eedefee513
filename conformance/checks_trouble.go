package conformance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/parleymq/parley"
)

func init() {
	add(
		check{ID: "X11", Name: "what always loses is charged in the end", Run: checkAlwaysLoses},
		check{ID: "X12", Name: "errors of any text", Run: checkErrorTexts},
		check{ID: "X12", Name: "errors of any text, told to the other side", Run: checkErrorTextsTold},
		check{ID: "X13", Name: "panics of what a worker is given", Run: checkPanics},
		check{ID: "X14", Name: "a store that takes nothing", Run: checkOutage},
		check{ID: "X20", Name: "a store that cannot be reached at first", Run: checkLateStore},
		check{ID: "X15", Name: "handlers that all fail for one reason", Run: checkSlowdown},
		check{ID: "B14", Name: "statements that end transactions", Run: checkEndings},
		check{ID: "B13", Name: "texts of any length and with any bytes", Run: checkLongTexts},
	)
}

func checkAlwaysLoses(e *env) {
	w := e.World()
	w.posts(nil, "loses")
	var n atomic.Int64
	r := w.work(w.B, &parley.WorkerOptions{MaxAttempts: 1}, func(context.Context, *parley.Message) error {
		n.Add(1)
		return fmt.Errorf("by the check: %w", parley.ErrSerialization)
	})
	if !e.Soon(30*time.Second, func() bool { return w.queueStatus(w.SQ).Parked == 1 }) {
		e.Errorf("a message that failed %d times by losing against others is not parked, though it may be tried once", n.Load())
	}
	r.Stop()
	if n.Load() < 5 {
		e.Errorf("it was parked after %d failures that should hardly count", n.Load())
	}
}

// oddTexts are errors' texts that are hard to keep.
var oddTexts = map[string]string{
	"empty": "", "an empty line first": "\n\nsecond", "blanks": " \t\n ", "NUL": "a\x00b", "not UTF-8": "a\xffb\xc3",
	"wide":       strings.Repeat("ж", 9000),
	"odd":        strings.Repeat("a", 999) + strings.Repeat("€", 3000),
	"astral":     "x" + strings.Repeat("𝄞", 2100),
	"very long":  strings.Repeat("long ", 1<<20),
	"many lines": strings.Repeat("\n", 20000),
}

// aReason tells what is wrong with a text that is kept, "" if nothing is.
func aReason(text string) string {
	switch {
	case text == "":
		return "it is empty"
	case !utf8.ValidString(text):
		return "it is not UTF-8"
	case strings.ContainsRune(text, 0):
		return "it has NUL in it"
	case utf8.RuneCountInString(text) > 1000:
		return fmt.Sprintf("it has %d characters", utf8.RuneCountInString(text))
	}
	return ""
}

func checkErrorTexts(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		var names []string
		for name := range oddTexts {
			names = append(names, name)
		}
		w.posts(nil, append(names, "fine")...)
		h := func(dead bool) parley.HandlerFunc {
			return func(ctx context.Context, m *parley.Message) error {
				if string(m.Body) == "fine" {
					return w.effect(ctx, m)
				}
				err := errors.New(oddTexts[string(m.Body)])
				if dead {
					return parley.DeadLetter(err)
				}
				return err
			}
		}
		r := w.work(w.B, &parley.WorkerOptions{Hold: hold, MaxAttempts: 2, Backoff: soonAgain}, h(false))
		if !e.Soon(30*time.Second, func() bool { return w.queueStatus(w.SQ).Parked == len(names) }) {
			e.Errorf("%d of %d messages that always fail are parked", w.queueStatus(w.SQ).Parked, len(names))
		}
		r.Stop()
		list, err := w.B.Admin().Parked(e.Ctx, w.SQ, parley.Place{}, 100)
		e.Must(err)
		for _, g := range list {
			if why := aReason(g.Reason); why != "" {
				e.Errorf("the reason of a parked group %.40q: %s", g.Reason, why)
			}
			e.Must(w.B.Admin().Unpark(e.Ctx, g.Group))
		}
		r = w.work(w.B, &parley.WorkerOptions{Hold: hold}, h(true))
		dead := func() []parley.DeadStatus {
			list, err := w.B.Admin().DeadLetters(e.Ctx, w.SQ, parley.Place{}, 100)
			e.Must(err)
			return list
		}
		if !e.Soon(30*time.Second, func() bool { return len(dead()) == len(names) }) {
			e.Errorf("%d of %d messages are dead letters", len(dead()), len(names))
		}
		r.Stop()
		for _, d := range dead() {
			if why := aReason(d.Reason); why != "" {
				e.Errorf("the reason of a dead letter %.40q: %s", d.Reason, why)
			}
		}
		w.once(w.effects(1), []string{"fine"})
	}
}

func checkErrorTextsTold(e *env) {
	w := e.World()
	for name := range oddTexts {
		w.Dialog(name)
	}
	r := w.work(w.B, nil, func(_ context.Context, m *parley.Message) error {
		return parley.EndWithError(7, oddTexts[string(m.Body)])
	})
	for range oddTexts {
		m := dlgError(w, w.CQ, 7)
		if why := aReason(m.Err().Text); why != "" {
			e.Errorf("the other side is told %.40q: %s", m.Err().Text, why)
		}
	}
	r.Stop()
}

// hole is an error whose methods fail when it is nil, as a pointer that should not
// have been returned.
type hole struct{ text string }

func (h *hole) Error() string   { return h.text }
func (h *hole) Is(error) bool   { return h.text == "" }
func (h *hole) Unwrap() []error { return []error{errors.New(h.text)} }

// rude is an Observer that panics.
type rude struct{}

func (rude) Claimed(context.Context, parley.ClaimEvent)   { panic("claimed") }
func (rude) Handled(context.Context, parley.HandleEvent)  { panic("handled") }
func (rude) Settled(context.Context, parley.SettleEvent)  { panic("settled") }
func (rude) Poisoned(context.Context, parley.PoisonEvent) { panic("poisoned") }

func checkPanics(e *env) {
	log := new(recLog)
	b := e.Broker(&parley.Options{Logger: slog.New(log)})
	var none *hole
	fail := map[string]func() error{
		"nil": func() error { return none }, "nil, wrapped": func() error { return fmt.Errorf("wrapped: %w", error(none)) },
		"nil, parked": func() error { return parley.Park(none) }, "nil, joined": func() error { return errors.Join(errPoison, none) },
		"panic": func() error { panic("of the handler's") }, "fails": func() error { return errPoison },
	}
	for _, o := range []parley.WorkerOptions{
		{OnPoison: func(context.Context, parley.PoisonMessage) parley.Action { panic("on poison") }},
		{OnPoison: func(context.Context, parley.PoisonMessage) parley.Action { return parley.Action(42) }},
		{Observer: rude{}, Backoff: func(attempt int) time.Duration { panic("back-off") }},
	} {
		w := e.another()
		bodies := []string{"fine"}
		for name := range fail {
			bodies = append(bodies, name)
		}
		w.posts(nil, bodies...)
		o.MaxAttempts = 2
		if o.Backoff == nil {
			o.Backoff = soonAgain
		}
		mux := parley.NewMux()
		mux.HandleFunc(w.Any, func(ctx context.Context, m *parley.Message) error {
			if f := fail[string(m.Body)]; f != nil {
				return f()
			}
			return w.effect(ctx, m)
		})
		mux.Use(func(next parley.Handler) parley.Handler { return next })
		r := w.workWith(b, &o, mux)
		if !e.Soon(20*time.Second, func() bool { return w.queueStatus(w.SQ).Parked == len(fail) }) {
			e.Errorf("%d of %d messages that fail are parked", w.queueStatus(w.SQ).Parked, len(fail))
		}
		r.Stop()
		list, err := w.B.Admin().Parked(e.Ctx, w.SQ, parley.Place{}, 100)
		e.Must(err)
		for _, g := range list {
			for _, m := range e.peek(w, g.Group) {
				if string(m.Body) == "panic" && !strings.Contains(m.LastError, "checks_trouble.go") {
					e.Errorf("the stack of a panic is not in what is stored: %q", m.LastError)
				}
			}
		}
		w.once(w.effects(1), []string{"fine"})
	}
	for _, what := range []string{"of the handler's", "on poison", "Action(42)", "back-off", "claimed", "handled", "settled"} {
		if len(log.with(what, "stack=", "checks_trouble.go")) == 0 && what != "Action(42)" || len(log.with(what)) == 0 {
			e.Errorf("the log does not have a line with %q and the stack", what)
		}
	}
}

// peek shows the messages of a parked group.
func (e *env) peek(w *world, g parley.ID) []*parley.Message {
	list, err := w.B.Admin().PeekParked(e.Ctx, w.SQ, g, 10)
	e.Must(err)
	return list
}

func checkOutage(e *env) {
	for _, why := range []error{parley.ErrNoSpace, parley.ErrReadOnly} {
		for _, hold := range e.Holds() {
			log := new(recLog)
			b, f := e.frail(&parley.Options{Logger: slog.New(log)})
			w := e.another()
			bodies := numbered("%02d", 30)
			w.posts(nil, bodies...)
			var down atomic.Bool
			down.Store(true)
			f.OnCommit = func() error {
				if down.Load() {
					return fmt.Errorf("by the check: %w", why)
				}
				return nil
			}
			var mu sync.Mutex
			calls, worst := 0, 0
			o := &parley.WorkerOptions{Hold: hold, MaxAttempts: 2, Backoff: soonAgain}
			if hold == parley.HoldLease { // the others go over to leases while transactions take long, and a lease that ends counts
				o.Lease = time.Second
			}
			r := w.work(b, o, func(ctx context.Context, m *parley.Message) error {
				mu.Lock()
				calls++
				worst = max(worst, m.Attempt)
				mu.Unlock()
				return w.effect(ctx, m)
			})
			e.Soon(10*time.Second, func() bool { return len(log.with("worker.paused")) > 0 })
			time.Sleep(time.Second)
			mu.Lock()
			if calls > 60 {
				e.Errorf("with a store that takes nothing handlers were called %d times in a second or two: the worker does not pause", calls)
			}
			mu.Unlock()
			if n := len(log.with("worker.paused")); n != 1 {
				e.Errorf("that the worker pauses is logged %d times, want once", n)
			}
			down.Store(false)
			w.once(w.effects(len(bodies)), bodies)
			r.Stop()
			if hold != parley.HoldLease && worst != 1 {
				e.Errorf("a message was handled at attempt %d, though none was to blame", worst)
			}
			if parked := w.queueStatus(w.SQ).Parked; parked > 0 {
				e.Errorf("%d groups are parked, though none was to blame", parked)
			}
		}
	}
}

func checkLateStore(e *env) {
	for _, hold := range e.Holds() {
		log := new(recLog)
		b, f := e.frail(&parley.Options{Logger: slog.New(log)})
		w := e.another()
		bodies := numbered("%02d", 5)
		w.posts(nil, bodies...)
		f.Die()
		r := w.work(b, &parley.WorkerOptions{Hold: hold}, w.effect)
		e.Soon(10*time.Second, func() bool { return len(log.with("worker.paused"))+len(r.end) > 0 })
		f.Revive()
		e.Soon(20*time.Second, func() bool { return w.depth(w.CQ) == len(bodies) || len(r.end) > 0 })
		if len(r.end) > 0 {
			e.Fatalf("a worker that could not reach the store at its start has ended: %v", <-r.end)
		}
		w.once(w.effects(len(bodies)), bodies)
		r.Stop()
	}
}

func checkSlowdown(e *env) {
	w := e.World()
	bodies := numbered("%03d", 300)
	w.posts(nil, bodies...)
	var down atomic.Bool
	down.Store(true)
	var calls atomic.Int64
	log := new(recLog)
	b := e.Broker(&parley.Options{Logger: slog.New(log)})
	r := w.work(b, &parley.WorkerOptions{Backoff: soonAgain}, func(ctx context.Context, m *parley.Message) error {
		if down.Load() {
			return fmt.Errorf("message %s: dial 10.0.0.%d: %w", m.Body, calls.Add(1), errPoison)
		}
		return w.effect(ctx, m)
	})
	if !e.Soon(10*time.Second, func() bool { return len(log.with("worker.slowed")) > 0 }) {
		e.Fatalf("all %d calls of handlers failed for one reason, and the worker does not slow down", calls.Load())
	}
	// A pause of a quarter of a second is over, and each further one is twice as long. Ten handlers may still be at work.
	slowed := calls.Load()
	time.Sleep(2 * time.Second)
	if n := calls.Load() - slowed; n > 20 {
		e.Errorf("a worker that had slowed down called handlers %d times in two seconds", n)
	}
	down.Store(false)
	w.once(w.effects(len(bodies)), bodies)
	r.Stop()
}

func checkLongTexts(e *env) {
	w := e.World(func(c *parley.Catalog) {
		c.Types = append(c.Types, parley.MessageType{Name: e.Name("odd"), Validation: parley.ValidationFunc, Validator: "odd"})
		c.Contracts[0].Messages = append(c.Contracts[0].Messages, parley.ContractEntry{Type: e.Name("odd"), SentBy: parley.ByAny})
	})
	for name, text := range oddTexts {
		w.B.RegisterValidator("odd", func([]byte) error { return errors.New(text) })
		h := w.Dialog(name)
		e.Must(w.B.InTx(e.Ctx, func(tx *parley.Tx) error { return tx.Conversation(h).Send(e.Ctx, e.Name("odd"), []byte("x")) }))
		if m := dlgError(w, w.CQ, parley.CodeValidationFailed); !utf8.ValidString(m.Err().Text) || len([]rune(m.Err().Text)) > 3000 {
			e.Errorf("%s: the sender is told %.40q …, %d bytes", name, m.Err().Text, len(m.Err().Text))
		}
		d := w.Receive(w.SQ, nil)
		e.Must(d.Park(e.Ctx, errors.New(text)))
		g := w.group(parked)
		if g == nil {
			e.Errorf("%s: the group is not parked", name)
			continue
		}
		if why := aReason(g.Reason); why != "" {
			e.Errorf("%s: the group is parked because of %.40q: %s", name, g.Reason, why)
		}
		_, err := w.B.Admin().SkipParked(e.Ctx, w.SQ, g.Group, text)
		e.Must(err)
	}
	list, err := w.B.Admin().DeadLetters(e.Ctx, w.SQ, parley.Place{}, 100)
	e.Must(err)
	if len(list) != len(oddTexts) || slices.ContainsFunc(list, func(d parley.DeadStatus) bool { return aReason(d.Reason) != "" }) {
		e.Errorf("of %d messages that were skipped %d are dead letters, or their reasons cannot be had", len(oddTexts), len(list))
	}
	owner := strings.Repeat("\x00\xffж", 5000)
	w.posts(nil, "held")
	d, err := e.Broker(&parley.Options{Owner: owner}).Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Hold: parley.HoldLease})
	e.Must(err)
	if g := w.group(func(g parley.GroupStatus) bool { return g.State == "held" }); g == nil || aReason(g.Owner) != "" {
		e.Errorf("the group in hand is %+v", g)
	}
	e.Must(d.Ack(e.Ctx))
}

// checkEndings tries to end the transaction by SQL, where there is SQL.
func checkEndings(e *env) {
	w := e.World()
	for _, text := range []string{"COMMIT", " /* now */ commit ;", "ROLLBACK", "-- back\nRollback", "COMMIT WORK"} {
		err := w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
			post := func() error {
				_, err := tx.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte(text)})
				return err
			}
			if err := post(); err != nil || tx.SQL() == nil {
				return err
			}
			if _, err := tx.SQL().ExecContext(e.Ctx, text); !errors.Is(err, parley.ErrEndsTx) {
				e.Errorf("%q in a transaction of the store's: error %v, want ErrEndsTx", text, err)
			}
			if err := post(); err != nil {
				return err
			}
			return errUndo
		})
		if err != nil && !errors.Is(err, errUndo) {
			e.Errorf("after %q: %v", text, err)
		}
		if n := w.queueStatus(w.SQ).Depth; err != nil && n > 0 {
			e.Errorf("%q has left %d posts of a transaction that was rolled back", text, n)
		}
	}
}
