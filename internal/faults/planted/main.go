// Command planted measures the fault suite. It plants bugs in copies of the project's source, one
// at a time, and demands that the suite finds each.
//
//	go run ./internal/faults/planted --testservers .cache/testservers [names]
//
// The source itself stays as it is: go build gets the changed copies by -overlay.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// within is how long a run may take to find a bug.
const within = 2 * time.Minute

// The exit codes of a run that has found something, and of a run that ended at its limit.
const (
	codeFound = 1
	codeShort = 3
)

func main() {
	tool := flag.String("testservers", ".cache/testservers", "the program that starts servers")
	flag.Parse()
	missed := 0
	for _, b := range slices.Concat(bugs, controls) {
		if flag.NArg() > 0 && !slices.Contains(flag.Args(), b.name) {
			continue
		}
		begun := time.Now()
		text, err := b.find(*tool)
		took := time.Since(begun).Round(time.Second)
		if err != nil {
			missed++
			fmt.Printf("%-30s %-9s FAILED after %v: %v\n", b.name, b.server, took, err)
			continue
		}
		fmt.Printf("%-30s %-9s %v: %s\n", b.name, b.server, took, text)
	}
	if missed > 0 {
		os.Exit(1)
	}
}

// find builds the suite with the bug, runs it, and returns the line that says what was
// found.
func (b bug) find(tool string) (string, error) {
	dir, err := os.MkdirTemp("", "parley-planted-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	overlay, err := b.plant(".", dir)
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "faults")
	args := []string{"build", "-overlay", overlay, "-o", program}
	if b.race {
		args = append(args, "-race", "-gcflags=modernc.org/sqlite/lib=-race=false", "-gcflags=modernc.org/libc=-race=false")
	}
	build := exec.Command("go", append(args, "./internal/faults")...)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for {
		text, err := b.run(ctx, program, tool)
		if err != errNothing {
			return text, err
		}
	}
}

// errNothing: a run has ended, and nothing was found. What a bug needs to show is often a
// matter of moments, so that a bug gets all of its time.
var errNothing = errors.New("nothing was found")

// run runs the suite once.
func (b bug) run(ctx context.Context, program, tool string) (string, error) {
	args := []string{"--server", b.server, "--testservers", tool, "--operations", "1000"}
	if b.sound {
		args = append(args, "--limit", "1m", "--faults", "10")
	} else {
		args = append(args, "--limit", "20s", "--faults", "1000", "--drain", "30s") // up to the limit
	}
	cmd := exec.CommandContext(ctx, program, append(args, b.flags...)...)
	cmd.Env = append(os.Environ(), b.env)
	// A run that is stopped stops its server.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	var exit *exec.ExitError
	code := 0
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	}
	switch {
	case ctx.Err() != nil:
		return "", errors.Join(errNothing, ctx.Err())
	case b.sound && err == nil, !b.sound && code == codeFound:
		_, text, _ := strings.Cut(strings.TrimSpace(string(out)), "]: ")
		return text, nil
	case !b.sound && (err == nil || code == codeShort):
		return "", errNothing
	}
	return "", fmt.Errorf("%w: %s%s", err, said.Bytes(), out)
}

// plant writes the changed copies into a folder, and returns the file that tells go
// build of them.
func (b bug) plant(root, dir string) (string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	goroot := strings.TrimSpace(string(out))
	texts := make(map[string]string)
	for _, c := range b.changes {
		path := filepath.Join(root, c.file)
		if file, is := strings.CutPrefix(c.file, "GOROOT/"); is {
			path = filepath.Join(goroot, file)
		}
		text, known := texts[path]
		if !known && c.old != "" {
			read, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			text = string(read)
		}
		if texts[path], err = c.apply(text); err != nil {
			return "", fmt.Errorf("%s: %w", b.name, err)
		}
	}
	replace := make(map[string]string)
	for path, text := range texts {
		to := filepath.Join(dir, fmt.Sprint(len(replace), filepath.Base(path)))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[path] = to
	}
	file, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, file, 0o600)
}

// apply makes the change in a file's text. The source must have what it replaces: a
// bug that is not planted would be missed for the wrong reason.
func (c change) apply(text string) (string, error) {
	if c.old == "" {
		return c.new, nil
	}
	if n := strings.Count(text, c.old); n != max(c.times, 1) {
		return "", fmt.Errorf("%s has %q %d times, want %d", c.file, c.old, n, max(c.times, 1))
	}
	return strings.ReplaceAll(text, c.old, c.new), nil
}
