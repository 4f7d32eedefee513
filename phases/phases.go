// Package phases runs tasks in ordered phases. Tasks of one phase run in parallel, wherever there
// are workers, and those of a later phase only when all earlier ones are over. A phase waits for
// rows of tasks. So gaps in the numbers, other batches, other processes and their deaths make no
// difference. The built-in stores on PostgreSQL, MySQL, MariaDB, SQLite and SQL Server have tasks;
// a plugin may lack them, and then each call returns errors.ErrUnsupported.
//
//	plan, err := phases.Open(ctx, b, "nightly", nil)
//	err = plan.Submit(ctx, phases.Task{Phase: 1, Type: "extract"}, phases.Task{Phase: 2, Type: "report"})
//	err = plan.Run(ctx, phases.Handlers{"extract": extract, "report": report}, nil)
package phases

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// What is known of plans and their tasks; the fields are explained in package backend.
type (
	State      = backend.TaskState
	TaskStatus = backend.TaskStatus
	Status     = backend.PlanStatus
	Progress   = backend.Progress
	Query      = backend.TaskQuery
)

// The states of tasks. Done, dead, cancelled and skipped ones are over.
const (
	StateQueued    = backend.TaskQueued
	StateRunning   = backend.TaskRunning
	StateFailed    = backend.TaskFailed
	StateDone      = backend.TaskDone
	StateDead      = backend.TaskDead
	StateCancelled = backend.TaskCancelled
	StateSkipped   = backend.TaskSkipped
)

var (
	// ErrNoPlan: there is no plan of this name, or it was deleted.
	ErrNoPlan = backend.ErrNoPlan

	// ErrClosed: a task was submitted to a phase that is over, or to a sealed plan.
	ErrClosed = backend.ErrPhaseClosed

	// ErrHalted: a task of the plan is dead, and no other starts until an operator
	// retries or skips it.
	ErrHalted = errors.New("the plan is halted by a task that is dead")

	// ErrNoTask: all tasks of the plan are over and have been returned by Next.
	ErrNoTask = errors.New("no task is left")

	// ErrCancelled: an operator has cancelled the task. It is the cause of the end of its
	// handler's context.
	ErrCancelled = parley.ErrCancelled
)

// HaltedError says why a plan is halted. It is ErrHalted.
type HaltedError struct {
	Plan   string
	Reason string // the error of the task that is dead
}

func (e *HaltedError) Error() string        { return ErrHalted.Error() + ": " + e.Reason }
func (e *HaltedError) Is(target error) bool { return target == ErrHalted }

// List lists all plans. It reads all their tasks.
func List(ctx context.Context, b *parley.Broker) ([]Status, error) {
	return read(b, "plans", "", func() ([]Status, error) { return b.Backend().Plans(ctx, "") })
}

// Log returns tasks of a plan in the order of submission, or what runs now in all plans.
func Log(ctx context.Context, b *parley.Broker, q Query) ([]TaskStatus, error) {
	return read(b, "task log", "", func() ([]TaskStatus, error) {
		if q.Limit < 1 {
			return nil, fmt.Errorf("limit %d: %w", q.Limit, parley.ErrInvalidOption)
		}
		return b.Backend().TaskLog(ctx, q)
	})
}

func read[T any](b *parley.Broker, op, plan string, f func() (T, error)) (v T, err error) {
	err = open(b)
	if err == nil {
		v, err = f()
	}
	return v, fail(op, plan, err)
}

func open(b *parley.Broker) error {
	if b.Context().Err() != nil {
		return parley.ErrClosed
	}
	return nil
}

func checkName(name string) error {
	if n := utf8.RuneCountInString(name); n == 0 || n > 128 || !backend.IsText(name) {
		return fmt.Errorf("%d characters: want UTF-8 of 1 to 128, without zero bytes: %w", n, parley.ErrInvalidName)
	}
	return nil
}

func fail(op, plan string, err error) error {
	object, hint := "", ""
	if plan != "" {
		object = fmt.Sprintf("plan %q", plan)
	}
	switch {
	case errors.Is(err, ErrNoPlan):
		hint = "open it with phases.Open"
	case errors.Is(err, ErrClosed):
		hint = "submit it to a later phase, or open the plan with AcceptLate"
	default:
		return parley.WrapError(op, object, err)
	}
	var e *parley.Error
	if errors.As(err, &e) {
		return err
	}
	return &parley.Error{Op: op, Object: object, Err: err, Hint: hint}
}
