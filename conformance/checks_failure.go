package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	add(
		check{ID: "X01", Name: "park after so many attempts", Run: checkPolicyPark},
		check{ID: "X01", Name: "dead letter after so many attempts", Run: checkPolicyDead},
		check{ID: "X01", Name: "end with an error after so many attempts", Run: checkPolicyEnd},
		check{ID: "X01", Name: "a callback decides, and so does the handler", Run: checkPolicyOverride},
		check{ID: "X02", Name: "a failing message stays", Run: checkFailureStays},
		check{ID: "X03", Name: "healthy groups beside a poisoned one", Run: checkHealthy},
		check{ID: "X04", Name: "disable the queue", Run: checkPolicyDisable},
		check{ID: "X05", Name: "attempts outlive the process", Run: checkAttemptsLast},
		check{ID: "X05", Name: "transient errors count if asked", Run: checkTransient},
		check{ID: "X06", Name: "no end of attempts", Run: checkNoPolicy},
		check{ID: "X07", Name: "a worker that dies before its commit", Run: checkDeath},
		check{ID: "X08", Name: "what the next delivery shows", Run: checkRedelivered},
		check{ID: "X09", Name: "a deadly message among others", Run: checkDeadly},
		check{ID: "X09", Name: "a worker that never gives up a message", Run: checkDeadlyForever},
		check{ID: "X16", Name: "deaths in transactions, seen by a worker with leases", Run: checkLeaseSeesDeaths},
		check{ID: "X09", Name: "a deadly message in processes that it kills", Run: checkKiller, Limit: 2 * time.Minute},
	)
}

// killSelf ends the process as kill -9 does.
func killSelf() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err == nil {
		select {}
	}
	os.Exit(3)
}

var errPoison = errors.New("it is poison")

// poisoned runs a worker whose handler fails for the body "poison", until done.
func (w *world) poisoned(o parley.WorkerOptions, done func() bool) (attempts []int) {
	var mu sync.Mutex
	if o.Backoff == nil {
		o.Backoff = soonAgain
	}
	r := w.work(w.B, &o, func(ctx context.Context, m *parley.Message) error {
		if err := w.effect(ctx, m); err != nil {
			return err
		}
		if string(m.Body) != "poison" {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		attempts = append(attempts, m.Attempt)
		if m.Attempt > 1 && m.LastError != errPoison.Error() {
			w.Errorf("attempt %d shows the last error %q, want %q", m.Attempt, m.LastError, errPoison)
		}
		return errPoison
	})
	if !w.Soon(20*time.Second, done) {
		mu.Lock()
		w.Errorf("the policy did not act within 20 s; the attempts were %d", attempts)
		mu.Unlock()
	}
	r.Stop()
	return attempts
}

func checkPolicyPark(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		w.posts([]string{"k"}, "0", "poison", "2")
		w.posts(nil, "poison")
		got := w.poisoned(parley.WorkerOptions{Hold: hold, MaxAttempts: 3}, func() bool { return w.queueStatus(w.SQ).Parked == 2 })
		slices.Sort(got)
		if !slices.Equal(got, []int{1, 1, 2, 2, 3, 3}) {
			e.Errorf("two messages with 3 attempts each were tried at the attempts %d", got)
		}
		if g := w.group(func(g parley.GroupStatus) bool { return parked(g) && g.Key == "k" }); g == nil {
			e.Errorf("the group of the key is not parked")
		} else if !strings.Contains(g.Reason, errPoison.Error()) {
			e.Errorf("it is parked because of %q, want %q", g.Reason, errPoison)
		} else {
			// Its order is kept: after Unpark the failing message is the next.
			e.Must(w.B.Admin().Unpark(e.Ctx, g.Group))
			d := w.Receive(w.SQ, &parley.ReceiveOptions{Group: g.Group})
			if got := bodiesOf(d.Messages); !slices.Equal(got, []string{"poison", "2"}) {
				e.Errorf("after Unpark the group has %q", got)
			}
			e.Must(d.Ack(e.Ctx))
		}
		w.once(w.effects(1), []string{"0"})
	}
}

func checkPolicyDead(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		w.posts([]string{"k"}, "0", "poison", "2")
		w.posts(nil, "poison")
		w.poisoned(parley.WorkerOptions{Hold: hold, MaxAttempts: 2, Poison: parley.ActionDeadLetter}, func() bool {
			list, err := w.B.Admin().DeadLetters(e.Ctx, w.SQ, parley.Place{}, 10)
			e.Must(err)
			return len(list) == 2 && w.depth(w.SQ) == 0
		})
		list, err := w.B.Admin().DeadLetters(e.Ctx, w.SQ, parley.Place{}, 10)
		e.Must(err)
		for _, d := range list {
			if string(d.Message.Body) != "poison" || d.Attempts != 2 || !strings.Contains(d.Reason, errPoison.Error()) {
				e.Errorf("a dead letter has the body %q, %d attempts and the reason %q", d.Message.Body, d.Attempts, d.Reason)
			}
		}
		w.once(w.effects(2), []string{"0", "2"})
	}
}

func checkPolicyEnd(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		w.Dialog("0", "poison", "2")
		w.poisoned(parley.WorkerOptions{Hold: hold, MaxAttempts: 2, Poison: parley.ActionEndWithError}, func() bool {
			return w.depth(w.CQ) == 2
		})
		d := w.Receive(w.CQ, nil)
		for d.Messages[0].Type != parley.ErrorMessageType { // the effect of 0 may come first
			e.Must(d.Ack(e.Ctx))
			d = w.Receive(w.CQ, nil)
		}
		if err := d.Messages[0].Err(); err.Code != parley.PoisonCode || !strings.Contains(err.Text, errPoison.Error()) {
			e.Errorf("the other side receives %v, want code %d and the reason", err, parley.PoisonCode)
		}
		e.Must(d.Ack(e.Ctx))
		w.Nothing(w.SQ, nil)
		if list, err := w.B.Admin().DeadLetters(e.Ctx, w.SQ, parley.Place{}, 10); err != nil || len(list) != 1 {
			e.Errorf("%d dead letters, %v, want the message that failed", len(list), err)
		}
	}
}

func checkPolicyOverride(e *env) {
	w := e.World()
	var asked atomic.Int64
	fail := map[string]error{
		"dead": parley.DeadLetter(errPoison), "park": parley.Park(errPoison), "poison": parley.Poison(errPoison),
		"end": parley.EndWithError(1234, "no more"), "defer": parley.Defer(time.Hour),
	}
	bodies := []string{"dead", "park", "poison", "end", "defer", "fails", "fine"}
	w.posts(bodies, bodies...)
	h := w.Dialog("end")
	r := w.work(w.B, &parley.WorkerOptions{MaxAttempts: 2, Backoff: soonAgain, OnPoison: func(ctx context.Context, p parley.PoisonMessage) parley.Action {
		asked.Add(1)
		if !errors.Is(p.Err, errPoison) || p.Queue != w.SQ {
			e.Errorf("the callback is asked about %v of queue %q", p.Err, p.Queue)
		}
		return parley.ActionDeadLetter
	}}, func(ctx context.Context, m *parley.Message) error {
		if err := w.effect(ctx, m); err != nil {
			return err
		}
		if string(m.Body) == "fails" {
			return errPoison
		}
		return fail[string(m.Body)]
	})
	if !e.Soon(20*time.Second, func() bool {
		q := w.queueStatus(w.SQ)
		list, err := w.B.Admin().DeadLetters(e.Ctx, w.SQ, parley.Place{}, 10)
		e.Must(err)
		// dead, poison, fails, and both that were ended: the post has no other side
		return q.Parked == 1 && q.Deferred == 1 && len(list) == 5
	}) {
		list, _ := w.B.Admin().DeadLetters(e.Ctx, w.SQ, parley.Place{}, 10)
		e.Errorf("status %+v and %d dead letters, want 1 parked, 1 deferred and 5 dead", w.queueStatus(w.SQ), len(list))
	}
	r.Stop()
	if asked.Load() != 2 {
		e.Errorf("the callback was asked %d times, want twice: for what failed twice, and for what its handler called poison", asked.Load())
	}
	d := w.Receive(w.CQ, &parley.ReceiveOptions{Conversation: h})
	if err := d.Messages[0].Err(); err == nil || err.Code != 1234 || err.Text != "no more" {
		e.Errorf("the other side of the conversation receives %v", err)
	}
	e.Must(d.Ack(e.Ctx))
	if g := w.group(deferred); g == nil || g.Until < 50*time.Minute {
		e.Errorf("what its handler deferred for an hour is %+v", g)
	}
}

func checkFailureStays(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		w.posts(nil, "poison")
		w.posts([]string{"k"}, "poison", "behind")
		var n atomic.Int64
		r := w.work(w.B, &parley.WorkerOptions{Hold: hold, Backoff: soonAgain, MaxAttempts: 100}, func(ctx context.Context, m *parley.Message) error {
			if err := w.effect(ctx, m); err != nil {
				return err
			}
			n.Add(1)
			return errPoison
		})
		e.Soon(20*time.Second, func() bool { return n.Load() >= 8 })
		r.Stop()
		if k := n.Load(); k < 8 {
			e.Errorf("a failing message was tried %d times", k)
		}
		if k := w.depth(w.CQ); k != 0 {
			e.Errorf("%d effects of failing attempts were committed", k)
		}
		var bodies []string
		e.Soon(5*time.Second, func() bool {
			bodies = append(bodies, bodiesOf(w.Drain(w.SQ))...)
			return len(bodies) == 3
		})
		if len(bodies) != 3 {
			e.Errorf("%q are left of three messages of which none was handled", bodies)
		}
	}
}

// checkHealthy lets a worker handle groups twice, once by themselves to see how
// long that takes here.
func checkHealthy(e *env) {
	const groups = 100
	keys := numbered("key %d", groups)
	bodies := numbered("%03d", groups)
	handle := func(poison ...string) (tries int64, took, whole time.Duration) {
		w := e.another()
		if len(poison) > 0 {
			w.posts([]string{"poison"}, poison...)
		}
		w.posts(keys, bodies...)
		var n atomic.Int64
		r := w.work(w.B, &parley.WorkerOptions{Backoff: func(int) time.Duration { return 100 * time.Millisecond }, MaxAttempts: 1000}, func(ctx context.Context, m *parley.Message) error {
			if err := w.effect(ctx, m); err != nil {
				return err
			}
			if m.Key == "poison" {
				n.Add(1)
				return errPoison
			}
			return nil
		})
		start := time.Now()
		got := w.effects(groups)
		took = time.Since(start)
		w.once(got, bodies)
		if len(poison) > 0 {
			time.Sleep(500 * time.Millisecond) // for more tries than there should be
		}
		r.Stop()
		return n.Load(), took, time.Since(start)
	}
	_, alone, _ := handle()
	n, took, whole := handle("poison", "poison", "poison")
	e.Within(3*alone+15*time.Second, took, "the healthy groups took %v beside a poisoned one")
	if n == 0 || n > int64(whole/(50*time.Millisecond))+5 {
		e.Errorf("the poisoned message was tried %d times in %v, with 100 ms between", n, whole)
	}
}

func checkPolicyDisable(e *env) {
	w := e.World()
	w.posts([]string{"k"}, "poison", "behind")
	got := w.poisoned(parley.WorkerOptions{MaxAttempts: 5, Poison: parley.ActionDisableQueue}, func() bool { return w.queueStatus(w.SQ).Disabled })
	if !slices.Equal(got, []int{1, 2, 3, 4, 5}) {
		e.Errorf("before the queue was disabled the attempts were %d", got)
	}
	_, err := w.B.Receive(e.Ctx, w.SQ, nil)
	e.Is(err, parley.ErrQueueDisabled)
	if r := <-queReceive(e, e.Broker(nil), w.SQ, 20*time.Second); !errors.Is(r.err, parley.ErrQueueDisabled) {
		e.Errorf("a receiver with a wait gets %v, want %v", r.err, parley.ErrQueueDisabled)
	}
	h := w.Dialog("arrives meanwhile")
	e.Must(w.B.Admin().EnableQueue(e.Ctx, w.SQ))
	var bodies []string
	e.Soon(10*time.Second, func() bool {
		bodies = append(bodies, bodiesOf(w.Drain(w.SQ))...)
		return len(bodies) == 3
	})
	slices.Sort(bodies)
	if !slices.Equal(bodies, []string{"arrives meanwhile", "behind", "poison"}) {
		e.Errorf("after the queue was enabled it has %q (conversation %v)", bodies, h)
	}
}

func checkAttemptsLast(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		w.posts([]string{"k"}, "poison")
		var mu sync.Mutex
		var seen, want []int
		for range 3 { // three processes, one after another
			b := e.Broker(nil)
			var n atomic.Int64
			r := w.work(b, &parley.WorkerOptions{Hold: hold, Backoff: func(int) time.Duration { return 300 * time.Millisecond }}, func(ctx context.Context, m *parley.Message) error {
				mu.Lock()
				defer mu.Unlock()
				n.Add(1) // more than once, if the process stops late
				seen = append(seen, m.Attempt)
				want = append(want, len(seen))
				return errPoison
			})
			if !e.Soon(10*time.Second, func() bool { return n.Load() >= 1 && w.group(deferred) != nil }) {
				e.Fatalf("nothing was handled; the attempts so far were %d", seen)
			}
			r.Stop()
		}
		if !slices.Equal(seen, want) {
			e.Errorf("three processes saw the attempts %d, want %d", seen, want)
		}
	}
}

func checkTransient(e *env) {
	// The second one is what a handler's own post returns that had no answer in time.
	lost := []error{parley.ErrSerialization, errors.Join(context.DeadlineExceeded, parley.ErrConnection)}
	for _, count := range []bool{false, true} {
		w := e.another()
		w.posts(nil, "transient")
		want := []int{1, 1, 1, 1, 1}
		if count {
			want = []int{1, 2, 3}
		}
		var mu sync.Mutex
		var attempts []int
		r := w.work(e.Broker(nil), &parley.WorkerOptions{CountTransient: count, Backoff: soonAgain, MaxAttempts: 3, Poison: parley.ActionDeadLetter}, func(ctx context.Context, m *parley.Message) error {
			mu.Lock()
			defer mu.Unlock()
			attempts = append(attempts, m.Attempt)
			if len(attempts) < 5 {
				return fmt.Errorf("by the check: %w", lost[len(attempts)%len(lost)])
			}
			return nil
		})
		e.Soon(10*time.Second, func() bool { mu.Lock(); defer mu.Unlock(); return len(attempts) >= len(want) })
		time.Sleep(50 * time.Millisecond) // for one too many
		r.Stop()
		if !slices.Equal(attempts, want) {
			e.Errorf("with CountTransient %t a message that loses against others is tried at the attempts %d, want %d", count, attempts, want)
		}
	}
}

func checkNoPolicy(e *env) {
	w := e.World()
	w.posts(nil, "poison")
	var n atomic.Int64
	r := w.work(w.B, &parley.WorkerOptions{MaxAttempts: -1, Backoff: soonAgain}, func(ctx context.Context, m *parley.Message) error {
		if string(m.Body) == "poison" {
			n.Add(1)
			return errPoison
		}
		return w.effect(ctx, m)
	})
	e.Soon(20*time.Second, func() bool { return n.Load() >= 20 })
	w.posts(nil, "healthy")
	w.once(w.effects(1), []string{"healthy"})
	r.Stop()
	q := w.queueStatus(w.SQ)
	if n.Load() < 20 || q.Disabled || q.Parked > 0 {
		e.Errorf("after %d attempts the queue is %+v, want it enabled and nothing parked", n.Load(), q)
	}
	if list, err := w.B.Admin().DeadLetters(e.Ctx, w.SQ, parley.Place{}, 1); err != nil || len(list) != 0 {
		e.Errorf("%d dead letters, %v", len(list), err)
	}
}

func checkDeath(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		w.posts([]string{"k"}, "0", "1", "2")
		w.die(hold, "1")
		r := w.work(e.Broker(nil), &parley.WorkerOptions{Hold: hold}, w.effect)
		w.once(w.effects(3), []string{"0", "1", "2"})
		r.Stop()
	}
}

func checkRedelivered(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		w.posts([]string{"k"}, "mail")
		first := w.die(hold, "mail")
		if first.Attempt != 1 || first.Redelivered {
			e.Errorf("the first delivery is attempt %d, redelivered %t", first.Attempt, first.Redelivered)
		}
		got := make(chan parley.Message, 10)
		r := w.work(e.Broker(nil), &parley.WorkerOptions{Hold: hold}, func(ctx context.Context, m *parley.Message) error {
			got <- *m
			return nil
		})
		select {
		case second := <-got:
			if second.ID != first.ID || second.Attempt != 2 || !second.Redelivered {
				e.Errorf("after the death of its receiver the message has ID %s, attempt %d, redelivered %t; it was %s, attempt 1", second.ID, second.Attempt, second.Redelivered, first.ID)
			}
		case <-time.After(slow.By(20 * time.Second)):
			e.late()
			e.Errorf("the message was not delivered again")
		}
		r.Stop()
	}
}

func checkDeadly(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		bodies := numbered("%03d", 40)
		w.posts(nil, append(append(slices.Clone(bodies[:20]), "deadly"), bodies[20:]...)...)
		var deadly parley.ID
		for range 2 {
			deadly = w.die(hold, "deadly").ID
		}
		var again atomic.Int64
		r := w.work(e.Broker(nil), &parley.WorkerOptions{Hold: hold, Lease: deadLease}, func(ctx context.Context, m *parley.Message) error {
			if string(m.Body) == "deadly" {
				again.Add(1)
			}
			return w.effect(ctx, m)
		})
		w.once(w.effects(40), bodies)
		if !e.Soon(10*time.Second, func() bool { return w.group(parked) != nil }) {
			e.Errorf("the message that two receivers died of is not parked")
		} else if g := w.group(parked); !strings.Contains(g.Reason, parley.ErrDeadly.Error()) {
			e.Errorf("it is parked because of %q", g.Reason)
		}
		if again.Load() != 0 {
			e.Errorf("the message that two receivers died of was handled again")
		}
		if n := w.queueStatus(w.SQ).Parked; n != 1 {
			e.Errorf("%d groups are parked, want the one", n)
		}
		// A new chance: it is not condemned for what it did before.
		g := w.group(parked)
		if w.traced(deadly) {
			e.Errorf("the message is parked, and records of workers that died with it still name it")
		} else if g != nil {
			e.Must(w.B.Admin().Unpark(e.Ctx, g.Group))
			if !e.Soon(10*time.Second, func() bool { return again.Load() == 1 }) {
				e.Errorf("after Unpark the message was not handled")
			}
		}
		r.Stop()
	}
}

func checkDeadlyForever(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		w.posts(nil, "0", "deadly", "1")
		for range 2 {
			w.die(hold, "deadly")
		}
		r := w.work(e.Broker(nil), &parley.WorkerOptions{Hold: hold, Lease: deadLease, MaxAttempts: -1}, w.effect)
		w.once(w.effects(3), []string{"0", "deadly", "1"})
		r.Stop()
	}
}

func checkKiller(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		bodies := numbered("%03d", 40)
		w.posts(nil, append(append(slices.Clone(bodies[:20]), "deadly"), bodies[20:]...)...)
		name := "lease"
		if hold == parley.HoldTransaction {
			name = "transaction"
		}
		deaths := 0
		for deaths < 5 {
			c := e.Child("doomed", w.SQ, w.CQ, name)
			c.Hear() // working
			line := ""
			if e.Soon(5*time.Second, func() bool {
				select {
				case line = <-c.lines:
				default:
				}
				return line != "" || w.group(parked) != nil
			}) && line == "" {
				if !e.Soon(20*time.Second, func() bool { return w.depth(w.CQ) == 40 }) {
					e.Errorf("%d of 40 healthy messages were handled", w.depth(w.CQ))
				}
				c.Kill()
				break
			}
			deaths++
			if want := fmt.Sprintf("attempt %d redelivered %t", deaths, deaths > 1); !strings.HasSuffix(line, want) {
				e.Errorf("death %d: %q, want it to end with %q", deaths, line, want)
			}
			c.cmd.Wait()
		}
		if deaths != 2 {
			e.Errorf("the message killed %d processes, want it found out at the second death", deaths)
		}
		w.once(w.effects(40), bodies)
	}
}

// checkLeaseSeesDeaths leaves records of two workers that died with messages in hand. One
// handled its message alone, the other handled several.
func checkLeaseSeesDeaths(e *env) {
	if !e.HoldsInTransaction() {
		e.Skipf("nothing is held in transactions")
	}
	w := e.World()
	be := e.Handle()
	died := func(alone bool, body string) {
		id, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Type: w.Any, Body: []byte(body)})
		e.Must(err)
		_, err = be.PutReader(e.Ctx, backend.ReaderRecord{Reader: parley.NewID(), Worker: parley.NewID(),
			Queue: w.queueStatus(w.SQ).ID, Owner: "dead", Readers: 1, For: time.Minute, InHand: []parley.ID{id}, Alone: alone})
		e.Must(err)
	}
	died(true, "deadly")
	died(false, "suspect")
	w.posts(nil, "fine 1", "fine 2")
	r := w.work(w.B, &parley.WorkerOptions{Hold: parley.HoldLease}, func(ctx context.Context, m *parley.Message) error {
		if string(m.Body) == "deadly" {
			e.Errorf("a message with which a worker died that handled nothing else is handled")
		}
		return w.effect(ctx, m)
	})
	w.once(w.effects(3), []string{"fine 1", "fine 2", "suspect"})
	if !e.Soon(20*time.Second, func() bool { return w.queueStatus(w.SQ).Parked == 1 }) {
		e.Errorf("it is not parked")
	}
	r.Stop()
}
