package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// readerRecord is the record of a reader.
type readerRecord struct {
	backend.ReaderRecord
	since, until time.Time
}

// PutReader implements [backend.Backend].
func (h *Handle) PutReader(ctx context.Context, a backend.ReaderRecord) ([]backend.Trace, error) {
	if err := h.enterMigrated(ctx); err != nil {
		return nil, err
	}
	defer h.leave()
	s, tx := h.store, h.begin()
	now := s.now()
	a.InHand = slices.Clone(a.InHand)
	s.readers.put(tx, a.Reader, readerRecord{a, now, now.Add(a.For)})
	var traces []backend.Trace
	for _, id := range s.readers.keys(tx) {
		other, _ := s.readers.get(tx, id)
		if other.Queue != a.Queue || other.Worker == a.Worker || !s.seesDeaths() {
			continue
		}
		for _, m := range other.InHand {
			if slices.Contains(a.InHand, m) {
				traces = append(traces, backend.Trace{Message: m, Reader: other.Reader, Worker: other.Worker, Alone: other.Alone})
			}
		}
	}
	tx.commit()
	return traces, nil
}

// ResetReader implements [backend.Tx].
func (tx *Tx) ResetReader(ctx context.Context, reader backend.ID) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	if a, ok := tx.store.readers.get(tx, reader); ok {
		a.InHand = nil
		tx.store.readers.put(tx, reader, a)
	}
	return nil
}

// ExtendReaders implements [backend.Backend].
func (h *Handle) ExtendReaders(ctx context.Context, worker backend.ID, d time.Duration) error {
	return h.eachReader(ctx, func(tx *Tx, a readerRecord) {
		if a.Worker == worker {
			a.until = h.store.now().Add(d)
			h.store.readers.put(tx, a.Reader, a)
		}
	})
}

// RemoveReaders implements [backend.Backend].
func (h *Handle) RemoveReaders(ctx context.Context, worker, reader backend.ID) error {
	return h.eachReader(ctx, func(tx *Tx, a readerRecord) {
		if a.Worker == worker && (reader.IsZero() || a.Reader == reader) {
			h.store.readers.delete(tx, a.Reader)
		}
	})
}

// ClearTraces implements [backend.Tx].
func (tx *Tx) ClearTraces(ctx context.Context, traces []backend.Trace) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	records := &tx.store.readers
	for _, trace := range traces {
		a, ok := records.get(tx, trace.Reader)
		if !ok || tx.store.fault == FaultTracesStay {
			continue
		}
		a.InHand = slices.DeleteFunc(slices.Clone(a.InHand), func(id backend.ID) bool { return id == trace.Message })
		if len(a.InHand) == 0 {
			records.delete(tx, trace.Reader)
		} else {
			records.put(tx, trace.Reader, a)
		}
	}
	return nil
}

// ReaderRecords implements [backend.Backend].
func (h *Handle) ReaderRecords(ctx context.Context) (list []backend.ReaderStatus, err error) {
	now := h.store.now()
	err = h.eachReader(ctx, func(_ *Tx, a readerRecord) {
		if h.store.fault == FaultInHandUnlisted {
			a.InHand = nil
		}
		list = append(list, backend.ReaderStatus{ReaderRecord: a.ReaderRecord, Since: now.Sub(a.since), Left: a.until.Sub(now)})
	})
	return list, err
}

func (h *Handle) eachReader(ctx context.Context, do func(*Tx, readerRecord)) error {
	if err := h.enterMigrated(ctx); err != nil {
		return err
	}
	defer h.leave()
	tx := h.begin()
	for _, id := range h.store.readers.keys(tx) {
		a, _ := h.store.readers.get(tx, id)
		do(tx, a)
	}
	tx.commit()
	return nil
}

// How long the record of a dead worker is kept.
const (
	traceFor = time.Hour
	emptyFor = 5 * time.Minute // with nothing in hand
)

// workers removes records of workers that died long ago.
func (d *work) workers() {
	for _, id := range d.store.readers.keys(d.tx) {
		a, _ := d.store.readers.get(d.tx, id)
		dead := d.now.Sub(a.until)
		if dead > traceFor || dead > emptyFor && len(a.InHand) == 0 {
			d.store.readers.delete(d.tx, id)
			d.Moved++
		}
	}
}

// seesDeaths: what a receiver had in hand that died is suspected.
func (s *Store) seesDeaths() bool { return s.fault != FaultDeathUnseen }
