package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
)

// withChecks has the suite consist of these checks for the test.
func withChecks(t *testing.T, c ...check) {
	t.Helper()
	old := checks
	checks = c
	t.Cleanup(func() { checks = old })
}

// TestMain has probes wait less: in memory nothing takes long that does not wait.
func TestMain(m *testing.M) {
	leastPatience = 50 * time.Millisecond
	m.Run()
}

func passing(id, name string) check { return check{ID: id, Name: name, Run: func(*env) {}} }

// command runs Command on the store in memory.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return commandOn(t, memoryStore(""), args...)
}

func commandOn(t *testing.T, s Store, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Command(t.Context(), "mydb", s, args, &out, &errs)
	return code, out.String(), errs.String()
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

func TestCommandReports(t *testing.T) {
	withChecks(t,
		passing("D01", "good"),
		check{ID: "D02", Name: "bad", Run: func(e *env) {
			e.Errorf("one thing")
			e.Fatalf("another thing")
		}},
		check{ID: "D03", Name: "not for this store", Run: func(e *env) { e.Skipf("it has no such thing") }},
		check{ID: "D04", Name: "broken check", Run: func(e *env) { panic("oh dear") }},
	)
	code, out, _ := command(t)
	if code != 1 {
		t.Errorf("with failed checks the exit code is %d, want 1", code)
	}
	for _, want := range []string{
		"memory go", "ok   D01/good (", "FAIL D02/bad (", "one thing", "another thing", "broken: D02 " + sentence("D02"),
		"skip D03/not for this store (", "it has no such thing", "FAIL D04/broken check (", "panic: oh dear",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if got := lastLine(out); got != "1 passed, 2 failed, 1 skipped" {
		t.Errorf("the closing line is %q", got)
	}

	code, out, _ = command(t, "-run", "^D0[13]/")
	if code != 0 || lastLine(out) != "1 passed, 0 failed, 1 skipped" {
		t.Errorf("without failed checks: code %d, closing line %q", code, lastLine(out))
	}
	if strings.Contains(out, "broken") || strings.Contains(out, "D02") {
		t.Errorf("-run did not leave out what does not match:\n%s", out)
	}
	for _, run := range []string{"^D03/", "no such check"} { // nothing was proven
		code, out, _ = command(t, "-run", run)
		if code != 1 || !strings.HasPrefix(lastLine(out), "0 passed, 0 failed, ") {
			t.Errorf("with nothing passed: code %d, closing line %q", code, lastLine(out))
		}
	}
}

func TestCommandJSON(t *testing.T) {
	withChecks(t,
		passing("D01", "good"),
		check{ID: "D02", Name: "bad", Run: func(e *env) {
			e.Logf("a note of %d", 1)
			e.Fatalf("a thing")
		}},
		check{ID: "D03", Name: "skipped", Run: func(e *env) { e.Skipf("a reason") }},
	)
	code, out, _ := command(t, "-json")
	if code != 1 {
		t.Errorf("the exit code is %d, want 1", code)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines, want one for each of three checks and the counts:\n%s", len(lines), out)
	}
	var res [3]Result
	for i := range res {
		d := json.NewDecoder(strings.NewReader(lines[i]))
		d.DisallowUnknownFields()
		if err := d.Decode(&res[i]); err != nil {
			t.Fatalf("%q: %v", lines[i], err)
		}
	}
	if r := res[0]; r.ID != "D01" || r.Name != "good" || r.Failed != "" || r.Broken != "" {
		t.Errorf("a passed check is %+v", r)
	}
	if r := res[1]; !strings.Contains(r.Failed, "a thing") || r.Broken != sentence("D02") || len(r.Log) != 1 || r.Log[0] != "a note of 1" {
		t.Errorf("a failed check is %+v", r)
	}
	if r := res[2]; r.Skipped != "a reason" {
		t.Errorf("a skipped check is %+v", r)
	}
	var counts map[string]int
	if err := json.Unmarshal([]byte(lines[3]), &counts); err != nil || counts["passed"] != 1 || counts["failed"] != 1 || counts["skipped"] != 1 || len(counts) != 3 {
		t.Errorf("the closing line is %q, %v", lines[3], err)
	}
}

func TestCommandList(t *testing.T) {
	opened := false
	s := Store{Open: func(context.Context) (backend.Backend, error) {
		opened = true
		return nil, errors.New("not now")
	}}
	code, out, _ := commandOn(t, s, "-list")
	if code != 0 || opened {
		t.Errorf("-list: code %d, opened the store: %t", code, opened)
	}
	for _, s := range Sentences {
		if !strings.Contains(out, "\n"+s.ID) && !strings.HasPrefix(out, s.ID) || !strings.Contains(out, s.Text) {
			t.Errorf("-list does not show %s", s.ID)
		}
	}
	for _, c := range allChecks() {
		if !strings.Contains(out, "       "+c.Name+"\n") {
			t.Errorf("-list does not show the check %q", c.Name)
		}
	}
	_, out, _ = commandOn(t, s, "-list", "-run", "^T0[12]/")
	if n := len(regexp.MustCompile(`(?m)^\w`).FindAllString(out, -1)); n != 2 {
		t.Errorf("-list -run for two sentences shows %d:\n%s", n, out)
	}
}

func TestCommandRefuses(t *testing.T) {
	for _, args := range [][]string{{"-no-such-flag"}, {"-run", "("}, {"-run"}, {"a word that is no flag"}} {
		code, out, errs := command(t, args...)
		if code != 2 || out != "" || errs == "" {
			t.Errorf("%q: code %d, output %q, errors %q, want code 2 and an error alone", args, code, out, errs)
		}
	}
	closed := errors.New("the store is closed today")
	for name, s := range map[string]Store{
		"no store":     {},
		"closed store": {Open: func(context.Context) (backend.Backend, error) { return nil, closed }},
	} {
		code, _, errs := commandOn(t, s)
		if code != 1 || !strings.HasPrefix(errs, "mydb: ") {
			t.Errorf("%s: code %d, errors %q, want code 1 and an error", name, code, errs)
		}
	}
}

// A check that hangs is stopped, and what it holds is released.
func TestRunnerStops(t *testing.T) {
	r, err := newRunner(t.Context(), memoryStore(""))
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	cleaned := false
	res := r.run(t.Context(), check{ID: "D01", Name: "waits for ever", Limit: 50 * time.Millisecond, Run: func(e *env) {
		e.Cleanup(func() { cleaned = true })
		<-e.Ctx.Done()
		e.Must(e.Ctx.Err())
	}})
	if !strings.Contains(res.Failed, context.DeadlineExceeded.Error()) || !cleaned || res.Broken != sentence("D01") {
		t.Errorf("a check that waits for ever: %+v, cleaned up: %t", res, cleaned)
	}
}
