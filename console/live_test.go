package console_test

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/console"
	"github.com/parleymq/parley/internal/slow"
)

// listen reads the events of a stream.
func (s *site) listen(path string) (events <-chan string, stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	s.t.Cleanup(cancel)
	answer, err := s.client.Do(must(http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)))
	if err != nil {
		s.t.Fatal(err)
	}
	if kind := answer.Header.Get("Content-Type"); answer.StatusCode != http.StatusOK || kind != "text/event-stream" {
		s.t.Fatalf("GET %s: %s, %s", path, answer.Status, kind)
	}
	list := make(chan string, 100)
	go func() {
		defer close(list)
		defer answer.Body.Close()
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 1<<20)
		var event strings.Builder
		for lines.Scan() {
			if lines.Text() != "" {
				event.WriteString(lines.Text() + "\n")
				continue
			}
			if strings.HasPrefix(event.String(), "event: ") {
				list <- event.String()
			}
			event.Reset()
		}
	}()
	return list, cancel
}

// next waits for an event.
func next(t *testing.T, events <-chan string) string {
	t.Helper()
	select {
	case e, ok := <-events:
		if !ok {
			t.Fatal("the stream has ended")
		}
		return e
	case <-time.After(slow.By(20 * time.Second)):
		t.Fatal("no event comes")
	}
	return ""
}

// TestStream: an open page hears what has changed, and nothing else.
func TestStream(t *testing.T) {
	b := open(t, "memory")
	if err := b.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "mail"}}}); err != nil {
		t.Fatal(err)
	}
	s := serve(t, b, &console.Options{Interval: 10 * time.Millisecond})
	events, _ := s.listen("/stream?view=queue&name=mail")
	if e := next(t, events); !strings.HasPrefix(e, "event: main\n") || !strings.Contains(e, "Nothing waits here") {
		t.Fatalf("the first event is\n%s", e)
	}
	if _, err := b.Post(t.Context(), "mail", parley.Payload{}, parley.Key("ann\revent: refused\rdata: x")); err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(slow.By(20 * time.Second)) // ages bring events without end
	for e := next(t, events); !strings.Contains(e, "\ndata: event: refused\n"); e = next(t, events) {
		if time.Now().After(end) {
			t.Fatalf("the text is no line of\n%q", e)
		}
		if !strings.HasPrefix(e, "event: main\n") {
			t.Fatalf("an event is\n%s", e)
		}
	}
	if answer, _ := s.get("/part?view=queue&name=mail"); answer.Header.Get("X-Version") == "" {
		t.Error("a part has no version")
	}
}

// TestSameViewIsReadOnce: many pages that show the same cost what one does, and none cost nothing.
func TestSameViewIsReadOnce(t *testing.T) {
	b := open(t, "memory")
	var reads atomic.Int64
	be := counting{b.Backend(), &reads}
	counted, err := parley.New(t.Context(), be, &parley.Options{NoMaintenance: true})
	if err != nil {
		t.Fatal(err)
	}
	defer counted.Close()
	const interval = 50 * time.Millisecond
	s := serve(t, counted, &console.Options{Interval: interval})
	var stops []func()
	began := time.Now()
	for range 20 {
		events, stop := s.listen("/stream?view=")
		next(t, events)
		stops = append(stops, stop)
	}
	slow.Eventually(t, 20*time.Second, "some reads", func() (any, bool) { return reads.Load(), reads.Load() >= 4 })
	most := int64(time.Since(began)/interval) + 2
	if n := reads.Load(); n > most {
		t.Errorf("20 pages read %d times in %d intervals", n, most)
	}
	for _, stop := range stops {
		stop()
	}
	var before int64 = -1
	slow.Eventually(t, 20*time.Second, "an end of the reads", func() (any, bool) {
		n := reads.Load()
		same := n == before
		before = n
		time.Sleep(3 * interval)
		return n, same
	})
}

// counting counts how often the state of all queues is read.
type counting struct {
	parley.Backend
	reads *atomic.Int64
}

func (c counting) Queues(ctx context.Context, queue int64) ([]parley.QueueStatus, error) {
	c.reads.Add(1)
	return c.Backend.Queues(ctx, queue)
}

// TestRefusedStream: a stream ends when its reader may look no more.
func TestRefusedStream(t *testing.T) {
	b := open(t, "memory")
	var refused atomic.Bool
	s := serve(t, b, &console.Options{Interval: 10 * time.Millisecond, Authorize: func(*http.Request, console.Action, string) error {
		if refused.Load() {
			return errors.New("the session is over")
		}
		return nil
	}})
	events, _ := s.listen("/stream?view=workers")
	next(t, events)
	refused.Store(true)
	if err := b.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "mail"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Post(t.Context(), "mail", parley.Payload{}); err != nil {
		t.Fatal(err)
	}
	if e := next(t, events); !strings.Contains(e, "refused") || !strings.Contains(e, "the session is over") {
		t.Errorf("the event is\n%s", e)
	}
	select {
	case e, ok := <-events:
		if ok {
			t.Errorf("the stream goes on with\n%s", e)
		}
	case <-time.After(slow.By(20 * time.Second)):
		t.Error("the stream does not end")
	}
}

// TestStreamsEnd: with its broker, streams and the loop that serves them end.
func TestStreamsEnd(t *testing.T) {
	b := open(t, "memory")
	before := runtime.NumGoroutine()
	s := serve(t, b, &console.Options{Interval: 10 * time.Millisecond})
	events, _ := s.listen("/stream?view=workers")
	next(t, events)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for e := range events {
		if strings.HasPrefix(e, "event: refused") {
			t.Errorf("an event is\n%s", e)
		}
	}
	s.Close()
	s.client.CloseIdleConnections()
	slow.Eventually(t, 20*time.Second, "the end of the goroutines", func() (any, bool) { return runtime.NumGoroutine(), runtime.NumGoroutine() <= before+2 })
}

// TestLimit: a page of a database that does not answer says so in time, and an open page as well.
func TestLimit(t *testing.T) {
	b := open(t, "memory")
	stuck, err := parley.New(t.Context(), waiting{b.Backend()}, &parley.Options{NoMaintenance: true})
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	s := serve(t, stuck, &console.Options{Limit: 50 * time.Millisecond, Interval: 10 * time.Millisecond})
	for _, path := range []string{"/", "/queue?name=x", "/parked", "/search?q=x", "/metrics", "/part?view="} {
		began := time.Now()
		answer, text := s.get(path)
		if answer.StatusCode != http.StatusServiceUnavailable && path != "/search?q=x" {
			t.Errorf("GET %s: %s\n%s", path, answer.Status, mainOf(text))
		}
		if took := time.Since(began); took > slow.By(10*time.Second) {
			t.Errorf("GET %s takes %v", path, took)
		}
	}
	if text := s.page("/search?q=x"); !strings.Contains(text, "The time was over") {
		t.Errorf("a search says\n%s", mainOf(text))
	}
	events, _ := s.listen("/stream?view=")
	if e := next(t, events); !strings.HasPrefix(e, "event: trouble\n") || !strings.Contains(e, "did not answer in time") {
		t.Errorf("the event is\n%s", e)
	}
}

// waiting is a store that does not say how its queues are.
type waiting struct{ parley.Backend }

func (waiting) Queues(ctx context.Context, _ int64) ([]parley.QueueStatus, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
