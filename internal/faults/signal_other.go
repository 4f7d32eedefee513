//go:build !unix

package main

import "syscall"

// Elsewhere a process cannot be paused by a signal: to send one of these is an error.
const (
	pauseSignal  = syscall.Signal(19)
	resumeSignal = syscall.Signal(18)
)
