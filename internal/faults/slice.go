package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// slice is one run in the record of runs, which add up: one line of testdata/slices.jsonl, of which the table in
// docs/reliability.md is made.
type slice struct {
	Date       string         `json:"date"`
	Commit     string         `json:"commit"` // with a plus if the tree had changes
	Server     string         `json:"server"` // as --server says
	Version    string         `json:"version"`
	Seed       uint64         `json:"seed"`
	Anew       string         `json:"anew,omitempty"` // why earlier slices of the server count no more
	Operations int            `json:"operations"`
	Faults     map[string]int `json:"faults"`
	Pauses     pauses         `json:"pauses,omitempty"`
	Lost       int            `json:"lost"`
	Doubled    int            `json:"doubled"`
	Disordered int            `json:"disordered"`
	Stuck      int            `json:"stuck"`
	Broken     int            `json:"broken"`
}

func (s slice) bad() int { return s.Lost + s.Doubled + s.Disordered + s.Stuck + s.Broken }

// readSlices reads a record. A record that is not there yet is empty.
func readSlices(path string) (list []slice, err error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		var s slice
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		d.DisallowUnknownFields()
		if err := d.Decode(&s); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		list = append(list, s)
	}
	return list, lines.Err()
}

// digits are the number in what a server says of its version.
var digits = regexp.MustCompile(`[0-9]+(\.[0-9]+)*`)

// record adds the run to the record of runs, whatever was found.
func (o options) record(v *violations, version string) error {
	commit, err := exec.Command("git", "describe", "--always", "--exclude=*", "--abbrev=9", "--dirty=+").Output()
	if err != nil {
		return fmt.Errorf("git describe: %w", err)
	}
	server := o.server
	if server == "" {
		server = o.engine()
	}
	line, err := json.Marshal(slice{
		Date: time.Now().UTC().Format(time.DateOnly), Commit: strings.TrimSpace(string(commit)), Server: server, Version: digits.FindString(version),
		Seed: o.seed, Anew: o.anew, Operations: v.Operations, Faults: v.Faults, Pauses: v.Pauses,
		Lost: v.Lost, Doubled: v.Doubled, Disordered: v.Disordered, Stuck: v.Stuck, Broken: v.Broken,
	})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(o.slices, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err == nil {
		_, err = f.Write(append(line, '\n'))
		err = errors.Join(err, f.Close())
	}
	return err
}

// sumOf is what the slices of a server add up to.
type sumOf struct {
	slice    // the counts; Version is the last one's
	runs     int
	from, to string // dates
	commits  []string
}

// sums adds up slices by server, each from the last slice that begins anew.
func sums(list []slice) map[string]*sumOf {
	all := make(map[string]*sumOf)
	for _, s := range list {
		sum := all[s.Server]
		if sum == nil || s.Anew != "" {
			sum = &sumOf{from: s.Date, slice: slice{Server: s.Server, Faults: make(map[string]int), Pauses: make(pauses)}}
			all[s.Server] = sum
		}
		sum.runs++
		sum.to, sum.Version = s.Date, s.Version
		if !slices.Contains(sum.commits, s.Commit) {
			sum.commits = append(sum.commits, s.Commit)
		}
		sum.Operations += s.Operations
		for name, n := range s.Faults {
			sum.Faults[name] += n
		}
		for name, list := range s.Pauses {
			sum.Pauses[name] = append(sum.Pauses[name], list...)
		}
		sum.Lost, sum.Doubled, sum.Disordered = sum.Lost+s.Lost, sum.Doubled+s.Doubled, sum.Disordered+s.Disordered
		sum.Stuck, sum.Broken = sum.Stuck+s.Stuck, sum.Broken+s.Broken
	}
	return all
}

// serverNames are the columns of the table, in their order.
var serverNames = []struct{ server, title string }{
	{"sqlite", "SQLite"}, {"postgres", "PostgreSQL"}, {"mysql", "MySQL"}, {"mariadb", "MariaDB"},
	{"postgres-pair", "PostgreSQL with a standby"}, {"postgres-patroni", "PostgreSQL under Patroni"}, {"mysql-group", "MySQL Group Replication"}, {"galera", "Galera"}, {"galera-11.8", "Galera"},
}

// table is the table of docs/reliability.md.
func table(list []slice) string {
	all := sums(list)
	var columns []*sumOf
	head, line := "| |", "|---|"
	for _, s := range serverNames {
		if sum := all[s.server]; sum != nil {
			columns = append(columns, sum)
			head += " " + strings.TrimSpace(s.title+" "+sum.Version) + " |"
			line += "---|"
		}
	}
	var b strings.Builder
	fmt.Fprintln(&b, head)
	fmt.Fprintln(&b, line)
	row := func(name string, cell func(*sumOf) string) {
		fmt.Fprintf(&b, "| %s |", name)
		for _, sum := range columns {
			fmt.Fprintf(&b, " %s |", cell(sum))
		}
		fmt.Fprintln(&b)
	}
	row("runs", func(s *sumOf) string { return fmt.Sprint(s.runs) })
	row("from, to", func(s *sumOf) string { return s.from + ", " + s.to })
	row("commits", func(s *sumOf) string { return strings.Join(s.commits, ", ") })
	row("operations", func(s *sumOf) string { return grouped(s.Operations) })
	for _, a := range afflictions {
		if slices.ContainsFunc(columns, func(s *sumOf) bool { return s.Faults[a.name] > 0 }) {
			row(a.name, func(s *sumOf) string { return dash(s.Faults[a.name]) })
		}
		if slices.ContainsFunc(columns, func(s *sumOf) bool { return len(s.Pauses[a.name]) > 0 }) {
			row("seconds without work at a "+a.name+": median, longest", func(s *sumOf) string { return s.Pauses.summary(a.name) })
		}
	}
	row("all faults", func(s *sumOf) string { return fmt.Sprint(sum(s.Faults)) })
	row("lost, doubled, out of order, stuck, broken", func(s *sumOf) string {
		if s.bad() == 0 {
			return "0"
		}
		return fmt.Sprintf("%d, %d, %d, %d, %d", s.Lost, s.Doubled, s.Disordered, s.Stuck, s.Broken)
	})
	return b.String()
}

// grouped writes a number with commas between thousands.
func grouped(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func dash(n int) string {
	if n == 0 {
		return "–"
	}
	return fmt.Sprint(n)
}
