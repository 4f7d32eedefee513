package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		Check{ID: "N03", Name: "a unique post is not added twice while it waits, is delayed or held", Run: checkUnique},
		Check{ID: "N03", Name: "a unique value is one of its queue, byte by byte", Run: checkUniqueScope},
		Check{ID: "N03", Name: "of concurrent unique posts exactly one is added", Run: checkUniqueRace},
		Check{ID: "N03", Name: "who posts the same value waits to see what becomes of the first", Run: checkUniqueWaits},
	)
}

func checkUnique(e *Env) {
	w := e.World()
	u := parley.Unique("value")
	again := func(when string, id parley.ID, o ...parley.PostOption) {
		start := time.Now()
		if got := w.post(w.SQ, "again", append(o, u)...); got != id {
			e.Fatalf("%s a second post of its unique value got the id %s, want that of the first, %s", when, got, id)
		}
		if took := time.Since(start); took > queSlow {
			e.Errorf("%s a second post of its unique value took %v", when, took)
		}
	}
	for _, hold := range e.Holds() {
		for _, o := range [][]parley.PostOption{nil, {parley.Key("key")}} {
			id := w.post(w.SQ, "first", append(o, u)...)
			again("while the first waits", id)
			again("while the first waits", id, parley.Key("another key"), parley.After(time.Hour))
			d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
			if len(d.Messages) != 1 || d.Messages[0].ID != id {
				e.Fatalf("received %s, want the first post alone", describe(d.Messages))
			}
			again("while the first is in a receiver's hands", id)
			e.Must(d.Rollback(e.Ctx))
			again("after the first was given back", id)
			postWant(w, w.SQ, "first")
			w.Nothing(w.SQ, nil)

			second := w.post(w.SQ, "second", append(o, u)...)
			if second == id {
				e.Fatalf("after the first was acknowledged its id was returned for a new post")
			}
			w.Tx(func(tx *parley.Tx) error { return tx.CancelPost(e.Ctx, w.SQ, second) })
			third := w.post(w.SQ, "third", append(o, u, parley.After(time.Hour))...)
			if third == second {
				e.Fatalf("after a post was cancelled its id was returned for a new one")
			}
			again("while the first is delayed", third)
			w.Tx(func(tx *parley.Tx) error { return tx.CancelPost(e.Ctx, w.SQ, third) })
			w.Nothing(w.SQ, nil)

			undo := errors.New("undo")
			e.Is(w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
				_, err := tx.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte("undone")}, u)
				return errors.Join(undo, err)
			}), undo)
			w.post(w.SQ, "after a rollback", u)
			postWant(w, w.SQ, "after a rollback")
		}
	}
	// Two in one call are one, and the others of the call are added.
	w.Tx(func(tx *parley.Tx) error {
		p := func(body string, o ...parley.PostOption) parley.Posting {
			return parley.Posting{Payload: parley.Payload{Body: []byte(body)}, Options: o}
		}
		ids, err := tx.PostBatch(e.Ctx, w.SQ, []parley.Posting{p("one", u), p("two", u), p("three"), p("four", u)})
		if err == nil && (ids[0] != ids[1] || ids[0] != ids[3] || ids[0] == ids[2]) {
			e.Errorf("a call with three posts of one unique value and one without got the ids %s", ids)
		}
		return err
	})
	got := Bodies(w.Drain(w.SQ))
	slices.Sort(got)
	if !slices.Equal(got, []string{"one", "three"}) {
		e.Errorf("received %q, want the first of a unique value and the one without", got)
	}
}

func checkUniqueScope(e *Env) {
	w := e.World()
	values := []string{"value", "Value", "value ", " value", "valué", "value\u0301", strings.Repeat("v", 512), strings.Repeat("v", 511) + "w"}
	ids := make(map[parley.ID]bool)
	for _, queue := range []string{w.CQ, w.SQ} {
		for _, v := range values {
			ids[w.post(queue, v, parley.Unique(v))] = true
		}
		got := Bodies(w.Drain(queue))
		slices.Sort(got)
		if want := slices.Sorted(slices.Values(values)); !slices.Equal(got, want) {
			e.Errorf("posts of different unique values on %s: received %q, want %q", queue, got, want)
		}
	}
	if len(ids) != 2*len(values) {
		e.Errorf("%d posts of different values or queues got %d ids", 2*len(values), len(ids))
	}
}

func checkUniqueRace(e *Env) {
	w := e.World()
	brokers := []*parley.Broker{w.B, e.Broker(nil), e.Broker(nil)}
	for round := range 8 {
		value := fmt.Sprint("value ", round)
		const posters = 6
		ids := make([]parley.ID, posters)
		go1 := make(chan struct{})
		var wg sync.WaitGroup
		for p := range posters {
			wg.Go(func() {
				<-go1
				err := queRetry(e, brokers[p%len(brokers)], func(tx *parley.Tx) (err error) {
					ids[p], err = tx.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte(value)}, parley.Unique(value))
					return err
				})
				if err != nil {
					e.Errorf("a unique post failed: %v", err)
				}
			})
		}
		close(go1)
		wg.Wait()
		for _, id := range ids {
			if id != ids[0] {
				e.Errorf("concurrent posts of one unique value got the ids %s and %s, want one", ids[0], id)
				break
			}
		}
		if got := Bodies(w.Drain(w.SQ)); !slices.Equal(got, []string{value}) {
			e.Errorf("after concurrent posts of one unique value %q was received, want one", got)
		}
	}
}

func checkUniqueWaits(e *Env) {
	w := e.World()
	other := e.Broker(nil)
	undo := errors.New("undo")
	for _, end := range []error{undo, nil} {
		var first, second parley.ID
		done := make(chan error, 1)
		err := w.B.InTx(e.Ctx, func(tx *parley.Tx) (err error) {
			first, err = tx.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte("first")}, parley.Unique("value"))
			if err != nil {
				return err
			}
			go func() {
				done <- queRetry(e, other, func(tx *parley.Tx) (err error) {
					second, err = tx.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte("second")}, parley.Unique("value"))
					return err
				})
			}()
			select { // give it time to go wrong
			case err := <-done:
				e.Errorf("a post of a unique value did not wait for an open transaction with the same: %v", err)
				done <- err
			case <-time.After(100 * time.Millisecond):
			}
			return end
		})
		if !errors.Is(err, end) {
			e.Fatalf("transaction: %v", err)
		}
		e.Must(<-done)
		if end == nil && second != first {
			e.Errorf("after the first was committed, the second got the id %s, want %s", second, first)
		}
		if end != nil && second == first {
			e.Errorf("after the first was rolled back, the second got its id")
		}
		want := "first"
		if end != nil {
			want = "second"
		}
		postWant(w, w.SQ, want)
		w.Nothing(w.SQ, nil)
	}
}
