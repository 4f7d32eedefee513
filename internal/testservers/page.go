package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// rowResult is what a row of the matrix has shown. docs/conformance has a file for each row that has
// run, from which docs/conformance.md is made.
type rowResult struct {
	Row      string            `json:"row"`
	Date     string            `json:"date"`
	Server   string            `json:"server"`
	Settings map[string]string `json:"settings"`
	Tests    counts            `json:"tests"` // of the backend, the checks of all suites among them
	Suites   []*suite          `json:"suites"`
}

// suite is a run of the conformance suite by one driver.
type suite struct {
	Test     string              `json:"test"`
	Driver   string              `json:"driver"`
	Checks   counts              `json:"checks"`
	Sections map[string]counts   `json:"sections"` // of docs/semantics.md
	Skipped  map[string][]string `json:"skipped"`  // the checks by the reason
	Failed   []string            `json:"failed"`
}

// MarshalText implements [encoding.TextMarshaler].
func (c counts) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (c *counts) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "%d passed, %d failed, %d skipped", &c.passed, &c.failed, &c.skipped)
	return err
}

// add counts one more result.
func (c *counts) add(action string) {
	switch action {
	case "pass":
		c.passed++
	case "fail":
		c.failed++
	default:
		c.skipped++
	}
}

// drivers are the modules of the drivers by the test, or by the package if the test has none of its own.
var drivers = map[string]string{
	"backend/sqlite":                "modernc.org/sqlite",
	"backend/postgres":              "github.com/lib/pq",
	"backend/mysql":                 "github.com/go-sql-driver/mysql",
	"pgxstore":                      "github.com/jackc/pgx/v5",
	"TestConformancePGX":            "github.com/jackc/pgx/v5",
	"TestConformanceNativeLocksPGX": "github.com/jackc/pgx/v5",
}

// driverOf names the driver of a suite, with its version.
func driverOf(pkg, test string) string {
	module := drivers[test]
	for name, m := range drivers {
		if module == "" && strings.HasSuffix(pkg, "/"+name) {
			module = m
		}
	}
	return spec{module: module}.builtin()
}

// checkName is the name of a subtest that is a check. It consists of the suite's test, the server's
// kind if there are several, the sentence and the check.
var checkName = regexp.MustCompile(`^(TestConformance\w*)/(?:[a-z]+/)?([A-Z](?:[A-Z]|\d+))/(.+)$`)

// suites are the runs of the conformance suite among tests. sections has the title by the sentence.
func (r testResults) suites(sections map[string]string) []*suite {
	byTest := make(map[string]*suite)
	byName := func(a, b testKey) int { return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.test, b.test)) }
	for _, key := range slices.SortedFunc(maps.Keys(r.ended), byName) {
		m := checkName.FindStringSubmatch(key.test)
		if m == nil || r.parents[key] {
			continue
		}
		s := byTest[key.pkg+m[1]]
		if s == nil {
			s = &suite{Test: m[1], Driver: driverOf(key.pkg, m[1]), Sections: map[string]counts{},
				Skipped: map[string][]string{}, Failed: []string{}}
			byTest[key.pkg+m[1]] = s
		}
		action, check := r.ended[key], m[2]+" "+strings.ReplaceAll(m[3], "_", " ")
		in := s.Sections[sections[m[2]]]
		in.add(action)
		s.Sections[sections[m[2]]] = in
		s.Checks.add(action)
		switch action {
		case "fail":
			s.Failed = append(s.Failed, check)
		case "skip":
			s.Skipped[r.said[key]] = append(s.Skipped[r.said[key]], check)
		}
	}
	list := slices.Collect(maps.Values(byTest))
	slices.SortFunc(list, func(a, b *suite) int {
		return cmp.Or(cmp.Compare(b.Checks.passed, a.Checks.passed), cmp.Compare(a.Test, b.Test))
	})
	return list
}

// telling are the settings that change what a store keeps, or how.
var telling = []string{
	"fsync", "synchronous_commit", "innodb_flush_log_at_trx_commit", "sync_binlog", "synchronous", "journal_mode",
	"default_transaction_isolation", "transaction_isolation", "tx_isolation", "innodb_snapshot_isolation", "pooler",
}

// described asks a store for its first line about itself, and for its telling settings.
func described(ctx context.Context, address string) (version string, settings map[string]string, err error) {
	if address == "" {
		folder, err := os.MkdirTemp("", "")
		if err != nil {
			return "", nil, err
		}
		defer os.RemoveAll(folder)
		address = "sqlite:" + filepath.Join(folder, "a.db")
	}
	// No check matches, which is an error after what is wanted here has been printed.
	ask := []string{"run", "./cmd/parley", "conformance", "--db", address, "--run", "^$"}
	out, err := exec.CommandContext(ctx, "go", ask...).Output()
	if len(out) == 0 {
		return "", nil, errors.Join(errors.New("the store says nothing of itself"), err)
	}
	settings = make(map[string]string)
	for line := range strings.Lines(string(out)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " = "); ok && slices.Contains(telling, name) {
			settings[name] = value
		}
	}
	version, _, _ = strings.Cut(string(out), "\n")
	return version, settings, nil
}

// keep writes the file of a row that has run, and the page again.
func keep(ctx context.Context, docs string, f found, tests testResults) error {
	sections, _, err := readSections(docs)
	if err != nil {
		return err
	}
	r := rowResult{Row: f.spec.name, Date: time.Now().Format(time.DateOnly), Server: f.version, Tests: tests.counts(),
		Suites: tests.suites(sections)}
	if len(r.Suites) == 0 {
		return errors.New("no check of the conformance suite has run")
	}
	first, _, _ := strings.Cut(f.address, ",")
	version, settings, err := described(ctx, first)
	if err != nil {
		return err
	}
	if r.Settings = settings; f.spec.engine == nil {
		r.Server = version
	}
	var data bytes.Buffer
	enc := json.NewEncoder(&data)
	enc.SetIndent("", "\t")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(docs, "conformance", r.Row+".json"), data.Bytes(), 0o644); err != nil {
		return err
	}
	page, err := conformancePage(docs)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(docs, "conformance.md"), []byte(page), 0o644)
}

// printChanges names each server whose version differs from that of the last matrix run.
func (l foundList) printChanges(w io.Writer, docs string) {
	for _, f := range l {
		data, err := os.ReadFile(filepath.Join(docs, "conformance", f.spec.name+".json"))
		var r rowResult
		if err != nil || json.Unmarshal(data, &r) != nil || f.missing != nil || f.spec.engine == nil {
			continue
		}
		if r.Server != f.version {
			fmt.Fprintf(w, "  %s is %s; the matrix ran on %s on %s\n", f.spec.name, f.version, r.Server, r.Date)
		}
	}
}

// readSections reads the titles of docs/semantics.md, by the sentence and in their order.
func readSections(docs string) (bySentence map[string]string, titles []string, err error) {
	text, err := os.ReadFile(filepath.Join(docs, "semantics.md"))
	bySentence = make(map[string]string)
	for line := range strings.Lines(string(text)) {
		if title, ok := strings.CutPrefix(strings.TrimSpace(line), "## "); ok {
			titles = append(titles, title)
		}
		if id, _, ok := strings.Cut(strings.TrimPrefix(line, "- **"), "** "); ok && len(titles) > 0 {
			bySentence[id] = titles[len(titles)-1]
		}
	}
	return bySentence, titles, err
}

const pageIntro = `# Conformance

This page shows what the conformance suite found, by server, version and driver. ` + "`make matrix`" + `
makes the page from the files in [conformance](conformance), and writes one file for each row that it runs. A row that
never ran is not here. The date is that of a row's last run. [semantics.md](semantics.md) has the sentences, in the same
sections.

The servers are throwaway ones, and do not wait for the disk. [reliability.md](reliability.md) says what was tested
with servers that do.
`

// conformancePage is docs/conformance.md.
func conformancePage(docs string) (string, error) {
	_, titles, err := readSections(docs)
	if err != nil {
		return "", err
	}
	var rows []rowResult
	for _, row := range matrix {
		data, err := os.ReadFile(filepath.Join(docs, "conformance", row.server+".json"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		var r rowResult
		if err == nil {
			err = json.Unmarshal(data, &r)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", row.server, err)
		}
		rows = append(rows, r)
	}
	var page strings.Builder
	page.WriteString(pageIntro)
	page.WriteString("\n## Servers\n\n| row | server | date | settings that matter | all tests of the backend |\n")
	page.WriteString("|---|---|---|---|---|\n")
	for _, r := range rows {
		var settings []string
		for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
			settings = append(settings, fmt.Sprintf("`%s=%s`", name, r.Settings[name]))
		}
		fmt.Fprintf(&page, "| %s | %s | %s | %s | %s |\n", r.Row, r.Server, r.Date, strings.Join(settings, " "), r.Tests)
	}
	page.WriteString("\n## Suites\n\n| row | test | driver | checks |\n|---|---|---|---|\n")
	for _, r := range rows {
		for _, s := range r.Suites {
			fmt.Fprintf(&page, "| %s | `%s` | %s | %s |\n", r.Row, s.Test, s.Driver, s.Checks)
		}
	}
	page.WriteString("\n## Sections\n\nHow many checks passed in the first suite of each row. " +
		"`-1` is one skipped check, `!1` one failed check.\n– is a section that had no checks when the row ran.\n\n| section |")
	for _, r := range rows {
		fmt.Fprintf(&page, " %s |", r.Row)
	}
	page.WriteString("\n|---|" + strings.Repeat("---|", len(rows)) + "\n")
	for _, title := range titles {
		fmt.Fprintf(&page, "| %s |", title)
		for _, r := range rows {
			c, ran := r.Suites[0].Sections[title]
			if !ran {
				page.WriteString(" – |")
				continue
			}
			fmt.Fprintf(&page, " %d%s%s |", c.passed, marks(c.skipped, "-"), marks(c.failed, "!"))
		}
		page.WriteString("\n")
	}
	page.WriteString(exceptions(rows))
	return page.String(), nil
}

// marks is " -3" for three, and nothing for none.
func marks(n int, sign string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" %s%d", sign, n)
}

// exceptions lists what failed, and what was skipped by the reason.
func exceptions(rows []rowResult) string {
	var page strings.Builder
	page.WriteString("\n## Failed\n\n")
	none := page.Len()
	skipped := make(map[string][]string)
	for _, r := range rows {
		for _, s := range r.Suites {
			where := fmt.Sprintf("%s, `%s`", r.Row, s.Test)
			if len(s.Failed) > 0 {
				fmt.Fprintf(&page, "- %s: %s\n", where, strings.Join(s.Failed, "; "))
			}
			for why, checks := range s.Skipped {
				line := fmt.Sprintf("  - %s: %s\n", where, strings.Join(checks, "; "))
				skipped[why] = append(skipped[why], line)
			}
		}
	}
	if page.Len() == none {
		page.WriteString("Nothing.\n")
	}
	page.WriteString("\n## Skipped\n\n")
	for _, why := range slices.Sorted(maps.Keys(skipped)) {
		fmt.Fprintf(&page, "- %s\n%s", why, strings.Join(skipped[why], ""))
	}
	return page.String()
}
