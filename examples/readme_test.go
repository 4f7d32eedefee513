// Package examples_test runs the programs of the READMEs.
package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shown is a command of a README with its output.
var shown = regexp.MustCompile("(?s)```\n\\$ go run ./examples/(\\w+)([^\n]*)\n(.*?)```")

// varying matches what differs from run to run.
var varying = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|[0-9]+\.[0-9]+(µs|ms|s)?|[0-9]+(µs|ms|s)|\[[0-9 ]+\]|on [0-9]+ dialogs|at most [0-9]+|[# ]*[#|][# |]*`)

// TestREADME: each program prints what its README shows.
func TestREADME(t *testing.T) {
	files, err := filepath.Glob("*/README.md")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d READMEs, %v", len(files), err)
	}
	bin := t.TempDir()
	for _, file := range files {
		dir := filepath.Dir(file)
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			if dir == "shop" {
				t.Skip("it serves until it is stopped; its own tests run it")
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			program := filepath.Join(bin, dir)
			if out, err := exec.Command("go", "build", "-o", program, "./"+dir).CombinedOutput(); err != nil {
				t.Fatalf("go build: %v\n%s", err, out)
			}
			runs := shown.FindAllStringSubmatch(string(text), -1)
			if len(runs) == 0 {
				t.Error("the README shows no run")
			}
			for _, run := range runs {
				if run[1] != dir {
					t.Errorf("the README of %s runs %s", dir, run[1])
				}
				cmd := exec.CommandContext(t.Context(), program, strings.Fields(run[2])...)
				cmd.Dir = t.TempDir()
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v\n%s", run[2], err, out)
				}
				if got, want := varying.ReplaceAllString(string(out), "~"), varying.ReplaceAllString(run[3], "~"); got != want {
					t.Errorf("%s: the program prints\n%s\nand the README shows\n%s", run[2], out, run[3])
				}
			}
		})
	}
}
