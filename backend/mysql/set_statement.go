package mysql

import (
	"strconv"
	"strings"
)

// From 11.6.2 on MariaDB has innodb_snapshot_isolation ON, and older versions know it. With it,
// locking a row fails with ER_CHECKREAD (1020) if a newer version was committed since the
// transaction began to read. InnoDB then rolls the transaction back. At READ COMMITTED this affects
// statements that read and then lock. Examples are a walk past a group whose receiver commits
// meanwhile, and a batch that has waited for its second guard.
//
// All statements here check what they have locked, and none relies on that error, so all of them
// run without it. Sessions of Open have it OFF. In a session of the application nothing is set:
// each statement turns it off for itself, which takes no further round trip.

// What MariaDB alone reads, at the beginning of a statement.
const (
	// unlimited keeps max_statement_time away. If that ends a statement at the wrong moment,
	// MariaDB (11.8.9) reports no error. An UPDATE by a key then changes no row, and a subquery is
	// NULL, so that a stream with messages looks empty.
	unlimited = "/*M! SET STATEMENT max_statement_time = 0 FOR */"

	// safely is for statements that sql_safe_updates would refuse, and which are unlimited.
	safely = "/*M! SET STATEMENT sql_safe_updates = 0, max_statement_time = 0 FOR */"
)

// sheltered makes a statement unlimited.
func sheltered(text string) string {
	if strings.HasPrefix(text, safely) {
		return text
	}
	return unlimited + "\n" + text
}

// current returns a statement for a session with innodb_snapshot_isolation. Of two
// SET STATEMENT, one in the other, MariaDB forgets the first.
func current(text string) string {
	const set = "SET STATEMENT innodb_snapshot_isolation = 0"
	if rest, ok := strings.CutPrefix(text, "/*M! SET STATEMENT "); ok {
		return set + ", " + strings.Replace(rest, "*/", "", 1)
	}
	return set + " FOR " + text
}

// server is what all sessions of a server have in common.
type server struct {
	snapshots bool // it knows innodb_snapshot_isolation
	packet    int  // max_allowed_packet
	mariadb   bool
	cluster   bool // it is a node of a Galera cluster
	vitess    bool // it is vtgate
	sharded   bool // with a keyspace of several shards
	endsLate  bool // innodb_rollback_on_timeout: a lock that is not had ends the transaction
}

// serverOf reads it from variables of a session.
func serverOf(v map[string]string) *server {
	_, known := v["innodb_snapshot_isolation"]
	packet, _ := strconv.Atoi(v["max_allowed_packet"])
	return &server{snapshots: known, packet: packet, mariadb: strings.Contains(v["version"], "MariaDB"), cluster: on(v["wsrep_on"]), vitess: isVitess(v["version"]), endsLate: on(v["innodb_rollback_on_timeout"])}
}
