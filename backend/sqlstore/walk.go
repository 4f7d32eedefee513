package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/parleymq/parley/backend"
)

// A slow walk goes through a whole table by id, a page at a time, to find the few rows that are
// over. All processes share a pass: each goes on where the last has stopped. The process whose turn
// it is continues soon, and the others at their usual times. So the load does not grow with their
// number.
//
// With n rows a pass takes n/walkSize pauses. A pause is walkPace, or longer where a
// page takes long: then looking takes one part in walkShare of the time.
const (
	// walkSize is how many rows a page has; a dialect's statement may have it in its
	// text.
	walkSize  = 1000
	walkPace  = 400 * time.Millisecond
	walkShare = 50
	// walkTurn is how long a turn lasts beyond the next page.
	walkTurn = 10 * time.Second
)

// walk looks at the next page of a maintenance job's table and removes what q marks. It returns the
// time until the next page: zero at the end of a pass, and if it is another process's turn.
func (s *Store) walk(ctx context.Context, job backend.Job, q *Stmt, limit int,
	remove func(tx *Tx, id backend.ID) (bool, error),
) (moved int, next time.Duration, err error) {
	var from, last backend.ID
	var ids []backend.ID
	seen := 0
	began := time.Now()
	err = s.reading(ctx, func(r run) error {
		if _, err := r.Row(ctx, []any{ID(&from)}, s.q.WalkPlace, int(job)); err != nil {
			return err
		}
		return r.Rows(ctx, func(rows *sql.Rows) error {
			var hit int
			err := rows.Scan(ID(&last), &hit)
			if hit != 0 {
				ids = append(ids, last)
			}
			seen++
			return err
		}, q, from, walkSize)
	})
	if err != nil {
		return 0, 0, err
	}
	pause := max(walkPace, (walkShare-1)*time.Since(began))
	moved, tried, err := s.removeEach(ctx, ids, limit, remove)
	if err != nil {
		return moved, 0, err
	}
	switch {
	case tried < len(ids):
		last = ids[tried-1]
	case seen < walkSize:
		last, pause = backend.ID{}, 0
	}
	if last == from { // a table of one page
		return moved, 0, nil
	}
	mine, err := s.walked(ctx, job, from, last, pause+walkTurn)
	if !mine {
		pause = 0
	}
	return moved, pause, err
}

// walked tells the other processes how far the walk has come. It reports whether it is
// this one's turn, which lasts for some time then.
func (s *Store) walked(ctx context.Context, job backend.Job, from, last backend.ID, turn time.Duration,
) (mine bool, err error) {
	err = s.atomically(ctx, func(tx *Tx) error {
		n, err := tx.Exec(ctx, s.q.WalkPut, last, s.id, turn, int(job), s.id)
		if mine = n > 0; err != nil || mine {
			return err
		}
		_, err = tx.Exec(ctx, s.q.WalkStep, last, int(job), from)
		return err
	})
	return mine && err == nil, err
}

// removeEach removes things, each in a separate transaction, until limit are gone. It
// returns how many went and how many it has tried.
func (s *Store) removeEach(ctx context.Context, ids []backend.ID, limit int,
	remove func(tx *Tx, id backend.ID) (bool, error),
) (moved, tried int, err error) {
	for _, id := range ids {
		removed := false
		err := s.atomically(ctx, func(tx *Tx) (err error) {
			removed, err = remove(tx, id)
			return err
		})
		if err != nil {
			return moved, tried, err
		}
		if tried++; removed {
			if moved++; moved >= limit {
				break
			}
		}
	}
	return moved, tried, nil
}
