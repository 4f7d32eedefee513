package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/console"
	"github.com/parleymq/parley/internal/slow"
)

// gated is a store that says nothing of queues until it may.
type gated struct {
	parley.Backend
	open chan struct{}
}

func (g gated) Queues(ctx context.Context, queue int64) ([]parley.QueueStatus, error) {
	select {
	case <-g.open:
		return g.Backend.Queues(ctx, queue)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// behindGate is a console whose doctor has to wait.
func behindGate(t *testing.T, b *parley.Broker) (s *site, gate chan struct{}) {
	t.Helper()
	gate = make(chan struct{})
	g := must(parley.New(t.Context(), gated{b.Backend(), gate}, &parley.Options{NoMaintenance: true}))
	t.Cleanup(func() { g.Close() })
	return serve(t, g, &console.Options{Interval: 10 * time.Millisecond, Limit: slow.By(20 * time.Second)}), gate
}

// TestSlowPage: the doctor's page does not wait for slow findings. They come as an update or, without scripts, when the
// page reloads itself.
func TestSlowPage(t *testing.T) {
	b := open(t, "memory")
	if err := b.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "mail"}}}); err != nil {
		t.Fatal(err)
	}
	must(b.Post(t.Context(), "mail", parley.Payload{}))
	s, gate := behindGate(t, b)
	answer, text := s.get("/doctor")
	if answer.StatusCode != http.StatusAccepted || !strings.Contains(text, `<noscript><meta http-equiv="refresh"`) || !strings.Contains(text, "Doctor is looking") {
		t.Fatalf("the page is %s\n%s", answer.Status, text)
	}
	events, _ := s.listen("/stream?view=doctor")
	close(gate)
	if e := next(t, events); !strings.HasPrefix(e, "event: main\n") || !strings.Contains(e, "worker.none") {
		t.Errorf("the event is\n%s", e)
	}
	if page := s.page("/doctor"); !strings.Contains(page, "worker.none") || strings.Contains(page, "http-equiv") {
		t.Errorf("the page is\n%s", mainOf(page))
	}
}

// TestSearchOn: a search among many groups shows what it has found in its time, goes on from there, and comes to an end.
func TestSearchOn(t *testing.T) {
	b := open(t, "memory")
	ctx := t.Context()
	if err := b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "a"}, {Name: "b"}}}); err != nil {
		t.Fatal(err)
	}
	want := make(map[string]bool)
	for i := range 2500 {
		key := fmt.Sprintf("customer-%04d", i)
		if i%20 == 7 {
			key += "-odd"
			want[key] = true
		}
		must(b.Post(ctx, []string{"a", "b"}[i%2], parley.Payload{}, parley.Key(key)))
	}
	s := serve(t, b, nil)
	found := regexp.MustCompile(`>(customer-\d+-odd)</a>`)
	on := regexp.MustCompile(`rel="next" href="([^"]*)"`)
	pages := 0
	for path := "/search?" + (url.Values{"q": {"ODD"}}).Encode(); path != ""; pages++ {
		page := s.page(path)
		for _, m := range found.FindAllStringSubmatch(mainOf(page), -1) {
			if !want[m[1]] {
				t.Fatalf("%s is found twice, or was not looked for", m[1])
			}
			delete(want, m[1])
		}
		path = ""
		if m := on.FindStringSubmatch(page); m != nil {
			path = "/" + strings.ReplaceAll(m[1], "&amp;", "&")
		}
	}
	if len(want) > 0 || pages < 2 {
		t.Errorf("%d keys are not found on %d pages", len(want), pages)
	}
}

// heavy counts what is read of dead letters.
type heavy struct {
	parley.Backend
	seen chan backend.DeadQuery
}

func (h heavy) DeadLetters(ctx context.Context, q backend.DeadQuery) ([]backend.DeadStatus, error) {
	h.seen <- q
	return h.Backend.DeadLetters(ctx, q)
}

// TestBodiesAreNotRead: pages read no bodies of dead letters that they do not show, and few at a time of others.
func TestBodiesAreNotRead(t *testing.T) {
	b := open(t, "memory")
	seen := make(chan backend.DeadQuery, 100)
	watched := must(parley.New(t.Context(), heavy{b.Backend(), seen}, &parley.Options{NoMaintenance: true}))
	t.Cleanup(func() { watched.Close() })
	s := serve(t, watched, nil)
	for _, path := range []string{"/", "/dead", "/search?q=" + parley.NewID().String(), "/doctor", "/metrics"} {
		s.page(path)
		for len(seen) > 0 {
			if q := <-seen; q.Bodies {
				t.Errorf("%s reads bodies", path)
			}
		}
	}
	serve(t, watched, &console.Options{Redact: func(_, _ string, body []byte) string { return string(body) }}).page("/dead?type=none")
	if q := <-seen; !q.Bodies || q.Limit > 100 {
		t.Errorf("with bodies it reads %+v", q)
	}
}
