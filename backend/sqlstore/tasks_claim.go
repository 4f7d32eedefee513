package sqlstore

import (
	"context"
	"database/sql"
	"slices"

	"github.com/parleymq/parley/backend"
)

// ClaimTasks implements backend.TxTasks.
func (t *Tx) ClaimTasks(ctx context.Context, c backend.TaskClaim) ([]backend.TaskHold, error) {
	if err := t.ready(ctx); err != nil {
		return nil, err
	}
	if err := t.s.versions.known(); err != nil {
		return nil, err
	}
	names := c.Plans
	if n := len(names); n > 1 {
		first := int(t.s.turns.Add(1) % uint64(n))
		names = slices.Concat(names[first:], names[:first])
	}
	if len(names) == 0 {
		err := t.look(ctx, func(r run) error {
			return r.Rows(ctx, func(rows *sql.Rows) error {
				var name string
				err := rows.Scan(&name)
				names = append(names, name)
				return err
			}, t.s.q.SchedulesReady)
		})
		if err != nil {
			return nil, err
		}
	}
	// Each gets its share, so that a long one does not starve the others; then
	// what is left goes to those that have more.
	var holds []backend.TaskHold
	more := make([]string, 0, len(names))
	for i, name := range names {
		share := (c.Max - len(holds) + len(names) - i - 1) / (len(names) - i)
		if share == 0 {
			break
		}
		got, err := t.claimTasks(ctx, name, share, c, len(names) > 1)
		if err != nil {
			return nil, err
		}
		holds = append(holds, got...)
		if len(got) == share {
			more = append(more, name)
		}
	}
	for _, name := range more {
		if len(names) == 1 || len(holds) >= c.Max {
			break
		}
		got, err := t.claimTasks(ctx, name, c.Max-len(holds), c, true)
		if err != nil {
			return nil, err
		}
		holds = append(holds, got...)
	}
	return holds, nil
}

// dueTask is a task that may be started.
type dueTask struct {
	id       backend.ID
	n        int64
	kind     string
	body     []byte
	state    int
	due      int64
	attempts int
	fence    int64
}

// claimTasks takes up to limit tasks of one schedule, none if another transaction has
// it locked. If it is one of several it goes to the end of their order.
func (t *Tx) claimTasks(ctx context.Context, name string, limit int, c backend.TaskClaim, several bool) ([]backend.TaskHold, error) {
	had, err := t.TryLock(ctx, t.s.q.ScheduleTry, name)
	if err != nil || !had {
		return nil, err
	}
	// Lock, then look.
	s, err := t.schedule(ctx, name)
	if err != nil || s == nil {
		return nil, err
	}
	if !s.phase.Valid || s.halted() {
		// Until something is submitted or retried.
		_, err := t.Exec(ctx, t.s.q.ScheduleRest, name)
		return nil, err
	}
	var due []dueTask
	err = t.Rows(ctx, func(rows *sql.Rows) error {
		var d dueTask
		err := rows.Scan(ID(&d.id), &d.n, &d.kind, Body(&d.body), &d.state, &d.due, &d.attempts, &d.fence)
		due = append(due, d)
		return err
	}, t.s.q.TasksDue, s.id, s.phase.Int64, limit)
	if err != nil {
		return nil, err
	}

	// More may run as long as there are fewer than MaxActive; one whose worker is
	// gone counts already.
	room := limit
	if m := s.options.MaxActive; m > 0 {
		room = min(room, max(0, m-s.alive))
	}
	due = due[:min(room, len(due))]
	var holds []backend.TaskHold
	fresh := 0
	for fresh < len(due) && due[fresh].due == 0 {
		fresh++
	}
	if fresh > 0 {
		n, err := t.startFresh(ctx, c, s.id, s.phase.Int64, due[:fresh])
		if err != nil {
			return nil, err
		}
		if int(n) != fresh { // a transaction without the schedule's lock has changed it
			return nil, backend.ErrSerialization
		}
	}
	for i, d := range due {
		if i >= fresh {
			started, err := t.startTask(ctx, d, c)
			if err != nil {
				return nil, err
			}
			if !started {
				continue
			}
		}
		holds = append(holds, backend.TaskHold{
			Plan: name, Task: d.id, Phase: int(s.phase.Int64), Type: d.kind, Body: d.body,
			Attempt: d.attempts + 1, Fence: d.fence + 1, MaxAttempts: max(1, s.options.MaxAttempts),
		})
	}
	if len(holds) > 0 && (several || s.latest < s.phase.Int64) {
		_, err = t.Exec(ctx, t.s.q.ScheduleServed, s.phase.Int64, s.phase.Int64, name)
	}
	return holds, err
}

// startFresh starts tasks that were never claimed.
func (t *Tx) startFresh(ctx context.Context, c backend.TaskClaim, schedule backend.ID, phase int64, due []dueTask) (int64, error) {
	if t.s.d.StartTasks == nil {
		return t.Exec(ctx, t.s.q.TasksStart, c.Owner, c.Lease, schedule, phase, due[0].n, due[len(due)-1].n)
	}
	ids := make([]backend.ID, len(due))
	for i, d := range due {
		ids[i] = d.id
	}
	return t.s.d.StartTasks(ctx, t, c, ids)
}

// startTask starts a task that a worker had in hand. It does not if that worker, whose lease has
// ended, still has the task locked by its transaction.
func (t *Tx) startTask(ctx context.Context, d dueTask, c backend.TaskClaim) (bool, error) {
	had, err := t.TryLock(ctx, t.s.q.TaskTry, d.id)
	if err != nil || !had {
		return false, err
	}
	now, err := t.task(ctx, d.id)
	if err != nil || !now.live || now.fence != d.fence || now.due > now.now {
		return false, err
	}
	n, err := t.Exec(ctx, t.s.q.TaskStart, c.Owner, c.Lease, d.id, d.fence)
	return n > 0, err
}
