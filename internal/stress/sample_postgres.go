package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"
)

func init() {
	engines["postgres"] = openPostgres
	engines["postgresql"] = openPostgres
}

// postgres looks into a PostgreSQL database on connections of its own.
type postgres struct {
	url    url.URL
	run    string
	prefix string // of the names of tables, with their schema
	db     *sql.DB
}

func openPostgres(db, run string) (engine, error) {
	u, err := url.Parse(db)
	if err != nil {
		return nil, err
	}
	q := u.Query()
	prefix := withPrefix(q, run)
	u.RawQuery = q.Encode()
	p := &postgres{url: *u, run: run, prefix: prefix}
	if schema := q.Get("parley_schema"); schema != "" {
		p.prefix = schema + "." + p.prefix
	}
	for name := range q {
		if strings.HasPrefix(name, "parley_") {
			q.Del(name)
		}
	}
	q.Set("application_name", p.role(roleSampler))
	u.RawQuery = q.Encode()
	p.db, err = sql.Open("postgres", u.String())
	return p, err
}

// role is what connections of a role are called, so that runs do not disturb
// each other.
func (p *postgres) role(role string) string { return role + "-" + p.run }

func (p *postgres) name(role string) string {
	u := p.url
	q := u.Query()
	q.Set("application_name", p.role(role))
	u.RawQuery = q.Encode()
	return u.String()
}

func (p *postgres) shared() bool { return true }
func (p *postgres) close() error { return p.db.Close() }

func (p *postgres) effects() *effectTable {
	t := p.prefix + "effect"
	return &effectTable{
		create: `CREATE TABLE ` + t + ` (stream text NOT NULL, place bigint NOT NULL, token text NOT NULL, PRIMARY KEY (stream, place))`,
		add:    `INSERT INTO ` + t + ` (stream, place, token) SELECT $1::text, coalesce(max(place) + 1, 0), $2::text FROM ` + t + ` WHERE stream = $1::text`,
		list:   `SELECT stream, place, token FROM ` + t,
		drop:   `DROP TABLE ` + t,
	}
}

func (p *postgres) stranded(ctx context.Context) (n int, ok bool, err error) {
	return countStranded(ctx, p.db, p.prefix)
}

// cut ends a server process, which is all that a client sees of most troubles.
func (p *postgres) cut(ctx context.Context, role string) (bool, error) {
	var done bool
	err := p.db.QueryRowContext(ctx, `
		SELECT pg_terminate_backend(pid)
		  FROM (SELECT pid FROM pg_stat_activity WHERE application_name = $1 ORDER BY random() LIMIT 1) a`,
		p.role(role)).Scan(&done)
	if err == sql.ErrNoRows {
		return false, nil
	}
	return done, err
}

func (p *postgres) watch(ctx context.Context, l *ledger) (wait func(), err error) {
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	// Before version 14 the server does not know, and the whole statement counts.
	since := `SELECT NULL::timestamptz AS since`
	var version int
	if err := conn.QueryRowContext(ctx, `SELECT current_setting('server_version_num')::int`).Scan(&version); err != nil {
		conn.Close()
		return nil, err
	}
	if version >= 140000 {
		since = `SELECT min(waitstart) AS since FROM pg_locks WHERE pid = w.pid AND NOT granted`
	}
	w := &waitSampler{newWaits[blocked](l), p.run, conn, since}
	samples := every(ctx, 50*time.Millisecond, func() { sampleStranded(ctx, p, l) })
	others := every(ctx, 25*time.Millisecond, func() { w.sample(ctx) })
	return sync.OnceFunc(func() {
		samples()
		others()
		conn.Close()
	}), nil
}

// waitSampler looks who waits for whom.
type waitSampler struct {
	waits[blocked]
	run   string
	conn  *sql.Conn
	since string // a query that tells since when w waits for its lock
}

// blocked is a statement that waits for a process.
type blocked struct {
	pid, by int
	since   string
}

// A receiver may hold what senders wait for only from the removal of messages to
// the COMMIT, and in the short transactions of maintenance. While its handler works,
// the last statement is one of these: the claim, savepoints, and what handlers
// do themselves.
var handling = regexp.MustCompile(`(?is)^\s*(BEGIN|SAVEPOINT|RELEASE|ROLLBACK TO|WITH (t|g|s) AS|INSERT INTO \S*_(once|effect|timer)\b)`)

func (w *waitSampler) sample(ctx context.Context) {
	rows, err := w.conn.QueryContext(ctx, `
		SELECT w.pid, w.query_start::text, extract(epoch FROM clock_timestamp() - coalesce(l.since, w.query_start))::float8,
		       w.application_name, w.wait_event, w.query, b.pid, b.application_name, b.state, b.query
		  FROM pg_stat_activity w
		 CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) AS p (pid)
		  JOIN pg_stat_activity b ON b.pid = p.pid
		 CROSS JOIN LATERAL (`+w.since+`) l
		 WHERE w.wait_event_type = 'Lock' AND w.application_name LIKE 'parley-stress-%-' || $1`, w.run)
	if err != nil {
		if ctx.Err() == nil {
			w.led.problem("errors", "sampler: %v", err)
		}
		return
	}
	defer rows.Close()
	var sample []wait[blocked]
	for rows.Next() {
		var b blocked
		var seconds float64
		var waiter, event, statement, blocker, state, last sql.NullString
		if err := rows.Scan(&b.pid, &b.since, &seconds, &waiter, &event, &statement, &b.by, &blocker, &state, &last); err != nil {
			w.led.problem("errors", "sampler: %v", err)
			return
		}
		sample = append(sample, wait[blocked]{
			key: b, who: short(waiter.String, w.run), whom: short(blocker.String, w.run),
			lasted:  time.Duration(seconds * float64(time.Second)),
			what:    fmt.Sprintf("%.160q for %s behind %s %.160q", squeeze(statement.String), event.String, state.String, squeeze(last.String)),
			working: handling.MatchString(last.String),
		})
	}
	w.judge(sample)
}

func short(application, run string) string {
	name := strings.TrimSuffix(strings.TrimPrefix(application, "parley-stress-"), "-"+run)
	if name == "" {
		return "other"
	}
	return name
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }
