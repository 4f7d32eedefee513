package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley/backend"
)

// submit makes a plan of tasks whose types are their names.
func (p *place) submit(plan string, o backend.PlanOptions, phases map[string]int) {
	var tasks []backend.NewTask
	for name, phase := range phases {
		tasks = append(tasks, backend.NewTask{ID: p.id(name), Phase: phase, Type: name, Body: []byte("body of " + name)})
	}
	slices.SortFunc(tasks, func(a, b backend.NewTask) int { return strings.Compare(a.Type, b.Type) })
	p.Do(func(tx backend.Tx) error { return tx.Submit(p.Ctx, plan, o, tasks) })
}

// putPlans leaves a plan with a task in every state, a halted plan and a sealed plan.
func putPlans(p *place) {
	p.submit("mixed", backend.PlanOptions{Continue: true, MaxAttempts: 5, MaxActive: 7, Caller: "c", SubmittedFor: "a test"},
		map[string]int{"1 done": 1, "2 dead": 1, "3 cancelled": 1, "4 failed": 1, "5 given back": 1, "6 running": 1, "7 over": 1, "8 queued": 2})
	var ends []backend.TaskEnd
	outcomes := []backend.TaskOutcome{{State: backend.TaskDone}, {State: backend.TaskDead, Error: "never"}, {State: backend.TaskCancelled},
		{State: backend.TaskFailed, Error: "not yet", Delay: years}, {State: backend.TaskQueued}}
	holds := p.claimTasks("mixed", 6, years)
	for i, o := range outcomes {
		ends = append(ends, backend.TaskEnd{Hold: holds[i], Outcome: o})
	}
	p.claimTasks("mixed", 1, time.Millisecond)
	p.is("lost", len(p.FinishTasks(ends...)), 0)

	p.submit("halted", backend.PlanOptions{MaxAttempts: 1}, map[string]int{"dead": 1, "behind": 2})
	p.FinishTasks(backend.TaskEnd{Hold: p.claimTasks("halted", 1, time.Minute)[0], Outcome: backend.TaskOutcome{State: backend.TaskDead, Error: "no"}})
	p.submit("sealed", backend.PlanOptions{MaxAttempts: 1}, map[string]int{"last": 1})
	p.Do(func(tx backend.Tx) error {
		_, _, err := tx.Control(p.Ctx, "sealed", backend.PlanSeal, backend.ID{})
		return err
	})
}

func checkPlans(p *place) {
	log, err := p.Backend.TaskLog(p.Ctx, backend.TaskQuery{Plan: "mixed", Limit: 10})
	p.OK(err)
	var list []string
	for _, s := range log {
		list = append(list, fmt.Sprint(s.Type, ": ", s.State, s.Attempts, s.Error))
	}
	p.is("tasks", list, []string{"1 done: done1", "2 dead: dead1never", "3 cancelled: cancelled1", "4 failed: failed1not yet",
		"5 given back: queued0", "6 running: running1", "7 over: running1", "8 queued: queued0"})
	plans, err := p.Backend.Plans(p.Ctx, "mixed")
	p.OK(err)
	o := plans[0].Options
	p.is("options", []any{o.MaxActive, o.Continue, o.MaxAttempts, o.Caller, o.SubmittedFor}, []any{7, true, 5, "c", "a test"})
	p.is("progress", []any{plans[0].Halted, plans[0].Over, plans[0].Phase}, []any{false, false, 1})
	next := p.claimTasks("mixed", 2, time.Minute)
	slices.SortFunc(next, func(a, b backend.TaskHold) int { return strings.Compare(a.Type, b.Type) })
	p.is("claimed", []any{next[0].Type, next[0].Attempt, next[1].Type, next[1].Attempt, string(next[1].Body)},
		[]any{"5 given back", 1, "7 over", 2, "body of 7 over"})
	p.Do(func(tx backend.Tx) error {
		s, err := tx.NextFinished(p.Ctx, "mixed", backend.ID{})
		if s == nil {
			return errors.Join(err, errors.New("no task has finished"))
		}
		return err
	})

	progress, err := p.Backend.Progress(p.Ctx, "halted")
	p.OK(err)
	p.is("halted", progress.Halted, true)
	p.Do(func(tx backend.Tx) error {
		_, _, err := tx.Control(p.Ctx, "halted", backend.PlanRetry, p.id("dead"))
		return err
	})
	p.is("tried again", p.claimTasks("halted", 1, time.Minute)[0].Type, "dead")
	p.Is(p.Try(func(tx backend.Tx) error {
		return tx.Submit(p.Ctx, "sealed", backend.PlanOptions{}, []backend.NewTask{{ID: backend.NewID(), Phase: 1, Type: "t"}})
	}), backend.ErrPhaseClosed)
	p.is("of the sealed plan", p.claimTasks("sealed", 1, time.Minute)[0].Type, "last")
}

// putLocks leaves locks of a session that lives on, and one of a session whose time is over.
func putLocks(p *place) {
	alive, err := p.Backend.OpenSession(p.Ctx, years, "alive")
	p.OK(err)
	over, err := p.Backend.OpenSession(p.Ctx, 5*time.Second, "over")
	p.OK(err)
	lock := func(s backend.Session, name string, mode backend.LockMode) {
		g, err := s.Lock(p.Ctx, name, mode, 0)
		p.OK(err)
		p.Do(func(tx backend.Tx) error { return tx.Fence(p.Ctx, name, g.Fence) })
	}
	for range 5 { // the last fence is higher than a first one
		lock(over, "dump over", backend.LockX)
		p.OK(over.Unlock(p.Ctx, "dump over"))
	}
	lock(over, "dump over", backend.LockX)
	lock(alive, "dump shared", backend.LockS)
	lock(alive, "dump exclusive", backend.LockX)
	lock(alive, "dump exclusive", backend.LockX)
}

func checkLocks(p *place) {
	s, err := p.Backend.OpenSession(p.Ctx, time.Minute, "next")
	p.OK(err)
	p.Cleanup(func() { s.Close(context.Background()) })
	g, err := s.Lock(p.Ctx, "dump over", backend.LockX, time.Minute)
	p.OK(err)
	p.Do(func(tx backend.Tx) error { return tx.Fence(p.Ctx, "dump over", g.Fence) }) // fences go on
	p.OK(s.Unlock(p.Ctx, "dump over"))
	locks, err := p.Backend.AppLocks(p.Ctx, "dump ")
	p.OK(err)
	var list []string
	for _, l := range locks {
		list = append(list, fmt.Sprint(l.Name, " ", l.Owner, " ", l.Mode, " ", l.Count, l.Waiting))
		p.Is(p.Try(func(tx backend.Tx) error { return tx.Fence(p.Ctx, l.Name, l.Fence-1) }), backend.ErrFenced)
		p.Do(func(tx backend.Tx) error { return tx.Fence(p.Ctx, l.Name, l.Fence) })
	}
	p.is("locks", sorted(list), []string{"dump exclusive alive Exclusive 2 false", "dump shared alive Shared 1 false"})
	_, err = s.Lock(p.Ctx, "dump exclusive", backend.LockS, 0)
	p.Is(err, backend.ErrLockTimeout)
	_, err = s.Lock(p.Ctx, "dump shared", backend.LockS, 0)
	p.OK(err)
}

func putOnce(p *place) {
	for key, keep := range map[string]time.Duration{"kept": years, "over": time.Millisecond} {
		p.Do(func(tx backend.Tx) error { _, err := tx.Once(p.Ctx, key, keep); return err })
	}
}

func checkOnce(p *place) {
	p.MaintainUntil(backend.JobOnce, 1)
	for key, want := range map[string]bool{"kept": false, "over": true} {
		p.Do(func(tx backend.Tx) error {
			fresh, err := tx.Once(p.Ctx, key, time.Minute)
			p.is(key+" is new", fresh, want)
			return err
		})
	}
}

// recurringJobs are those that putRecurring leaves.
func recurringJobs(p *place) []backend.RecurringJob {
	at := func(day int) time.Time { return time.Date(2026, 11, day, 2, 30, 0, 123_000, time.UTC).Local() }
	return []backend.RecurringJob{
		{
			Name: "due", Revision: 3, Queue: p.name, Type: "m", Body: []byte("'\x00'"), Cron: "30 2 * * *", Zone: "Europe/Berlin",
			Jitter: time.Second, Grace: time.Minute, CatchUp: "all", Overlap: "queue", State: backend.RecurringActive,
			Due: at(25), Look: at(25), Last: at(24), Fired: 5, Skipped: 6, Failures: 7, Error: "oops",
		},
		{Name: "paused", Revision: 1, Queue: p.name, Type: "m", Every: time.Hour, State: backend.RecurringPaused, Due: at(1), Look: at(1)},
		{Name: "removed", Revision: 9, State: backend.RecurringRemoved},
	}
}

func putRecurring(p *place) {
	for _, j := range recurringJobs(p) {
		p.Do(func(tx backend.Tx) error {
			_, err := tx.LockRecurring(p.Ctx, j.Name)
			return errors.Join(err, tx.SetRecurring(p.Ctx, j))
		})
	}
}

func checkRecurring(p *place) {
	list, err := p.Backend.RecurringJobs(p.Ctx)
	p.OK(err)
	slices.SortFunc(list, func(a, b backend.RecurringJob) int { return strings.Compare(a.Name, b.Name) })
	for i := range list {
		list[i].Now = time.Time{}
	}
	p.is("recurring jobs", list, recurringJobs(p))
	p.Do(func(tx backend.Tx) error {
		j, _, err := tx.NextRecurring(p.Ctx)
		if err != nil || j == nil {
			return errors.Join(err, errors.New("no job is due"))
		}
		p.is("the job that is due", j.Name, "due")
		j.Look = j.Now.Add(years)
		return tx.SetRecurring(p.Ctx, *j)
	})
	p.Do(func(tx backend.Tx) error {
		j, next, err := tx.NextRecurring(p.Ctx)
		p.is("no other is due", []any{j == nil, next > years/2}, []any{true, true})
		return err
	})
}

// putCancels leaves a request for a post that waits again, and another for a post that is gone.
func putCancels(p *place) {
	p.post("again", backend.Posting{})
	p.Do(func(tx backend.Tx) error {
		return tx.RequestCancel(p.Ctx, p.q, []backend.ID{p.id("again"), p.id("gone")})
	})
}

func checkCancels(p *place) {
	list, err := p.Backend.CancelRequests(p.Ctx)
	p.OK(err)
	p.is("requests", len(list), 2)
	p.MaintainUntil(backend.JobCancels, 2)
	list, err = p.Backend.CancelRequests(p.Ctx)
	p.OK(err)
	p.is("requests that are met", len(list), 0)
	_, err = p.Backend.PostStatus(p.Ctx, p.q, p.id("again"))
	p.Is(err, backend.ErrNotPending)
}

// putAttempts leaves the errors of two attempts with a message of each kind.
func putAttempts(p *place) {
	p.settled(backend.Outcome{Failure: &backend.Failure{
		Attempts: 2, Error: "oops", Errors: backend.AddAttempt(backend.AddAttempt(nil, 1, "first"), 2, "oops"),
	}, Defer: years})
}

func checkAttempts(p *place) {
	for _, group := range []backend.ID{p.sides("d").B.Group, p.id("post")} {
		p.Do(func(tx backend.Tx) error { return tx.Unpark(p.Ctx, group) })
		h := p.One(p.Request(p.q))
		var errors []any
		for _, a := range h.Messages[0].Errors {
			errors = append(errors, a.Attempt, a.Error, a.At.IsZero())
		}
		p.is("errors of "+string(h.Messages[0].Body), errors, []any{1, "first", false, 2, "oops", false})
		p.Ack(h)
	}
}

// putReturned leaves groups whose deferral was over after another post was sent.
func putReturned(p *place) {
	p.three()
	p.post("waits", backend.Posting{})
	for _, h := range p.take(3, time.Minute) {
		p.Settle(backend.Outcome{Hold: h, Defer: time.Millisecond})
	}
	p.MaintainUntil(backend.JobDeferred, 3)
}

func checkReturned(p *place) {
	var bodies []string
	var first time.Time
	for range 4 {
		h := p.One(p.Request(p.q))
		m := h.Messages[0]
		bodies = append(bodies, string(m.Body))
		if first.IsZero() {
			first = m.Enqueued
		} else if !m.Enqueued.Before(first) {
			p.Errorf("%s was enqueued at %v, and the post behind it at %v", m.Body, m.Enqueued, first)
		}
		p.Ack(h)
	}
	p.is("received at first", bodies[0], "waits")
	p.is("received behind it", sorted(bodies[1:]), allThree)
}

// putCatalog leaves a queue that is disabled while a message waits in it, objects with all their fields,
// and a history.
func putCatalog(p *place) {
	p.post("post", backend.Posting{})
	p.Define(&backend.Catalog{
		Types:      []backend.MessageType{{Name: "xml", Validation: backend.ValidationXML}},
		Queues:     []backend.Queue{{Name: p.name, Disabled: true, Retention: true, KeepProcessed: time.Hour}},
		Priorities: []backend.PriorityRule{{Name: "first", Contract: "c", Local: p.name, Remote: "waiting", Level: 9}},
		History:    []backend.Definition{{Object: backend.Object{Kind: backend.ObjectType, Name: "xml"}, Digest: "digest"}},
	})
}

func checkCatalog(p *place) {
	c := p.catalog()
	p.is("types", c.Types, []backend.MessageType{{Name: "m"}, {Name: "xml", Validation: backend.ValidationXML}})
	p.is("priorities", c.Priorities, []backend.PriorityRule{{Name: "first", Contract: "c", Local: p.name, Remote: "waiting", Level: 9}})
	p.is("each queue has its service", len(c.Queues), len(c.Services))
	if len(c.History) != 1 || c.History[0].Name != "xml" || c.History[0].Digest != "digest" {
		p.Errorf("history: %+v", c.History)
	}
	p.is("version", c.Version, c.History[0].Version)
	q := c.Queues[slices.IndexFunc(c.Queues, func(q backend.Queue) bool { return q.Name == p.name })]
	p.is("queue", []any{q.Disabled, q.Retention, q.KeepProcessed}, []any{true, true, time.Hour})
	p.is("depth", p.queue(p.q).Depth, 1)
	p.Is(p.Try(func(tx backend.Tx) error { _, err := tx.Claim(p.Ctx, p.Request(p.q)); return err }), backend.ErrQueueDisabled)
	q.Disabled = false
	p.Define(&backend.Catalog{Queues: []backend.Queue{q}})
	p.is("received", p.Drain(p.q), []string{"post"})
}

func putReaders(p *place) {
	for name, left := range map[string]time.Duration{"alive": years, "died": time.Millisecond} {
		_, err := p.Backend.PutReader(p.Ctx, backend.ReaderRecord{Reader: p.id(name), Worker: p.id(name + " worker"), Queue: p.q,
			Owner: name, Readers: 3, For: left, InHand: []backend.ID{p.id(name + " message")}, Alone: name == "died"})
		p.OK(err)
	}
}

func checkReaders(p *place) {
	records := func() (list []string) {
		all, err := p.Backend.ReaderRecords(p.Ctx)
		p.OK(err)
		for _, r := range all {
			if r.Owner == "alive" || r.Owner == "died" {
				list = append(list, fmt.Sprint(r.Owner, r.Readers, r.Queue == p.q, r.Left > years/2, r.Left < 0, len(r.InHand), r.Alone))
			}
		}
		return sorted(list)
	}
	p.is("records", records(), []string{"alive3 true true false 1 false", "died3 true false true 1 true"})
	traces, err := p.Backend.PutReader(p.Ctx, backend.ReaderRecord{Reader: p.id("next"), Worker: p.id("next worker"), Queue: p.q,
		Owner: "next", Readers: 1, For: time.Minute, InHand: []backend.ID{p.id("died message")}})
	p.OK(err)
	if len(traces) != 1 || traces[0].Reader != p.id("died") || traces[0].Worker != p.id("died worker") || !traces[0].Alone {
		p.Errorf("traces: %+v", traces)
	}
	p.Do(func(tx backend.Tx) error {
		return errors.Join(tx.ClearTraces(p.Ctx, traces), tx.ResetReader(p.Ctx, p.id("alive")))
	})
	p.is("records after that", records(), []string{"alive3 true true false 0 false"})
}

const someHeaders = `{"a":"1","ü":"\""}`

func putHeaders(p *place) {
	p.post("processed", backend.Posting{Headers: someHeaders})
	h := p.take(1, time.Minute)[0]
	p.Settle(backend.Outcome{Hold: h, Done: h.Messages, Keep: years})
	m := Message(p.open(p.sides("d")).A.Handle, "dialog")
	m.Headers = someHeaders
	p.Do(func(tx backend.Tx) error { _, err := tx.Send(p.Ctx, p.Version, []backend.Outgoing{m}); return err })
	p.post("key", backend.Posting{Key: "k", Headers: someHeaders})
	p.post("post", backend.Posting{Headers: someHeaders})
	p.post("later", backend.Posting{Headers: someHeaders, Delay: years})
}

func checkHeaders(p *place) {
	for _, body := range []string{"processed", "key", "post", "later"} {
		s, err := p.Backend.PostStatus(p.Ctx, p.q, p.id(body))
		p.OK(err)
		p.is("headers of the status", s.Headers, someHeaders)
	}
	for range 3 {
		h := p.One(p.Request(p.q))
		p.is("headers", h.Messages[0].Headers, someHeaders)
		p.Ack(h)
	}
}
