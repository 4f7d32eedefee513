package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/slow"
)

func init() {
	maps.Copy(verbs, map[string]func(s *script, st *scriptStep) error{
		// start x [for 40ms] step: runs the step concurrently; its context ends after that time.
		// The verb join x [within 3s] waits until it is done, and knows what it has received.
		"start": startVerb,
		"join": func(s *script, st *scriptStep) error {
			within := s.duration("within")
			if within == 0 {
				within = slow.By(20 * time.Second)
			}
			x, ok := s.vars[st.next()].(*beside)
			if !ok {
				s.failf("no such step was started")
			}
			select {
			case <-x.done:
			case <-time.After(within):
				s.late()
				s.failf("%s is not done after %v", x.text, within)
			}
			s.takeFrom(x)
			return nil
		},
		// waits x: the step that was started is still at work after a moment.
		"waits": func(s *script, st *scriptStep) error {
			x, _ := s.vars[st.next()].(*beside)
			select {
			case <-x.done:
				s.takeFrom(x)
				s.failf("%s did not wait", x.text)
			case <-time.After(100 * time.Millisecond):
			}
			return nil
		},

		// locked g: another transaction cannot have the group.
		"locked": func(s *script, st *scriptStep) error {
			tx, err := s.Handle().Begin(s.Ctx)
			s.Must(err)
			defer tx.Rollback(s.Ctx)
			if err := tx.LockGroup(s.Ctx, s.id(st.next())); !invBusy(s.env, err) {
				s.failf("LockGroup of another transaction returns %v, want ErrGroupBusy", err)
			}
			return nil
		},
		// needs many writers: the check is skipped where a condition does not hold.
		"needs": func(s *script, st *scriptStep) error {
			condition := strings.Join(st.args, " ")
			if st.args = nil; !s.holds(condition) {
				s.Skipf("the store does not have: %s", condition)
			}
			return nil
		},

		// clock c; passed c 300ms: at least so long ago; within c 3s: at most.
		"clock": func(s *script, st *scriptStep) error {
			s.vars[st.next()] = time.Now()
			return nil
		},
		"passed": func(s *script, st *scriptStep) error {
			if passed, want := s.timed(); passed < want-tmrEarly {
				s.failf("after %v, want at least %v", passed, want)
			}
			return nil
		},
		"within": func(s *script, st *scriptStep) error {
			if passed, want := s.timed(); passed > slow.By(want) {
				s.late()
				s.failf("after %v, want at most %v", passed, want)
			}
			return nil
		},

		// most d.timer 1h: a duration of at most so much.
		"most": func(s *script, st *scriptStep) error {
			got, _ := s.value(st.next()).(time.Duration)
			most, _ := s.value(st.next()).(time.Duration)
			if got > most+tmrEarly {
				s.failf("it is %v", got)
			}
			return nil
		},

		// maintain [timers markers]: the maintenance jobs named, or all.
		"maintain": func(s *script, st *scriptStep) error {
			if s.be == nil {
				s.be = s.Handle()
			}
			for job := range backend.Job(backend.JobCount) {
				if len(st.args) == 0 || slices.Contains(st.args, job.String()) {
					maintain(s.env, s.be, job)
				}
			}
			st.args = nil
			return nil
		},
		// shown g [at CQ] [first] [level 7] parked ["reason"]: as operators see a group, which is promoted
		// to a level.
		"shown": func(s *script, st *scriptStep) error {
			at, ok := st.option("at")
			if !ok {
				at = "SQ"
			}
			first := st.flag("first")
			level, promoted := st.option("level")
			g, state, reason := s.id(st.next()), st.next(), ""
			if len(st.args) > 0 {
				reason = s.quoted(st.next())
			}
			groups, err := s.B.Admin().Groups(s.Ctx, s.name(at), parley.Place{}, 100)
			i := slices.IndexFunc(groups, func(have parley.GroupStatus) bool { return have.Group == g })
			switch {
			case err != nil:
			case i < 0:
				s.failf("operators do not see the group")
			case groups[i].State != state || reason != "" && groups[i].Reason != reason:
				s.failf("operators see the state %q for %q", groups[i].State, groups[i].Reason)
			case first && i > 0, promoted && (!groups[i].Promoted || fmt.Sprint(groups[i].Level) != level):
				s.failf("it is number %d, promoted %t to %d", i+1, groups[i].Promoted, groups[i].Level)
			}
			return err
		},
	})
}

// maintain does a maintenance job until nothing of it is left.
func maintain(e *env, be backend.Backend, job backend.Job) {
	const limit = 100
	for range 1000 {
		done, err := be.Maintain(e.Ctx, job, limit)
		if errors.Is(err, backend.ErrSerialization) {
			continue
		}
		e.Must(err)
		if done.Moved < limit {
			return
		}
	}
}

// timed takes a clock and a duration, and returns how long ago the clock was set.
func (s *script) timed() (passed, want time.Duration) {
	name := s.step.next()
	start, ok := s.vars[name].(time.Time)
	if !ok {
		s.failf("there is no clock %q", name)
	}
	passed = time.Since(start)
	want, _ = s.value(s.step.next()).(time.Duration)
	return passed, want
}

// beside is a part of a script that is done in a separate goroutine. Its failures are its own
// until the script takes them over.
type beside struct {
	*script
	text string // of the step
	done chan struct{}
}

// beside runs f with a copy of the script, whose context ends with ctx.
func (s *script) beside(ctx context.Context, f func(s *script)) *beside {
	ctx, cancel := context.WithCancel(ctx)
	e := &env{Ctx: ctx, r: s.r, check: s.env.check, prefix: strings.TrimSuffix(s.Name("."), "."), shares: s.shares}
	w := *s.world
	w.env = e
	c := *s
	c.world, c.history, c.told = &w, nil, true
	c.vars, c.txs, c.brokers, c.peers = maps.Clone(s.vars), maps.Clone(s.txs), maps.Clone(s.brokers), maps.Clone(s.peers)
	e.explain = c.explain
	x := &beside{script: &c, done: make(chan struct{})}
	go func() {
		defer close(x.done)
		defer func() {
			if p := recover(); p != nil {
				e.fail(fmt.Sprintf("panic: %v\n%s", p, debug.Stack()))
			}
		}()
		f(x.script)
	}()
	s.Cleanup(func() { // not before: what it has received would go with its context
		select {
		case <-x.done:
		default:
			cancel()
			select {
			case <-x.done:
			case <-time.After(2 * time.Second): // it may wait for what is cleaned up later
			}
		}
		e.cleanup()
		cancel()
	})
	return x
}

// takeFrom takes over what a part beside the script has found, and ends the check if it failed.
func (s *script) takeFrom(x *beside) {
	if s.env.skipped = x.env.skipped; s.env.skipped != "" {
		runtime.Goexit()
	}
	if len(x.failures) > 0 {
		s.failf("%s", strings.Join(x.failures, "\n"))
	}
	s.history = append(s.history, x.history...)
	for name, v := range x.vars {
		if _, ok := s.vars[name]; !ok {
			s.vars[name] = v
		}
	}
}

func startVerb(s *script, st *scriptStep) error {
	name, words := st.args[0], st.args[1:]
	ctx := s.Ctx
	if words[0] == "for" {
		limit, err := time.ParseDuration(words[1])
		s.Must(err)
		var cancel func()
		ctx, cancel = context.WithTimeout(s.Ctx, limit)
		s.Cleanup(cancel)
		words = words[2:]
	}
	if st.wants {
		words = append(append(slices.Clone(words), "->"), st.want...)
	}
	st.args, st.want, st.wants = nil, nil, false
	if i := slices.Index(words, "as"); i > 0 {
		delete(s.vars, words[i+1]) // until it is joined
	}
	x := s.beside(ctx, func(c *script) {
		c.step = &scriptStep{text: strings.Join(words, " ")}
		c.do(words)
	})
	x.text = strings.Join(words, " ")
	s.vars[name] = x
	return nil
}

// before runs lines that have to be over before something that comes after the time. If they are
// not, because the machine has paused, then what fails from there on proves nothing.
func (s *script) before(text string, from, to int, given []string) {
	d, err := time.ParseDuration(text)
	s.Must(err)
	s.until = time.Now().Add(d)
	s.block(from, to, given)
	if time.Now().Before(s.until) {
		s.until = time.Time{}
	}
}

// soon runs lines again and again until all of them succeed, and ends the check if they do not
// within the time.
func (s *script) soon(text string, from, to int, given []string) {
	limit := 15 * time.Second
	if text != "" {
		var err error
		limit, err = time.ParseDuration(text)
		s.Must(err)
	}
	var x *beside
	s.Soon(limit, func() bool {
		x = s.beside(s.Ctx, func(c *script) { c.block(from, to, given) })
		<-x.done
		if len(x.failures) > 0 {
			x.env.cleanup() // gives back what it has received
			return false
		}
		return true
	})
	s.line, s.step = x.line, x.step
	s.takeFrom(x)
	maps.Copy(s.vars, x.vars)
	maps.Copy(s.txs, x.txs)
	maps.Copy(s.brokers, x.brokers)
}
