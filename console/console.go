// Package console is a website that shows queues, groups, conversations, plans, locks and recurring
// jobs, and why something does not move. A program mounts it at any path:
//
//	c, err := console.New(b, &console.Options{Authorize: mine})
//	mux.Handle("/console/", http.StripPrefix("/console", c))
//
// The command `parley console` serves it on the user's machine. Reading works without scripts. The console reads
// nothing while no page is open, and pages that show the same share one read. docs/console.md explains the pages and
// their safety.
package console

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
)

// Action is what a request is about to do.
type Action string

// The actions.
const (
	View Action = "view" // to look at a page
	Peek Action = "peek" // to look at messages, for which their group is locked for a moment

	Promote Action = "promote" // a group
	Demote  Action = "demote"  // a group
	Retry   Action = "retry"   // a parked or deferred group, or dead tasks of a plan
	Skip    Action = "skip"    // the first message of a blocked group, or dead tasks of a plan
	Discard Action = "discard" // messages of a blocked group, or a dead letter
	Requeue Action = "requeue" // a dead letter
	Cancel  Action = "cancel"  // a post, or tasks of a plan
	Enable  Action = "enable"  // a queue or a recurring job
	Disable Action = "disable" // a queue or a recurring job
	Run     Action = "run"     // a recurring job, now
)

// looks reports whether the action changes nothing.
func (a Action) looks() bool { return a == View || a == Peek }

// ErrRefused is the error of a request that is not allowed.
var ErrRefused = errors.New("this is not allowed")

// Options are the options of a Handler. Nil means all the defaults.
type Options struct {
	// Title is the heading of the pages. Default "Parley".
	Title string

	// Authorize decides about each request, and about each event of a stream. The target is the queue, group, plan
	// or the like that the action is about, or empty. An error refuses it, and its text is shown. Without
	// Authorize the console answers only requests from this machine, and browsers in which the Token was entered.
	Authorize func(r *http.Request, a Action, target string) error

	// Token is a secret that opens the console to the one browser in which it is entered. It replaces Authorize.
	Token string

	// Write allows actions, for people whom Authorize admits, or in whose browser the Token was entered. Without
	// it the console is read-only.
	Write bool

	// Hosts are the names by which browsers call the console, without port. Without Authorize the console knows
	// the names of this machine's loopback, and refuses others, because a foreign site could make its host name
	// point here.
	Hosts []string

	// TrustedOrigins are origins such as https://example.com whose forms are accepted. Behind a proxy that
	// rewrites the Host header, name the console's origin here.
	TrustedOrigins []string

	// Redact returns what pages show of a message's body. Nil shows no bodies.
	Redact func(queue, typ string, body []byte) string

	// Audit is called before each action, and again when it is over. So a program can keep a record of who did
	// what. An error before the action refuses it. Nil means that only the log records actions.
	Audit func(ctx context.Context, r *http.Request, a Audited) error

	// Limit is how long a page may read. Zero means 3 s.
	Limit time.Duration

	// Interval is the minimum time between two updates of an open page. Zero means 2 s.
	Interval time.Duration

	// Logger gets what people do with the console. Default: that of the Broker.
	Logger *slog.Logger
}

// Handler is the console. It needs no closing; it ends with its Broker.
type Handler struct {
	b       *parley.Broker
	opt     Options
	log     *slog.Logger
	mux     *http.ServeMux
	cross   *http.CrossOriginProtection
	hosts   map[string]bool
	pages   map[string]*template.Template
	cache   cache
	history history
	waits   waits
	hub     hub
	engine  atomic.Pointer[string]
	slice   time.Duration // sliceTime, except in tests

	mu      sync.Mutex
	token   string          // until it is entered
	session map[string]bool // of browsers in which it was
}

// New makes a console of a Broker's store.
func New(b *parley.Broker, o *Options) (*Handler, error) {
	if b == nil {
		return nil, fmt.Errorf("parley: console: the broker is nil: %w", parley.ErrInvalidOption)
	}
	h := &Handler{b: b, hosts: make(map[string]bool), cross: http.NewCrossOriginProtection(), session: make(map[string]bool), slice: sliceTime}
	if o != nil {
		h.opt = *o
	}
	if h.opt.Authorize != nil && h.opt.Token != "" {
		return nil, fmt.Errorf("parley: console: Authorize and Token exclude each other: %w", parley.ErrInvalidOption)
	}
	if h.opt.Write && h.opt.Authorize == nil && h.opt.Token == "" {
		return nil, fmt.Errorf("parley: console: Write needs Authorize or Token, which say who may act: %w", parley.ErrInvalidOption)
	}
	if h.opt.Limit < 0 || h.opt.Interval < 0 {
		return nil, fmt.Errorf("parley: console: a time below zero: %w", parley.ErrInvalidOption)
	}
	setDefault(&h.opt.Title, "Parley")
	setDefault(&h.opt.Limit, 3*time.Second)
	setDefault(&h.opt.Interval, 2*time.Second)
	if h.log = h.opt.Logger; h.log == nil {
		h.log = b.Logger()
	}
	h.token = h.opt.Token
	for _, name := range append([]string{"localhost", "127.0.0.1", "::1"}, h.opt.Hosts...) {
		h.hosts[name] = true
	}
	for _, origin := range h.opt.TrustedOrigins {
		if err := h.cross.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("parley: console: %w: %w", err, parley.ErrInvalidOption)
		}
	}
	var err error
	if h.pages, err = parsePages(h.opt.Write); err != nil {
		return nil, fmt.Errorf("parley: console: %w", err)
	}
	h.routes()
	return h, nil
}

func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

// routes says what is where. All pages are in one folder, so that their links are relative and the console works
// below any path.
func (h *Handler) routes() {
	h.mux = http.NewServeMux()
	for _, v := range views {
		h.mux.HandleFunc("GET /"+v.path(), func(w http.ResponseWriter, r *http.Request) { h.page(w, r, v) })
	}
	h.mux.HandleFunc("GET /part", h.part)
	h.mux.HandleFunc("GET /stream", h.stream)
	h.mux.HandleFunc("GET /metrics", h.metrics)
	h.mux.HandleFunc("GET /enter", h.enter)
	h.mux.HandleFunc("POST /enter", h.enter)
	h.mux.HandleFunc("POST /theme", h.theme)
	h.mux.HandleFunc("GET /act", h.confirm)
	h.mux.HandleFunc("POST /act", h.act)
	h.mux.HandleFunc("GET /static/{name}", h.static)
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if h.allowed(w, r, View, "") {
			h.problem(w, r, http.StatusNotFound, errors.New("there is no such page"))
		}
	})
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "same-origin") // with no-referrer, forms would have the origin "null" and be refused
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
	if err := h.knownHost(r); err != nil {
		h.problem(w, r, http.StatusForbidden, err)
		return
	}
	if err := h.cross.Check(r); err != nil {
		h.problem(w, r, http.StatusForbidden, fmt.Errorf("the form comes from another site; behind a proxy, name the console's origin in Options.TrustedOrigins: %w", err))
		return
	}
	h.mux.ServeHTTP(w, r)
}

// policy lets a page have the console's own files and nothing else, and nothing inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
