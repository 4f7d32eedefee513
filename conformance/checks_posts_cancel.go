package conformance

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/parleymq/parley"
)

func init() {
	add(
		scripted("N04", "pending posts are cancelled, wherever they wait", `
			post SQ "single" as single
			post SQ after 100ms "delayed" as late
			post SQ after 100ms key late "delayed key" as latekey
			each n: 0 | 1 | 2 | 3 | 4
				post SQ key k "key $n" as k$n
			post SQ key lonely "alone" as lonely

			transaction t
			t: cancel k3
			rollback t
			transaction t // several at once
			t: cancel k0
			t: cancel k2
			commit t
			each p: single | late | latekey | lonely
				cancel $p
				equal $p.state none
				cancel $p -> ErrNotPending
			post SQ after 200ms key k "control" // due after the cancelled ones
			take SQ -> "key 1", "key 3", "key 4", "control"
			post SQ key lonely "next" // its key works as before
			take SQ -> "next"
			nothing SQ
		`),
		scripted("N04", "what does not wait cannot be cancelled", `
			each hold: every hold
				each key: | key k
					post SQ $key "held" as p
					cancel p at CQ -> ErrNotPending // it is of another queue
					receive SQ $hold as r
					clock c
					transaction t
					t: cancel p -> ErrNotPending
					t: post CQ "still usable"
					commit t
					within c 3s
					take CQ -> "still usable"
					rollback r
					receive SQ $hold as r
					ack r
					cancel p -> ErrNotPending // it is done

					post SQ $key "given back" as p
					receive SQ $hold as r
					rollback r
					cancel p
					nothing SQ
			group unknown
			cancel unknown -> ErrNotPending
			cancel unknown at missing -> ErrUnknownQueue
		`),
		check{ID: "N04", Name: "a post is cancelled or received, never both", Run: checkCancelRace},
	)
}

func checkCancelRace(e *env) {
	w := e.World()
	other := e.Broker(nil)
	const n = 80
	ids := make(map[parley.ID]string)
	var order []parley.ID
	for i := range n {
		var o []parley.PostOption
		if i%2 == 0 {
			o = append(o, parley.Key(fmt.Sprint("key ", i%8)))
		}
		id := w.post(w.SQ, fmt.Sprint(i), o...)
		ids[id] = ""
		order = append(order, id)
	}
	var mu sync.Mutex
	mark := func(id parley.ID, as string) {
		mu.Lock()
		defer mu.Unlock()
		if was, ok := ids[id]; !ok || was != "" {
			e.Errorf("a post was %s and %s", was, as)
		}
		ids[id] = as
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		rnd := rand.New(rand.NewPCG(4, 4))
		for _, i := range rnd.Perm(n) {
			err := queRetry(e, other, func(tx *parley.Tx) error { return tx.CancelPost(e.Ctx, w.SQ, order[i]) })
			switch {
			case err == nil:
				mark(order[i], "cancelled")
			case !errors.Is(err, parley.ErrNotPending):
				e.Errorf("cancel: %v", err)
			}
		}
	})
	wg.Go(func() {
		for {
			d, err := w.B.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{MaxMessages: 2})
			if errors.Is(err, parley.ErrNoMessage) {
				return
			}
			if err == nil {
				defer d.Close()
				err = d.Ack(e.Ctx)
			}
			if err != nil {
				e.Errorf("receive: %v", err)
				return
			}
			for _, m := range d.Messages {
				mark(m.ID, "received")
			}
		}
	})
	wg.Wait()
	for _, m := range w.Drain(w.SQ) { // what the receiver missed while it was being cancelled
		mark(m.ID, "received")
	}
	for id, became := range ids {
		if became == "" {
			e.Errorf("post %s was neither cancelled nor received", id)
		}
	}
}
