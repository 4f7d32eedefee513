package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
)

// engine is one kind of server that can be run on this machine. An engine
// keeps no state: all of it is in the instance's folder, because the process
// that stops a server has often not started it.
//
// Start, Stop and Running are called by one process at a time for an instance.
type engine interface {
	// Find looks for the programs. Its error says what is missing.
	Find() error

	// Packages names the Debian packages that bring the programs.
	Packages() []string

	// Start brings up an empty server in in.home(), which is empty and belongs to the
	// server's user. It returns the value of the variable when the server answers there. A
	// cluster may return several addresses with commas between. What lies in the home's
	// folder data is deleted after Stop, the rest, which should be logs, before the next
	// Start.
	Start(ctx context.Context, in *instance) (address string, err error)

	// Running says whether a process of this instance is alive.
	Running(in *instance) bool

	// Stop ends the processes, without care for the data.
	Stop(ctx context.Context, in *instance) error

	// Version asks the server at an address, which this program need not have started.
	Version(ctx context.Context, address string) (string, error)
}

// builder is implemented by engines whose programs are built from source.
type builder interface {
	// Build makes what Find has missed.
	Build(ctx context.Context, log io.Writer) error
}

// spec is one line of the table of servers.
type spec struct {
	name     string // as it stands in PARLEY_TEST_REQUIRE
	variable string // the environment variable that tells the tests
	needs    string // the server that this one stands in front of, or ""
	engine   engine // nil: there is no server, only a Go module in the test process
	module   string // that module
	onDemand bool   // only for those who ask for it by name
}

// specs is the table: one line per server, one file per engine. A server comes
// after the server that it needs.
var specs = []spec{
	{name: "sqlite", module: "modernc.org/sqlite"},
	{name: "postgres", variable: "PARLEY_TEST_POSTGRES", engine: postgres{postgres18}},
	{name: "pgbouncer", variable: "PARLEY_TEST_PGBOUNCER", needs: "postgres", engine: pgbouncer{pgbouncerNew}},
	{name: "mariadb", variable: "PARLEY_TEST_MARIADB", engine: mariadb{release: mariadb118}},
	{name: "mysql", variable: "PARLEY_TEST_MYSQL", engine: mysql{mysql9}},

	{name: "postgres-15", variable: "PARLEY_TEST_POSTGRES", engine: postgres{postgres15}, onDemand: true},
	{name: "pgbouncer-1.18", variable: "PARLEY_TEST_PGBOUNCER", needs: "postgres-15", engine: pgbouncer{pgbouncer118}, onDemand: true},
	{name: "mariadb-10.11", variable: "PARLEY_TEST_MARIADB", engine: mariadb{release: mariadb1011}, onDemand: true},
	{name: "mariadb-10.11-snapshots", variable: "PARLEY_TEST_MARIADB", engine: mariadb{mariadb1011, snapshots}, onDemand: true},
	{name: "postgres-pair", variable: "PARLEY_TEST_POSTGRES", engine: postgresPair{postgres{postgres18}}, onDemand: true},
	{name: "postgres-patroni", variable: "PARLEY_TEST_POSTGRES", engine: patroni{postgres{patroni18}}, onDemand: true},
	{name: "mysql-group", variable: "PARLEY_TEST_MYSQL", engine: mysqlGroup{mysql{mysqlGroup9}}, onDemand: true},
	{name: "galera", variable: "PARLEY_TEST_GALERA", engine: galera{galera1011}, onDemand: true},
	{name: "galera-11.8", variable: "PARLEY_TEST_GALERA", engine: galera{galera118}, onDemand: true},
	{name: "vitess", variable: "PARLEY_TEST_VITESS", engine: vitess{mysql{mysql9}}, onDemand: true},
}

// The releases. Debian unstable has one version of each server at a time, the newest. The older
// versions are those of Debian 12.
var (
	postgres18   = release{"postgres-18", newest, []string{"postgresql-18"}, false}
	pgbouncerNew = release{"pgbouncer", newest, []string{"pgbouncer"}, false}
	mariadb118   = release{"mariadb-11.8", newest, mariadb{}.Packages(), false}
	mysql9       = release{"mysql-9", newest, []string{"mysql-server-core"}, false}
	patroni18    = release{"patroni-18", newest, []string{"postgresql-18", "patroni", "etcd-server", "python3-etcd"}, false}
	mysqlGroup9  = release{"mysql-group-9", newest, []string{"mysql-server-core", "mysql-client-core"}, false}

	postgres15   = release{"postgres-15", older, []string{"postgresql-15"}, true}
	pgbouncer118 = release{"pgbouncer-1.18", older, []string{"pgbouncer"}, true}
	mariadb1011  = release{"mariadb-10.11", older, mariadb{}.Packages(), true}
	galera1011   = release{"galera-10.11", older, append(mariadb{}.Packages(), "mariadb-server", "galera-4", "rsync"), true}
	galera118    = release{"galera-11.8", newest, append(mariadb{}.Packages(), "mariadb-server", "galera-4", "rsync"), false}
	snapshots    = []string{"--innodb-snapshot-isolation=ON"} // as newer ones have by themselves
)

// builtin is the version of an engine that lives in the test process.
func (s spec) builtin() string {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Path}} {{.Version}}", s.module).Output()
	if err != nil {
		return s.module
	}
	return strings.TrimSpace(string(out))
}

// checkNames refuses a name that is not in the table: a slip in
// PARLEY_TEST_REQUIRE must not pass for a server that was found.
func checkNames(names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(specs, func(s spec) bool { return s.name == name }) {
			var known []string
			for _, s := range specs {
				known = append(known, s.name)
			}
			return fmt.Errorf("unknown server %q, known are %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// splitNames reads a list with commas or blanks between the names.
func splitNames(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

func contains(names []string, name string) bool { return slices.Contains(names, name) }
