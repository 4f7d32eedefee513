package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
)

// signals collects the signals that ask this process to end. From the start
// they no longer end it: it has servers to stop first.
type signals struct {
	ch    chan os.Signal
	mu    sync.Mutex
	first os.Signal
	hand  func(os.Signal) // where the next signal goes
}

func catchSignals() *signals {
	s := &signals{ch: make(chan os.Signal, 8), hand: func(os.Signal) {}}
	signal.Notify(s.ch, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(s.ch, syscall.SIGHUP)
	}
	go func() {
		for sig := range s.ch {
			s.mu.Lock()
			if s.first == nil {
				s.first = sig
			}
			s.hand(sig)
			s.mu.Unlock()
		}
	}()
	return s
}

// received returns the first signal, nil when there was none.
func (s *signals) received() os.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first
}

// to sends the coming signals there. An earlier signal goes there as well:
// nothing is lost between the end of the set-up and the start of the command.
func (s *signals) to(hand func(os.Signal)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hand = hand
	if s.first != nil {
		hand(s.first)
	}
}

// context ends at the first signal, until the signals are sent elsewhere.
func (s *signals) context() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	s.to(func(os.Signal) { cancel() })
	return ctx, func() {
		s.to(func(os.Signal) {})
		signal.Stop(s.ch)
		cancel()
	}
}

// runWith runs a command with more variables and returns its exit code, 128
// and the signal's number when a signal ended it, as shells do.
//
// The command gets a separate process group, and every signal goes to the whole group. Otherwise go
// test does not pass signals on to the test programs, which would go on with servers that are about
// to be stopped. On a terminal the command stays in this group, because only the terminal's
// foreground group may read from it. The keys for interrupt and quit then reach all processes.
func runWith(signals *signals, variables, args []string) (int, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), variables...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	onTerminal := foreground()
	if !onTerminal {
		ownGroup(cmd)
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	signals.to(func(s os.Signal) {
		switch {
		case !onTerminal:
			signalGroup(cmd.Process, s)
		case s != os.Interrupt && s != syscall.SIGQUIT:
			cmd.Process.Signal(s)
		}
	})
	err := cmd.Wait()
	signals.to(func(os.Signal) {}) // the process id is free for others now
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, fmt.Errorf("%s: %w", args[0], err)
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

// signalNumber is the number by which exit codes tell signals apart.
func signalNumber(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return int(n)
	}
	return 1
}
