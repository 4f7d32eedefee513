// Package slow has the bounds of tests that wait for something.
//
// A bound is half of the time in which the event would happen otherwise. A wake-up that competes
// with a poll of 30 seconds may take 15, and a call that would wait for ever may take 30. It is
// never a measure of speed. On a machine that is much slower than the one on which a bound was
// chosen, or much busier, a factor makes it longer.
package slow

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Variable is the environment variable with the factor, from 1 to 10. Without it the factor is 1.
const Variable = "PARLEY_TEST_SLOW"

// Factor is by how much bounds are longer than they are written.
var Factor = sync.OnceValue(func() float64 {
	f, err := strconv.ParseFloat(os.Getenv(Variable), 64)
	if err != nil {
		return 1
	}
	return Clamp(f)
})

// Clamp returns the nearest factor that there is.
func Clamp(f float64) float64 { return min(max(f, 1), 10) }

// By multiplies a time by the factor. Use it for a bound against "for ever", or for a bound
// together with its alternative, such as a poll or a lease. A bound alone that competes with a time
// that stays as it is would prove nothing.
func By(d time.Duration) time.Duration { return time.Duration(float64(d) * Factor()) }

// Expired begins the line of a test that has timed out. A runner may repeat such a test when
// the machine is idle; no other failure of a test depends on time.
const Expired = "expired: "

// Eventually waits until f reports true, for d at most, which is longer on a slow machine. If it does
// not, the test ends with the last state that f reported: a value, or a func() any that makes one.
func Eventually(t testing.TB, d time.Duration, what string, f func() (state any, is bool)) {
	t.Helper()
	if state, is, took := Poll(By(d), f); !is {
		t.Fatal(Failure(t.Failed(), what, took, state))
	}
}

// Poll calls f until it reports true, for d at most, and at least ten times.
func Poll(d time.Duration, f func() (state any, is bool)) (state any, is bool, took time.Duration) {
	begun := time.Now()
	for looks := 1; ; looks++ {
		state, is = f()
		took = time.Since(begun)
		if is || took > d && looks >= 10 {
			return state, is, took
		}
		time.Sleep(min(5*time.Millisecond, d/100))
	}
}

// Failure is the text for something that has not come. It is a matter of time alone if nothing
// else is wrong.
func Failure(wrong bool, what string, took time.Duration, state any) string {
	prefix := Expired
	if wrong {
		prefix = ""
	}
	text := fmt.Sprintf("%s%s: not after %v (factor %.1f)", prefix, what, took.Round(time.Millisecond), Factor())
	if f, ok := state.(func() any); ok {
		state = f()
	}
	if state != nil {
		text += fmt.Sprintf("; the state was %v", state)
	}
	return strings.TrimSpace(text)
}

// usual is how long the work of Measure takes on a machine with the factor 1.
const usual = 250 * time.Millisecond

// Measure finds out the factor of this machine as it is now, by computing on all its processors.
func Measure() float64 {
	begun := time.Now()
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(compute)
	}
	all.Wait()
	return Clamp(float64(time.Since(begun)) / float64(usual))
}

// sink keeps the compiler from leaving the work out.
var sink sync.Map

func compute() {
	x := uint64(88172645463325252)
	for range work {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	sink.Store(0, x)
}

const work = 100_000_000
