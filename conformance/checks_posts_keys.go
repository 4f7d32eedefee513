package conformance

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		Check{ID: "N01", Name: "posts of one key come in order, also to several receivers", Run: checkKeyOrder},
		Check{ID: "N01", Name: "posts of one key come in the order of their commits", Run: checkKeyCommitOrder},
		Check{ID: "N01", Name: "a key is in one receiver's hands at a time, and others go on", Run: checkKeyHeld},
		Check{ID: "N01", Name: "keys are compared byte by byte and belong to their queue", Run: checkKeyBytes},
		Check{ID: "N01", Name: "posts without key wait for nobody", Run: checkSinglesWaitForNobody},
	)
}

func checkKeyOrder(e *Env) {
	w := e.World()
	const keys, each = 5, 12
	undo := errors.New("undo")
	for i := range each { // interleaved, in transactions of one or all keys
		if i%3 == 0 {
			w.Tx(func(tx *parley.Tx) error {
				var batch []parley.Posting
				for k := range keys {
					batch = append(batch, postOf(k, i))
				}
				_, err := tx.PostBatch(e.Ctx, w.SQ, batch)
				return err
			})
			continue
		}
		for k := range keys {
			if i%3 == 1 {
				e.Is(w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
					_, err := tx.PostBatch(e.Ctx, w.SQ, []parley.Posting{postOf(k, 1000+i)})
					return errors.Join(undo, err)
				}), undo)
			}
			w.Tx(func(tx *parley.Tx) error {
				_, err := tx.PostBatch(e.Ctx, w.SQ, []parley.Posting{postOf(k, i)})
				return err
			})
		}
	}

	// Receivers on two handles note what they get while they have it in hand.
	var mu sync.Mutex
	got := make(map[string][]string)
	brokers := []*parley.Broker{w.B, e.Broker(nil)}
	holds := e.Holds()
	var wg sync.WaitGroup
	for c := range 4 {
		rnd := rand.New(rand.NewPCG(uint64(c), 6))
		wg.Go(func() {
			for {
				d, err := brokers[c%2].Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Wait: 300 * time.Millisecond, Hold: holds[c/2%len(holds)], MaxMessages: 1 + rnd.IntN(3)})
				if err != nil {
					if !errors.Is(err, parley.ErrNoMessage) {
						e.Errorf("receive: %v", err)
					}
					return
				}
				if rnd.IntN(4) == 0 {
					err = d.Rollback(e.Ctx)
				} else {
					mu.Lock()
					for _, m := range d.Messages {
						got[m.Key] = append(got[m.Key], string(m.Body))
					}
					mu.Unlock()
					err = d.Ack(e.Ctx)
				}
				if err != nil {
					e.Errorf("settle: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	for k := range keys {
		key := fmt.Sprint("key ", k)
		if want := postNames(fmt.Sprint(k, "-"), each); !slices.Equal(got[key], want) {
			e.Errorf("of %s %q was received, want %q", key, got[key], want)
		}
	}
}

func postOf(key, i int) parley.Posting {
	return parley.Posting{
		Payload: parley.Payload{Body: fmt.Appendf(nil, "%d-%d", key, i)},
		Options: []parley.PostOption{parley.Key(fmt.Sprint("key ", key))},
	}
}

func checkKeyCommitOrder(e *Env) {
	w := e.World()
	brokers := []*parley.Broker{w.B, e.Broker(nil)}
	const posters, each = 6, 15
	var mu sync.Mutex
	var want []string
	var wg sync.WaitGroup
	for p := range posters {
		b := brokers[p%2]
		wg.Go(func() {
			for i := range each {
				body := fmt.Sprintf("%d-%d", p, i)
				err := queRetry(e, b, func(tx *parley.Tx) error {
					_, err := tx.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte(body)}, parley.Key("one key"))
					if err == nil {
						// No other can be between its Post and its commit now. An
						// earlier try was rolled back.
						mu.Lock()
						want = append(slices.DeleteFunc(want, func(s string) bool { return s == body }), body)
						mu.Unlock()
					}
					return err
				})
				if err != nil {
					e.Errorf("post: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	var got []string
	for _, m := range w.Drain(w.SQ) {
		got = append(got, string(m.Body))
	}
	if !slices.Equal(got, want) {
		e.Errorf("posts of one key that were committed in the order %q were received in the order %q", want, got)
	}
}

func checkKeyHeld(e *Env) {
	w := e.World()
	other := e.Broker(nil)
	for _, hold := range e.Holds() {
		for _, body := range []string{"1", "2", "3"} {
			w.post(w.SQ, body, parley.Key("held"))
		}
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1})
		if got := Bodies(d.Messages); !slices.Equal(got, []string{"1"}) || d.Messages[0].Key != "held" {
			e.Fatalf("received %q of key %q, want 1 of the key held", got, d.Messages[0].Key)
		}
		for range 3 {
			if x, err := other.Receive(e.Ctx, w.SQ, nil); !errors.Is(err, parley.ErrNoMessage) {
				e.Fatalf("while its key is in somebody's hands, another receiver got %v, %v, want nothing", x, err)
			}
		}
		start := time.Now()
		w.post(w.SQ, "4", parley.Key("held")) // senders do not wait
		w.post(w.SQ, "free", parley.Key("free"))
		w.post(w.SQ, "single")
		var got []string
		for range 2 {
			x, err := other.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Wait: 5 * time.Second})
			e.Must(err)
			got = append(got, Bodies(x.Messages)...)
			e.Must(x.Ack(e.Ctx))
		}
		slices.Sort(got)
		if !slices.Equal(got, []string{"free", "single"}) {
			e.Errorf("while a key is held, %q was received, want a post of another key and one without", got)
		}
		if took := time.Since(start); took > queSlow {
			e.Errorf("posting and receiving beside a held key took %v", took)
		}
		e.Must(d.Ack(e.Ctx))
		postWant(w, w.SQ, "2", "3", "4")
	}
}

func checkKeyBytes(e *Env) {
	w := e.World()
	keys := []string{"key", "Key", "KEY", "key ", " key", "kéy", "ke\u0301y", "ключ", "'; --", "k%y", strings.Repeat("k", 512), strings.Repeat("k", 511) + "K"}
	for _, key := range keys {
		w.post(w.SQ, key, parley.Key(key))
	}
	w.post(w.CQ, "key", parley.Key("key"))
	// Were two of them one, the second would be in the same delivery or not to
	// be had.
	groups := make(map[parley.ID]string)
	for range keys {
		d := w.TryReceive(w.SQ, &parley.ReceiveOptions{Hold: parley.HoldLease}, 0)
		if d == nil {
			e.Fatalf("%d keys were received from %s, want %d that do not wait for each other", len(groups), w.SQ, len(keys))
		}
		if len(d.Messages) != 1 || d.Messages[0].Key != string(d.Messages[0].Body) {
			e.Fatalf("a delivery of key %q holds %q, want the one post of that key", d.Messages[0].Key, Bodies(d.Messages))
		}
		if was, ok := groups[d.Group]; ok {
			e.Errorf("the keys %q and %q have one group", was, d.Messages[0].Key)
		}
		groups[d.Group] = d.Messages[0].Key
	}
	postWant(w, w.CQ, "key") // the same key of another queue is another
}

func checkSinglesWaitForNobody(e *Env) {
	w := e.World()
	other := e.Broker(nil)
	const n = 6
	for _, hold := range e.Holds() {
		var held []*parley.Delivery
		var got []string
		for _, body := range postNames("single ", n) {
			w.post(w.SQ, body)
		}
		for i := range n { // each in other hands
			b := []*parley.Broker{w.B, other}[i%2]
			d, err := b.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Hold: hold, Wait: 5 * time.Second})
			if err != nil {
				e.Fatalf("%d of %d posts without key could be received at once, then %v", i, n, err)
			}
			e.Cleanup(func() { d.Close() })
			if len(d.Messages) != 1 || d.Messages[0].Key != "" {
				e.Errorf("a delivery of a post without key holds %q of key %q", Bodies(d.Messages), d.Messages[0].Key)
			}
			got = append(got, Bodies(d.Messages)...)
			held = append(held, d)
		}
		slices.Sort(got)
		if want := postNames("single ", n); !slices.Equal(got, want) {
			e.Errorf("received %q, want %q", got, want)
		}
		for _, d := range slices.Backward(held) {
			e.Must(d.Ack(e.Ctx))
		}
		w.Nothing(w.SQ, nil)
	}

	if !e.HoldsInTransaction() {
		return // with a single writer an open transaction makes others wait
	}
	start := time.Now()
	w.Tx(func(tx *parley.Tx) error {
		if _, err := tx.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte("open")}); err != nil {
			return err
		}
		id, err := other.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte("meanwhile")})
		if err != nil {
			return err
		}
		d, err := other.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Wait: 5 * time.Second})
		if err != nil {
			return err
		}
		if d.Messages[0].ID != id {
			e.Errorf("received %q, want the post that was committed", Bodies(d.Messages))
		}
		return d.Ack(e.Ctx)
	})
	if took := time.Since(start); took > queSlow {
		e.Errorf("posting and receiving beside an open transaction with a post without key took %v", took)
	}
	postWant(w, w.SQ, "open")
}
