// Package roletest has a test of the rights of roles, for backends whose databases
// know them.
package roletest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/applock"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/doctor"
	"github.com/parleymq/parley/internal/sure"
	"github.com/parleymq/parley/phases"
	"github.com/parleymq/parley/recurring"
)

// Site is an empty store of the test's own.
type Site struct {
	// Owner opens it with all rights.
	Owner func(t *testing.T) backend.Backend
	// As opens it with a separate account, which has the rights that grants prints
	// for it.
	As func(t *testing.T, role backend.Role, grants func(account string) string) backend.Backend
	// Played, if set, is called when a role has done its work.
	Played func(t *testing.T)
	// Bodies are queries of bodies.
	Bodies []string
}

// cast is who plays a role.
type cast struct {
	*testing.T
	ctx   context.Context
	owner *parley.Broker
	b     *parley.Broker
}

// Run has each role do what it is for, with exactly the rights that Grants prints for
// it, and try what it is not for.
func Run(t *testing.T, site Site) {
	owner := broker(t, site.Owner(t))
	c := &cast{T: t, ctx: t.Context(), owner: owner}
	c.must(owner.Migrate(c.ctx))
	c.must(owner.Define(c.ctx, catalog))
	for _, x := range []struct {
		role  backend.Role
		plays func(*cast, Site)
	}{
		{backend.RoleSender, (*cast).sender}, {backend.RoleWorker, (*cast).worker}, {backend.RoleOperator, (*cast).operator},
	} {
		t.Run(string(x.role), func(t *testing.T) {
			b := broker(t, site.As(t, x.role, func(account string) string {
				text, err := owner.Backend().Capabilities().Granter.Grants(t.Context(), x.role, account)
				if err != nil {
					t.Fatal(err)
				}
				return text
			}))
			x.plays(&cast{T: t, ctx: t.Context(), owner: owner, b: b}, site)
			if site.Played != nil {
				site.Played(t)
			}
		})
	}
}

// catalog is what the owner has defined.
var catalog = parley.Catalog{
	Types:     []parley.MessageType{{Name: "job"}, {Name: "note"}},
	Contracts: []parley.Contract{{Name: "jobs", Messages: []parley.ContractEntry{{Type: "job", SentBy: parley.ByAny}}}, {Name: "notes", Messages: []parley.ContractEntry{{Type: "note", SentBy: parley.ByInitiator}}}},
	Queues:    []parley.Queue{{Name: "shop", Retention: true}, {Name: "work"}, {Name: "posts", KeepProcessed: time.Millisecond}, {Name: "notes"}},
	Services: []parley.Service{
		{Name: "Shop", Queue: "shop"}, {Name: "Work", Queue: "work", Contracts: []string{"jobs", "notes"}},
		{Name: "Notes", Queue: "notes", Recycles: []parley.Recycle{{Contract: "notes"}}},
	},
}

func broker(t *testing.T, be backend.Backend) *parley.Broker {
	t.Helper()
	b, err := parley.New(t.Context(), be, &parley.Options{NoMaintenance: true, KeepOnce: time.Millisecond, Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func (c *cast) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// may does work in a transaction.
func (c *cast) may(b *parley.Broker, what string, work func(*parley.Tx) error) {
	c.Helper()
	if err := b.InTx(c.ctx, work); err != nil {
		c.Errorf("%s: %v", what, err)
	}
}

// denied fails the test unless the database refuses it.
func (c *cast) denied(what string, err error) {
	c.Helper()
	if !errors.Is(err, parley.ErrDenied) {
		c.Errorf("%s: error %v, want ErrDenied", what, err)
	}
}

// sql runs a statement of the role's in a transaction.
func (c *cast) sql(text string) error {
	return c.b.InTx(c.ctx, func(tx *parley.Tx) error {
		rows, err := tx.SQL().QueryContext(c.ctx, text)
		if err != nil {
			return c.b.Backend().Capabilities().Classify(err)
		}
		return rows.Close()
	})
}

func job(body string) parley.Payload { return parley.Payload{Type: "job", Body: []byte(body)} }

// dialog begins a conversation and sends on it.
func dialog(ctx context.Context, tx *parley.Tx, from, to string, o *parley.DialogOptions, bodies ...string) (*parley.Conversation, error) {
	d, err := tx.Begin(ctx, from, to, o)
	for _, body := range bodies {
		if err == nil {
			err = d.Send(ctx, "job", []byte(body))
		}
	}
	return d, err
}

var jobs = &parley.DialogOptions{Contract: "jobs", Lifetime: time.Hour}

// send is what senders do, and workers as well.
func (c *cast) send(b *parley.Broker) (handle parley.ID) {
	c.Helper()
	u := parley.NewID().String()
	for range 2 { // with new keys, and with known ones
		for _, o := range [][]parley.PostOption{
			nil, {parley.Key("k")}, {parley.After(time.Millisecond)}, {parley.Unique(u)}, {parley.Key("k"), parley.Unique("k" + u)},
		} {
			_, err := b.Post(c.ctx, "posts", job("posted"), o...)
			c.must(err)
		}
		c.may(b, "post a batch", func(tx *parley.Tx) error {
			_, err := tx.PostBatch(c.ctx, "posts", []parley.Posting{{Payload: job("1")}, {Payload: job("2")},
				{Payload: job("3"), Options: []parley.PostOption{parley.Key("l")}}, {Payload: job("4"), Options: []parley.PostOption{parley.Key("m")}}})
			return err
		})
	}
	c.may(b, "a conversation", func(tx *parley.Tx) error {
		d, err := dialog(c.ctx, tx, "Shop", "Work", jobs, "sent", "sent again")
		handle = d.Handle()
		return err
	})
	c.may(b, "several conversations", func(tx *parley.Tx) error {
		one, err := dialog(c.ctx, tx, "Shop", "Work", jobs)
		c.must(err)
		two, err := dialog(c.ctx, tx, "Shop", "Work", jobs)
		c.must(err)
		return tx.SendTo(c.ctx, []*parley.Conversation{one, two, tx.Conversation(handle)}, "job", []byte("to all"))
	})
	c.may(b, "a conversation without a target", func(tx *parley.Tx) error {
		_, err := dialog(c.ctx, tx, "Shop", "Nowhere", jobs, "withheld")
		return err
	})
	s, err := b.NewSender(c.ctx, &parley.SenderOptions{From: "Notes", To: "Work", Contract: "notes", MaxMessages: 2})
	c.must(err)
	for range 3 {
		c.may(b, "a Sender", func(tx *parley.Tx) error {
			if err := s.Send(c.ctx, tx, parley.Payload{Type: "note"}); err != nil {
				return err
			}
			return s.Key("customer").Send(c.ctx, tx, parley.Payload{Type: "note"})
		})
	}
	c.may(b, "look at what there is", func(tx *parley.Tx) error {
		if _, err := b.Catalog(c.ctx); err != nil {
			return err
		}
		_, err := tx.Conversation(handle).Status(c.ctx)
		return err
	})
	c.may(b, "Once", func(tx *parley.Tx) error { _, err := tx.Once(c.ctx, fmt.Sprint("once ", handle)); return err })
	return handle
}

func (c *cast) sender(site Site) {
	handle := c.send(c.b)
	d, err := c.owner.Receive(c.ctx, "posts", nil)
	c.must(err)
	id := d.Messages[0].ID
	c.must(d.Rollback(c.ctx))

	_, err = c.b.Receive(c.ctx, "posts", nil)
	c.denied("receive", err)
	_, err = c.b.PostStatus(c.ctx, "posts", id)
	c.denied("read a post", err)
	c.denied("cancel a post", c.b.InTx(c.ctx, func(tx *parley.Tx) error { return tx.CancelPost(c.ctx, "posts", id) }))
	c.denied("end", c.b.InTx(c.ctx, func(tx *parley.Tx) error { return tx.Conversation(handle).End(c.ctx) }))
	_, err = c.b.Admin().DeadLetters(c.ctx, "", parley.Place{}, 10)
	c.denied("dead letters", err)
	_, err = c.b.Admin().Queues(c.ctx)
	c.denied("status", err)
	c.denied("define", c.b.Define(c.ctx, parley.Catalog{Queues: []parley.Queue{{Name: "other"}}}))
	for _, q := range site.Bodies {
		c.must(c.owner.InTx(c.ctx, func(tx *parley.Tx) error { // the query is one
			rows, err := tx.SQL().QueryContext(c.ctx, q)
			if err == nil {
				err = rows.Close()
			}
			return err
		}))
		c.denied(q, c.sql(q))
	}
}

func (c *cast) worker(site Site) {
	c.send(c.b)
	c.receive()
	c.jobs()
	c.locks()
	c.tasks()
	c.recurring()
	c.cancels()
	for range 2 {
		_, err := c.b.Backend().Maintain(c.ctx, backend.JobCancels, 100)
		c.must(err)
	}
	_, err := c.b.Admin().DeadLetters(c.ctx, "", parley.Place{}, 10)
	c.denied("dead letters", err)
	c.denied("define", c.b.Define(c.ctx, parley.Catalog{Queues: []parley.Queue{{Name: "other"}}}))
	c.denied("disable a queue", c.b.Admin().DisableQueue(c.ctx, "work"))
}

// receive has workers handle everything: by transaction and by lease, with replies,
// failures, dead letters and parked groups, until nothing is left.
func (c *cast) receive() {
	failed := make(map[parley.ID]int)
	handler := parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		body := string(m.Body)
		switch {
		case m.Type == parley.EndDialog || m.Type == parley.ErrorMessageType || m.Type == parley.EndOfStream:
			return m.End(ctx)
		case body == "1" || body == "3":
			return parley.DeadLetter(errors.New("it cannot be handled"))
		case failed[m.ID] < 1 && body == "2":
			failed[m.ID]++
			return parley.Defer(time.Millisecond)
		case body == "4":
			return parley.Park(errors.New("an operator has to look"))
		case failed[m.ID] < 1 && body == "posted":
			failed[m.ID]++
			return errors.New("the first attempt fails")
		case body == "sent":
			return m.Reply(ctx, "job", []byte("answer"))
		case body == "to all":
			return m.End(ctx)
		}
		tx, err := m.Tx(ctx)
		if err == nil {
			err = tx.Promote(ctx, m.Group)
		}
		return err
	})
	for _, hold := range []parley.Hold{parley.HoldTransaction, parley.HoldLease} {
		for _, queue := range []string{"posts", "work", "shop"} {
			_, err := c.b.Post(c.ctx, "posts", job("one more"), parley.Key("n"))
			c.must(err)
			c.drain(func() *parley.Worker {
				return sure.Of(c.b.NewWorker(queue, handler, &parley.WorkerOptions{Hold: hold, MaxReaders: 1, MaxAttempts: 3,
					Backoff: func(int) time.Duration { return time.Millisecond }}))
			})
		}
	}
}

// drain has workers handle what there is, with what is tried again after a moment.
func (c *cast) drain(make func() *parley.Worker) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, 20*time.Second)
	defer cancel()
	for range 3 {
		if err := make().Drain(ctx); err != nil {
			c.Fatalf("a worker ended with %v", err)
		}
		time.Sleep(5 * time.Millisecond) // what was put off is due then
	}
}

func (c *cast) jobs() {
	for job := range backend.Job(backend.JobCount) {
		if _, err := c.b.Backend().Maintain(c.ctx, job, 100); err != nil {
			c.Errorf("job %s: %v", job, err)
		}
	}
}

func (c *cast) locks() {
	c.may(c.b, "locks of a transaction", func(tx *parley.Tx) error {
		g, err := applock.In(tx).Lock(c.ctx, "stock", applock.Exclusive, time.Second)
		if err != nil {
			return err
		}
		return applock.In(tx).Fence(c.ctx, "stock", g.Fence)
	})
	s, err := applock.Open(c.ctx, c.b, nil)
	c.must(err)
	_, err = s.Lock(c.ctx, "stock", applock.Shared, time.Second)
	c.must(err)
	_, err = s.Lock(c.ctx, "stock", applock.Update, time.Second)
	c.must(err)
	c.must(s.Unlock(c.ctx, "stock"))
	c.must(s.Close())
}

func (c *cast) tasks() {
	s, err := phases.Open(c.ctx, c.b, "nightly", &phases.Options{MaxAttempts: 2})
	c.must(err)
	c.must(s.Submit(c.ctx, phases.Task{Phase: 1, Type: "a"}, phases.Task{Phase: 2, Type: "a"}))
	tried := false
	handlers := phases.Handlers{"a": func(ctx context.Context, t *phases.Running) error {
		if !tried {
			tried = true
			return errors.New("the first attempt fails")
		}
		_, err := t.Tx(ctx)
		return err
	}}
	c.must(s.Seal(c.ctx))
	c.must(s.Run(c.ctx, handlers, &phases.PoolOptions{Backoff: func(int) time.Duration { return time.Millisecond }}))
	c.must(s.Delete(c.ctx))
}

func (c *cast) recurring() {
	j := recurring.Job{Name: "often", Queue: "notes", Every: 10 * time.Millisecond, Overlap: recurring.OverlapSkip}
	c.must(recurring.Define(c.ctx, c.b, j))
	c.must(recurring.Start(c.ctx, c.b))
	for fired := int64(0); fired == 0; {
		list, err := recurring.List(c.ctx, c.b)
		c.must(errors.Join(err, c.ctx.Err()))
		fired = list[0].Fired
	}
	c.must(recurring.Remove(c.ctx, c.b, j.Name))
}

func (c *cast) operator(Site) {
	// What there is to operate on is left by the other roles, and by the owner.
	for range 2 {
		c.send(c.owner)
	}
	owner := *c
	owner.b = c.owner
	owner.receive()
	s, err := phases.Open(c.ctx, c.owner, "weekly", nil)
	c.must(err)
	c.must(s.Submit(c.ctx, phases.Task{Phase: 1, Type: "a"}, phases.Task{Phase: 2, Type: "a"}))

	for _, what := range []string{"", "posts", "work"} {
		found, err := doctor.Diagnose(c.ctx, c.b, what)
		if err != nil {
			c.Errorf("doctor %q: %v", what, err)
		}
		for _, f := range found {
			if strings.HasPrefix(f.Code, "schema.") && f.Code != backend.WarnRole {
				c.Errorf("doctor finds %v", f)
			}
		}
	}
	c.looks()
	c.groups()
	c.dead()
	c.schedules()
	c.cancels()
	j := recurring.Job{Name: parley.NewID().String(), Queue: "notes", Every: time.Hour, Overlap: recurring.OverlapSkip}
	c.must(recurring.Define(c.ctx, c.b, j))
	_, err = recurring.RunNow(c.ctx, c.b, j.Name)
	c.must(err)
	c.must(recurring.Pause(c.ctx, c.b, j.Name))
	c.must(recurring.Remove(c.ctx, c.b, j.Name))
	c.denied("define", c.b.Define(c.ctx, parley.Catalog{Queues: []parley.Queue{{Name: "other"}}}))
	c.denied("begin", c.b.InTx(c.ctx, func(tx *parley.Tx) error { _, err := tx.Begin(c.ctx, "Shop", "Work", jobs); return err }))
}

// cancels cancels posts that wait, and a post that a receiver has in hand.
func (c *cast) cancels() {
	inHand, err := c.owner.Post(c.ctx, "notes", parley.Payload{})
	c.must(err)
	for _, o := range [][]parley.PostOption{{parley.Key("k")}, {parley.After(time.Hour)}, {parley.Unique("u")}} {
		_, err := c.owner.Post(c.ctx, "notes", parley.Payload{}, o...)
		c.must(err)
	}
	d, err := c.owner.Receive(c.ctx, "notes", &parley.ReceiveOptions{Group: inHand})
	c.must(err)
	got, err := c.b.CancelPosts(c.ctx, "notes", parley.PostFilter{All: true})
	c.must(err)
	if len(got.Removed) < 3 || !slices.Equal(got.Requested, []parley.ID{inHand}) {
		c.Errorf("%d posts were removed and %v requested, want 3 or more, and %v", len(got.Removed), got.Requested, inHand)
	}
	_, err = c.b.Backend().CancelRequests(c.ctx)
	c.must(err)
	c.must(d.Ack(c.ctx))
}

func (c *cast) looks() {
	_, err := c.b.Admin().Queues(c.ctx)
	c.must(err)
	conversations, err := c.b.Admin().Conversations(c.ctx, parley.ConversationQuery{Limit: 10})
	c.must(err)
	for _, x := range conversations {
		_, err := c.b.Admin().Retained(c.ctx, x.Handle)
		c.must(err)
	}
	for _, look := range []func() error{
		func() error { _, err := applock.List(c.ctx, c.b, ""); return err },
		func() error { _, err := phases.List(c.ctx, c.b); return err },
		func() error {
			_, err := phases.Log(c.ctx, c.b, phases.Query{Plan: "weekly", Limit: 10})
			return err
		},
		func() error { _, err := c.b.Admin().Withheld(c.ctx, parley.ID{}, 10); return err },
		func() error { _, err := c.b.Admin().Workers(c.ctx); return err },
	} {
		c.must(look())
	}
	_, err = c.b.PostStatus(c.ctx, "posts", parley.NewID())
	if !errors.Is(err, parley.ErrNotPending) && err != nil {
		c.Errorf("the status of a post that there is not: %v", err)
	}
}

func (c *cast) groups() {
	for _, queue := range []string{"posts", "work"} {
		_, err := c.owner.Post(c.ctx, "posts", job("late"))
		c.must(err)
		c.may(c.owner, "a conversation", func(tx *parley.Tx) error {
			_, err := dialog(c.ctx, tx, "Shop", "Work", jobs, "late")
			return err
		})
		groups, err := c.b.Admin().Groups(c.ctx, queue, parley.Place{}, 100)
		c.must(err)
		if len(groups) == 0 {
			c.Fatalf("queue %s has no groups", queue)
		}
		for _, g := range groups {
			c.must(c.b.Promote(c.ctx, g.Group, parley.Sticky()))
			c.must(c.b.Demote(c.ctx, g.Group))
		}
	}
	// The owner parks some of each kind.
	park := parley.HandlerFunc(func(context.Context, *parley.Message) error { return parley.Park(errors.New("bad")) })
	for _, queue := range []string{"posts", "work"} {
		for i := range 6 {
			o := []parley.PostOption{parley.Unique(fmt.Sprint("p", i))}
			if i%2 == 0 {
				o = append(o, parley.Key(fmt.Sprint("p", i)))
			}
			_, err := c.owner.Post(c.ctx, "posts", job("bad"), o...)
			c.must(err)
			c.may(c.owner, "a conversation", func(tx *parley.Tx) error {
				_, err := dialog(c.ctx, tx, "Shop", "Work", jobs, "bad")
				return err
			})
		}
		c.drain(func() *parley.Worker {
			return sure.Of(c.owner.NewWorker(queue, park, &parley.WorkerOptions{MaxReaders: 1}))
		})
		parked, err := c.b.Admin().Parked(c.ctx, queue, parley.Place{}, 100)
		c.must(err)
		if len(parked) < 6 {
			c.Fatalf("%d groups of %s are parked", len(parked), queue)
		}
		for i, g := range parked {
			_, err := c.b.Admin().PeekParked(c.ctx, queue, g.Group, 10)
			c.must(err)
			switch i % 3 {
			case 0:
				c.must(c.b.Admin().Unpark(c.ctx, g.Group))
			case 1:
				_, err = c.b.Admin().SkipParked(c.ctx, queue, g.Group, "skipped")
			case 2:
				_, err = c.b.Admin().DiscardParked(c.ctx, queue, g.Group)
			}
			c.must(err)
		}
	}
}

func (c *cast) dead() {
	dead, err := c.b.Admin().DeadLetters(c.ctx, "", parley.Place{}, 100)
	c.must(err)
	if len(dead) < 4 {
		c.Fatalf("there are %d dead letters", len(dead))
	}
	for i, d := range dead {
		if i%2 == 0 && d.Message.ConversationID.IsZero() {
			if _, err := c.b.Admin().RequeueDead(c.ctx, d); err != nil {
				c.Errorf("requeue %+v: %v", d, err)
			}
			continue
		}
		_, err := c.b.Admin().DiscardDead(c.ctx, d.Message.ID)
		c.must(err)
	}
}

func (c *cast) schedules() {
	s, err := phases.Find(c.ctx, c.b, "weekly")
	c.must(err)
	_, err = s.Status(c.ctx)
	c.must(err)
	_, err = s.Retry(c.ctx)
	c.must(err)
	_, err = s.Skip(c.ctx)
	c.must(err)
	_, err = s.Cancel(c.ctx)
	c.must(err)
	c.must(s.Seal(c.ctx))
	c.must(s.Delete(c.ctx))
}
