//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
	"unsafe"
)

// flock takes a lock on an open file without waiting.
func flock(f *os.File, exclusive bool) error {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errLocked
		default:
			return err
		}
	}
}

// serverUser returns the ids of the user that servers run as when root starts
// them: database servers refuse to run as root.
func serverUser() (uid, gid int, err error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody") // programs without a package
	}
	if err != nil {
		return 0, 0, err
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	return uid, gid, errors.Join(err1, err2)
}

// handOver gives a file or folder to the servers' user.
func handOver(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid, err := serverUser()
	if err != nil {
		return err
	}
	return os.Chown(path, uid, gid)
}

// asServer makes the command run as the servers' user, out of reach of the
// terminal's signals, which must not cut a start short.
func asServer(cmd *exec.Cmd) error {
	ownSession(cmd)
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid, err := serverUser()
	if err != nil {
		return fmt.Errorf("user for the server: %w", err)
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return nil
}

func ownSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// signalGroup signals a process that ownGroup has given a group, and the rest of it.
func signalGroup(p *os.Process, s os.Signal) {
	if n, ok := s.(syscall.Signal); ok {
		_ = syscall.Kill(-p.Pid, n) // an error means that all have ended
	}
}

func kill(pid int, name string) error {
	return syscall.Kill(pid, map[string]syscall.Signal{
		"TERM": syscall.SIGTERM, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL,
	}[name])
}

// alive counts a process that belongs to another user as well.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// foreground says whether standard input is a terminal whose keys go to this
// process's group.
func foreground() bool {
	var group int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, os.Stdin.Fd(), syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&group)))
	return errno == 0 && int(group) == syscall.Getpgrp()
}
