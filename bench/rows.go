package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

var (
	onPostgres = []string{"postgres"}
	onSQLite   = []string{"sqlite"}
	onServers  = []string{"postgres", "mysql", "mariadb"}
	everywhere = []string{"postgres", "sqlite", "mysql", "mariadb"}
)

// all are the systems as they are compared where nothing else is said.
var all = []string{"parley", "parley-default", "parley-pgx", "parley-pgxpool", "river", "river-default", "gue", "gue-default", "watermill", "watermill-default", "goqite", "goqite-default", "backlite", "raw", "raw-pgx"}

func and(names []string, more ...string) []string { return append(slices.Clone(names), more...) }

func without(names []string, less ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(s string) bool { return slices.Contains(less, s) })
}

var rows = []*row{
	{name: "send1", what: "one message a transaction: one sender", unit: "msg/s", engines: everywhere, counted: true,
		systems: and(without(all, "parley-default", "river-default", "gue-default", "watermill-default", "goqite-default"), "parley-key", "parley-dialog"), run: sending(1)},
	{name: "send16", what: "one message a transaction: 16 senders", unit: "msg/s", engines: everywhere, counted: true,
		systems: and(without(all, "parley-default", "river-default", "gue-default", "watermill-default", "goqite-default"), "parley-key", "parley-dialog", "parley-intx", "parley-joined"), run: sending(16)},
	{name: "ownrow", what: "BEGIN, a row of the program's, send, COMMIT: one sender", unit: "msg/s", engines: onPostgres, counted: true,
		systems: []string{"parley", "parley-pgx", "parley-pgxpool", "parley-batch", "river", "watermill", "raw", "raw-pgx"}, run: sendingOwn},
	{name: "batch100", what: "100 messages in a transaction, one sender", unit: "msg/s", engines: everywhere, counted: true,
		systems: without(all, "parley-default", "river-default", "gue-default", "watermill-default", "goqite-default"), run: batching},
	{name: "drain", what: "empty a queue, handler does nothing", unit: "msg/s", engines: everywhere, counted: true,
		systems: and(all, "raw-100"), load: drainLoad, run: draining(false)},
	{name: "drainrow", what: "empty a queue, handler writes a row in the acknowledging transaction", unit: "msg/s", engines: everywhere, counted: true,
		systems: and(without(all, "backlite"), "raw-100", "parley-none"), load: drainLoad, run: draining(true)},
	{name: "drainhot", what: "empty a queue, each handler changes one of 50 rows in the acknowledging transaction", unit: "msg/s", engines: onServers,
		systems: []string{"parley-default", "parley-single"}, load: hotDrainLoad, run: drainingHot},
	{name: "both", what: "16 senders and workers at once, handled", unit: "msg/s", engines: everywhere,
		systems: and(without(all, "raw", "raw-pgx"), "raw-100"), run: both},
	{name: "keepsup", what: "16 senders and workers at once, handled for each one sent", unit: "ratio", engines: onSQLite,
		systems: []string{"parley", "goqite"}, run: keepingUp},
	{name: "latency", what: "one message each 50 ms: from before its BEGIN to its handler", unit: "ms", engines: everywhere,
		systems: without(all, "raw", "raw-pgx"), run: latency(true)},
	{name: "latency2", what: "the same with sender and worker in two Brokers, as in two processes", unit: "ms", engines: everywhere,
		systems: []string{"parley"}, run: latency(false)},
	{name: "idle", what: "a worker whose queue has been empty for 40 s: processor time of its process and the server", unit: "% of a core",
		engines: []string{"mysql", "mariadb"}, slow: true, systems: []string{"parley"}, run: idling},
	{name: "memory", what: "100 queues with an idle worker each: heap and stacks beside those of an open Broker", unit: "MiB", engines: everywhere,
		systems: []string{"parley"}, run: holding(memory)},
	{name: "connections", what: "the same: connections of the process, beside those of an open Broker", unit: "connections", engines: onServers,
		systems: []string{"parley"}, run: holding(connections)},
	{name: "ordered", what: "100 groups of 200 messages in strict order, 10 workers", unit: "msg/s", engines: onPostgres,
		systems: []string{"parley", "watermill", "watermill-default", "raw-groups"}, load: orderedLoad, run: ordered},
	{name: "backlog10k", what: "empty a queue, beginning with 10,000", unit: "msg/s", engines: onPostgres,
		systems: []string{"parley", "river-backlog", "watermill-backlog"}, load: backlogLoad(10_000), run: backlog},
	{name: "backlog500k", what: "handled per second with 500,000 waiting", unit: "msg/s", engines: onPostgres,
		systems: []string{"parley", "river-backlog", "watermill-backlog"}, load: backlogLoad(500_000), run: backlog},
	{name: "dialog", what: "request and reply on a dialog of their own, 16 clients, round trips", unit: "trips/s", engines: everywhere, counted: true,
		systems: []string{"parley"}, run: talking(clientEnds)},
	{name: "dialog-new", what: "the same, the server ends with the reply, and then the client, round trips", unit: "trips/s", engines: everywhere, counted: true,
		systems: []string{"parley"}, run: talking(serverEnds)},
	{name: "dialog-kept", what: "request and reply on dialogs that are used again, 16 clients, round trips", unit: "trips/s", engines: everywhere, counted: true,
		systems: []string{"parley"}, run: talking(keptOpen)},
	{name: "claim1k", what: "receive and acknowledge one group of one message, 1,000 groups waiting", unit: "msg/s", engines: everywhere, counted: true,
		systems: []string{"parley"}, load: groupsLoad(1_000), run: claiming},
	{name: "claim1m", what: "the same, 1,000,000 messages waiting", unit: "msg/s", engines: everywhere, kept: true,
		systems: []string{"parley"}, load: millionLoad, run: claiming},
	{name: "promote1m", what: "1,000,000 waiting, workers busy: from the promotion of a group to its handler", unit: "ms", engines: everywhere, kept: true,
		systems: []string{"parley"}, load: millionLoad, run: promoting},
	{name: "locked1000", what: "the same, behind 1,000 groups that others hold", unit: "msg/s", engines: everywhere,
		systems: []string{"parley"}, load: groupsLoad(2_000), run: claimingBehind},
	{name: "hot1k", what: "receive one message at a time of one group that has 1,000", unit: "msg/s", engines: everywhere,
		systems: []string{"parley"}, load: hotLoad(1_000), run: claiming},
	{name: "hot100k", what: "the same with 100,000", unit: "msg/s", engines: everywhere,
		systems: []string{"parley"}, load: hotLoad(100_000), run: claiming},
	{name: "snapshot60", what: "one group a transaction, after another session's snapshot has been open for 60 s, for each one before", unit: "ratio", engines: onPostgres,
		slow: true, systems: []string{"parley"}, run: underSnapshot},
}

// sending measures senders that begin, send and commit.
func sending(senders int) func(context.Context, *measurement) (sample, error) {
	return func(ctx context.Context, m *measurement) (sample, error) {
		q, err := m.s.open(ctx, m.dsn)
		if err != nil {
			return sample{}, err
		}
		defer q.close()
		rate, n, err := sendFor(ctx, q.send, senders, m.window, m.begin)
		return sample{value: rate, n: n}, err
	}
}

// sendingOwn measures one sender that also writes a row.
func sendingOwn(ctx context.Context, m *measurement) (sample, error) {
	q, err := m.s.open(ctx, m.dsn)
	if err != nil {
		return sample{}, err
	}
	defer q.close()
	o, ok := q.(owner)
	if !ok {
		return sample{}, errUnsupported
	}
	rate, n, err := sendFor(ctx, o.sendOwn, 1, m.window, m.begin)
	return sample{value: rate, n: n}, err
}

// sendFor sends for a time, after sends that connect and prepare, and use each key for the first time: PostgreSQL
// plans a statement again for the first five executions in a session.
func sendFor(ctx context.Context, send func(context.Context, []byte) error, senders int, window time.Duration, begin func()) (rate float64, n int, err error) {
	if err := inParallel(senders, keys, func(i int) error { return send(ctx, body(i)) }); err != nil {
		return 0, 0, err
	}
	begin()
	start := time.Now()
	var sent atomic.Int64
	err = inParallel(senders, senders, func(i int) error {
		for time.Since(start) < window {
			if err := send(ctx, body(int(sent.Add(1)))); err != nil {
				return err
			}
		}
		return nil
	})
	return float64(sent.Load()) / time.Since(start).Seconds(), int(sent.Load()), err
}

func batching(ctx context.Context, m *measurement) (sample, error) {
	q, err := m.s.open(ctx, m.dsn)
	if err != nil {
		return sample{}, err
	}
	defer q.close()
	if err := q.batch(ctx, bodies(0, 100)); err != nil {
		return sample{}, err
	}
	m.begin()
	n, start := 0, time.Now()
	for time.Since(start) < m.window {
		if err := q.batch(ctx, bodies(n, 100)); err != nil {
			return sample{}, err
		}
		n += 100
	}
	return sample{value: float64(n) / time.Since(start).Seconds(), n: n}, nil
}

func drainLoad(m *measurement) loader { return loader{n: m.size(15_000, 50_000)} }

// meter counts what handlers are given. A message that comes again counts once.
type meter struct {
	want  int
	mu    sync.Mutex
	seen  map[int]bool
	first time.Time
	last  time.Time
	done  chan struct{}
}

func newMeter(want int) *meter {
	return &meter{want: want, seen: make(map[int]bool, want), done: make(chan struct{})}
}

func (t *meter) handled(b []byte) {
	n, now := numberOf(b), time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen[n] || len(t.seen) == t.want {
		return
	}
	t.seen[n] = true
	if t.first.IsZero() {
		t.first = now
	}
	t.last = now
	if len(t.seen) == t.want {
		close(t.done)
	}
}

// rate is from the first message to the last that were handled, so that what a
// system does to start is not in it.
func (t *meter) rate() (float64, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.last.Sub(t.first).Seconds()
	if len(t.seen) < 2 || d <= 0 {
		return 0, len(t.seen)
	}
	return float64(len(t.seen)-1) / d, len(t.seen)
}

// draining empties a queue, or as much of it as is done in four windows.
func draining(userRow bool) func(context.Context, *measurement) (sample, error) {
	return func(ctx context.Context, m *measurement) (sample, error) {
		return drain(ctx, m, drainLoad(m).n, userRow)
	}
}

func drain(ctx context.Context, m *measurement, n int, userRow bool) (sample, error) {
	q, err := m.s.open(ctx, m.dsn)
	if err != nil {
		return sample{}, err
	}
	defer q.close()
	m.begin()
	t := newMeter(n)
	stop, err := q.work(ctx, job{handled: t.handled, row: userRow, readers: 10})
	if err != nil {
		return sample{}, err
	}
	select {
	case <-t.done:
	case <-time.After(4 * m.window):
	case <-ctx.Done():
	}
	stop()
	v, k := t.rate()
	if v == 0 {
		return sample{}, fmt.Errorf("%d messages handled in %v", k, 4*m.window)
	}
	return sample{value: v, n: k}, nil
}

func backlogLoad(n int) func(*measurement) loader {
	return func(*measurement) loader { return loader{n: n} }
}

// backlog drains for a short time, so that the backlog stays about what it was.
func backlog(ctx context.Context, m *measurement) (sample, error) {
	return drain(ctx, m, 10_000, false)
}

func both(ctx context.Context, m *measurement) (sample, error) {
	handled, _, took, err := sendAndWork(ctx, m)
	return sample{value: float64(handled) / took.Seconds()}, err
}

func keepingUp(ctx context.Context, m *measurement) (sample, error) {
	handled, sent, _, err := sendAndWork(ctx, m)
	return sample{value: float64(handled) / float64(max(sent, 1))}, err
}

// sendAndWork has 16 senders and workers at it for a time.
func sendAndWork(ctx context.Context, m *measurement) (handled, sent int64, took time.Duration, err error) {
	q, err := m.s.open(ctx, m.dsn)
	if err != nil {
		return 0, 0, 0, err
	}
	defer q.close()
	var n atomic.Int64
	stop, err := q.work(ctx, job{handled: func([]byte) { n.Add(1) }, readers: 10})
	if err != nil {
		return 0, 0, 0, err
	}
	defer stop()
	if _, _, err := sendFor(ctx, q.send, 16, m.window/5, m.begin); err != nil {
		return 0, 0, 0, err
	}
	start, before := time.Now(), n.Load()
	_, k, err := sendFor(ctx, q.send, 16, 2*m.window, m.begin)
	return n.Load() - before, int64(k), time.Since(start), err
}

// latency sends a message each 50 ms to workers that are otherwise idle.
func latency(together bool) func(context.Context, *measurement) (sample, error) {
	return func(ctx context.Context, m *measurement) (sample, error) {
		q, err := m.s.open(ctx, m.dsn)
		if err != nil {
			return sample{}, err
		}
		defer q.close()
		from := q
		if !together {
			if from, err = m.s.open(ctx, m.dsn); err != nil {
				return sample{}, err
			}
			defer from.close()
		}
		var mu sync.Mutex
		var took []float64
		arrived := make(chan struct{}, 1000)
		stop, err := q.work(ctx, job{readers: 10, handled: func(b []byte) {
			d := time.Since(sentAt(b)).Seconds() * 1000
			mu.Lock()
			took = append(took, d)
			mu.Unlock()
			arrived <- struct{}{}
		}})
		if err != nil {
			return sample{}, err
		}
		defer stop()
		// What is sent first waits for the workers to come up: not counted.
		const early = 3
		n := m.size(20, 100) + early
		for i := range n {
			if i == early {
				for range early {
					select {
					case <-arrived:
					case <-ctx.Done():
						return sample{}, ctx.Err()
					}
				}
			}
			if err := from.send(ctx, body(i)); err != nil {
				return sample{}, err
			}
			time.Sleep(50 * time.Millisecond)
		}
		for range n - early {
			select {
			case <-arrived:
			case <-ctx.Done():
				return sample{}, ctx.Err()
			}
		}
		mu.Lock()
		defer mu.Unlock()
		took = took[early:]
		return sample{value: percentile(took, 0.5), p99: percentile(took, 0.99)}, nil
	}
}

func percentile(v []float64, p float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	if len(v) == 0 {
		return 0
	}
	return v[min(int(p*float64(len(v))), len(v)-1)]
}

// Groups of the row "ordered".
const (
	orderedGroups = 100
	orderedEach   = 200
	groupFactor   = 1_000_000 // a body's number is group * groupFactor + place
)

func orderedLoad(*measurement) loader {
	return loader{n: orderedGroups * orderedEach, name: "ordered", how: func(ctx context.Context, q queue, _ int) error {
		const size = 50
		for from := 0; from < orderedEach; from += size {
			for g := range orderedGroups {
				if err := q.(keyed).batchOf(ctx, fmt.Sprint("group-", g), bodies(g*groupFactor+from, size)); err != nil {
					return err
				}
			}
		}
		return nil
	}}
}

// ordered fails if a message comes out of its order.
func ordered(ctx context.Context, m *measurement) (sample, error) {
	q, err := m.s.open(ctx, m.dsn)
	if err != nil {
		return sample{}, err
	}
	defer q.close()
	t := newMeter(orderedGroups * orderedEach)
	var mu sync.Mutex
	var next [orderedGroups]int
	var wrong error
	stop, err := q.work(ctx, job{readers: 10, handled: func(b []byte) {
		g, i := numberOf(b)/groupFactor, numberOf(b)%groupFactor
		mu.Lock()
		switch {
		case i == next[g]:
			next[g]++
		case i > next[g]: // less comes again
			wrong = fmt.Errorf("group %d: message %d came before %d", g, i, next[g])
		}
		mu.Unlock()
		t.handled(b)
	}})
	if err != nil {
		return sample{}, err
	}
	select {
	case <-t.done:
	case <-time.After(6 * m.window):
	case <-ctx.Done():
	}
	stop()
	mu.Lock()
	defer mu.Unlock()
	v, n := t.rate()
	if wrong == nil && v == 0 {
		wrong = errors.New("nothing was handled")
	}
	return sample{value: v, n: n}, wrong
}
