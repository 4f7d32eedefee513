package conformance

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parleymq/parley/backend"
)

// asked is a store that has questions of its own.
type asked struct{ backend.Backend }

func (asked) Probe(_ context.Context, note func(question, answer string)) error {
	note("which way", "by db.example.com")
	return errors.New("no more answers from 10.0.0.7:1433")
}

// reported runs Command with -report and returns what is in the file.
func reported(t *testing.T, s Store, args ...string) (code int, text string, r Report) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "out.json")
	code, _, stderr := commandOn(t, s, append(args, "-report", file)...)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	return code, string(data), r
}

// TestReport: one file has all that is known of a store, and nothing that is not to be known.
func TestReport(t *testing.T) {
	withChecks(t,
		passing("D01", "good"),
		check{ID: "D02", Name: "bad", Run: func(e *env) {
			e.Logf("asked DB.example.com")
			e.Fatalf("dial tcp 10.1.2.3:5432, [fe80::1]:5432: s3cret, db.example.com; the version is 16.0.1000.6")
		}},
		check{ID: "D03", Name: "not here", Run: func(e *env) { e.Skipf("there is none on db.example.com") }},
	)
	s := memoryStore("")
	open := s.Open
	s.Open = func(ctx context.Context) (backend.Backend, error) {
		be, err := open(ctx)
		return asked{be}, err
	}
	s.Secrets = []string{"s3cret", "db.example.com"}
	s.Measure = func(context.Context) (any, error) { return map[string]int{"a": 7}, errors.New("s3cret is slow") }
	code, text, r := reported(t, s)
	if code != 1 || r.Error != "" || r.Format != 1 || r.Passed != 1 || r.Failed != 1 || r.Skipped != 1 {
		t.Errorf("code %d and %+v", code, r)
	}
	if r.Engine != "memory" || r.Version == "" || r.Go == "" || r.System == "" || r.CPUs == 0 || r.Program == "" || r.At.IsZero() {
		t.Errorf("of the store and the program is known: %+v", r)
	}
	want := []Checked{
		{ID: "D01", Check: "good", Result: "passed"},
		{ID: "D02", Check: "bad", Result: "failed",
			Text: "dial tcp <address>, <address>: <removed>, <removed>; the version is 16.0.1000.6", Log: []string{"asked <removed>"}},
		{ID: "D03", Check: "not here", Result: "skipped", Text: "there is none on <removed>"},
	}
	for i, c := range r.Checks {
		_, c.Text, _ = strings.Cut("\n"+c.Text, "\n")
		if _, rest, ok := strings.Cut(c.Text, ".go:"); ok {
			_, c.Text, _ = strings.Cut(rest, ": ")
		}
		w := want[i]
		if c.ID != w.ID || c.Check != w.Check || c.Result != w.Result || c.Text != w.Text || strings.Join(c.Log, " ") != strings.Join(w.Log, " ") ||
			c.Sentence != sentence(w.ID) || c.Seconds <= 0 {
			t.Errorf("check %d is %+v, want %+v", i, c, w)
		}
	}
	if len(r.Probes) != 1 || r.Probes[0] != (Probe{"which way", "by <removed>"}) {
		t.Errorf("the probes are %+v", r.Probes)
	}
	if figures, ok := r.Figures.(map[string]any); !ok || figures["a"] != 7.0 {
		t.Errorf("the figures are %+v", r.Figures)
	}
	if got := strings.Join(r.Problems, "\n"); got != "probes: no more answers from <address>\nfigures: <removed> is slow" {
		t.Errorf("the problems are %s", got)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"s3cret", "example.com", "10.1.2.3", "fe80", host} {
		if wholeWord(secret).MatchString(text) {
			t.Errorf("%q is in the report:\n%s", secret, text)
		}
	}
	if n := len(lockVerbs) * (len(lockVerbs) + 1); len(r.Locks) != n {
		t.Errorf("%d lock probes, want %d", len(r.Locks), n)
	}
	for _, x := range r.Locks {
		if x.First == "nothing" && !strings.HasPrefix(x.Result, "passes") {
			t.Errorf("%s, alone: %s", x.Then, x.Result)
		}
		if x.First == x.Then && x.First == "send on a conversation" && x.Result != "waits" {
			t.Errorf("two senders of one conversation: %s", x.Result)
		}
	}
}

// TestReportAsJUnit: a file that is named .xml has the checks as CI servers read them.
func TestReportAsJUnit(t *testing.T) {
	withChecks(t,
		passing("D01", "good"),
		check{ID: "D02", Name: "bad <&>", Run: func(e *env) {
			e.Logf("asked")
			e.Fatalf("s3cret \x00 is not ]]> %q", "wanted")
		}},
		check{ID: "D03", Name: "not here", Run: func(e *env) { e.Skipf("there is none") }},
	)
	s := memoryStore("")
	s.Secrets = []string{"s3cret"}
	file := filepath.Join(t.TempDir(), "out.xml")
	code, _, stderr := commandOn(t, s, "-report", file)
	data, err := os.ReadFile(file)
	if err != nil || code != 1 {
		t.Fatalf("code %d, %v\n%s", code, err, stderr)
	}
	var got junitSuite
	if err := xml.Unmarshal(data, &got); err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	if got.Tests != 3 || got.Failures != 1 || got.Skipped != 1 || got.Errors != 0 || len(got.Cases) != 3 {
		t.Fatalf("%d tests, %d failures, %d skipped, %d errors in\n%s", got.Tests, got.Failures, got.Skipped, got.Errors, data)
	}
	for _, want := range []string{"engine", "version", "parley", "go"} {
		if !slices.ContainsFunc(got.Properties, func(p junitProperty) bool { return p.Name == want && p.Value != "" }) {
			t.Errorf("there is no property %s in %+v", want, got.Properties)
		}
	}
	for i, id := range []string{"D01", "D02", "D03"} {
		c := got.Cases[i]
		if c.Class != "parley."+id || len(c.Properties) != 1 || c.Properties[0] != (junitProperty{"sentence", sentence(id)}) {
			t.Errorf("case %d is %+v", i, c)
		}
	}
	if c := got.Cases[1]; c.Name != "bad <&>" || c.Failure == nil || !strings.Contains(c.Failure.Message, sentence("D02")) ||
		!strings.Contains(c.Failure.Text, `is not ]]> "wanted"`) || !strings.Contains(c.Log, "asked") {
		t.Errorf("the case that failed is %+v", c)
	}
	if c := got.Cases[2]; c.Failure != nil || c.Skipped == nil || c.Skipped.Message != "there is none" {
		t.Errorf("the case that was skipped is %+v", c)
	}
	if strings.Contains(string(data), "s3cret") {
		t.Errorf("a secret is in\n%s", data)
	}
}

// TestReportAsJUnitOfStoreThatFails: a store that cannot be opened is an error of the report.
func TestReportAsJUnitOfStoreThatFails(t *testing.T) {
	withChecks(t, passing("D01", "good"))
	s := Store{Open: func(context.Context) (backend.Backend, error) { return nil, errors.New("no such host") }}
	file := filepath.Join(t.TempDir(), "out.xml")
	if code, _, _ := commandOn(t, s, "-report", file); code != 1 {
		t.Errorf("code %d for a store that cannot be opened", code)
	}
	data, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(data), `<error message="conformance: open: no such host">`) {
		t.Errorf("the report of a store that cannot be opened: %v\n%s", err, data)
	}
}

// TestReportOfStoreThatFails: where nothing can be checked the report says why.
func TestReportOfStoreThatFails(t *testing.T) {
	withChecks(t, passing("D01", "good"))
	s := Store{Secrets: []string{"db.example.com"}, Open: func(context.Context) (backend.Backend, error) {
		return nil, errors.New("lookup db.example.com on 10.0.0.2:53: no such host")
	}}
	code, _, r := reported(t, s)
	if code != 1 || r.Error != "conformance: open: lookup <removed> on <address>: no such host" {
		t.Errorf("code %d, error %q", code, r.Error)
	}
	// A file that cannot be written is found before anything is done.
	opened := false
	s.Open = func(context.Context) (backend.Backend, error) { opened = true; return nil, errors.New("opened") }
	if code, _, _ := commandOn(t, s, "-report", filepath.Join(t.TempDir(), "no", "such", "folder")); code != 2 || opened {
		t.Errorf("a file that cannot be written: code %d, opened %v", code, opened)
	}
}

// TestFailure: a failure says what the check was at, which sentence is broken, on which store, and what was
// called before.
func TestFailure(t *testing.T) {
	withChecks(t, check{ID: "D02", Name: "bad", Run: func(e *env) {
		w := e.World()
		e.Doing("a dialog is begun")
		w.Dialog("hello")
		e.Errorf("it is not good")
		w.Dialog("too late")
		e.Errorf("nor is this")
	}})
	code, out, _ := commandOn(t, memoryStore(""))
	if code != 1 {
		t.Errorf("the exit code is %d", code)
	}
	for _, part := range []string{
		"a dialog is begun:\n       report_test.go:", ": it is not good\n", ": nor is this\n", "broken: D02 " + sentence("D02"),
		"store: memory go", "calls that led to it:\n", `Send "hello" from `, ": Commit\n",
	} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is not in\n%s", part, out)
		}
	}
	if strings.Contains(out, "too late") {
		t.Errorf("what came after the first failure is in\n%s", out)
	}
}
