package slow

import (
	"strings"
	"testing"
	"time"
)

func TestPoll(t *testing.T) {
	n := 0
	state, is, took := Poll(time.Minute, func() (any, bool) { n++; return n, n == 3 })
	if state != 3 || !is || took > 30*time.Second {
		t.Errorf("%v, %t after %v", state, is, took)
	}
	// However slow the look is, there are some.
	n = 0
	_, is, _ = Poll(time.Nanosecond, func() (any, bool) { n++; return nil, false })
	if is || n < 10 {
		t.Errorf("%t after %d looks", is, n)
	}
}

// TestEventually: a test whose wait times out ends, and says what it saw at last.
func TestEventually(t *testing.T) {
	if text := said(t, func(tb testing.TB) {
		Eventually(tb, time.Millisecond, "news", func() (any, bool) { return func() any { return "old" }, false })
	}); !strings.HasPrefix(text, Expired+"news: not after ") || !strings.HasSuffix(text, "the state was old") {
		t.Errorf("%q", text)
	}
	if text := said(t, func(tb testing.TB) {
		tb.Fail() // something was wrong before: it is no matter of time
		Eventually(tb, time.Millisecond, "news", func() (any, bool) { return nil, false })
	}); !strings.HasPrefix(text, "news: not after ") {
		t.Errorf("%q", text)
	}
	if text := said(t, func(tb testing.TB) {
		Eventually(tb, time.Minute, "news", func() (any, bool) { return nil, true })
	}); text != "" {
		t.Errorf("%q", text)
	}
}

// recorder is a test that fails by a panic.
type recorder struct {
	testing.TB
	failed bool
	text   string
}

func (r *recorder) Helper()      {}
func (r *recorder) Fail()        { r.failed = true }
func (r *recorder) Failed() bool { return r.failed }
func (r *recorder) Fatal(args ...any) {
	r.text = args[0].(string)
	panic(r)
}

// said is what a test says when it ends.
func said(t *testing.T, test func(testing.TB)) (text string) {
	r := &recorder{TB: t}
	defer func() {
		if p := recover(); p != nil && p != any(r) {
			panic(p)
		}
		text = r.text
	}()
	test(r)
	return r.text
}

func TestClamp(t *testing.T) {
	for f, want := range map[float64]float64{0: 1, 1: 1, 2.5: 2.5, 99: 10} {
		if got := Clamp(f); got != want {
			t.Errorf("%v is %v, want %v", f, got, want)
		}
	}
	if f := Measure(); f < 1 || f > 10 {
		t.Errorf("this machine's factor is %v", f)
	}
}
