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

// command returns the beginning of mysqld's command line. It uses the release's mysqld, which is
// not in the folder for which it was built. Or it uses the system's, unless that is MariaDB under
// its old name.
func (m mysql) command() ([]string, error) {
	path, err := m.program("mysqld")
	if err != nil {
		return nil, err
	}
	if strings.Contains(firstLine(path, "--no-defaults", "--version"), "MariaDB") {
		return nil, errors.New("no mysqld: mysqld is MariaDB here")
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
	port, err := in.port(ctx, "sql")
	if err != nil {
		return "", err
	}
	if err := m.init(ctx, in, filepath.Join(in.home(), "data")); err != nil {
		return "", err
	}
	return mysqlAddress(port), m.serve(ctx, in, port)
}

// init makes an empty data folder.
func (m mysql) init(ctx context.Context, in *instance, data string) error {
	command, err := m.onData(data)
	if err != nil {
		return err
	}
	return in.program(ctx, command[0], append(command[1:], "--initialize-insecure")...)
}

// onData is the command line up to the data. The folder for files that the server's
// user may read is compiled in, and is not there.
func (m mysql) onData(data string) ([]string, error) {
	command, err := m.command()
	return append(command, "--datadir="+data, "--secure-file-priv=", "--innodb-redo-log-capacity=96M"), err
}

// serve starts the server on the data that are there.
func (m mysql) serve(ctx context.Context, in *instance, port int) error {
	init, err := in.initFile()
	if err != nil {
		return err
	}
	options := []string{"--init-file=" + init}
	if in.fast {
		options = append(options, "--skip-log-bin")
	}
	return m.run(ctx, in, "server", filepath.Join(in.home(), "data"), port, options...)
}

// run starts a server in the background, and waits until it answers.
func (m mysql) run(ctx context.Context, in *instance, name, data string, port int, options ...string) error {
	command, err := m.onData(data)
	if err != nil {
		return err
	}
	args := append(command[1:], in.mysqlOptions(port)...)
	args = append(args, "--mysqlx=OFF")
	if in.fast {
		args = append(args, in.unsafe()...)
	}
	if err := in.background(name, command[0], append(args, options...)...); err != nil {
		return err
	}
	return in.answers(ctx, name, mysqlAddress(port))
}

// Kill implements reviver.
func (m mysql) Kill(ctx context.Context, in *instance) error { return m.Stop(ctx, in) }

// Revive implements reviver.
func (m mysql) Revive(ctx context.Context, in *instance) error {
	port, err := in.lastPort(ctx, "sql")
	if err != nil {
		return err
	}
	return m.serve(ctx, in, port)
}

// Quit implements reviver.
func (m mysql) Quit(ctx context.Context, in *instance) error { return in.quit(ctx, "server") }

func (mysql) Running(in *instance) bool { return in.pid("server.pid") != 0 }

func (mysql) Stop(ctx context.Context, in *instance) error { return in.killAll(ctx, "server") }

func (mysql) Version(ctx context.Context, address string) (string, error) {
	return greeting(ctx, address)
}
