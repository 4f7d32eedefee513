package main

import (
	"strings"
	"time"
)

// step is one call of go test.
type step struct {
	name   string // of its log
	folder string // of its module, "" for this one
	race   bool
	run    string   // -run
	skip   string   // -skip
	flags  []string // others
	tests  []string // packages, "!" before a pattern leaves out what it matches
}

// part is what one target of make runs: chains of steps, which work at the same time, each
// a step after the other.
type part struct {
	name    string
	says    string
	servers []string // none: all that are not on demand
	browser bool     // Chromium is needed too
	limit   time.Duration
	draws   bool // a seed of its own each time
	chains  [][]step
}

// The race detector is for all but SQLite itself: C that was translated into Go, with locks of its
// own, on which it would spend most of the time.
var raceFlags = []string{"-race", "-gcflags=modernc.org/sqlite/lib=-race=false", "-gcflags=modernc.org/libc=-race=false"}

// The race detector, which takes three times the processor time, is for what goroutines share:
// the library, and the suite on the store in memory. The rest runs without it: the backends of
// servers, the suite on SQLite, tests of single statements and of the suite itself.
var raced = []string{".", "./conformance", "./internal/memstore", "./backend/memory", "./backend/sqlite"}

// Tests by their names: those that the race step leaves out, and those that only parts of verify run.
const (
	unraced = `Conformance|Backend.*|Plans|Statements|PlainBackend`

	suiteTests   = `Conformance`
	mutantTests  = `Mutants`
	faultTests   = `Faults`
	clusterTests = `Cluster.*`
	galeraTests  = `Galera`
	vitessTests  = `(Conformance)?Vitess.*`
	driverTests  = `Conformance(Open|PGX|PGXPool|PgBouncer|Outside)|Backend(PGX|Pool|Unprepared)|WorkerPGX`
	lockTests    = `Conformance(NativeLocks|NativeLocksPGX|MixedLocks)`
	upgradeTests = `Upgrade|Versions`
	poolTests    = `WorkersOnSmallPools|ServerEndsTransactions`
)

// named matches tests by the patterns of their names without the word Test.
func named(patterns ...string) string { return "^Test(" + strings.Join(patterns, "|") + ")$" }

// parts is the table.
var parts = []part{
	{name: "gate", says: "what must pass", limit: 20 * time.Minute, chains: [][]step{
		{
			{name: "race", race: true, skip: named(unraced, mutantTests), tests: raced},
			{name: "sqlite", run: named(unraced), tests: []string{"./backend/sqlite"}},
			{name: "rest", skip: named(faultTests, clusterTests, mutantTests), tests: append([]string{"./...", "!./backend/postgres/...", "!./backend/mysql"}, without(raced)...)},
			{name: "libraries", folder: "examples/libraries", tests: []string{"./..."}},
			{name: "site", folder: "docs/site", tests: []string{"./..."}},
			{name: "browser", folder: "console/browsertest", run: named("Smoke"), tests: []string{"./..."}},
		},
		{
			{name: "postgres", skip: named(driverTests, lockTests, upgradeTests, poolTests), tests: []string{"./backend/postgres/..."}},
			{name: "suite", run: named(unraced), tests: []string{"./conformance"}},
			{name: "bolt", folder: "examples/backend-bolt", tests: []string{"./..."}},
		},
		{
			{name: "mysql", skip: named(suiteTests, galeraTests, vitessTests, upgradeTests, poolTests), tests: []string{"./backend/mysql"}},
			{name: "mysql-suite", run: named(suiteTests), tests: []string{"./backend/mysql"}},
		},
	}},
	verify("mutants", "a broken store for each sentence, which its check has to catch, and a broken console", nil,
		step{run: named(mutantTests), tests: []string{"./conformance", "./console"}}),
	// It wants the machine to itself: on a busy machine, writers wait for each other for longer
	// than they may.
	verify("faults", "short runs of the faults, on each engine, with the race detector", nil,
		step{race: true, run: named(faultTests), tests: []string{"./internal/faults"}}),
	verify("drivers", "PostgreSQL by other drivers and pools, and behind PgBouncer", []string{"postgres", "pgbouncer"},
		step{run: named(driverTests), tests: []string{"./backend/postgres/..."}}),
	verify("locks", "PostgreSQL's own application locks, and both kinds in one store", []string{"postgres", "pgbouncer"},
		step{run: named(lockTests), tests: []string{"./backend/postgres/..."}}),
	verify("upgrades", "old schemas, and programs of two versions at once", []string{"postgres", "pgbouncer", "mariadb", "mysql"},
		step{run: named(upgradeTests), tests: []string{"./backend/postgres", "./backend/mysql"}}),
	verify("pools", "workers on small pools, and where the server ends their transactions", []string{"postgres", "pgbouncer", "mariadb", "mysql"},
		step{run: named(poolTests), tests: []string{"./backend/postgres", "./backend/mysql"}}),
	withBrowser(verify("console", "the console in a browser, on SQLite and PostgreSQL", []string{"postgres"},
		step{folder: "console/browsertest", tests: []string{"./..."}})),
	verify("standby", "operators' reads and the console on a standby of PostgreSQL and on a secondary of MySQL", []string{"postgres-pair", "mysql-group"},
		step{run: named("OnAStandby"), tests: []string{"./console"}}),
	verify("galera", "a cluster of Galera, of which nodes are killed", []string{"galera"},
		step{run: named(galeraTests), tests: []string{"./backend/mysql"}}),
	// These start their servers themselves, and kill them.
	verify("group", "a replication group of MySQL, whose primary gives way and is killed", []string{"sqlite"},
		step{run: named("ClusterMySQL"), tests: []string{"./internal/faults"}}),
	verify("patroni", "PostgreSQL under Patroni, whose primary gives way and is killed", []string{"sqlite"},
		step{run: named("ClusterPatroni"), tests: []string{"./internal/faults"}}),
	verify("vitess", "the suite, and losses of transactions, through vtgate", []string{"vitess"},
		step{run: named(vitessTests), tests: []string{"./backend/mysql", "./examples/stores"}}),
}

// verify is a part of make verify, with one step.
func verify(name, says string, servers []string, s step) part {
	s.name = name
	return part{name: name, says: says, servers: servers, limit: 45 * time.Minute, draws: true, chains: [][]step{{s}}}
}

func withBrowser(p part) part { p.browser = true; return p }

// without makes patterns that leave packages out.
func without(packages []string) (list []string) {
	for _, p := range packages {
		list = append(list, "!"+p)
	}
	return list
}
