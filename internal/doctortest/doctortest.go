// Package doctortest has a test of doctor.Diagnose for every backend.
package doctortest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/applock"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/doctor"
	"github.com/parleymq/parley/internal/slow"
	"github.com/parleymq/parley/internal/sure"
	"github.com/parleymq/parley/phases"
	"github.com/parleymq/parley/recurring"
)

// Run creates each situation that doctor.Diagnose can explain, and checks that it does. The
// function open returns a handle on one empty, migrated store.
func Run(t *testing.T, open func(t *testing.T) backend.Backend) {
	w := &ward{T: t, ctx: t.Context(), open: open}
	w.be = open(t)
	w.b = w.broker(w.be)
	w.must(w.b.Define(w.ctx, parley.Catalog{
		Queues: []parley.Queue{{Name: "work"}, {Name: "off"}, {Name: "kept", KeepProcessed: time.Hour}, {Name: "quiet"}},
		Services: []parley.Service{{Name: "Work", Queue: "work", Contracts: []string{parley.DefaultContract}}, {Name: "Off", Queue: "off", Contracts: []string{parley.DefaultType}},
			{Name: "Quiet", Queue: "quiet", Contracts: []string{parley.DefaultContract}}},
	}))
	for _, name := range []string{"work", "off", "kept", "quiet"} {
		q, err := w.b.Admin().Queues(w.ctx, name)
		w.must(err)
		w.queues = append(w.queues, q[0].ID)
	}
	if found, err := doctor.Diagnose(w.ctx, w.b, "quiet"); err != nil || len(found) > 0 {
		t.Errorf("of a queue with nothing in it: %v, %v", found, err)
	}
	w.tasks()
	w.groups()
	w.stranded()
	w.messages()
	w.promotions()
	w.locks()
	w.recurring()
	w.workers()
	w.delayed() // last, since a receiver does what is due as well
	since := time.Now()
	w.clock()
	if !testing.Short() { // they wait for what is found after ten seconds
		w.late(since)
		w.disabled()
	}
	w.orphaned() // what it damages stays
	w.unknown()
}

type ward struct {
	*testing.T
	ctx    context.Context
	open   func(t *testing.T) backend.Backend
	be     backend.Backend
	b      *parley.Broker
	queues []int64 // work, off, kept, quiet
}

// broker opens a Broker without maintenance jobs, which would put things right.
func (w *ward) broker(be backend.Backend) *parley.Broker {
	w.Helper()
	b, err := parley.New(w.ctx, be, &parley.Options{NoMaintenance: true})
	w.must(err)
	w.Cleanup(func() { b.Close() })
	return b
}

func (w *ward) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// finds fails the test unless that is what is found, and nothing else of what
// there is an id of. Of everything, others may be found as well.
func (w *ward) finds(what string, codes ...string) {
	w.Helper()
	found, err := doctor.Diagnose(w.ctx, w.b, what)
	w.must(err)
	var got []string
	for _, f := range found {
		got = append(got, f.Code)
	}
	missing := slices.ContainsFunc(codes, func(c string) bool { return !slices.Contains(got, c) })
	slices.Sort(codes)
	slices.Sort(got)
	if missing || what != "" && !slices.Equal(slices.Compact(got), codes) {
		w.Errorf("of %q doctor finds %v, want %v", what, found, codes)
	}
}

func (w *ward) post(queue, key string, o ...parley.PostOption) parley.ID {
	w.Helper()
	if key != "" {
		o = append(o, parley.Key(key))
	}
	id, err := w.b.Post(w.ctx, queue, parley.Payload{Type: parley.DefaultType}, o...)
	w.must(err)
	return id
}

// receive takes the next delivery of "work".
func (w *ward) receive() *parley.Delivery {
	w.Helper()
	d, err := w.b.Receive(w.ctx, "work", &parley.ReceiveOptions{Hold: parley.HoldLease, Lease: time.Minute, Wait: 5 * time.Second})
	w.must(err)
	return d
}

// recurring defines three jobs: no process claims the first, the second fails, the third is paused.
func (w *ward) recurring() {
	for _, name := range []string{"overdue", "failing", "paused"} {
		w.must(recurring.Define(w.ctx, w.b, recurring.Job{Name: name, Queue: "quiet", Every: time.Hour}))
		w.must(w.b.InTx(w.ctx, func(tx *parley.Tx) error {
			be, err := tx.Backend()
			w.must(err)
			j, err := be.LockRecurring(w.ctx, name)
			w.must(err)
			switch j.Look = j.Now.Add(-2 * time.Minute); name {
			case "failing":
				j.Look, j.Failures, j.Error = j.Now.Add(time.Minute), 1, "oops"
			case "paused":
				j.State = recurring.StatePaused
			}
			return be.SetRecurring(w.ctx, *j)
		}))
	}
	found, err := doctor.Diagnose(w.ctx, w.b, "")
	w.must(err)
	got := make(map[string]string)
	for _, f := range found {
		if strings.HasPrefix(f.Code, "recurring.") && f.Bad {
			got[f.Object] = f.Code
		}
	}
	if len(got) != 2 || got[`recurring job "overdue"`] != "recurring.overdue" || got[`recurring job "failing"`] != "recurring.failing" {
		w.Errorf("of recurring jobs doctor finds %v", got)
	}
	for _, name := range []string{"overdue", "failing", "paused"} {
		w.must(recurring.Remove(w.ctx, w.b, name))
	}
}

func (w *ward) delayed() {
	w.post("quiet", "", parley.After(time.Millisecond))
	w.finds(w.post("quiet", "", parley.After(time.Hour)).String(), "message.delayed")
	w.dialog("Quiet", "Quiet", func(c *parley.Conversation) error { return c.SetTimer(w.ctx, time.Millisecond) })
}

func (w *ward) dialog(from, to string, f func(*parley.Conversation) error) (h parley.ID) {
	w.Helper()
	w.must(w.b.InTx(w.ctx, func(tx *parley.Tx) error {
		c, err := tx.Begin(w.ctx, from, to, nil)
		if err != nil {
			return err
		}
		h = c.Handle()
		return f(c)
	}))
	return h
}

func (w *ward) tasks() {
	s, err := phases.Open(w.ctx, w.b, "nightly", nil)
	w.must(err)
	w.must(s.Submit(w.ctx, phases.Task{Phase: 1, Type: "a"}, phases.Task{Phase: 2, Type: "b"}))
	log, err := s.Log(w.ctx, parley.ID{}, 10)
	w.must(err)
	first, second := log[0].ID.String(), log[1].ID.String()
	w.finds(second, "plan.barrier")

	ctx, stop := context.WithCancel(w.ctx)
	started, end := make(chan struct{}), make(chan error)
	over := make(chan error, 1)
	go func() {
		over <- s.Run(ctx, phases.Handlers{"a": func(ctx context.Context, t *phases.Running) error {
			close(started)
			return <-end
		}}, nil)
	}()
	<-started
	w.finds("nightly", "plan.barrier")
	w.finds(first, "plan.barrier", "task.running")
	end <- phases.Dead(errors.New("no such account"))
	for range 500 {
		if p, err := s.Progress(w.ctx); err != nil || p.Halted {
			w.must(err)
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	<-over
	w.finds("nightly", "plan.halted")
	w.finds(first, "plan.halted", "task.over")
	w.finds("", "plan.halted")

	idle, err := phases.Open(w.ctx, w.b, "idle", nil)
	w.must(err)
	w.must(idle.Submit(w.ctx, phases.Task{Phase: 1, Type: "a"}))
	w.finds("idle") // it may have been submitted a moment ago
}

func (w *ward) groups() {
	w.post("work", "park")
	d := w.receive()
	parked := d.Messages[0]
	w.finds(parked.Group.String(), "group.held", "worker.none")
	w.must(d.Park(w.ctx, errors.New("no such customer")))
	w.finds(parked.Group.String(), "group.parked")
	w.finds(parked.ID.String(), "group.parked")
	w.finds("work", "group.parked")

	id := w.post("work", "")
	d = w.receive()
	w.must(d.Defer(w.ctx, time.Hour))
	w.finds(id.String(), "group.deferred")

	id = w.post("work", "")
	d = w.receive()
	w.finds(id.String(), "group.held", "worker.none")
	w.finds("", "group.held", "group.parked", "group.deferred", "worker.none")
	w.must(d.Ack(w.ctx))

	ready := w.post("work", "")
	w.finds(ready.String(), "group.ready", "worker.none")
	if w.be.Capabilities().HoldsInTransaction {
		d, err := w.b.Receive(w.ctx, "work", &parley.ReceiveOptions{Hold: parley.HoldTransaction})
		w.must(err)
		w.finds(ready.String(), "group.held", "worker.none")
		w.must(d.Ack(w.ctx))
	} else {
		w.must(w.receive().Ack(w.ctx))
	}
	w.finds(ready.String(), "unknown")
}

// stranded has a message to which no marker leads.
func (w *ward) stranded() {
	post := w.post("work", "astray")
	id := post.String()
	w.finds(id, "group.ready", "worker.none")
	group, err := w.be.Find(w.ctx, post)
	w.must(err)
	strand := func() bool { return w.damage("ready", w.queues[0]) }
	astray := func() int {
		w.Helper()
		g, err := w.b.Admin().Group(w.ctx, "work", group)
		w.must(err)
		return g.Stranded
	}
	look := func(want int) {
		w.Helper()
		if got := astray(); got != want {
			w.Errorf("an operator sees %d stranded messages, want %d", got, want)
		}
	}
	look(0)
	if strand() {
		look(1)
		w.finds(id, "group.stranded")
		w.finds("", "group.stranded")
		w.must(w.b.Admin().Unpark(w.ctx, group)) // parley retry
		look(0)
		w.finds(id, "group.ready", "worker.none")
		strand()
		slow.Eventually(w, 20*time.Second, "stranded messages, with maintenance", func() (any, bool) {
			_, err := w.be.Maintain(w.ctx, backend.JobGroups, 1000)
			w.must(err)
			left := astray()
			return left, left == 0
		})
	}
	w.must(w.receive().Ack(w.ctx))
	w.finds(id, "unknown")
}

// orphaned has a message without a stream.
func (w *ward) orphaned() {
	w.post("quiet", "orphan")
	w.post("quiet", "other")
	if w.damage("stream", w.queues[3]) {
		w.finds("", "message.orphaned")
	}
}

// damage deletes the rows of a queue from a table, unless what the store keeps cannot be damaged from outside.
func (w *ward) damage(table string, queue int64) (done bool) {
	w.Helper()
	info, err := w.be.Info(w.ctx)
	w.must(err)
	table = info.Settings["prefix"] + table
	if schema := info.Settings["schema"]; schema != "" {
		table = schema + "." + table
	}
	w.must(w.b.InTx(w.ctx, func(tx *parley.Tx) error {
		if tx.SQL() == nil {
			return nil
		}
		done = true
		_, err := tx.SQL().ExecContext(w.ctx, fmt.Sprintf("DELETE FROM %s WHERE queue_id = %d", table, queue))
		return err
	}))
	return done
}

func (w *ward) messages() {
	kept := w.post("kept", "")
	worker := sure.Of(w.b.NewWorker("kept", parley.HandlerFunc(func(context.Context, *parley.Message) error { return nil }), nil))
	w.must(worker.Drain(w.ctx))
	w.finds(kept.String(), "message.processed")

	id := w.post("work", "")
	worker = sure.Of(w.b.NewWorker("work", parley.HandlerFunc(func(context.Context, *parley.Message) error {
		return parley.DeadLetter(errors.New("no such order"))
	}), nil))
	w.must(worker.Drain(w.ctx))
	w.finds(id.String(), "message.dead")

	handle := w.dialog("Work", "Nowhere", func(c *parley.Conversation) error { return c.Send(w.ctx, "", nil) })
	w.finds(handle.String(), "service.unknown")
	w.finds("", "service.unknown")

	w.must(w.b.Admin().DisableQueue(w.ctx, "off"))
	handle = w.dialog("Work", "Off", func(c *parley.Conversation) error { return c.Send(w.ctx, "", nil) })
	w.finds(handle.String(), "message.withheld")
	w.finds("off", "queue.disabled")
	w.must(w.b.Admin().EnableQueue(w.ctx, "off"))
}

func (w *ward) promotions() {
	handle := w.dialog("Work", "Work", func(c *parley.Conversation) error { return c.Send(w.ctx, "", nil) })
	sides, err := w.b.Admin().Conversations(w.ctx, parley.ConversationQuery{Handle: handle})
	w.must(err)
	var group parley.ID
	for _, s := range sides {
		if s.Handle == handle {
			group = s.Group
		}
	}
	w.must(w.b.Promote(w.ctx, group, parley.Sticky()))
	w.finds(group.String(), "group.empty")
	w.must(w.b.InTx(w.ctx, func(tx *parley.Tx) error { return tx.Conversation(handle).End(w.ctx) }))
	w.finds(group.String(), "group.empty", "promotion.ended")
	w.finds("", "promotion.ended")
	for {
		d, err := w.b.Receive(w.ctx, "work", nil)
		if errors.Is(err, parley.ErrNoMessage) {
			return
		}
		w.must(err)
		w.must(d.Ack(w.ctx))
	}
}

func (w *ward) locks() {
	holder, err := applock.Open(w.ctx, w.b, &applock.Options{Owner: "holder"})
	w.must(err)
	defer holder.Close()
	waiter, err := applock.Open(w.ctx, w.b, &applock.Options{Owner: "waiter"})
	w.must(err)
	defer waiter.Close()
	_, err = holder.Lock(w.ctx, "ledger", applock.Exclusive, 0)
	w.must(err)
	got := make(chan error, 1)
	go func() {
		_, err := waiter.Lock(w.ctx, "ledger", applock.Shared, time.Minute)
		got <- err
	}()
	for range 500 {
		list, err := applock.List(w.ctx, w.b, "ledger")
		w.must(err)
		if len(list) == 2 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.finds("", "lock.waits")
	w.must(holder.Unlock(w.ctx, "ledger"))
	w.must(<-got)
}

func (w *ward) workers() {
	id := w.post("work", "")
	record := backend.ReaderRecord{Reader: backend.NewID(), Worker: backend.NewID(), Queue: w.queues[0],
		Owner: "host:1", Readers: 1, For: time.Minute, InHand: []backend.ID{id}}
	_, err := w.be.PutReader(w.ctx, record)
	w.must(err)
	w.finds(id.String(), "group.ready") // the worker is there
	record.For = time.Millisecond
	_, err = w.be.PutReader(w.ctx, record)
	w.must(err)
	time.Sleep(5 * time.Millisecond)
	w.finds("work", "group.parked", "group.deferred", "worker.dead", "worker.none")
	record.For = time.Minute
	_, err = w.be.PutReader(w.ctx, record)
	w.must(err)
}

// skewed is a store whose clock is not this process's.
type skewed struct {
	backend.Backend
	by time.Duration
}

func (s skewed) Info(ctx context.Context) (backend.Info, error) {
	i, err := s.Backend.Info(ctx)
	i.Clock = i.Clock.Add(s.by)
	return i, err
}

func (w *ward) clock() {
	be := w.open(w.T)
	info, err := be.Info(w.ctx)
	w.must(err)
	if info.Clock.IsZero() {
		return // it goes by this process's
	}
	for _, by := range []time.Duration{time.Minute, -time.Minute, 0} {
		found, err := doctor.Diagnose(w.ctx, w.broker(skewed{be, by}), "")
		w.must(err)
		if has := slices.ContainsFunc(found, func(f doctor.Finding) bool { return f.Code == "store.clock" }); has != (by != 0) {
			w.Errorf("with a clock that is %v ahead doctor finds %v", by, found)
		}
	}
}

// late waits until maintenance jobs that no broker does must be missed.
func (w *ward) late(since time.Time) {
	time.Sleep(time.Until(since.Add(11 * time.Second)))
	found, err := doctor.Diagnose(w.ctx, w.b, "")
	w.must(err)
	for _, want := range []string{"maintenance.stopped job delayed", "maintenance.stopped job timers", `plan.idle plan "idle"`, `message.inhand queue "work"`} {
		if !slices.ContainsFunc(found, func(f doctor.Finding) bool { return fmt.Sprint(f.Code, " ", f.Object) == want }) {
			w.Errorf("doctor finds %v, and not %s", found, want)
		}
	}
	overdue, err := w.be.Overdue(w.ctx)
	w.must(err)
	if len(overdue) != 2 {
		w.Errorf("overdue are %v, want timers and delayed posts", overdue)
	}
	for _, job := range []backend.Job{backend.JobDelayed, backend.JobTimers} {
		_, err := w.be.Maintain(w.ctx, job, 100)
		w.must(err)
	}
	if overdue, err = w.be.Overdue(w.ctx); err != nil || len(overdue) > 0 {
		w.Errorf("when the jobs were done, %v are overdue, %v", overdue, err)
	}
}

func (w *ward) disabled() {
	w.must(w.b.Admin().DisableQueue(w.ctx, "work"))
	w.finds("work", "queue.disabled", "message.inhand", "group.parked", "group.deferred")
	w.must(w.b.Admin().EnableQueue(w.ctx, "work"))
}

func (w *ward) unknown() {
	w.finds(parley.NewID().String(), "unknown")
	if _, err := doctor.Diagnose(w.ctx, w.b, "nothing"); !errors.Is(err, parley.ErrUnknownQueue) {
		w.Errorf("of a name that is nothing: %v", err)
	}
	w.must(w.be.Uninstall(w.ctx))
	w.finds("", "schema.missing")
}

// Finds returns the doctor's finding about an object of a store with a code, and fails the test if
// there is none. Without a code it fails the test if there is a finding about the schema. It closes
// the store.
func Finds(t *testing.T, be backend.Backend, code, object string) string {
	t.Helper()
	b, err := parley.New(t.Context(), be, &parley.Options{NoMaintenance: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	found, err := doctor.Diagnose(t.Context(), b, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Code == code && f.Object == object {
			return f.Text
		}
		if code == "" && strings.HasPrefix(f.Code, "schema.") {
			t.Errorf("doctor finds %v", f)
		}
	}
	if code != "" {
		t.Errorf("doctor finds %v, want %q of %q", found, code, object)
	}
	return ""
}
