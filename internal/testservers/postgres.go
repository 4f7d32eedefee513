package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// postgres runs PostgreSQL. Everyone is let in without password; user and database
// are called postgres.
type postgres struct{ release }

func (postgres) Packages() []string { return []string{"postgresql"} }

func (p postgres) Find() error {
	_, err := p.programs()
	return err
}

// programs returns the folder with initdb and the rest: that of the release, or else
// the one in PATH, or Debian's of the newest version.
func (p postgres) programs() (string, error) {
	if path, err := p.unpacked("initdb"); err == nil || p.exact {
		return filepath.Dir(path), err
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	best, newest := "", -1
	for _, dir := range dirs {
		version, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		if err != nil || version <= newest {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
			best, newest = dir, version
		}
	}
	if best == "" {
		return "", errors.New("no PostgreSQL server programs in PATH or /usr/lib/postgresql")
	}
	return best, nil
}

func (p postgres) Start(ctx context.Context, in *instance) (string, error) {
	bin, err := p.programs()
	if err != nil {
		return "", err
	}
	port, err := in.port(ctx, "sql")
	if err != nil {
		return "", err
	}
	data := filepath.Join(in.home(), "data")
	if err := in.program(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres",
		"-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"); err != nil {
		return "", err
	}
	// Settings go into the file: pg_ctl's -o passes through a shell.
	settings := fmt.Sprintf(`
listen_addresses = '127.0.0.1'
port = %d
unix_socket_directories = ''     # its path may be longer than a socket's can be
max_connections = 300            # test packages run side by side, with many readers each
max_prepared_transactions = 50
`, port)
	if in.fast {
		settings += fmt.Sprintf("fsync = off\nfull_page_writes = %t\n", in.torn)
	} else {
		settings += "shared_buffers = 1GB\n" // for benchmarks, as a server of its own would have
	}
	if err := in.configure(settings); err != nil {
		return "", err
	}
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port), p.control(ctx, in, "start")
}

// configure adds settings to the server's, which count more than earlier ones. The
// file stays the server's user's, even when root appends to it.
func (in *instance) configure(settings string) error {
	f, err := os.OpenFile(filepath.Join(in.home(), "data", "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(settings)
	return errors.Join(err, f.Close())
}

// control has pg_ctl do something, and wait for it.
func (p postgres) control(ctx context.Context, in *instance, args ...string) error {
	bin, err := p.programs()
	if err != nil {
		return err
	}
	log := filepath.Join(in.home(), "log")
	args = append([]string{"-D", filepath.Join(in.home(), "data"), "-l", log, "-s", "-w", "-t", "60"}, args...)
	if err := in.program(ctx, filepath.Join(bin, "pg_ctl"), args...); err != nil {
		return fmt.Errorf("%w%s", err, tail(log))
	}
	return nil
}

// Kill implements reviver. The processes of connections end by themselves when they
// notice that the first one has.
func (p postgres) Kill(ctx context.Context, in *instance) error {
	pid := in.pid(filepath.Join("data", "postmaster.pid"))
	if pid == 0 {
		return nil
	}
	if err := kill(pid, "KILL"); err != nil || !gone(ctx, 10*time.Second, func() bool { return p.Running(in) }) {
		return fmt.Errorf("process %d does not end", pid)
	}
	return nil
}

// Revive implements reviver.
func (p postgres) Revive(ctx context.Context, in *instance) error { return p.control(ctx, in, "start") }

// Quit implements reviver.
func (p postgres) Quit(ctx context.Context, in *instance) error {
	return p.control(ctx, in, "-m", "fast", "stop")
}

func (postgres) Running(in *instance) bool {
	return in.pid(filepath.Join("data", "postmaster.pid")) != 0
}

func (p postgres) Stop(ctx context.Context, in *instance) error {
	pid := in.pid(filepath.Join("data", "postmaster.pid"))
	// SIGQUIT is the immediate shutdown: no checkpoint, clients are thrown out.
	for _, s := range []string{"QUIT", "KILL"} {
		if pid == 0 || kill(pid, s) != nil {
			break
		}
		if gone(ctx, 10*time.Second, func() bool { return p.Running(in) }) {
			return nil
		}
	}
	if p.Running(in) {
		return fmt.Errorf("process %d does not end", pid)
	}
	return nil
}

func (postgres) Version(ctx context.Context, address string) (string, error) {
	version, err := queryRow(ctx, address, "SHOW server_version")
	if errors.Is(err, errPassword) {
		// A server of the user's: psql can do what this program cannot.
		psql, e := exec.LookPath("psql")
		if e != nil {
			return "", err
		}
		out, e := exec.CommandContext(ctx, psql, "-X", "-w", "-A", "-t", "-c", "SHOW server_version", address).Output()
		if e != nil {
			return "", err
		}
		version, err = string(out), nil
	}
	if err != nil {
		return "", err
	}
	// Debian appends its package version.
	version, _, _ = strings.Cut(strings.TrimSpace(version), " ")
	return version, nil
}
