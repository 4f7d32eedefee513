package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report collects the results.
type report struct {
	Date     time.Time         `json:"date"`
	Machine  string            `json:"machine"`
	Quick    bool              `json:"quick"`
	Modules  map[string]string `json:"modules"`
	Engines  map[string]string `json:"engines"`
	Settings map[string]string `json:"settings"`
	Results  []*result         `json:"results"`
	Ratios   []ratio           `json:"ratios"`
}

type result struct {
	Engine string    `json:"engine"`
	Row    string    `json:"row"`
	What   string    `json:"what"`
	System string    `json:"system"`
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"`
	P99    []float64 `json:"p99,omitempty"`
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
	Cost   *cost     `json:"cost,omitempty"`
	CPU    []float64 `json:"cpu_us,omitempty"` // microseconds for each message, of the program and the server
	Errors []string  `json:"errors,omitempty"`
}

type ratio struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Bar   float64 `json:"bar"`
}

func newReport(o options) *report {
	r := &report{Date: time.Now().UTC().Truncate(time.Second), Quick: o.quick, Machine: machine(),
		Modules: make(map[string]string), Engines: make(map[string]string), Settings: make(map[string]string)}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			for _, part := range []string{"river", "gue", "goqite", "backlite", "watermill", "/pq", "pgx/v5", "modernc.org/sqlite", "go-sql-driver"} {
				if strings.Contains(d.Path, part) {
					r.Modules[d.Path] = d.Version
				}
			}
		}
	}
	return r
}

func machine() string {
	cpu := runtime.GOARCH
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.HasPrefix(k, "model name") {
				cpu = strings.TrimSpace(v)
				break
			}
		}
	}
	load := ""
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = ", load before " + strings.Fields(string(b))[0]
	}
	return fmt.Sprintf("%d × %s, %s, %s%s", runtime.NumCPU(), cpu, runtime.GOOS, runtime.Version(), load)
}

func (r *report) engine(e *engine) {
	r.Engines[e.name] = e.info
	for _, s := range systems {
		if s.runsOn(e.name) {
			r.Settings[e.name+"/"+s.name] = s.settings
		}
	}
}

func (r *report) find(engine, row, system string) *result {
	for _, x := range r.Results {
		if x.Engine == engine && x.Row == row && x.System == system {
			return x
		}
	}
	return nil
}

func (r *report) add(e *engine, w *row, s *system, v sample, err error) {
	x := r.find(e.name, w.name, s.name)
	if x == nil {
		x = &result{Engine: e.name, Row: w.name, What: w.what, System: s.name, Unit: w.unit}
		r.Results = append(r.Results, x)
	}
	if err != nil {
		x.Errors = append(x.Errors, err.Error())
		fmt.Fprintf(os.Stderr, "%-9s %-14s %s: %v\n", e.name, w.name, s.name, err)
		return
	}
	x.Values = append(x.Values, v.value)
	if v.p99 > 0 {
		x.P99 = append(x.P99, v.p99)
	}
	if v.cost != nil {
		x.Cost = v.cost
	}
	if v.cpu > 0 {
		x.CPU = append(x.CPU, v.cpu)
	}
	x.Median, x.Min, x.Max = median(x.Values), slices.Min(x.Values), slices.Max(x.Values)
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Clone(v)
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

func (r *report) median(engine, row, system string) float64 {
	if x := r.find(engine, row, system); x != nil {
		return x.Median
	}
	return 0
}

func (r *report) medianP99(engine, row, system string) float64 {
	if x := r.find(engine, row, system); x != nil {
		return median(x.P99)
	}
	return 0
}

// line is a row's results in short.
func (r *report) line(e *engine, w *row) string {
	var b strings.Builder
	for _, x := range r.Results {
		if x.Engine == e.name && x.Row == w.name && len(x.Values) > 0 {
			fmt.Fprintf(&b, " %s %s", x.System, number(x.Median))
		}
	}
	return strings.TrimSpace(b.String())
}

// number has three digits that count.
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 1000:
		return fmt.Sprintf("%.1fk", v/1000)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func (r *report) write(o options) error {
	for _, b := range bars {
		r.Ratios = append(r.Ratios, ratio{b.name, b.value(r), b.bar})
	}
	r.table(os.Stdout)
	if o.json != "" {
		out, err := json.MarshalIndent(r, "", "\t")
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.json, append(out, '\n'), 0o666); err != nil {
			return err
		}
	}
	if o.svg != "" {
		if err := os.WriteFile(o.svg, draw(r), 0o666); err != nil {
			return err
		}
	}
	fmt.Println()
	for _, x := range r.Ratios {
		fmt.Printf("RATIO %s %.3f %.3f\n", x.Name, x.Value, x.Bar)
	}
	return nil
}

func (r *report) table(w io.Writer) {
	fmt.Fprintf(w, "%s, %s\n", r.Date.Format("2006-01-02 15:04 MST"), r.Machine)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	at := ""
	for _, x := range r.Results {
		if key := x.Engine + x.Row; key != at {
			at = key
			t.Flush()
			fmt.Fprintf(w, "\n%s: %s (%s)\n", x.Engine, x.What, x.Unit)
			fmt.Fprintln(t, "system\tmedian\tmin\tmax\tp99\tcpu µs\tstatements\ttrips\tcommits\tlog bytes\t")
		}
		if len(x.Values) == 0 {
			fmt.Fprintf(t, "%s\tfailed\t\t\t\t\t\t\t\t\t\n", x.System)
			continue
		}
		p99 := ""
		if len(x.P99) > 0 {
			p99 = number(median(x.P99))
		}
		cpu := ""
		if len(x.CPU) > 0 {
			cpu = number(median(x.CPU))
		}
		costs := "\t\t\t"
		if c := x.Cost; c != nil {
			costs = fmt.Sprintf("%.3g\t%.3g\t%.3g\t%.0f", c.Statements, c.Trips, c.Commits, c.LogBytes)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", x.System, number(x.Median), number(x.Min), number(x.Max), p99, cpu, costs)
	}
	t.Flush()
}
