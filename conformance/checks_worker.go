package conformance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/doctor"
	"github.com/parleymq/parley/internal/slow"
	"github.com/parleymq/parley/internal/sure"
)

func init() {
	add(
		check{ID: "Q01", Name: "readers are limited, raised and lowered", Run: checkReaders},
		check{ID: "Q02", Name: "a burst has all readers at work", Run: checkBurst},
		check{ID: "Q05", Name: "drain handles all there is and returns", Run: checkDrain},
		check{ID: "Q06", Name: "types without handler are dealt with", Run: checkNoHandler},
		check{ID: "Q06", Name: "types that another worker handles", Run: checkHandlerElsewhere},
		check{ID: "Q06", Name: "conversations are ended by default", Run: checkMuxEnds},
		check{ID: "O09", Name: "released before the work", Run: checkBeforeWork},
		check{ID: "W01", Name: "errors and panics undo themselves alone", Run: checkIsolation},
		check{ID: "W01", Name: "in a group what went before a failure stays", Run: checkPartOfGroup},
		check{ID: "W02", Name: "commits that fail", Run: checkCommitFails},
		check{ID: "W02", Name: "connections that break under a handler", Run: func(e *env) { checkCutConnection(e, 0) }},
		check{ID: "W02", Name: "connections that break, which the store finds out later", Run: func(e *env) { checkCutConnection(e, 30*time.Millisecond) }},
		check{ID: "W03", Name: "a slow handler among quick ones", Run: checkSlowHandler},
	)
	addRole("doomed", roleDoomed)
}

func checkReaders(e *env) {
	w := e.World()
	for _, hold := range e.Holds() {
		g := newGate()
		r := w.work(w.B, &parley.WorkerOptions{MaxReaders: 3, Hold: hold, MaxBatch: 1}, func(ctx context.Context, m *parley.Message) error {
			return g.pass(ctx)
		})
		w.posts(nil, numbered("%d", 20)...)
		if !e.Soon(10*time.Second, func() bool { return g.inside() == 3 }) {
			e.Errorf("%d of 3 readers are at work", g.inside())
		}
		r.SetMaxReaders(6)
		if !e.Soon(10*time.Second, func() bool { return g.inside() == 6 }) {
			e.Errorf("%d of 6 readers are at work after the maximum was raised", g.inside())
		}
		time.Sleep(50 * time.Millisecond) // for one too many to show
		r.SetMaxReaders(1)
		time.Sleep(50 * time.Millisecond)
		if n := g.inside(); n != 6 {
			e.Errorf("%d handlers run after the maximum was lowered, want the 6 that ran", n)
		}
		if g.most != 6 {
			e.Errorf("%d handlers ran at once, want at most 6", g.most)
		}
		g.mu.Lock()
		old := g.open
		g.open, g.most = make(chan struct{}), 0
		g.mu.Unlock()
		close(old)
		// One of those that ran before may be left inside for a moment.
		if !e.Soon(10*time.Second, func() bool { return g.inside() == 1 && g.entered() > 0 }) {
			e.Errorf("%d handlers run, want 1 that has begun since", g.inside())
		}
		time.Sleep(100 * time.Millisecond)
		g.mu.Lock()
		if g.most != 1 {
			e.Errorf("%d handlers ran at once after the maximum was lowered to 1", g.most)
		}
		close(g.open)
		g.mu.Unlock()
		if !e.Soon(10*time.Second, func() bool { return w.depth(w.SQ) == 0 }) {
			e.Errorf("%d messages are left", w.depth(w.SQ))
		}
		r.Stop()
	}
}

func checkBurst(e *env) {
	w := e.World()
	for _, hold := range e.Holds() {
		// The shortest of three tries: other work on the machine can only make one longer.
		took := burst(w, hold)
		for range 2 {
			if took > slow.By(time.Second) {
				took = min(took, burst(w, hold))
			}
		}
		e.Within(time.Second, took, "all readers were at work after %v, want a second at most")
	}
}

// burst is how long it takes until messages that come all at once have all readers at work.
func burst(w *world, hold parley.Hold) time.Duration {
	const readers = 10
	g := newGate()
	r := w.work(w.B, &parley.WorkerOptions{MaxReaders: readers, Hold: hold}, func(ctx context.Context, m *parley.Message) error {
		return g.pass(ctx)
	})
	time.Sleep(200 * time.Millisecond) // it is idle now
	w.posts(nil, numbered("%d", 100)...)
	start := time.Now()
	if !w.Soon(10*time.Second, func() bool { return g.inside() == readers }) {
		w.Fatalf("%d of %d readers are at work", g.inside(), readers)
	}
	took := time.Since(start)
	close(g.open)
	w.Soon(10*time.Second, func() bool { return w.depth(w.SQ) == 0 })
	r.Stop()
	return took
}

func checkDrain(e *env) {
	w := e.World()
	for _, hold := range e.Holds() {
		bodies := numbered("%03d", 60)
		w.posts(nil, bodies[:20]...)
		w.posts([]string{"a", "b", "c"}, bodies[20:]...)
		wk := sure.Of(w.B.NewWorker(w.SQ, parley.HandlerFunc(w.effect), &parley.WorkerOptions{MaxReaders: 4, Hold: hold}))
		start := time.Now()
		e.Must(wk.Drain(e.Ctx))
		if n := w.depth(w.SQ); n != 0 {
			e.Errorf("%d messages are left after the drain", n)
		}
		w.once(w.effects(60), bodies)
		if n := wk.Readers(); n != 0 {
			e.Errorf("%d handlers run after the drain", n)
		}
		// With nothing to do it returns at once, and can be run again.
		e.Must(wk.Drain(e.Ctx))
		e.Within(20*time.Second, time.Since(start), "the drains took %v")
	}
}

func checkNoHandler(e *env) {
	w := e.World()
	mux := parley.NewMux()
	var healthy atomic.Int64
	mux.HandleFunc(w.Any, func(context.Context, *parley.Message) error { healthy.Add(1); return nil })
	for range 3 {
		w.Dialog("unknown") // of type Ask
	}
	w.posts(nil, numbered("%d", 20)...)
	r := w.workWith(w.B, &parley.WorkerOptions{Poison: parley.ActionDeadLetter, UnknownTypes: 1500 * time.Millisecond}, mux)
	dead := func() (list []parley.DeadStatus) {
		list, err := w.B.Admin().DeadLetters(e.Ctx, w.SQ, parley.Place{}, 10)
		e.Must(err)
		return list
	}
	if !e.Soon(10*time.Second, func() bool { return healthy.Load() == 20 && len(dead()) == 3 }) {
		e.Errorf("%d of 20 healthy messages were handled and %d of 3 unknown ones are dead letters", healthy.Load(), len(dead()))
	}
	for _, d := range dead() {
		if d.Message.Type != w.Ask || !contains(d.Reason, w.Ask) {
			e.Errorf("a dead letter of type %q has the reason %q, want a reason that names the type", d.Message.Type, d.Reason)
		}
	}
	r.Stop()
}

// checkHandlerElsewhere is a deployment: a worker that does not know a type leaves its
// messages to a worker that knows it, and counts no attempt.
func checkHandlerElsewhere(e *env) {
	w := e.World()
	w.Dialog("0", "1") // of type Ask
	w.Dialog("2")
	old := w.workWith(w.B, &parley.WorkerOptions{MaxAttempts: 1}, parley.NewMux())
	if !e.Soon(10*time.Second, func() bool { return w.queueStatus(w.SQ).Deferred == 2 }) {
		e.Errorf("%+v after a worker without a handler, want two deferred groups", w.queueStatus(w.SQ))
	}
	// A moment later one of them may be in hand again.
	var found, told []doctor.Finding
	if !e.Soon(10*time.Second, func() bool {
		var err error
		found, err = doctor.Diagnose(e.Ctx, w.B, w.SQ)
		e.Must(err)
		told = slices.DeleteFunc(slices.Clone(found), func(f doctor.Finding) bool { return f.Code != "type.unhandled" })
		return len(told) == 2
	}) || told[0].Bad || !contains(told[0].Text, w.Ask) {
		e.Errorf("doctor finds %+v, want two groups that wait for a handler of %s", found, w.Ask)
	}
	mux := parley.NewMux()
	mux.HandleFunc(w.Ask, func(ctx context.Context, m *parley.Message) error {
		if m.Attempt != 1 {
			e.Errorf("message %s is handled at attempt %d, though nothing has failed", m.Body, m.Attempt)
		}
		return w.effect(ctx, m)
	})
	next := w.workWith(e.Broker(nil), &parley.WorkerOptions{MaxAttempts: 1}, mux)
	// Both take turns at what is put off; the old one is replaced in the end.
	time.Sleep(time.Second)
	old.Stop()
	w.once(w.effects(3), []string{"0", "1", "2"})
	next.Stop()
}

func contains(s, part string) bool { return slices.Contains(splitWords(s), part) }

func splitWords(s string) (words []string) {
	word := ""
	for _, c := range s + " " {
		if c == ' ' || c == '"' || c == ':' {
			words = append(words, word)
			word = ""
			continue
		}
		word += string(c)
	}
	return words
}

func checkMuxEnds(e *env) {
	w := e.World()
	h := w.Dialog("end")
	mux := parley.NewMux()
	mux.HandleFunc(w.Ask, func(ctx context.Context, m *parley.Message) error { return m.End(ctx) })
	server := w.workWith(w.B, nil, mux)
	client := sure.Of(w.B.NewWorker(w.CQ, parley.NewMux(), nil))
	ctx, cancel := context.WithCancel(e.Ctx)
	end := make(chan error, 1)
	go func() { end <- client.Run(ctx) }()
	gone := func() bool {
		list, err := w.B.Admin().Conversations(e.Ctx, parley.ConversationQuery{Handle: h, Limit: 1})
		e.Must(err)
		return len(list) == 0
	}
	if !e.Soon(15*time.Second, gone) {
		e.Errorf("the conversation is still there, though both workers end what has ended")
	}
	cancel()
	e.Must(<-end)
	server.Stop()
}

func checkBeforeWork(e *env) {
	w := e.World()
	h := w.Dialog("0", "1", "2")
	g := newGate()
	var mu sync.Mutex
	seen := map[string]int{}
	r := w.work(w.B, &parley.WorkerOptions{Release: parley.BeforeWork, MaxReaders: 3}, func(ctx context.Context, m *parley.Message) error {
		mu.Lock()
		seen[string(m.Body)]++
		mu.Unlock()
		if _, err := m.Tx(ctx); !errors.Is(err, parley.ErrSettled) {
			e.Errorf("a message that was released has a transaction: %v", err)
		}
		if err := g.pass(ctx); err != nil {
			return err
		}
		return errors.New("lost")
	})
	// All three are with handlers at once: the next can be received while the
	// first is worked on.
	if !e.Soon(10*time.Second, func() bool { return g.inside() == 3 }) {
		e.Errorf("%d of 3 messages of one conversation are worked on at once", g.inside())
	}
	if n := w.depth(w.SQ); n != 0 {
		e.Errorf("%d messages are there while their handlers run, want none", n)
	}
	close(g.open)
	w.Send(h, w.Ask, "3")
	e.Soon(10*time.Second, func() bool { mu.Lock(); defer mu.Unlock(); return len(seen) == 4 })
	time.Sleep(50 * time.Millisecond)
	r.Stop()
	for i := range 4 {
		if seen[fmt.Sprint(i)] != 1 {
			e.Errorf("message %d was handled %d times, want once, though handlers failed", i, seen[fmt.Sprint(i)])
		}
	}
}

func checkIsolation(e *env) {
	for _, hold := range e.Holds() {
		for _, iso := range []parley.Isolation{parley.IsolateEach, parley.IsolateBatch} {
			w := e.another()
			bodies := numbered("%03d", 120)
			w.posts(nil, bodies[:60]...)
			w.posts([]string{"a", "b", "c", "d", "e"}, bodies[60:]...)
			var failed sync.Map
			r := w.work(w.B, &parley.WorkerOptions{Hold: hold, Isolation: iso, MaxReaders: 3, Backoff: soonAgain}, func(ctx context.Context, m *parley.Message) error {
				if err := w.effect(ctx, m); err != nil {
					return err
				}
				n := int(m.Body[2] - '0')
				if _, again := failed.LoadOrStore(m.ID, true); again || n > 2 {
					return nil
				}
				switch n { // each a tenth of the messages, the first time
				case 0:
					return errors.New("fails after it has written")
				case 1:
					panic("panics after it has written")
				default:
					ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
					defer cancel()
					<-ctx.Done()
					return ctx.Err()
				}
			})
			w.once(w.effects(120), bodies)
			r.Stop()
			if n := w.depth(w.SQ) + w.queueStatus(w.SQ).Parked; n != 0 {
				e.Errorf("%d messages or groups are left", n)
			}
		}
	}
}

func checkPartOfGroup(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		bodies := numbered("%03d", 30)
		w.posts([]string{"k"}, bodies...)
		var tries sync.Map
		count := func(m *parley.Message) int64 {
			n, _ := tries.LoadOrStore(string(m.Body), new(atomic.Int64))
			return n.(*atomic.Int64).Add(1)
		}
		r := w.work(w.B, &parley.WorkerOptions{Hold: hold, Backoff: soonAgain, BatchTime: time.Second}, func(ctx context.Context, m *parley.Message) error {
			n := count(m)
			if err := w.effect(ctx, m); err != nil {
				return err
			}
			if m.Seq%10 == 5 && n < 3 {
				return errors.New("not yet")
			}
			if int64(m.Attempt) != n {
				e.Errorf("try %d of message %s says that it is attempt %d", n, m.Body, m.Attempt)
			}
			return nil
		})
		w.once(w.effects(30), bodies)
		r.Stop()
		for _, body := range bodies {
			want := int64(1)
			if body[2] == '5' {
				want = 3
			}
			n, _ := tries.Load(body)
			if got := n.(*atomic.Int64).Load(); got != want {
				e.Errorf("message %s was handled %d times, want %d: a failure behind it must not undo it", body, got, want)
			}
		}
	}
}

func checkCommitFails(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		b, f := e.frail(nil)
		e.Doing("groups are held %s, and commits of a batch fail three times for each of its messages that ends in 7", holdNames[hold])
		bodies := numbered("%03d", 100)
		w.posts(nil, bodies[:50]...)
		w.posts([]string{"a", "b", "c", "d", "e"}, bodies[50:]...)
		// A commit with the work of a marked handler fails, three times for each handler, as with a
		// constraint that is checked at the commit.
		var mu sync.Mutex
		pending := 0
		tries := map[string]int{}
		f.OnCommit = func() error {
			mu.Lock()
			defer mu.Unlock()
			if pending > 0 {
				pending = 0
				return errors.New("a constraint is violated at the commit")
			}
			return nil
		}
		attempts := map[string]int{}
		r := w.work(b, &parley.WorkerOptions{Hold: hold, MaxReaders: 1, Backoff: soonAgain, MaxAttempts: 10, BatchTime: time.Second}, func(ctx context.Context, m *parley.Message) error {
			if err := w.effect(ctx, m); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			attempts[string(m.Body)] = max(attempts[string(m.Body)], m.Attempt)
			if m.Body[2] == '7' && tries[string(m.Body)] < 3 {
				tries[string(m.Body)]++
				pending++
			}
			return nil
		})
		w.once(w.effects(100), bodies)
		r.Stop()
		for body, n := range attempts {
			if body[2] != '7' && n > 1 {
				e.Errorf("message %s, whose own work commits, was charged for a batch that it was in: attempt %d, want 1", body, n)
			}
		}
	}
}

func checkCutConnection(e *env, late time.Duration) {
	for _, hold := range e.Holds() {
		w := e.another()
		b, f := e.frail(nil)
		f.Late = late
		e.Doing("groups are held %s, and all connections break whenever a message that ends in 3 is first handled", holdNames[hold])
		bodies := numbered("%03d", 100)
		w.posts(nil, bodies[:50]...)
		w.posts([]string{"a", "b", "c", "d", "e"}, bodies[50:]...)
		var cut sync.Map
		var most atomic.Int64
		r := w.work(b, &parley.WorkerOptions{Hold: hold, MaxReaders: 3, Backoff: soonAgain, BatchTime: time.Second, Lease: 3 * time.Second}, func(ctx context.Context, m *parley.Message) error {
			if err := w.effect(ctx, m); err != nil {
				return err
			}
			if m.Body[2] == '3' {
				if _, again := cut.LoadOrStore(string(m.Body), true); !again {
					f.Cut(fmt.Errorf("cut by the check: %w", parley.ErrSerialization))
				}
			}
			if int64(m.Attempt) > most.Load() {
				most.Store(int64(m.Attempt))
			}
			return nil // it does not tell
		})
		w.once(w.effects(100), bodies)
		r.Stop()
		if most.Load() != 1 {
			e.Errorf("a message was charged for a broken connection: attempt %d, want 1", most.Load())
		}
	}
}

func checkSlowHandler(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		const budget, lease = 50 * time.Millisecond, 5 * time.Second
		g := newGate()
		var slow atomic.Int64
		handler := func(ctx context.Context, m *parley.Message) error {
			if string(m.Body) == "slow" {
				slow.Add(1)
				if err := g.pass(ctx); err != nil {
					return err
				}
			}
			return w.effect(ctx, m)
		}
		r := w.work(w.B, &parley.WorkerOptions{Hold: hold, MaxReaders: 2, BatchTime: budget, Lease: lease}, handler)
		// Quick ones first, so that batches grow; then a slow one in the middle.
		bodies := numbered("%03d", 200)
		w.posts(nil, bodies...)
		w.once(w.effects(200), bodies)
		// What a machine takes for sixty, with the one reader that will be left.
		r.SetMaxReaders(1)
		start := time.Now()
		w.posts(nil, bodies[:60]...)
		w.once(w.effects(60), bodies[:60])
		alone := time.Since(start)
		r.SetMaxReaders(2)
		mixed := append(append(slices.Clone(bodies[:30]), "slow"), bodies[30:60]...)
		start = time.Now()
		w.posts(nil, mixed...)
		w.once(w.effects(60), bodies[:60])
		// Otherwise they would wait for the end of the slow one, which comes last of all.
		e.Within(alone+budget+10*time.Second, time.Since(start), "60 quick messages took %v beside a slow one")
		time.Sleep(lease * 5 / 4)
		close(g.open)
		if got := w.effects(1)[""]; !slices.Equal(got, []string{"slow"}) {
			e.Errorf("the slow handler left the effects %q", got)
		}
		r.Stop()
		if n := slow.Load(); n != 1 {
			e.Errorf("the slow message was handled %d times", n)
		}
	}
}

// roleDoomed works until a message kills it.
func roleDoomed(ctx context.Context, b *parley.Broker, args []string, say func(string, ...any), hear *bufio.Scanner) error {
	queue, effects, hold := args[0], args[1], parley.HoldLease
	if args[2] == "transaction" {
		hold = parley.HoldTransaction
	}
	w := sure.Of(b.NewWorker(queue, parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		if string(m.Body) == "deadly" {
			say("killed %s attempt %d redelivered %t", m.ID, m.Attempt, m.Redelivered)
			killSelf()
		}
		tx, err := m.Tx(ctx)
		if err == nil {
			_, err = tx.Post(ctx, effects, parley.Payload{Body: m.Body})
		}
		return err
	}), &parley.WorkerOptions{Hold: hold, Lease: deadLease, MaxReaders: 4}))
	say("working")
	return w.Run(ctx)
}
