package backend

import "time"

// Info describes a store.
type Info struct {
	Engine   string            // "postgres", "sqlite", …
	Version  string            // the server's own answer
	Settings map[string]string // what matters to Parley: isolation, durability, …
	Clock    time.Time         // of the store; zero if it goes by this process's
	Warnings []Warning         // what hinders messages, or should be known

	Schema     int // the schema's version; 0: there is none
	Program    int // that of this program: the schema that its Migrate makes
	MinProgram int // programs of a lower version are refused
}

// Warning is something about a store that is not as it should be.
type Warning struct {
	Code   string // one of those below, or the backend's own
	Bad    bool   // it keeps messages from moving
	Object string // a table, an index; empty: the store
	Text   string
	Hint   string // what to do
}

// The codes of warnings.
const (
	WarnDurability = "store.durability" // a crash may lose what was confirmed, or more
	WarnReadOnly   = "store.readonly"   // it takes no writes: a replica, a file's permissions
	WarnCluster    = "store.cluster"    // a node that does not know the others' locks, or takes over before it knows what they committed
	WarnIsolation  = "store.isolation"  // the level of the application's own transactions
	WarnJournal    = "store.journal"    // readers and writers wait for each other
	WarnVacuum     = "store.vacuum"     // what was deleted is not cleaned up
	WarnPooler     = "store.pooler"     // connections change their server between transactions
	WarnPool       = "pool.short"       // a program had no connection free in time; Parley itself says so
	WarnTimeout    = "store.timeout"    // the server ends transactions soon
	WarnLimits     = "store.limits"     // limits of the server that a program may reach
	WarnProcedures = "store.procedures" // the procedures for posting by SQL are left out
	WarnListener   = "store.listener"   // no wake-ups from other processes: receivers poll

	WarnTable = "schema.table" // a table is missing
	WarnIndex = "schema.index" // an index is missing or cannot be used
	WarnGrant = "schema.grant" // the role lacks privileges
	WarnRole  = "schema.role"  // the role has those of a worker, an operator or a sender
)
