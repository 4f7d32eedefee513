package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
)

// options are those of the command.
type options struct {
	db        string
	length    time.Duration
	seed      uint64
	senders   int
	receivers int
	groups    int
	streams   int
	children  int // of each kind
	pause     time.Duration
	work      time.Duration // of a handler; 0 is short, and now and then long
	control   bool
	keep      bool
}

// singles is how many of the senders have a stream to themselves.
func (o options) singles() int { return (o.senders + 3) / 4 }

const (
	// The roles of processes, by which their connections can be told apart.
	roleSender   = "parley-stress-sender"
	roleReceiver = "parley-stress-receiver"
	roleMeddler  = "parley-stress-meddler"
	roleSampler  = "parley-stress-sampler"

	perProcess = 4 // senders or receivers
	// backlog is how many messages may wait before senders make a pause, unless
	// handlers take as long as the user says.
	backlog = 1500
	// drainTime bounds the drain at the end.
	drainTime = 60 * time.Second
)

// load is a run.
type load struct {
	options
	name   string
	engine engine
	led    *ledger
	world  *world
	table  *effectTable
	ours   bool // this run made the schema

	stop   atomic.Bool
	done   sync.WaitGroup
	slots  []*slot // senders' and receivers' processes, which may be killed
	admin  *slot
	memory func(stream string, ticket int, token string)
	slow   struct{ sender, meddler time.Duration }
	serial atomic.Int64
}

// run does it all and returns what came of it.
func runLoad(ctx context.Context, o options, log io.Writer) (r *report, err error) {
	l := &load{options: o, name: fmt.Sprintf("%x", time.Now().UnixNano()/1000%0xfffffff), led: newLedger(log)}
	l.memory = func(stream string, ticket int, token string) { l.led.receipt(effect{stream, ticket, token}) }
	l.engine, err = openEngine(o.db, l.name)
	if err != nil {
		return nil, err
	}
	defer l.engine.close()

	admin, err := newSlot(func() (*process, error) {
		return openProcess(context.Background(), l.engine, roleMeddler, parley.Options{Poll: 100 * time.Millisecond, GroupWait: 2 * time.Second})
	})
	if err != nil {
		return nil, err
	}
	l.admin = admin
	defer admin.close()
	defer func() {
		if e := l.leave(); e != nil && err == nil {
			r, err = nil, e
		}
	}()
	if err := l.prepare(ctx); err != nil {
		return nil, err
	}

	fmt.Fprintf(log, "stress: set up in %v\n", l.led.since().Round(time.Millisecond))
	sampling, endSampling := context.WithCancel(context.Background())
	defer endSampling()
	watched, err := l.engine.watch(sampling, l.led)
	if err != nil {
		return nil, err
	}
	if err := l.start(ctx); err != nil {
		l.end()
		return nil, err
	}
	select {
	case <-time.After(o.length):
	case <-ctx.Done():
	}
	l.end()
	if !o.control {
		start := time.Now()
		if err := l.drain(); err != nil {
			return nil, err
		}
		fmt.Fprintf(log, "stress: drained in %v\n", time.Since(start).Round(time.Millisecond))
	}
	endSampling()
	watched()
	return l.result(ctx)
}

// prepare makes the schema and what the load works on.
func (l *load) prepare(ctx context.Context) error {
	b := l.admin.p
	l.ours = b.Backend().Check(ctx) != nil
	if err := b.Migrate(ctx); err != nil {
		return err
	}
	l.slow.sender, l.slow.meddler = time.Second, 150*time.Millisecond
	if !holds(b) { // a single writer: a slow transaction stops all the others
		l.slow.sender, l.slow.meddler = 20*time.Millisecond, 5*time.Millisecond
	}
	if t := l.engine.effects(); t != nil && !l.control {
		l.table = t
		if err := t.run(ctx, b.Broker, t.create); err != nil {
			return err
		}
	}
	if !l.engine.shared() {
		l.children = 0
	}
	l.world = newWorld(l.name)
	if err := l.world.define(ctx, b.Broker); err != nil {
		return err
	}
	return l.world.populate(ctx, b.Broker, l.led, l.options)
}

// leave removes what the run made.
func (l *load) leave() error {
	if l.keep {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	b := l.admin.p
	if l.table != nil {
		if err := l.table.run(ctx, b.Broker, l.table.drop); err != nil {
			return err
		}
	}
	if l.ours {
		return b.Backend().Uninstall(ctx)
	}
	return nil
}

// rng returns the source of chance of one of the workers.
func (l *load) rng(worker int) *rand.Rand { return rand.New(rand.NewPCG(l.seed, uint64(worker))) }

// processes is how many of them n workers have.
func processes(n int) int { return (n + perProcess - 1) / perProcess }

// group runs n workers on processes of their own.
func (l *load) group(ctx context.Context, role string, n int, o parley.Options, work func(i int) func(p *process)) error {
	var s *slot
	for i := range n {
		if i%perProcess == 0 {
			var err error
			s, err = newSlot(func() (*process, error) { return openProcess(context.Background(), l.engine, role, o) })
			if err != nil {
				return err
			}
			l.slots = append(l.slots, s)
		}
		l.repeat(s, work(i))
	}
	return nil
}

// repeat calls f again and again until the load ends.
func (l *load) repeat(s *slot, f func(p *process)) {
	l.done.Add(1)
	go func() {
		defer l.done.Done()
		for !l.stop.Load() {
			s.use(f)
		}
	}()
}

func (l *load) start(ctx context.Context) error {
	options := parley.Options{Poll: 100 * time.Millisecond, Lease: time.Second, NoMaintenance: true}
	if err := l.group(ctx, roleSender, l.senders, options, l.sender); err != nil {
		return err
	}
	if !l.control {
		if err := l.consume(ctx, options); err != nil {
			return err
		}
	}
	for i := range l.children {
		if err := l.startChildren(i); err != nil {
			return err
		}
	}
	l.done.Add(1)
	go func() {
		defer l.done.Done()
		l.kill()
	}()
	return nil
}

// consume starts those that a control run goes without.
func (l *load) consume(ctx context.Context, o parley.Options) error {
	if err := l.group(ctx, roleReceiver, l.receivers, o, l.receiver); err != nil {
		return err
	}
	for i := range 4 {
		m := &meddler{w: l.world, rec: l.led, rng: l.rng(300 + i), slow: l.slow.meddler}
		switch i {
		case 0, 1:
			l.repeat(l.admin, func(p *process) { m.sleep(60 * time.Millisecond); m.promote(p) })
		case 2:
			l.repeat(l.admin, func(p *process) { m.sleep(150 * time.Millisecond); m.move(p) })
		case 3:
			l.repeat(l.admin, func(p *process) { time.Sleep(200 * time.Millisecond); m.unpark(p, false) })
		}
	}
	return nil
}

func (l *load) sender(i int) func(p *process) {
	s := &sender{w: l.world, rec: l.led, rng: l.rng(i), origin: "p", serial: &l.serial, dialogs: l.world.of(fixed), slow: l.slow.sender}
	if i < l.singles() {
		s.dialogs = l.world.of(single)[i : i+1]
		s.alone, s.took = true, l.led.latency
	}
	return func(p *process) {
		for l.led.waiting() > backlog && l.work == 0 && !l.control && !l.stop.Load() {
			time.Sleep(5 * time.Millisecond)
		}
		s.turn(p)
		time.Sleep(time.Duration(s.rng.Int64N(int64(2*l.pause) + 1)))
	}
}

func (l *load) receiver(i int) func(p *process) {
	r := &receiver{w: l.world, rec: l.led, rng: l.rng(100 + i), who: fmt.Sprintf("r%d", i), serial: &l.serial, queue: l.world.Work, effects: l.table, memory: l.memory, slow: l.slow.sender, works: l.work}
	if i%6 == 5 {
		r.queue = l.world.Answers
	}
	return func(p *process) { r.turn(p) }
}

// kill ends processes until the load ends. In a control run the receivers' are
// not there, and the senders' are killed as often as in a full one.
func (l *load) kill() {
	rng := l.rng(400)
	all := processes(l.senders) + processes(l.receivers)
	for !l.stop.Load() {
		time.Sleep(time.Duration(300+rng.IntN(900)) * time.Millisecond)
		if l.stop.Load() {
			return
		}
		var err error
		switch r := rng.IntN(10); {
		case r < 4:
			role := []string{roleSender, roleReceiver, roleReceiver, roleMeddler}[rng.IntN(4)]
			l.led.cut(func() { _, err = l.engine.cut(context.Background(), role) })
		default:
			if i := rng.IntN(all); i < len(l.slots) {
				err = l.slots[i].kill(r < 6, l.led)
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, parley.ErrConnection): // cut while it was opened
			l.led.count("cut off", 1)
		default:
			l.led.problem("errors", "killer: %v", err)
		}
	}
}

// end stops all that works.
func (l *load) end() {
	l.stop.Store(true)
	l.done.Wait()
	for _, s := range l.slots {
		s.close()
	}
	l.slots = nil
}

// drain receives what is left, with new processes and nothing in the way.
func (l *load) drain() error {
	ctx := context.Background()
	limit := drainTime
	if l.work > 0 { // nearly all that was sent
		limit += 2 * l.length
	}
	deadline := time.Now().Add(limit)
	m := &meddler{w: l.world, rec: l.led, rng: l.rng(500)}
	var empty atomic.Bool
	var done sync.WaitGroup
	defer done.Wait()
	defer empty.Store(true)
	for i := range 8 {
		p, err := openProcess(ctx, l.engine, roleReceiver, parley.Options{Poll: 50 * time.Millisecond})
		if err != nil {
			return err
		}
		r := &receiver{
			w: l.world, rec: l.led, rng: l.rng(600 + i), who: fmt.Sprintf("drain%d", i), serial: &l.serial,
			queue: []string{l.world.Work, l.world.Answers}[i%2], effects: l.table, memory: l.memory, calm: true,
		}
		done.Go(func() {
			defer p.Close()
			for !empty.Load() {
				r.turn(p)
			}
		})
	}
	for time.Now().Before(deadline) {
		m.unpark(l.admin.p, true)
		left, err := l.left(ctx)
		if err != nil {
			return err
		}
		if left == 0 {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	l.led.problem("errors", "the queues were not empty after %v of draining", limit)
	return nil
}

// left says how much there is in the queues.
func (l *load) left(ctx context.Context) (n int, err error) {
	list, err := l.admin.p.Admin().Queues(ctx)
	for _, q := range list {
		if q.Name == l.world.Work || q.Name == l.world.Answers {
			n += q.Depth + q.Delayed + q.Leased + q.Deferred + q.Parked + q.Withheld
		}
	}
	return n, err
}
