package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley/internal/slow"
)

func init() {
	engines["mysql"] = openMySQL
	engines["mariadb"] = openMySQL
}

// mysql looks into a database of MySQL or MariaDB on connections of its own.
// Connections of different roles are told apart by their users, which it makes
// if it may.
type mysql struct {
	url     url.URL
	run     string
	prefix  string // of the names of tables
	db      *sql.DB
	mariadb bool
	users   map[string]bool // that were made
}

func openMySQL(db, run string) (engine, error) {
	u, err := url.Parse(db)
	if err != nil {
		return nil, err
	}
	q := u.Query()
	prefix := withPrefix(q, run)
	u.RawQuery = q.Encode()
	m := &mysql{url: *u, run: run, prefix: prefix, users: make(map[string]bool)}
	c := driver.NewConfig()
	c.Net, c.Addr, c.DBName, c.User = "tcp", u.Host, strings.TrimPrefix(u.Path, "/"), u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.InterpolateParams = true
	if m.db, err = sql.Open("mysql", c.FormatDSN()); err != nil {
		return nil, err
	}
	var version string
	if err := m.db.QueryRow("SELECT version()").Scan(&version); err != nil {
		m.db.Close()
		return nil, err
	}
	m.mariadb = strings.Contains(version, "MariaDB")
	for _, role := range []string{roleSender, roleReceiver, roleMeddler} {
		_, err := m.db.Exec("CREATE USER IF NOT EXISTS '" + m.user(role) + "'@'%'")
		if err == nil {
			_, err = m.db.Exec("GRANT ALL ON `" + c.DBName + "`.* TO '" + m.user(role) + "'@'%'")
		}
		m.users[role] = err == nil
	}
	return m, nil
}

// user is what connections of a role log in as, so that runs do not disturb
// each other. A name has at most 32 characters.
func (m *mysql) user(role string) string {
	return strings.TrimPrefix(role, "parley-") + "-" + m.run
}

func (m *mysql) name(role string) string {
	u := m.url
	if m.users[role] {
		u.User = url.User(m.user(role))
	}
	return u.String()
}

func (m *mysql) shared() bool { return true }

func (m *mysql) close() error {
	for role, made := range m.users {
		if made {
			m.db.Exec("DROP USER '" + m.user(role) + "'@'%'")
		}
	}
	return m.db.Close()
}

func (m *mysql) effects() *effectTable {
	t := m.prefix + "effect"
	return &effectTable{
		create: `CREATE TABLE ` + t + ` (stream VARBINARY(200) NOT NULL, place BIGINT NOT NULL, token VARBINARY(200) NOT NULL, PRIMARY KEY (stream, place))`,
		add: `INSERT INTO ` + t + ` (stream, place, token)
			SELECT x.stream, coalesce((SELECT max(e.place) + 1 FROM ` + t + ` e WHERE e.stream = x.stream), 0), x.token
			  FROM (SELECT CAST(? AS BINARY) AS stream, CAST(? AS BINARY) AS token) x`,
		list: `SELECT stream, place, token FROM ` + t,
		drop: `DROP TABLE ` + t,
		db:   m.db,
	}
}

func (m *mysql) stranded(ctx context.Context) (n int, ok bool, err error) {
	return countStranded(ctx, m.db, m.prefix)
}

// lastDeadlock returns what the server remembers of the last deadlock: the transactions,
// their statements and locks. MySQL tells who is allowed to ask (PROCESS).
func (m *mysql) lastDeadlock(ctx context.Context) string {
	var kind, name, status string
	if err := m.db.QueryRowContext(ctx, "SHOW ENGINE INNODB STATUS").Scan(&kind, &name, &status); err != nil {
		return err.Error()
	}
	_, found, _ := strings.Cut(status, "LATEST DETECTED DEADLOCK")
	found, _, _ = strings.Cut(found, "------------\nTRANSACTIONS")
	return found
}

// cut ends a connection, which is all that a client sees of most troubles.
func (m *mysql) cut(ctx context.Context, role string) (bool, error) {
	if !m.users[role] {
		return false, nil
	}
	var id int64
	err := m.db.QueryRowContext(ctx, "SELECT id FROM information_schema.processlist WHERE user = ? ORDER BY rand() LIMIT 1", m.user(role)).Scan(&id)
	if err == sql.ErrNoRows {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = m.db.ExecContext(ctx, fmt.Sprintf("KILL %d", id))
	var e *driver.MySQLError
	if errors.As(err, &e) && e.Number == 1094 { // ER_NO_SUCH_THREAD: it has just gone
		return false, nil
	}
	return err == nil, err
}

func (m *mysql) watch(ctx context.Context, l *ledger) (wait func(), err error) {
	w := &lockSampler{m, newWaits[[2]int64](l)}
	samples := every(ctx, 50*time.Millisecond, func() { sampleStranded(ctx, m, l) })
	// The server renews its picture of its transactions when it is a tenth of a
	// second old and no query has asked for it since.
	others := every(ctx, 120*time.Millisecond, func() { w.sample(ctx) })
	return sync.OnceFunc(func() { samples(); others() }), nil
}

// lockSampler looks who waits for whom.
type lockSampler struct {
	*mysql
	waits[[2]int64] // by waiter and blocker
}

// What waits for what, in milliseconds; and what the blocker is at, or was last.
// MySQL knows the last statement of a connection, and MariaDB how long it has
// been idle. A blocker may have no connection: its connection has ended, or it is a thread of the server.
const (
	waitsMySQL = `
		SELECT wt.processlist_id, wt.processlist_user, coalesce(wt.processlist_info, ''),
		       coalesce(timestampdiff(MICROSECOND, x.trx_wait_started, now(6)) DIV 1000, 0),
		       coalesce(bt.processlist_id, 0), coalesce(bt.processlist_user, ''), coalesce(bt.processlist_command, ''), coalesce(s.sql_text, ''), 0,
		       coalesce(k.object_name, '')
		  FROM performance_schema.data_lock_waits w
		  JOIN performance_schema.threads wt ON wt.thread_id = w.requesting_thread_id
		  JOIN performance_schema.threads bt ON bt.thread_id = w.blocking_thread_id
		  LEFT JOIN performance_schema.data_locks k ON k.engine_lock_id = w.requesting_engine_lock_id
		  LEFT JOIN performance_schema.events_statements_current s ON s.thread_id = bt.thread_id
		  LEFT JOIN information_schema.innodb_trx x ON x.trx_id = w.requesting_engine_transaction_id
		 WHERE wt.processlist_user LIKE ?`
	waitsMariaDB = `
		SELECT wp.id, wp.user, coalesce(wp.info, ''),
		       coalesce(timestampdiff(MICROSECOND, wx.trx_wait_started, now(6)) DIV 1000, 0),
		       bp.id, bp.user, bp.command, coalesce(bp.info, ''), bp.time_ms, coalesce(k.lock_table, '')
		  FROM information_schema.innodb_lock_waits w
		  JOIN information_schema.innodb_trx wx ON wx.trx_id = w.requesting_trx_id
		  JOIN information_schema.innodb_trx bx ON bx.trx_id = w.blocking_trx_id
		  JOIN information_schema.processlist wp ON wp.id = wx.trx_mysql_thread_id
		  JOIN information_schema.processlist bp ON bp.id = bx.trx_mysql_thread_id
		  LEFT JOIN information_schema.innodb_locks k ON k.lock_id = w.requested_lock_id
		 WHERE wp.user LIKE ?`
)

// While a receiver's handler works, the last statement is one of these: the claim,
// savepoints, and what handlers do themselves.
var atWork = regexp.MustCompile(`(?is)^\s*(?:/\*.*?\*/\s*)?(START TRANSACTION|SAVEPOINT|RELEASE|ROLLBACK TO|SET TRANSACTION|SELECT (g|r|p|m)\.|UPDATE \S*_(grp|post)\b|INSERT (IGNORE )?INTO \S*_(once|effect|timer)\b)`)

// idle is how long a receiver is idle at most between two statements, if it is not
// its handler that works.
var idle = slow.By(100 * time.Millisecond)

func (w *lockSampler) sample(ctx context.Context) {
	query := waitsMySQL
	if w.mariadb {
		query = waitsMariaDB
	}
	rows, err := w.db.QueryContext(ctx, query, "stress-%-"+w.run)
	if err != nil {
		if ctx.Err() == nil {
			w.led.problem("errors", "sampler: %v", err)
		}
		return
	}
	defer rows.Close()
	var sample []wait[[2]int64]
	for rows.Next() {
		var pair [2]int64
		var waited int64
		var quiet float64
		var waiter, statement, blocker, command, last, table string
		if err := rows.Scan(&pair[0], &waiter, &statement, &waited, &pair[1], &blocker, &command, &last, &quiet, &table); err != nil {
			w.led.problem("errors", "sampler: %v", err)
			return
		}
		working := command == "Sleep" && atWork.MatchString(last)
		if w.mariadb {
			working = command == "Sleep" && time.Duration(quiet*float64(time.Millisecond)) > idle
		}
		sample = append(sample, wait[[2]int64]{
			key: pair, who: w.short(waiter), whom: w.short(blocker),
			lasted:  time.Duration(waited) * time.Millisecond,
			what:    fmt.Sprintf("%.160q for %s behind %s %.160q", squeeze(statement), table, command, squeeze(last)),
			working: working,
		})
	}
	w.judge(sample)
}

// short is the role of a user.
func (m *mysql) short(user string) string {
	name, ours := strings.CutSuffix(strings.TrimPrefix(user, "stress-"), "-"+m.run)
	if !ours {
		return "other"
	}
	return name
}

// mysqlState is the SQLSTATE of an error of the driver's, "" for others.
func mysqlState(err error) string {
	var e *driver.MySQLError
	switch {
	case errors.Is(err, driver.ErrInvalidConn):
		return "57P01"
	case !errors.As(err, &e):
		return ""
	}
	switch e.Number {
	case 1205: // a lock wait, of which the standard does not know
		return "40001"
	case 1053, 1317, 1927, 3169, 4031: // the connection or the server is going
		return "57P01"
	}
	return string(e.SQLState[:])
}
