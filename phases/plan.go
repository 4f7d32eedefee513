package phases

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/guard"
	"github.com/parleymq/parley/internal/wait"
)

// Options are the options of a plan, which are stored when the plan is made. Nil means all the
// defaults.
type Options struct {
	// MaxActive is how many of its tasks run at once, in all processes. Zero means as many
	// as there are workers.
	MaxActive int

	// Continue lets later phases start even if a task is dead. By default the plan halts: it waits
	// for an operator to retry or skip the task.
	Continue bool

	// AcceptLate accepts a task of a phase that is over, that is, after a task of a later phase has
	// started. The task runs at once, and tasks that have not started wait for it. By default
	// Submit fails with ErrClosed.
	AcceptLate bool

	// MaxAttempts is how often a task that fails is tried. Zero means once.
	MaxAttempts int

	// Caller is shown to operators with the tasks that are submitted by this Plan. Empty
	// means the owner of the Broker.
	Caller string

	// Purpose is shown to operators with the plan.
	Purpose string
}

// Task is a task to be submitted.
type Task struct {
	ID    parley.ID // zero means a new one; it stays the same at all attempts
	Phase int       // tasks of one phase run together, those of a higher one after them
	Type  string    // chooses the handler
	Body  []byte
}

// Plan submits tasks, waits for them and manages them. It is a handle and needs no
// closing. Any number of processes may open one plan.
type Plan struct {
	b    *parley.Broker
	name string
	id   parley.ID
	opt  backend.PlanOptions
}

// Open opens the plan of a name, and makes it if there is none.
func Open(ctx context.Context, b *parley.Broker, name string, o *Options) (*Plan, error) {
	var opt Options
	if o != nil {
		opt = *o
	}
	if opt.Caller == "" {
		opt.Caller = b.Options().Owner
	}
	p := &Plan{b: b, name: name, opt: backend.PlanOptions{
		MaxActive: opt.MaxActive, Continue: opt.Continue, AcceptLate: opt.AcceptLate, MaxAttempts: max(1, opt.MaxAttempts),
		Caller:       backend.CleanText(opt.Caller, backend.MaxShownName),
		SubmittedFor: backend.CleanText(opt.Purpose, guard.MaxReason),
	}}
	err := checkName(name)
	if err == nil && (opt.MaxActive < 0 || opt.MaxActive > math.MaxInt32 || opt.MaxAttempts < 0 || opt.MaxAttempts > math.MaxInt32) {
		err = fmt.Errorf("MaxActive %d, MaxAttempts %d: %w", opt.MaxActive, opt.MaxAttempts, parley.ErrInvalidOption)
	}
	if err == nil {
		err = open(b)
	}
	if err == nil {
		err = p.open(ctx)
	}
	if err != nil {
		return nil, fail("open plan", name, err)
	}
	return p, nil
}

// open finds the plan, or makes it, which another process may do at the same time.
func (p *Plan) open(ctx context.Context) error {
	for try := 0; ; try++ {
		found, err := p.b.Backend().Progress(ctx, p.name)
		if err == nil {
			p.id, p.opt.Existing = found.ID, found.ID
			return nil
		}
		if errors.Is(err, ErrNoPlan) && try < 10 {
			err = p.b.InTx(ctx, func(tx *parley.Tx) error {
				be, err := tx.Backend()
				if err != nil {
					return err
				}
				return be.Submit(ctx, p.name, p.opt, nil)
			})
		}
		if err != nil && !(errors.Is(err, parley.ErrSerialization) && try < 10) {
			return err
		}
	}
}

// Find opens the plan of a name: ErrNoPlan if there is none. It is for operators; tasks
// that it submits have the owner of the Broker as their caller.
func Find(ctx context.Context, b *parley.Broker, name string) (*Plan, error) {
	return read(b, "find plan", name, func() (*Plan, error) {
		p, err := b.Backend().Progress(ctx, name)
		if err != nil {
			return nil, err
		}
		return &Plan{b: b, name: name, id: p.ID, opt: backend.PlanOptions{Existing: p.ID, Caller: b.Options().Owner}}, nil
	})
}

// Name returns the name of the plan.
func (p *Plan) Name() string { return p.name }

// ID returns the id of the plan. The next plan of its name has another one.
func (p *Plan) ID() parley.ID { return p.id }

// Submit adds tasks, all or none, in a separate transaction.
func (p *Plan) Submit(ctx context.Context, tasks ...Task) error {
	return p.b.InTx(ctx, func(tx *parley.Tx) error { return p.SubmitTx(ctx, tx, tasks...) })
}

// SubmitTx adds tasks, all or none, when the transaction commits. Until then no task of
// the plan is started, so commit soon.
func (p *Plan) SubmitTx(ctx context.Context, tx *parley.Tx, tasks ...Task) error {
	return fail("submit", p.name, p.submit(ctx, tx, tasks))
}

func (p *Plan) submit(ctx context.Context, tx *parley.Tx, tasks []Task) error {
	be, err := tx.Backend()
	if err != nil || len(tasks) == 0 {
		return err
	}
	rows := make([]backend.NewTask, len(tasks))
	most := p.b.Options().MaxBody
	for i, t := range tasks {
		if t.ID.IsZero() {
			t.ID = parley.NewID()
		}
		switch n := utf8.RuneCountInString(t.Type); {
		case n > 128 || !backend.IsText(t.Type):
			return fmt.Errorf("type of %d characters: want UTF-8 of at most 128, without zero bytes: %w", n, parley.ErrInvalidName)
		case len(t.Body) > most:
			return fmt.Errorf("body of %d bytes, at most %d are allowed: %w", len(t.Body), most, parley.ErrTooLarge)
		case t.Phase < math.MinInt32 || t.Phase > math.MaxInt32:
			return fmt.Errorf("phase %d: want a number of 32 bits: %w", t.Phase, parley.ErrInvalidOption)
		}
		rows[i] = backend.NewTask(t)
	}
	err = tx.Atomically(ctx, func() error { return be.Submit(ctx, p.name, p.opt, rows) })
	if err != nil {
		return err
	}
	return tx.Notify(ctx, backend.TasksTopic)
}

// Seal refuses further tasks: Submit fails with ErrClosed.
func (p *Plan) Seal(ctx context.Context) error {
	_, err := p.control(ctx, "seal", backend.PlanSeal, nil)
	return err
}

// Cancel cancels waiting tasks, all if none is named, and asks the handlers of running ones to
// stop, within a second. It returns how many it has cancelled, and waits for no handler. A running task
// is cancelled if its handler then fails, and done if it succeeds.
func (p *Plan) Cancel(ctx context.Context, tasks ...parley.ID) (int, error) {
	return p.control(ctx, "cancel", backend.PlanCancel, tasks)
}

// running returns those of tasks, of all if none is named, that workers have in hand.
func (p *Plan) running(ctx context.Context, tasks []parley.ID) (ids []parley.ID, err error) {
	q := backend.TaskQuery{Plan: p.name, Running: true, Limit: 1000}
	for {
		list, err := p.b.Backend().TaskLog(ctx, q)
		if err != nil || len(list) == 0 {
			return ids, err
		}
		for _, t := range list {
			if len(tasks) == 0 || slices.Contains(tasks, t.ID) {
				ids = append(ids, t.ID)
			}
		}
		q.After = list[len(list)-1].ID
	}
}

// Retry queues dead tasks again, all if none is named, and returns how many.
func (p *Plan) Retry(ctx context.Context, tasks ...parley.ID) (int, error) {
	return p.control(ctx, "retry", backend.PlanRetry, tasks)
}

// Skip skips dead tasks, all if none is named, so that later phases can start. It returns how many.
func (p *Plan) Skip(ctx context.Context, tasks ...parley.ID) (int, error) {
	return p.control(ctx, "skip", backend.PlanSkip, tasks)
}

// Delete removes the plan and its log. Running handlers are asked to stop, and their later work
// fails with ErrFenced. It is no error if the plan was deleted before. The name can be used again.
func (p *Plan) Delete(ctx context.Context) error {
	if _, err := p.progress(ctx); errors.Is(err, ErrNoPlan) {
		return nil // or it is another one by now
	}
	_, err := p.control(ctx, "delete", backend.PlanDelete, nil)
	if errors.Is(err, ErrNoPlan) {
		return nil
	}
	return err
}

func (p *Plan) control(ctx context.Context, op string, c backend.TaskControl, tasks []parley.ID) (int, error) {
	var asked []parley.ID
	if c == backend.PlanCancel {
		var err error
		if asked, err = p.running(ctx, tasks); err != nil {
			return 0, fail(op, p.name, err)
		}
	}
	if len(tasks) == 0 {
		tasks = []parley.ID{{}}
	}
	n, busy, err := p.controlOnce(ctx, c, tasks, asked)
	// On a backend without requests, a task whose row a heartbeat has locked is told as soon as that
	// is over.
	for pause := 2 * time.Millisecond; err == nil && len(busy) > 0 && pause < 4*time.Second; pause *= 2 {
		if err = wait.Sleep(ctx, wait.Jitter(pause)); err != nil {
			break
		}
		var k int
		k, busy, err = p.controlOnce(ctx, c, busy, nil)
		n += k
		if errors.Is(err, ErrNoPlan) { // deleted meanwhile
			err = nil
		}
	}
	return n, fail(op, p.name, err)
}

// controlOnce carries out a control, and stores requests to cancel tasks that are asked to stop. busy are
// the running tasks that could not be asked.
func (p *Plan) controlOnce(ctx context.Context, c backend.TaskControl, tasks, asked []parley.ID) (n int, busy []parley.ID, err error) {
	err = p.b.InTx(ctx, func(tx *parley.Tx) error {
		n, busy = 0, nil
		be, err := tx.Backend()
		if err == nil {
			err = tx.Notify(ctx, backend.TasksTopic)
		}
		if err != nil {
			return err
		}
		// It must still be this one. This locks it.
		err = be.Submit(ctx, p.name, backend.PlanOptions{Existing: p.id}, nil)
		if err != nil && !errors.Is(err, ErrClosed) {
			return err
		}
		for _, id := range tasks {
			k, held, err := be.Control(ctx, p.name, c, id)
			if err != nil {
				return err
			}
			n += k
			busy = append(busy, held...)
		}
		if c != backend.PlanCancel || len(asked)+len(busy) == 0 {
			return nil
		}
		err = be.RequestCancel(ctx, 0, append(asked, busy...))
		if errors.Is(err, errors.ErrUnsupported) {
			return nil
		}
		busy = nil
		return errors.Join(err, tx.Notify(ctx, backend.CancelTopic))
	})
	return n, busy, err
}

// Status counts the plan's tasks by state. It reads all of them.
func (p *Plan) Status(ctx context.Context) (Status, error) {
	return read(p.b, "plan status", p.name, func() (s Status, err error) {
		list, err := p.b.Backend().Plans(ctx, p.name)
		if err == nil && (len(list) == 0 || list[0].ID != p.id) {
			err = ErrNoPlan
		}
		if err != nil {
			return s, err
		}
		return list[0], nil
	})
}

// Log returns the execution log: limit tasks in the order of submission, after one of
// them if it is not zero.
func (p *Plan) Log(ctx context.Context, after parley.ID, limit int) ([]TaskStatus, error) {
	return Log(ctx, p.b, Query{Plan: p.name, After: after, Limit: limit})
}
