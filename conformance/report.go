package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/parleymq/parley/backend"
)

// Report is what Command writes with -report. It has all that is to be known of a store
// on a server that the maintainers of its backend do not have. It contains no bodies
// but the suite's own, and no host names or passwords (Store.Secrets).
type Report struct {
	Format  int       `json:"format"` // of this structure: 1
	At      time.Time `json:"at"`
	Program string    `json:"program"` // the version of Parley, and the revision if it is known
	Go      string    `json:"go"`
	System  string    `json:"system"` // of the client
	CPUs    int       `json:"cpus"`

	// Error says why nothing could be checked.
	Error    string            `json:"error,omitempty"`
	Engine   string            `json:"engine"`
	Version  string            `json:"version"`
	Settings map[string]string `json:"settings"`
	Warnings []string          `json:"warnings"`

	Passed  int       `json:"passed"`
	Failed  int       `json:"failed"`
	Skipped int       `json:"skipped"`
	Checks  []Checked `json:"checks"`

	Locks  []LockProbe `json:"locks"`
	Probes []Probe     `json:"probes"` // of the engine's own: see Prober
	// Figures are what Store.Measure has measured.
	Figures any `json:"figures"`
	// Problems are errors of the parts after the checks.
	Problems []string `json:"problems"`

	path    string
	secrets []*regexp.Regexp
}

// Checked is a check in a Report.
type Checked struct {
	ID       string   `json:"id"`
	Check    string   `json:"check"`
	Sentence string   `json:"sentence"`
	Result   string   `json:"result"` // passed, failed or skipped
	Seconds  float64  `json:"seconds"`
	Text     string   `json:"text,omitempty"` // why it failed, or was skipped
	Log      []string `json:"log,omitempty"`
	History  []string `json:"history,omitempty"` // of a failed check: see Result
}

// Probe is an answer of an engine to a question of its backend's.
type Probe struct {
	Question string `json:"question"`
	Answer   string `json:"answer"`
}

// Prober is implemented by a backend that has questions which only a server can answer.
// The store is migrated, and nothing else works on it.
type Prober interface {
	// Probe notes the answers. What it makes it removes.
	Probe(ctx context.Context, note func(question, answer string)) error
}

// newReport makes a report that is kept in a file. It is an error if the file cannot be
// written, before anything else is done.
func newReport(path string, secrets []string) (*Report, error) {
	p := &Report{
		Format: 1, At: time.Now().UTC().Truncate(time.Second), Program: program(), Go: runtime.Version(),
		System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), path: path,
		Settings: map[string]string{}, Warnings: []string{}, Checks: []Checked{}, Locks: []LockProbe{}, Probes: []Probe{}, Problems: []string{},
	}
	if host, err := os.Hostname(); err == nil { // workers tell theirs
		secrets = append(secrets, host)
	}
	for _, s := range secrets {
		if s != "" {
			p.secrets = append(p.secrets, wholeWord(s))
		}
	}
	return p, p.save()
}

// wholeWord finds a text where it is no part of a longer word.
func wholeWord(s string) *regexp.Regexp {
	edge := func(c byte) string {
		if regexp.MustCompile(`\w`).MatchString(string(c)) {
			return `\b`
		}
		return ""
	}
	return regexp.MustCompile(`(?i)` + edge(s[0]) + regexp.QuoteMeta(s) + edge(s[len(s)-1]))
}

// program is the version of Parley that was built into the program.
func program() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	const module = "github.com/parleymq/parley"
	version := ""
	if info.Main.Path == module {
		version = info.Main.Version
	}
	for _, d := range info.Deps {
		if d.Path == module {
			version = d.Version
		}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" || s.Key == "vcs.modified" && s.Value == "true" {
			version += " " + strings.TrimSuffix(s.Value, "true")
			if s.Key == "vcs.modified" {
				version += "modified"
			}
		}
	}
	return cmp.Or(strings.TrimSpace(version), "unknown")
}

var address = regexp.MustCompile(`\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b|\[[0-9a-fA-F:]*:[0-9a-fA-F:]*(%\w+)?\](:\d+)?`)

// clean takes secrets out of a text.
func (p *Report) clean(s string) string {
	for _, secret := range p.secrets {
		s = secret.ReplaceAllLiteralString(s, "<removed>")
	}
	return s
}

// cleanError is clean for a text that may name addresses.
func (p *Report) cleanError(s string) string {
	return p.clean(address.ReplaceAllLiteralString(s, "<address>"))
}

// failed notes that nothing can be checked, with what the store says anyway.
func (p *Report) failed(ctx context.Context, s Store, err error) error {
	p.Error = p.cleanError(err.Error())
	if s.Open != nil {
		if be, err := s.Open(ctx); err == nil {
			p.describe(ctx, be)
			be.Close()
		}
	}
	return p.save()
}

// save writes the file, after each part, so that it is there whatever happens.
func (p *Report) save() error {
	var data []byte
	var err error
	if strings.HasSuffix(p.path, ".xml") {
		data, err = p.junit()
	} else {
		data, err = json.MarshalIndent(p, "", "\t")
	}
	if err != nil {
		return err
	}
	return os.WriteFile(p.path, append(data, '\n'), 0o644)
}

// describe notes what is checked.
func (p *Report) describe(ctx context.Context, be backend.Backend) {
	info, err := be.Info(ctx)
	if err != nil {
		p.problem("info", err)
	}
	p.Engine, p.Version = info.Engine, p.clean(info.Version)
	for k, v := range info.Settings {
		p.Settings[k] = p.clean(v)
	}
	for _, w := range info.Warnings {
		p.Warnings = append(p.Warnings, p.clean(fmt.Sprintf("%s %s: %s", w.Code, w.Object, w.Text)))
	}
}

func (p *Report) problem(what string, err error) {
	if err != nil {
		p.Problems = append(p.Problems, p.cleanError(what+": "+err.Error()))
	}
}

// add notes a check.
func (p *Report) add(res Result) error {
	c := Checked{ID: res.ID, Check: res.Name, Sentence: sentence(res.ID), Seconds: res.Took.Seconds()}
	switch {
	case res.Failed != "":
		p.Failed++
		c.Result, c.Text = "failed", p.cleanError(res.Failed)
	case res.Skipped != "":
		p.Skipped++
		c.Result, c.Text = "skipped", p.cleanError(res.Skipped)
	default:
		p.Passed++
		c.Result = "passed"
	}
	for _, line := range res.Log {
		c.Log = append(c.Log, p.cleanError(line))
	}
	for _, call := range res.History {
		c.History = append(c.History, p.cleanError(call))
	}
	p.Checks = append(p.Checks, c)
	return p.save()
}

// rest does what comes after the checks: the probes and the figures.
func (p *Report) rest(ctx context.Context, r *runner) error {
	res := r.run(ctx, check{ID: "probe", Name: "locks", Limit: 10 * time.Minute, Run: func(e *env) {
		p.Locks = lockProbes(e)
	}})
	for i := range p.Locks {
		p.Locks[i].Result = p.cleanError(p.Locks[i].Result)
	}
	if res.Failed != "" {
		p.problem("locks", fmt.Errorf("%s", res.Failed))
	}
	if err := p.save(); err != nil {
		return err
	}
	main := r.main
	if t, ok := main.(noted); ok {
		main = t.Backend
	}
	if prober, ok := main.(Prober); ok {
		r.forget()
		limited, cancel := context.WithTimeout(ctx, 5*time.Minute)
		p.problem("probes", prober.Probe(limited, func(question, answer string) {
			p.Probes = append(p.Probes, Probe{question, p.cleanError(answer)})
		}))
		cancel()
	}
	if err := p.save(); err != nil || r.store.Measure == nil {
		return err
	}
	figures, err := r.store.Measure(ctx)
	p.Figures = figures
	p.problem("figures", err)
	return p.save()
}
