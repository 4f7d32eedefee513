package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
)

// mysql runs MySQL. User root has no password; the database is called parley.
type mysql struct{ release }

// Packages: Debian's stable release has none.
func (mysql) Packages() []string { return nil }

func (m mysql) Find() error {
	_, err := m.command()
	return err
}

// command returns the beginning of mysqld's command line: that of the release, which
// does not lie where it was built for, or the system's, unless that is MariaDB's under
// its old name.
func (m mysql) command() ([]string, error) {
	path, err := m.program("mysqld")
	if err != nil {
		return nil, err
	}
	if strings.Contains(firstLine(path, "--no-defaults", "--version"), "MariaDB") {
		return nil, errors.New("no mysqld: the one that there is is MariaDB")
	}
	command := []string{path, "--no-defaults"}
	if root := m.root(); root != "" {
		share := filepath.Join(root, "usr/share/mysql")
		command = append(command, "--basedir="+filepath.Join(root, "usr"), "--lc-messages-dir="+share,
			"--character-sets-dir="+filepath.Join(share, "charsets"), "--plugin-dir="+filepath.Join(root, "usr/lib/mysql/plugin"))
	}
	return command, nil
}

func (m mysql) Start(ctx context.Context, in *instance) (string, error) {
	command, err := m.command()
	if err != nil {
		return "", err
	}
	port, err := in.port(ctx, "sql")
	if err != nil {
		return "", err
	}
	// The folder for files that its user may read is compiled in, and is not there.
	command = append(command, "--datadir="+filepath.Join(in.home(), "data"), "--secure-file-priv=", "--innodb-redo-log-capacity=96M")
	if err := in.program(ctx, command[0], append(command[1:], "--initialize-insecure")...); err != nil {
		return "", err
	}
	init, err := in.initFile()
	if err != nil {
		return "", err
	}
	args := append(command[1:], in.mysqlOptions(port)...)
	args = append(args, "--mysqlx=OFF", "--init-file="+init)
	if in.fast {
		args = append(args, "--skip-log-bin", "--innodb-flush-log-at-trx-commit=2", "--innodb-doublewrite=OFF")
	}
	if err := in.background("server", command[0], args...); err != nil {
		return "", err
	}
	address := mysqlAddress(port)
	return address, in.answers(ctx, "server", address)
}

func (mysql) Running(in *instance) bool { return in.pid("server.pid") != 0 }

func (mysql) Stop(ctx context.Context, in *instance) error { return in.killAll(ctx, "server") }

func (mysql) Version(ctx context.Context, address string) (string, error) {
	return greeting(ctx, address)
}
