package console_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/parleymq/parley/console"
	"github.com/parleymq/parley/internal/consoletest"
)

// routes are all that the console answers.
var routes = []string{"/", "/queue?name=mail", "/group?queue=mail&id=x", "/conversations", "/conversation?id=x", "/parked", "/dead", "/plans", "/plan?name=nightly",
	"/recurring", "/locks", "/workers", "/catalog", "/doctor", "/why?what=mail", "/search?q=mail", "/part?view=queue&name=mail", "/stream?view=", "/metrics", "/nothing"}

// TestAuthorize: each route asks, and shows nothing when it is refused.
func TestAuthorize(t *testing.T) {
	b := open(t, "memory")
	f := consoletest.Fill(t, b, consoletest.Plain)
	asked := map[string]bool{}
	refuse := false
	s := serve(t, b, &console.Options{Authorize: func(r *http.Request, a console.Action, target string) error {
		asked[fmt.Sprint(a, " ", target)] = true
		if refuse {
			return errors.New("come back tomorrow")
		}
		return nil
	}})
	s.page(fmt.Sprintf("/group?queue=mail&id=%s&peek=1", f.Parked))
	s.page("/queue?name=mail")
	for _, want := range []string{"peek " + f.Parked.String(), "view mail"} {
		if !asked[want] {
			t.Errorf("Authorize was not asked for %q, but for %v", want, asked)
		}
	}
	refuse = true
	for _, path := range routes {
		answer, text := s.get(path)
		if answer.StatusCode != http.StatusForbidden || !strings.Contains(text, "come back tomorrow") || strings.Contains(text, "customer") || strings.Contains(text, "memory") {
			t.Errorf("GET %s: %s\n%s", path, answer.Status, text)
		}
	}
	answer, _ := s.do(must(http.NewRequest(http.MethodPost, s.URL+"/theme", strings.NewReader("theme=dark"))))
	if answer.StatusCode != http.StatusForbidden || len(answer.Cookies()) > 0 {
		t.Errorf("POST /theme: %s", answer.Status)
	}
}

// TestOwnMachine: without Authorize, requests from elsewhere, through proxies, and by names that are not the console's
// are refused.
func TestOwnMachine(t *testing.T) {
	b := open(t, "memory")
	h := must(console.New(b, &console.Options{Hosts: []string{"desk.example"}}))
	ask := func(host, from string, headers ...string) int {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host, r.RemoteAddr = host, from
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	const here = "127.0.0.1:5000"
	for _, test := range []struct {
		host, from string
		headers    []string
		want       int
	}{
		{"127.0.0.1:8470", here, nil, 200}, {"localhost:8470", here, nil, 200}, {"LOCALHOST.", here, nil, 200}, {"[::1]:8470", "[::1]:5000", nil, 200},
		{"desk.example", here, nil, 200}, {"[::1]", "[::ffff:127.0.0.1]:5000", nil, 200},
		{"evil.example:8470", here, nil, 403}, {"127.0.0.1.evil.example", here, nil, 403}, {"", here, nil, 403}, {"192.168.0.7:8470", here, nil, 403},
		{"127.0.0.1:8470", "192.168.0.9:5000", nil, 403}, {"127.0.0.1:8470", "", nil, 403}, {"desk.example", "10.0.0.1:1", nil, 403},
		{"127.0.0.1:8470", here, []string{"X-Forwarded-For", "8.8.8.8"}, 403}, {"127.0.0.1:8470", here, []string{"Forwarded", "for=8.8.8.8"}, 403},
		{"127.0.0.1:8470", here, []string{"Via", "1.1 proxy"}, 403},
	} {
		if got := ask(test.host, test.from, test.headers...); got != test.want {
			t.Errorf("host %q from %q with %v: %d, want %d", test.host, test.from, test.headers, got, test.want)
		}
	}
}

// TestToken: a browser elsewhere enters the token, once.
func TestToken(t *testing.T) {
	b := open(t, "memory")
	var log bytes.Buffer
	h := must(console.New(b, &console.Options{Token: "open-sesame", Logger: slog.New(slog.NewTextHandler(&log, nil))}))
	do := func(method, path, form, cookie string, headers ...string) *http.Response {
		r := httptest.NewRequest(method, path, strings.NewReader(form))
		r.Host, r.RemoteAddr = "10.0.0.7:8470", "10.0.0.9:5000"
		if form != "" {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		if cookie != "" {
			r.AddCookie(&http.Cookie{Name: "parley_console", Value: cookie})
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		if r.Header.Get("Sec-Fetch-Site") == "same-origin" {
			r.TLS = &tls.ConnectionState{}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
	enter := url.Values{"token": {" open-sesame\n"}}.Encode()
	expect := func(what string, answer *http.Response, want int) {
		t.Helper()
		if answer.StatusCode != want {
			t.Errorf("%s: %s, want %d", what, answer.Status, want)
		}
	}
	expect("without a token", do("GET", "/", "", ""), 401)
	expect("with a made-up cookie", do("GET", "/", "", "open-sesame"), 401)
	expect("the form", do("GET", "/enter", "", ""), 200)
	expect("a wrong token", do("POST", "/enter", "token=open", ""), 403)
	expect("no token", do("POST", "/enter", "token=", ""), 403)
	expect("another site's form", do("POST", "/enter", enter, "", "Sec-Fetch-Site", "cross-site"), 403)
	expect("another site's form, of an old browser", do("POST", "/enter", enter, "", "Origin", "http://evil.example"), 403)
	answer := do("POST", "/enter", enter, "", "Sec-Fetch-Site", "same-origin")
	expect("the token", answer, 303)
	cookies := answer.Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly || !cookies[0].Secure || cookies[0].SameSite != http.SameSiteStrictMode || cookies[0].Path != "" || cookies[0].Value == "open-sesame" {
		t.Fatalf("cookies %v", cookies)
	}
	if to := answer.Header.Get("Location"); to != "./" {
		t.Errorf("the way goes on to %q", to)
	}
	expect("with the cookie", do("GET", "/", "", cookies[0].Value), 200)
	expect("the token, again", do("POST", "/enter", enter, ""), 403)
	expect("no token, now that there is none", do("POST", "/enter", "token=", ""), 403)
	if text := log.String(); !strings.Contains(text, "console.entered") || !strings.Contains(text, "console.refused") || strings.Contains(text, "sesame") {
		t.Errorf("the log says\n%s", text)
	}
}

// TestHeaders: pages carry what keeps other sites, and what is written in messages, from acting in them.
func TestHeaders(t *testing.T) {
	b := open(t, "memory")
	consoletest.Fill(t, b, consoletest.Plain)
	s := serve(t, b, nil)
	for _, path := range append(routes, "/static/console.css", "/static/console.js", "/enter") {
		if strings.HasPrefix(path, "/stream") {
			continue
		}
		answer, text := s.get(path)
		head := answer.Header
		policy := head.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") ||
			!strings.Contains(policy, "form-action 'self'; base-uri 'none'; frame-ancestors 'none'") {
			t.Errorf("%s: policy %q", path, policy)
		}
		if head.Get("X-Content-Type-Options") != "nosniff" || head.Get("Referrer-Policy") != "same-origin" || head.Get("Content-Type") == "" ||
			head.Get("Cross-Origin-Opener-Policy") != "same-origin" || head.Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s: headers %v", path, head)
		}
		if !strings.HasPrefix(path, "/static") && (head.Get("Cache-Control") != "no-store" || strings.Contains(text, " style=") || strings.Contains(text, " onclick=") || strings.Contains(text, "<style")) {
			t.Errorf("%s: %v, or something inline", path, head)
		}
	}
}

// TestTheme: the choice stays, and its form leads back to the console and nowhere else.
func TestTheme(t *testing.T) {
	b := open(t, "memory")
	consoletest.Fill(t, b, consoletest.Plain)
	s := serve(t, b, nil)
	for back, want := range map[string]string{"queue?name=mail&state=parked": "./queue?name=mail&state=parked", "": "./", "plans": "./plans",
		"//evil.example": "./", "https://evil.example/queue": "./", "queue?name=a%0d%0ab": "./queue?name=a%0D%0Ab", "enter": "./", "queue?name=mail&x=y": "./queue?name=mail"} {
		form := url.Values{"theme": {"dark"}, "back": {back}}.Encode()
		answer, _ := s.do(must(http.NewRequest(http.MethodPost, s.URL+"/theme", strings.NewReader(form))),
			func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") })
		if got := answer.Header.Get("Location"); answer.StatusCode != http.StatusSeeOther || got != want {
			t.Errorf("back to %q: %s, %q, want %q", back, answer.Status, got, want)
		}
		if c := answer.Cookies(); len(c) != 1 || c[0].Value != "dark" {
			t.Errorf("cookies %v", c)
		}
	}
	_, text := s.get("/", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "parley_theme", Value: "dark"}) })
	if !strings.Contains(text, `data-theme="dark"`) {
		t.Error("the dark theme is not chosen")
	}
	if _, text := s.get("/", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "parley_theme", Value: "x"}) }); strings.Contains(text, "data-theme") {
		t.Error("a made-up theme is chosen")
	}
}

// TestWhoMayAct: each verb asks Authorize for its action and target. Without Write nothing is done, whatever Authorize
// says. With a token, people on the same machine have to enter it, too.
func TestWhoMayAct(t *testing.T) {
	b := open(t, "memory")
	consoletest.Fill(t, b, consoletest.Plain)
	ask := func(h http.Handler, method string, form url.Values) int {
		r := httptest.NewRequest(method, "/act?"+form.Encode(), nil)
		if method == http.MethodPost {
			r = httptest.NewRequest(method, "/act", strings.NewReader(form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		r.Host, r.RemoteAddr = "127.0.0.1:8470", "127.0.0.1:5000"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	var asked string
	asks := must(console.New(b, &console.Options{Write: true, Authorize: func(_ *http.Request, a console.Action, target string) error {
		asked = fmt.Sprint(a, " ", target)
		return errors.New("no")
	}}))
	looks := must(console.New(b, &console.Options{Authorize: func(*http.Request, console.Action, string) error { return nil }}))
	token := must(console.New(b, &console.Options{Write: true, Token: "secret"}))
	const id = "0195e0a0-5f3e-7000-8000-3c8e2b1f0a11"
	form := url.Values{"queue": {"mail"}, "id": {id}, "job": {"digest"}, "plan": {"nightly"}, "sure": {"1"}}
	for verb, want := range map[string]string{
		"promote": "promote " + id, "move": "promote " + id, "demote": "demote " + id, "retry": "retry " + id, "skip": "skip " + id, "discard": "discard " + id,
		"requeue": "requeue " + id, "bury": "discard " + id, "cancel": "cancel " + id, "enable": "enable mail", "disable": "disable mail",
		"run": "run digest", "pause": "disable digest", "resume": "enable digest", "retry-all": "retry mail", "requeue-all": "requeue mail",
		"retry-tasks": "retry nightly", "skip-tasks": "skip nightly", "cancel-tasks": "cancel nightly",
	} {
		form.Set("do", verb)
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			asked = ""
			if code := ask(asks, method, form); code != http.StatusForbidden || asked != want {
				t.Errorf("%s %s: %d, asked about %q, want %q", method, verb, code, asked, want)
			}
			if code := ask(looks, method, form); code != http.StatusForbidden {
				t.Errorf("%s %s without Write: %d", method, verb, code)
			}
			if code := ask(token, method, form); code != http.StatusUnauthorized {
				t.Errorf("%s %s without the token: %d", method, verb, code)
			}
		}
	}
}
