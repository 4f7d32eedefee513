package browsertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/consoletest"
)

// BenchmarkViews measures how long each view takes that nothing has read before, with a million messages in 10,000
// groups, 2,000 parked groups and 2,000 dead letters. docs/console.md has the figures.
//
//	go test -run '^$' -bench Views -benchtime 20x -timeout 1h .
func BenchmarkViews(b *testing.B) {
	for _, engine := range []string{"sqlite", "postgres"} {
		b.Run(engine, func(b *testing.B) {
			s := connect(b, address(b, engine), true)
			pages := consoletest.Pages(consoletest.Fill(b, s, consoletest.Plain), consoletest.Plain)
			crowd(b, s)
			far := must(s.Admin().Groups(b.Context(), "crowd", parley.Place{}, 500))
			place := string(must(far[len(far)-1].Place.MarshalText()))
			group := far[len(far)-1].Group.String()
			for _, path := range []string{"/queue?name=crowd", "/queue?name=crowd&state=held", "/queue?name=crowd&from=500&after=" + place,
				"/group?queue=crowd&id=" + group, "/group?queue=crowd&peek=1&id=" + group, "/parked?queue=failing", "/parked?reason=nothing", "/parked?reason=address",
				"/dead?queue=failing", "/dead?reason=nothing", "/why?what=crowd", "/why?what=" + group, "/part?view=doctor", "/part?view=why&what=" + group, "/metrics",
				"/search?q=" + group, "/search?q=nothing", "/search?of=waiting&q=nothing", "/act?do=promote&queue=crowd&id=" + group, "/act?do=move&queue=crowd&id=" + group,
				"/act?do=retry-all", "/act?do=retry-all&reason=address", "/act?do=requeue-all"} {
				pages[path] = nil
			}
			for _, path := range slices.Sorted(maps.Keys(pages)) {
				b.Run("at "+path, func(b *testing.B) { measure(b, s, path) })
			}
		})
	}
}

// crowd fills a store.
func crowd(b *testing.B, s *parley.Broker) {
	ctx := b.Context()
	if err := s.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "crowd"}, {Name: "failing"}}}); err != nil {
		b.Fatal(err)
	}
	fill := func(queue string, n, groups int) {
		const batch = 5000
		for done := 0; done < n; done += batch {
			posts := make([]parley.Posting, min(batch, n-done))
			for i := range posts {
				posts[i] = parley.Posting{Payload: parley.Payload{Body: []byte(`{"order": 4711}`)}, Options: []parley.PostOption{parley.Key(fmt.Sprint("customer-", (done+i)%groups))}}
			}
			must(s.PostBatch(ctx, queue, posts))
		}
	}
	fill("crowd", 1_000_000, 10_000)
	fill("failing", 4000, 4000)
	n := 0
	w, err := s.NewWorker("failing", parley.HandlerFunc(func(context.Context, *parley.Message) error {
		if n++; n%2 == 0 {
			return parley.Park(errors.New("no such address"))
		}
		return parley.DeadLetter(errors.New("gone for good"))
	}), &parley.WorkerOptions{MaxReaders: 1})
	if err == nil {
		err = w.Drain(ctx)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// measure asks a new console each time.
func measure(b *testing.B, s *parley.Broker, path string) {
	var took []time.Duration
	status := 0
	for b.Loop() {
		h := handler(b, s)
		r := httptest.NewRequest(http.MethodGet, path, nil)
		w := httptest.NewRecorder()
		begun := time.Now()
		h.ServeHTTP(w, r)
		took, status = append(took, time.Since(begun)), w.Code
		if status == http.StatusAccepted { // the view is still being read, which would slow the next page down
			view, params, _ := strings.Cut(strings.TrimPrefix(path, "/"), "?")
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/part?view="+view+"&"+params, nil))
		}
	}
	if status >= 400 {
		b.Errorf("%s: %d", path, status)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms")
	b.ReportMetric(float64(took[0].Microseconds())/1000, "ms-fastest")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms-slowest")
	b.ReportMetric(0, "ns/op")
}
