package memstore

import (
	"context"
	"errors"
	"flag"
	"sync"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
)

var ctx = context.Background()

// With a fault, tests are expected to fail: a way to see which ones find it.
var injected = flag.String("fault", "", "run the tests with this fault")

// clock is a store's clock that a test moves.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// bench is a store with two services, A on queue 1 and B on queue 2, and posts
// on queue 3.
type bench struct {
	*testing.T
	store   *Store
	h       *Handle
	clock   *clock
	version int64
}

const (
	queueA int64 = iota + 1
	queueB
	queueP
)

func newBench(t *testing.T, fault Fault) *bench {
	t.Helper()
	if fault == "" {
		fault = Fault(*injected)
	}
	b := &bench{T: t, clock: &clock{at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}}
	b.store = NewStore(Options{Now: b.clock.now, Fault: fault})
	b.h = b.store.Open()
	t.Cleanup(func() { b.h.Close() })
	b.must(b.h.Migrate(ctx))
	b.do(func(tx *Tx) {
		var err error
		b.version, err = tx.PutCatalog(ctx, &backend.Catalog{
			Queues:   []backend.Queue{{Name: "a"}, {Name: "b"}, {Name: "p"}},
			Services: []backend.Service{{Name: "A", Queue: "a"}, {Name: "B", Queue: "b"}},
		})
		b.must(err)
	})
	return b
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) want(err, want error) {
	b.Helper()
	if !errors.Is(err, want) {
		b.Fatalf("error %v, want %v", err, want)
	}
}

func (b *bench) begin() *Tx {
	b.Helper()
	tx, err := b.h.Begin(ctx)
	b.must(err)
	return tx.(*Tx)
}

// do runs a transaction and commits it.
func (b *bench) do(f func(tx *Tx)) {
	b.Helper()
	tx := b.begin()
	defer tx.Rollback(ctx)
	f(tx)
	b.must(tx.Commit(ctx))
}

// dialog makes a conversation from A to B and returns the handles.
func (b *bench) dialog(priority int) (initiator, target backend.ID) {
	b.Helper()
	initiator, target = backend.NewID(), backend.NewID()
	conversation := backend.NewID()
	b.do(func(tx *Tx) {
		b.must(tx.BeginDialog(ctx, b.version, backend.NewDialog{NewGroup: true, Endpoint: backend.Endpoint{
			Handle: initiator, FarHandle: target, Conversation: conversation, Initiator: true,
			Service: "A", FarService: "B", Queue: queueA, Group: initiator, Priority: priority,
		}}))
		ok, err := tx.Accept(ctx, b.version, initiator, backend.Endpoint{
			Handle: target, FarHandle: initiator, Conversation: conversation,
			Service: "B", FarService: "A", Queue: queueB, Priority: priority,
		})
		b.must(err)
		if !ok {
			b.Fatal("not accepted")
		}
	})
	return initiator, target
}

func (b *bench) send(tx *Tx, from backend.ID, bodies ...string) {
	b.Helper()
	var out []backend.Outgoing
	for _, body := range bodies {
		out = append(out, backend.Outgoing{ID: backend.NewID(), From: from, Kind: backend.KindUser, Type: "T", Body: []byte(body)})
	}
	_, err := tx.Send(ctx, b.version, out)
	b.must(err)
}

func (b *bench) post(tx *Tx, key string, bodies ...string) {
	b.Helper()
	for _, body := range bodies {
		_, err := tx.Post(ctx, b.version, []backend.Posting{{ID: backend.NewID(), Queue: queueP, Key: key, Rank: 5, Body: []byte(body)}})
		b.must(err)
	}
}

func (b *bench) request(queue int64) backend.ClaimRequest {
	return backend.ClaimRequest{Version: b.version, Queue: queue, MaxGroups: 1, MaxMessages: 10, MaxBytes: 1 << 20, Owner: "test"}
}

func (b *bench) claim(tx *Tx, r backend.ClaimRequest) backend.Claim {
	b.Helper()
	c, err := tx.Claim(ctx, r)
	b.must(err)
	return c
}

func (b *bench) maintain(jobs ...backend.Job) int {
	b.Helper()
	n := 0
	for _, d := range jobs {
		done, err := b.h.Maintain(ctx, d, 100)
		b.must(err)
		n += done.Moved
	}
	return n
}

// bodies returns what a claim delivered.
func bodies(c backend.Claim) (list []string) {
	for _, hold := range c.Holds {
		for _, m := range hold.Messages {
			if m.Type == "" || m.Type == "T" {
				list = append(list, string(m.Body))
			} else {
				list = append(list, m.Type[len("http://schemas.microsoft.com/SQL/ServiceBroker/"):])
			}
		}
	}
	return list
}

func done(hold *backend.Hold) []backend.Outcome {
	return []backend.Outcome{{Hold: hold, Done: hold.Messages}}
}

// stranded returns the visible messages that no claim would find and no maintenance job
// put back: there must never be one.
func (s *Store) stranded() (list []numbered) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.messages.from(nil, numbered{}) {
		home, ok := s.home(nil, key.of)
		g, _ := s.groups.get(nil, home)
		if ok && !s.markers.has(nil, key.of) && !g.parked && g.deferred.IsZero() && !g.again {
			list = append(list, key)
		}
	}
	return list
}
