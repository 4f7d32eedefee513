package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// mariadb runs MariaDB. User root has no password; the database is called parley.
type mariadb struct {
	release
	options []string // beyond those of all
}

// Packages: the programs alone, without a service.
func (mariadb) Packages() []string { return []string{"mariadb-server-core", "mariadb-client-core"} }

func (m mariadb) Find() error {
	for _, name := range []string{"mariadbd", "mariadb-install-db"} {
		if _, err := m.program(name); err != nil {
			return err
		}
	}
	return nil
}

// serverProgram looks for a program where servers are, too: sbin is not in every PATH.
func serverProgram(name string) (string, error) {
	for _, path := range []string{name, "/usr/sbin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("no %s in PATH or /usr/sbin", name)
}

func (m mariadb) Start(ctx context.Context, in *instance) (string, error) {
	port, err := in.port(ctx, "sql")
	if err != nil {
		return "", err
	}
	data := filepath.Join(in.home(), "data")
	if err := m.init(ctx, in, data); err != nil {
		return "", err
	}
	return mysqlAddress(port), m.serve(ctx, in, port)
}

// serve starts the server on the data that are there.
func (m mariadb) serve(ctx context.Context, in *instance, port int) error {
	if err := m.run(in, "server", filepath.Join(in.home(), "data"), port, m.options...); err != nil {
		return err
	}
	return in.answers(ctx, "server", mysqlAddress(port))
}

// Kill implements reviver.
func (m mariadb) Kill(ctx context.Context, in *instance) error { return m.Stop(ctx, in) }

// Revive implements reviver.
func (m mariadb) Revive(ctx context.Context, in *instance) error {
	port, err := in.lastPort(ctx, "sql")
	if err != nil {
		return err
	}
	return m.serve(ctx, in, port)
}

// Quit implements reviver.
func (m mariadb) Quit(ctx context.Context, in *instance) error { return in.quit(ctx, "server") }

// quit asks a process that runs in the background to end, and waits until it has.
func (in *instance) quit(ctx context.Context, name string) error {
	if pid := in.pid(name + ".pid"); pid != 0 {
		if err := kill(pid, "TERM"); err != nil || !gone(ctx, time.Minute, func() bool { return in.pid(name+".pid") != 0 }) {
			return fmt.Errorf("process %d does not end", pid)
		}
	}
	return nil
}

// mysqlAddress is the address of a server on this machine.
func mysqlAddress(port int) string { return fmt.Sprintf("mysql://root@127.0.0.1:%d/parley", port) }

// init makes an empty data folder.
func (m mariadb) init(ctx context.Context, in *instance, data string) error {
	install, err := m.program("mariadb-install-db")
	if err != nil {
		return err
	}
	return in.program(ctx, install, append([]string{"--no-defaults", "--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-name-resolve", "--datadir=" + data}, m.base()...)...)
}

// base tells the programs of the release, which do not lie where they were built for,
// where the rest is.
func (m mariadb) base() []string {
	if root := m.root(); root != "" {
		return []string{"--basedir=" + filepath.Join(root, "usr")}
	}
	return nil
}

// run starts a server in the background. What is there of options goes
// before those of the instance.
func (m mariadb) run(in *instance, name, data string, port int, options ...string) error {
	program, err := m.program("mariadbd")
	if err != nil {
		return err
	}
	// A server that starts removes the temporary tables that it finds, of which another server dies.
	temporary := data + "-temporary"
	if err := in.folder(temporary); err != nil {
		return err
	}
	args := []string{"--no-defaults", "--datadir=" + data, "--tmpdir=" + temporary, "--innodb-log-file-size=96M", "--skip-name-resolve"}
	args = append(args, m.base()...)
	args = append(args, in.mysqlOptions(port)...)
	if in.fast {
		args = append(args, in.unsafe()...)
	}
	init, err := in.initFile()
	if err != nil {
		return err
	}
	return in.background(name, program, append(append(args, "--init-file="+init), options...)...)
}

// mysqlOptions are those that MySQL and MariaDB have in common. The socket's
// path, which must not be long, is relative to the data folder.
func (in *instance) mysqlOptions(port int) []string {
	memory := "1G" // for benchmarks, as a server of its own would have
	if in.fast {
		memory = "256M"
	}
	return []string{"--bind-address=127.0.0.1", fmt.Sprintf("--port=%d", port), "--socket=socket",
		"--max-connections=500", "--max-allowed-packet=64M", "--innodb-buffer-pool-size=" + memory,
		"--innodb-print-all-deadlocks"} // the server's log explains each
}

// unsafe are the options of a server that does not wait for the disk. What the machine has
// taken is there after the server's death, and only after the machine's it may be missing. Pages
// are written once, unless the server will be killed while it writes one.
func (in *instance) unsafe() []string {
	doublewrite := "OFF"
	if in.torn {
		doublewrite = "ON"
	}
	return []string{"--innodb-flush-log-at-trx-commit=2", "--innodb-flush-method=nosync", "--innodb-doublewrite=" + doublewrite}
}

// initFile writes the statements that a server runs when it starts.
func (in *instance) initFile() (string, error) {
	path := filepath.Join(in.home(), "init.sql")
	text := "CREATE DATABASE IF NOT EXISTS parley;\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return "", err
	}
	return path, handOver(path)
}

// answers waits until a server of this instance that runs in the background
// greets a client that connects.
func (in *instance) answers(ctx context.Context, name, address string) error {
	log := filepath.Join(in.home(), name+".out")
	for end := time.Now().Add(60 * time.Second); ; {
		_, err := greeting(ctx, address)
		if err == nil {
			return nil
		}
		if in.pid(name+".pid") == 0 {
			return fmt.Errorf("the server has ended%s", tail(log))
		}
		if time.Now().After(end) || sleep(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("no answer: %w%s", err, tail(log))
		}
	}
}

func (mariadb) Running(in *instance) bool { return in.pid("server.pid") != 0 }

func (mariadb) Stop(ctx context.Context, in *instance) error { return in.killAll(ctx, "server") }

// killAll ends processes that run in the background. Their data is worth nothing.
func (in *instance) killAll(ctx context.Context, names ...string) error {
	var errs []error
	for _, name := range names {
		pid := in.pid(name + ".pid")
		if pid == 0 {
			continue
		}
		if err := kill(pid, "KILL"); err != nil || !gone(ctx, 10*time.Second, func() bool { return in.pid(name+".pid") != 0 }) {
			errs = append(errs, fmt.Errorf("process %d does not end", pid))
		}
		_ = kill(-pid, "KILL") // scripts that it had at work, in its session; there may be none
	}
	return errors.Join(errs...)
}

func (mariadb) Version(ctx context.Context, address string) (string, error) {
	return greeting(ctx, address)
}
