package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/slow"
	"github.com/parleymq/parley/internal/sure"
	"github.com/parleymq/parley/phases"
	"github.com/parleymq/parley/recurring"
)

const (
	senders = 2 // of a broker for sending; a broker for everything has twice as many
	lease   = 2 * time.Second
	// mostWaiting is how many messages may wait before senders pause: a backlog that only
	// grows would have to be drained in the end.
	mostWaiting = 1500
)

// A role is what a broker does. Its connections carry the name, so that the sampler can tell senders from receivers.
type role string

const (
	roleBoth     role = "faults-both"
	roleSender   role = "faults-sender"
	roleReceiver role = "faults-receiver"
)

// program is a child process: brokers with workers, and senders, until the file at stop
// is there. Then it only receives and tidies up, until it is killed.
type program struct {
	db, stop string
	name     string
	rec      *recorder
	serial   atomic.Int64
	talks    []parley.ID  // handles of shared dialogs
	backlog  atomic.Int64 // messages that wait, as of a moment ago
}

func runProgram(db, history, stop string) error {
	rec, err := newRecorder(history)
	if err != nil {
		return err
	}
	talks, err := readShared(stop)
	if err != nil {
		return err
	}
	p := &program{db: db, stop: stop, name: fmt.Sprintf("%08x", random.Uint32()), rec: rec, talks: talks}
	failures := make(chan error, 1)
	for _, r := range []role{roleBoth, roleSender, roleReceiver} {
		go func() {
			for {
				p.broker(r, func(err error) {
					select {
					case failures <- err:
					default:
					}
				})
			}
		}()
	}
	err = <-failures
	rec.write(event{Kind: failed, Name: err.Error()})
	return err
}

// serialName returns a name that no other thing has; programOf finds the program in it.
func (p *program) serialName() string { return fmt.Sprint(p.name, ".", p.serial.Add(1)) }

func (p *program) stopped() bool {
	_, err := os.Stat(p.stop)
	return err == nil
}

// broker opens a store, works with it for a while, and closes it. Every other time it does so under the hands of
// those who work with it.
func (p *program) broker(r role, fail func(error)) {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	b, own := p.open(ctx, r)
	defer own.close()
	var closed atomic.Bool
	expected := func(err error) {
		if !closed.Load() || unless(err, parley.ErrClosed, parley.ErrTxDone, parley.ErrSettled) != nil {
			fail(err)
		}
	}
	var work sync.WaitGroup
	if r != roleSender {
		h := &handlers{p, b}
		work.Go(func() { p.work(ctx, b, h, expected, postQueue, diaryQueue) })
		work.Go(func() { p.work(ctx, b, h, expected, askQueue, answerQueue) })
		work.Go(func() { p.tasks(ctx, b, expected) })
		work.Go(func() { p.ranked(ctx, b) })
		for range 2 {
			work.Go(func() { h.byHand(ctx) })
		}
	}
	if r == roleBoth {
		work.Go(func() { p.tidy(ctx, b) })
		work.Go(func() {
			for err := recurring.Start(ctx, b); err != nil && ctx.Err() == nil; err = recurring.Start(ctx, b) {
				if !passing(err) {
					expected(err)
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	for range map[role]int{roleBoth: 2 * senders, roleSender: senders}[r] {
		s := &sender{program: p, b: b, own: own, role: r, name: p.serialName(), next: make(map[string]int)}
		work.Go(func() { s.run(ctx, expected) })
	}
	for life := time.Now().Add(time.Duration(4+random.IntN(16)) * time.Second); time.Now().Before(life) || p.stopped(); {
		time.Sleep(100 * time.Millisecond)
	}
	if random.IntN(2) == 0 {
		end()
		work.Wait()
	}
	const patience = 30 * time.Second // it has about ten
	late := time.AfterFunc(slow.By(patience), func() {
		pprof.Lookup("goroutine").WriteTo(os.Stderr, 1) // who waits for what
		fail(errors.New("a broker could not be closed"))
	})
	defer late.Stop()
	closed.Store(true)
	b.Close() // with an error if a fault is on
	end()
	work.Wait()
}

// open opens a store, again and again while there is a fault. Only brokers that do everything do maintenance, for
// which they wait as receivers do.
func (p *program) open(ctx context.Context, r role) (b *parley.Broker, c connection) {
	for {
		c, err := connect(ctx, r.of(p.db))
		if err == nil {
			b, err = parley.New(ctx, c.store, &parley.Options{
				Lease: lease, Poll: 200 * time.Millisecond, GroupWait: 500 * time.Millisecond, NoMaintenance: r != roleBoth,
				Logger: slog.New(strandings{slog.DiscardHandler, p.rec})})
			if err == nil {
				return b, c
			}
			c.close()
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// work runs a worker with options that programs choose.
func (p *program) work(
	ctx context.Context, b *parley.Broker, h *handlers, fail func(error), queue string, also ...string,
) {
	w := sure.Of(b.NewWorker(queue, h.mux(), &parley.WorkerOptions{
		Also:        also,
		MaxReaders:  1 + random.IntN(4),
		MaxBatch:    []int{0, 0, 1, 5}[random.IntN(4)],
		Hold:        []parley.Hold{parley.HoldDefault, parley.HoldDefault, parley.HoldLease}[random.IntN(3)],
		Isolation:   []parley.Isolation{parley.IsolateEach, parley.IsolateBatch}[random.IntN(2)],
		MaxAttempts: -1,
		Backoff:     parley.Backoff(10*time.Millisecond, 200*time.Millisecond),
	}))
	for ctx.Err() == nil {
		if err := w.Run(ctx); !passing(err) {
			fail(fmt.Errorf("worker: %w", err))
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// faulty are errors that no fault explains: the program, or the library, is wrong.
var faulty = []error{parley.ErrNewerSchema, parley.ErrNotMigrated, parley.ErrPool, parley.ErrClosed, parley.ErrTxDone,
	parley.ErrSettled, parley.ErrInvalidOption, parley.ErrInvalidName, parley.ErrInvalidBody, parley.ErrUnknownQueue,
	parley.ErrUnknownService, parley.ErrUnknownContract, parley.ErrUnknownType, parley.ErrTypeNotAllowed,
	parley.ErrNoConversation, parley.ErrEnded, parley.ErrFarEnded, parley.ErrConversationError, parley.ErrSealed,
	parley.ErrSenderFailed, parley.ErrGroupElsewhere, parley.ErrIsolation, phases.ErrNoPlan}

// passing says whether an error may be gone when the same is done again.
func passing(err error) bool {
	return err == nil || unless(err, faulty...) != nil
}
