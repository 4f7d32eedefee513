package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// vtgate, through which programs use Vitess, speaks MySQL's protocol. All that differs there is in this file. It
// plans each statement, and sends it to a vttablet, which has the connections to MySQL. What happens to one of
// those ends the transaction, while the program's connection to vtgate lives on.

// ErrSharded is the error of Open, or of the first use of New's store, on a keyspace of Vitess with several
// shards. A conversation crosses shards by nature. Use one unsharded keyspace for each set of queues.
var ErrSharded = errors.New("parley: mysql: a sharded keyspace of Vitess cannot have a store: use an unsharded one for each set of queues")

// isVitess tells by the version that vtgate reports: "8.4.6-Vitess".
func isVitess(version string) bool { return strings.Contains(strings.ToLower(version), "vitess") }

// vitess reports whether the server is vtgate, once a session has been looked at.
func (p *pool) vitess() bool {
	s := p.server.Load()
	return s != nil && s.vitess
}

// keyspace returns the name of a session's keyspace, which may be followed by a shard or a type of tablets there.
func keyspace(ctx context.Context, in interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}) (string, error) {
	var target sql.NullString
	err := in.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&target)
	if i := strings.IndexAny(target.String, ":/@"); i >= 0 {
		target.String = target.String[:i]
	}
	return target.String, err
}

// isSharded looks at the keyspace of a session.
func isSharded(ctx context.Context, c *sql.Conn) (bool, error) {
	own, err := keyspace(ctx, c)
	if err != nil {
		return false, err
	}
	rows, err := c.QueryContext(ctx, "SHOW VSCHEMA KEYSPACES")
	if err != nil {
		return false, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return false, err
	}
	values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
	row := make(map[string]*sql.NullString, len(columns))
	for i, name := range columns {
		into[i], row[name] = &values[i], &values[i]
	}
	name, sharded := row["Keyspace"], row["Sharded"]
	if name == nil || sharded == nil {
		return false, fmt.Errorf("parley: mysql: vtgate describes keyspaces by %q", columns)
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return false, err
		}
		if name.String == own {
			return sharded.String == "true", nil
		}
	}
	return false, rows.Err()
}

// Errors of vtgate itself. 1317 and 3024 mean that a connection to MySQL is gone, whatever the reason. A statement or
// a transaction took too long or was killed, the primary has changed, or the transaction would have crossed
// keyspaces. So a COMMIT with such an error may have happened, and another attempt may or may not help. Errors
// without a number get 1105. For a statement that it understands, it means that there is no primary at present.
func lostBehind(err error) bool {
	switch number(err) {
	case 1317, // ER_QUERY_INTERRUPTED
		3024, // ER_QUERY_TIMEOUT
		2002, // CR_CONNECTION_ERROR, and others of a client's, which vttablet is of MySQL's
		2003, // CR_CONN_HOST_ERROR
		2006, // CR_SERVER_GONE_ERROR
		2013: // CR_SERVER_LOST
		return true
	}
	return false
}

// classify is that of the server.
func (p *pool) classify(err error) error {
	const unknown = 1105 // ER_UNKNOWN_ERROR
	if p.vitess() && (lostBehind(err) || number(err) == unknown) {
		return backend.ErrConnection
	}
	return classify(err)
}

// errNoSavepoint is ER_SP_DOES_NOT_EXIST.
const errNoSavepoint = 1305

// probe is inProgress on Vitess. There a level may be set at any time; but outside of transactions no savepoint
// can be set, and so none released. A transaction that MySQL has lost fails with another error.
func probe(ctx context.Context, conn backend.Execer) (bool, error) {
	for _, text := range []string{"SAVEPOINT parley_probe", "RELEASE SAVEPOINT parley_probe"} {
		if _, err := conn.ExecContext(ctx, text); number(err) == errNoSavepoint {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	return true, nil
}

// What vtgate does not understand of the schema's files: procedures, and views to be dropped without the database's
// name.
var (
	procedures = regexp.MustCompile(`(?ms)^DROP PROCEDURE [^;]*;\n|^DELIMITER //\n.*?^DELIMITER ;\n`)
	dropView   = regexp.MustCompile("(?m)^DROP VIEW IF EXISTS ")
)

// forVitess returns a file of the schema as vtgate takes it. Its procedures are left out.
func forVitess(ctx context.Context, tx backend.Execer, text string) (string, error) {
	text = procedures.ReplaceAllString(text, "")
	if !dropView.MatchString(text) {
		return text, nil
	}
	own, err := keyspace(ctx, tx)
	return dropView.ReplaceAllString(text, "${0}`"+own+"`."), err
}

// MigrationSQL implements backend.Printer.
func (s *Store) MigrationSQL(from int) string {
	text := s.Pooled.MigrationSQL(from)
	if s.pool.vitess() {
		text = procedures.ReplaceAllString(text, "")
	}
	return text
}

// Limits of Vitess, which vtgate does not tell. These are the least that is known of: vttablet's own are 30 s and
// 20 transactions, and PlanetScale ends transactions after 20 s.
const (
	vitessTimeout      = "the time-out of vttablet for transactions, as far as is known,"
	vitessTime         = 20 * time.Second
	vitessTransactions = 20
)

// vitessTimeouts is the limit of a transaction: what the session asks for, if that is less. SHOW VARIABLES leaves it
// out, and older versions do not know it.
func vitessTimeouts(ctx context.Context, c *sql.Conn) (map[string]time.Duration, error) {
	const setting = "transaction_timeout"
	var ms int64
	err := c.QueryRowContext(ctx, "SELECT @@"+setting).Scan(&ms)
	if err != nil && number(err) == 0 {
		return nil, err
	}
	if asked := time.Duration(ms) * time.Millisecond; asked > 0 && asked <= vitessTime {
		return map[string]time.Duration{setting: asked}, nil
	}
	return map[string]time.Duration{vitessTimeout: vitessTime}, nil
}

// warnVitess says what a program must know that uses Vitess.
func (p *pool) warnVitess(i *backend.Info) {
	i.Engine = "vitess"
	conns := p.db.Stats().MaxOpenConnections
	sqlstore.Warn(i, conns <= 0 || conns > vitessTransactions, backend.Warning{Code: backend.WarnLimits,
		Text: fmt.Sprintf("the pool may open more than %d connections, vttablet's default limit of transactions: further transactions fail after a second", vitessTransactions),
		Hint: "limit the pools of all programs together (SetMaxOpenConns), or raise queryserver-config-transaction-cap"})
	sqlstore.Warn(i, true, backend.Warning{Code: backend.WarnProcedures,
		Text: "the procedures parley_post and parley_post_with_headers are missing: Vitess does not support them",
		Hint: "post by package parley"})
}
