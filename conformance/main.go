package conformance

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Main is the whole of a program that checks a backend which the parley command
// does not know:
//
//	func main() { conformance.Main("mydb", conformance.Store{Open: open, Limit: limited}) }
//
// It takes the flags -run REGEXP, -list, -json and -report FILE (see [Report]), and exits
// with 1 if a check failed.
func Main(name string, s Store) {
	os.Exit(Command(context.Background(), name, s, os.Args[1:], os.Stdout, os.Stderr, os.Args[1:]...))
}

// Command is Main for programs with other flags: it returns the exit code. With the arguments
// childArgs this program, started again, calls Command with the same store.
func Command(ctx context.Context, name string, s Store, args []string, stdout, stderr io.Writer, childArgs ...string) int {
	flags := flag.NewFlagSet(name+" conformance", flag.ContinueOnError)
	flags.SetOutput(stderr)
	run := flags.String("run", "", "run only the checks whose ID/name matches the regular `expression`")
	list := flags.Bool("list", false, "list the sentences and their checks, and run nothing")
	asJSON := flags.Bool("json", false, "print one JSON object for each check")
	file := flags.String("report", "", "probe and measure too, and write all to the `file`: JUnit if .xml, else JSON")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "%s: %q is not a flag\n", name, flags.Arg(0))
		return 2
	}
	match, err := regexp.Compile(*run)
	if err != nil {
		fmt.Fprintf(stderr, "%s: -run: %v\n", name, err)
		return 2
	}
	if *list {
		List(stdout, match)
		return 0
	}
	if childMain(s) {
		return 0
	}
	var report *Report
	if *file != "" {
		if report, err = newReport(*file, s.Secrets); err != nil {
			fmt.Fprintf(stderr, "%s: -report: %v\n", name, err)
			return 2
		}
	}
	r, err := newRunner(ctx, s, childArgs...)
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		if report != nil {
			report.failed(ctx, s, err)
		}
		return 1
	}
	defer r.close()
	if !*asJSON {
		r.describe(ctx, stdout)
	}
	if report != nil {
		report.describe(ctx, r.main)
	}
	code, err := r.report(ctx, match, *asJSON, stdout, report)
	if report != nil && err == nil {
		if err = report.rest(ctx, r); err == nil && !*asJSON {
			fmt.Fprintf(stdout, "%d lock probes, %d other probes; all of it is in %s\n", len(report.Locks), len(report.Probes), *file)
		}
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: -report: %v\n", name, err)
		return 1
	}
	return code
}

// List prints each sentence with its checks.
func List(w io.Writer, match *regexp.Regexp) {
	for _, s := range Sentences {
		printed := false
		for _, c := range allChecks() {
			if c.ID != s.ID || match != nil && !match.MatchString(c.ID+"/"+c.Name) {
				continue
			}
			if !printed {
				fmt.Fprintf(w, "%-4s %s\n", s.ID, s.Text)
				printed = true
			}
			fmt.Fprintf(w, "       %s\n", c.Name)
		}
	}
}

// describe prints what is checked.
func (r *runner) describe(ctx context.Context, w io.Writer) {
	info, err := r.main.Info(ctx)
	if err != nil {
		fmt.Fprintf(w, "store: %v\n", err)
		return
	}
	fmt.Fprintf(w, "%s %s\n", info.Engine, info.Version)
	for _, k := range slices.Sorted(maps.Keys(info.Settings)) {
		fmt.Fprintf(w, "  %s = %s\n", k, info.Settings[k])
	}
	for _, warning := range info.Warnings {
		fmt.Fprintf(w, "  warning: %s %s: %s\n", warning.Code, warning.Object, warning.Text)
	}
}

// report runs the checks and prints their results. They go into p too, if it is not nil.
func (r *runner) report(ctx context.Context, match *regexp.Regexp, asJSON bool, w io.Writer, p *Report) (code int, err error) {
	passed, failed, skipped, missing := 0, 0, 0, 0
	enc := json.NewEncoder(w)
	for _, c := range allChecks() {
		if !match.MatchString(c.ID + "/" + c.Name) {
			continue
		}
		if ctx.Err() != nil {
			break
		}
		res := r.run(ctx, c)
		if p != nil {
			if err := p.add(res); err != nil {
				return 1, err
			}
		}
		word := "ok  "
		switch {
		case res.Failed != "":
			failed++
			word = "FAIL"
		case res.Skipped != "":
			skipped++
			word = "skip"
			if strings.HasPrefix(res.Skipped, notOffered) {
				missing++
			}
		default:
			passed++
		}
		if asJSON {
			enc.Encode(res)
			continue
		}
		fmt.Fprintf(w, "%s %s/%s (%v)\n", word, c.ID, c.Name, res.Took.Round(time.Millisecond))
		switch word {
		case "FAIL":
			fmt.Fprintf(w, "     %s\n", res.explained("\n     "))
		case "skip":
			fmt.Fprintf(w, "     %s\n", res.Skipped)
		}
	}
	if asJSON {
		enc.Encode(map[string]int{"passed": passed, "failed": failed, "skipped": skipped})
	} else {
		fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", passed, failed, skipped)
		if missing > 0 {
			fmt.Fprintf(w, "%d of those that were skipped need a part of the contract that is not offered\n", missing)
		}
	}
	if failed > 0 || passed == 0 {
		return 1, nil
	}
	return 0, nil
}
