package main

import (
	"net/url"
	"strings"
)

// withPrefix names the same database with other tables.
func withPrefix(dsn, prefix string) string { return withParam(dsn, "parley_prefix", prefix) }

// withParam adds a parameter to the name of a database.
func withParam(dsn, name, value string) string {
	sep := "?"
	if strings.Contains(dsn, "?") {
		sep = "&"
	}
	return dsn + sep + name + "=" + url.QueryEscape(value)
}
