package conformance

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleymq/parley"
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

// door is a transaction that two sends by themselves wait for. What is called meanwhile goes together when it is open.
func (w *world) door(doors []parley.ID, call func()) {
	tx, err := w.B.Begin(w.Ctx)
	w.Must(err)
	defer tx.Rollback(w.Ctx)
	for _, h := range doors {
		w.Must(tx.Conversation(h).SendPayload(w.Ctx, w.ask("door: 0")))
	}
	var at sync.WaitGroup
	for _, h := range doors {
		at.Go(func() { w.Must(w.B.Send(w.Ctx, h, w.ask("door: 1"))) })
	}
	time.Sleep(2 * time.Millisecond) // else fewer of them go together
	call()
	time.Sleep(5 * time.Millisecond)
	w.Must(tx.Commit(w.Ctx))
	at.Wait()
}

// checkTogether calls many verbs at once, some of which are refused. Parley carries some of them out together.
func checkTogether(e *env) {
	w := e.World()
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
	for n := range each {
		var round sync.WaitGroup
		w.door(doors, func() {
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
	w := e.World()
	const senders = 6
	doors := []parley.ID{w.Dialog(), w.Dialog()}
	var convs, locked []parley.ID
	for range senders {
		convs, locked = append(convs, w.Dialog()), append(locked, w.Dialog())
	}
	tx, err := w.B.Begin(e.Ctx)
	e.Must(err)
	defer tx.Rollback(e.Ctx)
	for _, h := range locked {
		e.Must(tx.Conversation(h).SendPayload(e.Ctx, w.ask("locks")))
	}
	_, err = tx.Post(e.Ctx, w.SQ, w.ask("locks"), parley.Key("locked"))
	e.Must(err)

	var waiting, others sync.WaitGroup
	w.door(doors, func() {
		for i := range senders {
			waiting.Go(func() { e.Must(w.B.Send(e.Ctx, locked[i], w.ask("waits"))) })
			for body, verb := range w.verbs(i, 0, convs[i]) {
				others.Go(func() {
					if err := verb(); err != nil {
						e.Errorf("%q: %v", body, err)
					}
				})
			}
		}
		waiting.Go(func() {
			_, err := w.B.Post(e.Ctx, w.SQ, w.ask("waits"), parley.Key("locked"))
			e.Must(err)
		})
	})
	over := make(chan struct{})
	go func() { defer close(over); others.Wait() }()
	select {
	case <-over:
	case <-time.After(slow.By(3 * time.Second)):
		e.Errorf("verbs by themselves wait for locks that only others want")
	}
	e.Must(tx.Commit(e.Ctx))
	<-over
	waiting.Wait()
}
