package conformance

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		Check{ID: "N04", Name: "pending posts are cancelled, wherever they wait", Run: checkCancel},
		Check{ID: "N04", Name: "what does not wait cannot be cancelled", Run: checkCancelNotPending},
		Check{ID: "N04", Name: "a post is cancelled or received, never both", Run: checkCancelRace},
	)
}

// postCancel cancels in a transaction of its own.
func postCancel(w *World, queue string, id parley.ID) error {
	return w.B.InTx(w.Ctx, func(tx *parley.Tx) error { return tx.CancelPost(w.Ctx, queue, id) })
}

func checkCancel(e *Env) {
	w := e.World()
	single := w.post(w.SQ, "single")
	delayed := w.post(w.SQ, "delayed", parley.After(100*time.Millisecond))
	delayedKey := w.post(w.SQ, "delayed key", parley.After(100*time.Millisecond), parley.Key("delayed"))
	var keyed []parley.ID
	for _, body := range postNames("key ", 5) {
		keyed = append(keyed, w.post(w.SQ, body, parley.Key("key")))
	}
	alone := w.post(w.SQ, "alone", parley.Key("alone"))

	undo := errors.New("undo")
	e.Is(w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
		return errors.Join(undo, tx.CancelPost(e.Ctx, w.SQ, keyed[3]))
	}), undo)
	e.Must(w.B.InTx(e.Ctx, func(tx *parley.Tx) error { // several at once
		return errors.Join(tx.CancelPost(e.Ctx, w.SQ, keyed[0]), tx.CancelPost(e.Ctx, w.SQ, keyed[2]))
	}))
	for _, id := range []parley.ID{single, delayed, delayedKey, alone} {
		e.Must(postCancel(w, w.SQ, id))
		if s, err := w.B.PostStatus(e.Ctx, w.SQ, id); !errors.Is(err, parley.ErrNotPending) {
			e.Errorf("the status of a cancelled post is %+v, %v, want %v", s, err, parley.ErrNotPending)
		}
		e.Is(postCancel(w, w.SQ, id), parley.ErrNotPending)
	}
	w.post(w.SQ, "control", parley.After(200*time.Millisecond), parley.Key("key")) // due after the cancelled ones
	postWant(w, w.SQ, "key 1", "key 3", "key 4", "control")
	w.post(w.SQ, "next", parley.Key("alone")) // its key works as before
	postWant(w, w.SQ, "next")
	w.Nothing(w.SQ, nil)
}

func checkCancelNotPending(e *Env) {
	w := e.World()
	for _, hold := range e.Holds() {
		for _, o := range [][]parley.PostOption{nil, {parley.Key("key")}} {
			id := w.post(w.SQ, "held", o...)
			e.Is(postCancel(w, w.CQ, id), parley.ErrNotPending) // it is of another queue
			d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
			start := time.Now()
			e.Must(w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
				if err := tx.CancelPost(e.Ctx, w.SQ, id); !errors.Is(err, parley.ErrNotPending) {
					e.Errorf("cancelling a post in a receiver's hands returned %v, want %v", err, parley.ErrNotPending)
				}
				_, err := tx.Post(e.Ctx, w.CQ, parley.Payload{Body: []byte("still usable")})
				return err
			}))
			if took := time.Since(start); took > queSlow {
				e.Errorf("cancelling a post in a receiver's hands took %v", took)
			}
			postWant(w, w.CQ, "still usable")
			e.Must(d.Rollback(e.Ctx))
			d = w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
			e.Must(d.Ack(e.Ctx))
			e.Is(postCancel(w, w.SQ, id), parley.ErrNotPending) // it is done

			back := w.post(w.SQ, "given back", o...)
			e.Must(w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold}).Rollback(e.Ctx))
			e.Must(postCancel(w, w.SQ, back))
			w.Nothing(w.SQ, nil)
		}
	}
	e.Is(postCancel(w, w.SQ, parley.NewID()), parley.ErrNotPending)
	e.Is(postCancel(w, e.Name("no such queue"), parley.NewID()), parley.ErrUnknownQueue)
}

func checkCancelRace(e *Env) {
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
