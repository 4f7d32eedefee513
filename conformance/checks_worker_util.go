package conformance

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/frail"
	"github.com/parleymq/parley/internal/slow"
	"github.com/parleymq/parley/internal/sure"
)

// wrkRun is a worker at work.
type wrkRun struct {
	*parley.Worker
	e    *env
	stop context.CancelFunc
	end  chan error
}

// work runs a worker of SQ until the end of the check, or Stop.
func (w *world) work(b *parley.Broker, o *parley.WorkerOptions, f parley.HandlerFunc) *wrkRun {
	return w.workWith(b, o, f)
}

func (w *world) workWith(b *parley.Broker, o *parley.WorkerOptions, h parley.Handler) *wrkRun {
	ctx, cancel := context.WithCancel(w.Ctx)
	r := &wrkRun{Worker: sure.Of(b.NewWorker(w.SQ, h, o)), e: w.env, stop: cancel, end: make(chan error, 1)}
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.end <- r.Run(ctx)
	}()
	w.Cleanup(func() { // others may use the broker, too
		cancel()
		select {
		case <-over:
		case <-time.After(slow.By(20 * time.Second)):
		}
	})
	return r
}

// Stop stops the worker and ends the check if that fails.
func (r *wrkRun) Stop() {
	r.stop()
	select {
	case err := <-r.end:
		if err != nil {
			r.e.fail("the worker ended with " + err.Error())
			runtime.Goexit()
		}
	case <-time.After(slow.By(20 * time.Second)):
		r.e.late()
		r.e.fail("the worker did not stop within " + slow.By(20*time.Second).String())
		runtime.Goexit()
	}
}

// another is a World with separate names, for checks that begin again.
func (e *env) another(change ...func(*parley.Catalog)) *world {
	e.mu.Lock()
	e.prefix = ""
	e.mu.Unlock()
	return e.World(change...)
}

// posts puts bodies into SQ, with keys if there are any: body i gets key i modulo
// their number.
func (w *world) posts(keys []string, bodies ...string) {
	w.Tx(func(tx *parley.Tx) error {
		batch := make([]parley.Posting, len(bodies))
		for i, body := range bodies {
			batch[i] = parley.Posting{Payload: parley.Payload{Type: w.Any, Body: []byte(body)}}
			if len(keys) > 0 {
				batch[i].Options = []parley.PostOption{parley.Key(keys[i%len(keys)])}
			}
		}
		_, err := tx.PostBatch(w.Ctx, w.SQ, batch)
		return err
	})
}

func numbered(format string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(format, i)
	}
	return out
}

// effect records a handler's work in the acknowledging transaction: a post in CQ with the message's
// body. The post has the message's key, to show the order.
func (w *world) effect(ctx context.Context, m *parley.Message) error {
	tx, err := m.Tx(ctx)
	if err != nil {
		return err
	}
	var o []parley.PostOption
	if m.Key != "" {
		o = append(o, parley.Key("effects "+m.Key))
	}
	_, err = tx.Post(ctx, w.CQ, parley.Payload{Type: w.Any, Body: m.Body}, o...)
	return err
}

// effects waits until there are n effects, and returns all, by key.
func (w *world) effects(n int) map[string][]string {
	if !w.Soon(60*time.Second, func() bool { return w.depth(w.CQ) >= n }) {
		w.Errorf("%d of %d effects were committed within a minute; %d messages wait", w.depth(w.CQ), n, w.depth(w.SQ))
		if list, err := w.B.Admin().Groups(w.Ctx, w.SQ, parley.Place{}, 10); err == nil {
			for _, g := range list {
				w.Logf("%+v", g)
			}
		}
	}
	byKey := make(map[string][]string)
	for _, m := range w.Drain(w.CQ) {
		key := strings.TrimPrefix(m.Key, "effects ")
		byKey[key] = append(byKey[key], string(m.Body))
	}
	return byKey
}

// once ends the check unless the effects are those of each body once, and of
// each key in order.
func (w *world) once(got map[string][]string, bodies []string) {
	var all []string
	for key, list := range got {
		if key != "" && !slices.IsSorted(list) {
			w.Errorf("the effects of key %q are in the order %q", key, list)
		}
		all = append(all, list...)
	}
	slices.Sort(all)
	want := slices.Clone(bodies)
	slices.Sort(want)
	if !slices.Equal(all, want) {
		w.Errorf("each of %d messages was to be handled with one effect; %d effects were committed; messages without: %q; with more than one: %q",
			len(want), len(all), without(want, all), without(all, want))
	}
}

// without returns what of a is not in b, each as often as it is too many.
func without(a, b []string) (rest []string) {
	have := make(map[string]int)
	for _, s := range b {
		have[s]++
	}
	for _, s := range a {
		if have[s]--; have[s] < 0 && len(rest) < 10 {
			rest = append(rest, s)
		}
	}
	return rest
}

// depth is how many messages a queue has.
func (w *world) depth(queue string) int { return w.queueStatus(queue).Depth }

func (w *world) queueStatus(queue string) parley.QueueStatus {
	list, err := w.B.Admin().Queues(w.Ctx, queue)
	if err != nil || len(list) != 1 {
		w.Errorf("the state of queue %s: %v, %v", queue, list, err)
		return parley.QueueStatus{}
	}
	return list[0]
}

// group returns the status of the one group of SQ for which is reports true.
func (w *world) group(is func(parley.GroupStatus) bool) *parley.GroupStatus {
	list, err := w.B.Admin().Groups(w.Ctx, w.SQ, parley.Place{}, 1000)
	if err != nil {
		w.Errorf("groups: %v", err)
	}
	for _, g := range list {
		if is(g) {
			return &g
		}
	}
	return nil
}

func parked(g parley.GroupStatus) bool   { return g.State == "parked" }
func deferred(g parley.GroupStatus) bool { return g.State == "deferred" }

// frail opens a Broker on a handle whose connections can break.
func (e *env) frail(o *parley.Options) (*parley.Broker, *frail.Backend) {
	be, err := e.r.store.Open(e.Ctx)
	e.Must(err)
	f := frail.New(be)
	b, err := newBroker(e.Ctx, f, o)
	e.Must(err)
	e.Cleanup(func() { b.Close() })
	return b, f
}

// soonAgain has failures tried again at once.
func soonAgain(int) time.Duration { return time.Millisecond }

// gate counts who is inside, and holds them until it opens.
type gate struct {
	mu        sync.Mutex
	now, most int
	open      chan struct{}
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	g.now++
	g.most = max(g.most, g.now)
	open := g.open
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		g.now--
		g.mu.Unlock()
	}()
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g *gate) inside() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now
}

// entered is how many were inside at once since most was last set.
func (g *gate) entered() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.most
}
