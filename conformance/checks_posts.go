package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		Check{ID: "N01", Name: "posts of one key come in order, also to several receivers", Run: checkKeyOrder},
		Check{ID: "N01", Name: "posts of one key come in the order of their commits", Run: checkKeyCommitOrder},
		Check{ID: "N01", Name: "a key is in one receiver's hands at a time, and others go on", Run: checkKeyHeld},
		Check{ID: "N01", Name: "keys are compared byte by byte and belong to their queue", Run: checkKeyBytes},
		Check{ID: "N01", Name: "posts without key wait for nobody", Run: checkSinglesWaitForNobody},

		Check{ID: "N02", Name: "a delayed post comes when it is due", Run: checkDelayed},
		Check{ID: "N02", Name: "a delayed post takes its place in its key's order when it is due", Run: checkDelayedKey},
		Check{ID: "N02", Name: "a delayed post that falls due while its key is held keeps its place", Run: checkDelayedKeyHeld},

		Check{ID: "N03", Name: "a unique post is not added twice while it waits, is delayed or held", Run: checkUnique},
		Check{ID: "N03", Name: "a unique value is one of its queue, byte by byte", Run: checkUniqueScope},
		Check{ID: "N03", Name: "of concurrent unique posts exactly one is added", Run: checkUniqueRace},
		Check{ID: "N03", Name: "who posts the same value waits to see what becomes of the first", Run: checkUniqueWaits},

		Check{ID: "N04", Name: "pending posts are cancelled, wherever they wait", Run: checkCancel},
		Check{ID: "N04", Name: "what does not wait cannot be cancelled", Run: checkCancelNotPending},
		Check{ID: "N04", Name: "a post is cancelled or received, never both", Run: checkCancelRace},

		Check{ID: "N05", Name: "all sizes and all bytes arrive as they were sent", Run: checkBodies},
		Check{ID: "N05", Name: "16 MiB arrive as they were sent", Run: checkLargeBodies, Limit: 2 * time.Minute},

		Check{ID: "N06", Name: "processed posts are kept and not delivered again", Run: checkProcessed},
		Check{ID: "N06", Name: "processed posts go after the set time and not before", Run: checkProcessedGo},

		Check{ID: "N07", Name: "a deferred group comes back when it is due, in order", Run: checkDeferred},
		Check{ID: "N07", Name: "a parked group stays away until it is unparked, in order", Run: checkParked},
		Check{ID: "N07", Name: "posts without key are deferred and parked alone", Run: checkBlockedSingles},
		Check{ID: "N07", Name: "a deferred group can be unparked before its time", Run: checkUnparkDeferred},
		Check{ID: "N07", Name: "what was done before Defer and Park is undone", Run: checkBlockedUndone},

		Check{ID: "N08", Name: "deliveries keep to the bytes asked for, and lose and pass over nothing", Run: checkMaxBytes},
		Check{ID: "N08", Name: "the bytes of several conversations of a group count together", Run: checkMaxBytesOfGroup},
	)
}

// post posts a body in a transaction of its own.
func (w *World) post(queue, body string, o ...parley.PostOption) parley.ID {
	id, err := w.B.Post(w.Ctx, queue, parley.Payload{Body: []byte(body)}, o...)
	if err != nil {
		w.Fatalf("post %q: %v", body, err)
	}
	return id
}

// postWant takes messages until as many came as are wanted, and compares.
func postWant(w *World, queue string, want ...string) {
	var got []string
	for len(got) < len(want) {
		d := w.TryReceive(queue, nil, 5*time.Second)
		if d == nil {
			w.Fatalf("received %q and then nothing for 5 s, want %q", got, want)
		}
		got = append(got, Bodies(d.Messages)...)
		w.Must(d.Ack(w.Ctx))
	}
	if !slices.Equal(got, want) {
		w.Fatalf("received %q, want %q", got, want)
	}
}

func postNames(prefix string, n int) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return s
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

func checkDelayed(e *Env) {
	// Polling cannot explain that a receiver gets them in time.
	w := e.WorldOn(e.Broker(&parley.Options{Poll: quePoll}))
	const d = 300 * time.Millisecond
	for _, o := range [][]parley.PostOption{nil, {parley.Key("key")}} {
		for _, at := range []bool{false, true} {
			before := time.Now()
			due := before.Add(d)
			delay := parley.After(d)
			if at {
				delay = parley.At(due)
			}
			id := w.post(w.SQ, "late", append(o, delay)...)
			// A look that is itself late proves nothing.
			if s, err := w.B.PostStatus(e.Ctx, w.SQ, id); time.Now().Before(due) &&
				(err != nil || s.State != "delayed" || s.Due <= 0 || s.Due > d+tmrEarly) {
				e.Errorf("before it is due a delayed post has the status %+v, %v", s, err)
			}
			got := w.Receive(w.SQ, nil)
			passed := time.Since(before)
			if got.Messages[0].ID != id || len(got.Messages) != 1 {
				e.Fatalf("received %s, want the delayed post", describe(got.Messages))
			}
			if passed < d-tmrEarly || passed > d+queSlow {
				e.Errorf("a post with a delay of %v came after %v", d, passed)
			}
			e.Must(got.Ack(e.Ctx))
		}
	}

	// One that was rolled back does not come; neither delay nor a time that has
	// passed delay anything.
	undo := errors.New("undo")
	e.Is(w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
		_, err := tx.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte("undone")}, parley.After(20*time.Millisecond))
		return errors.Join(undo, err)
	}), undo)
	w.post(w.SQ, "delayed", parley.After(150*time.Millisecond))
	w.post(w.CQ, "no delay", parley.After(0))
	postWant(w, w.CQ, "no delay")
	w.post(w.CQ, "passed", parley.At(time.Now().Add(-time.Hour)))
	postWant(w, w.CQ, "passed")
	postWant(w, w.SQ, "delayed")
	w.Nothing(w.SQ, nil)
}

func checkDelayedKey(e *Env) {
	w := e.World()
	const d = 300 * time.Millisecond
	key := parley.Key("key")
	before := time.Now()
	w.post(w.SQ, "late", key, parley.After(d))
	w.post(w.SQ, "later", key, parley.After(2*d))
	w.post(w.SQ, "early", key) // does not wait for those posted before it
	first := w.Receive(w.SQ, &parley.ReceiveOptions{MaxMessages: 1})
	if got := Bodies(first.Messages); got[0] != "early" {
		e.Fatalf("received %q first, want the post that is not delayed", got)
	}
	e.Must(first.Rollback(e.Ctx))

	// It stays unread until the next has joined the order behind it.
	if !e.Soon(5*time.Second, func() bool {
		d := w.Receive(w.SQ, nil)
		defer d.Close()
		return len(d.Messages) >= 2
	}) {
		e.Fatalf("a delayed post of %v did not join its key's order within 5 s", d)
	}
	if passed := time.Since(before); passed < d-tmrEarly {
		e.Errorf("a post with a delay of %v was there after %v", d, passed)
	}
	postWant(w, w.SQ, "early", "late", "later")
	if passed := time.Since(before); passed < 2*d-tmrEarly {
		e.Errorf("a post with a delay of %v came after %v", 2*d, passed)
	}
}

func checkDelayedKeyHeld(e *Env) {
	w := e.World()
	key := parley.Key("key")
	const d = 150 * time.Millisecond
	for _, hold := range e.Holds() {
		w.post(w.SQ, "1", key)
		got := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		id := w.post(w.SQ, "2", key, parley.After(d))
		if !e.Soon(5*time.Second, func() bool {
			w.Nothing(w.SQ, nil) // this does what is due, and the key is held
			s, err := w.B.PostStatus(e.Ctx, w.SQ, id)
			return err == nil && s.State == "pending"
		}) {
			e.Fatalf("a delayed post of %v did not join the order of its key, which is held, within 5 s", d)
		}
		w.post(w.SQ, "3", key)
		e.Must(got.Rollback(e.Ctx))
		postWant(w, w.SQ, "1", "2", "3")
	}
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

// postBytes returns n bytes that no engine takes for text.
func postBytes(n int) []byte {
	var seed [32]byte
	seed[0], seed[1], seed[2] = byte(n), byte(n>>8), byte(n>>16)
	body := make([]byte, n)
	rand.NewChaCha8(seed).Read(body)
	return body
}

// postCompare says where two bodies differ, as they may be large.
func postCompare(e *Env, how string, got, want []byte) {
	if bytes.Equal(got, want) {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	e.Errorf("%s: a body of %d bytes arrived with %d, different from byte %d on", how, len(want), len(got), i)
}

// postEach sends a body in every way there is, and compares what arrives.
func postEach(w *World, body []byte) {
	e := w.Env
	compare := func(how string) {
		d := w.Receive(w.SQ, nil)
		if len(d.Messages) != 1 {
			e.Fatalf("%s: received %d messages, want one", how, len(d.Messages))
		}
		got := d.Messages[0].Body
		postCompare(e, how, got, body)
		if len(body) == 0 && got != nil {
			e.Errorf("%s: an empty body arrived as %#v, want nil", how, got)
		}
		e.Must(d.Ack(e.Ctx))
	}
	w.Tx(func(tx *parley.Tx) error {
		c, err := tx.Begin(e.Ctx, w.Client, w.Server, &parley.DialogOptions{Contract: w.Contract})
		if err != nil {
			return err
		}
		return c.Send(e.Ctx, w.Ask, body)
	})
	compare("by a conversation")
	for _, o := range [][]parley.PostOption{nil, {parley.Key("key")}} {
		id, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Body: body}, o...)
		e.Must(err)
		s, err := w.B.PostStatus(e.Ctx, w.SQ, id)
		e.Must(err)
		postCompare(e, "in the status of a post", s.Body, body)
		compare("by a post")
	}
}

func checkBodies(e *Env) {
	w := e.World()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	bodies := [][]byte{
		nil, {}, {0}, {' '}, all, slices.Repeat(all, 3),
		[]byte("\x00\x00\x00"), []byte("text with a zero\x00 byte"), []byte("\xff\xfe not UTF-8 \xc3\x28"),
		[]byte("trailing space "), []byte(`\x414243`), []byte("0x414243"), []byte("\r\n\t\b\x1a'\"\\%_;--"), []byte("grüße, 日本語, 🙂"),
	}
	for _, n := range []int{1, 127, 255, 256, 4095, 8000, 8001, 65535, 65536, 1<<20 - 1, 1<<20 + 1} {
		bodies = append(bodies, postBytes(n))
	}
	for _, body := range bodies {
		postEach(w, body)
	}
}

func checkLargeBodies(e *Env) {
	w := e.World()
	postEach(w, postBytes(16<<20)) // more than a delivery takes by default
}

func checkProcessed(e *Env) {
	w := e.World(func(c *parley.Catalog) { c.Queues[1].KeepProcessed = time.Hour })
	for _, o := range [][]parley.PostOption{nil, {parley.Key("key")}} {
		u := parley.Unique("value")
		var kept []parley.ID
		settle := map[string]func() []*parley.Message{
			"a receive in a transaction": func() (ms []*parley.Message) {
				w.Tx(func(tx *parley.Tx) (err error) {
					ms, err = tx.Receive(e.Ctx, w.SQ, nil)
					return err
				})
				return ms
			},
			"a receive that releases before the work": func() []*parley.Message {
				return w.Receive(w.SQ, &parley.ReceiveOptions{Release: parley.BeforeWork}).Messages
			},
		}
		for _, hold := range e.Holds() {
			settle["an acknowledgement, "+postHold(hold)] = func() []*parley.Message {
				d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
				e.Must(d.Ack(e.Ctx))
				return d.Messages
			}
		}
		for how, take := range settle {
			id := w.post(w.SQ, "body "+how, append(o, u)...)
			if s, err := w.B.PostStatus(e.Ctx, w.SQ, id); err != nil || s.State != "pending" {
				e.Errorf("the status of a post that waits is %+v, %v", s, err)
			}
			if ms := take(); len(ms) != 1 || ms[0].ID != id {
				e.Fatalf("after %s: received %s, want the one post that is not processed", how, describe(ms))
			}
			s, err := w.B.PostStatus(e.Ctx, w.SQ, id)
			if err != nil {
				e.Fatalf("after %s the status of a post that should be kept: %v", how, err)
			}
			if s.State != "processed" || string(s.Body) != "body "+how || s.ID != id || s.Type != parley.Default || s.Key != "" && o == nil || s.Key != "key" && o != nil {
				e.Errorf("after %s the status of a post that should be kept is %+v", how, s)
			}
			e.Is(postCancel(w, w.SQ, id), parley.ErrNotPending)
			w.Nothing(w.SQ, nil)
			kept = append(kept, id)
		}
		// Background work neither removes nor revives them.
		postTend(e, e.Handle())
		w.Nothing(w.SQ, nil)
		for _, id := range kept {
			if s, err := w.B.PostStatus(e.Ctx, w.SQ, id); err != nil || s.State != "processed" {
				e.Errorf("after the background work the status of a kept post is %+v, %v", s, err)
			}
		}
	}
	// The other queue keeps none, and posts that failed are not processed.
	id := w.post(w.CQ, "not kept")
	postWant(w, w.CQ, "not kept")
	if s, err := w.B.PostStatus(e.Ctx, w.CQ, id); !errors.Is(err, parley.ErrNotPending) {
		e.Errorf("the status of a processed post of a queue that keeps none is %+v, %v, want %v", s, err, parley.ErrNotPending)
	}
	back := w.post(w.SQ, "given back")
	e.Must(w.Receive(w.SQ, nil).Rollback(e.Ctx))
	if s, err := w.B.PostStatus(e.Ctx, w.SQ, back); err != nil || s.State != "pending" {
		e.Errorf("the status of a post that was given back is %+v, %v", s, err)
	}
	postWant(w, w.SQ, "given back")
}

// postTend does all background work that is to be done now.
func postTend(e *Env, be backend.Backend) {
	for duty := range backend.Duty(backend.DutyCount) {
		postDuty(e, be, duty)
	}
}

func postDuty(e *Env, be backend.Backend, duty backend.Duty) {
	const limit = 100
	for range 1000 {
		n, _, err := be.Tend(e.Ctx, duty, limit)
		if errors.Is(err, backend.ErrSerialization) {
			continue
		}
		e.Must(err)
		if n < limit {
			return
		}
	}
}

func checkProcessedGo(e *Env) {
	const keep = 400 * time.Millisecond
	w := e.World(func(c *parley.Catalog) { c.Queues[1].KeepProcessed = keep })
	be := e.Handle()
	for _, o := range [][]parley.PostOption{nil, {parley.Key("key")}} {
		id := w.post(w.SQ, "kept", o...)
		before := time.Now()
		postWant(w, w.SQ, "kept")
		postDuty(e, be, backend.DutyProcessed)
		_, err := w.B.PostStatus(e.Ctx, w.SQ, id)
		if passed := time.Since(before); err != nil && passed < keep-tmrEarly {
			e.Errorf("a processed post that is kept for %v was gone %v after it: %v", keep, passed, err)
		}
		if !e.Soon(5*time.Second, func() bool {
			postDuty(e, be, backend.DutyProcessed)
			_, err := w.B.PostStatus(e.Ctx, w.SQ, id)
			return errors.Is(err, parley.ErrNotPending)
		}) {
			e.Errorf("a processed post that is kept for %v was still there 5 s later", keep)
		}
		if passed := time.Since(before); passed < keep-tmrEarly {
			e.Errorf("a processed post that is kept for %v was gone after %v", keep, passed)
		}
		w.Nothing(w.SQ, nil)
	}
}

// postStream is a source of messages of one group.
type postStream struct {
	name string
	send func(body string)
}

// postStreams returns a conversation and a key, each of its own.
func postStreams(w *World) []postStream {
	h := w.Dialog()
	key := parley.Key(w.Name("key"))
	return []postStream{
		{"a conversation", func(body string) { w.Send(h, w.Ask, body) }},
		{"a key", func(body string) { w.post(w.SQ, body, key) }},
	}
}

func checkDeferred(e *Env) {
	// Polling cannot explain that a receiver gets them in time.
	w := e.WorldOn(e.Broker(&parley.Options{Poll: quePoll}))
	const away = 300 * time.Millisecond
	for _, hold := range e.Holds() {
		for _, s := range postStreams(w) {
			for _, body := range []string{"1", "2", "3"} {
				s.send(body)
			}
			d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 2})
			before := time.Now()
			e.Must(d.Defer(e.Ctx, away))
			s.send("4")
			w.post(w.CQ, "other") // others go on
			postWant(w, w.CQ, "other")
			for i := range 2 {
				d = w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 2})
				if passed := time.Since(before); passed < away-tmrEarly || i == 0 && passed > away+queSlow {
					e.Errorf("%s that was deferred for %v came after %v", s.name, away, passed)
				}
				if got, want := Bodies(d.Messages), [][]string{{"1", "2"}, {"3", "4"}}[i]; !slices.Equal(got, want) {
					e.Errorf("%s: received %q after a deferral, want %q", s.name, got, want)
				}
				s.send(fmt.Sprint("more ", i))
				e.Must(d.Ack(e.Ctx))
			}
			postWant(w, w.SQ, "more 0", "more 1")
		}
	}
}

func checkParked(e *Env) {
	w := e.World()
	be := e.Handle()
	for _, hold := range e.Holds() {
		for _, s := range postStreams(w) {
			for _, body := range []string{"1", "2"} {
				s.send(body)
			}
			d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1})
			e.Must(d.Park(e.Ctx, errors.New("a reason, 'quoted'")))
			postBlocked(w, s.name, d.Group, "parked", "a reason, 'quoted'")
			w.Nothing(w.SQ, nil)
			w.Nothing(w.SQ, &parley.ReceiveOptions{Group: d.Group})
			s.send("3")
			w.Nothing(w.SQ, nil)
			postTend(e, be) // takes it out of the ready order, where the store does that
			w.Nothing(w.SQ, nil)
			s.send("4")
			w.Nothing(w.SQ, nil)
			w.post(w.SQ, "another group goes on")
			postWant(w, w.SQ, "another group goes on")
			e.Must(w.B.Promote(e.Ctx, d.Group)) // no promotion unparks
			w.Nothing(w.SQ, nil)

			e.Must(w.B.Unpark(e.Ctx, d.Group))
			s.send("5")
			first := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 2})
			if got := Bodies(first.Messages); !slices.Equal(got, []string{"1", "2"}) {
				e.Errorf("%s: received %q after Unpark, want 1 and 2", s.name, got)
			}
			e.Must(first.Ack(e.Ctx))
			postWant(w, w.SQ, "3", "4", "5")
			w.Nothing(w.SQ, nil)
		}
	}
	e.Is(w.B.Unpark(e.Ctx, parley.NewID()), parley.ErrUnknownGroup)
}

// postBlocked ends the check unless operators see the group in the state.
func postBlocked(w *World, name string, group parley.ID, state, reason string) {
	groups, err := w.B.Groups(w.Ctx, w.SQ, 0, 100)
	w.Must(err)
	for _, g := range groups {
		if g.Group == group {
			if g.State != state || reason != "" && g.Reason != reason {
				w.Errorf("%s: operators see the state %q for %q, want %q for %q", name, g.State, g.Reason, state, reason)
			}
			return
		}
	}
	w.Errorf("%s: operators do not see the group, which is %s", name, state)
}

func checkBlockedSingles(e *Env) {
	w := e.World()
	const away = 300 * time.Millisecond
	for _, hold := range e.Holds() {
		w.post(w.SQ, "deferred")
		before := time.Now()
		e.Must(w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold}).Defer(e.Ctx, away))
		w.post(w.CQ, "parked")
		d := w.Receive(w.CQ, &parley.ReceiveOptions{Hold: hold})
		if d.Group != d.Messages[0].ID {
			e.Errorf("the group of a post without key is %s, want its id, %s", d.Group, d.Messages[0].ID)
		}
		e.Must(d.Park(e.Ctx, nil))
		w.Nothing(w.CQ, nil)
		postTend(e, e.Handle())
		w.post(w.CQ, "beside")
		postWant(w, w.CQ, "beside")
		w.Nothing(w.CQ, nil)

		postWant(w, w.SQ, "deferred")
		if passed := time.Since(before); passed < away-tmrEarly {
			e.Errorf("a post that was deferred for %v came after %v", away, passed)
		}
		e.Must(w.B.Unpark(e.Ctx, d.Group))
		postWant(w, w.CQ, "parked")
		w.Nothing(w.CQ, nil)
	}
}

func checkUnparkDeferred(e *Env) {
	w := e.World()
	for _, s := range postStreams(w) {
		s.send("1")
		d := w.Receive(w.SQ, nil)
		e.Must(d.Defer(e.Ctx, time.Hour))
		postBlocked(w, s.name, d.Group, "deferred", "")
		s.send("2")
		w.Nothing(w.SQ, nil)
		e.Must(w.B.Unpark(e.Ctx, d.Group))
		postWant(w, w.SQ, "1", "2")
	}
}

func checkBlockedUndone(e *Env) {
	w := e.World()
	for _, hold := range e.Holds() {
		for _, s := range postStreams(w) {
			s.send("1")
			for i, block := range []func(context.Context, *parley.Delivery) error{
				func(ctx context.Context, d *parley.Delivery) error { return d.Defer(ctx, time.Hour) },
				func(ctx context.Context, d *parley.Delivery) error { return d.Park(ctx, nil) },
			} {
				key := e.Name(fmt.Sprint(postHold(hold), s.name, i))
				d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
				tx, err := d.Tx(e.Ctx)
				e.Must(err)
				_, err = tx.Once(e.Ctx, key)
				e.Must(err)
				_, err = tx.Post(e.Ctx, w.CQ, parley.Payload{Body: []byte("undone")})
				e.Must(err)
				e.Must(block(e.Ctx, d))
				w.Nothing(w.SQ, nil)
				w.Nothing(w.CQ, nil)
				w.Tx(func(tx *parley.Tx) error {
					fresh, err := tx.Once(e.Ctx, key)
					if !fresh {
						e.Errorf("%s: what was written before it was blocked has been committed", s.name)
					}
					return err
				})
				e.Must(w.B.Unpark(e.Ctx, d.Group))
			}
			postWant(w, w.SQ, "1")
		}
	}
}

func checkMaxBytes(e *Env) {
	w := e.World()
	// Of different letters, so that one can see which came.
	sizes := []int{100, 100, 100, 5000, 100, 100, 0, 2000, 1}
	var want []string
	for i, n := range sizes {
		want = append(want, strings.Repeat(string(rune('a'+i)), n))
	}
	take := map[string]func(limit int) []*parley.Message{
		"in a transaction": func(limit int) (ms []*parley.Message) {
			w.Tx(func(tx *parley.Tx) (err error) {
				ms, err = tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{MaxBytes: limit})
				return err
			})
			return ms
		},
	}
	for _, hold := range e.Holds() {
		take[postHold(hold)] = func(limit int) []*parley.Message {
			d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxBytes: limit})
			e.Must(d.Ack(e.Ctx))
			return d.Messages
		}
		take["by More, "+postHold(hold)] = func(limit int) []*parley.Message {
			d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1, MaxBytes: limit})
			more, err := d.More(e.Ctx, 100)
			e.Must(err)
			postWithin(e, "More", more, limit)
			e.Must(d.Ack(e.Ctx))
			return d.Messages
		}
	}
	for _, s := range postStreams(w) {
		for how, f := range take {
			for _, limit := range []int{1, 250, 1000, 1 << 20} {
				for _, body := range want {
					s.send(body)
				}
				var got []string
				for len(got) < len(want) {
					ms := f(limit)
					if !strings.HasPrefix(how, "by More") {
						postWithin(e, how, ms, limit)
					}
					got = append(got, Bodies(ms)...)
				}
				if !slices.Equal(got, want) {
					e.Fatalf("%s %s, at most %d bytes: received sizes %v, want %v", s.name, how, limit, postSizes(got), sizes)
				}
				w.Nothing(w.SQ, nil)
			}
		}
	}
}

func postHold(h parley.Hold) string {
	if h == parley.HoldLease {
		return "held by lease"
	}
	return "held by transaction"
}

func postSizes(bodies []string) []int {
	n := make([]int, len(bodies))
	for i, b := range bodies {
		n[i] = len(b)
	}
	return n
}

// postWithin says whether a delivery keeps to its limit.
func postWithin(e *Env, how string, ms []*parley.Message, limit int) {
	sizes := postSizes(Bodies(ms))
	total := 0
	for _, n := range sizes {
		total += n
	}
	if len(sizes) > 0 && total > max(limit, sizes[0]) {
		e.Errorf("%s: %d bytes of sizes %v were delivered, at most %d were asked for", how, total, sizes, limit)
	}
}

func checkMaxBytesOfGroup(e *Env) {
	w := e.World()
	group := parley.NewID()
	var sides []parley.ID
	for range 3 {
		sides = append(sides, w.DialogWith(&parley.DialogOptions{RelatedGroup: group}, "hello"))
	}
	for _, m := range w.Drain(w.SQ) { // each has a group of its own on this side: answer on all
		for i := range 3 {
			w.Send(m.Conversation, w.Tell, strings.Repeat(fmt.Sprint(i), 100))
		}
	}
	count := make(map[parley.ID]string)
	for n := 0; n < 9; {
		d := w.Receive(w.CQ, &parley.ReceiveOptions{MaxBytes: 450})
		postWithin(e, "a group of three conversations", d.Messages, 450)
		n += len(d.Messages)
		for _, m := range d.Messages {
			if d.Group != group {
				e.Fatalf("received group %s, want %s", d.Group, group)
			}
			count[m.Conversation] += string(m.Body[:1])
		}
		e.Must(d.Ack(e.Ctx))
	}
	for _, h := range sides {
		if count[h] != "012" {
			e.Errorf("of a conversation of the group the messages %q were received, want 012", count[h])
		}
	}
	w.Nothing(w.CQ, nil)
}
