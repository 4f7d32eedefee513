package browsertest

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/console"
)

// TestProxy: behind a proxy that adds a prefix and rewrites Host, pages are kept up to date and people act.
func TestProxy(t *testing.T) {
	b := store(t, "sqlite")
	var inner http.Handler
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { inner.ServeHTTP(w, r) }))
	t.Cleanup(func() { back.CloseClientConnections(); back.Close() })
	proxy := httputil.NewSingleHostReverseProxy(must(url.Parse(back.URL)))
	direct := proxy.Director
	proxy.Director = func(r *http.Request) { direct(r); r.Host = "inside.example.com" }
	front := serve(t, http.StripPrefix("/tools/parley", proxy))
	inner = must(console.New(b, &console.Options{Write: true, TrustedOrigins: []string{front},
		Authorize: func(*http.Request, console.Action, string) error { return nil }}))
	l := newLine(t, b, "ann", "bob", "cleo")
	l.take(true)
	w := open(t, wide)
	w.show(front + "/tools/parley/")
	w.follow(`a[href="queue?name=line"]`)
	w.until(`document.getElementById("pause").dataset.state === "live" && document.querySelectorAll(".chip.ready").length === 2`)
	w.moved(func() { w.dragMouse(w.at(w.handle("cleo"), 0.5), w.at(w.row("bob"), 0.2)) })
	w.until(`location.pathname === "/tools/parley/queue"`)
	if got := strings.Join(l.rest(2), " "); got != "cleo bob" {
		t.Errorf("received are %s", got)
	}
	w.until(`document.querySelectorAll(".chip.ready").length === 0`)
}

// TestRestart: a page whose server goes away says so, and goes on by itself when the server is back.
func TestRestart(t *testing.T) {
	b := store(t, "sqlite")
	ctx := t.Context()
	if err := b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "line"}}}); err != nil {
		t.Fatal(err)
	}
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	start := func(l net.Listener) *http.Server {
		s := &http.Server{Handler: handler(t, b)}
		go func() { _ = s.Serve(l) }()
		return s
	}
	server := start(listener)
	w := open(t, wide)
	w.allow("net::ERR_CONNECTION_REFUSED")
	w.allow("net::ERR_INCOMPLETE_CHUNKED_ENCODING")
	w.allow("net::ERR_CONNECTION_RESET")
	w.show("http://" + listener.Addr().String() + "/queue?name=line")
	w.until(`document.getElementById("pause").dataset.state === "live"`)
	w.says("Nothing waits here")
	server.Close()
	w.until(`document.getElementById("pause").dataset.state === "lost"`)
	must(b.Post(ctx, "line", parley.Payload{}, parley.Key("ann")))
	server = start(must(net.Listen("tcp", listener.Addr().String())))
	defer server.Close()
	w.until(`document.querySelectorAll(".chip.ready").length === 1`)
	w.until(`document.getElementById("pause").dataset.state !== "lost"`)
}

// TestPause: updates wait while a person selects or types, and while they are paused.
func TestPause(t *testing.T) {
	b := store(t, "sqlite")
	l := newLine(t, b, "ann", "bob", "cleo")
	l.take(true)
	site := serve(t, handler(t, b))
	w := open(t, wide)
	w.show(site + "/queue?name=line")
	w.until(`document.querySelectorAll(".chip.ready").length === 2`)
	w.press("p")
	l.take(false)
	w.until(`document.getElementById("pause").textContent.includes("Paused")`)
	w.until(`document.querySelectorAll(".chip.ready").length === 2`)
	w.press("p")
	w.until(`document.querySelectorAll(".chip.ready").length === 1`)
	value[string](w, `getSelection().selectAllChildren(document.querySelector("h1")); ""`)
	l.take(false)
	w.until(`document.getElementById("pause").dataset.state === "waits"`)
	if n := value[int](w, `document.querySelectorAll(".chip.ready").length`); n != 1 {
		t.Errorf("%d groups are ready while text is selected, want 1", n)
	}
	value[string](w, `getSelection().removeAllRanges(); ""`)
	w.until(`document.querySelectorAll(".chip.ready").length === 0`)
}
