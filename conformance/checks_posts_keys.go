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
		check{ID: "N01", Name: "posts of one key come in order, also to several receivers", Run: checkKeyOrder},
		check{ID: "N01", Name: "posts of one key come in the order of their commits", Run: checkKeyCommitOrder},
		scripted("N01", "a key is in one receiver's hands at a time, and others go on", `
			broker other
			each hold: every hold
				each n: 1 | 2 | 3
					post SQ key held "$n"
				receive SQ $hold max 1 as r -> "1"
				equal r.key "held"
				each n: 1 | 2 | 3
					other: receive SQ now -> ErrNoMessage
				clock c
				post SQ key held "4" // senders do not wait
				post SQ key free "free"
				post SQ "single"
				other: take SQ in any order -> "free", "single"
				within c 3s
				ack r
				take SQ -> "2", "3", "4"
		`),
		check{ID: "N01", Name: "keys are compared byte by byte and belong to their queue", Run: checkKeyBytes},
		scripted("N01", "posts without key wait for no other post", `
			broker other
			each hold: every hold
				each n: 0 | 1 | 2 | 3 | 4 | 5
					post SQ "single $n"
				each n, by: 0, | 1, other: | 2, | 3, other: | 4, | 5, other: // each in other hands
					$by receive SQ $hold as r$n
					equal r$n.count 1
					equal r$n.key ""
				each n: 5 | 4 | 3 | 2 | 1 | 0
					ack r$n
				nothing SQ

			if many writers: // with a single writer an open transaction makes others wait
				clock c
				transaction t
				t: post SQ "open"
				other: post SQ "meanwhile" as p
				other: receive SQ as r
				equal r.id p
				ack r
				commit t
				within c 3s
				take SQ -> "open"
		`),
	)
}

func checkKeyOrder(e *env) {
	w := e.World()
	const keys, each = 5, 12
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
					return errors.Join(errUndo, err)
				}), errUndo)
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
		if want := numbered(fmt.Sprint(k, "-%d"), each); !slices.Equal(got[key], want) {
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

func checkKeyCommitOrder(e *env) {
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

func checkKeyBytes(e *env) {
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
			e.Fatalf("a delivery of key %q holds %q, want the one post of that key", d.Messages[0].Key, bodiesOf(d.Messages))
		}
		if was, ok := groups[d.Group]; ok {
			e.Errorf("the keys %q and %q have one group", was, d.Messages[0].Key)
		}
		groups[d.Group] = d.Messages[0].Key
	}
	dlgBodies(w, w.CQ, nil, "key") // the same key of another queue is another
}
