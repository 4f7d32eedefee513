// Package backendtest holds tests that run every method of package backend's
// interfaces against one of the SQL backends. They are a first look, close to
// the code; what a backend must do is proved by package conformance.
package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
)

// Run runs all tests. open returns an empty store that is migrated, and closes
// it when the test ends.
func Run(t *testing.T, open func(t *testing.T) backend.Backend) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(newFixture(t, open(t))) })
	}
}

var tests = []struct {
	name string
	run  func(*fixture)
}{
	{"catalog", testCatalog},
	{"migrate", testMigrate},
	{"dialog", testDialog},
	{"refusals", testRefusals},
	{"batch", testBatch},
	{"withhold", testWithhold},
	{"end", testEnd},
	{"end with error", testEndError},
	{"end unsent", testEndUnsent},
	{"cleanup", testCleanup},
	{"end both", testEndBoth},
	{"end in delivery", testEndInDelivery},
	{"notice", testNotice},
	{"timer", testTimer},
	{"lifetime", testLifetime},
	{"posts", testPosts},
	{"keys", testKeys},
	{"unique", testUnique},
	{"delayed", testDelayed},
	{"cancel", testCancel},
	{"order", testOrder},
	{"promotion", testPromotion},
	{"lease", testLease},
	{"fence", testFence},
	{"defer", testDefer},
	{"park", testPark},
	{"failure", testFailure},
	{"dead", testDead},
	{"retention", testRetention},
	{"processed", testProcessed},
	{"consume", testConsume},
	{"filters", testFilters},
	{"limits", testLimits},
	{"move", testMove},
	{"lock group", testLockGroup},
	{"once", testOnce},
	{"savepoint", testSavepoint},
	{"rollback", testRollback},
	{"done", testDone},
	{"reader", testReader},
	{"sweeps", testSweeps},
	{"context", testContext},
	{"disabled", testDisabled},
	{"unsupported", testUnsupported},
}

// fixture is a store with two services, A on queue qa and B on queue qb, and a
// queue qp for posts.
type fixture struct {
	*testing.T
	b          backend.Backend
	version    int64
	qa, qb, qp int64
	tx         bool // claims without lease survive the claim's commit: never; see lease
	ctx        context.Context
}

func newFixture(t *testing.T, b backend.Backend) *fixture {
	f := &fixture{T: t, b: b, ctx: t.Context()}
	f.define(&backend.Catalog{
		Types:     []backend.MessageType{{Name: "m"}},
		Contracts: []backend.Contract{{Name: "c", Messages: []backend.ContractEntry{{Type: "m", SentBy: backend.ByAny}}}},
		Queues:    []backend.Queue{{Name: "qa"}, {Name: "qb"}, {Name: "qp"}},
		Services:  []backend.Service{{Name: "A", Queue: "qa"}, {Name: "B", Queue: "qb", Contracts: []string{"c"}}},
	})
	return f
}

func (f *fixture) define(c *backend.Catalog) {
	f.Helper()
	f.do(func(tx backend.Tx) error {
		if _, err := tx.Catalog(f.ctx, true); err != nil {
			return err
		}
		v, err := tx.PutCatalog(f.ctx, c)
		if err != nil {
			return err
		}
		got, err := tx.Catalog(f.ctx, false)
		if err != nil {
			return err
		}
		if got.Version != v {
			f.Errorf("catalog version %d after PutCatalog returned %d", got.Version, v)
		}
		f.version = v
		for _, q := range got.Queues {
			switch q.Name {
			case "qa":
				f.qa = q.ID
			case "qb":
				f.qb = q.ID
			case "qp":
				f.qp = q.ID
			}
		}
		return nil
	})
}

// begin starts a transaction that is rolled back at the end of the test.
func (f *fixture) begin() backend.Tx {
	f.Helper()
	tx, err := f.b.Begin(f.ctx)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { tx.Rollback(context.Background()) })
	return tx
}

func (f *fixture) try(work func(backend.Tx) error) error {
	f.Helper()
	tx, err := f.b.Begin(f.ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.Background())
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit(f.ctx)
}

func (f *fixture) do(work func(backend.Tx) error) {
	f.Helper()
	f.ok(f.try(work))
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) is(err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Fatalf("error %v, want %v", err, want)
	}
}

func (f *fixture) equal(what string, got, want any) {
	f.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		f.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// dialog is a conversation from A to B.
type dialog struct{ a, b backend.Endpoint }

// open begins a dialog and accepts it.
func (f *fixture) open() dialog {
	f.Helper()
	d := f.ends()
	f.do(func(tx backend.Tx) error {
		if err := tx.BeginDialog(f.ctx, f.version, backend.NewDialog{Endpoint: d.a, NewGroup: true}); err != nil {
			return err
		}
		ok, err := tx.Accept(f.ctx, f.version, d.a.Handle, d.b)
		if err == nil && !ok {
			f.Error("Accept: there is a target already")
		}
		return err
	})
	return d
}

func (f *fixture) ends() dialog {
	a, b, c := backend.NewID(), backend.NewID(), backend.NewID()
	return dialog{
		a: backend.Endpoint{Handle: a, Conversation: c, Peer: b, Initiator: true, Service: "A", Far: "B",
			Contract: "c", Queue: f.qa, Group: a, Priority: 5},
		b: backend.Endpoint{Handle: b, Conversation: c, Peer: a, Service: "B", Far: "A",
			Contract: "c", Queue: f.qb, Group: b, Priority: 5},
	}
}

func message(from backend.ID, body string) backend.Outgoing {
	return backend.Outgoing{ID: backend.NewID(), From: from, Type: "m", Kind: backend.KindUser, Body: []byte(body)}
}

func (f *fixture) send(from backend.ID, bodies ...string) {
	f.Helper()
	f.do(func(tx backend.Tx) error {
		for _, body := range bodies {
			if _, err := tx.Send(f.ctx, f.version, []backend.Outgoing{message(from, body)}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *fixture) post(p backend.Posting) backend.ID {
	f.Helper()
	p = f.posting(p)
	f.do(func(tx backend.Tx) error {
		_, err := tx.Post(f.ctx, f.version, []backend.Posting{p})
		return err
	})
	return p.ID
}

func (f *fixture) posting(p backend.Posting) backend.Posting {
	if p.ID.IsZero() {
		p.ID = backend.NewID()
	}
	if p.Queue == 0 {
		p.Queue = f.qp
	}
	if p.Rank == 0 {
		p.Rank = 5
	}
	if p.Type == "" {
		p.Type = "m"
	}
	return p
}

// request is a claim by lease, which every backend can do.
func (f *fixture) request(queue int64) backend.ClaimRequest {
	return backend.ClaimRequest{Version: f.version, Queue: queue, MaxGroups: 1, MaxMessages: 100, MaxBytes: 1 << 20,
		Lease: time.Minute, Owner: "test"}
}

// claim claims by lease and commits.
func (f *fixture) claim(r backend.ClaimRequest) backend.Claim {
	f.Helper()
	var c backend.Claim
	f.do(func(tx backend.Tx) (err error) {
		c, err = tx.Claim(f.ctx, r)
		return err
	})
	return c
}

// one claims and returns the one hold there must be.
func (f *fixture) one(r backend.ClaimRequest) *backend.Hold {
	f.Helper()
	c := f.claim(r)
	if len(c.Holds) != 1 {
		f.Fatalf("claimed %d holds, want 1 (%+v)", len(c.Holds), c)
	}
	return c.Holds[0]
}

// none claims and finds nothing.
func (f *fixture) none(r backend.ClaimRequest) backend.Claim {
	f.Helper()
	c := f.claim(r)
	if len(c.Holds) != 0 {
		f.Fatalf("claimed %v, want nothing", bodies(c.Holds[0].Messages))
	}
	return c
}

func (f *fixture) settle(o ...backend.Outcome) {
	f.Helper()
	f.ok(f.trySettle(o...))
}

func (f *fixture) trySettle(o ...backend.Outcome) error {
	return f.try(func(tx backend.Tx) error {
		var holds []*backend.Hold
		for _, x := range o {
			holds = append(holds, x.Hold)
		}
		if err := tx.Reclaim(f.ctx, holds); err != nil {
			return err
		}
		_, err := tx.Settle(f.ctx, o)
		return err
	})
}

func (f *fixture) ack(h *backend.Hold) {
	f.Helper()
	f.settle(backend.Outcome{Hold: h, Done: h.Messages})
}

// drain claims and acknowledges all there is, and returns the bodies.
func (f *fixture) drain(queue int64) (all []string) {
	f.Helper()
	for range 1000 {
		c := f.claim(f.request(queue))
		if len(c.Holds) == 0 && c.Discarded == 0 {
			return all
		}
		for _, h := range c.Holds {
			all = append(all, bodies(h.Messages)...)
			f.ack(h)
		}
	}
	f.Fatal("there is no end to it")
	return nil
}

func (f *fixture) tend(d backend.Duty) (int, time.Duration) {
	f.Helper()
	n, next, err := f.b.Tend(f.ctx, d, 100)
	f.ok(err)
	return n, next
}

// tendUntil tends until n items have been moved.
func (f *fixture) tendUntil(d backend.Duty, n int) {
	f.Helper()
	moved := 0
	for deadline := time.Now().Add(5 * time.Second); moved < n; time.Sleep(5 * time.Millisecond) {
		k, _ := f.tend(d)
		moved += k
		if time.Now().After(deadline) {
			f.Fatalf("duty %v moved %d, want %d", d, moved, n)
		}
	}
	f.equal(fmt.Sprintf("moved by duty %v", d), moved, n)
}

func (f *fixture) endpoint(h backend.ID) *backend.Endpoint {
	f.Helper()
	var e *backend.Endpoint
	f.do(func(tx backend.Tx) (err error) {
		e, err = tx.Endpoint(f.ctx, h)
		return err
	})
	return e
}

func (f *fixture) end(e backend.End) backend.Ended {
	f.Helper()
	var done backend.Ended
	f.do(func(tx backend.Tx) error {
		p, err := tx.Endpoint(f.ctx, e.Handle)
		if err != nil {
			return err
		}
		if err := tx.LockGroup(f.ctx, p.Group); err != nil {
			return err
		}
		e.MessageID = backend.NewID()
		done, err = tx.EndDialog(f.ctx, e)
		return err
	})
	return done
}

func bodies(messages []*backend.Message) []string {
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
