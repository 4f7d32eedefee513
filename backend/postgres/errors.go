package postgres

import (
	"errors"
	"strings"

	"github.com/parleymq/parley/backend"
)

// sqlState returns the SQLSTATE of an error, "" if it has none. The errors of
// lib/pq and of pgx both have the method, so neither has to be named here.
func sqlState(err error) string {
	var e interface {
		error
		SQLState() string
	}
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// classify returns the sentinel that fits an error, nil if there is none. The
// codes are those of the manual's appendix "PostgreSQL Error Codes". There is none for
// 25P02 (in_failed_sql_transaction): an earlier statement has failed, its error was
// ignored, and the same transaction would end the same way.
func classify(err error) error {
	code := sqlState(err)
	switch code {
	case "":
		return nil
	case "40001", // serialization_failure
		"40P01", // deadlock_detected
		"55P03", // lock_not_available: lock_timeout
		"57014", // query_canceled: statement_timeout, or an operator
		"53200", // out_of_memory, also that for locks
		// A prepared statement that has vanished or is there already: a pooler
		// has given us another session. The next transaction does without.
		"26000", "42P05":
		return backend.ErrSerialization
	case "25006": // read_only_sql_transaction
		return backend.ErrReadOnly
	case "42501": // insufficient_privilege
		return backend.ErrDenied
	case "53100": // disk_full
		return backend.ErrNoSpace
	case "42P01", // undefined_table
		"3F000", // invalid_schema_name
		"42883", // undefined_function
		"42703": // undefined_column: an older schema
		return backend.ErrNotMigrated
	case "57P01", "57P02", "57P03", // admin_shutdown, crash_shutdown, cannot_connect_now
		"57P05",          // idle_session_timeout
		"25P03", "25P04", // idle_in_transaction_session_timeout, transaction_timeout
		"53300": // too_many_connections
		return backend.ErrConnection
	case "54000": // program_limit_exceeded
		return backend.ErrTooLarge
	}
	if strings.HasPrefix(code, "08") { // connection exceptions
		return backend.ErrConnection
	}
	return nil
}

// lostSession reports whether an error shows that prepared statements do not
// stay with a connection.
func lostSession(err error) bool {
	code := sqlState(err)
	return code == "26000" || code == "42P05"
}
