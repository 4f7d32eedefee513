package parley

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/parleymq/parley/backend"
)

// What is known of schedules and their tasks; the fields are explained in
// package backend.
type (
	TaskState      = backend.TaskState
	TaskStatus     = backend.TaskStatus
	ScheduleStatus = backend.ScheduleStatus
	Progress       = backend.Progress
	TaskQuery      = backend.TaskQuery
)

// The states of tasks. Done, dead, cancelled and skipped ones are over.
const (
	TaskQueued    = backend.TaskQueued
	TaskRunning   = backend.TaskRunning
	TaskFailed    = backend.TaskFailed
	TaskDone      = backend.TaskDone
	TaskDead      = backend.TaskDead
	TaskCancelled = backend.TaskCancelled
	TaskSkipped   = backend.TaskSkipped
)

// SchedulerOptions are the options of a schedule, which keeps them from when it
// is made. Nil means all the defaults.
type SchedulerOptions struct {
	// MaxActive is how many of its tasks run at once, in all processes. Default
	// 0: as many as there are workers.
	MaxActive int

	// Continue lets later phases start though a task is dead. By default the
	// schedule halts: it waits for an operator to retry or skip the task.
	Continue bool

	// AcceptLate accepts a task of a phase that is over, that is, when one of a
	// later phase has started. It runs at once, and what has not started waits
	// for it. By default it is refused with ErrPhaseClosed.
	AcceptLate bool

	// MaxAttempts is how often a task that fails is tried. Default 1.
	MaxAttempts int

	// Caller is shown to operators with the tasks that are submitted by this
	// Scheduler. Default: the owner of the Broker.
	Caller string

	// Purpose is shown to operators with the schedule.
	Purpose string
}

// Task is a task to be submitted.
type Task struct {
	ID    ID     // default: a new one; it stays the same at all attempts
	Phase int    // tasks of one phase run together, those of a higher one after them
	Type  string // chooses the handler
	Body  []byte
}

// Scheduler submits tasks to a schedule, waits for them and manages them. Tasks
// of one phase run in parallel, wherever there are workers (TaskPool); one of a
// higher phase starts only when all of lower ones are over. What a phase waits
// for are the tasks' rows, so a gap in the numbers, another batch, another
// process or the death of one makes no difference.
//
// It is a handle and needs no closing. Any number of processes may open one
// schedule.
type Scheduler struct {
	b    *Broker
	name string
	id   ID
	opt  backend.ScheduleOptions
}

// OpenScheduler opens the schedule of a name, and makes it if there is none.
func (b *Broker) OpenScheduler(ctx context.Context, name string, o *SchedulerOptions) (*Scheduler, error) {
	var opt SchedulerOptions
	if o != nil {
		opt = *o
	}
	if opt.Caller == "" {
		opt.Caller = b.opt.Owner
	}
	s := &Scheduler{b: b, name: name, opt: backend.ScheduleOptions{
		MaxActive: opt.MaxActive, Continue: opt.Continue, AcceptLate: opt.AcceptLate,
		MaxAttempts: max(1, opt.MaxAttempts), Caller: backend.CleanText(opt.Caller, backend.MaxShownName), SubmittedFor: backend.CleanText(opt.Purpose, maxReasonText),
	}}
	err := checkSchedule(name)
	if err == nil && (opt.MaxActive < 0 || opt.MaxActive > math.MaxInt32 || opt.MaxAttempts < 0 || opt.MaxAttempts > math.MaxInt32) {
		err = fmt.Errorf("MaxActive %d, MaxAttempts %d: %w", opt.MaxActive, opt.MaxAttempts, ErrInvalidOption)
	}
	if err == nil {
		err = b.check()
	}
	if err != nil {
		return nil, fail("open schedule", objSchedule(name), err)
	}
	for try := 0; ; try++ {
		p, err := b.be.Progress(ctx, name)
		if err == nil {
			s.id, s.opt.Existing = p.ID, p.ID
			return s, nil
		}
		if errors.Is(err, ErrNoSchedule) && try < 10 {
			err = b.InTx(ctx, func(tx *Tx) error { return tx.be.Submit(ctx, name, s.opt, nil) })
		}
		if err != nil && !(errors.Is(err, ErrSerialization) && try < 10) {
			return nil, fail("open schedule", objSchedule(name), err)
		}
	}
}

// FindScheduler opens the schedule of a name: ErrNoSchedule if there is none. It
// is for operators; tasks that it submits have the owner of the Broker as their
// caller.
func (b *Broker) FindScheduler(ctx context.Context, name string) (*Scheduler, error) {
	return read(b, "find schedule", func() (*Scheduler, error) {
		p, err := b.be.Progress(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
		return &Scheduler{b: b, name: name, id: p.ID, opt: backend.ScheduleOptions{Existing: p.ID, Caller: b.opt.Owner}}, nil
	})
}

func checkSchedule(name string) error {
	if n := utf8.RuneCountInString(name); n == 0 || n > 128 || !backend.IsText(name) {
		return fmt.Errorf("%d characters: want UTF-8 of 1 to 128, without zero bytes: %w", n, ErrInvalidName)
	}
	return nil
}

func objSchedule(name string) string { return fmt.Sprintf("schedule %q", name) }

// Name returns the name of the schedule.
func (s *Scheduler) Name() string { return s.name }

// ID returns the id of the schedule: that of the next one of its name differs.
func (s *Scheduler) ID() ID { return s.id }

// Submit adds tasks, all or none, in a transaction of its own.
func (s *Scheduler) Submit(ctx context.Context, tasks ...Task) error {
	return s.b.InTx(ctx, func(tx *Tx) error { return tx.Submit(ctx, s, tasks...) })
}

// Submit adds tasks to a schedule, all or none, when the transaction commits.
// Until then no task of the schedule is started, so commit soon.
func (tx *Tx) Submit(ctx context.Context, s *Scheduler, tasks ...Task) error {
	return fail("submit", objSchedule(s.name), tx.submit(ctx, s, tasks))
}

func (tx *Tx) submit(ctx context.Context, s *Scheduler, tasks []Task) error {
	if err := tx.ready(); err != nil {
		return err
	}
	if len(tasks) == 0 {
		return nil
	}
	rows := make([]backend.NewTask, len(tasks))
	for i, t := range tasks {
		if t.ID.IsZero() {
			t.ID = NewID()
		}
		switch n := utf8.RuneCountInString(t.Type); {
		case n > 128 || !backend.IsText(t.Type):
			return fmt.Errorf("type of %d characters: want UTF-8 of at most 128, without zero bytes: %w", n, ErrInvalidName)
		case len(t.Body) > s.b.opt.MaxBody:
			return fmt.Errorf("body of %d bytes, at most %d are allowed: %w", len(t.Body), s.b.opt.MaxBody, ErrTooLarge)
		case t.Phase < math.MinInt32 || t.Phase > math.MaxInt32:
			return fmt.Errorf("phase %d: want a number of 32 bits: %w", t.Phase, ErrInvalidOption)
		}
		rows[i] = backend.NewTask(t)
	}
	err := tx.whole(ctx, "parley_submit", func() error { return tx.be.Submit(ctx, s.name, s.opt, rows) })
	if err != nil {
		return err
	}
	tx.touch(wakeTasks)
	return tx.told(ctx)
}

// wakeTasks is, where queues are announced, the one of all schedules.
const wakeTasks = -1

// HaltedError says why a schedule is halted.
type HaltedError struct {
	Schedule string
	Reason   string // the error of the task that is dead
}

func (e *HaltedError) Error() string {
	return ErrHalted.Error() + ": " + e.Reason
}

func (e *HaltedError) Is(err error) bool { return err == ErrHalted }

// Wait returns when all tasks that there are by then are over: nil, or a
// *HaltedError when the schedule is halted and none of its tasks runs any more.
// It may be called any number of times, by any process. It fails with
// ErrNoSchedule when the schedule is released.
func (s *Scheduler) Wait(ctx context.Context) error {
	err := s.until(ctx, func(p Progress) (bool, error) {
		if p.Halted && p.Running == 0 {
			return true, s.halted(ctx)
		}
		return p.Over, nil
	})
	return fail("wait", objSchedule(s.name), err)
}

// until waits for progress.
func (s *Scheduler) until(ctx context.Context, done func(Progress) (bool, error)) error {
	for {
		if err := s.b.check(); err != nil {
			return err
		}
		ticket := s.b.hub.ticket()
		p, err := s.progress(ctx)
		if err != nil {
			return err
		}
		if ok, err := done(p); ok || err != nil {
			return err
		}
		if err := s.b.hub.wait(ctx, ticket, wakeTasks, jitter(s.b.opt.Poll), nil); err != nil {
			return err
		}
	}
}

func (s *Scheduler) progress(ctx context.Context) (Progress, error) {
	p, err := s.b.be.Progress(ctx, s.name)
	if err == nil && p.ID != s.id {
		err = fmt.Errorf("it was released, and made anew: %w", ErrNoSchedule)
	}
	return p, err
}

func (s *Scheduler) halted(ctx context.Context) error {
	e := &HaltedError{Schedule: s.name}
	status, err := s.b.be.Schedules(ctx, s.name)
	if err == nil && len(status) > 0 {
		e.Reason = status[0].Error
	}
	return e
}

// Progress tells how far the schedule is. It costs the same however many tasks
// there are.
func (s *Scheduler) Progress(ctx context.Context) (Progress, error) {
	return read(s.b, "progress", func() (Progress, error) { return s.progress(ctx) })
}

// Next waits for a task that is over and was not given to anybody yet, and
// returns it. Each is given to one caller, once, in all processes; when the
// caller's process dies as Next returns, it may be lost: Tx.Next gives it
// together with what the caller makes of it. Next fails with ErrNoTask when all
// tasks are over and given out, and with a *HaltedError as Wait does.
func (s *Scheduler) Next(ctx context.Context) (*TaskStatus, error) {
	var task *TaskStatus
	err := s.until(ctx, func(p Progress) (bool, error) {
		err := s.b.InTx(ctx, func(tx *Tx) (err error) {
			task, err = tx.Next(ctx, s)
			return err
		})
		switch {
		case errors.Is(err, ErrSerialization):
			return false, nil
		case err != nil || task != nil:
			return true, err
		case p.Halted && p.Running == 0:
			return true, s.halted(ctx)
		case p.Over:
			return true, ErrNoTask
		}
		return false, nil
	})
	if err != nil {
		return nil, fail("next", objSchedule(s.name), err)
	}
	return task, nil
}

// Next returns a task that is over and was not given to anybody yet, nil if there
// is none now. It is given when the transaction commits.
func (tx *Tx) Next(ctx context.Context, s *Scheduler) (*TaskStatus, error) {
	if err := tx.ready(); err != nil {
		return nil, fail("next", objSchedule(s.name), err)
	}
	t, err := tx.be.NextFinished(ctx, s.name, s.id)
	return t, fail("next", objSchedule(s.name), err)
}

// Seal refuses further tasks: Submit fails with ErrPhaseClosed.
func (s *Scheduler) Seal(ctx context.Context) error {
	_, err := s.control(ctx, "seal", backend.ScheduleSeal, nil)
	return err
}

// Cancel cancels tasks that wait, all if none is named, and asks the handlers of
// running ones to stop. It returns how many it has cancelled. For those that are in
// their handlers' own transactions (RunningTask.Tx) it waits some seconds; one that
// takes longer is not told.
func (s *Scheduler) Cancel(ctx context.Context, tasks ...ID) (int, error) {
	return s.control(ctx, "cancel", backend.ScheduleCancel, tasks)
}

// Retry queues dead tasks again, all if none is named, and returns how many.
func (s *Scheduler) Retry(ctx context.Context, tasks ...ID) (int, error) {
	return s.control(ctx, "retry", backend.ScheduleRetry, tasks)
}

// Skip lets later phases go on though tasks are dead, all if none is named, and
// returns how many.
func (s *Scheduler) Skip(ctx context.Context, tasks ...ID) (int, error) {
	return s.control(ctx, "skip", backend.ScheduleSkip, tasks)
}

// Release removes the schedule and its log. Handlers that run are told to stop,
// and what they do then fails with ErrFenced. It is no error if it has been
// released before. The name can be opened anew.
func (s *Scheduler) Release(ctx context.Context) error {
	if _, err := s.progress(ctx); errors.Is(err, ErrNoSchedule) {
		return nil // or it is another one by now
	}
	_, err := s.control(ctx, "release", backend.ScheduleRelease, nil)
	if errors.Is(err, ErrNoSchedule) {
		return nil
	}
	return err
}

func (s *Scheduler) control(ctx context.Context, op string, c backend.TaskControl, tasks []ID) (int, error) {
	if len(tasks) == 0 {
		tasks = []ID{{}}
	}
	// Whose row was locked by a heartbeat is told as soon as that is over. One that
	// is in its handler's own transaction is about to end.
	n, busy, err := s.controlOnce(ctx, c, tasks)
	for pause := 2 * time.Millisecond; err == nil && len(busy) > 0 && pause < 4*time.Second; pause *= 2 {
		if err = sleep(ctx, jitter(pause)); err != nil {
			break
		}
		var k int
		k, busy, err = s.controlOnce(ctx, c, busy)
		n += k
		if errors.Is(err, ErrNoSchedule) { // released meanwhile
			err = nil
		}
	}
	return n, fail(op, objSchedule(s.name), err)
}

func (s *Scheduler) controlOnce(ctx context.Context, c backend.TaskControl, tasks []ID) (n int, busy []ID, err error) {
	err = s.b.InTx(ctx, func(tx *Tx) error {
		n, busy = 0, nil
		tx.touch(wakeTasks)
		// It must still be this one. This locks it.
		if err := tx.be.Submit(ctx, s.name, backend.ScheduleOptions{Existing: s.id}, nil); err != nil && !errors.Is(err, ErrPhaseClosed) {
			return err
		}
		for _, id := range tasks {
			k, held, err := tx.be.Control(ctx, s.name, c, id)
			if err != nil {
				return err
			}
			n += k
			busy = append(busy, held...)
		}
		return nil
	})
	return n, busy, err
}

// Status counts the schedule's tasks by state. It reads all of them.
func (s *Scheduler) Status(ctx context.Context) (ScheduleStatus, error) {
	return read(s.b, "schedule status", func() (v ScheduleStatus, err error) {
		list, err := s.b.be.Schedules(ctx, s.name)
		if err == nil && (len(list) == 0 || list[0].ID != s.id) {
			err = ErrNoSchedule
		}
		if err != nil {
			return v, err
		}
		return list[0], nil
	})
}

// Log returns the execution log: limit tasks in the order of submission, after
// one of them if it is not zero.
func (s *Scheduler) Log(ctx context.Context, after ID, limit int) ([]TaskStatus, error) {
	return s.b.Admin().TaskLog(ctx, TaskQuery{Schedule: s.name, After: after, Limit: limit})
}

// Schedules lists all schedules. It reads all their tasks.
func (a Admin) Schedules(ctx context.Context) ([]ScheduleStatus, error) {
	return read(a.b, "schedules", func() ([]ScheduleStatus, error) { return a.b.be.Schedules(ctx, "") })
}

// TaskLog returns tasks of a schedule in the order of submission, or what runs
// now in all of them.
func (a Admin) TaskLog(ctx context.Context, q TaskQuery) ([]TaskStatus, error) {
	return read(a.b, "task log", func() ([]TaskStatus, error) {
		if q.Limit < 1 {
			return nil, badLimit(q.Limit)
		}
		return a.b.be.TaskLog(ctx, q)
	})
}

// Run works on the schedule with a TaskPool of its own until Wait returns, and
// returns what that does.
func (s *Scheduler) Run(ctx context.Context, handlers TaskHandlers, o *TaskPoolOptions) error {
	var opt TaskPoolOptions
	if o != nil {
		opt = *o
	}
	opt.Schedules = []string{s.name}
	pool, err := s.b.NewTaskPool(handlers, &opt)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- pool.Run(running) }()
	err = s.Wait(ctx)
	stop()
	if poolErr := <-ended; err == nil && poolErr != nil && !errors.Is(poolErr, context.Canceled) {
		err = poolErr
	}
	return err
}

// backOff is the pause before the next attempt of a task.
func backOff(attempt int) time.Duration {
	return jitter(min(time.Second<<min(attempt-1, 10), time.Minute))
}
