package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// program runs one of the server's programs to its end, as the server's user. Its output goes to a
// file in the instance's home. A server in the background would keep a pipe open for ever.
func (in *instance) program(ctx context.Context, path string, args ...string) error {
	log := filepath.Join(in.home(), filepath.Base(path)+".out")
	f, err := os.Create(log)
	if err != nil {
		return err
	}
	defer f.Close()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = in.home() // a folder that the server's user can read
	cmd.Env = in.environ()
	cmd.Stdout, cmd.Stderr = f, f
	if err := asServer(cmd); err != nil {
		return err
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w%s", filepath.Base(path), err, tail(log))
	}
	return nil
}

// background starts a server that does not go into the background by itself. Its
// process id is in the file NAME.pid of the instance's home, its output in
// NAME.out.
func (in *instance) background(name, path string, args ...string) error {
	f, err := os.Create(filepath.Join(in.home(), name+".out"))
	if err != nil {
		return err
	}
	defer f.Close()
	cmd := exec.Command(path, args...)
	cmd.Dir = in.home()
	cmd.Env = in.environ()
	if in.path != "" {
		cmd.Env = append(cmd.Env, "PATH="+in.path+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	}
	cmd.Stdout, cmd.Stderr = f, f
	if err := asServer(cmd); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if err := os.WriteFile(filepath.Join(in.home(), name+".pid"), fmt.Appendln(nil, cmd.Process.Pid), 0o600); err != nil {
		return err
	}
	return in.shown(name, ended)
}

// shown waits until the system shows the command line of a process that was just
// started, by which pid knows it. Start returns before that: on Linux, as soon as the
// new program has taken the process over, while its arguments come after its pages.
func (in *instance) shown(name string, ended <-chan error) error {
	limit := time.After(10 * time.Second)
	for in.pid(name+".pid") == 0 {
		select {
		case err := <-ended:
			return fmt.Errorf("the server has ended: %v%s", err, tail(filepath.Join(in.home(), name+".out")))
		case <-limit:
			return fmt.Errorf("no process shows %s in its command line", in.home())
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// serverEnv keeps the caller's PGDATA, MYSQL_TCP_PORT and locale away from the servers.
func serverEnv(environ []string) []string {
	env := []string{"LC_ALL=C"}
	for _, v := range environ {
		if !strings.HasPrefix(v, "PG") && !strings.HasPrefix(v, "MYSQL_") && !strings.HasPrefix(v, "MARIADB_") && !strings.HasPrefix(v, "LC_ALL=") {
			env = append(env, v)
		}
	}
	return env
}

// pid returns the process id in a file of the instance's home if that process
// is alive and its command line names the home. A number alone proves nothing:
// after a restart of the machine it can be any process's.
func (in *instance) pid(file string) int {
	text, err := os.ReadFile(filepath.Join(in.home(), file))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid <= 1 || !in.owns(pid) {
		return 0
	}
	return pid
}

// owns reports whether a living process's command line names the home. The system shows
// no command line for a moment while a process executes another program, as the scripts
// of releases do. It never shows one of a zombie.
func (in *instance) owns(pid int) bool {
	for end := time.Now().Add(time.Second); alive(pid); time.Sleep(time.Millisecond) {
		if line := commandLine(pid); line != "" || time.Now().After(end) {
			return strings.Contains(line, in.home())
		}
	}
	return false
}

// commandLine returns a process's arguments, "" for none and for a dead one.
func commandLine(pid int) string {
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil {
		return string(bytes.ReplaceAll(text, []byte{0}, []byte{' '}))
	}
	text, _ := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return string(text)
}

// gone waits until a condition no longer holds.
func gone(ctx context.Context, limit time.Duration, there func() bool) bool {
	for end := time.Now().Add(limit); there(); {
		if time.Now().After(end) || sleep(ctx, 10*time.Millisecond) != nil {
			return false
		}
	}
	return true
}

// tail returns the end of a log for an error's text.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil || len(bytes.TrimSpace(text)) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return "\n\t" + strings.Join(lines[max(0, len(lines)-10):], "\n\t")
}

// firstLine runs a program for its version.
func firstLine(path string, args ...string) string {
	out, _ := exec.Command(path, args...).Output()
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}
