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
	"github.com/parleymq/parley/internal/slow"
)

// empty says what each view shows of an empty store.
var empty = map[string]string{
	"/": "No queue is defined yet", "/conversations": "No conversation is open", "/parked": "No group is parked", "/dead": "There are no dead letters",
	"/plans": "There is no plan", "/recurring": "There is no recurring job", "/locks": "No application lock is held", "/workers": "No worker runs",
	"/catalog": "Nothing is defined yet", "/doctor": "Nothing stands in the way", "/why": "Give the id of", "/search": "Give an id",
	"/search?q=x": "Nothing was found", "/locks?prefix=x": "No lock has this prefix", "/parked?reason=x": "No blocked group fits", "/dead?type=x": "No dead letter fits",
	"/conversations?after=0195e0a0-5f3e-7000-8000-3c8e2b1f0a11": "There are no later conversations", "/why?what=0195e0a0-5f3e-7000-8000-3c8e2b1f0a11": "nothing with this id waits",
}

func TestEmptyStore(t *testing.T) {
	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			s := serve(t, open(t, store), nil)
			for path, want := range empty {
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

// pagesOf are all pages about what fill has made, with some texts that each must have.
func pagesOf(f filled, say texts) map[string][]string {
	q := func(view string, params ...string) string {
		v := url.Values{}
		for i := 0; i < len(params); i += 2 {
			v.Set(params[i], params[i+1])
		}
		return "/" + view + "?" + v.Encode()
	}
	orders, mail := say("orders"), say("mail")
	return map[string][]string{
		"/":                      {orders, mail, "1 group in " + mail + " is parked", "1 dead letter of " + mail, "is disabled"},
		q("queue", "name", mail): {say("customer-7"), "promoted 100", "parked", "put off for another", say("no such address")},
		q("queue", "name", mail, "state", "held"):                       {"No group is held"},
		q("queue", "name", mail, "state", "parked"):                     {say("customer") + "0"},
		q("queue", "name", orders):                                      {"held by shop-1/4711", "lease ends in"},
		q("group", "queue", mail, "id", f.parked.String()):              {say("no such address"), "Look at the first 50"},
		q("group", "queue", mail, "id", f.parked.String(), "peek", "1"): {say("Welcome"), "Bodies are not shown", say("no such address")},
		q("group", "queue", mail, "id", f.keyed.String(), "peek", "1"):  {say("Welcome"), say("customer-7")},
		q("group", "queue", orders, "id", f.held.String(), "peek", "1"): {"A receiver holds the group now", say("Shop")},
		"/conversations": {say("Shop"), say("Billing"), say("Orders"), "conversing"},
		q("conversation", "id", f.handle.String()):              {say("Shop"), say("Billing"), say("Orders"), "initiator", "target"},
		q("conversation", "id", f.handle.String(), "kept", "1"): {say("Order"), say("trace"), say("abc"), "sent"},
		"/parked": {say("customer") + "0", say("customer") + "2", say("no such address")},
		q("parked", "queue", mail, "state", "deferred"): {say("customer") + "2"},
		"/dead": {say("gone for good"), say("Welcome"), f.dead.String()},
		q("dead", "type", say("Welcome"), "reason", "GONE"): {f.dead.String()},
		"/plans":                            {say("nightly"), "halted", say("the month's end"), say("the disk is full")},
		q("plan", "name", say("nightly")):   {"Phase 100", "Phase 200", "the plan is halted", say("extract"), say("report"), say("the disk is full"), "<svg"},
		"/recurring":                        {"digest", "0 7 * * * Europe/Berlin", "up to 1 min later", say("Welcome")},
		"/locks":                            {say("stock/7"), say("ann"), say("bob"), "waits: Shared", "Exclusive"},
		"/workers":                          {"messages wait in " + mail},
		"/catalog":                          {say("Order"), say("Orders"), say("Billing"), "to level 50", say("important")},
		"/doctor":                           {"group.parked", "queue.disabled", "plan.halted"},
		q("why", "what", f.parked.String()): {"group.parked", say("no such address")},
		q("why", "what", f.task.String()):   {"task.over"},
		q("why", "what", f.dead.String()):   {"message.dead", say("gone for good")},
		q("search", "q", f.handle.String()): {"conversation?id=", "Why is it stuck?"},
		q("search", "q", f.dead.String()):   {"dead letter"},
		q("search", "q", say("customer-7")): {"key"},
		q("search", "q", "nightly"):         {say("nightly")},
	}
}

func TestFilledStore(t *testing.T) {
	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			b := open(t, store)
			f := fill(t, b, plainTexts)
			s := serve(t, b, nil)
			for path, wants := range pagesOf(f, plainTexts) {
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
	f := fill(t, b, plainTexts)
	s := serve(t, b, &console.Options{Redact: func(queue, typ string, body []byte) string {
		return fmt.Sprintf("%s/%s/%s", queue, typ, strings.ReplaceAll(string(body), "secret", "******"))
	}})
	for _, path := range []string{"/dead", fmt.Sprintf("/group?queue=mail&id=%s&peek=1", f.parked)} {
		if text := s.page(path); !strings.Contains(text, "mail/Welcome/****** body") || strings.Contains(text, "secret") {
			t.Errorf("%s:\n%s", path, mainOf(text))
		}
	}
	if text := s.page(fmt.Sprintf("/conversation?id=%s&kept=1", f.handle)); !strings.Contains(text, "/Order/{") {
		t.Errorf("kept copies:\n%s", mainOf(text))
	}
}

// TestRedactPanics: what is wrong with Redact ends no page, and no program whose pages are open.
func TestRedactPanics(t *testing.T) {
	b := open(t, "memory")
	fill(t, b, plainTexts)
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
	fill(t, b, plainTexts)
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
		answer, text := s.get(path)
		if answer.StatusCode != http.StatusOK {
			t.Errorf("GET %s: %s", path, answer.Status)
		}
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
	fill(t, b, plainTexts)
	s := serve(t, b, nil)
	for path, want := range map[string]int{
		"/queue": 404, "/queue?name=none": 404, "/queue?name=mail&from=-1": 400, "/queue?name=mail&from=x": 400, "/queue?name=mail&after=x": 400,
		"/queue?name=mail&state=odd": 400, "/group?queue=mail": 400, "/group?queue=mail&id=7": 400, "/group?queue=none&id=0195e0a0-5f3e-7000-8000-3c8e2b1f0a11": 404,
		"/conversation?id=0195e0a0-5f3e-7000-8000-3c8e2b1f0a11": 404, "/conversation?id=x": 400, "/conversations?after=x": 400, "/dead?after=x": 400,
		"/dead?queue=none": 404, "/parked?queue=none": 404, "/parked?state=odd": 400, "/plan?name=none": 404, "/plan?name=nightly&after=x": 400, "/nothing": 404, "/static/none": 404,
		"/part?view=doctor": 404, "/part?view=none": 404, "/stream?view=doctor": 404, "/part?view=queue&name=none": 404, "/enter": 404,
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
	w := b.NewWorker("mail", parley.HandlerFunc(func(context.Context, *parley.Message) error { return nil }), &parley.WorkerOptions{Observer: h.Observer()})
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
