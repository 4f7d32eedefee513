// Package backendtest tests what SQL backends have in common behind the contract: how their
// statements interleave, their number, their plans, and upgrades. Package conformance proves what a
// backend must do.
package backendtest

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/slow"
)

// Sessions matches the checks that fail if a session, or the owner of a transaction, changes what statements mean.
// They concern names and bodies, dialogs and their ends, and order.
var Sessions = regexp.MustCompile("^(B10|D0|E0|P0)")

// Run runs the tests of the store's own statements. open returns an empty store that is migrated, and closes
// it when the test ends.
func Run(t *testing.T, open func(t *testing.T) backend.Backend) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(New(t, open(t))) })
	}
}

var tests = []struct {
	name string
	run  func(*Fixture)
}{
	{"catalog", testCatalog},
	{"migrate", testMigrate},
	{"dialog", testDialog},
	{"end", testEnd},
	{"statements that end transactions", testEndings},
	{"ended later", testEndedLater},
	{"timer", testTimer},
	{"new keys", testNewKeys},
	{"many new keys", testManyKeys},
	{"fence", testFence},
	{"settle fails", testSettleFails},
	{"failures go", testFailuresGo},
	{"messages without a marker", testStranded},
	{"tasks", testFinishTasks},
	{"disabled", testDisabled},
}

// Fixture is a store with two services, A on queue qa and B on queue qb, and a
// queue qp for posts.
type Fixture struct {
	*testing.T
	Backend    backend.Backend
	Version    int64
	QA, QB, QP int64
	Ctx        context.Context
}

func New(t *testing.T, b backend.Backend) *Fixture {
	f := &Fixture{T: t, Backend: b, Ctx: t.Context()}
	f.Define(&backend.Catalog{
		Types:     []backend.MessageType{{Name: "m"}},
		Contracts: []backend.Contract{{Name: "c", Messages: []backend.ContractEntry{{Type: "m", SentBy: backend.ByAny}}}},
		Queues:    []backend.Queue{{Name: "qa"}, {Name: "qb"}, {Name: "qp"}},
		Services:  []backend.Service{{Name: "A", Queue: "qa"}, {Name: "B", Queue: "qb", Contracts: []string{"c"}}},
	})
	return f
}

func (f *Fixture) Define(c *backend.Catalog) {
	f.Helper()
	f.Do(func(tx backend.Tx) error {
		if _, err := tx.Catalog(f.Ctx, true); err != nil {
			return err
		}
		v, err := tx.PutCatalog(f.Ctx, c)
		if err != nil {
			return err
		}
		got, err := tx.Catalog(f.Ctx, false)
		if err != nil {
			return err
		}
		if got.Version != v {
			f.Errorf("catalog version %d after PutCatalog returned %d", got.Version, v)
		}
		f.learn(got)
		return nil
	})
}

// learn notes the version and the queues of a catalog.
func (f *Fixture) learn(c *backend.Catalog) {
	f.Version = c.Version
	for _, q := range c.Queues {
		switch q.Name {
		case "qa":
			f.QA = q.ID
		case "qb":
			f.QB = q.ID
		case "qp":
			f.QP = q.ID
		}
	}
}

// Begin starts a transaction that is rolled back at the end of the test.
func (f *Fixture) Begin() backend.Tx {
	f.Helper()
	tx, err := f.Backend.Begin(f.Ctx)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { tx.Rollback(context.Background()) })
	return tx
}

func (f *Fixture) Try(work func(backend.Tx) error) error {
	f.Helper()
	tx, err := f.Backend.Begin(f.Ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.Background())
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit(f.Ctx)
}

func (f *Fixture) Do(work func(backend.Tx) error) {
	f.Helper()
	f.OK(f.Try(work))
}

func (f *Fixture) OK(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *Fixture) Is(err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Fatalf("error %v, want %v", err, want)
	}
}

func (f *Fixture) Equal(what string, got, want any) {
	f.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		f.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Dialog is a conversation from A to B.
type Dialog struct{ A, B backend.Endpoint }

// Open begins a dialog and accepts it.
func (f *Fixture) Open() Dialog {
	f.Helper()
	d := f.ends()
	f.Do(func(tx backend.Tx) error {
		if err := tx.BeginDialog(f.Ctx, f.Version, backend.NewDialog{Endpoint: d.A, NewGroup: true}); err != nil {
			return err
		}
		ok, err := tx.Accept(f.Ctx, f.Version, d.A.Handle, d.B)
		if err == nil && !ok {
			f.Error("Accept: there is a target already")
		}
		return err
	})
	return d
}

// Begun begins a conversation with messages that wait for their target.
func (f *Fixture) Begun(bodies ...string) Dialog {
	f.Helper()
	d := f.ends()
	f.Do(func(tx backend.Tx) error {
		if err := tx.BeginDialog(f.Ctx, f.Version, backend.NewDialog{Endpoint: d.A, NewGroup: true}); err != nil {
			return err
		}
		var waiting []backend.Outgoing
		for _, body := range bodies {
			waiting = append(waiting, Message(d.A.Handle, body))
		}
		_, err := tx.Withhold(f.Ctx, waiting, "no target")
		return err
	})
	return d
}

func (f *Fixture) ends() Dialog {
	a, b, c := backend.NewID(), backend.NewID(), backend.NewID()
	return Dialog{
		A: backend.Endpoint{Handle: a, Conversation: c, FarHandle: b, Initiator: true, Service: "A", FarService: "B",
			Contract: "c", Queue: f.QA, Group: a, Priority: 5},
		B: backend.Endpoint{Handle: b, Conversation: c, FarHandle: a, Service: "B", FarService: "A",
			Contract: "c", Queue: f.QB, Group: b, Priority: 5},
	}
}

func Message(from backend.ID, body string) backend.Outgoing {
	return backend.Outgoing{ID: backend.NewID(), From: from, Type: "m", Kind: backend.KindUser, Body: []byte(body)}
}

func (f *Fixture) Send(from backend.ID, bodies ...string) {
	f.Helper()
	f.Do(func(tx backend.Tx) error {
		for _, body := range bodies {
			if _, err := tx.Send(f.Ctx, f.Version, []backend.Outgoing{Message(from, body)}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *Fixture) Post(p backend.Posting) backend.ID {
	f.Helper()
	p = f.Posting(p)
	f.Do(func(tx backend.Tx) error {
		_, err := tx.Post(f.Ctx, f.Version, []backend.Posting{p})
		return err
	})
	return p.ID
}

func (f *Fixture) Posting(p backend.Posting) backend.Posting {
	if p.ID.IsZero() {
		p.ID = backend.NewID()
	}
	if p.Queue == 0 {
		p.Queue = f.QP
	}
	if p.Rank == 0 {
		p.Rank = 5
	}
	if p.Type == "" {
		p.Type = "m"
	}
	return p
}

// Request is a claim by lease, which every backend can do.
func (f *Fixture) Request(queue int64) backend.ClaimRequest {
	return backend.ClaimRequest{Version: f.Version, Queue: queue, MaxGroups: 1, MaxMessages: 100, MaxBytes: 1 << 20,
		Lease: time.Minute, Owner: "test"}
}

// Claim claims by lease and commits, and goes on if the claim has left something to
// look at.
func (f *Fixture) Claim(r backend.ClaimRequest) (c backend.Claim) {
	f.Helper()
	for {
		f.Do(func(tx backend.Tx) (err error) {
			c, err = tx.Claim(f.Ctx, r)
			return err
		})
		if r.Walk = c.Walk; r.Walk == nil {
			return c
		}
	}
}

// One claims and returns the one hold there must be.
func (f *Fixture) One(r backend.ClaimRequest) *backend.Hold {
	f.Helper()
	c := f.Claim(r)
	if len(c.Holds) != 1 {
		f.Fatalf("claimed %d holds, want 1 (%+v)", len(c.Holds), c)
	}
	return c.Holds[0]
}

// None claims and finds nothing.
func (f *Fixture) None(r backend.ClaimRequest) backend.Claim {
	f.Helper()
	c := f.Claim(r)
	if len(c.Holds) != 0 {
		f.Fatalf("claimed %v, want nothing", Bodies(c.Holds[0].Messages))
	}
	return c
}

func (f *Fixture) Settle(o ...backend.Outcome) {
	f.Helper()
	f.OK(f.trySettle(o...))
}

func (f *Fixture) trySettle(o ...backend.Outcome) error {
	return f.Try(func(tx backend.Tx) error {
		var holds []*backend.Hold
		for _, x := range o {
			holds = append(holds, x.Hold)
		}
		if err := tx.Reclaim(f.Ctx, holds); err != nil {
			return err
		}
		_, err := tx.Settle(f.Ctx, o)
		return err
	})
}

func (f *Fixture) Ack(h *backend.Hold) {
	f.Helper()
	f.Settle(backend.Outcome{Hold: h, Done: h.Messages})
}

// Drain claims and acknowledges all there is, and returns the bodies.
func (f *Fixture) Drain(queue int64) (all []string) {
	f.Helper()
	for range 1000 {
		c := f.Claim(f.Request(queue))
		if len(c.Holds) == 0 && c.Discarded == 0 {
			return all
		}
		for _, h := range c.Holds {
			all = append(all, Bodies(h.Messages)...)
			f.Ack(h)
		}
	}
	f.Fatal("there is no end to it")
	return nil
}

func (f *Fixture) Maintain(d backend.Job) (int, time.Duration) {
	f.Helper()
	done, err := f.Backend.Maintain(f.Ctx, d, 100)
	f.OK(err)
	return done.Moved, done.Next
}

// MaintainUntil works until n items have been moved.
func (f *Fixture) MaintainUntil(d backend.Job, n int) {
	f.Helper()
	moved := 0
	slow.Eventually(f, 20*time.Second, fmt.Sprintf("job %v moves %d", d, n), func() (any, bool) {
		if moved < n {
			k, _ := f.Maintain(d)
			moved += k
		}
		return moved, moved >= n
	})
	f.Equal(fmt.Sprintf("moved by job %v", d), moved, n)
}

func (f *Fixture) endpoint(h backend.ID) *backend.Endpoint {
	f.Helper()
	var e *backend.Endpoint
	f.Do(func(tx backend.Tx) (err error) {
		e, err = tx.Endpoint(f.Ctx, h)
		return err
	})
	return e
}

// End ends a side of a conversation.
func (f *Fixture) End(e backend.End) backend.Ended {
	f.Helper()
	var done backend.Ended
	f.Do(func(tx backend.Tx) error {
		p, err := tx.Endpoint(f.Ctx, e.Handle)
		if err != nil {
			return err
		}
		if err := tx.LockGroup(f.Ctx, p.Group); err != nil {
			return err
		}
		e.MessageID = backend.NewID()
		done, err = tx.EndDialog(f.Ctx, e)
		return err
	})
	return done
}

func Bodies(messages []*backend.Message) []string {
	s := make([]string, len(messages))
	for i, m := range messages {
		switch {
		case m.Kind != backend.KindUser:
			s[i] = "<" + m.Type[len("http://schemas.microsoft.com/SQL/ServiceBroker/"):] + ">"
		default:
			s[i] = string(m.Body)
		}
	}
	return s
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}

func (f *Fixture) queue(id int64) backend.QueueStatus {
	f.Helper()
	list, err := f.Backend.Queues(f.Ctx, 0)
	f.OK(err)
	for _, q := range list {
		if q.ID == id {
			return q
		}
	}
	f.Fatalf("no queue %d in %+v", id, list)
	return backend.QueueStatus{}
}
