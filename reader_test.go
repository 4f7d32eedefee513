package parley

import (
	"context"
	"testing"
	"time"
)

// TestReadersTooMany: of readers that come to their end together, and are more
// than there may be, as many stay as there may be.
func TestReadersTooMany(t *testing.T) {
	w := &Worker{max: 1, readers: 6, stop: context.Background()}
	stay := 0
	for range 6 { // none of them has gone yet
		if ok, surplus := w.stay(); ok {
			stay++
		} else if !surplus {
			t.Error("a reader goes that was not counted off")
		}
	}
	if stay != 1 || w.readers != 1 {
		t.Errorf("%d readers stay and %d are counted, want 1", stay, w.readers)
	}
}

// TestReadersOfBriefBatches: which batches are expected to be over soon, and that
// other readers that have come to their end go while one is under way, but for the
// last.
func TestReadersOfBriefBatches(t *testing.T) {
	p := newPace(100, 50*time.Millisecond)
	p.did(paced{asked: 1, groups: 1, messages: 1, handled: 1, took: time.Microsecond, cost: 8 * time.Millisecond})
	if _, ok := p.brief(10); !ok {
		t.Error("ten messages of a microsecond are not brief")
	}
	if d, ok := p.brief(10_000); ok || d > 10*time.Millisecond {
		t.Errorf("ten thousand are brief, and long after %v", d)
	}
	w := &Worker{max: 3, readers: 2, stop: context.Background()}
	a, b := &batch{w: w}, &batch{w: w}
	a.brief, b.brief, w.brief = true, true, 2
	w.long(a)
	if w.long(a); w.brief != 1 {
		t.Errorf("of two brief batches one is over: %d left", w.brief)
	}
	if !w.spare() || w.readers != 1 {
		t.Errorf("beside a brief batch a reader stays: %d", w.readers)
	}
	w.long(b)
	if w.spare() || w.readers != 1 {
		t.Errorf("the last reader goes: %d", w.readers)
	}
}

// TestReadersWhileBatchesGrow: while handlers are quick, four readers are enough until
// batches are as long as they may be.
func TestReadersWhileBatchesGrow(t *testing.T) {
	for _, c := range []struct {
		readers, asked int
		took           time.Duration
		full, enough   bool
	}{
		{readers: 4, asked: 1, took: time.Microsecond, enough: true},
		{readers: 3, asked: 1, took: time.Microsecond},
		{readers: 4, asked: 50, took: time.Microsecond},             // it asks for all of the hundred next
		{readers: 4, asked: 20, took: time.Microsecond, full: true}, // its transactions cannot do more
		{readers: 4, asked: 1, took: 5 * time.Millisecond},
	} {
		w := &Worker{max: 10, readers: c.readers, stopped: true, poke: make(chan time.Time, 1)} // stopped: none begins
		s := &source{pace: newPace(100, 50*time.Millisecond)}
		s.pace.size = c.asked
		s.pace.did(paced{asked: c.asked, groups: c.asked, messages: c.asked, handled: c.asked, took: c.took, cost: 8 * time.Millisecond, full: c.full})
		b := &batch{w: w, s: s, messages: 1}
		w.goOn(b, 0, false)
		if got := b.relief != nil; got != c.enough {
			t.Errorf("%d readers, batches of %d, handlers that take %v: enough is %v", c.readers, c.asked, c.took, got)
		}
		if len(w.poke) == 0 {
			t.Error("the reader that waits is not told of what was left")
		}
	}
}

// TestReadersAreOver: when the last reader is gone none is started any more, not by
// one that a handler has ended, nor by a batch that took long.
func TestReadersAreOver(t *testing.T) {
	w := &Worker{max: 3, running: true, drain: true, gone: make(chan struct{})}
	w.close()
	if w.spawn(0, false); w.readers != 0 {
		t.Error("a reader begins behind a drain that is over")
	}
}
