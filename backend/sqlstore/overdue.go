package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/parleymq/parley/backend"
)

// falling is a kind of rows that fall due. The function firsts returns the queues that may have
// some, with the time until the first row of each is due. Then page returns the due rows of one
// queue behind a place, and move carries them out.
type falling struct {
	job    backend.Job
	firsts *Stmt
	page   *Stmt
	kind   []any // what both statements take first, per mention of the table
	whole  bool  // there are no queues: all is one
	move   func(ctx context.Context, w *overdue, queue int64, rows []dueRow) (moved int, err error)
}

// dueRow is a row that is due: a post, with its key if it has one, or the endpoint of
// a timer.
type dueRow struct {
	id    backend.ID
	due   int64
	key   string
	queue int64
}

// overdue is a walk through due rows, queue by queue, in the order in which they are due. It
// continues behind rows that others have locked, also from one call to the next. So those rows hide
// nothing, and are tried once in a walk.
type overdue struct {
	queues []dueQueue   // in turn
	busy   map[Key]bool // keys of which a post could not join: the later ones wait
	moved  bool
	began  time.Time
}

// dueQueue is how far a walk has come in a queue.
type dueQueue struct {
	queue int64
	due   int64
	id    backend.ID
}

const (
	// duePage is how many rows the statements of a page return at most.
	duePage = 100
	// dueLooks is how many rows one call looks at, most of which are locked.
	dueLooks = 2000
	// dueAgain is when a walk that makes progress begins again: what became visible
	// behind it comes in its turn then.
	dueAgain = time.Second
)

// maintainFalling has about limit things happen that are due.
func (s *Store) maintainFalling(ctx context.Context, f falling, limit int) (done backend.Maintained, err error) {
	w := s.walkOf(f.job)
	if w == nil {
		if w, done.Next, err = s.beginWalk(ctx, f); err != nil {
			return done, err
		}
		if len(w.queues) == 0 {
			s.stalled(f.job, false)
			return done, nil
		}
	}
	looks := 0
	for len(w.queues) > 0 && done.Moved < limit && looks < dueLooks {
		q := w.queues[0]
		w.queues = w.queues[1:]
		most := min(max(limit/(len(w.queues)+1), 10), limit-done.Moved, duePage)
		rows, err := s.duePage(ctx, f, q, most)
		if err != nil {
			return done, err
		}
		if len(rows) == 0 {
			continue
		}
		n, err := f.move(ctx, w, q.queue, rows)
		done.Moved, looks = done.Moved+n, looks+len(rows)
		if n > 0 {
			for _, row := range rows {
				done.In(row.queue)
			}
		}
		if err != nil {
			return done, err
		}
		if len(rows) == most {
			last := rows[most-1]
			w.queues = append(w.queues, dueQueue{q.queue, last.due, last.id})
		}
	}
	w.moved = w.moved || done.Moved > 0
	if len(w.queues) > 0 {
		if !w.moved || time.Since(w.began) < dueAgain {
			s.mu.Lock()
			s.overdue[f.job] = w
			s.mu.Unlock()
		}
		done.Next = soon
		return done, nil
	}
	left, next, err := s.beginWalk(ctx, f)
	if err != nil {
		return done, err
	}
	if pause := s.stalled(f.job, len(left.queues) > 0 && !w.moved); len(left.queues) > 0 && (next == 0 || pause < next) {
		next = pause
	}
	done.Next = next
	return done, nil
}

// walkOf returns the walk that goes on, if there is one. It is the caller's alone.
func (s *Store) walkOf(job backend.Job) (w *overdue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, s.overdue[job] = s.overdue[job], nil
	return w
}

// beginWalk begins a walk with the queues where something is due, and returns in how
// long something falls due in the others.
func (s *Store) beginWalk(ctx context.Context, f falling) (w *overdue, next time.Duration, err error) {
	w = &overdue{busy: map[Key]bool{}, began: time.Now()}
	err = s.reading(ctx, func(r run) error {
		return r.firsts(ctx, f.firsts, f.kind, func(queue int64, in time.Duration) {
			if in <= 0 {
				w.queues = append(w.queues, dueQueue{queue: queue})
			} else if next == 0 || in < next {
				next = in
			}
		})
	})
	if next > 0 {
		next = max(next, soon)
	}
	return w, next, err
}

// firsts calls see for each queue with the time until the first of its rows is due.
func (r run) firsts(ctx context.Context, q *Stmt, args []any, see func(queue int64, in time.Duration)) error {
	return r.Rows(ctx, func(rows *sql.Rows) error {
		var queue int64
		var us sql.NullInt64
		if err := rows.Scan(&queue, &us); err != nil {
			return err
		}
		if us.Valid {
			see(queue, time.Duration(us.Int64)*time.Microsecond)
		}
		return nil
	}, q, args...)
}

// duePage reads up to most rows that come next in a queue.
func (s *Store) duePage(ctx context.Context, f falling, q dueQueue, most int) (list []dueRow, err error) {
	args := append([]any{}, f.kind...)
	if !f.whole {
		args = append(args, q.queue, q.queue) // it may have been disabled meanwhile
	}
	args = append(args, q.due, q.due, q.id)
	err = s.reading(ctx, func(r run) error {
		return r.Rows(ctx, func(rows *sql.Rows) error {
			if len(list) == most {
				return errEnough
			}
			var d dueRow
			err := rows.Scan(ID(&d.id), &d.due, Text(&d.key), &d.queue)
			list = append(list, d)
			return err
		}, f.page, args...)
	})
	return list, err
}

// unlocked does something, in one transaction, with those of the rows that it can lock
// at once. It returns how many of them were moved by that.
func (s *Store) unlocked(ctx context.Context, rows []dueRow, try *Stmt, kind []any,
	do func(tx *Tx, id backend.ID) (moved bool, err error),
) (moved int, err error) {
	err = s.atomically(ctx, func(tx *Tx) error {
		for _, row := range rows {
			locked, err := tx.TryLock(ctx, try, append([]any{row.id}, kind...)...)
			if err != nil {
				return err
			}
			if !locked {
				continue
			}
			done, err := do(tx, row.id)
			if err != nil {
				return err
			}
			if done {
				moved++
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return moved, nil
}

// dueGroups is where it is kept how long to leave due groups that are locked; what is
// kept for their maintenance job is for posts.
const dueGroups = backend.Job(backend.JobCount)

// stalled returns when to look again at what is due but locked: ever later while there
// is nothing else.
func (s *Store) stalled(job backend.Job, still bool) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	pause := max(s.stall[job], soon)
	s.stall[job] = 0
	if still {
		s.stall[job] = min(2*pause, time.Second)
	}
	return pause
}
