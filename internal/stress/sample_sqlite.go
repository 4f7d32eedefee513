package main

import (
	"context"
	"database/sql"
	"net/url"
	"strings"
	"time"
)

func init() { engines["sqlite"] = openSQLite }

// sqlite looks into a SQLite file. Its connection only reads: in WAL mode that
// disturbs nobody.
type sqlite struct {
	plain
	path   string
	params url.Values
	prefix string
	db     *sql.DB
}

func openSQLite(db, run string) (engine, error) {
	path, query, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(db, "sqlite:"), "//"), "?")
	params, err := url.ParseQuery(query)
	if err != nil {
		return nil, err
	}
	if params.Get("parley_prefix") == "" {
		params.Set("parley_prefix", "stress_"+run+"_")
	}
	s := &sqlite{path: path, params: params, prefix: params.Get("parley_prefix")}
	s.db, err = sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_pragma=busy_timeout(10000)&_pragma=query_only(1)")
	return s, err
}

func (s *sqlite) name(string) string { return "sqlite:" + s.path + "?" + s.params.Encode() }
func (s *sqlite) shared() bool       { return s.path != ":memory:" }
func (s *sqlite) close() error       { return s.db.Close() }

func (s *sqlite) effects() *effectTable {
	t := s.prefix + "effect"
	return &effectTable{
		create: `CREATE TABLE ` + t + ` (stream TEXT NOT NULL, place INTEGER NOT NULL, token TEXT NOT NULL, PRIMARY KEY (stream, place)) WITHOUT ROWID`,
		add:    `INSERT INTO ` + t + ` (stream, place, token) SELECT ?1, coalesce(max(place) + 1, 0), ?2 FROM ` + t + ` WHERE stream = ?1`,
		list:   `SELECT stream, place, token FROM ` + t,
		drop:   `DROP TABLE ` + t,
	}
}

// stranded is the condition under which a claim passes over a message for ever:
// it is there, its group may be received, and the order does not know it.
func (s *sqlite) stranded(ctx context.Context) (n int, ok bool, err error) {
	err = s.db.QueryRowContext(ctx, strings.ReplaceAll(`
		SELECT count(*)
		  FROM (SELECT DISTINCT stream_id FROM parley_message) m
		  JOIN parley_stream s ON s.stream_id = m.stream_id
		  JOIN parley_grp g ON g.group_id = s.group_id
		 WHERE g.blocked = 0 AND g.resweep = 0
		   AND NOT EXISTS (SELECT 1
		                     FROM parley_ready r
		                    WHERE r.queue_id = s.queue_id AND r.group_id = s.group_id AND r.stream_id = s.stream_id)`,
		"parley_", s.prefix)).Scan(&n)
	return n, err == nil, err
}

func (s *sqlite) watch(ctx context.Context, l *ledger) (wait func(), err error) {
	return every(ctx, 250*time.Millisecond, func() { sampleStranded(ctx, s, l) }), nil
}

// sampleStranded takes one sample of what must be none.
func sampleStranded(ctx context.Context, e engine, l *ledger) {
	n, _, err := e.stranded(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		l.problem("errors", "sampler: %v", err)
	default:
		l.count("samples", 1)
		if n > 0 {
			l.problem("stranded", "%d streams have messages and no place in the ready order", n)
		}
	}
}

// every calls f in a rhythm until ctx ends; wait waits for that.
func every(ctx context.Context, d time.Duration, f func()) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(d)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				f()
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { <-done }
}
