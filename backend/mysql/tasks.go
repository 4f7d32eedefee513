package mysql

import (
	"context"
	"database/sql"
	"slices"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// submit adds tasks to a schedule, many in one statement.
func (p *pool) submit(ctx context.Context, tx *sqlstore.Tx, schedule backend.ID, first int64, caller string, tasks []backend.NewTask) error {
	if len(tasks) == 0 {
		return nil
	}
	rows := make(tuples, len(tasks))
	for i, t := range tasks {
		rows[i] = []any{t.ID, schedule, first + int64(i), t.Phase, t.Type, t.Body, caller, expression(now)}
	}
	return insertRows(ctx, tx, p.hot.Submit, rows, 5)
}

// start starts tasks that were never claimed.
func (p *pool) start(ctx context.Context, tx *sqlstore.Tx, c backend.TaskClaim, tasks []backend.ID) (int64, error) {
	return execAll(ctx, tx, p.hot.Start, tasks, c.Owner, c.Lease)
}

// finishTasks stores the outcome of tasks, in two statements: no server returns the
// rows that an UPDATE has found.
func (p *pool) finishTasks(ctx context.Context, tx *sqlstore.Tx, ends []backend.TaskEnd) (lost []backend.ID, err error) {
	for some := range slices.Chunk(ends, most) {
		fences := either{columns: []string{"task_id", "fence"}}
		for _, e := range some {
			fences.rows = append(fences.rows, []any{e.Hold.Task, e.Hold.Fence})
		}
		held := make(map[backend.ID]int64)
		err := tx.Rows(ctx, func(rows *sql.Rows) error {
			var id backend.ID
			var fence int64
			err := rows.Scan(sqlstore.ID(&id), &fence)
			held[id] = fence
			return err
		}, p.hot.HoldTasks, fences)
		if err != nil {
			return nil, err
		}
		var ours []backend.TaskEnd
		for _, e := range some {
			if fence, ok := held[e.Hold.Task]; !ok || fence != e.Hold.Fence {
				lost = append(lost, e.Hold.Task)
				continue
			}
			delete(held, e.Hold.Task) // it ends once
			ours = append(ours, e)
		}
		if err := p.finishHeld(ctx, tx, ours); err != nil {
			return nil, err
		}
	}
	return lost, nil
}

// finishHeld stores the outcome of tasks whose rows are locked.
func (p *pool) finishHeld(ctx context.Context, tx *sqlstore.Tx, ends []backend.TaskEnd) error {
	if len(ends) == 0 {
		return nil
	}
	tasks := make(ids, len(ends))
	for i, e := range ends {
		tasks[i] = e.Hold.Task
	}
	by := func() choice { return choice{"task_id", tasks, make([]any, len(ends))} }
	state, live, due, back, text := by(), by(), by(), by(), by()
	for i, e := range ends {
		to, err := sqlstore.TaskEnds(e.Outcome.State)
		if err != nil {
			return err
		}
		state.then[i], text.then[i] = to, e.Outcome.Error
		live.then[i], due.then[i], back.then[i] = 0, after(e.Outcome.Delay), 0
		if !e.Outcome.State.Terminal() {
			live.then[i] = 1
		}
		if e.Outcome.State == backend.TaskQueued {
			due.then[i], back.then[i] = 1, 1 // see TaskReturn
		}
	}
	_, err := tx.Exec(ctx, p.hot.FinishTasks, state, live, due, back, text, tasks)
	return err
}
