package conformance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/slow"
)

// env is what a check works with. Its failing methods end the check when they
// are called from its own goroutine; from others, use Errorf.
type env struct {
	// Ctx ends when the check has run for too long.
	Ctx context.Context

	r     *runner
	check check

	mu       sync.Mutex
	failures []string
	history  []string // the calls before the first failure
	skipped  string
	log      []string
	undo     []func()
	prefix   string
	shares   bool                        // the broker of the runner
	expired  bool                        // something has not come in time
	explain  func(failure string) string // of the script that runs
	doing    string                      // what the check is at
}

// Errorf records a failure and goes on.
func (e *env) Errorf(format string, args ...any) {
	_, file, line, _ := runtime.Caller(1)
	e.fail(at(file, line) + fmt.Sprintf(format, args...))
}

// Fatalf records a failure and ends the check.
func (e *env) Fatalf(format string, args ...any) {
	_, file, line, _ := runtime.Caller(1)
	e.fail(at(file, line) + fmt.Sprintf(format, args...))
	runtime.Goexit()
}

// Must ends the check if err is not nil.
func (e *env) Must(err error) {
	if err != nil {
		_, file, line, _ := runtime.Caller(1)
		e.fail(at(file, line) + err.Error())
		runtime.Goexit()
	}
}

// Is ends the check unless errors.Is(err, want).
func (e *env) Is(err, want error) {
	if !errors.Is(err, want) {
		_, file, line, _ := runtime.Caller(1)
		e.fail(at(file, line) + fmt.Sprintf("the error is %v, want %q", err, want))
		runtime.Goexit()
	}
}

// Doing says, until the next call, what the check is at. Failures begin with it.
func (e *env) Doing(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.doing = fmt.Sprintf(format, args...)
}

// same fails the check if a value of something is another than it should be.
func (e *env) same(of, name string, got, want any) {
	if got == want {
		return
	}
	_, file, line, _ := runtime.Caller(1)
	e.fail(at(file, line) + fmt.Sprintf("%s: %s is %#v, want %#v", of, name, got, want))
}

// Logf notes something that is printed with the result.
func (e *env) Logf(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.log = append(e.log, fmt.Sprintf(format, args...))
}

// Skipf ends the check: it does not apply to this store.
func (e *env) Skipf(format string, args ...any) {
	e.mu.Lock()
	e.skipped = fmt.Sprintf(format, args...)
	e.mu.Unlock()
	runtime.Goexit()
}

func at(file string, line int) string {
	return fmt.Sprintf("%s:%d: ", file[strings.LastIndexByte(file, '/')+1:], line)
}

func (e *env) fail(s string) {
	if e.explain != nil {
		s = e.explain(s)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.doing != "" {
		s = e.doing + ":\n  " + s
	}
	if e.Ctx.Err() != nil && strings.Contains(s, context.DeadlineExceeded.Error()) {
		if len(e.failures) > 0 {
			return // it only follows from what was wrong before
		}
		s += " (the time of the whole check was over: look for what waits)"
		e.expired = true
	}
	if e.expired && len(e.failures) == 0 {
		s = slow.Expired + s
	}
	if len(e.failures) == 0 {
		e.history = e.r.trace.history()
	}
	if len(e.failures) < 20 {
		e.failures = append(e.failures, s)
	}
}

// Cleanup has f called at the end of the check, last first.
func (e *env) Cleanup(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.undo = append(e.undo, f)
}

func (e *env) cleanup() {
	for {
		e.mu.Lock()
		n := len(e.undo)
		if n == 0 {
			e.mu.Unlock()
			return
		}
		f := e.undo[n-1]
		e.undo = e.undo[:n-1]
		e.mu.Unlock()
		f()
	}
}

// Name returns a name that nothing else in the store has: the same for the same
// argument within a check.
func (e *env) Name(s string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.prefix == "" {
		e.prefix = e.check.ID + "-" + parley.NewID().String()[9:] + "-"
	}
	return e.prefix + s
}

// Handle opens another handle on the store, closed at the end of the check.
func (e *env) Handle() backend.Backend {
	e.undisturbed()
	be, err := e.r.store.Open(e.Ctx)
	if err != nil {
		e.fail("open another handle: " + err.Error())
		runtime.Goexit()
	}
	e.Cleanup(func() { be.Close() })
	return be
}

// Limited opens another handle on the store, on a pool of the given size. The
// caller closes it.
func (e *env) Limited(conns int) backend.Backend {
	switch {
	case e.r.main.Capabilities().Pool == nil:
		e.Skipf("the store has no pool of connections")
	case e.r.store.Limit == nil:
		e.Fatalf("Store.Limit is not set, and the backend has a pool of connections")
	}
	e.undisturbed()
	be, err := e.r.store.Limit(e.Ctx, conns)
	if err != nil {
		e.Fatalf("open a handle on a pool of %d: %v", conns, err)
	}
	return be
}

// undisturbed closes the broker that checks share, unless this check uses it. Its maintenance jobs
// would briefly lock rows that a check of the backend alone reads.
func (e *env) undisturbed() {
	if !e.shares {
		e.r.forget()
	}
}

// Broker opens a Broker on a separate handle, closed at the end of the check:
// what another process would have.
func (e *env) Broker(o *parley.Options) *parley.Broker {
	e.undisturbed()
	be, err := e.r.store.Open(e.Ctx)
	if err != nil {
		e.fail("open another handle: " + err.Error())
		runtime.Goexit()
	}
	b, err := newBroker(e.Ctx, be, o)
	if err != nil {
		be.Close()
		e.fail("new broker: " + err.Error())
		runtime.Goexit()
	}
	e.Cleanup(func() { b.Close() })
	return b
}

// newBroker is parley.New without the log of what checks break on purpose.
func newBroker(ctx context.Context, be backend.Backend, o *parley.Options) (*parley.Broker, error) {
	var quiet parley.Options
	if o != nil {
		quiet = *o
	}
	if quiet.Logger == nil {
		quiet.Logger = slog.New(slog.DiscardHandler)
	}
	return parley.New(ctx, be, &quiet)
}

// HoldsInTransaction reports whether the store's deliveries can be held by an
// open transaction.
func (e *env) HoldsInTransaction() bool {
	return e.r.main.Capabilities().HoldsInTransaction
}

// ManyWriters reports whether transactions that write can be open side by side.
func (e *env) ManyWriters() bool { return !e.r.main.Capabilities().SingleWriter }

// Holds lists the ways of holding that the store has; checks of holding are run
// for each.
func (e *env) Holds() []parley.Hold {
	if e.HoldsInTransaction() {
		return []parley.Hold{parley.HoldTransaction, parley.HoldLease}
	}
	return []parley.Hold{parley.HoldLease}
}

// Soon repeats f until it returns true, for at most d, which is longer on a slow machine: for
// what becomes true without telling. It reports whether it did.
func (e *env) Soon(d time.Duration, f func() bool) bool {
	is := false
	slow.Poll(slow.By(d), func() (any, bool) {
		is = f()
		return nil, is || e.Ctx.Err() != nil
	})
	if !is {
		e.late()
	}
	return is
}

// late notes that something has not come in time. If the check fails now, it is a matter of time
// alone.
func (e *env) late() {
	e.mu.Lock()
	e.expired = true
	e.mu.Unlock()
}

// Within fails the check if something took longer than the bound, which is longer on a slow
// machine. The text says what took %v.
func (e *env) Within(bound, took time.Duration, text string) {
	if took <= slow.By(bound) {
		return
	}
	e.late()
	_, file, line, _ := runtime.Caller(1)
	e.fail(at(file, line) + fmt.Sprintf(text, took))
}
