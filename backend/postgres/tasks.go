package postgres

import (
	"context"
	"slices"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// submitMany is how many tasks go into one statement.
const submitMany = 1000

// submit adds tasks to a schedule, many in one statement.
func (p *pool) submit(ctx context.Context, tx *sqlstore.Tx, schedule backend.ID, first int64, caller string, tasks []backend.NewTask) error {
	for len(tasks) > 0 {
		some := tasks[:min(submitMany, len(tasks))]
		tasks = tasks[len(some):]
		ids, phases := make([]backend.ID, len(some)), make([]int, len(some))
		types, bodies := make([]string, len(some)), make([][]byte, len(some))
		for i, t := range some {
			ids[i], phases[i], types[i], bodies[i] = t.ID, t.Phase, t.Type, t.Body
		}
		_, err := tx.Exec(ctx, p.hot.Submit, schedule, first, caller, uuids(ids), ints(phases), texts(types), byteas(bodies))
		if err != nil {
			return err
		}
		first += int64(len(some))
	}
	return nil
}

// finishTasks stores the outcome of tasks, in one statement.
func (p *pool) finishTasks(ctx context.Context, tx *sqlstore.Tx, ends []backend.TaskEnd) (lost []backend.ID, err error) {
	n := len(ends)
	ids, errors := make([]backend.ID, n), make([]string, n)
	fences, delays := make([]int64, n), make([]int64, n)
	states, live := make([]int, n), make([]int, n)
	for i, e := range ends {
		if states[i], err = sqlstore.TaskEnds(e.Outcome.State); err != nil {
			return nil, err
		}
		if !e.Outcome.State.Terminal() {
			live[i] = 1
		}
		ids[i], fences[i], delays[i], errors[i] = e.Hold.Task, e.Hold.Fence, e.Outcome.Delay.Microseconds(), e.Outcome.Error
	}
	had, err := tx.IDs(ctx, p.hot.FinishTasks, uuids(ids), ints(fences), ints(states), ints(live), ints(delays), texts(errors))
	if err != nil || len(had) == n {
		return nil, err
	}
	return slices.DeleteFunc(ids, func(id backend.ID) bool { return slices.Contains(had, id) }), nil
}
