package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// mysql runs MySQL. Debian stable has no packages of it, its unstable
// distribution has: they are unpacked, with all that they need down to the C
// library, into a folder of the cache, and nothing is installed. User root has no
// password; the database is called parley.
type mysql struct{}

// Packages: those that Fetch unpacks.
func (mysql) Packages() []string { return []string{"mysql-server-core"} }

func (mysql) Find() error {
	_, err := mysqlProgram()
	return err
}

// mysqlProgram returns the beginning of mysqld's command line: the one in PATH
// unless it is MariaDB's under its old name, or the one in the cache with the
// loader and libraries that came with it.
func mysqlProgram() ([]string, error) {
	if path, err := serverProgram("mysqld"); err == nil && !strings.Contains(firstLine(path, "--no-defaults", "--version"), "MariaDB") {
		return []string{path}, nil
	}
	root, err := mysqlRoot()
	if err != nil {
		return nil, err
	}
	program := filepath.Join(root, "usr/sbin/mysqld")
	if _, err := os.Stat(program); err != nil {
		return nil, errors.New("no mysqld in PATH, /usr/sbin or the cache folder")
	}
	loaders, _ := filepath.Glob(filepath.Join(root, "usr/lib*/*/ld-linux*.so.*"))
	more, _ := filepath.Glob(filepath.Join(root, "usr/lib*/ld-linux*.so.*"))
	loaders = append(loaders, more...)
	if len(loaders) == 0 {
		return nil, fmt.Errorf("no loader for programs in %s", root)
	}
	libraries, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu*"))
	if err != nil || len(libraries) == 0 {
		return nil, fmt.Errorf("no libraries in %s: %w", root, err)
	}
	private, _ := filepath.Glob(filepath.Join(root, "usr/lib/*/*mysql*/private"))
	share := filepath.Join(root, "usr/share/mysql")
	return []string{loaders[0], "--library-path", strings.Join(append(libraries, private...), ":"), program,
		"--no-defaults", "--basedir=" + filepath.Join(root, "usr"), "--lc-messages-dir=" + share,
		"--character-sets-dir=" + filepath.Join(share, "charsets"), "--plugin-dir=" + filepath.Join(root, "usr/lib/mysql/plugin")}, nil
}

// mysqlRoot is the folder in which the packages lie unpacked.
func mysqlRoot() (string, error) {
	cache, err := cacheFolder(environment{get: os.Getenv})
	return filepath.Join(cache, "programs", "mysql"), err
}

var archive = regexp.MustCompile(`https?://\S+/debian/?(\s|$)`)

// Fetch implements fetcher. apt works with a folder of its own, in which no
// package is installed, so that it gets all that there is to get.
func (m mysql) Fetch(ctx context.Context, log io.Writer) error {
	for _, name := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("no %s to get it with", name)
		}
	}
	root, err := mysqlRoot()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		return err
	}
	fetching, err := lock(ctx, root+".lock")
	if err != nil {
		return err
	}
	defer fetching.Close()
	if m.Find() == nil {
		return nil // somebody else has fetched it meanwhile
	}
	mirror := "http://deb.debian.org/debian"
	lists, _ := filepath.Glob("/etc/apt/sources.list.d/*")
	for _, list := range append(lists, "/etc/apt/sources.list") {
		if text, err := os.ReadFile(list); err == nil && archive.Match(text) {
			mirror = strings.TrimSpace(string(archive.Find(text)))
		}
	}
	const keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
	if _, err := os.Stat(keys); err != nil {
		return fmt.Errorf("no keys of Debian's: %w", err)
	}
	fmt.Fprintf(log, "testservers: fetching %v of Debian unstable\n", m.Packages())
	apt := root + ".apt"
	defer os.RemoveAll(apt)
	for _, dir := range []string{"lists/partial", "cache/archives/partial", "etc", "root"} {
		if err := os.MkdirAll(filepath.Join(apt, dir), 0o755); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"status":           "",
		"etc/sources.list": fmt.Sprintf("deb [signed-by=%s] %s sid main\n", keys, mirror),
	} {
		if err := os.WriteFile(filepath.Join(apt, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	private := []string{
		"-o", "Dir::State=" + apt, "-o", "Dir::State::status=" + apt + "/status", "-o", "Dir::State::lists=" + apt + "/lists",
		"-o", "Dir::Cache=" + apt + "/cache", "-o", "Dir::Etc::sourcelist=" + apt + "/etc/sources.list",
		"-o", "Dir::Etc::sourceparts=/dev/null", "-o", "Dir::Etc::preferencesparts=/dev/null", "-o", "Acquire::Languages=none",
		"-o", "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false",
		"-o", "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
		"-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=1",
	}
	if err := aptGet(ctx, log, append(private, "update")...); err != nil {
		return fmt.Errorf("apt-get update: %w", err)
	}
	if err := aptGet(ctx, log, append(append(private, "install", "--download-only"), m.Packages()...)...); err != nil {
		return fmt.Errorf("apt-get install --download-only: %w", err)
	}
	packages, err := filepath.Glob(filepath.Join(apt, "cache/archives/*.deb"))
	if err != nil {
		return err
	}
	for _, p := range packages {
		if out, err := exec.CommandContext(ctx, "dpkg-deb", "-x", p, filepath.Join(apt, "root")).CombinedOutput(); err != nil {
			return fmt.Errorf("dpkg-deb -x %s: %w: %s", filepath.Base(p), err, out)
		}
	}
	if err := os.RemoveAll(root); err != nil {
		return err
	}
	return os.Rename(filepath.Join(apt, "root"), root)
}

func (mysql) Start(ctx context.Context, in *instance) (string, error) {
	command, err := mysqlProgram()
	if err != nil {
		return "", err
	}
	port, err := in.port(ctx, "sql")
	if err != nil {
		return "", err
	}
	if len(command) == 1 {
		command = append(command, "--no-defaults")
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
