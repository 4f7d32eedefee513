package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		check{ID: "Q03", Name: "a wait on an empty queue takes its time and looks a handful of times", Run: checkEmptyWait},
		check{ID: "Q03", Name: "a wait for a held group looks ever more rarely", Run: checkHeldWait},
		check{ID: "Q03", Name: "a commit of the same process wakes a receiver", Run: checkWakeInProcess},
		check{ID: "Q03", Name: "a commit of another process wakes a receiver", Run: checkWakeByOther},
		check{ID: "Q03", Name: "what listens wakes all at first", Run: checkListenBegins},
		scripted("Q03", "what is given back wakes a receiver", `
			broker other
			each hold: every hold
				each by: | other:
					begin d "again"
					receive SQ $hold as r
					start asks $by receive SQ wait 10s as again -> "again"
					pause 20ms // most likely it waits by now; if not, nothing is lost
					clock c
					rollback r
					join asks within 11s
					within c 3s
					ack again
		`, rarely),
		check{ID: "Q03", Name: "no wake-up falls between the look and the wait", Run: checkHandOver},
		check{ID: "Q03", Name: "no wake-up of another process falls between the look and the wait", Run: checkHandOverBetweenHandles},
		check{ID: "Q04", Name: "many senders and receivers on several handles", Run: checkManyWorkers},
		check{ID: "Q04", Name: "many receivers of posts without key", Run: checkManySingles},
	)
}

// queLooks counts how often a Broker looks into the store.
type queLooks struct {
	backend.Backend
	n atomic.Int64
}

type queLooksTx struct {
	backend.Tx
	n *atomic.Int64
}

// Capabilities has deliveries held by lease.
func (l *queLooks) Capabilities() backend.Capabilities {
	c := l.Backend.Capabilities()
	c.HoldsInTransaction = false
	return c
}

func (l *queLooks) Begin(ctx context.Context) (backend.Tx, error) {
	tx, err := l.Backend.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return queLooksTx{tx, &l.n}, nil
}

func (tx queLooksTx) Claim(ctx context.Context, r backend.ClaimRequest) (backend.Claim, error) {
	tx.n.Add(1)
	return tx.Tx.Claim(ctx, r)
}

// queCounted is Env.Broker with a counter of its looks. It holds by lease.
func queCounted(e *env, o *parley.Options) (*parley.Broker, *queLooks) {
	be, err := e.r.store.Open(e.Ctx)
	e.Must(err)
	looks := &queLooks{Backend: be}
	b, err := newBroker(e.Ctx, looks, o)
	if err != nil {
		be.Close()
		e.Fatalf("new broker: %v", err)
	}
	e.Cleanup(func() { b.Close() })
	return b, looks
}

// queListens reports whether the store tells a process what another one sent.
func queListens(e *env) bool {
	l := e.Handle().Capabilities().Listener
	if l == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(e.Ctx, 100*time.Millisecond)
	defer cancel()
	return !errors.Is(l.Listen(ctx, func(int64) {}), errors.ErrUnsupported)
}

// queTold reports whether a process learns what another one sent without polling for messages.
func queTold(e *env) bool { return queListens(e) || e.r.main.Capabilities().Watcher != nil }

// queReceived is what a receiver in another goroutine got.
type queReceived struct {
	d    *parley.Delivery
	err  error
	took time.Duration
}

// queReceive receives in another goroutine.
func queReceive(e *env, b *parley.Broker, queue string, wait time.Duration) <-chan queReceived {
	c := make(chan queReceived, 1)
	go func() {
		start := time.Now()
		d, err := b.Receive(e.Ctx, queue, &parley.ReceiveOptions{Wait: wait})
		c <- queReceived{d, err, time.Since(start)}
	}()
	return c
}

// queWoken ends the check unless the receiver gets the body soon after the
// time, and acknowledges it.
func queWoken(e *env, c <-chan queReceived, since time.Time, within time.Duration, body string) {
	r := <-c
	passed := time.Since(since)
	if r.err != nil {
		e.Fatalf("a receiver that waits got %v, want %q", r.err, body)
	}
	if got := bodiesOf(r.d.Messages); len(got) != 1 || got[0] != body {
		e.Errorf("a receiver that waits got %q, want %q", got, body)
	}
	e.Within(within, passed, "a receiver that waits got its message after %v, want at once")
	e.Must(r.d.Ack(e.Ctx))
}

func checkEmptyWait(e *env) {
	w := e.World()
	const wait = 500 * time.Millisecond
	for _, c := range []struct {
		poll  time.Duration
		looks int64
	}{{quePoll, 5}, {100 * time.Millisecond, 15}} {
		b, looks := queCounted(e, &parley.Options{Poll: c.poll})
		r := <-queReceive(e, b, w.SQ, wait)
		e.Is(r.err, parley.ErrNoMessage)
		if r.took < wait-tmrEarly {
			e.Errorf("a receive with a wait of %v returned after %v", wait, r.took)
		}
		e.Within(wait+queSlow, r.took, "a receive whose wait was over returned after %v")
		if n := looks.n.Load(); n < 1 || n > c.looks {
			e.Errorf("a receive that waited %v on an empty queue, with a poll every %v, looked %d times, want at most %d", r.took, c.poll, n, c.looks)
		}
		looks.n.Store(0)
		r = <-queReceive(e, b, w.SQ, 0)
		e.Is(r.err, parley.ErrNoMessage)
		e.Within(queSlow, r.took, "a receive without a wait returned after %v")
	}
}

func checkHeldWait(e *env) {
	w := e.World()
	w.Dialog("held")
	held := w.Receive(w.SQ, nil)
	b, looks := queCounted(e, &parley.Options{Poll: quePoll})
	const wait = 700 * time.Millisecond
	r := <-queReceive(e, b, w.SQ, wait)
	e.Is(r.err, parley.ErrNoMessage)
	if n := looks.n.Load(); n > 25 {
		e.Errorf("a receive that waited %v for a held group looked %d times, want at most 25", r.took, n)
	}
	e.Must(held.Ack(e.Ctx))
}

func checkWakeInProcess(e *env) {
	b, looks := queCounted(e, &parley.Options{Poll: quePoll})
	w := e.WorldOn(b)
	for i := range 5 {
		looks.n.Store(0)
		c := queReceive(e, b, w.SQ, queLost)
		e.Soon(queSlow, func() bool { return looks.n.Load() > 0 })
		body := fmt.Sprint("message ", i)
		since := time.Now()
		if i%2 == 0 {
			w.Dialog(body)
		} else {
			_, err := b.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte(body)})
			e.Must(err)
		}
		queWoken(e, c, since, queSlow, body)
	}
	// A message of another queue wakes no receiver here, nor does a message that is
	// rolled back.
	looks.n.Store(0)
	c := queReceive(e, b, w.SQ, 300*time.Millisecond)
	e.Soon(queSlow, func() bool { return looks.n.Load() > 0 })
	e.Is(b.InTx(e.Ctx, func(tx *parley.Tx) error {
		_, err := tx.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte("undone")})
		return errors.Join(errUndo, err)
	}), errUndo)
	if r := <-c; !errors.Is(r.err, parley.ErrNoMessage) {
		e.Errorf("a receiver got %v after a rollback, want %v", r.err, parley.ErrNoMessage)
	}
}

func checkWakeByOther(e *env) {
	w := e.World()
	poll, within := 500*time.Millisecond, 500*time.Millisecond+queSlow
	if queTold(e) {
		poll, within = quePoll, queSlow
	} else {
		e.Logf("this store tells other processes nothing, so they poll")
	}
	b, looks := queCounted(e, &parley.Options{Poll: poll})
	for i := range 4 {
		looks.n.Store(0)
		c := queReceive(e, b, w.SQ, queLost)
		e.Soon(queSlow, func() bool { return looks.n.Load() > 0 })
		body := fmt.Sprint("message ", i)
		since := time.Now()
		switch i % 2 {
		case 0:
			w.Dialog(body)
		case 1:
			_, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte(body)})
			e.Must(err)
		}
		queWoken(e, c, since, within, body)
	}
}

// checkListenBegins: a receiver may have looked before the store listens, and a message been
// sent in between, which the store announces to no one.
func checkListenBegins(e *env) {
	if !queListens(e) {
		e.Skipf("this store tells other processes nothing, so they poll")
	}
	ctx, stop := context.WithCancel(e.Ctx)
	woken, ended := make(chan int64, 1), make(chan error, 1)
	listener := e.Handle().Capabilities().Listener
	go func() {
		ended <- listener.Listen(ctx, func(queue int64) {
			select {
			case woken <- queue:
			default:
			}
		})
	}()
	select {
	case queue := <-woken:
		if queue != 0 {
			e.Errorf("what listens announced queue %d first, want all", queue)
		}
	case <-time.After(queLost):
		e.late()
		e.Errorf("what listens announced nothing within %v", queLost)
	}
	stop()
	<-ended
}

func checkHandOver(e *env) {
	b := e.Broker(&parley.Options{Poll: quePoll})
	queHandOver(e, e.WorldOn(b), b, b)
}

func checkHandOverBetweenHandles(e *env) {
	if !queTold(e) {
		e.Skipf("this store tells other processes nothing, so they poll")
	}
	b := e.Broker(&parley.Options{Poll: quePoll})
	queHandOver(e, e.WorldOn(b), b, e.Broker(&parley.Options{Poll: quePoll}))
}

// queHandOver has one message go to and fro between two receivers, so that each
// send meets a receiver that is about to wait. A lost wake-up shows as a
// receiver that waits on.
func queHandOver(e *env, w *world, a, b *parley.Broker) {
	const (
		rounds = 2000
		atMost = 2 * time.Second
	)
	// pass receives from one queue and sends on to the other, until it is told
	// to stop or something is wrong.
	pass := func(b *parley.Broker, from, to string, next func(body string) string) {
		for {
			d, err := b.Receive(e.Ctx, from, &parley.ReceiveOptions{Wait: queLost})
			if err != nil {
				e.Errorf("nothing was received from %s within %v, though a message was sent there or is about to be: %v", from, queLost, err)
				return
			}
			body := string(d.Messages[0].Body)
			if body != "stop" {
				body = next(body)
			}
			tx, err := d.Tx(e.Ctx)
			if err == nil && to != "" {
				_, err = tx.Post(e.Ctx, to, parley.Payload{Body: []byte(body)})
			}
			if err == nil {
				err = d.Ack(e.Ctx)
			}
			if err != nil {
				e.Errorf("pass a message on: %v", err)
				d.Close()
				return
			}
			if body == "stop" {
				return
			}
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { pass(b, w.SQ, w.CQ, func(body string) string { return body }) })
	start, n := time.Now(), 0
	wg.Go(func() {
		pass(a, w.CQ, w.SQ, func(string) string {
			n++
			if n >= rounds || time.Since(start) > atMost {
				return "stop"
			}
			return fmt.Sprint("message ", n)
		})
	})
	_, err := a.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte("message 0")})
	wg.Wait()
	e.Must(err)
	e.Logf("%d hand-overs in %v", 2*n, time.Since(start).Round(time.Millisecond))
}

// queLedger knows what was sent and what was handled in effects that were
// committed.
type queLedger struct {
	e    *env
	want int

	mu   sync.Mutex
	done map[string]int
	last time.Time // when something was handled
}

func queNewLedger(e *env, want int) *queLedger {
	return &queLedger{e: e, want: want, done: make(map[string]int), last: time.Now()}
}

// record is called after a commit with the bodies that it handled.
func (l *queLedger) record(bodies []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, body := range bodies {
		l.done[body]++
		l.last = time.Now()
	}
}

// over reports whether all is done, or nothing more seems to come.
func (l *queLedger) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.done) >= l.want || time.Since(l.last) > 10*time.Second || l.e.Ctx.Err() != nil
}

// check compares with what was sent.
func (l *queLedger) check(sent []string) {
	missing := 0
	for _, body := range sent {
		switch n := l.done[body]; n {
		case 1:
		case 0:
			missing++
		default:
			l.e.Errorf("%s was handled %d times", body, n)
		}
	}
	if missing > 0 {
		l.e.Errorf("%d of %d messages were not handled", missing, len(sent))
	}
	if extra := len(l.done) - len(sent) + missing; extra != 0 {
		l.e.Errorf("%d messages were handled that no sender sent", extra)
	}
}

// handle writes the effect of each message into the transaction. Once tells
// whether an effect of it is there already.
func (l *queLedger) handle(tx *parley.Tx, ms []*parley.Message) ([]string, error) {
	bodies := bodiesOf(ms)
	for _, body := range bodies {
		fresh, err := tx.Once(l.e.Ctx, l.e.Name(body))
		if err != nil {
			return nil, err
		}
		if !fresh {
			l.e.Errorf("%s was delivered though its effect had been committed", body)
		}
	}
	return bodies, nil
}

// work receives until everything is done: by delivery, now and then giving
// back, or by a transaction that receives.
func (l *queLedger) work(b *parley.Broker, queue string, hold parley.Hold, rnd *rand.Rand) {
	for !l.over() {
		o := &parley.ReceiveOptions{Hold: hold, Wait: 100 * time.Millisecond, MaxMessages: 1 + rnd.IntN(8)}
		var bodies []string
		var err error
		if rnd.IntN(4) == 0 {
			bodies, err = l.take(b, queue, o.MaxMessages)
		} else {
			bodies, err = l.deliver(b, queue, o, rnd.IntN(6) == 0)
		}
		switch {
		case err == nil:
			l.record(bodies)
		case errors.Is(err, parley.ErrNoMessage), parley.IsRetryable(err):
		case l.over():
			return
		default:
			l.e.Errorf("a receiver failed: %v", err)
			return
		}
	}
}

func (l *queLedger) deliver(b *parley.Broker, queue string, o *parley.ReceiveOptions, giveBack bool) ([]string, error) {
	d, err := b.Receive(l.e.Ctx, queue, o)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	tx, err := d.Tx(l.e.Ctx)
	if err != nil {
		return nil, err
	}
	bodies, err := l.handle(tx, d.Messages)
	if err != nil {
		return nil, err
	}
	if giveBack {
		return nil, d.Rollback(l.e.Ctx)
	}
	return bodies, d.Ack(l.e.Ctx)
}

func (l *queLedger) take(b *parley.Broker, queue string, n int) (bodies []string, err error) {
	err = b.InTx(l.e.Ctx, func(tx *parley.Tx) error {
		ms, err := tx.Receive(l.e.Ctx, queue, &parley.ReceiveOptions{MaxMessages: n})
		if err != nil {
			return err
		}
		bodies, err = l.handle(tx, ms)
		return err
	})
	return bodies, err
}

// queRetry runs f in a transaction, again if it lost against another one.
func queRetry(e *env, b *parley.Broker, f func(tx *parley.Tx) error) error {
	for {
		err := b.InTx(e.Ctx, f)
		if !parley.IsRetryable(err) || e.Ctx.Err() != nil {
			return err
		}
	}
}

func checkManyWorkers(e *env) {
	w := e.World()
	const producers, each = 6, 40
	brokers := []*parley.Broker{w.B, e.Broker(nil), e.Broker(nil)}
	l := queNewLedger(e, producers*each)

	var wg sync.WaitGroup
	for p := range producers {
		b := brokers[p%len(brokers)]
		wg.Go(func() { queProduce(w, b, p, each) })
	}
	holds := e.Holds()
	for c := range 2 * len(brokers) {
		rnd := rand.New(rand.NewPCG(uint64(c), 4))
		wg.Go(func() { l.work(brokers[c%len(brokers)], w.SQ, holds[c/len(brokers)%len(holds)], rnd) })
	}
	wg.Wait()

	var sent []string
	for p := range producers {
		for i := range each {
			sent = append(sent, queBody(p, i))
		}
	}
	l.check(sent)
	w.Nothing(w.SQ, nil)
}

func queBody(producer, i int) string { return fmt.Sprintf("%d-%d", producer, i) }

// queProduce sends on a conversation, posts with keys that it shares with the other producers, and
// posts without keys. Some transactions are rolled back first.
func queProduce(w *world, b *parley.Broker, producer, n int) {
	e := w.env
	var h parley.ID
	for i := range n {
		body := []byte(queBody(producer, i))
		send := func(tx *parley.Tx) (err error) {
			switch i % 3 {
			case 0:
				c := tx.Conversation(h)
				if i == 0 {
					c, err = tx.Begin(e.Ctx, w.Client, w.Server, &parley.DialogOptions{Contract: w.Contract})
					if err != nil {
						return err
					}
					h = c.Handle()
				}
				return c.Send(e.Ctx, w.Ask, body)
			case 1:
				_, err = tx.Post(e.Ctx, w.SQ, parley.Payload{Body: body}, parley.Key(fmt.Sprint("key ", i%2)))
			default:
				_, err = tx.Post(e.Ctx, w.SQ, parley.Payload{Body: body})
			}
			return err
		}
		if i%7 == 3 {
			err := queRetry(e, b, func(tx *parley.Tx) error {
				if err := send(tx); err != nil {
					return err
				}
				return errUndo
			})
			if !errors.Is(err, errUndo) {
				e.Errorf("a sender that rolls back failed: %v", err)
				return
			}
		}
		if err := queRetry(e, b, send); err != nil {
			e.Errorf("a sender failed: %v", err)
			return
		}
	}
}

func checkManySingles(e *env) {
	w := e.World()
	const n = 300
	l := queNewLedger(e, n)
	var sent []string
	var batch []parley.Posting
	for i := range n {
		sent = append(sent, fmt.Sprint("post ", i))
		batch = append(batch, parley.Posting{Payload: parley.Payload{Body: []byte(sent[i])}})
	}
	w.Tx(func(tx *parley.Tx) error {
		_, err := tx.PostBatch(e.Ctx, w.SQ, batch)
		return err
	})
	brokers := []*parley.Broker{w.B, e.Broker(nil)}
	holds := e.Holds()
	var wg sync.WaitGroup
	for c := range 6 {
		rnd := rand.New(rand.NewPCG(uint64(c), 5))
		wg.Go(func() { l.work(brokers[c%2], w.SQ, holds[c/2%len(holds)], rnd) })
	}
	wg.Wait()
	l.check(sent)
	w.Nothing(w.SQ, nil)
}
