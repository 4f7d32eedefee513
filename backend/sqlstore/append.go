package sqlstore

import (
	"context"
	"database/sql"
	"slices"

	"github.com/parleymq/parley/backend"
)

// Batch is what is appended to streams whose guards are the transaction's.
type Batch struct {
	Messages []Appended
	Streams  []*Stream // each once, in the order of their first messages; Next counts these

	has map[*Stream]bool
}

// Appended is a message for a stream.
type Appended struct {
	Stream  *Stream
	Seq     int64
	ID      backend.ID
	Kind    int64
	Type    string
	Body    []byte
	Headers string
}

// add gives the stream a message and counts its numbers on.
func (b *Batch) add(s *Stream, id backend.ID, kind int64, typ string, body []byte, headers string) {
	if !b.has[s] {
		if b.has == nil {
			b.has = make(map[*Stream]bool)
		}
		b.has[s] = true
		b.Streams = append(b.Streams, s)
	}
	b.Messages = append(b.Messages, Appended{s, s.Next, id, kind, typ, body, headers})
	s.Next++
}

// Parts are batches of at most so many streams, each with all that the batch has for them.
func (b *Batch) Parts(streams int) []Batch {
	if len(b.Streams) <= streams {
		return []Batch{*b}
	}
	var parts []Batch
	in := make(map[*Stream]int, len(b.Streams))
	for some := range slices.Chunk(b.Streams, streams) {
		for _, s := range some {
			in[s] = len(parts)
		}
		parts = append(parts, Batch{Streams: some})
	}
	for _, m := range b.Messages {
		p := &parts[in[m.Stream]]
		p.Messages = append(p.Messages, m)
	}
	return parts
}

// append writes a batch: the messages, the streams' next numbers, and their
// entries in the ready order.
func (t *Tx) append(ctx context.Context, b *Batch) error {
	if t.s.d.Append != nil {
		return t.s.d.Append(ctx, t, b)
	}
	for _, m := range b.Messages {
		if _, err := t.Exec(ctx, t.s.q.MessageInsert, m.Stream.ID, m.Seq, m.ID, m.Kind, m.Type, m.Body, NullText(m.Headers), nil); err != nil {
			return err
		}
	}
	for _, s := range b.Streams {
		if _, err := t.Exec(ctx, t.s.q.StreamAdvance, s.Next, s.ID); err != nil {
			return err
		}
		if s.reranked {
			if _, err := t.Exec(ctx, t.s.q.StreamRank, s.Priority, s.ID); err != nil {
				return err
			}
		}
		if err := t.mark(ctx, *s); err != nil {
			return err
		}
	}
	return nil
}

// Streams returns what a statement reads of streams, as Stream.Scan wants it.
func (t *Tx) Streams(ctx context.Context, q *Stmt, args ...any) (map[backend.ID]*Stream, error) {
	streams := make(map[backend.ID]*Stream)
	err := t.Rows(ctx, func(rows *sql.Rows) error {
		s := new(Stream)
		err := s.Scan(rows)
		streams[s.ID] = s
		return err
	}, q, args...)
	return streams, err
}
