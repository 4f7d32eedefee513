// Package conformance checks that a backend keeps Parley's guarantees.
//
// In a test of the backend's own:
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, conformance.Store{Open: func(ctx context.Context) (backend.Backend, error) {
//			return mydb.Open(ctx, dsn)
//		}})
//	}
//
// As a program, for a backend that the parley command does not know: see [Main].
//
// Every check bears the number of the sentence in docs/semantics.md that it
// proves, and prints it when it fails. Checks use separate names, so that a
// store with other things in it does no harm. Those on one store run one after another;
// what they share is the store. Nothing about any engine is known here: a backend is
// asked for the capabilities that it states, and for no others.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/slow"
)

// Store is what is checked.
type Store struct {
	// Open returns a new handle on the store, as another process would have. All
	// handles are on the same store. The suite migrates it and closes every
	// handle.
	Open func(ctx context.Context) (backend.Backend, error)

	// Process, if set, lets checks start and kill further processes of this program. Such a process
	// must call Run or Main with a Store on the same database. It finds the value of Process in the
	// environment variable PARLEY_CONFORMANCE_STORE, which tells it which database that is. Empty
	// means that such checks are skipped.
	Process string

	// Disposable says that nothing in the store is worth keeping. The store is uninstalled and
	// migrated again before each group of checks, so each group is as fast as the first.
	Disposable bool

	// Beside are stores like this one, each in a separate database. Run divides the
	// checks among all of them, which work at the same time: most checks wait more than
	// they work.
	Beside []Store

	// Fresh, if set, returns a handle on a store of its own that is not
	// migrated, for the checks of Migrate. The suite uninstalls it.
	Fresh func(ctx context.Context) (backend.Backend, error)

	// Limit returns a new handle on the store, as Open does, on a pool of so many
	// connections. The checks of how connections are waited for need it, unless the
	// backend has no Capabilities.Pool.
	Limit func(ctx context.Context, conns int) (backend.Backend, error)

	// Lose are ways in which the database ends a transaction, or loses it with its connection, without the
	// store's doing. LoseBySQL makes them of a statement. None: the checks of that are skipped.
	Lose []func(ctx context.Context, tx backend.Tx)

	// Versions, if set, returns a separate migrated store whose schema can be given
	// any version. It is for the checks of programs and schemas that do not belong
	// together. The suite uninstalls it.
	Versions func(ctx context.Context) (*Versioned, error)

	// Measure, if set, measures the store for a report; what it returns becomes JSON.
	Measure func(ctx context.Context) (any, error)

	// Secrets are texts that a report must not contain, as the names of hosts and
	// passwords. Addresses are removed from errors anyway.
	Secrets []string
}

// Versioned is a store whose schema's version can be set.
type Versioned struct {
	// Open returns a new handle on it.
	Open func(ctx context.Context) (backend.Backend, error)
	// Set gives the schema a version, and says which programs may work with it. Like
	// the migration of a newer program it counts the catalog's version up.
	Set func(ctx context.Context, schema, minProgram int) error
	// Close, if set, is called at the end.
	Close func() error
}

// SQLVersions makes Store.Versions for a backend whose transactions run SQL. The
// backend keeps versions in a table meta, with its Info.Settings "schema" and "prefix"
// before the name. Each call of site returns how to open handles on another store.
func SQLVersions(site func() func(context.Context) (backend.Backend, error)) func(context.Context) (*Versioned, error) {
	return func(ctx context.Context) (*Versioned, error) {
		open := site()
		// Its first use is while the version is right, and it is not asked again.
		be, err := open(ctx)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(be.Migrate(ctx), be.Close()); err != nil {
			return nil, err
		}
		setter, err := open(ctx)
		if err != nil {
			return nil, err
		}
		tx, err := setter.Begin(ctx)
		if err == nil {
			err = tx.Rollback(ctx)
		}
		return &Versioned{Open: open, Set: func(ctx context.Context, schema, minProgram int) error {
			return setVersion(ctx, setter, schema, minProgram)
		}, Close: setter.Close}, err
	}
}

func setVersion(ctx context.Context, be backend.Backend, schema, minProgram int) error {
	info, err := be.Info(ctx)
	if err != nil {
		return err
	}
	table := info.Settings["prefix"] + "meta"
	if name := info.Settings["schema"]; name != "" {
		table = name + "." + table
	}
	tx, err := be.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if _, err := tx.SQL().ExecContext(ctx, fmt.Sprintf(`
		UPDATE %s SET schema_version = %d, min_program = %d, catalog_version = catalog_version + 1 WHERE id = 1`,
		table, schema, minProgram)); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// StoreEnv is the environment variable that carries Store.Process.
const StoreEnv = "PARLEY_CONFORMANCE_STORE"

// check proves one sentence.
type check struct {
	ID   string // of the sentence
	Name string // unique, says what is checked
	Run  func(e *env)
	// Limit is how long the check may run. Default one minute. A check that needs more is left out
	// by -short.
	Limit time.Duration

	file string // in which it stands
}

var checks []check

// add is called by the init functions of the files with the checks.
func add(more ...check) {
	_, file, _, _ := runtime.Caller(1)
	for _, c := range more {
		c.file = filepath.Base(file)
		checks = append(checks, c)
	}
}

// allChecks returns all checks in the order of their sentences.
func allChecks() []check {
	var out []check
	for _, s := range Sentences {
		for _, c := range checks {
			if c.ID == s.ID {
				out = append(out, c)
			}
		}
	}
	return out
}

// Run runs all checks as subtests.
func Run(t *testing.T, s Store) {
	t.Helper()
	RunMatching(t, s, nil)
}

// RunMatching runs the checks whose "ID/Name" matches; nil means all.
func RunMatching(t *testing.T, s Store, match *regexp.Regexp) {
	t.Helper()
	if childMain(s) {
		t.Skip("this was a child process of the suite")
	}
	groups := groupsOf(match)
	var stores sync.WaitGroup
	for _, s := range append([]Store{s}, s.Beside...) {
		stores.Go(func() { runGroups(t, s, groups) })
	}
	stores.Wait()
}

// groupsOf returns the checks that match, those of one sentence together, so that stores which
// divide them are done at about the same time.
func groupsOf(match *regexp.Regexp) <-chan []check {
	var groups [][]check
	for _, c := range allChecks() {
		if match != nil && !match.MatchString(c.ID+"/"+c.Name) {
			continue
		}
		if n := len(groups); n > 0 && groups[n-1][0].ID == c.ID {
			groups[n-1] = append(groups[n-1], c)
		} else {
			groups = append(groups, []check{c})
		}
	}
	out := make(chan []check, len(groups))
	for _, g := range groups {
		out <- g
	}
	close(out)
	return out
}

// runGroups runs checks on a store until there are no more.
func runGroups(t *testing.T, s Store, groups <-chan []check) {
	t.Helper()
	r, err := newRunner(t.Context(), s, "-test.run=^"+t.Name()+"$")
	if err != nil {
		t.Error(err)
		return
	}
	defer r.close()
	for group := range groups {
		for _, c := range group {
			t.Run(c.ID+"/"+c.Name, func(t *testing.T) {
				if c.Limit > 0 && testing.Short() {
					t.Skip("-short: it takes long")
				}
				res := r.run(t.Context(), c)
				for _, l := range res.Log {
					t.Log(l)
				}
				switch {
				case res.Skipped != "":
					t.Skip(res.Skipped)
				case res.Failed != "":
					t.Error(res.explained("\n    "))
				}
			})
		}
	}
}

// Result is what became of a check.
type Result struct {
	ID      string        `json:"id"`
	Name    string        `json:"check"`
	Broken  string        `json:"broken,omitempty"` // the sentence, if it failed
	Failed  string        `json:"failed,omitempty"`
	Skipped string        `json:"skipped,omitempty"`
	Log     []string      `json:"log,omitempty"`
	Took    time.Duration `json:"took_ns"`
	// Of a check that failed: the store's engine and version, and the latest calls of its backend that wrote
	// or claimed, by the check itself or by brokers and workers. "tx 3 of handle 2" is a transaction.
	Store   string   `json:"store,omitempty"`
	History []string `json:"history,omitempty"`
}

// explained is all that is to be said of a failed check.
func (r Result) explained(newline string) string {
	lines := append(strings.Split(r.Failed, "\n"), "broken: "+r.ID+" "+r.Broken, "store: "+r.Store, "calls that led to it:")
	for _, call := range r.History {
		lines = append(lines, "  "+call)
	}
	return strings.Join(lines, newline)
}

// runner owns what checks share.
type runner struct {
	store Store
	args  []string // to run this program again as a child
	main  backend.Backend
	group byte // the letter of the checks at work
	trace trace
	about string // the store's engine and version

	// The broker that checks share, as opening one for each takes longer than
	// most of them. A new one after a check that failed.
	mu     sync.Mutex
	shared *parley.Broker
}

func newRunner(ctx context.Context, s Store, childArgs ...string) (*runner, error) {
	if s.Open == nil {
		return nil, errors.New("conformance: Store.Open is nil")
	}
	r := &runner{store: s, args: childArgs}
	r.store.Open = func(ctx context.Context) (backend.Backend, error) {
		be, err := s.Open(ctx)
		if err != nil {
			return nil, err
		}
		return r.trace.handle(be), nil
	}
	if s.Limit != nil {
		r.store.Limit = func(ctx context.Context, conns int) (backend.Backend, error) {
			be, err := s.Limit(ctx, conns)
			if err != nil {
				return nil, err
			}
			return r.trace.handle(be), nil
		}
	}
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	info, _ := r.main.Info(ctx) // a check asks for it, too
	r.about = strings.TrimSpace(info.Engine + " " + info.Version)
	return r, nil
}

// open opens the store and migrates it.
func (r *runner) open(ctx context.Context) (err error) {
	if r.main, err = r.store.Open(ctx); err != nil {
		return fmt.Errorf("conformance: open: %w", err)
	}
	if err = r.main.Migrate(ctx); err != nil {
		r.main.Close()
		err = fmt.Errorf("conformance: migrate: %w", err)
	}
	return err
}

// renew empties the store before the first check of a group.
func (r *runner) renew(ctx context.Context, c check) error {
	first := r.group == 0
	if !r.store.Disposable || r.group == c.ID[0] {
		return nil
	}
	r.group = c.ID[0]
	if first {
		return nil
	}
	r.forget()
	if err := r.main.Uninstall(ctx); err != nil {
		return fmt.Errorf("conformance: uninstall: %w", err)
	}
	r.main.Close()
	return r.open(ctx)
}

func (r *runner) close() {
	r.forget()
	if r.main != nil {
		r.main.Close()
	}
}

// broker returns the broker that checks share.
func (r *runner) broker(ctx context.Context) (*parley.Broker, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shared == nil {
		be, err := r.store.Open(ctx)
		if err != nil {
			return nil, fmt.Errorf("open another handle: %w", err)
		}
		if r.shared, err = newBroker(ctx, be, nil); err != nil {
			be.Close()
			return nil, fmt.Errorf("new broker: %w", err)
		}
	}
	return r.shared, nil
}

// forget closes the shared broker.
func (r *runner) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shared != nil {
		r.shared.Close()
		r.shared = nil
	}
}

// run runs one check in a separate goroutine, under a watchdog.
func (r *runner) run(ctx context.Context, c check) Result {
	limit := c.Limit
	if limit == 0 {
		limit = time.Minute
	}
	if err := r.renew(ctx, c); err != nil {
		return Result{ID: c.ID, Name: c.Name, Failed: err.Error(), Broken: sentence(c.ID)}
	}
	limit = slow.By(limit)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	e := &env{Ctx: ctx, r: r, check: c}
	r.trace.begin()
	start := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer e.cleanup()
		defer func() {
			if p := recover(); p != nil {
				e.fail(fmt.Sprintf("panic: %v\n%s", p, debug.Stack()))
			}
		}()
		if p := partOf(c); p != nil {
			e.Needs(p)
		}
		c.Run(e)
	}()
	select {
	case <-done:
	case <-time.After(limit + 30*time.Second): // it had the end of its context to stop
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		fmt.Fprintf(os.Stderr, "conformance: %s/%s hangs\n%s\n", c.ID, c.Name, stacks)
		e.fail(fmt.Sprintf("hangs: not done %v after its start; the goroutines are on stderr", limit+30*time.Second))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	res := Result{ID: c.ID, Name: c.Name, Failed: strings.Join(e.failures, "\n"), Skipped: e.skipped, Log: e.log, Took: time.Since(start)}
	if res.Failed != "" {
		r.forget()
		res.Broken, res.Skipped, res.Store = sentence(c.ID), "", r.about
		res.History = e.history
	}
	return res
}
