package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// Each reader has a record of one row. It is written with every batch, so the ids of the messages
// in hand are one value, one after the other.

// PutReader implements backend.Backend.
func (s *Store) PutReader(ctx context.Context, a backend.ReaderRecord) (traces []backend.Trace, err error) {
	args := []any{a.Worker, a.Queue, a.Owner, a.Readers, a.For, pack(a.InHand), a.Alone, a.Reader}
	look := func(rows *sql.Rows) error {
		var t backend.Trace
		var other []byte
		if err := rows.Scan(ID(&t.Reader), ID(&t.Worker), Body(&other), Bool(&t.Alone)); err != nil {
			return err
		}
		for _, id := range unpack(other) {
			if slices.Contains(a.InHand, id) {
				t.Message = id
				traces = append(traces, t)
			}
		}
		return nil
	}
	if !s.q.WorkerPut.Empty() {
		if err := s.usable(ctx); err != nil { // it finds out whether there is a pooler
			return nil, err
		}
		if backend.IsInside(ctx) || s.d.OnlyInTx != nil && s.d.OnlyInTx() {
			err = s.atomically(ctx, func(t *Tx) error { return t.Rows(ctx, look, s.q.WorkerPut, args...) })
		} else {
			err = s.reading(ctx, func(r run) error { return r.Rows(ctx, look, s.q.WorkerPut, args...) })
		}
		return traces, err
	}
	// The record first, by itself: it is for those who come later, and what is looked for has been there for long.
	err = s.atomically(backend.Alone(ctx), func(t *Tx) error {
		n, err := t.Exec(ctx, s.q.WorkerUpdate, args...)
		if err == nil && n == 0 {
			_, err = t.Exec(ctx, s.q.WorkerInsert, args...)
		}
		return err
	})
	switch {
	case err != nil || len(a.InHand) == 0:
	case len(a.InHand) == 1:
		err = s.Read(ctx, look, s.q.WorkerOther, a.Queue, a.Worker, pack(a.InHand))
	default:
		err = s.Read(ctx, look, s.q.WorkerOthers, a.Queue, a.Worker)
	}
	return traces, err
}

func pack(ids []backend.ID) (b []byte) {
	for _, id := range ids {
		b = append(b, id[:]...)
	}
	return b
}

func unpack(b []byte) (ids []backend.ID) {
	for ; len(b) >= len(backend.ID{}); b = b[len(backend.ID{}):] {
		ids = append(ids, backend.ID(b[:len(backend.ID{})]))
	}
	return ids
}

// ResetReader implements backend.Tx.
func (t *Tx) ResetReader(ctx context.Context, reader backend.ID) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	_, err := t.Exec(ctx, t.s.q.WorkerPutDown, reader)
	return err
}

// ExtendReaders implements backend.Backend.
func (s *Store) ExtendReaders(ctx context.Context, worker backend.ID, d time.Duration) error {
	return s.atomically(ctx, func(t *Tx) error {
		_, err := t.Exec(ctx, s.q.WorkerAlive, d, worker)
		return err
	})
}

// RemoveReaders implements backend.Backend.
func (s *Store) RemoveReaders(ctx context.Context, worker, reader backend.ID) error {
	return s.atomically(ctx, func(t *Tx) error {
		q, id := s.q.WorkerLeave, worker
		if !reader.IsZero() {
			q, id = s.q.WorkerLeaveOne, reader
		}
		_, err := t.Exec(ctx, q, id)
		return err
	})
}

// ClearTraces implements backend.Tx.
func (t *Tx) ClearTraces(ctx context.Context, traces []backend.Trace) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	for _, trace := range slices.SortedFunc(slices.Values(traces), byReader) {
		if err := t.clearTrace(ctx, trace); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tx) clearTrace(ctx context.Context, trace backend.Trace) error {
	// The lock first: another message of the record may be cleared at the same time.
	if _, err := t.Exec(ctx, t.s.q.WorkerLock, trace.Reader); err != nil {
		return err
	}
	var inHand []byte
	if found, err := t.Row(ctx, []any{Body(&inHand)}, t.s.q.WorkerInHand, trace.Reader); err != nil || !found {
		return err
	}
	ids := slices.DeleteFunc(unpack(inHand), func(id backend.ID) bool { return id == trace.Message })
	if len(ids) == 0 {
		_, err := t.Exec(ctx, t.s.q.WorkerLeaveOne, trace.Reader)
		return err
	}
	_, err := t.Exec(ctx, t.s.q.WorkerKeep, pack(ids), trace.Reader)
	return err
}

// byReader is the order in which records are locked.
func byReader(a, b backend.Trace) int { return bytes.Compare(a.Reader[:], b.Reader[:]) }

// ReaderRecords implements backend.Backend.
func (s *Store) ReaderRecords(ctx context.Context) (list []backend.ReaderStatus, err error) {
	err = s.reading(ctx, func(r run) error {
		return r.Rows(ctx, func(rows *sql.Rows) error {
			var a backend.ReaderStatus
			var since, left int64
			var inHand []byte
			err := rows.Scan(ID(&a.Reader), ID(&a.Worker), &a.Queue, &a.Owner, &a.Readers, &since, &left, Body(&inHand), Bool(&a.Alone))
			a.Since, a.Left = time.Duration(since)*time.Microsecond, time.Duration(left)*time.Microsecond
			a.InHand = unpack(inHand)
			list = append(list, a)
			return err
		}, s.q.WorkerList)
	})
	return list, err
}

// How long the record of a dead worker is kept. Of what it had in hand, each message
// leaves the record when it has been handled. What had been settled already when the
// worker died stays in there until the record goes.
const (
	traceFor = time.Hour
	emptyFor = 5 * time.Minute // with nothing in hand
)

func (s *Store) maintainWorkers(ctx context.Context) (moved int, err error) {
	err = s.atomically(ctx, func(t *Tx) error {
		n, err := t.Exec(ctx, s.q.WorkerSweep, emptyFor, traceFor)
		moved = int(n)
		return err
	})
	return moved, err
}

// Suspect counts the receiver that died with a hold, for its first message.
func (t *Tx) Suspect(ctx context.Context, h *backend.Hold) error {
	if len(h.Messages) == 0 {
		return nil
	}
	m := h.Messages[0]
	m.Deaths++
	_, err := t.Exec(ctx, t.s.q.FailurePut, m.ID, m.Attempts, m.Deaths, m.LastError, storedAttempts(m.Errors))
	return err
}
