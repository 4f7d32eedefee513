package main

import (
	"context"
	"database/sql"
	"net/url"
	"strings"
	"time"
)

// withPrefix gives the run tables of its own unless the URL names them, and
// returns their prefix.
func withPrefix(q url.Values, run string) string {
	if q.Get("parley_prefix") == "" {
		q.Set("parley_prefix", "stress_"+run+"_")
	}
	return q.Get("parley_prefix")
}

// countStranded counts streams in the condition under which a claim passes over a
// message for ever: it is there, its group may be received, and the order does not
// know it. One statement has to be one snapshot.
func countStranded(ctx context.Context, db *sql.DB, prefix string) (n int, ok bool, err error) {
	err = db.QueryRowContext(ctx, strings.ReplaceAll(`
		SELECT count(*)
		  FROM (SELECT DISTINCT stream_id FROM parley_message) m
		  JOIN parley_stream s ON s.stream_id = m.stream_id
		  JOIN parley_grp g ON g.group_id = s.group_id
		  LEFT JOIN parley_ready r
		    ON r.queue_id = s.queue_id AND r.group_id = s.group_id AND r.stream_id = s.stream_id
		 WHERE g.blocked = 0 AND g.resweep = 0 AND r.stream_id IS NULL`,
		"parley_", prefix)).Scan(&n)
	return n, err == nil, err
}

// sampleStranded takes one sample of what must be none.
func sampleStranded(ctx context.Context, e engine, l *ledger) {
	n, _, err := e.stranded(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		l.problem("errors", "sampler: %v", err)
	default:
		l.count("samples", 1)
		if n > 0 {
			l.problem("stranded", "%d streams have messages and no place in the ready order", n)
		}
	}
}

// every calls f in a rhythm until ctx ends; wait waits for that.
func every(ctx context.Context, d time.Duration, f func()) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(d)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				f()
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { <-done }
}

// senderLimit is how long a sender should wait at most for a receiver that is
// about to commit. Beyond it the disk or the processor is to blame.
const senderLimit = 100 * time.Millisecond

// waits judges who waits for whom, from one sample to the next. K tells a wait
// from others.
type waits[K comparable] struct {
	led  *ledger
	seen map[K]bool // in the sample before, and whether the blocker was at work
	told map[K]bool // counted
}

// wait is a statement of one role that waits for one of another.
type wait[K comparable] struct {
	key       K
	who, whom string
	lasted    time.Duration
	what      string
	working   bool // the blocker's handler is at work
}

// judge takes one sample. The texts in it are read a moment after the locks, so
// that a statement which has just ended may stand there: one sample is no proof.
func (w *waits[K]) judge(sample []wait[K]) {
	now := make(map[K]bool)
	// A killed process may stand between its last statement and the commit until the system
	// has taken it apart. Until then its connection is as idle as that of a handler at
	// work.
	dying := w.led.dying.Load() > 0
	for _, x := range sample {
		x.working = x.working && !dying
		w.led.count("waits", 1)
		w.led.lasted(x.who+"-behind-"+x.whom, x.lasted, x.what)
		if x.whom != "receiver" {
			continue
		}
		now[x.key] = x.working
		switch {
		case x.working && w.seen[x.key] && x.who == "sender":
			w.led.problem("sender behind receiver", "%v in %s", x.lasted, x.what)
		case x.working && w.seen[x.key] && !w.told[x.key]:
			w.told[x.key] = true
			w.led.count(x.who+" behind handler", 1)
		case x.lasted > senderLimit && x.who == "sender" && !w.told[x.key]:
			w.told[x.key] = true
			w.led.count("slow commits", 1)
		}
	}
	w.seen = now
}

func newWaits[K comparable](l *ledger) waits[K] {
	return waits[K]{led: l, seen: make(map[K]bool), told: make(map[K]bool)}
}
