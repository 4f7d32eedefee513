package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// With PARLEY_TEST_CLOCK=1 the clock of a server of a single user can be stepped back. Its programs
// are started with libfaketime, which adds the offset in the file clock to the time. Waits still
// use the machine's monotonic clock.

// clockPackage is the Debian package with the library.
const clockPackage = "libfaketime"

// clockStep is how far the clock steps back, in seconds.
const clockStep = 2

// clockLibrary looks for libfaketime for programs with threads.
func clockLibrary() (string, error) {
	found, _ := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
	if len(found) == 0 {
		return "", fmt.Errorf("no libfaketimeMT.so.1: %w", errMissing)
	}
	return found[0], nil
}

// haveClock gives the instance such a clock, before it starts.
func (in *instance) haveClock(ctx context.Context, env environment) error {
	if _, err := clockLibrary(); err != nil {
		if env.get("PARLEY_TEST_INSTALL") == "0" || env.install == nil {
			return err
		}
		if e := env.install(ctx, env.log, []string{clockPackage}); e != nil {
			return errors.Join(err, e)
		}
	}
	return in.setClock(0)
}

// setClock sets by how many seconds the clock is late.
func (in *instance) setClock(late int) error {
	next := in.file("clock.next") // the servers must not read half a file
	if err := os.WriteFile(next, fmt.Appendf(nil, "-%d\n", late), 0o644); err != nil {
		return err
	}
	return os.Rename(next, in.file("clock"))
}

// stepBack steps it back.
func (in *instance) stepBack() error {
	late, err := strconv.Atoi(strings.TrimPrefix(in.read("clock"), "-"))
	if err != nil {
		return fmt.Errorf("%s has no clock of its own: start it with PARLEY_TEST_CLOCK=1", in.name())
	}
	return in.setClock(late + clockStep)
}

// environ is what the server's programs are started with.
func (in *instance) environ() []string {
	env := serverEnv(os.Environ())
	library, err := clockLibrary()
	if in.read("clock") == "" || err != nil {
		return env
	}
	return append(env, "LD_PRELOAD="+library, "FAKETIME_TIMESTAMP_FILE="+in.file("clock"),
		"FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_NO_CACHE=1") // all processes see a step at once
}
