package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"
)

var errUnsupported = errors.New("this system cannot do that")

// row is one kind of work, done by several systems in turn.
type row struct {
	name    string
	what    string
	unit    string // of the value: what a larger or smaller one means follows from it
	engines []string
	systems []string
	// slow rows are left out of a quick run, and have one round.
	slow bool
	// kept rows go on where the last round left the database.
	kept bool
	// counted rows are run once more, and what is done for them is counted.
	counted bool
	load    func(m *measurement) loader
	run     func(ctx context.Context, m *measurement) (sample, error)
}

// sample is what one measurement found.
type sample struct {
	value float64
	p99   float64 // of latencies, whose median is value
	n     int     // messages, for costs
	cost  *cost
	cpu   float64 // microseconds of processor time of this process and the server for each message
}

// measurement is one system at one kind of work in one round.
type measurement struct {
	o      options
	e      *engine
	s      *system
	dsn    string
	window time.Duration
	// begin is called when everything is up and what is measured begins.
	begin func()
}

// size chooses by the length of the run.
func (m *measurement) size(quick, full int) int {
	if m.o.quick {
		return quick
	}
	return full
}

// quickTime is how long a quick run may take before it begins no further row.
var quickTime = map[string]time.Duration{"postgres": 175 * time.Second, "sqlite": 90 * time.Second, "mysql": 3 * time.Minute, "mariadb": 3 * time.Minute}

// limit is how long one measurement may take before it is given up.
const limit = 3 * time.Minute

// measure runs all rows of an engine round by round, so that no row depends on the state of the
// machine at one time. A quick run has to end: on a slow machine there are fewer rounds.
func measure(ctx context.Context, o options, e *engine, rep *report) error {
	rep.engine(e)
	began := time.Now()
	for round := range o.rounds {
		e.sweep(ctx)
		for _, r := range rows {
			if !slices.Contains(r.engines, e.name) || !named(r.name, o.rows) || r.slow && (o.quick || round > 0) {
				continue
			}
			if round > 0 && o.quick && time.Since(began) > quickTime[e.name] {
				return nil
			}
			start := time.Now()
			if err := turn(ctx, o, e, r, round, rep); err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "%d %-9s %-14s %5.1f s  %s\n", round+1, e.name, r.name, time.Since(start).Seconds(), rep.line(e, r))
		}
	}
	return nil
}

// turn measures each system once. No system is always the first.
func turn(ctx context.Context, o options, e *engine, r *row, round int, rep *report) error {
	var todo []*system
	for _, s := range systems {
		if slices.Contains(r.systems, s.name) && s.runsOn(e.name) && named(s.name, o.systems) && !(o.quick && s.extra && len(o.systems) == 0) {
			todo = append(todo, s)
		}
	}
	for i := range todo {
		s := todo[(i+round)%len(todo)]
		v, err := one(ctx, o, e, r, s, false)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && round == 0 && r.counted && e.count != nil && !o.quick && o.delay < 0 {
			var c sample
			if c, err = one(ctx, o, e, r, s, true); err == nil {
				v.cost = c.cost
			}
		}
		rep.add(e, r, s, v, err)
	}
	return nil
}

// one makes one measurement on a fresh database.
func one(ctx context.Context, o options, e *engine, r *row, s *system, counted bool) (v sample, err error) {
	m := &measurement{o: o, e: e, s: s, window: 2 * time.Second, begin: func() {}}
	if o.quick {
		m.window = 300 * time.Millisecond
	}
	var load loader
	if r.load != nil {
		load = r.load(m)
	}
	dsn, drop, err := e.fresh(ctx, s, load, r.kept)
	if err != nil {
		return v, err
	}
	defer drop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	m.dsn = dsn
	if counted {
		c, err := e.count(dsn)
		if err != nil {
			return v, err
		}
		defer c.close()
		m.dsn, m.window = c.dsn, m.window/2
		var before tally
		m.begin = func() { before, err = c.tally(ctx) }
		v, failed := r.run(ctx, m)
		if err = errors.Join(err, failed); err != nil {
			return v, err
		}
		after, err := c.tally(ctx)
		v.cost = after.each(before, v.n)
		return v, err
	}
	if o.delay >= 0 && e.name == "postgres" {
		p, err := newFar(dsn, o.delay)
		if err != nil {
			return v, err
		}
		defer p.close()
		m.dsn = p.dsn
	}
	runtime.GC() // no measurement pays for what another left
	server, err := serverPID(ctx, e.name, dsn)
	if err != nil {
		return r.run(ctx, m) // it is not on this machine
	}
	var before time.Duration
	m.begin = func() { before, err = processorTime(server) }
	v, failed := r.run(ctx, m)
	after, late := processorTime(server)
	if err == nil && late == nil && before > 0 && v.n > 0 {
		v.cpu = float64((after - before).Microseconds()) / float64(v.n)
	}
	return v, failed
}
