package console_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
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
	"github.com/parleymq/parley/recurring"
)

// writer is a console in which everybody may act.
func writer(t *testing.T, b *parley.Broker, o console.Options) *site {
	o.Write = true
	if o.Authorize == nil {
		o.Authorize = func(*http.Request, console.Action, string) error { return nil }
	}
	return serve(t, b, &o)
}

// post sends a form.
func (s *site) post(path string, form url.Values, edit ...func(*http.Request)) (*http.Response, string) {
	s.t.Helper()
	r := must(http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.URL+path, strings.NewReader(form.Encode())))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.do(r, edit...)
}

// confirmed opens a link of a page that asks, and sends its form as a browser would.
func (s *site) confirmed(link string, more ...string) (*http.Response, string) {
	s.t.Helper()
	page := s.page("/" + link)
	form := url.Values{}
	for _, m := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`).FindAllStringSubmatch(mainOf(page), -1) {
		form.Set(m[1], strings.NewReplacer("&amp;", "&", "&#34;", `"`, "&#39;", "'", "&#43;", "+", "&lt;", "<", "&gt;", ">").Replace(m[2]))
	}
	if form.Get("do") == "" {
		s.t.Fatalf("%s has no form:\n%s", link, mainOf(page))
	}
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return s.post("/act", form)
}

// TestActs: each verb does what its page says, and the page after it says so.
func TestActs(t *testing.T) {
	for _, store := range stores {
		t.Run(store, func(t *testing.T) { testActs(t, store) })
	}
}

func testActs(t *testing.T, store string) {
	b := open(t, store)
	f := consoletest.Fill(t, b, consoletest.Plain)
	ctx := t.Context()
	var log bytes.Buffer
	s := writer(t, b, console.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	state := func(queue string, id parley.ID) string {
		t.Helper()
		for _, g := range must(b.Admin().Groups(ctx, queue, parley.Place{}, 100)) {
			if g.Group == id {
				return fmt.Sprintf("%s %d %t %d", g.State, g.Messages, g.Promoted, g.Level)
			}
		}
		return "gone"
	}
	dead := func() int { return len(must(b.Admin().DeadLetters(ctx, "", parley.Place{}, 100))) }
	job := func() string { return string(must(recurring.List(ctx, b))[0].State) }
	queue := func() bool { return must(b.Admin().Queues(ctx, "legacy"))[0].Disabled }
	delayed := must(b.Post(ctx, "mail", parley.Payload{}, parley.Unique("once")))
	of := func(verb string, id parley.ID) string {
		return "act?" + url.Values{"do": {verb}, "queue": {"mail"}, "id": {id.String()}}.Encode()
	}
	for _, step := range []struct {
		link string
		more []string
		want func() any
		is   any
	}{
		{of("promote", f.Keyed), []string{"level", "120", "sticky", "1"}, func() any { return state("mail", f.Keyed) }, "ready 1 true 120"},
		{of("demote", f.Keyed), nil, func() any { return state("mail", f.Keyed) }, "ready 1 false 0"},
		{of("promote", f.Keyed) + "&level=7", []string{"level", "7"}, func() any { return state("mail", f.Keyed) }, "ready 1 true 7"},
		{of("retry", f.Parked), nil, func() any { return state("mail", f.Parked) }, "ready 1 false 0"},
		{of("cancel", delayed), []string{"sure", "1"}, func() any { return state("mail", delayed) }, "gone"},
		{of("requeue", f.Dead), nil, func() any { return dead() }, 0},
		{"act?do=enable&queue=legacy", nil, func() any { return queue() }, false},
		{"act?do=disable&queue=legacy", nil, func() any { return queue() }, true},
		{"act?do=pause&job=digest", nil, func() any { return job() }, "paused"},
		{"act?do=resume&job=digest", nil, func() any { return job() }, "active"},
		{"act?do=run&job=digest", nil, func() any { return must(b.Admin().Queues(ctx, "mail"))[0].Depth }, 4},
		{"act?do=skip-tasks&plan=nightly&task=" + f.Task.String(), nil, func() any { return strings.Contains(s.page("/plan?name=nightly"), "skipped") }, true},
		{"act?do=cancel-tasks&plan=nightly", []string{"sure", "1"}, func() any { return strings.Contains(s.page("/plan?name=nightly"), "cancelled") }, true},
	} {
		answer, text := s.confirmed(step.link, step.more...)
		if answer.StatusCode != http.StatusSeeOther || answer.Header.Get("Location") != "./" {
			t.Errorf("%s: %s\n%s", step.link, answer.Status, mainOf(text))
		}
		if got := step.want(); got != step.is {
			t.Errorf("after %s: %v, want %v", step.link, got, step.is)
		}
		cookies := answer.Cookies()
		if len(cookies) != 1 {
			t.Fatalf("after %s: cookies %v", step.link, cookies)
		}
		after, text := s.get("/", func(r *http.Request) { r.AddCookie(cookies[0]) })
		if !strings.Contains(text, `<p class="banner done"`) || after.Cookies()[0].MaxAge >= 0 {
			t.Errorf("after %s nothing is said", step.link)
		}
	}
	if n := strings.Count(log.String(), "event=console.acted"); n != 13 || strings.Contains(log.String(), "secret") {
		t.Errorf("%d actions are in the log:\n%s", n, &log)
	}
}

// TestCancelInHand: a post that a handler has in hand is asked to stop, and the page says so.
func TestCancelInHand(t *testing.T) {
	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			b := open(t, store)
			ctx, stop := context.WithCancel(t.Context())
			if err := b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "mail"}}}); err != nil {
				t.Fatal(err)
			}
			id := must(b.Post(ctx, "mail", parley.Payload{}))
			begun, told, over := make(chan struct{}), make(chan error, 1), make(chan error, 1)
			w := must(b.NewWorker("mail", parley.HandlerFunc(func(ctx context.Context, _ *parley.Message) error {
				close(begun)
				<-ctx.Done()
				told <- context.Cause(ctx)
				return ctx.Err()
			}), &parley.WorkerOptions{Hold: parley.HoldLease}))
			go func() { over <- w.Run(ctx) }()
			<-begun
			s := writer(t, b, console.Options{})
			link := "act?" + url.Values{"do": {"cancel"}, "queue": {"mail"}, "id": {id.String()}}.Encode()
			if page := s.page("/group?queue=mail&id=" + id.String()); !strings.Contains(html.UnescapeString(page), `href="act?do=cancel&queue=mail&id=`+id.String()) {
				t.Errorf("the page of the post has no link to cancel it:\n%s", mainOf(page))
			}
			answer, text := s.confirmed(link, "sure", "1")
			if answer.StatusCode != http.StatusSeeOther || len(answer.Cookies()) != 1 {
				t.Fatalf("%s\n%s", answer.Status, mainOf(text))
			}
			if _, text := s.get("/", func(r *http.Request) { r.AddCookie(answer.Cookies()[0]) }); !strings.Contains(text, "A stop of "+id.String()+" is requested") {
				t.Errorf("the page says\n%s", mainOf(text))
			}
			if cause := <-told; !errors.Is(cause, parley.ErrCancelled) {
				t.Errorf("the handler's context has ended because of %v", cause)
			}
			slow.Eventually(t, 20*time.Second, "the post is removed", func() (any, bool) {
				_, err := b.PostStatus(ctx, "mail", id)
				return err, errors.Is(err, parley.ErrNotPending)
			})
			stop()
			if err := <-over; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBlockedActs: what can be done to groups that are blocked, and to dead letters.
func TestBlockedActs(t *testing.T) {
	b := open(t, "memory")
	ctx := t.Context()
	if err := b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "mail"}}}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		must(b.Post(ctx, "mail", parley.Payload{}, parley.Key("ann")))
	}
	park := func() {
		t.Helper()
		if err := sure.Of(b.NewWorker("mail", parley.HandlerFunc(func(context.Context, *parley.Message) error { return parley.Park(errors.New("no")) }), nil)).Drain(ctx); err != nil {
			t.Fatal(err)
		}
	}
	park()
	s := writer(t, b, console.Options{})
	id := must(b.Admin().Parked(ctx, "mail", parley.Place{}, 1))[0].Group
	of := func(verb string, id parley.ID) string {
		return "act?" + url.Values{"do": {verb}, "queue": {"mail"}, "id": {id.String()}}.Encode()
	}
	page := s.page("/" + of("skip", id))
	for _, want := range []string{"Skip the first message", "parked, 3 messages", "ann", "no"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page that asks does not have %q:\n%s", want, mainOf(page))
		}
	}
	if n := len(must(b.Admin().DeadLetters(ctx, "mail", parley.Place{}, 10))); n != 0 {
		t.Error("asking has skipped the message")
	}
	s.confirmed(of("skip", id))
	letters := must(b.Admin().DeadLetters(ctx, "mail", parley.Place{}, 10))
	if len(letters) != 1 || letters[0].Reason != "skipped in the console" {
		t.Fatalf("dead letters %v", letters)
	}
	park()
	if answer, _ := s.confirmed(of("discard", id)); answer.StatusCode != http.StatusBadRequest {
		t.Errorf("messages are discarded though the form was not sure: %s", answer.Status)
	}
	if n := must(b.Admin().Parked(ctx, "mail", parley.Place{}, 1))[0].Messages; n != 2 {
		t.Errorf("%d messages, want 2", n)
	}
	s.confirmed(of("discard", id), "sure", "1")
	if left := must(b.Admin().Groups(ctx, "mail", parley.Place{}, 10)); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
	s.confirmed(of("bury", letters[0].Message.ID), "sure", "1")
	if n := len(must(b.Admin().DeadLetters(ctx, "mail", parley.Place{}, 10))); n != 0 {
		t.Errorf("%d dead letters are left", n)
	}
	for _, verb := range []string{"requeue", "bury", "cancel", "promote", "retry", "skip", "discard"} { // it is gone meanwhile
		if answer, text := s.confirmed(of(verb, letters[0].Message.ID), "sure", "1"); answer.StatusCode < 400 {
			t.Errorf("%s of what is gone: %s\n%s", verb, answer.Status, mainOf(text))
		}
	}
}

// TestFarGroups: the place in its link finds a group that is far down the order, or that has moved to the top.
func TestFarGroups(t *testing.T) {
	b := open(t, "memory")
	ctx := t.Context()
	if err := b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "mail"}}}); err != nil {
		t.Fatal(err)
	}
	posts := make([]parley.Posting, 700)
	for i := range posts {
		posts[i].Options = []parley.PostOption{parley.Key(fmt.Sprint("k", i))}
	}
	must(b.PostBatch(ctx, "mail", posts))
	s := writer(t, b, console.Options{})
	later := func(page string) string {
		t.Helper()
		return s.page("/" + strings.ReplaceAll(regexp.MustCompile(`rel="next" href="(queue[^"]*)"`).FindStringSubmatch(page)[1], "&amp;", "&"))
	}
	page := s.page("/queue?name=mail")
	for range 12 {
		page = later(page)
	}
	link := strings.ReplaceAll(regexp.MustCompile(`"(group\?[^"]*)"`).FindStringSubmatch(page)[1], "&amp;", "&")
	if text := s.page("/" + link); !strings.Contains(text, "<dt>Place where you saw it</dt><dd>601</dd>") {
		t.Errorf("the group is not found:\n%s", mainOf(text))
	}
	promote := strings.ReplaceAll(regexp.MustCompile(`"(act\?do=promote[^"]*)"`).FindStringSubmatch(page)[1], "&amp;", "&")
	if text := s.page("/" + promote); !strings.Contains(text, "ready, 1 message") {
		t.Errorf("the form does not say what it is:\n%s", mainOf(text))
	}
	s.confirmed(promote)
	if text := s.page("/" + link); !strings.Contains(text, "promoted 100") {
		t.Errorf("the promoted group is not found:\n%s", mainOf(text))
	}
	if text := later(s.page("/queue?name=mail&state=ready")); !strings.Contains(text, "at=99") {
		t.Errorf("places by state:\n%s", mainOf(text))
	}
}

// TestManyActs: what a filter leaves is retried, and requeued, and nothing else is.
func TestManyActs(t *testing.T) {
	b := open(t, "memory")
	ctx := t.Context()
	if err := b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "mail"}, {Name: "other"}}}); err != nil {
		t.Fatal(err)
	}
	for _, queue := range []string{"mail", "other"} {
		for i := range 6 {
			must(b.Post(ctx, queue, parley.Payload{}, parley.Key(fmt.Sprint("k", i))))
		}
		n := 0
		err := sure.Of(b.NewWorker(queue, parley.HandlerFunc(func(context.Context, *parley.Message) error {
			n++
			return []error{parley.Park(errors.New("rejected")), parley.Park(errors.New("refused")), parley.DeadLetter(errors.New("broken"))}[n%3]
		}), &parley.WorkerOptions{MaxReaders: 1})).Drain(ctx)
		if err != nil {
			t.Fatal(err)
		}
	}
	s := writer(t, b, console.Options{})
	if text := s.page("/act?do=retry-all&queue=mail&reason=rejected"); !strings.Contains(text, "Retry blocked groups of queue mail?") || !strings.Contains(text, "2 groups") {
		t.Errorf("the page says\n%s", mainOf(text))
	}
	counts := func() string {
		text := ""
		for _, q := range must(b.Admin().Queues(ctx)) {
			text += fmt.Sprint(q.Depth, " ", q.Parked, " ", len(must(b.Admin().DeadLetters(ctx, q.Name, parley.Place{}, 10))), ", ")
		}
		return text
	}
	for _, step := range [][2]string{
		{"act?do=retry-all&queue=mail&reason=rejected", "2 2 2, 0 4 2, "},
		{"act?do=requeue-all&queue=other&type=none", "2 2 2, 0 4 2, "},
		{"act?do=requeue-all&queue=other&reason=broken", "2 2 2, 2 4 0, "},
		{"act?do=retry-all", "4 0 2, 6 0 0, "},
		{"act?do=requeue-all", "6 0 0, 6 0 0, "},
	} {
		s.confirmed(step[0])
		if got := counts(); got != step[1] {
			t.Errorf("after %s: %s, want %s", step[0], got, step[1])
		}
	}
}

// TestLettersOfConversations: what a filter leaves is requeued without the dead letters of conversations, which stay.
func TestLettersOfConversations(t *testing.T) {
	b := open(t, "memory")
	ctx := t.Context()
	err := b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "home"}, {Name: "mail"}},
		Services: []parley.Service{{Name: "Shop", Queue: "home"}, {Name: "Mailer", Queue: "mail", Contracts: []string{parley.DefaultContract}}}})
	if err == nil {
		err = b.InTx(ctx, func(tx *parley.Tx) error {
			c, err := tx.Begin(ctx, "Shop", "Mailer", nil)
			if err != nil {
				return err
			}
			return c.SendPayload(ctx, parley.Payload{})
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	must(b.Post(ctx, "mail", parley.Payload{}))
	die := parley.HandlerFunc(func(context.Context, *parley.Message) error { return parley.DeadLetter(errors.New("no")) })
	if err := sure.Of(b.NewWorker("mail", die, nil)).Drain(ctx); err != nil {
		t.Fatal(err)
	}
	s := writer(t, b, console.Options{})
	if text := s.page("/act?do=requeue-all"); !strings.Contains(text, "<dd>1 post</dd>") {
		t.Errorf("the page says\n%s", mainOf(text))
	}
	if answer, text := s.confirmed("act?do=requeue-all"); answer.StatusCode != http.StatusSeeOther {
		t.Errorf("%s\n%s", answer.Status, mainOf(text))
	}
	if left := must(b.Admin().DeadSummaries(ctx, "", parley.Place{}, 10)); len(left) != 1 || left[0].Message.Conversation.IsZero() {
		t.Errorf("left are %v", left)
	}
}

// TestNothingIsDoneUnasked: without Write, with a form of another site, by a link alone, or against Authorize.
func TestNothingIsDoneUnasked(t *testing.T) {
	b := open(t, "memory")
	f := consoletest.Fill(t, b, consoletest.Plain)
	version := func() string {
		return fmt.Sprint(must(b.Admin().Groups(t.Context(), "mail", parley.Place{}, 100)), must(b.Admin().Queues(t.Context()))[1].Disabled)
	}
	shape := regexp.MustCompile(`[\d.]+(ns|µs|ms|s|m|h)`)
	before := shape.ReplaceAllString(version(), "")
	only := serve(t, b, nil)
	some := writer(t, b, console.Options{Authorize: func(_ *http.Request, a console.Action, target string) error {
		if a == console.View || a == console.Retry && target == "another" {
			return nil
		}
		return fmt.Errorf("not %s %s", a, target)
	}})
	every := writer(t, b, console.Options{})
	for _, verb := range []string{"promote", "demote", "retry", "skip", "discard", "requeue", "bury", "cancel", "enable", "disable", "run", "pause", "resume", "retry-tasks", "skip-tasks", "cancel-tasks", "retry-all", "requeue-all"} {
		form := url.Values{"do": {verb}, "queue": {"mail"}, "id": {f.Parked.String()}, "job": {"digest"}, "plan": {"nightly"}, "sure": {"1"}}
		for name, s := range map[string]*site{"a console that only looks": only, "a person who may not": some} {
			if answer, text := s.post("/act", form); answer.StatusCode != http.StatusForbidden {
				t.Errorf("%s: %s: %s\n%s", name, verb, answer.Status, text)
			}
			if answer, text := s.get("/act?" + form.Encode()); answer.StatusCode != http.StatusForbidden {
				t.Errorf("%s: asked for %s: %s\n%s", name, verb, answer.Status, text)
			}
		}
		for _, header := range [][2]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"}} {
			if answer, _ := every.post("/act", form, func(r *http.Request) { r.Header.Set(header[0], header[1]) }); answer.StatusCode != http.StatusForbidden {
				t.Errorf("%s, with %v: %s", verb, header, answer.Status)
			}
		}
		if answer, _ := every.get("/act?" + form.Encode()); answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", verb, answer.Status)
		}
	}
	if after := shape.ReplaceAllString(version(), ""); after != before {
		t.Errorf("something was done:\n%s\n%s", before, after)
	}
	for _, page := range []string{"/queue?name=mail", "/parked", "/dead", "/recurring", "/plan?name=nightly"} {
		if text := only.page(page); strings.Contains(text, "act?do=") {
			t.Errorf("%s of a console that only looks offers actions", page)
		}
		if text := every.page(page); !strings.Contains(text, "act?do=") {
			t.Errorf("%s offers no actions", page)
		} else {
			for _, link := range regexp.MustCompile(`"(act\?[^"]*)"`).FindAllStringSubmatch(text, -1) {
				every.page("/" + strings.ReplaceAll(link[1], "&amp;", "&"))
			}
		}
	}
	for _, form := range []url.Values{{}, {"do": {"rm"}}, {"do": {"retry"}}, {"do": {"retry"}, "id": {"x"}}, {"do": {"promote"}, "id": {f.Keyed.String()}, "level": {"x"}},
		{"do": {"promote"}, "id": {f.Keyed.String()}, "level": {"256"}}, {"do": {"skip-tasks"}, "plan": {"nightly"}, "task": {"x"}}} {
		if answer, text := every.post("/act", form); answer.StatusCode < 400 {
			t.Errorf("%v: %s\n%s", form, answer.Status, text)
		}
	}
}

// TestBackWithFilters: after an action people are where they were, with their filters.
func TestBackWithFilters(t *testing.T) {
	b := open(t, "memory")
	f := consoletest.Fill(t, b, consoletest.Plain)
	h := must(console.New(b, &console.Options{Write: true, Authorize: func(*http.Request, console.Action, string) error { return nil }}))
	mux := http.NewServeMux()
	mux.Handle("/ops/", http.StripPrefix("/ops", h))
	s := serveHandler(t, mux)
	for from, want := range map[string]string{s.URL + "/ops/parked?queue=mail&state=parked": "./parked?queue=mail&amp;state=parked", s.URL + "/ops/": "./",
		"https://evil.example/parked?queue=mail": "./", "": "./"} {
		_, text := s.get("/ops/act?do=retry&queue=mail&id="+f.Parked.String(), func(r *http.Request) { r.Header.Set("Referer", from) })
		if !strings.Contains(text, `name="back" value="`+want+`"`) {
			t.Errorf("from %s the form leads to\n%s", from, mainOf(text))
		}
	}
	answer, _ := s.post("/ops/act", url.Values{"do": {"retry"}, "queue": {"mail"}, "id": {f.Parked.String()}, "back": {"./parked?queue=mail&state=parked"}})
	if to := answer.Header.Get("Location"); to != "./parked?queue=mail&state=parked" {
		t.Errorf("back to %q", to)
	}
}
