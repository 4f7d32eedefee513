package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
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
		if closed(err) {
			return backend.ErrConnection
		}
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
		"25P03", "25P04": // idle_in_transaction_session_timeout, transaction_timeout
		return backend.ErrConnection
	case "53300": // too_many_connections
		return sqlstore.ErrFull
	case "54000": // program_limit_exceeded
		return backend.ErrTooLarge
	}
	if strings.HasPrefix(code, "08") { // connection exceptions
		return backend.ErrConnection
	}
	return nil
}

// closed reports whether pgx says by an error that it can no longer use a connection. Its errors have a method that says
// whether nothing was sent. That is not asked: up to version 5.12 pgx also says so if the connection breaks before the
// answer to a BEGIN, a COMMIT, or another statement without arguments. "conn busy" wraps nothing: the program uses the
// connection for something else.
func closed(err error) bool {
	var e interface {
		error
		SafeToRetry() bool
	}
	return errors.As(err, &e) && errors.Unwrap(e) != nil
}

// errSet says why a transaction in which the application works too may not see the store's tables,
// or may not touch them. A schema that a role may not use is left out of search_path.
var errSet = errors.New("the transaction may have another search_path or role (SET search_path, SET ROLE)")

// strayed says so of an error that it may be the reason for.
func (p *pool) strayed(err error) error {
	switch code := sqlState(err); {
	case code == "42501":
		return sqlstore.Classified(backend.ErrDenied, fmt.Errorf("%w: %w", err, errSet))
	case (code == "42P01" || code == "3F000") && p.options.Schema == "" && p.store.Admitted():
		return sqlstore.Classified(backend.ErrTxSettings, fmt.Errorf("%w: %w", err, errSet))
	}
	return err
}

// unreached is sqlstore.Unreached for what is no answer of the server's.
func unreached(ctx context.Context, err error) error {
	if sqlState(err) != "" {
		return err
	}
	return sqlstore.Unreached(ctx, err)
}

// lostSession reports whether an error shows that prepared statements do not
// stay with a connection.
func lostSession(err error) bool {
	code := sqlState(err)
	return code == "26000" || code == "42P05"
}
