//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// fakeEngine is an engine whose server is a file in the instance's folder.
type fakeEngine struct {
	world *world
	find  error
	start error
}

func (e *fakeEngine) Find() error        { return e.find }
func (e *fakeEngine) Packages() []string { return []string{"fake"} }

func (e *fakeEngine) Start(ctx context.Context, in *instance) (string, error) {
	e.world.mu.Lock()
	e.world.starts++
	e.world.mu.Unlock()
	if e.start != nil {
		return "", e.start
	}
	return "fake://local/" + in.spec.name + "?behind=" + in.upstream, in.write("alive", "yes")
}

func (e *fakeEngine) Running(in *instance) bool { return in.read("alive") != "" }

func (e *fakeEngine) Stop(ctx context.Context, in *instance) error {
	e.world.mu.Lock()
	e.world.stopped = append(e.world.stopped, in.spec.name)
	e.world.mu.Unlock()
	return os.Remove(in.file("alive"))
}

func (e *fakeEngine) Version(context.Context, string) (string, error) { return "1", nil }

// world is a table of a built-in engine, a server and one in front of it.
type world struct {
	env     environment
	vars    map[string]string
	log     *strings.Builder
	server  *fakeEngine
	front   *fakeEngine
	mu      sync.Mutex // the race detector does not know that file locks order these
	starts  int
	stopped []string // names in the order in which they stopped
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{vars: map[string]string{"PARLEY_TEST_CACHE": openTempDir(t)}, log: new(strings.Builder)}
	w.server, w.front = &fakeEngine{world: w}, &fakeEngine{world: w}
	w.env = environment{get: func(name string) string { return w.vars[name] }, log: w.log}
	table := specs
	t.Cleanup(func() { specs = table })
	specs = []spec{
		{name: "inside", module: "example.com/inside"},
		{name: "server", variable: "TEST_SERVER", engine: w.server},
		{name: "front", variable: "TEST_FRONT", needs: "server", engine: w.front},
	}
	return w
}

// openTempDir is t.TempDir, open to the user that servers run as.
func openTempDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (w *world) resolve(t *testing.T, names ...string) foundList {
	t.Helper()
	list, err := resolve(t.Context(), w.env, names)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := list.leave(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return list
}

func TestResolveStartsServersInOrder(t *testing.T) {
	w := newWorld(t)
	list, err := resolve(t.Context(), w.env, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"TEST_SERVER=fake://local/server?behind=", "TEST_FRONT=fake://local/front?behind=fake://local/server?behind="}
	if got := list.variables(); !slices.Equal(got, want) {
		t.Errorf("variables are %q, want %q", got, want)
	}
	if err := list.leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"front", "server"}; !slices.Equal(w.stopped, want) {
		t.Errorf("stopped %q, want %q", w.stopped, want)
	}
}

func TestVariableComesFirst(t *testing.T) {
	w := newWorld(t)
	w.vars["TEST_SERVER"] = "fake://elsewhere/db"
	w.server.find = errors.New("must not be looked for")
	list := w.resolve(t)
	want := []string{"TEST_SERVER=fake://elsewhere/db", "TEST_FRONT=fake://local/front?behind=fake://elsewhere/db"}
	if got := list.variables(); !slices.Equal(got, want) {
		t.Errorf("variables are %q, want %q", got, want)
	}
	// Another server behind it means another instance in front.
	if name := list[2].instance.name(); !strings.HasPrefix(name, "front@") {
		t.Errorf("the instance before a server from elsewhere is called %q", name)
	}
}

func TestOnlyNamedServersAndTheirNeeds(t *testing.T) {
	for _, tc := range []struct {
		names []string
		front string
		want  []string
	}{
		{nil, "", []string{"inside", "server", "front"}},
		{[]string{"inside"}, "", []string{"inside"}},
		{[]string{"front"}, "", []string{"server", "front"}},
		{[]string{"front"}, "fake://elsewhere/db", []string{"front"}},
		{[]string{"server", "inside"}, "", []string{"inside", "server"}},
	} {
		w := newWorld(t)
		w.vars["TEST_FRONT"] = tc.front
		var got []string
		for _, f := range w.resolve(t, tc.names...) {
			got = append(got, f.spec.name)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("names %q with TEST_FRONT=%q give %q, want %q", tc.names, tc.front, got, tc.want)
		}
	}
}

func TestMissingServer(t *testing.T) {
	w := newWorld(t)
	w.server.find = errors.New("no such program")
	list := w.resolve(t)
	if got := list.variables(); got != nil {
		t.Errorf("variables are %q, want none", got)
	}
	for _, text := range []string{"server is missing: no such program", "front is missing: it stands in front of server", "skipped"} {
		if !strings.Contains(w.log.String(), text) {
			t.Errorf("the log does not say %q:\n%s", text, w.log)
		}
	}
	for require, ok := range map[string]bool{"": true, "inside": true, "server": false, "inside,front": false, " inside , inside": true} {
		if err := list.checkRequired(require); (err == nil) != ok {
			t.Errorf("require %q: %v", require, err)
		}
	}
	if err := w.resolve(t, "inside").checkRequired("front"); err == nil {
		t.Error("a required server may not be left out")
	}
}

func TestUnknownNameIsRefused(t *testing.T) {
	w := newWorld(t)
	if _, err := resolve(t.Context(), w.env, []string{"sevrer"}); err == nil {
		t.Error("no error for an unknown name")
	}
	w.vars["PARLEY_TEST_REQUIRE"] = "inside,sevrer"
	if _, err := resolve(t.Context(), w.env, nil); err == nil || w.starts > 0 {
		t.Errorf("unknown name in PARLEY_TEST_REQUIRE: error %v, %d servers started", err, w.starts)
	}
}

func TestMissingProgramsAreInstalled(t *testing.T) {
	w := newWorld(t)
	w.server.find = errors.New("no such program")
	w.env.install = func(_ context.Context, _ io.Writer, packages []string) error {
		if !slices.Equal(packages, []string{"fake"}) {
			t.Errorf("installs %q", packages)
		}
		w.server.find = nil
		return nil
	}
	w.vars["PARLEY_TEST_INSTALL"] = "0"
	if list := w.resolve(t, "server"); list[0].missing == nil {
		t.Error("installed in spite of PARLEY_TEST_INSTALL=0")
	}
	w.vars["PARLEY_TEST_INSTALL"] = ""
	if list := w.resolve(t, "server"); list[0].missing != nil {
		t.Errorf("missing after the installation: %v", list[0].missing)
	}
}

// A server that is there but does not start is a failure: passing it over
// would turn a broken set-up into skipped tests.
func TestFailedStartIsAnError(t *testing.T) {
	w := newWorld(t)
	w.front.start = errors.New("broken")
	list, err := resolve(t.Context(), w.env, nil)
	if !errors.Is(err, w.front.start) {
		t.Errorf("error is %v", err)
	}
	if err := list.leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"server"}; !slices.Equal(w.stopped, want) {
		t.Errorf("stopped %q, want %q", w.stopped, want)
	}
}

func TestShownHidesPasswords(t *testing.T) {
	for address, want := range map[string]string{
		"postgres://u:hush@db.example:5432/x?sslmode=disable": "db.example:5432/x",
		"postgres://db.example/?user=u&password=hush":         "db.example",
		"host=db.example password=hush":                       "an address of your own",
	} {
		if got := shown(address); got != want {
			t.Errorf("shown(%q) = %q, want %q", address, got, want)
		}
	}
}
