package conformance

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/slow"
)

func init() {
	add(check{ID: "D14", Name: "many verbs by themselves at once", Run: checkTogether},
		check{ID: "D15", Name: "verbs by themselves beside locks", Run: checkTogetherLocked})
}

// ask is a message of the initiator.
func (w *world) ask(body string) parley.Payload {
	return parley.Payload{Type: w.Ask, Body: []byte(body)}
}

// verbs are verbs by themselves, each with the body of its message: a send on a conversation, a post with a key that
// others use too, a post without one, and a begin.
func (w *world) verbs(i, n int, conv parley.ID) map[string]func() error {
	all := make(map[string]func() error)
	add := func(what string, verb func(parley.Payload) error) {
		body := fmt.Sprintf("%s %d: %d", what, i, n)
		all[body] = func() error { return verb(w.ask(body)) }
	}
	add("send", func(p parley.Payload) error { return w.B.Send(w.Ctx, conv, p) })
	add("key", func(p parley.Payload) error {
		_, err := w.B.Post(w.Ctx, w.SQ, p, parley.Key(fmt.Sprint("key ", i%3)))
		return err
	})
	add("free", func(p parley.Payload) error {
		_, err := w.B.Post(w.Ctx, w.SQ, p)
		return err
	})
	add("begin", func(p parley.Payload) error {
		_, err := w.B.BeginDialog(w.Ctx, w.Client, w.Server, &parley.DialogOptions{Contract: w.Contract}, p)
		return err
	})
	return all
}

// gathered is a store that sees which transactions are of several verbs.
type gathered struct {
	backend.Backend
	begun, together atomic.Int64 // transactions; those of several verbs
	sent            atomic.Int64 // those of several verbs that have sent more than one message
}

type gatheredTx struct {
	backend.Tx
	several bool
	sent    *atomic.Int64
}

func (c *gathered) Begin(ctx context.Context) (backend.Tx, error) {
	several := backend.IsNoWait(ctx)
	c.begun.Add(1)
	if several {
		c.together.Add(1)
	}
	tx, err := c.Backend.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return gatheredTx{tx, several, &c.sent}, nil
}

func (tx gatheredTx) Send(ctx context.Context, version int64, messages []backend.Outgoing) ([]backend.Sent, error) {
	sent, err := tx.Tx.Send(ctx, version, messages)
	if err == nil && tx.several && len(messages) > 1 {
		tx.sent.Add(1)
	}
	return sent, err
}

// gatheredWorld is a world on such a store.
func (e *env) gatheredWorld() (*world, *gathered) {
	store := &gathered{Backend: e.Handle()}
	b, err := newBroker(e.Ctx, store, nil)
	e.Must(err)
	e.Cleanup(func() { b.Close() })
	return e.WorldOn(b), store
}

// rounds are as many as it takes for verbs to go together: at least some, and not more than most, since whether verbs
// that are called at once do is up to Parley.
func (c *gathered) rounds(e *env, some, most int, together *atomic.Int64) iter.Seq[int] {
	return func(yield func(int) bool) {
		few := func() bool { return c.Capabilities().Together != nil && together.Load() < int64(some)/2 }
		for n := 0; n < some || n < most && few(); n++ {
			if !yield(n) {
				return
			}
		}
		if few() {
			e.Logf("verbs went together only %d times in %d rounds, so the check has seen little", together.Load(), most)
		}
	}
}

// door is a transaction that sends by themselves wait for, and that is as many as are at work before others wait. What is
// called meanwhile goes together when it is open.
func (w *world) door(c *gathered, doors []parley.ID, call func()) {
	tx, err := w.B.Begin(w.Ctx)
	w.Must(err)
	defer tx.Rollback(w.Ctx)
	for _, h := range doors {
		w.Must(tx.Conversation(h).SendPayload(w.Ctx, w.ask("door: 0")))
	}
	begun := c.begun.Load()
	var at sync.WaitGroup
	for _, h := range doors {
		at.Go(func() { w.Must(w.B.Send(w.Ctx, h, w.ask("door: 1"))) })
	}
	if t := c.Capabilities().Together; t != nil {
		w.Soon(time.Second, func() bool { return c.begun.Load()-begun >= int64(min(t.Room, len(doors))) })
	}
	call()
	time.Sleep(5 * time.Millisecond) // more of them go together then
	w.Must(tx.Commit(w.Ctx))
	at.Wait()
}

// checkTogether calls many verbs at once, some of which are refused. Parley carries some of them out together.
func checkTogether(e *env) {
	w, store := e.gatheredWorld()
	const senders, each = 8, 12
	ended := w.Dialog("first") // its other side ends, so that nothing can be sent on it
	d := w.Receive(w.SQ, nil)
	c, err := d.Messages[0].On(e.Ctx)
	e.Must(err)
	e.Must(c.End(e.Ctx))
	e.Must(d.Ack(e.Ctx))

	var mu sync.Mutex
	sent, count := map[string][]string{}, 0
	doors, convs := []parley.ID{w.Dialog(), w.Dialog()}, make([]parley.ID, senders)
	for i := range convs {
		convs[i] = w.Dialog()
	}
	for n := range store.rounds(e, each, 10*each, &store.sent) {
		var round sync.WaitGroup
		w.door(store, doors, func() {
			for i, conv := range convs {
				for body, verb := range w.verbs(i, n, conv) {
					round.Go(func() {
						if err := verb(); err != nil {
							e.Errorf("%q: %v", body, err)
						}
						mu.Lock()
						defer mu.Unlock()
						sender, _, _ := strings.Cut(body, ":")
						sent[sender], count = append(sent[sender], body), count+1
					})
				}
			}
			if n%3 == 0 { // what is refused has the others go by themselves
				round.Go(func() { e.Is(w.B.Send(e.Ctx, ended, w.ask("refused")), parley.ErrFarEnded) })
				round.Go(func() { e.Is(w.B.Send(e.Ctx, convs[0], parley.Payload{Type: w.Tell}), parley.ErrTypeNotAllowed) })
			}
		})
		round.Wait()
		sent["door"], count = append(sent["door"], "door: 0", "door: 1", "door: 0", "door: 1"), count+4
	}

	came := map[string][]string{}
	for n := 0; n < count; {
		d := w.TryReceive(w.SQ, &parley.ReceiveOptions{MaxMessages: 100}, 15*time.Second)
		if d == nil {
			e.Errorf("%d of %d messages came", n, count)
			break
		}
		for _, m := range d.Messages {
			sender, _, _ := strings.Cut(string(m.Body), ":")
			came[sender], n = append(came[sender], string(m.Body)), n+1
		}
		e.Must(d.Ack(e.Ctx))
	}
	w.Nothing(w.SQ, nil)
	for sender, want := range sent {
		got := came[sender]
		if !strings.HasPrefix(sender, "send") && !strings.HasPrefix(sender, "key") { // these are in no order
			slices.Sort(want)
			slices.Sort(got)
		}
		e.same(sender, "messages", strings.Join(got, ", "), strings.Join(want, ", "))
	}
}

// checkTogetherLocked calls verbs beside a transaction that has written to other conversations and to another key, and
// at once with verbs that wait for it.
func checkTogetherLocked(e *env) {
	if !e.ManyWriters() {
		e.Skipf("all writers wait for an open transaction that has written")
	}
	w, store := e.gatheredWorld()
	const senders = 6
	doors := []parley.ID{w.Dialog(), w.Dialog()}
	var convs, locked []parley.ID
	for range senders {
		convs, locked = append(convs, w.Dialog()), append(locked, w.Dialog())
	}
	for n := range store.rounds(e, 4, 10, &store.together) {
		w.besideLocks(store, n, doors, convs, locked)
	}
}

func (w *world) besideLocks(store *gathered, n int, doors, convs, locked []parley.ID) {
	tx, err := w.B.Begin(w.Ctx)
	w.Must(err)
	defer tx.Rollback(w.Ctx)
	for _, h := range locked {
		w.Must(tx.Conversation(h).SendPayload(w.Ctx, w.ask("locks")))
	}
	_, err = tx.Post(w.Ctx, w.SQ, w.ask("locks"), parley.Key("locked"))
	w.Must(err)

	var waiting, others sync.WaitGroup
	w.door(store, doors, func() {
		for i, conv := range convs {
			waiting.Go(func() { w.Must(w.B.Send(w.Ctx, locked[i], w.ask("waits"))) })
			for body, verb := range w.verbs(i, n, conv) {
				others.Go(func() {
					if err := verb(); err != nil {
						w.Errorf("%q: %v", body, err)
					}
				})
			}
		}
		waiting.Go(func() {
			_, err := w.B.Post(w.Ctx, w.SQ, w.ask("waits"), parley.Key("locked"))
			w.Must(err)
		})
	})
	over := make(chan struct{})
	go func() { defer close(over); others.Wait() }()
	select {
	case <-over:
	case <-time.After(slow.By(3 * time.Second)):
		w.Errorf("verbs by themselves wait for locks that only others want")
	}
	w.Must(tx.Commit(w.Ctx))
	<-over
	waiting.Wait()
}
