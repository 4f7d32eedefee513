package backendtest

import (
	"context"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// Benchmarks measures what users ask of a store, with whole programs' parts:
// workers, pools of tasks, Senders. Each makes a store of its own by open, has
// one Broker on it, and needs one iteration only (-benchtime 1x).
func Benchmarks(b *testing.B, open func(b *testing.B) (backend.Backend, error)) {
	for _, bench := range []struct {
		name string
		run  func(b *bencher)
		opt  *parley.Options
	}{
		{"hot", hotPaths, &parley.Options{NoMaintenance: true}},
		{"recycling", benchRecycling, &parley.Options{NoMaintenance: true}}, // it does them all itself
		{"drain", benchDrain, nil},
		{"burst", benchBurst, nil},
		{"poison", benchPoison, nil},
		{"schedule", benchSchedule, nil},
		{"schedule, a million waiting", benchScheduleWaiting, nil},
	} {
		b.Run(bench.name, func(b *testing.B) {
			be, err := open(b)
			if err != nil {
				b.Fatal(err)
			}
			broker, err := parley.New(b.Context(), be, bench.opt)
			if err != nil {
				b.Fatal(err)
			}
			defer broker.Close()
			bench.run(&bencher{b, broker, b.Context()})
		})
	}
}

// bencher is a benchmark and the Broker that it measures.
type bencher struct {
	*testing.B
	broker *parley.Broker
	ctx    context.Context
}

func (b *bencher) must(err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

// queue makes an empty store with one queue.
func (b *bencher) queue(name string) {
	b.must(b.broker.Migrate(b.ctx))
	b.must(b.broker.Define(b.ctx, parley.Catalog{Queues: []parley.Queue{{Name: name}}}))
}

// post adds n posts of 200 bytes, a thousand to a transaction; key, if it is not
// nil, names the key of each.
func (b *bencher) post(queue string, n int, key func(i int) string) {
	body := make([]byte, 200)
	for from := 0; from < n; from += 1000 {
		batch := make([]parley.Posting, min(1000, n-from))
		for i := range batch {
			batch[i].Body = body
			if key != nil {
				batch[i].Options = []parley.PostOption{parley.Key(key(from + i))}
			}
		}
		b.must(b.broker.InTx(b.ctx, func(tx *parley.Tx) error {
			_, err := tx.PostBatch(b.ctx, queue, batch)
			return err
		}))
	}
}

// timed says how long something takes.
func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// beside runs something in the background until the function that it returns is
// called.
func (b *bencher) beside(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(b.ctx)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil && ctx.Err() == nil {
			b.Error(err)
		}
	}
}
