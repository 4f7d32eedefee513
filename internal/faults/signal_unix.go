//go:build unix

package main

import "syscall"

// The signals that keep a program from running, and have it go on.
const (
	pauseSignal  = syscall.SIGSTOP
	resumeSignal = syscall.SIGCONT
)
