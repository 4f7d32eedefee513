package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley/internal/slow"
)

// of returns a database's name for a role, by which connections are told apart. MySQL and MariaDB have a user for
// it, the others the name of a program.
func (r role) of(db string) string {
	u, err := url.Parse(db)
	if err != nil || u.Scheme == "sqlite" {
		return db
	}
	q := u.Query()
	switch u.Scheme {
	case "mysql":
		u.User = url.User(string(r))
	case "postgres":
		q.Set("application_name", string(r))
	case "sqlserver":
		q.Set("app name", string(r))
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// besides opens connections that see the store and the server as they are.
func besides(db string) (*sql.DB, error) {
	u, err := url.Parse(db)
	if err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "sqlite":
		return sql.Open("sqlite", sqliteFile(db)+"?_pragma=busy_timeout(10000)&_pragma=query_only(1)")
	case "mysql":
		return sql.Open("mysql", mysqlConfig(u).FormatDSN())
	}
	return sql.Open(u.Scheme, db)
}

// sqliteFile is the driver's address of a store's file, without parameters.
func sqliteFile(db string) string {
	path, _, _ := strings.Cut(strings.TrimPrefix(db, "sqlite:"), "?")
	return "file:" + (&url.URL{Path: path}).EscapedPath()
}

func mysqlConfig(u *url.URL) *driver.Config {
	c := driver.NewConfig()
	c.Net, c.Addr, c.DBName, c.User = "tcp", u.Host, strings.TrimPrefix(u.Path, "/"), u.User.Username()
	c.Passwd, _ = u.User.Password()
	return c
}

// grant makes MySQL's users for the roles.
func (s *suite) grant(ctx context.Context) error {
	if s.engine() != "mysql" {
		return nil
	}
	for _, r := range []role{roleBoth, roleSender, roleReceiver} {
		for _, text := range []string{"CREATE USER IF NOT EXISTS '%s'@'%%'", "GRANT ALL ON *.* TO '%s'@'%%'"} {
			if _, err := s.side.ExecContext(ctx, fmt.Sprintf(text, r)); err != nil {
				return err
			}
		}
	}
	return nil
}

// strandedStreams counts streams with a message that claims pass over for ever. The message is there, its group may
// be received, and the order does not know it. One statement is one snapshot, which SQL Server has to be set to.
const (
	strandedStreams = `
SELECT count(*)
  FROM (SELECT DISTINCT stream_id FROM parley_message) m
  JOIN parley_stream s ON s.stream_id = m.stream_id
  JOIN parley_grp g ON g.group_id = s.group_id
  LEFT JOIN parley_ready r ON r.queue_id = s.queue_id AND r.group_id = s.group_id AND r.stream_id = s.stream_id
 WHERE g.blocked = 0 AND g.resweep = 0 AND r.stream_id IS NULL`
	ifVersioned = ` AND (SELECT is_read_committed_snapshot_on FROM sys.databases WHERE database_id = DB_ID()) = 1`
)

// waits lists each statement that waits for a transaction, with a name for the wait and the roles of both. It has the
// statement, the last one of the transaction, and the milliseconds for which that has been idle; below zero, the last
// statement tells more. MariaDB does not know that statement. SQL Server's time is that of the wait, divided by five.
// There a receiver holds what senders wait for from the removal of messages to the commit.
var waits = map[string]string{
	"postgres": `
SELECT concat_ws(' ', w.pid, w.query_start, b.pid), w.application_name, b.application_name, w.query, b.query, -1
  FROM pg_stat_activity w
 CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) AS p (pid)
  JOIN pg_stat_activity b ON b.pid = p.pid
 WHERE w.wait_event_type = 'Lock' AND w.application_name = 'faults-sender'`,
	"mysql": `
SELECT concat_ws(' ', w.requesting_engine_transaction_id, w.blocking_engine_transaction_id),
       wt.processlist_user, coalesce(bt.processlist_user, ''), coalesce(wt.processlist_info, ''), coalesce(s.sql_text, ''), -1
  FROM performance_schema.data_lock_waits w
  JOIN performance_schema.threads wt ON wt.thread_id = w.requesting_thread_id
  JOIN performance_schema.threads bt ON bt.thread_id = w.blocking_thread_id
  LEFT JOIN performance_schema.events_statements_current s ON s.thread_id = bt.thread_id
 WHERE wt.processlist_user = 'faults-sender'`,
	"mariadb": `
SELECT concat_ws(' ', w.requesting_trx_id, w.blocking_trx_id), wp.user, bp.user, coalesce(wp.info, ''), bp.command,
       CASE bp.command WHEN 'Sleep' THEN bp.time_ms ELSE 0 END
  FROM information_schema.innodb_lock_waits w
  JOIN information_schema.innodb_trx wx ON wx.trx_id = w.requesting_trx_id
  JOIN information_schema.innodb_trx bx ON bx.trx_id = w.blocking_trx_id
  JOIN information_schema.processlist wp ON wp.id = wx.trx_mysql_thread_id
  JOIN information_schema.processlist bp ON bp.id = bx.trx_mysql_thread_id
 WHERE wp.user = 'faults-sender'`,
	"sqlserver": `
SELECT CONCAT(r.session_id, ' ', r.start_time, ' ', b.session_id), w.program_name, b.program_name, r.command, '', r.wait_time / 5.0
  FROM sys.dm_exec_requests r
  JOIN sys.dm_exec_sessions w ON w.session_id = r.session_id
  JOIN sys.dm_exec_sessions b ON b.session_id = r.blocking_session_id
 WHERE w.program_name = 'faults-sender'`,
}

// atWork finds the last statements of a receiver whose handler works: the claim, savepoints, and what handlers of
// this load do themselves.
var atWork = regexp.MustCompile(`(?is)^\s*(?:/\*.*?\*/\s*)?(BEGIN|START TRANSACTION|SAVEPOINT|RELEASE|ROLLBACK TO|SET TRANSACTION|WITH t AS|` +
	`SELECT (g|r|p|m)\.|UPDATE \S*_(grp|post)\b|INSERT INTO (faults_effect|\S*_timer)\b|UPDATE faults_hot)`)

// idle is how long a transaction is idle at most between two statements of the library.
var idle = slow.By(100 * time.Millisecond)

// sampler looks into the database while programs work, for what no history tells.
type sampler struct {
	db    *sql.DB
	kind  string
	rec   *recorder
	calm  func() bool // no fault is on, or has just ended
	seen  map[string]bool
	looks map[string]int // how often it has looked, and for what
}

// run looks until the context ends.
func (s *sampler) run(ctx context.Context) {
	rhythm, seldom := 25*time.Millisecond, 4
	if s.kind == "mysql" || s.kind == "mariadb" {
		rhythm, seldom = 120*time.Millisecond, 1 // a server's picture of its transactions is as old as that, unless it is asked more often
	}
	for n := 0; ctx.Err() == nil; n++ {
		if waits[s.kind] != "" {
			s.look(ctx, "waits", s.behind)
		}
		if n%seldom == 0 {
			s.look(ctx, "stranded", s.stranded)
		}
		time.Sleep(rhythm)
	}
}

// look looks once. While a fault is on nothing can be said of an error.
func (s *sampler) look(ctx context.Context, what string, f func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	calm := s.calm()
	switch err := f(ctx); {
	case err == nil:
		s.looks[what]++
	case calm && s.calm() && ctx.Err() == nil:
		s.rec.write(event{Kind: failed, Name: "sampler: " + what + ": " + err.Error()})
	}
}

func (s *sampler) stranded(ctx context.Context) error {
	query := strandedStreams
	if s.kind == "sqlserver" {
		query += ifVersioned
	}
	var n int
	err := s.db.QueryRowContext(ctx, query).Scan(&n)
	if err == nil && n > 0 {
		s.rec.write(event{Kind: failed, Name: fmt.Sprint(n, " streams have messages and no place in the ready order")})
	}
	return err
}

// behind finds a sender that waits for a receiver whose handler works. The texts are read a moment after the locks,
// so that a statement which has just ended may stand there: one sample is no proof. Nor is one while programs are
// killed: a killed receiver is as idle as a handler until the server knows.
func (s *sampler) behind(ctx context.Context) error {
	calm := s.calm()
	rows, err := s.db.QueryContext(ctx, waits[s.kind])
	if err != nil {
		return err
	}
	defer rows.Close()
	now := make(map[string]bool)
	for rows.Next() {
		var key, who, whom, statement, last string
		var quiet float64
		if err := rows.Scan(&key, &who, &whom, &statement, &last, &quiet); err != nil {
			return err
		}
		if whom != string(roleReceiver) || quiet >= 0 && quiet < float64(idle.Milliseconds()) || quiet < 0 && !atWork.MatchString(last) {
			continue
		}
		if now[key] = true; s.seen[key] && calm && s.calm() {
			s.rec.write(event{Kind: failed, Name: fmt.Sprintf("a sender waits for a receiver's handler: %.200q behind %.200q", squeeze(statement), squeeze(last))})
		}
	}
	s.seen = now
	return rows.Err()
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }
