package parleytest_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// fakeT is a test that the kit may fail.
type fakeT struct {
	testing.TB // nil: what is not below is not called

	mu       sync.Mutex
	failures []string
	logs     []string
	cleanups []func()
	over     bool
	late     int // lines of the log after the end
}

func (t *fakeT) Helper()                  {}
func (t *fakeT) Context() context.Context { return context.Background() }

func (t *fakeT) Log(args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.logs = append(t.logs, fmt.Sprint(args...))
	if t.over {
		t.late++
	}
}

func (t *fakeT) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures = append(t.failures, fmt.Sprintf(format, args...))
}

func (t *fakeT) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

func (t *fakeT) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

func (t *fakeT) TempDir() string {
	dir, err := os.MkdirTemp("", "parleytest")
	if err != nil {
		panic(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// end ends the test.
func (t *fakeT) end() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
}

// run runs a test and returns how it has failed.
func run(f func(t *fakeT)) (t *fakeT, failures string) {
	t = new(fakeT)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer t.end()
		f(t)
	}()
	<-done
	return t, strings.Join(t.failures, "\n")
}

// newT is the *testing.T of an example. What fails it is printed.
func newT() (t *fakeT, end func()) {
	t = new(fakeT)
	return t, func() {
		t.end()
		for _, f := range t.failures {
			fmt.Println(f)
		}
	}
}
