package consumer

import (
	"testing"
	"time"
)

// TestReadersTooMany: of readers that finish together, and are more
// than there may be, as many go on as there may be.
func TestReadersTooMany(t *testing.T) {
	f := &fetcher{max: 1, handling: 6}
	for range 6 {
		f.over(&batch{})
	}
	if f.want != 1 || f.readers() != 1 {
		t.Errorf("%d looks are wanted and %d readers are counted, want 1", f.want, f.readers())
	}
}

// TestReadersOfBriefBatches: the pace predicts which batches end soon. While such a batch is in
// flight, other readers that have timed out exit, except the last one.
func TestReadersOfBriefBatches(t *testing.T) {
	p := newPace(100, 50*time.Millisecond)
	p.did(paced{asked: 1, groups: 1, messages: 1, handled: 1, took: time.Microsecond, cost: 8 * time.Millisecond})
	if _, ok := p.brief(10); !ok {
		t.Error("ten messages of a microsecond are not brief")
	}
	if d, ok := p.brief(10_000); ok || d > 10*time.Millisecond {
		t.Errorf("ten thousand are brief, and long after %v", d)
	}
	f := &fetcher{max: 3, looking: 2}
	a, b := &batch{outlook: outlook{quick: true, spent: true}}, &batch{outlook: outlook{quick: true, spent: true}}
	for _, x := range []*batch{a, b} {
		if f.found(x) {
			t.Error("beside a brief batch the loop waits for news")
		}
	}
	f.long(a)
	if f.long(a); f.brief != 1 {
		t.Errorf("of two brief batches one takes long: %d left", f.brief)
	}
	if f.over(a); f.want != 0 {
		t.Errorf("beside a brief batch a reader goes on: %d", f.want)
	}
	if f.over(b); f.want != 1 || f.readers() != 1 {
		t.Errorf("the last reader goes: %d", f.want)
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
		p := newPace(100, 50*time.Millisecond)
		p.size = c.asked
		p.did(paced{asked: c.asked, groups: c.asked, messages: c.asked, handled: c.asked, took: c.took, cost: 8 * time.Millisecond, full: c.full})
		b := &batch{outlook: outlook{growing: p.growing()}}
		_, b.outlook.quick = p.brief(1)
		f := &fetcher{max: 10, handling: c.readers - 1, looking: 1}
		if f.found(b); b.outlook.brief != c.enough {
			t.Errorf("%d readers, batches of %d, handlers that take %v: enough is %v", c.readers, c.asked, c.took, b.outlook.brief)
		}
		if more := f.want; more != 0 && c.enough || more != 2 && !c.enough {
			t.Errorf("enough is %v, and %d looks are made beside", c.enough, more)
		}
		f = &fetcher{max: 10, handling: c.readers - 2, looking: 1, waiting: true}
		if f.found(b); f.waiting || f.want != 1 {
			t.Error("the loop waits although something was left")
		}
	}
}

// TestReadersWait: a look that has taken everything leaves the loop waiting for news. Then the loop
// looks at most once, and not at all during a pause.
func TestReadersWait(t *testing.T) {
	f := &fetcher{max: 3, looking: 1}
	if !f.found(&batch{outlook: outlook{spent: true}}) {
		t.Error("the loop does not wait for news")
	}
	f.waiting = true
	f.more()
	if f.want != 0 {
		t.Error("a look begins although the loop waits")
	}
	f.nudge()
	if f.nudge(); f.waiting || f.want != 1 {
		t.Errorf("news have %d looks made", f.want)
	}
	f = &fetcher{max: 3, handling: 1, pausing: true}
	if f.more(); f.want != 0 {
		t.Error("a second reader begins during a pause")
	}
	f.handling = 0
	if f.more(); f.want != 1 {
		t.Error("no reader begins during a pause")
	}
}
