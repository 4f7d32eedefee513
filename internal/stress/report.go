package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// report is what a run comes to.
type report struct {
	violations *violations
	sent       int
	counts     map[string]int
	latencies  []time.Duration
	longest    map[string]lasting
}

func (l *load) result(ctx context.Context) (*report, error) {
	if !l.control {
		if l.table != nil {
			list, err := l.table.read(ctx, l.admin.p.Broker)
			if err != nil {
				return nil, err
			}
			l.led.history.effects = list
		} else {
			l.led.history.effects = l.led.receipts
		}
		n, ok, err := l.engine.stranded(ctx)
		if err != nil {
			return nil, err
		}
		if ok {
			l.led.count("samples", 1)
			l.led.count("stranded", n)
		}
	}
	r := &report{sent: l.led.committed, counts: l.led.tally(), latencies: l.led.latencies, longest: l.led.longest}
	if l.control {
		r.violations = &violations{}
	} else {
		r.violations = l.led.history.check()
	}
	if e, ok := l.engine.(interface{ lastDeadlock(context.Context) string }); ok && r.counts["deadlocks"] > 0 {
		r.violations.problems = append(r.violations.problems, "the server's last deadlock: "+e.lastDeadlock(ctx))
	}
	return r, nil
}

// failures counts what must not happen at all.
func (r *report) failures() int {
	v, c := r.violations, r.counts
	return v.lost + v.doubled + v.twoInGroup + v.outOfOrder + v.ghosts + c["stranded"] + c["deadlocks"] +
		c["twice"] + c["fenced in transaction"] + c["sender behind receiver"] + c["errors"]
}

// line is what is printed: first what must be zero.
func (r *report) line() string {
	v, c := r.violations, r.counts
	var b strings.Builder
	add := func(name string, n int) { fmt.Fprintf(&b, "%s %d ", name, n) }
	add("sent", r.sent)
	add("received", v.received)
	add("lost", v.lost)
	add("doubled", max(v.doubled, c["twice"]))
	add("two-in-group", v.twoInGroup)
	add("out-of-order", v.outOfOrder)
	add("stranded", c["stranded"])
	add("deadlocks", c["deadlocks"])
	add("ghosts", v.ghosts)
	add("sender-behind-receiver", c["sender behind receiver"])
	add("fenced-in-transaction", c["fenced in transaction"])
	add("errors", c["errors"])
	for _, name := range []string{"fenced", "rollbacks", "promotions", "parks", "unparks", "deferrals", "moves", "kills", "stalls", "maybe", "unknown", "busy", "samples"} {
		add(name, c[name])
	}
	for _, name := range []string{"cut off", "waits", "slow commits", "receiver behind handler", "meddler behind handler"} {
		add(strings.ReplaceAll(name, " ", "-"), c[name])
	}
	names := make([]string, 0, len(r.longest))
	for name := range r.longest {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "longest-%s %v ", name, r.longest[name].Round(time.Millisecond))
	}
	fmt.Fprintf(&b, "send p50 %v p99 %v p99.9 %v of %d", r.percentile(50), r.percentile(99), r.percentile(99.9), len(r.latencies))
	return b.String()
}

// percentile of the time that a send takes on a stream with one sender.
func (r *report) percentile(p float64) time.Duration {
	if len(r.latencies) == 0 {
		return 0
	}
	sorted := slices.Clone(r.latencies)
	slices.Sort(sorted)
	i := min(int(float64(len(sorted))*p/100), len(sorted)-1)
	return sorted[i].Round(10 * time.Microsecond)
}
