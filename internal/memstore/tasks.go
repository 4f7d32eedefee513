package memstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// schedule is a set of tasks in phases. All that it is to know about its
// progress is in the tasks.
type schedule struct {
	id      backend.ID
	options backend.PlanOptions
	sealed  bool
}

type taskKey struct {
	schedule string
	n        int64 // order of submission
}

func compareTaskKeys(a, b taskKey) int {
	return cmp.Or(cmp.Compare(a.schedule, b.schedule), cmp.Compare(a.n, b.n))
}

type task struct {
	backend.TaskStatus
	body  []byte
	lease *lease    // while it is running
	again time.Time // when failed: not before
	given bool      // NextFinished has returned it
	stop  bool      // an operator wants it to end
}

func taskLock(key taskKey) lock        { return lock{kind: lockTask, name: key.schedule, n: key.n} }
func scheduleLock(name string) lock    { return lock{kind: lockSchedule, name: name} }
func (s *Store) running(t task) bool   { return t.State == backend.TaskRunning && s.alive(t.lease) }
func (s *Store) abandoned(t task) bool { return t.State == backend.TaskRunning && !s.alive(t.lease) }

// list returns the tasks of a schedule in the order of submission.
func (s *Store) list(tx *Tx, name string) (keys []taskKey, tasks []task) {
	for key, t := range s.tasks.from(tx, taskKey{schedule: name}) {
		if key.schedule != name {
			break
		}
		keys, tasks = append(keys, key), append(tasks, t)
	}
	return keys, tasks
}

// Submit implements [backend.TxTasks]. It excludes ClaimTasks: a claim of a
// later phase and a submission to an earlier one must see each other.
func (tx *Tx) Submit(ctx context.Context, name string, o backend.PlanOptions, tasks []backend.NewTask) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	s := tx.store
	if s.fault != FaultSubmitUnlocked {
		if err := tx.lock(ctx, scheduleLock(name)); err != nil {
			return err
		}
	}
	sched, ok := s.schedules.get(tx, name)
	if !o.Existing.IsZero() && (!ok || sched.id != o.Existing) {
		return backend.ErrNoPlan
	}
	if !ok {
		sched = schedule{id: backend.NewID(), options: o}
	}
	if sched.sealed {
		return fmt.Errorf("%w: plan %q is sealed", backend.ErrPhaseClosed, name)
	}

	_, old := s.list(tx, name)
	for _, t := range tasks {
		if slices.ContainsFunc(old, func(o task) bool { return o.ID == t.ID }) {
			return fmt.Errorf("parley: memory: task %v is in plan %q already", t.ID, name)
		}
		late := slices.ContainsFunc(old, func(o task) bool { return !o.Started.IsZero() && o.Phase > t.Phase })
		if late && !sched.options.AcceptLate && s.fault != FaultLateAccepted {
			return backend.ErrPhaseClosed
		}
	}
	s.schedules.put(tx, name, sched)
	for _, t := range tasks {
		s.serial++
		s.tasks.put(tx, taskKey{name, s.serial}, task{body: bytes.Clone(t.Body), TaskStatus: backend.TaskStatus{
			Plan: name, ID: t.ID, Phase: t.Phase, Type: t.Type,
			State: backend.TaskQueued, Caller: o.Caller, Submitted: s.now(),
		}})
	}
	return nil
}

// ClaimTasks implements [backend.TxTasks].
func (tx *Tx) ClaimTasks(ctx context.Context, c backend.TaskClaim) ([]backend.TaskHold, error) {
	if err := tx.enter(ctx); err != nil {
		return nil, err
	}
	defer tx.leave()
	s := tx.store
	names := c.Plans
	if len(names) == 0 {
		names = s.schedules.keys(tx)
	}

	// What can run now, for each schedule that no transaction is submitting to.
	var ready [][]taskKey
	for _, name := range names {
		if s.schedules.has(tx, name) && tx.tryLock(scheduleLock(name)) {
			if keys := s.eligible(tx, name); len(keys) > 0 {
				ready = append(ready, keys)
			}
		}
	}
	ready = s.turn(ready)
	// One of each in turn, so that a long schedule does not starve the others.
	var holds []backend.TaskHold
	for round := 0; len(holds) < c.Max; round++ {
		taken := false
		for _, keys := range ready {
			if round < len(keys) && len(holds) < c.Max {
				holds = append(holds, s.start(tx, keys[round], c))
				taken = true
			}
		}
		if !taken {
			break
		}
	}
	return holds, nil
}

// turn rotates a list, so that of those that have something to do another
// schedule is the first of every claim.
func (s *Store) turn(ready [][]taskKey) [][]taskKey {
	if len(ready) == 0 || s.fault == FaultNoTurns {
		return ready
	}
	s.turns++
	first := s.turns % len(ready)
	return slices.Concat(ready[first:], ready[:first])
}

// eligible returns the tasks of a schedule that may start now.
func (s *Store) eligible(tx *Tx, name string) []taskKey {
	sched, _ := s.schedules.get(tx, name)
	keys, tasks := s.list(tx, name)

	active := 0
	for _, t := range tasks {
		if s.running(t) {
			active++
		}
	}
	var found []taskKey
	for i, t := range tasks {
		waits := t.State == backend.TaskQueued || t.State == backend.TaskFailed && !t.again.After(s.now())
		if s.abandoned(t) && s.locks[taskLock(keys[i])] == nil {
			waits = true // its worker is gone
		}
		if !waits || s.tasks.busy(tx, keys[i]) || !s.open(sched, tasks, i) {
			continue
		}
		if n := sched.options.MaxActive; n > 0 && active >= n && s.fault != FaultMaxActiveIgnored {
			break
		}
		active++
		found = append(found, keys[i])
	}
	return found
}

// open reports whether the i-th task may start: no task of a lower phase is
// other than terminal. It is computed from the tasks every time, so no death and no
// gap in the numbering can open a phase early.
func (s *Store) open(sched schedule, tasks []task, i int) bool {
	phase := tasks[i].Phase
	for j, t := range tasks {
		if t.Phase >= phase {
			continue
		}
		if s.fault == FaultBarrierOfEarlier && j > i {
			continue
		}
		if s.fault == FaultBarrierOneBelow && t.Phase < phase-1 {
			continue
		}
		if s.fault == FaultBarrierRunningOnly && t.State != backend.TaskRunning {
			continue
		}
		if s.fault == FaultAbandonedIsOver && s.abandoned(t) {
			continue
		}
		if !t.State.Terminal() {
			return false
		}
		if t.State == backend.TaskDead && !sched.options.Continue && s.fault != FaultHaltIgnored {
			return false
		}
	}
	return true
}

// start puts a task into a worker's hands.
func (s *Store) start(tx *Tx, key taskKey, c backend.TaskClaim) backend.TaskHold {
	t, _ := s.tasks.get(tx, key)
	now := s.now()
	s.fence++
	sched, _ := s.schedules.get(tx, key.schedule)
	t.State, t.Owner, t.Started, t.stop = backend.TaskRunning, c.Owner, now, false
	t.Attempts++
	t.lease = &lease{fence: s.fence, owner: c.Owner, length: c.Lease, since: now, until: now.Add(c.Lease)}
	tx.leases = append(tx.leases, t.lease)
	s.tasks.put(tx, key, t)
	return backend.TaskHold{
		Plan: key.schedule, Task: t.ID, Phase: t.Phase, Type: t.Type,
		Body: bytes.Clone(t.body), Attempt: t.Attempts, Fence: s.fence,
		MaxAttempts: max(1, sched.options.MaxAttempts),
	}
}

// find returns a task by its id.
func (s *Store) findTask(tx *Tx, name string, id backend.ID) (taskKey, task, bool) {
	keys, tasks := s.list(tx, name)
	for i, t := range tasks {
		if t.ID == id {
			return keys[i], t, true
		}
	}
	return taskKey{}, task{}, false
}

// lockTask takes a held task, by its fence. Once it is locked the end of its
// lease does not matter any more.
func (tx *Tx) lockTask(h backend.TaskHold) (taskKey, task, error) {
	s := tx.store
	key, t, ok := s.findTask(tx, h.Plan, h.Task)
	if ok && s.fault == FaultTaskFenceIgnored {
		return key, t, nil
	}
	if !ok || t.State != backend.TaskRunning || t.lease.fence != h.Fence {
		return key, t, backend.ErrFenced
	}
	if !tx.holdsLock(taskLock(key)) && (!s.alive(t.lease) || !tx.tryLock(taskLock(key))) {
		return key, t, backend.ErrFenced
	}
	return key, t, nil
}

// LockTask implements [backend.TxTasks].
func (tx *Tx) LockTask(ctx context.Context, h backend.TaskHold) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	_, _, err := tx.lockTask(h)
	return err
}

// FinishTask implements [backend.TxTasks].
func (tx *Tx) FinishTask(ctx context.Context, h backend.TaskHold, o backend.TaskOutcome) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	s := tx.store
	key, t, err := tx.lockTask(h)
	if err != nil {
		return err
	}
	now := s.now()
	t.State, t.Error, t.lease, t.Ended = o.State, o.Error, nil, now
	switch o.State {
	case backend.TaskFailed:
		t.again = now.Add(o.Delay)
	case backend.TaskQueued: // it was not tried
		t.Attempts--
		t.Ended = time.Time{}
	}
	s.tasks.put(tx, key, t)
	return nil
}

// FinishTasks implements [backend.TxTasks].
func (tx *Tx) FinishTasks(ctx context.Context, ends []backend.TaskEnd) (lost []backend.ID, err error) {
	for _, e := range ends {
		err := tx.FinishTask(ctx, e.Hold, e.Outcome)
		if errors.Is(err, backend.ErrFenced) {
			lost = append(lost, e.Hold.Task)
		} else if err != nil {
			return nil, err
		}
	}
	return lost, nil
}

// NextFinished implements [backend.TxTasks].
func (tx *Tx) NextFinished(ctx context.Context, name string, existing backend.ID) (*backend.TaskStatus, error) {
	if err := tx.enter(ctx); err != nil {
		return nil, err
	}
	defer tx.leave()
	s := tx.store
	if sched, ok := s.schedules.get(tx, name); !ok || !existing.IsZero() && sched.id != existing {
		return nil, backend.ErrNoPlan
	}
	keys, tasks := s.list(tx, name)
	next := -1
	for i, t := range tasks {
		// A task that is being given to another caller is not ours.
		if t.State.Terminal() && !t.given && !s.tasks.busy(tx, keys[i]) && (next < 0 || t.Ended.Before(tasks[next].Ended)) {
			next = i
		}
	}
	if next < 0 {
		return nil, nil
	}
	t := tasks[next]
	t.given = s.fault != FaultFinishedTwice
	s.tasks.put(tx, keys[next], t)
	return &t.TaskStatus, nil
}

// Control implements [backend.TxTasks].
func (tx *Tx) Control(ctx context.Context, name string, c backend.TaskControl, id backend.ID) (changed int, busy []backend.ID, err error) {
	if err := tx.enter(ctx); err != nil {
		return 0, nil, err
	}
	defer tx.leave()
	s := tx.store
	if err := tx.lock(ctx, scheduleLock(name)); err != nil {
		return 0, nil, err
	}
	sched, ok := s.schedules.get(tx, name)
	if !ok {
		if c == backend.PlanDelete {
			return 0, nil, nil
		}
		return 0, nil, backend.ErrNoPlan
	}
	keys, tasks := s.list(tx, name)
	switch c {
	case backend.PlanSeal:
		sched.sealed = true
		s.schedules.put(tx, name, sched)
		return 0, nil, nil
	case backend.PlanDelete:
		for _, key := range keys {
			s.tasks.delete(tx, key)
		}
		s.schedules.delete(tx, name)
		return len(keys), nil, nil
	}

	for i, t := range tasks {
		if !id.IsZero() && t.ID != id {
			continue
		}
		running := c == backend.PlanCancel && t.State == backend.TaskRunning
		if s.tasks.busy(tx, keys[i]) {
			if running {
				busy = append(busy, t.ID)
			}
			continue
		}
		if running {
			t.stop = s.fault != FaultStopUntold
			s.tasks.put(tx, keys[i], t)
			continue
		}
		if !controlled(&t, c, s.now()) {
			continue
		}
		s.tasks.put(tx, keys[i], t)
		changed++
	}
	return changed, busy, nil
}

// controlled changes a task as an operator wishes and reports whether the wish
// fits it.
func controlled(t *task, c backend.TaskControl, now time.Time) bool {
	switch {
	case c == backend.PlanCancel && (t.State == backend.TaskQueued || t.State == backend.TaskFailed):
		t.State, t.Ended = backend.TaskCancelled, now
	case c == backend.PlanSkip && t.State == backend.TaskDead:
		t.State, t.given = backend.TaskSkipped, false
	case c == backend.PlanRetry && t.State == backend.TaskDead:
		t.State, t.Attempts, t.given, t.Ended = backend.TaskQueued, 0, false, time.Time{}
	default:
		return false
	}
	return true
}

// ExtendTasks implements [backend.Tasks].
func (h *Handle) ExtendTasks(ctx context.Context, holds []backend.TaskHold, d time.Duration) (stop []backend.ID, err error) {
	if err := h.enterMigrated(ctx); err != nil {
		return nil, err
	}
	defer h.leave()
	s := h.store
	for _, hold := range holds {
		key, t, ok := s.findTask(nil, hold.Plan, hold.Task)
		if !ok || t.State != backend.TaskRunning || t.lease.fence != hold.Fence || !s.alive(t.lease) && s.locks[taskLock(key)] == nil {
			err = backend.ErrFenced
			continue
		}
		t.lease.until = s.now().Add(d)
		if t.stop {
			stop = append(stop, hold.Task)
		}
	}
	return stop, err
}

// Progress implements [backend.Tasks].
func (h *Handle) Progress(ctx context.Context, name string) (backend.Progress, error) {
	if err := h.enterMigrated(ctx); err != nil {
		return backend.Progress{}, err
	}
	defer h.leave()
	if !h.store.schedules.has(nil, name) {
		return backend.Progress{}, backend.ErrNoPlan
	}
	return h.store.scheduleStatus(name).Progress, nil
}

// Schedules implements [backend.Tasks].
func (h *Handle) Plans(ctx context.Context, name string) ([]backend.PlanStatus, error) {
	if err := h.enterMigrated(ctx); err != nil {
		return nil, err
	}
	defer h.leave()
	s := h.store
	names := []string{name}
	if name == "" {
		names = s.schedules.keys(nil)
	} else if !s.schedules.has(nil, name) {
		return nil, backend.ErrNoPlan
	}
	var list []backend.PlanStatus
	for _, name := range names {
		list = append(list, s.scheduleStatus(name))
	}
	return list, nil
}

func (s *Store) scheduleStatus(name string) backend.PlanStatus {
	sched, _ := s.schedules.get(nil, name)
	_, tasks := s.list(nil, name)
	status := backend.PlanStatus{
		Name: name, Options: sched.options, Counts: make(map[backend.TaskState]int),
		Progress: backend.Progress{ID: sched.id, Sealed: sched.sealed, Over: true},
	}
	var failed time.Time
	lowest, dead := 0, false
	for _, t := range tasks {
		status.Counts[t.State]++
		if t.State == backend.TaskDead && (!dead || t.Phase < lowest) {
			lowest, dead = t.Phase, true
		}
		if t.State == backend.TaskRunning {
			status.Running++
		}
		if !t.State.Terminal() && (status.Over || t.Phase < status.Phase) {
			status.Phase, status.Over = t.Phase, false
		}
		if t.Error != "" && !t.Ended.Before(failed) {
			status.Error, failed = t.Error, t.Ended
		}
	}
	status.Halted = dead && !sched.options.Continue && (status.Over || lowest < status.Phase)
	return status
}

// TaskLog implements [backend.Tasks].
func (h *Handle) TaskLog(ctx context.Context, q backend.TaskQuery) ([]backend.TaskStatus, error) {
	if err := h.enterMigrated(ctx); err != nil {
		return nil, err
	}
	defer h.leave()
	s := h.store
	names := []string{q.Plan}
	if q.Plan == "" && q.Running {
		names = s.schedules.keys(nil)
	} else if !s.schedules.has(nil, q.Plan) {
		return nil, backend.ErrNoPlan
	}
	var list []backend.TaskStatus
	found := q.After.IsZero()
	for _, name := range names {
		_, tasks := s.list(nil, name)
		for _, t := range tasks {
			if found && len(list) < limited(q.Limit) && (!q.Running || t.State == backend.TaskRunning) {
				list = append(list, t.TaskStatus)
			}
			found = found || t.ID == q.After
		}
	}
	return list, nil
}
