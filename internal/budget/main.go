// Command budget counts the lines of the product, by room, and compares them with what
// each room may have: Go, SQL and scripts, without tests, benchmarks, examples and the
// programs that only test. It exits with 1 if a room is over its budget.
package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// room is a part of the product. Each file counts for the first room that has it, and for
// the sum.
type room struct {
	name    string
	folders []string
	lines   int // at most
	files   int // at most; zero: any number
}

var rooms = []room{
	{"memory", []string{"backend/memory", "internal/memstore"}, 5000, 0},
	{"conformance", []string{"conformance"}, 14500, 0},
	{"sqlstore and engines", []string{"backend/sqlstore", "backend/postgres", "backend/mysql", "backend/sqlite", "backend/mssql"}, 18500, 0},
	{"backendtest, cmd, internal", []string{"backend/internal", "cmd", ".ci", "internal/testservers",
		"internal/workertest", "internal/roletest", "internal/doctortest", "internal/consoletest", "internal/budget"}, 6500, 0},
	{"parleytest", []string{"parleytest"}, 1000, 0},
	{"console", []string{"console"}, 4000, 0},
	{"contract", []string{"backend"}, 2100, 0},
	{"applock, phases, doctor, internal", []string{"applock", "phases", "doctor", "internal"}, 3500, 0},
	{"root", []string{"."}, 7000, 28},
}

// sum is what all rooms may have together, and longest what a file may have.
const sum, longest = 57000, 600

// apart are folders that are no product, besides every testdata.
var apart = []string{"bench", "examples", "docs", "internal/faults", ".git", ".github", ".cache"}

func main() {
	lines, files := make([]int, len(rooms)), make([]int, len(rooms))
	var long []string
	total := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && (slices.Contains(apart, path) || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			return err
		}
		if !counts(path) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		n := bytes.Count(text, []byte("\n"))
		i := slices.IndexFunc(rooms, func(r room) bool { return slices.ContainsFunc(r.folders, holds(path)) })
		lines[i], files[i], total = lines[i]+n, files[i]+1, total+n
		if n > longest {
			long = append(long, fmt.Sprintf("%s has %d lines, at most %d", path, n, longest))
		}
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "budget:", err)
		os.Exit(2)
	}
	over := len(long) > 0 || total > sum
	for i, r := range rooms {
		says := ""
		if lines[i] > r.lines || r.files > 0 && files[i] > r.files {
			says, over = "over", true
		}
		fmt.Printf("%-34s %6d of %6d lines  %3d files  %s\n", r.name, lines[i], r.lines, files[i], says)
	}
	fmt.Printf("%-34s %6d of %6d lines\n", "sum", total, sum)
	for _, text := range long {
		fmt.Println(text)
	}
	if over {
		os.Exit(1)
	}
}

// counts reports whether a file is part of the product.
func counts(path string) bool {
	switch filepath.Ext(path) {
	case ".go":
		return !strings.HasSuffix(path, "_test.go")
	case ".sql", ".sh":
		return true
	}
	return path == "Makefile" || path == filepath.Join(".ci", "run")
}

// holds returns a function that reports whether a folder holds a file.
func holds(path string) func(string) bool {
	return func(folder string) bool {
		return folder == "." || strings.HasPrefix(path, folder+"/")
	}
}
