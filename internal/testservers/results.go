package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleymq/parley/internal/slow"
)

// testKey names a test; without a test, a package.
type testKey struct{ pkg, test string }

// testEvent is a line of go test -json.
type testEvent struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// results collects what calls of go test say, of all chains.
type results struct {
	say  func(line string) // to people
	stop func()            // what is still under way, since there is a failure

	mu       sync.Mutex
	running  map[testKey]*testState
	broken   map[testKey]bool // failed tests, and packages with one
	builds   map[string][]string
	slowest  []timed
	failures []failure
	late     []failure // of tests that have only timed out
	flaky    []failure // late ones that passed at the second try
	passed   int
}

// testState is a test, or a package, that has begun.
type testState struct {
	step  step
	since time.Time
	said  []string
	waits bool // for other tests, before it begins
	ended int  // of a package: its tests that have ended
}

// timed is a test and how long it took.
type timed struct {
	key     testKey
	seconds float64
}

// failure is a test that failed, or a step.
type failure struct {
	step step
	key  testKey
	text []string // what it has said
}

func newResults(say func(string), stop func()) *results {
	return &results{say: say, stop: stop, running: make(map[testKey]*testState), broken: make(map[testKey]bool),
		builds: make(map[string][]string)}
}

// fail notes a failure, which ends everything else.
func (r *results) fail(f failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, f)
	r.say(fmt.Sprintf("FAILED  %s %s", f.key.pkg, f.key.test))
	r.stop()
}

// read reads all that a call of go test says, and reports whether a test failed.
func (r *results) read(s step, said io.Reader, log io.Writer) (failed bool) {
	lines(said, func(line []byte) {
		var e testEvent
		if json.Unmarshal(line, &e) != nil {
			log.Write(line)
			return
		}
		io.WriteString(log, e.Output)
		if f := r.take(s, e); f != nil {
			r.fail(*f)
		}
		failed = failed || e.Action == "fail"
	})
	return failed
}

// mostSaid is how many lines of a test are kept.
const mostSaid = 400

// take records an event, and returns a failure if the event ends the run.
func (r *results) take(s step, e testEvent) *failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := testKey{e.Package, e.Test}
	t := r.running[key]
	if t == nil && e.Package != "" {
		t = &testState{step: s, since: time.Now()}
		r.running[key] = t
	}
	switch e.Action {
	case "pause", "cont":
		t.since, t.waits = time.Now(), e.Action == "pause"
	case "build-output":
		r.builds[e.ImportPath] = append(r.builds[e.ImportPath], e.Output)
	case "output":
		if t.said = append(t.said, strings.TrimRight(e.Output, "\n")); len(t.said) > mostSaid {
			t.said = t.said[1:]
		}
	case "pass", "skip", "fail":
		delete(r.running, key)
		if e.Test == "" {
			return r.packageEnded(s, e, t)
		}
		if p := r.running[testKey{e.Package, ""}]; p != nil {
			p.ended++
		}
		r.timed(timed{key, e.Elapsed})
		if e.Action == "pass" {
			r.passed++
		}
		if e.Action == "fail" {
			return r.testFailed(s, key, t)
		}
	}
	return nil
}

// testFailed takes note of a failed test. One of whose tests has failed says nothing new.
func (r *results) testFailed(s step, key testKey, t *testState) *failure {
	first := !r.broken[key]
	r.broken[key], r.broken[testKey{key.pkg, ""}] = true, true
	for above := path.Dir(key.test); above != "."; above = path.Dir(above) {
		r.broken[testKey{key.pkg, above}] = true
	}
	if !first {
		return nil
	}
	f := failure{step: s, key: key, text: t.said}
	if !f.late() {
		return &f
	}
	r.late = append(r.late, f)
	r.say(fmt.Sprintf("late    %s %s: it is tried again at the end", key.pkg, key.test))
	return nil
}

// packageEnded takes note of the end of a package's tests, which can fail without a test that does.
func (r *results) packageEnded(s step, e testEvent, t *testState) *failure {
	key := testKey{e.Package, ""}
	if e.Action == "fail" && !r.broken[key] {
		f := failure{step: s, key: key, text: t.said}
		for _, output := range r.builds {
			f.text = append(f.text, output...)
		}
		for k, running := range r.running {
			if k.pkg == e.Package { // it was at work when the program ended
				f.key = k
				f.text = append(f.text, running.said...)
			}
		}
		return &f
	}
	delete(r.broken, key)
	r.say(fmt.Sprintf("%-6s  %6.1f s  %s", map[string]string{"pass": "ok", "fail": "failed", "skip": "none"}[e.Action], e.Elapsed, short(e.Package)))
	return nil
}

// expiredLine matches the line of a test that has timed out.
var expiredLine = regexp.MustCompile(`^\s*(\S+\.go:\d+: )+` + regexp.QuoteMeta(slow.Expired))

// late reports whether a test has only timed out.
func (f failure) late() bool {
	wrong := slices.ContainsFunc(f.text, func(line string) bool {
		return strings.Contains(line, "DATA RACE") || strings.HasPrefix(line, "panic: ")
	})
	return !wrong && slices.ContainsFunc(f.text, expiredLine.MatchString)
}

// timed keeps the slowest tests.
func (r *results) timed(t timed) {
	r.slowest = append(r.slowest, t)
	slices.SortFunc(r.slowest, func(a, b timed) int { return int(1000 * (b.seconds - a.seconds)) })
	if len(r.slowest) > 100 {
		r.slowest = r.slowest[:50]
	}
}

// underWay says what is, package by package.
func (r *results) underWay() (list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, p := range r.running {
		if key.test != "" {
			continue
		}
		oldest := ""
		var since time.Duration
		for k, t := range r.running { // the deepest of the oldest
			if d := time.Since(t.since); k.pkg == key.pkg && k.test != "" && !t.waits && (d > since+time.Second || strings.HasPrefix(k.test, oldest+"/")) {
				oldest, since = k.test, d
			}
		}
		list = append(list, fmt.Sprintf("%s for %.0f s, %d tests have ended, %s for %.0f s",
			short(key.pkg), time.Since(p.since).Seconds(), p.ended, oldest, since.Seconds()))
	}
	slices.Sort(list)
	return list
}

// short leaves the module out of a package's path.
func short(pkg string) string {
	const module = "github.com/parleymq/parley/"
	return strings.TrimPrefix(pkg, module)
}

// The report of a failure fits on a screen.
const (
	mostLines = 40
	mostSlow  = 15
)

// report says how the run went, and returns whether it passed.
func (r *runner) report(ctx interface{ Err() error }) bool {
	took := time.Since(r.begun).Round(time.Second)
	if len(r.results.failures) == 0 && ctx.Err() == nil {
		fmt.Fprintf(r.out, "testservers: %s passed in %v: %d tests\n", r.part.name, took, r.results.passed)
		r.printSlowest(r.out, mostSlow)
		r.reportFlaky()
		return true
	}
	var page strings.Builder
	fmt.Fprintf(&page, "testservers: %s FAILED after %v: seed %d, factor %.1f, load %s\n", r.part.name, took, r.seed, r.factor, load())
	room := mostLines - 4 - mostSlow
	if len(r.results.failures) == 0 {
		fmt.Fprintf(&page, "no test failed: it was cut short (%v)\n", ctx.Err())
		for _, line := range r.results.underWay() {
			fmt.Fprintln(&page, "  under way:", line)
		}
	}
	for i, f := range r.results.failures {
		if i == 3 {
			fmt.Fprintf(&page, "… and %d more\n", len(r.results.failures)-i)
			break
		}
		r.printFailure(&page, f, room/min(len(r.results.failures), 3))
	}
	r.printSlowest(&page, mostSlow)
	fmt.Fprint(r.out, page.String())
	return false
}

// frame matches lines that tell of the course of a test and not of what it found.
var frame = regexp.MustCompile(`^\s*(=== (RUN|PAUSE|CONT|NAME)|--- (PASS|SKIP))`)

func (r *runner) printFailure(w io.Writer, f failure, room int) {
	fmt.Fprintf(w, "FAILED: %s %s\n", short(f.key.pkg), f.key.test)
	text := slices.DeleteFunc(slices.Clone(f.text), func(line string) bool { return strings.TrimSpace(line) == "" || frame.MatchString(line) })
	// What a test says of itself has its place in the source; logs of what it tests do not.
	if own := slices.IndexFunc(text, saying.MatchString); own >= 0 {
		text = text[own:]
	}
	for i, line := range text {
		if i == max(room, 4)-1 && len(text) > i+1 {
			fmt.Fprintf(w, "    … %d more lines in %s\n", len(text)-i, filepath.Join(r.logs, f.step.name+".log"))
			break
		}
		fmt.Fprintln(w, clip(line, 300))
	}
	for _, s := range r.servers {
		if s.missing == nil && strings.Contains(f.key.pkg+" "+f.key.test, s.spec.name) {
			fmt.Fprintf(w, "    on %s %s\n", s.spec.name, s.version)
		}
	}
	if f.key.test == "" {
		return
	}
	race := ""
	if f.step.race {
		race = " -race"
	}
	into := ""
	if f.step.folder != "" {
		into = "cd " + f.step.folder + " && "
	}
	fmt.Fprintf(w, "    again: %sSEED=%d %s=%.1f .cache/testservers exec -- go test%s -count=1 -run '%s' %s\n",
		into, r.seed, slow.Variable, r.factor, race, f.pattern(), f.key.pkg)
}

func clip(line string, most int) string {
	if len(line) > most {
		return line[:most] + "…"
	}
	return line
}

func (r *runner) printSlowest(w io.Writer, most int) {
	r.results.mu.Lock()
	defer r.results.mu.Unlock()
	fmt.Fprintln(w, "the slowest tests, in seconds:")
	n := 0
	for _, t := range r.results.slowest {
		if n == most || slices.ContainsFunc(r.results.slowest, func(o timed) bool { // it stands there with its parts
			return o.key.pkg == t.key.pkg && strings.HasPrefix(o.key.test, t.key.test+"/") && o.seconds > t.seconds/2
		}) {
			continue
		}
		n++
		fmt.Fprintf(w, "  %6.1f  %s %s\n", t.seconds, short(t.key.pkg), clip(t.key.test, 100))
	}
}

// reportFlaky lists what passed at the second try only, last of all and in a file.
func (r *runner) reportFlaky() {
	if len(r.results.flaky) == 0 {
		return
	}
	log, err := os.OpenFile(filepath.Join(r.logs, "flaky.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err == nil {
		defer log.Close()
	}
	commit, _ := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	for _, f := range r.results.flaky {
		line := fmt.Sprintf("FLAKY %s %s", short(f.key.pkg), f.key.test)
		if i := slices.IndexFunc(f.text, expiredLine.MatchString); i >= 0 {
			line += ": " + strings.TrimSpace(f.text[i])
		}
		fmt.Fprintln(r.out, clip(line, 300))
		if log != nil {
			fmt.Fprintf(log, "%s %s %s\n", time.Now().Format(time.RFC3339), strings.TrimSpace(string(commit)), line)
		}
	}
}
