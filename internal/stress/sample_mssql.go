package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"time"
)

func init() { engines["sqlserver"] = openMSSQL }

// mssql looks into a database of SQL Server on connections of its own.
type mssql struct {
	url       url.URL
	run       string
	prefix    string // of the names of tables, with their schema
	db        *sql.DB
	versioned bool // one statement is one snapshot
}

func openMSSQL(db, run string) (engine, error) {
	u, err := url.Parse(db)
	if err != nil {
		return nil, err
	}
	m := &mssql{run: run}
	params := u.Query()
	m.prefix = withPrefix(params, run)
	u.RawQuery = params.Encode()
	m.url = *u
	if schema := params.Get("parley_schema"); schema != "" {
		m.prefix = schema + "." + m.prefix
	}
	params.Del("parley_prefix")
	params.Del("parley_schema")
	params.Set("app name", roleSampler+"-"+run)
	u.RawQuery = params.Encode()
	if m.db, err = sql.Open("sqlserver", u.String()); err != nil {
		return nil, err
	}
	err = m.db.QueryRow(`SELECT is_read_committed_snapshot_on FROM sys.databases WHERE database_id = DB_ID()`).Scan(&m.versioned)
	return m, err
}

// name tells the roles apart by the name of the application.
func (m *mssql) name(role string) string {
	u := m.url
	params := u.Query()
	params.Set("app name", role+"-"+m.run)
	u.RawQuery = params.Encode()
	return u.String()
}

func (m *mssql) shared() bool { return true }
func (m *mssql) close() error { return m.db.Close() }

func (m *mssql) effects() *effectTable {
	t := m.prefix + "effect"
	return &effectTable{
		create: `CREATE TABLE ` + t + ` (stream varchar(200) NOT NULL, place bigint NOT NULL, token varchar(200) NOT NULL, PRIMARY KEY (stream, place))`,
		add:    `INSERT INTO ` + t + ` (stream, place, token) SELECT @p1, coalesce(max(place) + 1, 0), @p2 FROM ` + t + ` WHERE stream = CONVERT(varchar(200), @p1)`,
		list:   `SELECT stream, place, token FROM ` + t,
		drop:   `DROP TABLE ` + t,
	}
}

// stranded needs READ_COMMITTED_SNAPSHOT: otherwise a statement is no snapshot.
func (m *mssql) stranded(ctx context.Context) (n int, ok bool, err error) {
	if !m.versioned {
		return 0, false, nil
	}
	return countStranded(ctx, m.db, m.prefix)
}

// cut ends a session.
func (m *mssql) cut(ctx context.Context, role string) (bool, error) {
	var session int
	err := m.db.QueryRowContext(ctx, `
		SELECT TOP (1) session_id FROM sys.dm_exec_sessions WHERE program_name = @p1 ORDER BY NEWID()`,
		role+"-"+m.run).Scan(&session)
	if err == sql.ErrNoRows {
		return false, nil
	}
	if err == nil {
		_, err = m.db.ExecContext(ctx, fmt.Sprintf("KILL %d", session))
	}
	return err == nil, err
}

// watch looks for stranded messages, and for senders that wait for a receiver longer
// than from the removal of messages to the commit.
func (m *mssql) watch(ctx context.Context, l *ledger) (wait func(), err error) {
	samples := every(ctx, 50*time.Millisecond, func() {
		if m.versioned {
			sampleStranded(ctx, m, l)
		}
	})
	waits := every(ctx, 25*time.Millisecond, func() { m.sample(ctx, l) })
	return func() { samples(); waits() }, nil
}

func (m *mssql) sample(ctx context.Context, l *ledger) {
	rows, err := m.db.QueryContext(ctx, `
		SELECT w.program_name, b.program_name, r.wait_time, r.command
		  FROM sys.dm_exec_requests r
		  JOIN sys.dm_exec_sessions w ON w.session_id = r.session_id
		  JOIN sys.dm_exec_sessions b ON b.session_id = r.blocking_session_id
		 WHERE w.program_name LIKE 'parley-stress-%-' + @p1`, m.run)
	if err != nil {
		if ctx.Err() == nil {
			l.problem("errors", "sampler: %v", err)
		}
		return
	}
	defer rows.Close()
	for rows.Next() {
		var waiter, blocker, command sql.NullString
		var ms int64
		if err := rows.Scan(&waiter, &blocker, &ms, &command); err != nil {
			l.problem("errors", "sampler: %v", err)
			return
		}
		who, whom := short(waiter.String, m.run), short(blocker.String, m.run)
		lasted := time.Duration(ms) * time.Millisecond
		l.count("waits", 1)
		l.lasted(who+"-behind-"+whom, lasted, command.String)
		if who == "sender" && whom == "receiver" && lasted > 5*senderLimit {
			l.problem("sender behind receiver", "%v in %s", lasted, command.String)
		}
	}
}
