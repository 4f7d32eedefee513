package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// Schedules. A submission to a plan, or a claim from it, locks the plan's row first. So a claim
// that opens a phase and a submission to an earlier phase see each other. What ends a task touches
// the task's row only: no handler, and nothing that waits for one, is in the way of a claim.

// The values of the column state, in order.
var taskStates = [...]backend.TaskState{
	backend.TaskQueued, backend.TaskRunning, backend.TaskFailed, backend.TaskDone,
	backend.TaskDead, backend.TaskCancelled, backend.TaskSkipped,
}

const stateRunning = 1

// TaskEnds returns the column state of a task that ends so in a worker's hands.
func TaskEnds(s backend.TaskState) (int, error) {
	switch s {
	case backend.TaskQueued, backend.TaskFailed, backend.TaskDone, backend.TaskDead, backend.TaskCancelled:
		return slices.Index(taskStates[:], s), nil
	}
	return 0, fmt.Errorf("parley: a task cannot end as %q", s)
}

// schedule is a row of the table schedule, and how far it is.
type schedule struct {
	head
	id      backend.ID
	sealed  bool
	options backend.PlanOptions
	serial  int64 // the number of its last task
	latest  int64 // the highest phase of which a task has started
}

// head is what the tasks say of how far a schedule is.
type head struct {
	phase   sql.NullInt64 // the lowest that is not over
	running int
	alive   int           // of the running ones, those whose lease has not ended
	dead    sql.NullInt64 // the lowest phase with a dead task
}

// schedule reads a schedule, nil if there is none.
func (r run) schedule(ctx context.Context, name string) (*schedule, error) {
	var s schedule
	o := &s.options
	found, err := r.Row(ctx, []any{ID(&s.id), Bool(&s.sealed), &o.MaxActive, Bool(&o.Continue), Bool(&o.AcceptLate),
		&o.MaxAttempts, Text(&o.Caller), Text(&o.SubmittedFor), &s.serial, &s.latest,
		&s.phase, &s.dead, Witness(&s.running), Witness(&s.alive)}, r.s.q.ScheduleRead, name)
	if err != nil || !found {
		return nil, err
	}
	return &s, nil
}

// halted reports whether nothing more can start because of a dead task of an
// earlier phase, or of the last one.
func (s *schedule) halted() bool {
	return !s.options.Continue && s.dead.Valid && (!s.phase.Valid || s.dead.Int64 < s.phase.Int64)
}

// Submit implements backend.TxTasks.
func (t *Tx) Submit(ctx context.Context, name string, o backend.PlanOptions, tasks []backend.NewTask) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	s, err := t.lockSchedule(ctx, name, &o, len(tasks))
	if err != nil {
		return err
	}
	if s.sealed {
		return fmt.Errorf("plan %q is sealed: %w", name, backend.ErrPhaseClosed)
	}
	for _, task := range tasks {
		if int64(task.Phase) < s.latest && !s.options.AcceptLate {
			return fmt.Errorf("plan %q, phase %d: %w", name, task.Phase, backend.ErrPhaseClosed)
		}
	}
	first := s.serial - int64(len(tasks)) + 1
	if len(tasks) > 1 && t.s.d.SubmitBatch != nil {
		return t.s.d.SubmitBatch(ctx, t, s.id, first, o.Caller, tasks)
	}
	for i, task := range tasks {
		_, err := t.Exec(ctx, t.s.q.TaskInsert, task.ID, s.id, first+int64(i), task.Phase, task.Type, task.Body, o.Caller)
		if err != nil {
			return err
		}
	}
	return nil
}

// lockSchedule locks a schedule, waiting for it, and draws numbers for n tasks.
// It is made if need be.
func (t *Tx) lockSchedule(ctx context.Context, name string, o *backend.PlanOptions, n int) (*schedule, error) {
	for try := 0; ; try++ {
		had, err := t.Exec(ctx, t.s.q.ScheduleLock, max(1, n), name)
		if err != nil {
			return nil, err
		}
		if had > 0 {
			break
		}
		if o == nil || !o.Existing.IsZero() {
			return nil, backend.ErrNoPlan
		}
		if try == 10 {
			return nil, fmt.Errorf("parley: plan %q is created and deleted again and again: %w", name, backend.ErrSerialization)
		}
		_, err = t.Exec(ctx, t.s.q.ScheduleInsert, name, backend.NewID(), o.MaxActive, o.Continue, o.AcceptLate,
			o.MaxAttempts, o.Caller, o.SubmittedFor)
		if err != nil {
			return nil, err
		}
	}
	s, err := t.schedule(ctx, name)
	if err == nil && (s == nil || o != nil && !o.Existing.IsZero() && s.id != o.Existing) {
		err = backend.ErrNoPlan
	}
	return s, err
}

// LockTask implements backend.TxTasks.
func (t *Tx) LockTask(ctx context.Context, h backend.TaskHold) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	return t.one(ctx, t.s.q.TaskHold, h.Task, h.Fence)
}

// one runs a statement that changes a task held by its fence.
func (t *Tx) one(ctx context.Context, q *Stmt, args ...any) error {
	n, err := t.Exec(ctx, q, args...)
	if err == nil && n == 0 {
		err = backend.ErrFenced
	}
	return err
}

// FinishTask implements backend.TxTasks.
func (t *Tx) FinishTask(ctx context.Context, h backend.TaskHold, o backend.TaskOutcome) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	state, err := TaskEnds(o.State)
	switch {
	case err != nil:
		return err
	case o.State == backend.TaskQueued:
		return t.one(ctx, t.s.q.TaskReturn, o.Error, h.Task, h.Fence)
	}
	return t.one(ctx, t.s.q.TaskFinish, state, !o.State.Terminal(), o.Delay, o.Error, h.Task, h.Fence)
}

// FinishTasks implements backend.TxTasks.
func (t *Tx) FinishTasks(ctx context.Context, ends []backend.TaskEnd) (lost []backend.ID, err error) {
	if t.s.d.FinishTasks != nil && len(ends) > 1 {
		if err := t.ready(ctx); err != nil {
			return nil, err
		}
		return t.s.d.FinishTasks(ctx, t, ends)
	}
	for _, e := range ends {
		err := t.FinishTask(ctx, e.Hold, e.Outcome)
		if err == backend.ErrFenced {
			lost = append(lost, e.Hold.Task)
		} else if err != nil {
			return nil, err
		}
	}
	return lost, nil
}

// NextFinished implements backend.TxTasks.
func (t *Tx) NextFinished(ctx context.Context, name string, existing backend.ID) (*backend.TaskStatus, error) {
	if err := t.ready(ctx); err != nil {
		return nil, err
	}
	var s *schedule
	var ids []backend.ID
	err := t.look(ctx, func(r run) (err error) {
		if s, err = r.schedule(ctx, name); err != nil || s == nil {
			return err
		}
		// More than one, as others may be given to other callers just now.
		ids, err = r.IDs(ctx, t.s.q.TasksFinished, s.id)
		return err
	})
	if err != nil {
		return nil, err
	}
	if s == nil || !existing.IsZero() && s.id != existing {
		return nil, backend.ErrNoPlan
	}
	for _, id := range ids {
		had, err := t.TryLock(ctx, t.s.q.TaskTry, id)
		if err != nil {
			return nil, err
		}
		if !had {
			continue
		}
		n, err := t.Exec(ctx, t.s.q.TaskGiven, id)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			return t.taskStatus(ctx, id)
		}
	}
	return nil, nil
}

// Control implements backend.TxTasks.
func (t *Tx) Control(ctx context.Context, name string, c backend.TaskControl, task backend.ID) (changed int, busy []backend.ID, err error) {
	if err := t.ready(ctx); err != nil {
		return 0, nil, err
	}
	s, err := t.lockSchedule(ctx, name, nil, 0)
	if err == backend.ErrNoPlan && c == backend.PlanDelete {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	var n int64
	switch all := task.IsZero(); c {
	case backend.PlanSeal:
		_, err = t.Exec(ctx, t.s.q.ScheduleSeal, name)
	case backend.PlanCancel:
		if n, err = t.Exec(ctx, t.s.q.TasksCancel, s.id, all, task); err == nil {
			busy, err = t.stop(ctx, s.id, all, task)
		}
	case backend.PlanRetry:
		n, err = t.Exec(ctx, t.s.q.TasksRetry, s.id, all, task)
	case backend.PlanSkip:
		n, err = t.Exec(ctx, t.s.q.TasksSkip, s.id, all, task)
	case backend.PlanDelete:
		if n, err = t.Exec(ctx, t.s.q.TasksDelete, s.id); err == nil {
			_, err = t.Exec(ctx, t.s.q.ScheduleDelete, name)
		}
	default:
		err = fmt.Errorf("parley: there is no control %d of a schedule", c)
	}
	return int(n), busy, err
}

// stop asks for the end of running tasks. It waits for none: a row may be locked
// by a heartbeat, or by the handler's own transaction.
func (t *Tx) stop(ctx context.Context, schedule backend.ID, all bool, task backend.ID) (busy []backend.ID, err error) {
	ids, err := t.IDs(ctx, t.s.q.TasksRunning, schedule, all, task)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		had, err := t.TryLock(ctx, t.s.q.TaskTry, id)
		switch {
		case err != nil:
		case !had:
			busy = append(busy, id)
		default:
			_, err = t.Exec(ctx, t.s.q.TaskStop, id)
		}
		if err != nil {
			return nil, err
		}
	}
	return busy, nil
}

// ExtendTasks implements backend.Tasks.
func (s *Store) ExtendTasks(ctx context.Context, holds []backend.TaskHold, d time.Duration) (stop []backend.ID, err error) {
	lost := false
	err = s.atomically(ctx, func(tx *Tx) error {
		for _, h := range holds {
			had, err := tx.TryLock(ctx, s.q.TaskTry, h.Task)
			if err != nil {
				return err
			}
			var n int64
			if had {
				if n, err = tx.Exec(ctx, s.q.TaskExtend, d, h.Task, h.Fence); err != nil {
					return err
				}
			}
			task, err := tx.task(ctx, h.Task)
			if err != nil {
				return err
			}
			switch {
			// A locked task is in its worker's own transaction, or for a moment in
			// another one; the next heartbeat comes before its lease ends.
			case !had && task.state == stateRunning && task.fence == h.Fence, n > 0:
				if task.stop {
					stop = append(stop, h.Task)
				}
			default:
				lost = true
			}
		}
		return nil
	})
	if err == nil && lost {
		err = backend.ErrFenced
	}
	return stop, err
}

// task is what decides about a row of the table task.
type task struct {
	state int
	fence int64
	due   int64
	live  bool
	given bool
	stop  bool
	now   int64
}

func (r run) task(ctx context.Context, id backend.ID) (t task, err error) {
	_, err = r.Row(ctx, []any{&t.state, &t.fence, &t.due, Bool(&t.live), Bool(&t.given), Bool(&t.stop), &t.now}, r.s.q.TaskRead, id)
	return t, err
}

// Progress implements backend.Tasks.
func (s *Store) Progress(ctx context.Context, name string) (p backend.Progress, err error) {
	err = s.reading(ctx, func(r run) error {
		p, _, err = r.progress(ctx, name)
		return err
	})
	return p, err
}

func (r run) progress(ctx context.Context, name string) (p backend.Progress, s *schedule, err error) {
	if s, err = r.schedule(ctx, name); err != nil {
		return p, nil, err
	}
	if s == nil {
		return p, nil, backend.ErrNoPlan
	}
	p = backend.Progress{
		ID: s.id, Sealed: s.sealed, Halted: s.halted(),
		Over: !s.phase.Valid, Phase: int(s.phase.Int64), Running: s.running,
	}
	return p, s, nil
}

// Schedules implements backend.Tasks.
func (s *Store) Plans(ctx context.Context, name string) (list []backend.PlanStatus, err error) {
	err = s.reading(ctx, func(r run) error {
		names := []string{name}
		if name == "" {
			names = nil
			err := r.Rows(ctx, func(rows *sql.Rows) error {
				var n string
				err := rows.Scan(&n)
				names = append(names, n)
				return err
			}, s.q.ListSchedules)
			if err != nil {
				return err
			}
		}
		for _, n := range names {
			status, err := r.scheduleStatus(ctx, n)
			if err == backend.ErrNoPlan && name == "" {
				continue // released meanwhile
			}
			if err != nil {
				return err
			}
			list = append(list, status)
		}
		return nil
	})
	return list, err
}

func (r run) scheduleStatus(ctx context.Context, name string) (status backend.PlanStatus, err error) {
	p, s, err := r.progress(ctx, name)
	if err != nil {
		return status, err
	}
	status = backend.PlanStatus{Name: name, Progress: p, Options: s.options, Counts: make(map[backend.TaskState]int)}
	err = r.Rows(ctx, func(rows *sql.Rows) error {
		var state, n int
		err := rows.Scan(&state, &n)
		if err == nil {
			status.Counts[taskStates[state]] = n
		}
		return err
	}, r.s.q.ScheduleCounts, s.id)
	if err == nil {
		_, err = r.Row(ctx, []any{Text(&status.Error)}, r.s.q.ScheduleError, s.id)
	}
	return status, err
}

// TaskLog implements backend.Tasks.
func (s *Store) TaskLog(ctx context.Context, q backend.TaskQuery) (list []backend.TaskStatus, err error) {
	err = s.reading(ctx, func(r run) error {
		if q.Plan == "" && q.Running {
			list, err = r.taskList(ctx, s.q.ListRunning, max(q.Limit, 1))
			return err
		}
		if x, err := r.schedule(ctx, q.Plan); err != nil || x == nil {
			if err == nil {
				err = backend.ErrNoPlan
			}
			return err
		}
		list, err = r.taskList(ctx, s.q.ListTasks, q.Plan, q.Running, q.After, max(q.Limit, 1))
		return err
	})
	return list, err
}

func (r run) taskList(ctx context.Context, q *Stmt, args ...any) (list []backend.TaskStatus, err error) {
	err = r.Rows(ctx, func(rows *sql.Rows) error {
		var t backend.TaskStatus
		var state int
		var submitted, started, ended int64
		err := rows.Scan(&t.Plan, ID(&t.ID), &t.Phase, &t.Type, &state, Text(&t.Caller), Text(&t.Owner), &t.Attempts,
			Text(&t.Error), &submitted, &started, &ended)
		if err == nil {
			t.State = taskStates[state]
			t.Submitted, t.Started = instant(submitted), instant(started)
			if t.State.Terminal() {
				t.Ended = instant(ended)
			}
			list = append(list, t)
		}
		return err
	}, q, args...)
	return list, err
}

func (t *Tx) taskStatus(ctx context.Context, id backend.ID) (*backend.TaskStatus, error) {
	list, err := t.taskList(ctx, t.s.q.OneTask, id)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// instant is the time of a column that has 0 for none.
func instant(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us)
}
