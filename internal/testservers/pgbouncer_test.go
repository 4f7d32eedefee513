package main

import (
	"strings"
	"testing"
)

func TestPgbouncerTarget(t *testing.T) {
	for _, tc := range []struct{ upstream, target, address string }{
		{"postgres://postgres@127.0.0.1:25432/postgres?sslmode=disable",
			"host='127.0.0.1' port=25432 user='postgres'", "postgres://postgres@127.0.0.1:9/postgres?sslmode=disable"},
		{"postgresql://ann:it%27s@db.example",
			"host='db.example' port=5432 user='ann' password='it''s'", "postgres://ann@127.0.0.1:9/ann?sslmode=disable"},
		{"postgres:///app?host=/run/postgresql",
			"host='/run/postgresql' port=5432 user='postgres'", "postgres://postgres@127.0.0.1:9/app?sslmode=disable"},
	} {
		target, address, err := pgbouncerTarget(tc.upstream, 9)
		if err != nil || target != tc.target || address != tc.address {
			t.Errorf("%s:\n got %s, %s, %v\nwant %s, %s", tc.upstream, target, address, err, tc.target, tc.address)
		}
	}
	_, _, err := pgbouncerTarget("host=db.example password=hush", 9)
	if err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("an address that is no URL gives the error %v", err)
	}
}

func TestTracksStatements(t *testing.T) {
	for version, want := range map[string]bool{
		"PgBouncer 1.18.0": false, "PgBouncer 1.20.1": false, "PgBouncer 1.21.0": true,
		"PgBouncer 1.25.1": true, "PgBouncer 2.0.0": true, "": false, "PgBouncer next": false,
	} {
		if got := tracksStatements(version); got != want {
			t.Errorf("tracksStatements(%q) = %v", version, got)
		}
	}
}
