package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/mysql"
	"github.com/parleymq/parley/backend/postgres"
	"github.com/parleymq/parley/internal/sure"
	"github.com/parleymq/parley/phases"
)

const (
	brokers = 2 // of each program
	senders = 2 // of each broker
	lease   = 2 * time.Second
	// mostWaiting is how many messages may wait before senders pause: a backlog that only
	// grows would have to be drained in the end.
	mostWaiting = 1500
)

// program is a child process: brokers with workers, and senders, until the file at stop
// is there. Then it only receives and tidies up, until it is killed.
type program struct {
	db, stop string
	name     string
	rec      *recorder
	serial   atomic.Int64
	backlog  atomic.Int64 // messages that wait, as of a moment ago
}

func runProgram(db, history, stop string) error {
	rec, err := newRecorder(history)
	if err != nil {
		return err
	}
	p := &program{db: db, stop: stop, name: fmt.Sprintf("%08x", random.Uint32()), rec: rec}
	failures := make(chan error, 1)
	for range brokers {
		go p.broker(func(err error) {
			select {
			case failures <- err:
			default:
			}
		})
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

// broker opens a store, again and again while there is a fault, and works with it.
func (p *program) broker(fail func(error)) {
	ctx := context.Background()
	var b *parley.Broker
	for b == nil {
		store, err := p.connect(ctx)
		if err == nil {
			b, err = parley.New(ctx, store, &parley.Options{
				Lease: lease, Poll: 200 * time.Millisecond, GroupWait: 500 * time.Millisecond,
				Logger: slog.New(strandings{slog.DiscardHandler, p.rec})})
		}
		if err != nil {
			time.Sleep(100 * time.Millisecond)
		}
	}
	h := &handlers{p, b}
	go p.work(ctx, b, h, fail, postQueue, diaryQueue)
	go p.work(ctx, b, h, fail, askQueue, answerQueue)
	go p.tasks(ctx, b, fail)
	go p.ranked(ctx, b)
	go p.tidy(ctx, b)
	for range senders {
		s := &sender{program: p, b: b, name: p.serialName(), next: make(map[string]int)}
		go s.run(ctx, fail)
	}
}

// connect opens a store, on a small pool of connections now and then.
func (p *program) connect(ctx context.Context) (parley.Backend, error) {
	conns := []int{0, 2, 3}[random.IntN(3)]
	switch scheme, _, _ := strings.Cut(p.db, ":"); scheme {
	case "postgres":
		return postgres.Open(ctx, p.db, &postgres.Options{MaxConns: conns})
	case "mysql":
		return mysql.Open(ctx, p.db, &mysql.Options{MaxConns: conns})
	}
	return backend.Open(ctx, p.db)
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
	for {
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
	parley.ErrSenderFailed, parley.ErrGroupElsewhere, parley.ErrIsolation, parley.ErrQueueDisabled, phases.ErrNoPlan}

// passing says whether an error may be gone when the same is done again.
func passing(err error) bool {
	return err == nil || unless(err, faulty...) != nil
}
