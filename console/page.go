package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/phases"
)

//go:embed templates static
var files embed.FS

// view is a kind of page.
type view struct {
	Name   string   // its path, and its template; "" is the overview
	Title  string   // what it is headed with, if no parameter names more
	params []string // that it knows; others are left out
	target string   // the parameter that says what it is about
	live   bool     // open pages are kept up to date
	slow   bool     // a page does not wait for what it takes long to read, which comes as an update
	peek   string   // the parameter that makes it a look at messages
	read   func(h *Handler, ctx context.Context, q url.Values) (any, error)
}

func (v *view) path() string {
	if v.Name == "" {
		return "{$}"
	}
	return v.Name
}

func (v *view) template() string {
	if v.Name == "" {
		return "overview"
	}
	return v.Name
}

// action is what a request for the view does.
func (v *view) action(q url.Values) (a Action, target string) {
	if a = View; v.peek != "" && q.Get(v.peek) != "" {
		a = Peek
	}
	if v.target != "" {
		target = q.Get(v.target)
	}
	return a, target
}

// views are the pages, in the order of the navigation. It is filled at the start, since the functions refer to it.
var views []*view

func init() {
	views = []*view{
		{Name: "", Title: "Overview", live: true, read: (*Handler).readOverview},
		{Name: "queue", Title: "Queue", params: []string{"name", "state", "from", "after"}, target: "name", live: true, read: (*Handler).readQueue},
		{Name: "group", Title: "Group", params: []string{"queue", "id", "at", "peek"}, target: "id", peek: "peek", read: (*Handler).readGroup},
		{Name: "conversations", Title: "Conversations", params: []string{"after"}, live: true, read: (*Handler).readConversations},
		{Name: "conversation", Title: "Conversation", params: []string{"id", "kept"}, target: "id", peek: "kept", read: (*Handler).readConversation},
		{Name: "parked", Title: "Parked and deferred", params: []string{"queue", "reason", "state", "after"}, target: "queue", live: true, read: (*Handler).readParked},
		{Name: "dead", Title: "Dead letters", params: []string{"queue", "type", "reason", "after"}, target: "queue", live: true, read: (*Handler).readDead},
		{Name: "plans", Title: "Phases", live: true, read: (*Handler).readPlans},
		{Name: "plan", Title: "Plan", params: []string{"name", "after"}, target: "name", live: true, read: (*Handler).readPlan},
		{Name: "recurring", Title: "Recurring jobs", live: true, read: (*Handler).readRecurring},
		{Name: "locks", Title: "Application locks", params: []string{"prefix"}, target: "prefix", live: true, read: (*Handler).readLocks},
		{Name: "workers", Title: "Workers", live: true, read: (*Handler).readWorkers},
		{Name: "catalog", Title: "Catalog", read: (*Handler).readCatalog},
		{Name: "doctor", Title: "Doctor", live: true, slow: true, read: (*Handler).readDoctor},
		{Name: "why", Title: "Why is it stuck?", params: []string{"what"}, target: "what", live: true, slow: true, read: (*Handler).readWhy},
		{Name: "search", Title: "Search", params: []string{"q", "of", "queue", "after"}, read: (*Handler).readSearch},
	}
}

// navigation are the views that are about nothing in particular.
func navigation() (list []*view) {
	for _, v := range views {
		if _, inside := sections[v.Name]; !inside && v.Name != "search" {
			list = append(list, v)
		}
	}
	return list
}

// content is what the template of a page gets.
type content struct {
	Title   string // of the page
	Console string // Options.Title
	Engine  string
	View    string
	Section string // of the navigation
	Self    string // the link of this page
	Live    bool
	Reading bool // what it shows is still being read
	Theme   string
	Token   bool // one can be entered
	Version string
	Query   string        // what was searched for
	Main    template.HTML // what the view's own template made
	Data    any           // for a page without one
	Said    string        // of what a person did
	Error   *trouble
}

// trouble is an error as people see it.
type trouble struct {
	Status int
	Text   string
	Hint   string
}

// sections are where the navigation has views that it does not name.
var sections = map[string]string{"queue": "", "group": "", "conversation": "conversations", "plan": "plans", "why": "doctor"}

// part is a view's content, as the cache keeps it.
type part struct {
	html    []byte
	title   string
	version string // differs if the content does
}

// titled is implemented by what has a better title than its view.
type titled interface{ pageTitle() string }

// look returns the content of a view, at most an age old.
func (h *Handler) look(ctx context.Context, v *view, q url.Values, age time.Duration) (*part, error) {
	return cached(ctx, &h.cache, "view "+v.Name+query(q, v.params), age, func() (*part, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.opt.Limit)
		defer cancel()
		data, err := v.read(h, ctx, q)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := h.pages[v.template()].ExecuteTemplate(&b, "main", data); err != nil {
			return nil, err
		}
		sum := sha256.Sum256(b.Bytes())
		p := &part{html: b.Bytes(), title: v.Title, version: hex.EncodeToString(sum[:8])}
		if t, ok := data.(titled); ok {
			p.title = t.pageTitle()
		}
		return p, nil
	})
}

// fresh is how old a page may be that a request gets.
const fresh = time.Second

// patience is how long a page waits for a slow view.
const patience = 50 * time.Millisecond

// soon is look for a page: a slow view that is not ready in time is nil, and its read continues.
func (h *Handler) soon(ctx context.Context, v *view, q url.Values) (p *part, err error) {
	if !v.slow {
		return h.look(ctx, v, q, fresh)
	}
	over := make(chan struct{})
	var there *part
	var failed error
	go func() {
		defer close(over)
		there, failed = h.look(ctx, v, q, fresh)
	}()
	select {
	case <-over:
		return there, failed
	case <-time.After(patience):
		return nil, nil
	}
}

// page answers with a whole page.
func (h *Handler) page(w http.ResponseWriter, r *http.Request, v *view) {
	q := r.URL.Query()
	a, target := v.action(q)
	if !h.allowed(w, r, a, target) {
		return
	}
	p, err := h.soon(r.Context(), v, q)
	c := &content{Title: v.Title, View: v.Name, Self: v.Name + query(q, v.params), Live: v.live, Query: q.Get("q")}
	status := http.StatusOK
	switch {
	case err != nil:
		c.Error = explained(err)
		status = c.Error.Status
	case p == nil:
		c.Reading, status = true, http.StatusAccepted
		c.Said, c.Engine = said(w, r), h.engineName(r.Context())
	default:
		c.Title, c.Main, c.Version = p.title, template.HTML(p.html), p.version
		c.Said, c.Engine = said(w, r), h.engineName(r.Context())
	}
	h.write(w, r, status, v.template(), c)
}

// part answers with what is inside a page, for scripts that cannot have a stream.
func (h *Handler) part(w http.ResponseWriter, r *http.Request) {
	v, q, ok := h.streamed(w, r)
	if !ok {
		return
	}
	p, err := h.look(r.Context(), v, q, fresh)
	if err != nil {
		t := explained(err)
		http.Error(w, t.Text, t.Status)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("X-Version", p.version)
	_, _ = w.Write(p.html)
}

// streamed is the view whose content a request wants to be kept up to date.
func (h *Handler) streamed(w http.ResponseWriter, r *http.Request) (v *view, q url.Values, ok bool) {
	q = r.URL.Query()
	for _, v = range views {
		if v.live && v.Name == q.Get("view") {
			a, target := v.action(q)
			return v, q, h.allowed(w, r, a, target)
		}
	}
	if h.allowed(w, r, View, "") {
		http.Error(w, "no such view", http.StatusNotFound)
	}
	return nil, nil, false
}

// problem answers with an error.
func (h *Handler) problem(w http.ResponseWriter, r *http.Request, status int, err error) {
	t := &trouble{Status: status, Text: err.Error()}
	h.write(w, r, status, "problem", &content{Title: http.StatusText(status), Error: t, View: "problem"})
}

func (h *Handler) write(w http.ResponseWriter, r *http.Request, status int, name string, c *content) {
	c.Section = c.View
	if section, ok := sections[c.View]; ok {
		c.Section = section
	}
	c.Console, c.Token = h.opt.Title, h.opt.Token != "" && !h.entered(r)
	if cookie, err := r.Cookie("parley_theme"); err == nil && (cookie.Value == "dark" || cookie.Value == "light") {
		c.Theme = cookie.Value
	}
	var b bytes.Buffer
	if err := h.pages[name].ExecuteTemplate(&b, "page", c); err != nil {
		h.log.Error("parley: console: a page cannot be written", "event", "console.failed", "page", name, "error", err)
		http.Error(w, "the page cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// query is the part of a link behind the page's name, of the parameters that a view knows.
func query(q url.Values, params []string) string {
	known := make(url.Values)
	for _, name := range params {
		if value := q.Get(name); value != "" {
			known.Set(name, value)
		}
	}
	if len(known) == 0 {
		return ""
	}
	return "?" + known.Encode()
}

// explained tells people what an error means.
func explained(err error) *trouble {
	t := &trouble{Status: http.StatusInternalServerError, Text: err.Error()}
	var input *inputError
	switch {
	case errors.As(err, &input):
		t.Status = http.StatusBadRequest
	case errors.Is(err, parley.ErrUnknownQueue), errors.Is(err, phases.ErrNoPlan), errors.Is(err, errNotThere):
		t.Status = http.StatusNotFound
	case errors.Is(err, errMoved), errors.Is(err, parley.ErrGroupBusy):
		t.Status = http.StatusConflict
	case errors.Is(err, context.DeadlineExceeded):
		t.Status, t.Hint = http.StatusServiceUnavailable, "The database did not answer in time. The page tries again; a narrower filter reads less."
	case errors.Is(err, errors.ErrUnsupported):
		t.Status, t.Text, t.Hint = http.StatusNotImplemented, "This store does not have these.", ""
	case errors.Is(err, parley.ErrNotMigrated):
		t.Status, t.Hint = http.StatusServiceUnavailable, "Run parley migrate."
	case errors.Is(err, parley.ErrConnection), errors.Is(err, parley.ErrClosed):
		t.Status, t.Hint = http.StatusServiceUnavailable, "The database cannot be reached. The page tries again."
	case errors.Is(err, parley.ErrDenied):
		t.Hint = "The program's role may not read this; docs/security.md has the rights of an operator."
	}
	return t
}

// errNotThere is the error of what a page is about and is not, or no more.
var errNotThere = errors.New("it does not exist, or exists no longer")

// inputError is the error of a parameter.
type inputError struct{ error }

func badInput(format string, args ...any) error { return &inputError{fmt.Errorf(format, args...)} }

// static answers with a file of the console's. The link has the file's digest, so browsers may keep it.
func (h *Handler) static(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	f, ok := statics[name]
	if !ok {
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", f.kind)
	if r.URL.Query().Get("v") == f.digest {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	_, _ = w.Write(f.text)
}

type file struct {
	text         []byte
	kind, digest string
}

var statics = readStatics()

func readStatics() map[string]file {
	kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	entries, err := files.ReadDir("static")
	if err != nil {
		panic(err)
	}
	all := make(map[string]file)
	for _, e := range entries {
		text, err := files.ReadFile("static/" + e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(text)
		all[e.Name()] = file{text, kinds[path.Ext(e.Name())], hex.EncodeToString(sum[:6])}
	}
	return all
}

// parsePages parses the template of each view together with what all pages share.
func parsePages(writes bool) (map[string]*template.Template, error) {
	base, err := template.New("").Funcs(functions).Funcs(template.FuncMap{"writes": func() bool { return writes }}).ParseFS(files, "templates/page.html", "templates/parts.html")
	if err != nil {
		return nil, err
	}
	names := []string{"enter", "act", "problem"}
	for _, v := range views {
		names = append(names, v.template())
	}
	pages := make(map[string]*template.Template)
	for _, name := range names {
		own, err := base.Clone()
		if err == nil {
			pages[name], err = own.ParseFS(files, "templates/"+name+".html")
		}
		if err != nil {
			return nil, err
		}
	}
	return pages, nil
}

// engineName says which database this is.
func (h *Handler) engineName(ctx context.Context) string {
	if name := h.engine.Load(); name != nil {
		return *name
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Limit)
	defer cancel()
	info, err := h.b.Info(ctx)
	if err != nil {
		return "" // the next page asks again
	}
	version, _, _ := strings.Cut(strings.TrimSpace(info.Version), " ")
	name := strings.TrimSpace(info.Engine + " " + version)
	h.engine.Store(&name)
	return name
}
