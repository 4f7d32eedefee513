//go:build linux

package main

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// systemProgram puts a program of this system with its loader and libraries where
// packages would unpack them.
func systemProgram(t *testing.T, building, name string) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skip(err)
	}
	out, err := exec.Command("ldd", path).Output()
	if err != nil {
		t.Skip("no ldd to ask for libraries: ", err)
	}
	libraries := filepath.Join(building, "usr/lib/x-linux-gnu")
	for _, dir := range []string{libraries, filepath.Join(building, "usr/bin")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	place := func(from, to string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	place(path, filepath.Join(building, "usr/bin", name))
	for _, word := range strings.Fields(string(out)) {
		if strings.HasPrefix(word, "/") {
			place(word, filepath.Join(libraries, filepath.Base(word)))
		}
	}
	if found, _ := filepath.Glob(filepath.Join(libraries, "ld-linux*.so.*")); len(found) == 0 {
		t.Skip("this system's programs have another loader")
	}
}

// What is unpacked runs by its own loader, with its own libraries and under its own
// name, wherever the folder is moved to.
func TestUnpackedProgramsRunByTheirOwnLoader(t *testing.T) {
	dir := t.TempDir()
	building, root := filepath.Join(dir, "building"), filepath.Join(dir, "no place for programs")
	systemProgram(t, building, "cat")
	script := filepath.Join(building, "usr/bin/script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := wrapPrograms(building, root); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(building, root); err != nil {
		t.Fatal(err)
	}
	maps, err := exec.Command(filepath.Join(root, "usr/bin/cat"), "/proc/self/maps", "/proc/self/cmdline").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, ".so") && !strings.Contains(line, root) {
			t.Errorf("loaded from elsewhere: %s", line)
		}
	}
	if !strings.Contains(string(maps), root+"/usr/bin/cat.elf") {
		t.Errorf("it was not the program itself that ran:\n%s", maps)
	}
	if text, err := os.ReadFile(filepath.Join(root, "usr/bin/script")); err != nil || string(text) != "#!/bin/sh\n" {
		t.Errorf("a script became %q, %v", text, err)
	}
	if _, err := elf.Open(filepath.Join(root, "usr/bin/cat.elf")); err != nil {
		t.Error(err)
	}
}

// An older version is not replaced by whatever the system has, the newest is.
func TestOnlyTheNewestVersionMayBeAnother(t *testing.T) {
	t.Setenv("PARLEY_TEST_CACHE", openTempDir(t))
	if path, err := (release{name: "x-1", exact: true}).program("sh"); err == nil {
		t.Errorf("%s in the place of an older version", path)
	}
	if _, err := (release{name: "x-2"}).program("sh"); err != nil {
		t.Error(err)
	}
	for _, s := range specs {
		if e, ok := s.engine.(released); ok && e.version().exact != (e.version().suite == older) {
			t.Errorf("%s: exact is %v", s.name, e.version().exact)
		}
	}
}

func TestTestsAreCountedOnce(t *testing.T) {
	var out strings.Builder
	r := readTests(strings.NewReader(`
{"Action":"run","Package":"p","Test":"A"}
{"Action":"output","Package":"p","Test":"A","Output":"said\n"}
{"Action":"pass","Package":"p","Test":"A/one"}
{"Action":"fail","Package":"p","Test":"A/two/deep"}
{"Action":"fail","Package":"p","Test":"A/two"}
{"Action":"fail","Package":"p","Test":"A"}
{"Action":"skip","Package":"p","Test":"B"}
{"Action":"pass","Package":"q","Test":"A"}
{"Action":"fail","Package":"p"}
no JSON`), &out)
	c := r.counts()
	if want := (counts{passed: 2, failed: 1, skipped: 1}); c != want {
		t.Errorf("%v, want %v", c, want)
	}
	if !strings.Contains(out.String(), "said\n") || !strings.Contains(out.String(), "no JSON") {
		t.Errorf("printed %q", out.String())
	}
}

func TestMatrixSaysWhatCannotBeHad(t *testing.T) {
	w := newWorld(t)
	was := matrix
	t.Cleanup(func() { matrix = was })
	matrix = []matrixRow{{"front", nil}}
	w.server.find = errors.New("no such program")
	w.vars["TEST_FRONT"] = "fake://elsewhere" // which a matrix leaves aside
	signals := catchSignals()
	_, stop := signals.context()
	defer stop()
	var out strings.Builder
	code, err := matrixCommand(t.Context(), w.env, signals, []string{"-logs", t.TempDir()}, &out)
	if err != nil || code != 0 || !strings.Contains(out.String(), "front                   cannot be had: ") {
		t.Errorf("%d, %v, %q", code, err, out.String())
	}
}

// Each row of the matrix is a server of the table, and each server that has a version
// is in it, unless it is a cluster.
func TestMatrixHasAllVersions(t *testing.T) {
	clusters := []string{"postgres-pair", "postgres-patroni", "mysql-group", "galera", "galera-11.8"}
	for _, s := range specs {
		_, ok := s.engine.(released)
		in := slices.ContainsFunc(matrix, func(r matrixRow) bool { return r.server == s.name })
		if ok && !slices.Contains(clusters, s.name) && !in {
			t.Errorf("%s is not in the matrix", s.name)
		}
	}
	for _, r := range matrix {
		if err := checkNames([]string{r.server}); err != nil {
			t.Error(err)
		}
	}
}
