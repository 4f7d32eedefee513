package main

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// release is a version of a server as a suite of Debian's has it. Its packages, with
// all that they need down to the C library, are unpacked into a folder of the cache,
// and nothing is installed. So several versions get on with each other and with what
// the system has.
type release struct {
	name     string // of the folder
	suite    string
	packages []string
	exact    bool // no other version will do, not even the system's own
}

// The suites.
const (
	newest = "sid"
	older  = "bookworm"
)

// released is implemented by engines that prefer a release.
type released interface{ version() release }

func (r release) version() release { return r }

// root is the folder in which it lies, "" if it does not.
func (r release) root() string {
	cache, err := cacheFolder(environment{get: os.Getenv})
	root := filepath.Join(cache, "programs", r.name)
	if _, e := os.Stat(root); err != nil || e != nil || r.name == "" {
		return ""
	}
	return root
}

// programFolders are where a release has programs.
var programFolders = []string{"usr/sbin", "usr/bin", "usr/lib/postgresql/*/bin"}

// unpacked returns a program of the release.
func (r release) unpacked(name string) (string, error) {
	if root := r.root(); root != "" {
		for _, folder := range programFolders {
			if found, _ := filepath.Glob(filepath.Join(root, folder, name)); len(found) > 0 {
				return found[0], nil
			}
		}
	}
	return "", fmt.Errorf("no %s of %s in the cache folder", name, r.name)
}

// program returns a program of the release or else, unless it has to be this release,
// the system's.
func (r release) program(name string) (string, error) {
	path, err := r.unpacked(name)
	if err == nil || r.exact {
		return path, err
	}
	return serverProgram(name)
}

// fetch unpacks the releases that are not there yet, those of different suites side by
// side. What cannot be had is only logged: something else may do.
func (env environment) fetch(ctx context.Context, list []spec) {
	suites := make(map[string][]release)
	for _, s := range list {
		e, ok := s.engine.(released)
		if !ok || e.version().root() != "" {
			continue
		}
		r := e.version()
		if !slices.ContainsFunc(suites[r.suite], func(other release) bool { return other.name == r.name }) {
			suites[r.suite] = append(suites[r.suite], r)
		}
	}
	if len(suites) == 0 || env.get("PARLEY_TEST_INSTALL") == "0" || env.install == nil {
		return
	}
	var all sync.WaitGroup
	for suite, releases := range suites {
		all.Go(func() {
			if err := fetchSuite(ctx, env.log, suite, releases); err != nil {
				env.logf("%s of Debian: %v", suite, err)
			}
		})
	}
	all.Wait()
}

// fetchSuite unpacks releases. It gives apt a separate folder, in which no package is installed, so
// that apt downloads all packages.
func fetchSuite(ctx context.Context, log io.Writer, suite string, releases []release) error {
	for _, name := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("no %s to get it with", name)
		}
	}
	cache, err := cacheFolder(environment{get: os.Getenv})
	if err != nil {
		return err
	}
	programs := filepath.Join(cache, "programs")
	if err := os.MkdirAll(programs, 0o755); err != nil {
		return err
	}
	fetching, err := lock(ctx, filepath.Join(programs, suite+".lock"))
	if err != nil {
		return err
	}
	defer fetching.Close()
	releases = slices.DeleteFunc(releases, func(r release) bool { return r.root() != "" }) // another process has
	if len(releases) == 0 {
		return nil
	}
	apt := filepath.Join(programs, suite+".apt")
	defer os.RemoveAll(apt)
	options, err := privateApt(apt, suite)
	if err != nil {
		return err
	}
	if err := aptGet(ctx, log, append(options, "update")...); err != nil {
		return fmt.Errorf("apt-get update: %w", err)
	}
	// While one is unpacked the next one comes.
	var unpacking sync.WaitGroup
	errs := make([]error, len(releases))
	for i, r := range releases {
		fmt.Fprintf(log, "testservers: fetching %v of Debian %s\n", r.packages, suite)
		packages, err := r.download(ctx, log, filepath.Join(apt, r.name), options)
		if err != nil {
			errs[i] = fmt.Errorf("%s: %w", r.name, err)
			continue
		}
		unpacking.Go(func() {
			if err := unpack(ctx, packages, filepath.Join(apt, r.name, "root"), filepath.Join(programs, r.name)); err != nil {
				errs[i] = fmt.Errorf("%s: %w", r.name, err)
			}
		})
	}
	unpacking.Wait()
	return errors.Join(errs...)
}

// privateApt makes a folder in which apt works apart from the system's, and returns
// the options that make it do so.
func privateApt(apt, suite string) ([]string, error) {
	const keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
	if _, err := os.Stat(keys); err != nil {
		return nil, fmt.Errorf("no keys of Debian's: %w", err)
	}
	archive, err := packageArchive()
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{"lists/partial", "etc"} {
		if err := os.MkdirAll(filepath.Join(apt, dir), 0o755); err != nil {
			return nil, err
		}
	}
	for name, text := range map[string]string{
		"status":           "",
		"etc/sources.list": fmt.Sprintf("deb [signed-by=%s] %s %s main\n", keys, archive, suite),
	} {
		if err := os.WriteFile(filepath.Join(apt, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	return []string{
		"-o", "Dir::State=" + apt, "-o", "Dir::State::status=" + apt + "/status", "-o", "Dir::State::lists=" + apt + "/lists",
		"-o", "Dir::Cache=" + apt, "-o", "Dir::Etc::sourcelist=" + apt + "/etc/sources.list",
		"-o", "Dir::Etc::sourceparts=/dev/null", "-o", "Dir::Etc::preferencesparts=/dev/null", "-o", "Acquire::Languages=none",
		"-o", "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false",
		"-o", "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
		"-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=1",
	}, nil
}

// packageArchive is where this machine gets Debian's packages from: what apt would ask
// for lists of packages, which it may not have yet.
func packageArchive() (string, error) {
	out, err := exec.Command("apt-get", "-o", "Debug::NoLocking=1", "--print-uris", "update").Output()
	if err != nil {
		return "", fmt.Errorf("apt-get --print-uris update: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		uri, _, is := strings.Cut(strings.TrimPrefix(line, "'"), "/dists/")
		if is && strings.HasSuffix(strings.TrimSuffix(uri, "/"), "/debian") {
			return uri, nil
		}
	}
	return "", errors.New("apt knows no archive of Debian's on this machine")
}

// download gets the packages into a folder and returns their files.
func (r release) download(ctx context.Context, log io.Writer, dir string, options []string) (packages []string, err error) {
	if err := os.MkdirAll(filepath.Join(dir, "partial"), 0o755); err != nil {
		return nil, err
	}
	options = append(slices.Clip(options), "-o", "Dir::Cache::archives="+dir, "install", "--download-only")
	if err := aptGet(ctx, log, append(options, r.packages...)...); err != nil {
		return nil, fmt.Errorf("apt-get install --download-only: %w", err)
	}
	return filepath.Glob(filepath.Join(dir, "*.deb"))
}

// unpack puts packages together in the folder building, which becomes root when all is
// there.
func unpack(ctx context.Context, packages []string, building, root string) error {
	if err := os.Mkdir(building, 0o755); err != nil {
		return err
	}
	if err := inParallel(packages, func(p string) error {
		if out, err := exec.CommandContext(ctx, "dpkg-deb", "-x", p, building).CombinedOutput(); err != nil {
			return fmt.Errorf("dpkg-deb -x %s: %w: %s", filepath.Base(p), err, out)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := wrapPrograms(building, root); err != nil {
		return err
	}
	return os.Rename(building, root)
}

// inParallel does something with each of a list, as many at a time as there are
// processors.
func inParallel(list []string, do func(string) error) error {
	var all sync.WaitGroup
	errs := make([]error, len(list))
	turns := make(chan struct{}, runtime.NumCPU())
	for i, x := range list {
		turns <- struct{}{}
		all.Go(func() {
			errs[i] = do(x)
			<-turns
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// wrapPrograms puts a script in the place of each program. The script runs the program with its own
// loader and libraries, because those of the system may be too old or too new. Programs look for
// others beside themselves, and find their scripts. The folder will be called root.
func wrapPrograms(building, root string) error {
	loader, libraries, err := loaderIn(building, root)
	if err != nil {
		return err
	}
	for _, folder := range programFolders {
		found, _ := filepath.Glob(filepath.Join(building, folder, "*"))
		for _, path := range found {
			if !dynamic(path) {
				continue
			}
			if err := os.Rename(path, path+".elf"); err != nil {
				return err
			}
			program := filepath.Join(root, strings.TrimPrefix(path, building)) + ".elf"
			script := fmt.Sprintf("#!/bin/sh\nexec '%s' --argv0 \"$0\" --library-path '%s' '%s' \"$@\"\n", loader, libraries, program)
			if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
				return err
			}
		}
	}
	return nil
}

// loaderIn returns the loader and the path of libraries among unpacked packages, as
// they will be in root. Old packages have them in /lib, newer ones in /usr/lib.
func loaderIn(building, root string) (loader, libraries string, err error) {
	glob := func(patterns ...string) (found []string) {
		for _, p := range patterns {
			list, _ := filepath.Glob(filepath.Join(building, p))
			for _, path := range list {
				found = append(found, filepath.Join(root, strings.TrimPrefix(path, building)))
			}
		}
		return found
	}
	loaders := glob("usr/lib/*-linux-gnu*/ld-linux*.so.*", "lib/*-linux-gnu*/ld-linux*.so.*")
	folders := glob("usr/lib/*-linux-gnu*", "lib/*-linux-gnu*", "usr/lib/*/*/private", "usr/lib/*/private")
	if len(loaders) == 0 || len(folders) == 0 {
		return "", "", errors.New("no loader or no libraries among the packages")
	}
	return loaders[0], strings.Join(folders, ":"), nil
}

// dynamic reports whether a file is a program that a loader loads.
func dynamic(path string) bool {
	if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeType != 0 {
		return false
	}
	file, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	return slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}
