package console

import (
	"context"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/memory"
)

// blocked opens a store with two queues, each with six parked groups, three deferred ones and six dead letters.
func blocked(t *testing.T) *parley.Broker {
	ctx := t.Context()
	b, err := parley.Open(ctx, "memory:", &parley.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	err = errors.Join(b.Migrate(ctx), b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "a:1"}, {Name: "b"}}}))
	ends := []error{parley.Park(errors.New("rejected")), parley.Park(errors.New("refused")), parley.Defer(1 << 40), parley.DeadLetter(errors.New("broken")), parley.DeadLetter(errors.New("lost"))}
	for _, queue := range []string{"a:1", "b"} {
		for i := range 15 {
			_, wrong := b.Post(ctx, queue, parley.Payload{}, parley.Key(fmt.Sprint("k", i)))
			err = errors.Join(err, wrong)
		}
		n := 0
		w, wrong := b.NewWorker(queue, parley.HandlerFunc(func(context.Context, *parley.Message) error { n++; return ends[n%len(ends)] }), &parley.WorkerOptions{MaxReaders: 1})
		if err = errors.Join(err, wrong); err == nil {
			err = w.Drain(ctx)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// blockedNow counts parked groups, deferred ones and dead letters of each queue.
func blockedNow(t *testing.T, b *parley.Broker) (text string) {
	for _, queue := range []string{"a:1", "b"} {
		parked, err := b.Admin().GroupsIn(t.Context(), queue, "parked", parley.Place{}, 100)
		deferred, err2 := b.Admin().GroupsIn(t.Context(), queue, "deferred", parley.Place{}, 100)
		dead, err3 := b.Admin().DeadSummaries(t.Context(), queue, parley.Place{}, 100)
		if err := errors.Join(err, err2, err3); err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("%s %d %d %d, ", queue, len(parked), len(deferred), len(dead))
	}
	return text
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)

// inSlices follows a link that asks, sends its form, and does so with each page that offers to go on. It returns how many
// these were, and where the last one led. Only the last one may have counted all, and the first one of blocked groups without
// a text.
func inSlices(t *testing.T, h http.Handler, link string) (slices int, end string) {
	counted := 0
	for end = link; strings.HasPrefix(end, "/act?") && slices < 50; slices++ {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, end, nil))
		if !strings.Contains(w.Body.String(), "at least") {
			counted++
		}
		form := url.Values{}
		for _, m := range hidden.FindAllStringSubmatch(w.Body.String(), -1) {
			form.Set(m[1], html.UnescapeString(m[2]))
		}
		r := httptest.NewRequest(http.MethodPost, "/act", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w = httptest.NewRecorder()
		h.ServeHTTP(w, r)
		end = strings.TrimPrefix(w.Header().Get("Location"), ".")
	}
	want := 1
	if strings.Contains(link, "retry-all") && !strings.Contains(link, "reason=") {
		want = 2
	}
	if counted != want {
		t.Errorf("%s: %d pages have counted all, want %d", link, counted, want)
	}
	return slices, end
}

// TestPreview: a preview counts what its filter leaves, with a text and without.
func TestPreview(t *testing.T) {
	h, err := New(blocked(t), &Options{Write: true, Logger: slog.New(slog.DiscardHandler), Authorize: func(*http.Request, Action, string) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	for filter, want := range map[string]string{"": "18 groups", "&queue=b": "9 groups", "&state=deferred": "6 groups", "&state=parked&queue=a:1": "6 groups",
		"&reason=REFUSED": "6 groups", "&reason=refused&queue=b": "3 groups", "&reason=none": "0 groups", "&state=held": "", "&queue=none": ""} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/act?do=retry-all"+filter, nil))
		if text := w.Body.String(); want == "" && w.Code < 400 || !strings.Contains(text, want) || strings.Contains(text, "at least") {
			t.Errorf("the filter %q: %d, want %q:\n%s", filter, w.Code, want, text)
		}
	}
}

// TestSlices: a verb on what a filter leaves stops when its time is over, and goes on where it stopped until it has seen
// all. Each slice asks, is recorded, and leaves others alone.
func TestSlices(t *testing.T) {
	b := blocked(t)
	asked := 0
	var recorded []url.Values
	h, err := New(b, &Options{Write: true, Logger: slog.New(slog.DiscardHandler), Authorize: func(r *http.Request, _ Action, _ string) error {
		if r.Method == http.MethodPost {
			asked++
		}
		return nil
	}, Audit: func(_ context.Context, _ *http.Request, a Audited) error {
		if a.Over {
			recorded = append(recorded, a.Form)
		}
		return a.Err
	}})
	if err != nil {
		t.Fatal(err)
	}
	h.slice = 1 // so each slice looks at one
	for _, test := range []struct {
		do, left string
		slices   int
	}{
		{"retry-all&queue=a:1&state=parked&reason=refused", "a:1 3 3 6, b 6 3 6, ", 6},
		{"retry-all&state=deferred", "a:1 3 0 6, b 6 0 6, ", 6},
		{"retry-all&reason=rejected", "a:1 0 0 6, b 3 0 6, ", 9},
		{"requeue-all&reason=broken", "a:1 0 0 3, b 3 0 3, ", 12},
		{"requeue-all&queue=b", "a:1 0 0 3, b 3 0 0, ", 3},
	} {
		asked, recorded = 0, nil
		slices, end := inSlices(t, h, "/act?do="+test.do+"&back="+url.QueryEscape("./parked?queue=b"))
		if end != "/parked?queue=b" || slices != test.slices || asked != slices || len(recorded) != slices {
			t.Fatalf("%s: %d slices, %d asked about and %d recorded, want %d; at the end at %s", test.do, slices, asked, len(recorded), test.slices, end)
		}
		if recorded[0].Get("after") != "" || recorded[1].Get("after") == "" {
			t.Errorf("%s: recorded are %v", test.do, recorded)
		}
		if got := blockedNow(t, b); got != test.left {
			t.Errorf("after %s: %s, want %s", test.do, got, test.left)
		}
	}
	for _, after := range []string{"x", "parked:x:b", "parked:1.2.3"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/act?do=retry-all&after="+after, nil))
		if w.Code != http.StatusBadRequest {
			t.Errorf("after %q: %d", after, w.Code)
		}
	}
}
