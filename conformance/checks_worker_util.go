package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// wrkRun is a worker at work.
type wrkRun struct {
	*parley.Worker
	e    *Env
	stop context.CancelFunc
	end  chan error
}

// work runs a worker of SQ until the end of the check, or Stop.
func (w *World) work(b *parley.Broker, o *parley.WorkerOptions, f parley.HandlerFunc) *wrkRun {
	return w.workWith(b, o, f)
}

func (w *World) workWith(b *parley.Broker, o *parley.WorkerOptions, h parley.Handler) *wrkRun {
	ctx, cancel := context.WithCancel(w.Ctx)
	r := &wrkRun{Worker: b.NewWorker(w.SQ, h, o), e: w.Env, stop: cancel, end: make(chan error, 1)}
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.end <- r.Run(ctx)
	}()
	w.Cleanup(func() { // the broker may be one that others use
		cancel()
		select {
		case <-over:
		case <-time.After(20 * time.Second):
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
	case <-time.After(20 * time.Second):
		r.e.fail("the worker did not stop within 20 s")
		runtime.Goexit()
	}
}

// another is a World with names of its own, for checks that begin anew.
func (e *Env) another() *World {
	e.mu.Lock()
	e.prefix = ""
	e.mu.Unlock()
	return e.World()
}

// posts puts bodies into SQ, with keys if there are any: body i gets key i modulo
// their number.
func (w *World) posts(keys []string, bodies ...string) {
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

// effect writes what a handler does, in the acknowledging transaction: a post
// with the message's body in CQ, and with its key, to show the order.
func (w *World) effect(ctx context.Context, m *parley.Message) error {
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
func (w *World) effects(n int) map[string][]string {
	if !w.Soon(60*time.Second, func() bool { return w.depth(w.CQ) >= n }) {
		w.Errorf("%d of %d effects were committed within a minute; %d messages wait", w.depth(w.CQ), n, w.depth(w.SQ))
		if list, err := w.B.Admin().Groups(w.Ctx, w.SQ, 0, 10); err == nil {
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
func (w *World) once(got map[string][]string, bodies []string) {
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
		w.Errorf("%d effects were committed, want %d, each once; lost: %q; too many: %q", len(all), len(want), without(want, all), without(all, want))
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
func (w *World) depth(queue string) int { return w.queueStatus(queue).Depth }

func (w *World) queueStatus(queue string) parley.QueueStatus {
	list, err := w.B.Admin().Queues(w.Ctx, queue)
	if err != nil || len(list) != 1 {
		w.Errorf("the state of queue %s: %v, %v", queue, list, err)
		return parley.QueueStatus{}
	}
	return list[0]
}

// group returns the status of the one group of SQ for which is reports true.
func (w *World) group(is func(parley.GroupStatus) bool) *parley.GroupStatus {
	list, err := w.B.Admin().Groups(w.Ctx, w.SQ, 0, 1000)
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

// frail is a handle whose connections can break: what its transactions have done
// is rolled back, as a store does when it loses a client, and every call fails.
// A frail handle that is dead is a process that died.
type frail struct {
	backend.Backend
	dead atomic.Bool
	// commit, if set, is asked before each commit; an error stands for one of the
	// engine's, which has given up the transaction.
	commit func() error
	// late is how long a transaction that was cut off stays open in the store.
	late time.Duration

	mu   sync.Mutex
	open map[*frailTx]struct{}
}

type frailTx struct {
	backend.Tx
	f *frail
	// lost is why the transaction is gone.
	lost atomic.Pointer[error]
}

// frailHolder keeps what the store can do.
type frailHolder struct{ *frail }

func (frailHolder) HoldsInTransaction() {}

var errBroken = fmt.Errorf("broken by the check: %w", backend.ErrConnection)

// frail opens a Broker on a handle that can break.
func (e *Env) frail(o *parley.Options) (*parley.Broker, *frail) {
	be, err := e.r.store.Open(e.Ctx)
	e.Must(err)
	f := &frail{Backend: be, open: make(map[*frailTx]struct{})}
	var wrapped backend.Backend = f
	if _, ok := be.(backend.TransactionHolder); ok {
		wrapped = frailHolder{f}
	}
	b, err := parley.New(e.Ctx, wrapped, o)
	e.Must(err)
	e.Cleanup(func() { b.Close() })
	return b, f
}

// die is the death of the process: nothing it does reaches the store any more.
func (f *frail) die() {
	f.dead.Store(true)
	f.cut(errBroken)
}

// cut ends all transactions, as the loss of their connections would.
func (f *frail) cut(why error) {
	f.mu.Lock()
	var open []*frailTx
	for tx := range f.open {
		open = append(open, tx)
	}
	f.mu.Unlock()
	for _, tx := range open {
		tx.end(why)
	}
}

func (tx *frailTx) end(why error) {
	if !tx.lost.CompareAndSwap(nil, &why) {
		return
	}
	if tx.f.late == 0 {
		tx.Tx.Rollback(context.Background())
		return
	}
	time.AfterFunc(tx.f.late, func() { tx.Tx.Rollback(context.Background()) })
}

func (f *frail) Begin(ctx context.Context) (backend.Tx, error) {
	if f.dead.Load() {
		return nil, errBroken
	}
	tx, err := f.Backend.Begin(ctx)
	if err != nil {
		return nil, err
	}
	ft := &frailTx{Tx: tx, f: f}
	f.mu.Lock()
	f.open[ft] = struct{}{}
	f.mu.Unlock()
	if f.dead.Load() { // it died meanwhile
		ft.end(errBroken)
	}
	return ft, nil
}

func (f *frail) Tend(ctx context.Context, duty backend.Duty, limit int) (int, time.Duration, error) {
	if f.dead.Load() {
		return 0, 0, errBroken
	}
	return f.Backend.Tend(ctx, duty, limit)
}

func (f *frail) Extend(ctx context.Context, holds []*backend.Hold, d time.Duration) error {
	if f.dead.Load() {
		return errBroken
	}
	return f.Backend.Extend(ctx, holds, d)
}

func (f *frail) Attend(ctx context.Context, a backend.Attendance) ([]backend.Trace, error) {
	if f.dead.Load() {
		return nil, errBroken
	}
	return f.Backend.Attend(ctx, a)
}

func (f *frail) Alive(ctx context.Context, worker backend.ID, d time.Duration) error {
	if f.dead.Load() {
		return errBroken
	}
	return f.Backend.Alive(ctx, worker, d)
}

func (f *frail) Leave(ctx context.Context, worker, reader backend.ID) error {
	if f.dead.Load() {
		return errBroken
	}
	return f.Backend.Leave(ctx, worker, reader)
}

func (tx *frailTx) gone() error {
	if why := tx.lost.Load(); why != nil {
		return *why
	}
	return nil
}

func (tx *frailTx) done() {
	tx.f.mu.Lock()
	delete(tx.f.open, tx)
	tx.f.mu.Unlock()
}

// or returns why the transaction is gone, if it is, also if it went meanwhile.
func (tx *frailTx) or(do func() error) error {
	err := tx.gone()
	if err == nil {
		err = do()
	}
	if why := tx.gone(); why != nil {
		return why
	}
	return err
}

func (tx *frailTx) Savepoint(ctx context.Context, name string) error {
	return tx.or(func() error { return tx.Tx.Savepoint(ctx, name) })
}

func (tx *frailTx) Release(ctx context.Context, name string) error {
	return tx.or(func() error { return tx.Tx.Release(ctx, name) })
}

func (tx *frailTx) Resave(ctx context.Context, name string) error {
	return tx.or(func() error { return tx.Tx.Resave(ctx, name) })
}

func (tx *frailTx) RollbackTo(ctx context.Context, name string) error {
	return tx.or(func() error { return tx.Tx.RollbackTo(ctx, name) })
}

func (tx *frailTx) Reclaim(ctx context.Context, holds []*backend.Hold) error {
	return tx.or(func() error { return tx.Tx.Reclaim(ctx, holds) })
}

func (tx *frailTx) Keep(ctx context.Context, h *backend.Hold, lease time.Duration, owner string) error {
	return tx.or(func() error { return tx.Tx.Keep(ctx, h, lease, owner) })
}

func (tx *frailTx) PutDown(ctx context.Context, reader backend.ID) error {
	return tx.or(func() error { return tx.Tx.PutDown(ctx, reader) })
}

func (tx *frailTx) Claim(ctx context.Context, r backend.ClaimRequest) (c backend.Claim, err error) {
	err = tx.or(func() error { c, err = tx.Tx.Claim(ctx, r); return err })
	return c, err
}

func (tx *frailTx) Settle(ctx context.Context, o []backend.Outcome) (again bool, err error) {
	err = tx.or(func() error { again, err = tx.Tx.Settle(ctx, o); return err })
	return again, err
}

func (tx *frailTx) Post(ctx context.Context, version int64, ps []backend.Posting) (p []backend.Posted, err error) {
	err = tx.or(func() error { p, err = tx.Tx.Post(ctx, version, ps); return err })
	return p, err
}

// Commit cannot be cut off in the middle: it has happened or not.
func (tx *frailTx) Commit(ctx context.Context) error {
	defer tx.done()
	if tx.f.commit != nil {
		if err := tx.f.commit(); err != nil {
			tx.end(err)
			return err
		}
	}
	committing := errors.New("committed")
	if !tx.lost.CompareAndSwap(nil, &committing) {
		return tx.gone()
	}
	err := tx.Tx.Commit(ctx)
	if err != nil { // it may be open yet, and our Rollback does nothing any more
		tx.Tx.Rollback(context.Background())
	}
	return err
}

func (tx *frailTx) Rollback(ctx context.Context) error {
	tx.done()
	if tx.gone() != nil {
		return nil
	}
	return tx.Tx.Rollback(ctx)
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
