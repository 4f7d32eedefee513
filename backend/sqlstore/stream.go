package sqlstore

import (
	"context"
	"database/sql"

	"github.com/parleymq/parley/backend"
)

// Stream is a row of the table stream.
type Stream struct {
	ID       backend.ID
	Kind     int64
	Group    backend.ID // its home; none until the target is there
	Queue    int64
	Endpoint backend.ID // that receives; none for a key
	Priority int
	Next     int64
	Closed   bool // its sender has ended
	Sealed   bool // its sender has sent its last message
	Held     bool // messages wait for the target

	reranked bool // the priority is not yet that of the row

	// What else a sender depends on.
	Enabled  bool // the home's queue
	Closings int64
	Version  int64 // of the catalog
}

// Scan reads the id and then the columns of StreamRead.
func (s *Stream) Scan(rows *sql.Rows) error {
	return rows.Scan(ID(&s.ID), &s.Kind, ID(&s.Group), Int(&s.Queue), ID(&s.Endpoint), &s.Priority, &s.Next,
		closing(&s.Closed, &s.Sealed), Bool(&s.Held), Bool(&s.Enabled), Witness(&s.Closings), Witness(&s.Version))
}

// The values of the column closed; 0 is open.
const (
	streamEnded  = 1
	streamSealed = 2
)

// closing makes the column closed a destination for Scan.
func closing(ended, sealed *bool) any { return closingDest{ended, sealed} }

type closingDest struct{ ended, sealed *bool }

func (d closingDest) Scan(src any) error {
	var n int64
	err := intDest[int64]{&n}.Scan(src)
	*d.ended, *d.sealed = n == streamEnded, n == streamSealed
	return err
}

// stream reads a stream, nil if there is none. Its sender holds the guard.
func (r run) stream(ctx context.Context, id backend.ID) (*Stream, error) {
	s := Stream{ID: id}
	var queue sql.NullInt64
	found, err := r.Row(ctx, []any{&s.Kind, ID(&s.Group), &queue, ID(&s.Endpoint), &s.Priority, &s.Next,
		closing(&s.Closed, &s.Sealed), Bool(&s.Held), Bool(&s.Enabled), Witness(&s.Closings), Witness(&s.Version)}, r.s.q.StreamRead, id)
	if err != nil || !found {
		return nil, err
	}
	s.Queue = queue.Int64
	return &s, nil
}

func (t *Tx) putStream(ctx context.Context, s Stream) error {
	var queue any
	if s.Queue != 0 {
		queue = s.Queue
	}
	_, err := t.Exec(ctx, t.s.q.StreamInsert, s.ID, s.Kind, Null(s.Group), queue, Null(s.Endpoint),
		s.Priority, s.Next, s.Closed)
	return err
}

// mark puts a stream into the ready order unless it is there.
func (t *Tx) mark(ctx context.Context, s Stream) error {
	_, err := t.Exec(ctx, t.s.q.MarkerInsert, s.Queue, s.Group, s.ID, s.Priority)
	return err
}

// TryStream implements backend.Tx.
func (t *Tx) TryStream(ctx context.Context, handle backend.ID) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	s, err := t.guard(ctx, handle)
	if err == nil && s == nil {
		err = backend.ErrNoConversation
	}
	return err
}

// guard takes the guard of a stream without waiting and then reads it. It
// returns nil if there is no such stream.
func (t *Tx) guard(ctx context.Context, id backend.ID) (*Stream, error) {
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
