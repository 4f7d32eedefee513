package console_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/console"
	"github.com/parleymq/parley/internal/consoletest"
	"github.com/parleymq/parley/internal/slow"
	"github.com/parleymq/parley/internal/sure"
)

func TestEmptyStore(t *testing.T) {
	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			s := serve(t, open(t, store), nil)
			for path, want := range consoletest.Empty {
				if text := s.page(path); !strings.Contains(text, want) {
					t.Errorf("%s does not say %q:\n%s", path, want, mainOf(text))
				}
			}
		})
	}
}

// mainOf is the content of a page.
func mainOf(text string) string {
	_, text, _ = strings.Cut(text, `<div id="content">`)
	text, _, _ = strings.Cut(text, "</main>")
	return text
}

func TestFilledStore(t *testing.T) {
	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			b := open(t, store)
			f := consoletest.Fill(t, b, consoletest.Plain)
			s := serve(t, b, nil)
			for path, wants := range consoletest.Pages(f, consoletest.Plain) {
				text := mainOf(s.page(path))
				for _, want := range wants {
					if !strings.Contains(strings.ReplaceAll(text, "&#39;", "'"), want) {
						t.Errorf("%s does not have %q:\n%s", path, want, text)
					}
				}
				if strings.Contains(text, "secret body") || strings.Contains(text, "chair") {
					t.Errorf("%s shows a body, though no Redact is set", path)
				}
				if regexp.MustCompile(`%!|&lt;nil&gt;|\{\{|ZgotmplZ`).MatchString(text) {
					t.Errorf("%s shows a mistake of its template:\n%s", path, text)
				}
			}
		})
	}
}

// TestBodies: bodies come by Redact alone.
func TestBodies(t *testing.T) {
	b := open(t, "memory")
	f := consoletest.Fill(t, b, consoletest.Plain)
	s := serve(t, b, &console.Options{Redact: func(queue, typ string, body []byte) string {
		return fmt.Sprintf("%s/%s/%s", queue, typ, strings.ReplaceAll(string(body), "secret", "******"))
	}})
	for _, path := range []string{"/dead", fmt.Sprintf("/group?queue=mail&id=%s&peek=1", f.Parked)} {
		if text := s.page(path); !strings.Contains(text, "mail/Welcome/****** body") || strings.Contains(text, "secret") {
			t.Errorf("%s:\n%s", path, mainOf(text))
		}
	}
	if text := s.page(fmt.Sprintf("/conversation?id=%s&kept=1", f.Handle)); !strings.Contains(text, "/Order/{") {
		t.Errorf("kept copies:\n%s", mainOf(text))
	}
}

// TestRedactPanics: what is wrong with Redact ends no page, and no program whose pages are open.
func TestRedactPanics(t *testing.T) {
	b := open(t, "memory")
	consoletest.Fill(t, b, consoletest.Plain)
	s := serve(t, b, &console.Options{Interval: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Redact: func(string, string, []byte) string { panic("no") }})
	events, _ := s.listen("/stream?view=dead")
	if e := next(t, events); !strings.Contains(e, "the body cannot be shown") {
		t.Errorf("the event is\n%s", e)
	}
}

// TestLinks follows all links of all pages, from below a path that only a proxy knows.
func TestLinks(t *testing.T) {
	b := open(t, "sqlite")
	consoletest.Fill(t, b, consoletest.Plain)
	h, err := console.New(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/ops/console/", http.StripPrefix("/ops/console", h))
	s := serveHandler(t, mux)
	seen := map[string]bool{}
	next := []string{"/ops/console/"}
	for len(next) > 0 {
		path := next[0]
		next = next[1:]
		text := s.page(path)
		base, _ := url.Parse(path)
		for _, m := range regexp.MustCompile(`(?:href|src|action)="([^"#]+)"`).FindAllStringSubmatch(text, -1) {
			u, err := base.Parse(strings.ReplaceAll(m[1], "&amp;", "&"))
			if err != nil {
				t.Fatalf("%s links to %q: %v", path, m[1], err)
			}
			to := u.String()
			if !strings.HasPrefix(to, "/ops/console/") {
				t.Errorf("%s links to %s", path, to)
			} else if u.Path != "/ops/console/theme" && !seen[to] {
				seen[to] = true
				next = append(next, to)
			}
		}
	}
	if len(seen) < 50 {
		t.Errorf("%d links were found", len(seen))
	}
}

// TestWrongInput: parameters that make no sense are answered, not obeyed.
func TestWrongInput(t *testing.T) {
	b := open(t, "memory")
	consoletest.Fill(t, b, consoletest.Plain)
	s := serve(t, b, nil)
	for path, want := range map[string]int{
		"/queue": 404, "/queue?name=none": 404, "/queue?name=mail&from=-1": 400, "/queue?name=mail&from=x": 400, "/queue?name=mail&after=x": 400,
		"/queue?name=mail&state=odd": 400, "/group?queue=mail": 400, "/group?queue=mail&id=7": 400, "/group?queue=none&id=0195e0a0-5f3e-7000-8000-3c8e2b1f0a11": 404,
		"/conversation?id=0195e0a0-5f3e-7000-8000-3c8e2b1f0a11": 404, "/conversation?id=x": 400, "/conversations?after=x": 400, "/dead?after=x": 400,
		"/dead?queue=none": 404, "/parked?queue=none": 404, "/parked?state=odd": 400, "/plan?name=none": 404, "/plan?name=nightly&after=x": 400, "/nothing": 404, "/static/none": 404,
		"/part?view=catalog": 404, "/part?view=none": 404, "/stream?view=catalog": 404, "/part?view=queue&name=none": 404, "/enter": 404,
	} {
		if answer, text := s.get(path); answer.StatusCode != want {
			t.Errorf("GET %s: %s, want %d\n%s", path, answer.Status, want, mainOf(text))
		}
	}
	if answer, _ := s.do(must(http.NewRequest(http.MethodDelete, s.URL+"/queue?name=mail", nil))); answer.StatusCode != http.StatusMethodNotAllowed && answer.StatusCode != http.StatusNotFound {
		t.Errorf("DELETE: %s", answer.Status)
	}
	if _, err := console.New(nil, nil); err == nil {
		t.Error("a console without a broker was made")
	}
	for _, o := range []console.Options{{Limit: -1}, {Interval: -1}, {TrustedOrigins: []string{"x"}},
		{Token: "x", Authorize: func(*http.Request, console.Action, string) error { return nil }}} {
		if _, err := console.New(b, &o); err == nil {
			t.Errorf("a console with %+v was made", o)
		}
	}
}

// TestWaited: a queue's page shows how long messages waited that workers with the console's Observer handled.
func TestWaited(t *testing.T) {
	b := open(t, "memory")
	if err := b.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "mail"}}}); err != nil {
		t.Fatal(err)
	}
	h := must(console.New(b, nil))
	s := serveHandler(t, h)
	if text := s.page("/queue?name=mail"); strings.Contains(text, "Messages waited") {
		t.Error("it is known though nothing was handled")
	}
	must(b.Post(t.Context(), "mail", parley.Payload{}))
	w := sure.Of(b.NewWorker("mail", parley.HandlerFunc(func(context.Context, *parley.Message) error { return nil }), &parley.WorkerOptions{Observer: h.Observer()}))
	if err := w.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	slow.Eventually(t, 10*time.Second, "what has waited", func() (any, bool) {
		text := mainOf(s.page("/queue?name=mail"))
		return text, strings.Contains(text, "median of 1; 99 % within")
	})
}

// TestClosed: with its broker the console ends, and says so.
func TestClosed(t *testing.T) {
	b := open(t, "memory")
	s := serve(t, b, nil)
	s.page("/")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/conversations", "/dead", "/locks", "/plans", "/recurring", "/workers", "/doctor"} {
		if answer, text := s.get(path); answer.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("GET %s: %s\n%s", path, answer.Status, mainOf(text))
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestAttempts: a message and a dead letter show why each attempt has failed.
func TestAttempts(t *testing.T) {
	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			b := open(t, store)
			if err := b.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "mails"}}}); err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"parked", "dead"} {
				sure.Of(b.Post(t.Context(), "mails", parley.Payload{Body: []byte("m")}, parley.Key(key)))
			}
			w := sure.Of(b.NewWorker("mails", parley.HandlerFunc(func(_ context.Context, m *parley.Message) error {
				err := fmt.Errorf("<b>%s trouble %d", m.Key, m.Attempt)
				switch {
				case m.Attempt < 3:
					return err
				case m.Key == "dead":
					return parley.DeadLetter(err)
				}
				return parley.Park(err)
			}), &parley.WorkerOptions{Backoff: func(int) time.Duration { return 0 }}))
			var parked []parley.GroupStatus
			slow.Eventually(t, 20*time.Second, "the messages have failed for good", func() (any, bool) {
				if err := w.Drain(t.Context()); err != nil {
					return err, false
				}
				parked = sure.Of(b.Admin().Parked(t.Context(), "mails", parley.Place{}, 10))
				dead := sure.Of(b.Admin().DeadSummaries(t.Context(), "mails", parley.Place{}, 10))
				return parked, len(parked)+len(dead) == 2
			})
			s := serve(t, b, nil)
			for key, page := range map[string]string{"dead": "/dead", "parked": "/group?queue=mails&peek=1&id=" + parked[0].Group.String()} {
				text := s.page(page)
				for i := range 3 {
					if want := fmt.Sprintf("&lt;b&gt;%s trouble %d", key, i+1); !strings.Contains(text, want) {
						t.Errorf("%s does not show %q", page, want)
					}
				}
			}
		})
	}
}
