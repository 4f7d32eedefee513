package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// pgbouncer runs PgBouncer in transaction mode in front of the PostgreSQL server, with
// 20 connections per database. Each transaction gets a server's connection, and two in
// a row may get different ones. Whatever lives in a session (LISTEN, session-level
// locks, prepared statements, SET) is lost between them. Prepared statements stay off
// where PgBouncer could keep track of them, since the versions that cannot are still in
// use.
type pgbouncer struct{ release }

// poolSize is the number of connections to the server per database.
const poolSize = 60

func (pgbouncer) Packages() []string { return []string{"pgbouncer"} }

func (p pgbouncer) Find() error {
	_, err := p.program("pgbouncer")
	return err
}

func (p pgbouncer) Start(ctx context.Context, in *instance) (string, error) {
	program, err := p.program("pgbouncer")
	if err != nil {
		return "", err
	}
	port, err := in.port(ctx, "sql")
	if err != nil {
		return "", err
	}
	target, address, err := pgbouncerTarget(in.upstream, port)
	if err != nil {
		return "", err
	}
	data := filepath.Join(in.home(), "data")
	config := filepath.Join(data, "pgbouncer.ini")
	text := pgbouncerConfig(in.home(), target, port, firstLine(program, "--version"))
	if err := os.Mkdir(data, 0o700); err != nil {
		return "", err
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return "", err
	}
	if err := errors.Join(handOver(data), handOver(config)); err != nil {
		return "", err
	}
	if err := in.program(ctx, program, "-q", "-d", config); err != nil {
		return "", fmt.Errorf("%w%s", err, tail(filepath.Join(in.home(), "log")))
	}
	// It puts itself into the background before it listens.
	for end := time.Now().Add(20 * time.Second); ; {
		_, err := queryRow(ctx, address, "SHOW server_version")
		if err == nil {
			return address, nil
		}
		if time.Now().After(end) || sleep(ctx, 20*time.Millisecond) != nil {
			return "", fmt.Errorf("no answer: %w%s", err, tail(filepath.Join(in.home(), "log")))
		}
	}
}

// pgbouncerTarget turns the server's address into the connect string of
// PgBouncer's configuration and the address for the tests.
func pgbouncerTarget(upstream string, port int) (target, address string, err error) {
	u, err := url.Parse(upstream)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		// The error of url.Parse would repeat the address, password and all.
		return "", "", fmt.Errorf("in front of anything but a postgres:// address: %w", errors.ErrUnsupported)
	}
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	host, dbPort, user := u.Hostname(), u.Port(), u.User.Username()
	if h := u.Query().Get("host"); h != "" {
		host = h // a folder with the server's socket
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if dbPort == "" {
		dbPort = "5432"
	}
	if user == "" {
		user = "postgres"
	}
	target = "host=" + quote(host) + " port=" + dbPort + " user=" + quote(user)
	if password, ok := u.User.Password(); ok {
		target += " password=" + quote(password)
	}
	database := strings.TrimPrefix(u.Path, "/")
	if database == "" {
		database = user
	}
	a := url.URL{Scheme: "postgres", User: url.User(user), Host: fmt.Sprintf("127.0.0.1:%d", port), Path: "/" + database, RawQuery: "sslmode=disable"}
	return target, a.String(), nil
}

// pgbouncerConfig is the whole configuration. auth_type=any lets everyone in,
// as the one user named in the target.
func pgbouncerConfig(home, target string, port int, version string) string {
	config := fmt.Sprintf(`[databases]
* = %s

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = %d
max_client_conn = 1000
ignore_startup_parameters = extra_float_digits
; come back soon after the server does
server_login_retry = 1
; a server of the user's may insist on TLS
server_tls_sslmode = prefer
; every database has a pool of its own, and a test may make databases
server_idle_timeout = 30
pidfile = %[4]s/pid
logfile = %[4]s/log
log_connections = 0
log_disconnections = 0
`, target, port, poolSize, home)
	if tracksStatements(version) {
		config += "max_prepared_statements = 0\n"
	}
	return config
}

// tracksStatements reads "PgBouncer 1.21.0": from then on there is a setting
// for prepared statements, which older versions refuse to hear of.
func tracksStatements(version string) bool {
	fields := strings.Fields(version)
	if len(fields) < 2 {
		return false
	}
	parts := strings.Split(fields[1], ".")
	if len(parts) < 2 {
		return false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (major > 1 || minor >= 21)
}

func (pgbouncer) Running(in *instance) bool { return in.pid("pid") != 0 }

func (p pgbouncer) Stop(ctx context.Context, in *instance) error {
	pid := in.pid("pid")
	// Old versions end at once at SIGTERM, newer ones wait for their clients.
	for _, s := range []string{"TERM", "KILL"} {
		if pid == 0 || kill(pid, s) != nil {
			break
		}
		if gone(ctx, 2*time.Second, func() bool { return p.Running(in) }) {
			return nil
		}
	}
	if p.Running(in) {
		return fmt.Errorf("process %d does not end", pid)
	}
	return nil
}

// Version also names the server behind, which answers only if all is well.
func (pgbouncer) Version(ctx context.Context, address string) (string, error) {
	behind, err := postgres{}.Version(ctx, address)
	if err != nil {
		return "", err
	}
	version := "of unknown version"
	// The console is open to everyone on a server of ours, else perhaps not.
	if u, err := url.Parse(address); err == nil {
		u.Path = "/pgbouncer"
		if row, err := queryRow(ctx, u.String(), "SHOW VERSION"); err == nil {
			version = strings.TrimPrefix(row, "PgBouncer ")
		}
	}
	return version + " before PostgreSQL " + behind, nil
}
