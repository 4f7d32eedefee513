package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/proxy"
	"github.com/parleymq/parley/internal/slow"
)

// Alone posts by Broker.Post while connections break and callers give up. The statement of such a post has no
// transaction around it. open opens a migrated store through a proxy, and lock keeps others from writing to the
// table of posts.
func Alone(t *testing.T, server string, open func(t *testing.T, through string) backend.Backend, lock func(t *testing.T) (unlock func())) {
	p, through := Through(t, server)
	a := &alone{T: t}
	a.b = a.broker(open(t, through))
	a.must(a.b.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "q"}}}))
	a.must(a.post("first"))
	a.must(a.post("second"))
	a.are("first", "second")
	a.cut(p)
	a.fallsBack(a.broker(open(t, through)))
	a.givesUp(lock)
	a.isUnanswered(p)
}

type alone struct {
	*testing.T
	b *parley.Broker
}

func (a *alone) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

func (a *alone) broker(be backend.Backend) *parley.Broker {
	b, err := parley.New(a.Context(), be, &parley.Options{NoMaintenance: true})
	a.must(err)
	a.Cleanup(func() { b.Close() })
	return b
}

func (a *alone) post(body string, o ...parley.PostOption) error {
	return a.postBy(a.Context(), body, o...)
}

func (a *alone) postBy(ctx context.Context, body string, o ...parley.PostOption) error {
	_, err := a.b.Post(ctx, "q", parley.Payload{Body: []byte(body)}, o...)
	return err
}

// are wants what has been stored.
func (a *alone) are(want ...string) {
	a.Helper()
	if got := a.stored(); !slices.Equal(got, want) {
		a.Errorf("stored are %q, want %q", got, want)
	}
}

// stored receives what has been stored.
func (a *alone) stored() (got []string) {
	a.Helper()
	for {
		d, err := a.b.Receive(a.Context(), "q", nil)
		if errors.Is(err, parley.ErrNoMessage) {
			return got
		}
		a.must(err)
		for _, m := range d.Messages {
			got = append(got, string(m.Body))
		}
		a.must(d.Ack(a.Context()))
	}
}

// cut breaks the connection before the server has the statement, and when it has carried it out.
func (a *alone) cut(p *proxy.Proxy) {
	cutAt := func(answered bool, body string) { p.CutAt(answered, body, fmt.Sprintf("%x", body)) }
	a.must(a.post("warm"))
	cutAt(false, "unsent")
	if err := a.post("unsent"); !errors.Is(err, parley.ErrConnection) {
		a.Errorf("cut before the server had it: %v, want ErrConnection", err)
	}
	a.must(a.post("afterwards"))
	a.are("warm", "afterwards")

	a.must(a.post("warm"))
	cutAt(true, "sent")
	if err := a.post("sent"); !errors.Is(err, parley.ErrConnection) || errors.Is(err, parley.ErrNotBegun) || parley.IsRetryable(err) {
		a.Errorf("cut when the server had it: %v, want ErrConnection, which is not retried", err)
	}
	a.must(a.post("afterwards"))
	a.are("warm", "sent", "afterwards") // it was its own commit
}

// fallsBack: what a statement by itself cannot do is done in a transaction.
func (a *alone) fallsBack(other *parley.Broker) {
	a.must(other.Define(a.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "another"}}}))
	a.must(a.post("with a stale catalog"))
	a.must(other.Admin().DisableQueue(a.Context(), "q"))
	if err := a.post("to a queue that is off"); !errors.Is(err, parley.ErrQueueDisabled) {
		a.Errorf("to a queue that is off: %v", err)
	}
	a.must(other.Admin().EnableQueue(a.Context(), "q"))
	a.are("with a stale catalog")
	for _, body := range []string{"0", "1", "2"} { // the first one makes the key
		a.must(a.post(body, parley.Key("k")))
	}

	a.are("0", "1", "2")
}

// isUnanswered: a caller whose context ends while the answer is missing hears that the post may be stored.
func (a *alone) isUnanswered(p *proxy.Proxy) {
	a.must(a.post("warm"))
	p.Set(true, 0)
	brief, cancel := context.WithTimeout(a.Context(), time.Second)
	defer cancel()
	over := make(chan error, 1)
	go func() { over <- a.postBy(brief, "unanswered") }()
	var err error
	select {
	case err = <-over:
		p.Cut()
	case <-time.After(5 * time.Second): // lib/pq waits for the answer, however long that takes
		p.Cut()
		err = <-over
	}
	p.Set(false, 0)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, parley.ErrConnection) || errors.Is(err, parley.ErrNotBegun) || parley.IsRetryable(err) {
		a.Errorf("without an answer: %v, want the context's error and ErrConnection, which is not retried", err)
	}
	a.must(a.post("last"))
	if got := a.stored(); !slices.Equal(got, []string{"warm", "unanswered", "last"}) && !slices.Equal(got, []string{"warm", "last"}) {
		a.Errorf("stored are %q", got)
	}
}

// givesUp: a caller whose context ends knows that nothing was stored, once the server has said so.
func (a *alone) givesUp(lock func(t *testing.T) (unlock func())) {
	a.must(a.post("warm"))
	unlock := lock(a.T)
	brief, cancel := context.WithTimeout(a.Context(), 200*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if err := a.postBy(brief, "blocked"); !errors.Is(err, context.DeadlineExceeded) {
		a.Errorf("given up while it was blocked: %v", err)
	}
	if d := time.Since(begun); d > slow.By(10*time.Second) {
		a.Errorf("giving up took %v", d)
	}
	unlock()
	a.must(a.post("last"))
	a.are("warm", "last")
}
