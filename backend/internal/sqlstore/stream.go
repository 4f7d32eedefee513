package sqlstore

import (
	"context"
	"database/sql"

	"github.com/parleymq/parley/backend"
)

// stream is a row of the table stream.
type stream struct {
	id       backend.ID
	kind     int64
	group    backend.ID // its home; none until the target is there
	queue    int64
	endpoint backend.ID // that receives; none for a key
	priority int
	next     int64
	closed   bool // its sender has ended
	held     bool // messages wait for the target

	// What else a sender depends on.
	enabled  bool // the home's queue
	closings int64
	version  int64 // of the catalog
}

// stream reads a stream, nil if there is none. Its sender holds the guard.
func (r run) stream(ctx context.Context, id backend.ID) (*stream, error) {
	s := stream{id: id}
	var queue sql.NullInt64
	found, err := r.Row(ctx, []any{&s.kind, ID(&s.group), &queue, ID(&s.endpoint), &s.priority, &s.next,
		Bool(&s.closed), Bool(&s.held), Bool(&s.enabled), &s.closings, &s.version}, r.s.q.StreamRead, id)
	if err != nil || !found {
		return nil, err
	}
	s.queue = queue.Int64
	return &s, nil
}

func (t *Tx) putStream(ctx context.Context, s stream) error {
	var queue any
	if s.queue != 0 {
		queue = s.queue
	}
	_, err := t.Exec(ctx, t.s.q.StreamInsert, s.id, s.kind, null(s.group), queue, null(s.endpoint),
		s.priority, s.next, s.closed)
	return err
}

// mark puts a stream into the ready order unless it is there.
func (t *Tx) mark(ctx context.Context, s stream) error {
	_, err := t.Exec(ctx, t.s.q.MarkerInsert, s.queue, s.group, s.id, s.priority)
	return err
}

// guard takes the guard of a stream without waiting and then reads it. It
// returns nil if there is no such stream.
func (t *Tx) guard(ctx context.Context, id backend.ID) (*stream, error) {
	locked, err := t.TryLock(ctx, t.s.q.GuardTry, id)
	if err != nil {
		return nil, err
	}
	s, err := t.stream(ctx, id)
	if err == nil && s != nil && !locked {
		err = backend.ErrStreamBusy
	}
	return s, err
}
