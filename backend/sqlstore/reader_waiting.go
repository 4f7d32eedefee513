package sqlstore

import (
	"context"
	"database/sql"

	"github.com/parleymq/parley/backend"
)

// The parts of the list of waiting messages. A message moves from the first two to the last two, so none is missed that
// does while the list is read.
const (
	partDelayed = 1 + iota
	partWithheld
	partStreams
	partPosts // without key
)

// waitingPart is how a part is read. Its key is an ID, or a stream and a number. Then within reads the rest of a stream,
// and after what follows it, so that each reads a range of the primary key.
type waitingPart struct {
	state         string
	within, after *Stmt
}

// beforeAll is the greatest ID that an engine may give to its own rows: see the end of PostgreSQL's 001_tables.sql.
var beforeAll = backend.ID{14: 0xff, 15: 0xff}

// Waiting implements backend.Reader.
func (s *Store) Waiting(ctx context.Context, after backend.Place, limit int) (list []backend.WaitingMessage, err error) {
	parts := [...]waitingPart{
		partDelayed:  {"delayed", nil, s.q.ListLater},
		partWithheld: {"withheld", s.q.ListHeldIn, s.q.ListHeld},
		partStreams:  {"waiting", s.q.ListMessagesIn, s.q.ListMessages},
		partPosts:    {"waiting", nil, s.q.ListPostsByID},
	}
	if limit = max(limit, 1); after.Part < partDelayed {
		after = backend.Place{Part: partDelayed}
	}
	err = s.reading(ctx, func(r run) error {
		for ; after.Part < len(parts) && len(list) < limit; after = (backend.Place{Part: after.Part + 1}) {
			p := parts[after.Part]
			read := func(q *Stmt, key ...any) error {
				return r.Rows(ctx, func(rows *sql.Rows) error {
					m := backend.WaitingMessage{State: p.state, Place: backend.Place{Part: after.Part}}
					var queue sql.NullInt64
					err := rows.Scan(ID(&m.Place.ID), &m.Place.Seq, ID(&m.ID), ID(&m.Stream), ID(&m.Group), &queue, Text(&m.Type), Text(&m.Headers))
					m.Queue = queue.Int64
					list = append(list, m)
					return err
				}, q, append(key, limit-len(list))...)
			}
			if p.within != nil && !after.ID.IsZero() {
				if err := read(p.within, after.ID, after.Seq); err != nil || len(list) == limit {
					return err
				}
			}
			if after.ID.IsZero() {
				after.ID = beforeAll
			}
			if err := read(p.after, after.ID); err != nil {
				return err
			}
		}
		return nil
	})
	return list, err
}
