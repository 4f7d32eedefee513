//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Elsewhere servers come from environment variables only: nothing is started.

var errSystem = fmt.Errorf("servers cannot be started on this system: %w", errors.ErrUnsupported)

func flock(*os.File, bool) error { return errSystem }

func handOver(string) error { return errSystem }

func asServer(*exec.Cmd) error { return errSystem }

func ownSession(*exec.Cmd) {}

func ownGroup(*exec.Cmd) {}

func signalGroup(p *os.Process, s os.Signal) { _ = p.Signal(s) }

func kill(int, string) error { return errSystem }

func alive(int) bool { return false }

func foreground() bool { return false }
