package bolt

import (
	"context"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// reader is the record of a reader.
type reader struct {
	backend.ReaderRecord
	Since, Until time.Time
}

// PutReader implements [backend.Backend].
func (h *Handle) PutReader(ctx context.Context, r backend.ReaderRecord) (traces []backend.Trace, err error) {
	err = h.update(ctx, func(l *look) error {
		traces = nil
		put(l, readers, key(r.Reader), reader{r, l.now(), l.now().Add(r.For)})
		for _, other := range scan(l, readers, nil) {
			if other.Queue != r.Queue || other.Worker == r.Worker {
				continue
			}
			for _, m := range other.InHand {
				if slices.Contains(r.InHand, m) {
					traces = append(traces, backend.Trace{Message: m, Reader: other.Reader, Worker: other.Worker, Alone: other.Alone})
				}
			}
		}
		return nil
	})
	return traces, err
}

// ExtendReaders implements [backend.Backend].
func (h *Handle) ExtendReaders(ctx context.Context, worker backend.ID, d time.Duration) error {
	return h.eachReader(ctx, func(l *look, r reader) {
		if r.Worker == worker {
			r.Until = l.now().Add(d)
			put(l, readers, key(r.Reader), r)
		}
	})
}

// RemoveReaders implements [backend.Backend].
func (h *Handle) RemoveReaders(ctx context.Context, worker, one backend.ID) error {
	return h.eachReader(ctx, func(l *look, r reader) {
		if r.Worker == worker && (one.IsZero() || r.Reader == one) {
			remove(l, readers, key(r.Reader))
		}
	})
}

func (h *Handle) eachReader(ctx context.Context, do func(*look, reader)) error {
	return h.update(ctx, func(l *look) error {
		for _, r := range list(l, readers, nil) {
			do(l, r.V)
		}
		return nil
	})
}

// ReaderRecords implements [backend.Backend].
func (h *Handle) ReaderRecords(ctx context.Context) (all []backend.ReaderStatus, err error) {
	err = h.view(ctx, func(l *look) error {
		for _, r := range scan(l, readers, nil) {
			now := l.now()
			s := backend.ReaderStatus{ReaderRecord: r.ReaderRecord, Since: now.Sub(r.Since), Left: r.Until.Sub(now)}
			all = append(all, s)
		}
		return nil
	})
	return all, err
}

// ResetReader implements [backend.Tx].
func (tx *Tx) ResetReader(ctx context.Context, id backend.ID) error {
	return tx.write(ctx, func(l *look) error {
		if r, ok := get(l, readers, key(id)); ok {
			r.InHand = nil
			put(l, readers, key(id), r)
		}
		return nil
	})
}

// ClearTraces implements [backend.Tx].
func (tx *Tx) ClearTraces(ctx context.Context, traces []backend.Trace) error {
	return tx.write(ctx, func(l *look) error {
		for _, t := range traces {
			r, ok := get(l, readers, key(t.Reader))
			if !ok {
				continue
			}
			r.InHand = slices.DeleteFunc(r.InHand, func(m backend.ID) bool { return m == t.Message })
			if len(r.InHand) == 0 {
				remove(l, readers, key(t.Reader))
			} else {
				put(l, readers, key(t.Reader), r)
			}
		}
		return nil
	})
}

// sweepReaders removes records of workers that died long ago.
func (l *look) sweepReaders() (moved int) {
	for _, r := range list(l, readers, nil) {
		died := l.now().Sub(r.V.Until)
		if died > time.Hour || died > 5*time.Minute && len(r.V.InHand) == 0 {
			remove(l, readers, r.key)
			moved++
		}
	}
	return moved
}
