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
// disturbs no other connection.
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
	s := &sqlite{path: path, params: params, prefix: withPrefix(params, run)}
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

func (s *sqlite) stranded(ctx context.Context) (n int, ok bool, err error) {
	return countStranded(ctx, s.db, s.prefix)
}

func (s *sqlite) watch(ctx context.Context, l *ledger) (wait func(), err error) {
	return every(ctx, 250*time.Millisecond, func() { sampleStranded(ctx, s, l) }), nil
}
