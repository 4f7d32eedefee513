package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/parleymq/parley/backend/sqlstore"
)

// newSession looks at a connection.
func (p *pool) newSession(ctx context.Context, c *sql.Conn) (*session, error) {
	v, err := p.sessionVariables(ctx, c)
	if err != nil {
		return nil, err
	}
	s := &session{committed: v["transaction_isolation"] == "READ-COMMITTED" || v["tx_isolation"] == "READ-COMMITTED"}
	s.id, _ = strconv.ParseInt(v["pseudo_thread_id"], 10, 64)
	s.packet, _ = strconv.Atoi(v["max_allowed_packet"])
	server := serverOf(v)
	if server.vitess {
		if known := p.server.Load(); known != nil && known.vitess {
			server.sharded = known.sharded
		} else if server.sharded, err = isSharded(ctx, c); err != nil {
			return nil, err
		}
	}
	p.server.Store(server)
	if s.snapshots = on(v["innodb_snapshot_isolation"]); s.snapshots && p.side != nil { // Open's own session
		if _, err := c.ExecContext(ctx, "SET SESSION innodb_snapshot_isolation = OFF"); err != nil {
			return nil, err
		}
		s.snapshots = false
	}
	s.refused = refusal(server, v)
	if server.cluster {
		err = p.catchUp(ctx, c, v["wsrep_sync_wait"])
	}
	return s, err
}

// catchUp waits, in a new session on a node of Galera, until the node has applied what others have committed. When a node
// is lost, programs come to the next one earlier than that. A transaction there may lock a row that another node has
// deleted, and rely on it. The server does not refuse its COMMIT: it undoes the transaction, applies the deletion, and then
// applies the transaction's rows once more.
func (p *pool) catchUp(ctx context.Context, c *sql.Conn, wait string) error {
	err := p.together(ctx, c, []string{"SET SESSION wsrep_sync_wait = 1", "SELECT 1", "SET SESSION wsrep_sync_wait = " + wait})
	if err != nil {
		sqlstore.Discard(c)
	}
	return err
}

// ErrNoBinaryLog is the error of Open, or of the first use of New's store, on a MariaDB node of a Galera cluster whose
// log_bin is off. Such a node sends to the other nodes what a transaction has undone by ROLLBACK TO SAVEPOINT. They
// keep it, although this node does not have it.
var ErrNoBinaryLog = errors.New("parley: mysql: log_bin is off on a node of Galera, so the other nodes get what a rollback to a savepoint" +
	" has undone: set log_bin and log_slave_updates on all nodes")

// refusal is why a session cannot be used, nil if it can.
func refusal(server *server, v map[string]string) error {
	switch {
	case server.sharded:
		return ErrSharded
	case server.cluster && !on(v["log_bin"]) && strings.Contains(v["version"], "MariaDB"):
		return ErrNoBinaryLog
	case (v["pseudo_thread_id"] == "" || v["pseudo_thread_id"] == "0") && !server.vitess:
		return errors.New("parley: mysql: the server does not report the connection's id")
	case !on(v["autocommit"]):
		return errors.New("parley: mysql: autocommit is off in sessions of this handle: remove that setting from the data source name or init_connect")
	}
	if c := v["completion_type"]; c != "NO_CHAIN" && c != "" { // CHAIN begins a transaction, and later posts would be in it
		return fmt.Errorf("parley: mysql: completion_type of sessions of this handle is %s, so that a COMMIT does more than commit: remove that setting", c)
	}
	for mode := range strings.SplitSeq(v["sql_mode"], ",") {
		if mode == "EMPTY_STRING_IS_NULL" || mode == "PAD_CHAR_TO_FULL_LENGTH" {
			return fmt.Errorf("parley: mysql: sql_mode of sessions of this handle has %s, which changes the meaning of values: remove it", mode)
		}
	}
	return nil
}

// sessionVariables returns the variables that a session's statements depend on. SHOW VARIABLES
// lists those that the server has, but builds a table of all variables, which takes milliseconds.
// So the first connection uses it, and the others use SELECT.
func (p *pool) sessionVariables(ctx context.Context, c *sql.Conn) (map[string]string, error) {
	if names := p.has.Load(); names != nil {
		v, err := selected(ctx, c, *names)
		const unknownVariable = 1193 // ER_UNKNOWN_SYSTEM_VARIABLE: another server has taken the place
		if number(err) != unknownVariable {
			return v, err
		}
	}
	v, err := variables(ctx, c, "version", "pseudo_thread_id", "autocommit", "sql_mode", "max_allowed_packet", "completion_type",
		"transaction_isolation", "tx_isolation", "innodb_snapshot_isolation", "innodb_rollback_on_timeout", "wsrep_on", "wsrep_sync_wait", "log_bin")
	if err == nil {
		names := slices.Sorted(maps.Keys(v))
		p.has.Store(&names)
	}
	return v, err
}

// variables returns those of a session's variables that the server has.
func variables(ctx context.Context, c *sql.Conn, names ...string) (map[string]string, error) {
	rows, err := c.QueryContext(ctx, "SHOW VARIABLES WHERE Variable_name IN ('"+strings.Join(names, "', '")+"')")
	v := make(map[string]string, len(names))
	return v, sqlstore.Settings(v, rows, err)
}

// selected returns variables of a session, all of which the server has. What is ON by SHOW is 1.
func selected(ctx context.Context, c *sql.Conn, names []string) (map[string]string, error) {
	values, into := make([]string, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	if err := c.QueryRowContext(ctx, "SELECT @@"+strings.Join(names, ", @@")).Scan(into...); err != nil {
		return nil, err
	}
	v := make(map[string]string, len(names))
	for i, name := range names {
		v[name] = values[i]
	}
	return v, nil
}

func on(value string) bool { return value == "ON" || value == "1" }
