package bolt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// plan is a set of tasks in phases, with its progress. Reading the progress costs the same whatever
// the number of tasks.
type plan struct {
	ID      backend.ID
	Options backend.PlanOptions
	Sealed  bool
	Latest  int  // the highest phase of which a task has started,
	Started bool // if one has
	Counts  map[backend.TaskState]int
	Live    map[int]int // by phase: tasks that are not over
	Dead    map[int]int // by phase: dead tasks
	Error   string      // the last one
}

// task is a task of a plan.
type task struct {
	backend.TaskStatus
	Body  []byte
	Lease *lease    // while it is running
	Again time.Time // when failed: not before
	Given bool      // NextFinished has returned it
	Stop  bool      // an operator wants it to end
}

// progress is how far a plan is.
func (p plan) progress() backend.Progress {
	v := backend.Progress{ID: p.ID, Sealed: p.Sealed, Over: true, Running: p.Counts[backend.TaskRunning]}
	for phase, n := range p.Live {
		if n > 0 && (v.Over || phase < v.Phase) {
			v.Phase, v.Over = phase, false
		}
	}
	for phase, n := range p.Dead {
		v.Halted = v.Halted || n > 0 && !p.Options.Continue && (v.Over || phase < v.Phase)
	}
	return v
}

// setTask writes a task, and counts it in its plan.
func (l *look) setTask(p *plan, n int64, t task, before backend.TaskState) {
	put(l, tasks, key(p.ID, n), t)
	if p.Counts == nil {
		p.Counts, p.Live, p.Dead = make(map[backend.TaskState]int), make(map[int]int), make(map[int]int)
	}
	count := func(state backend.TaskState, by int) {
		if state == "" {
			return
		}
		p.Counts[state] += by
		if p.Counts[state] == 0 {
			delete(p.Counts, state)
		}
		if !state.Terminal() {
			p.Live[t.Phase] += by
		}
		if state == backend.TaskDead {
			p.Dead[t.Phase] += by
		}
	}
	count(before, -1)
	count(t.State, 1)
	put(l, plans, key(t.Plan), *p)
}

// Submit implements [backend.TxTasks].
func (tx *Tx) Submit(ctx context.Context, name string, o backend.PlanOptions, all []backend.NewTask) error {
	return tx.write(ctx, func(l *look) error {
		p, ok := get(l, plans, key(name))
		if !o.Existing.IsZero() && (!ok || p.ID != o.Existing) {
			return backend.ErrNoPlan
		}
		if !ok {
			p = plan{ID: backend.NewID(), Options: o}
		}
		if p.Sealed {
			return fmt.Errorf("%w: plan %q is sealed", backend.ErrPhaseClosed, name)
		}
		put(l, plans, key(name), p)
		for _, t := range all {
			if p.Started && t.Phase < p.Latest && !p.Options.AcceptLate {
				return fmt.Errorf("%w: plan %q, phase %d", backend.ErrPhaseClosed, name, t.Phase)
			}
			if has(l, taskIDs, key(p.ID, t.ID)) {
				return fmt.Errorf("bolt: plan %q has a task %v", name, t.ID)
			}
			n := l.next("serial")
			put(l, taskIDs, key(p.ID, t.ID), n)
			l.setTask(&p, n, task{Body: t.Body, TaskStatus: backend.TaskStatus{
				Plan: name, ID: t.ID, Phase: t.Phase, Type: t.Type, State: backend.TaskQueued, Caller: o.Caller, Submitted: l.now(),
			}}, "")
		}
		return nil
	})
}

// ClaimTasks implements [backend.TxTasks].
func (tx *Tx) ClaimTasks(ctx context.Context, c backend.TaskClaim) (holds []backend.TaskHold, err error) {
	err = tx.write(ctx, func(l *look) error {
		names := c.Plans
		if len(names) == 0 {
			for k := range scan(l, plans, nil) {
				names = append(names, string(k))
			}
		}
		var ready [][]row[task] // by plan
		for _, name := range names {
			if p, ok := get(l, plans, key(name)); ok {
				if rows := l.startable(p, c.Max); len(rows) > 0 {
					ready = append(ready, rows)
				}
			}
		}
		if len(ready) > 0 { // another plan is the first each time
			turn := int(l.next("turns") % int64(len(ready)))
			ready = slices.Concat(ready[turn:], ready[:turn])
		}
		for i := 0; i < c.Max; i++ {
			for _, rows := range ready {
				if i < len(rows) && len(holds) < c.Max {
					holds = append(holds, tx.startTask(l, rows[i], c))
				}
			}
		}
		return nil
	})
	return holds, err
}

// startable returns tasks of a plan's open phase: the lowest that is not over, unless a dead
// task of an earlier one halts the plan.
func (l *look) startable(p plan, most int) (rows []row[task]) {
	now := p.progress()
	if now.Over || now.Halted {
		return nil
	}
	active := 0
	for k, t := range scan(l, tasks, key(p.ID)) {
		running := t.State == backend.TaskRunning
		switch {
		case running && (l.alive(t.Lease) || l.beingEnded(t.Lease.Fence)):
			active++
		case t.Phase != now.Phase:
		case running || t.State == backend.TaskQueued || t.State == backend.TaskFailed && !t.Again.After(l.now()):
			if len(rows) < most {
				rows = append(rows, row[task]{slices.Clone(k), t})
			}
		}
	}
	if most := p.Options.MaxActive; most > 0 {
		rows = rows[:min(len(rows), max(most-active, 0))]
	}
	return rows
}

func (l *look) beingEnded(fence int64) bool {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	return l.f.settling[fence]
}

// startTask puts a task into a worker's hands.
func (tx *Tx) startTask(l *look, r row[task], c backend.TaskClaim) backend.TaskHold {
	t, before := r.V, r.V.State
	p, _ := get(l, plans, key(t.Plan))
	t.State, t.Owner, t.Started, t.Stop = backend.TaskRunning, c.Owner, l.now(), false
	t.Attempts++
	t.Lease = tx.newLease(l, c.Lease, c.Owner)
	if !p.Started || t.Phase > p.Latest {
		p.Latest, p.Started = t.Phase, true
	}
	l.setTask(&p, numberAt(r.key, 16), t, before)
	return backend.TaskHold{
		Plan: t.Plan, Task: t.ID, Phase: t.Phase, Type: t.Type, Body: t.Body, Attempt: t.Attempts, Fence: t.Lease.Fence,
		MaxAttempts: max(1, p.Options.MaxAttempts),
	}
}

// ownTask returns a held task: ErrFenced if it is no longer ours.
func (tx *Tx) ownTask(l *look, h backend.TaskHold) (p plan, n int64, t task, err error) {
	p, n, t, ok := l.task(h.Plan, h.Task)
	if !ok || t.State != backend.TaskRunning || t.Lease.Fence != h.Fence || !l.alive(t.Lease) && !l.beingEnded(h.Fence) {
		return p, n, t, backend.ErrFenced
	}
	tx.f.mu.Lock()
	defer tx.f.mu.Unlock()
	if !tx.f.settling[h.Fence] {
		tx.f.settling[h.Fence] = true
		tx.settling = append(tx.settling, h.Fence)
	}
	return p, n, t, nil
}

// task returns a task of a plan.
func (l *look) task(name string, id backend.ID) (p plan, n int64, t task, ok bool) {
	if p, ok = get(l, plans, key(name)); ok {
		if n, ok = get(l, taskIDs, key(p.ID, id)); ok {
			t, ok = get(l, tasks, key(p.ID, n))
		}
	}
	return p, n, t, ok
}

// LockTask implements [backend.TxTasks].
func (tx *Tx) LockTask(ctx context.Context, h backend.TaskHold) error {
	return tx.write(ctx, func(l *look) error {
		_, _, _, err := tx.ownTask(l, h)
		return err
	})
}

// FinishTask implements [backend.TxTasks].
func (tx *Tx) FinishTask(ctx context.Context, h backend.TaskHold, o backend.TaskOutcome) error {
	return tx.write(ctx, func(l *look) error { return tx.finishTask(l, h, o) })
}

func (tx *Tx) finishTask(l *look, h backend.TaskHold, o backend.TaskOutcome) error {
	p, n, t, err := tx.ownTask(l, h)
	if err != nil {
		return err
	}
	before := t.State
	t.State, t.Error, t.Lease, t.Ended = o.State, o.Error, nil, l.now()
	switch o.State {
	case backend.TaskFailed:
		t.Again = l.now().Add(o.Delay)
	case backend.TaskQueued: // it was not tried
		t.Attempts--
		t.Ended = time.Time{}
	}
	if o.Error != "" {
		p.Error = o.Error
	}
	l.setTask(&p, n, t, before)
	tx.settled = append(tx.settled, h.Fence)
	return nil
}

// FinishTasks implements [backend.TxTasks].
func (tx *Tx) FinishTasks(ctx context.Context, ends []backend.TaskEnd) (lost []backend.ID, err error) {
	err = tx.write(ctx, func(l *look) error {
		for _, e := range ends {
			if err := tx.finishTask(l, e.Hold, e.Outcome); errors.Is(err, backend.ErrFenced) {
				lost = append(lost, e.Hold.Task)
			} else if err != nil {
				return err
			}
		}
		return nil
	})
	return lost, err
}

// NextFinished implements [backend.TxTasks].
func (tx *Tx) NextFinished(
	ctx context.Context, name string, existing backend.ID,
) (status *backend.TaskStatus, err error) {
	err = tx.write(ctx, func(l *look) error {
		p, ok := get(l, plans, key(name))
		if !ok || !existing.IsZero() && p.ID != existing {
			return backend.ErrNoPlan
		}
		all := slices.DeleteFunc(list(l, tasks, key(p.ID)), func(r row[task]) bool {
			return !r.V.State.Terminal() || r.V.Given
		})
		if len(all) == 0 {
			return nil
		}
		r := slices.MinFunc(all, func(a, b row[task]) int {
			return cmp.Or(a.V.Ended.Compare(b.V.Ended), slices.Compare(a.key, b.key))
		})
		r.V.Given = true
		put(l, tasks, r.key, r.V)
		status = &r.V.TaskStatus
		return nil
	})
	return status, err
}

// Control implements [backend.TxTasks]. No other transaction has a row: busy is always empty.
func (tx *Tx) Control(
	ctx context.Context, name string, c backend.TaskControl, id backend.ID,
) (changed int, busy []backend.ID, err error) {
	err = tx.write(ctx, func(l *look) error {
		p, ok := get(l, plans, key(name))
		switch {
		case !ok && c == backend.PlanDelete:
			return nil
		case !ok:
			return backend.ErrNoPlan
		case c == backend.PlanSeal:
			p.Sealed = true
			put(l, plans, key(name), p)
			return nil
		case c == backend.PlanDelete:
			changed = removeAll(l, tasks, key(p.ID))
			removeAll(l, taskIDs, key(p.ID))
			remove(l, plans, key(name))
			return nil
		}
		for _, r := range list(l, tasks, key(p.ID)) {
			t, before := r.V, r.V.State
			if !id.IsZero() && t.ID != id {
				continue
			}
			switch {
			case c == backend.PlanCancel && before == backend.TaskRunning:
				t.Stop = true
				put(l, tasks, r.key, t)
				continue
			case c == backend.PlanCancel && (before == backend.TaskQueued || before == backend.TaskFailed):
				t.State, t.Ended = backend.TaskCancelled, l.now()
			case c == backend.PlanSkip && before == backend.TaskDead:
				t.State, t.Given = backend.TaskSkipped, false
			case c == backend.PlanRetry && before == backend.TaskDead:
				t.State, t.Attempts, t.Given, t.Ended = backend.TaskQueued, 0, false, time.Time{}
			default:
				continue
			}
			l.setTask(&p, numberAt(r.key, 16), t, before)
			changed++
		}
		return nil
	})
	return changed, busy, err
}

// ExtendTasks implements [backend.Backend].
func (h *Handle) ExtendTasks(
	ctx context.Context, holds []backend.TaskHold, d time.Duration,
) (stop []backend.ID, err error) {
	lost := false
	err = h.view(ctx, func(l *look) error {
		for _, hold := range holds {
			_, _, t, ok := l.task(hold.Plan, hold.Task)
			if !ok || t.State != backend.TaskRunning || !l.extend(t.Lease, hold.Fence, d) {
				lost = true
			} else if t.Stop {
				stop = append(stop, hold.Task)
			}
		}
		return nil
	})
	if err == nil && lost {
		err = backend.ErrFenced
	}
	return stop, err
}

// Progress implements [backend.Backend].
func (h *Handle) Progress(ctx context.Context, name string) (v backend.Progress, err error) {
	err = h.view(ctx, func(l *look) error {
		p, ok := get(l, plans, key(name))
		if !ok {
			return backend.ErrNoPlan
		}
		v = p.progress()
		return nil
	})
	return v, err
}

// Plans implements [backend.Backend].
func (h *Handle) Plans(ctx context.Context, name string) (all []backend.PlanStatus, err error) {
	err = h.view(ctx, func(l *look) error {
		if name != "" && !has(l, plans, key(name)) {
			return backend.ErrNoPlan
		}
		for k, p := range scan(l, plans, key(name)) {
			if name == "" || name == string(k) {
				all = append(all, backend.PlanStatus{
					Name: string(k), Progress: p.progress(), Counts: p.Counts, Error: p.Error, Options: p.Options,
				})
			}
		}
		return nil
	})
	return all, err
}

// TaskLog implements [backend.Backend].
func (h *Handle) TaskLog(ctx context.Context, q backend.TaskQuery) (page []backend.TaskStatus, err error) {
	err = h.view(ctx, func(l *look) error {
		if known := q.Plan != "" && has(l, plans, key(q.Plan)); !known && !(q.Plan == "" && q.Running) {
			return backend.ErrNoPlan
		}
		after := q.After.IsZero()
		for k, p := range scan(l, plans, key(q.Plan)) {
			if q.Plan != "" && q.Plan != string(k) {
				continue
			}
			for _, t := range scan(l, tasks, key(p.ID)) {
				if after && len(page) < limited(q.Limit) && (!q.Running || t.State == backend.TaskRunning) {
					page = append(page, t.TaskStatus)
				}
				after = after || t.ID == q.After
			}
		}
		return nil
	})
	return page, err
}
