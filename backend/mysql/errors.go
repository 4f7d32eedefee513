package mysql

import (
	"errors"

	driver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// number returns the server's number of an error, 0 if it has none.
func number(err error) uint16 {
	var e *driver.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// classify returns the sentinel that fits an error, nil if there is none. The
// numbers are those of "Server Error Message Reference" and of MariaDB's error
// codes.
func classify(err error) error {
	switch {
	case errors.Is(err, driver.ErrInvalidConn), errors.Is(err, driver.ErrMalformPkt),
		// What a server that is about to hang up has sent is taken for the answer to
		// the next statement; the driver closes the connection.
		errors.Is(err, driver.ErrPktSync), errors.Is(err, driver.ErrPktSyncMul):
		return backend.ErrConnection
	case errors.Is(err, driver.ErrPktTooLarge):
		return backend.ErrTooLarge
	}
	switch number(err) {
	case 1205, // ER_LOCK_WAIT_TIMEOUT
		1213, // ER_LOCK_DEADLOCK; on a cluster also at COMMIT: another node was first
		1317, // ER_QUERY_INTERRUPTED: an operator's KILL QUERY
		3024, // ER_QUERY_TIMEOUT: max_execution_time
		1969, // ER_STATEMENT_TIMEOUT of MariaDB: max_statement_time
		1020, // ER_CHECKREAD: innodb_snapshot_isolation of MariaDB
		3572, // ER_LOCK_NOWAIT
		1206, // ER_LOCK_TABLE_FULL
		3101, // ER_TRANSACTION_ROLLBACK_DURING_COMMIT: another member of the group was first
		1180: // ER_ERROR_DURING_COMMIT
		return backend.ErrSerialization
	case 1290, // ER_OPTION_PREVENTS_STATEMENT: read_only
		1792, // ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
		1836, // ER_READ_ONLY_MODE
		4094: // ER_OPERATION_NOT_ALLOWED_WHILE_PRIMARY_CHANGE_IS_RUNNING: another member is about to be the primary
		return backend.ErrReadOnly
	case 1044, // ER_DBACCESS_DENIED_ERROR
		1142, // ER_TABLEACCESS_DENIED_ERROR
		1143, // ER_COLUMNACCESS_DENIED_ERROR
		1227, // ER_SPECIFIC_ACCESS_DENIED_ERROR
		1370: // ER_PROCACCESS_DENIED_ERROR
		return backend.ErrDenied
	case 1021, // ER_DISK_FULL
		1114: // ER_RECORD_FILE_FULL: the tablespace cannot grow
		return backend.ErrNoSpace
	case 1146, // ER_NO_SUCH_TABLE
		1054: // ER_BAD_FIELD_ERROR: an older schema
		return backend.ErrNotMigrated
	case 1040, // ER_CON_COUNT_ERROR
		1203: // ER_TOO_MANY_USER_CONNECTIONS
		return sqlstore.ErrFull
	case 1047, // ER_UNKNOWN_COM_ERROR: a cluster's node that is not ready
		1053, // ER_SERVER_SHUTDOWN
		1152, // ER_ABORTING_CONNECTION
		1158, // ER_NET_READ_ERROR
		1159, // ER_NET_READ_INTERRUPTED
		1160, // ER_NET_ERROR_ON_WRITE
		1161, // ER_NET_WRITE_INTERRUPTED
		1184, // ER_NEW_ABORTING_CONNECTION
		3032, // ER_SERVER_OFFLINE_MODE
		3100, // ER_RUN_HOOK_ERROR: the member has left its replication group
		1927, // ER_CONNECTION_KILLED of MariaDB
		3169, // ER_SESSION_WAS_KILLED
		4031: // ER_CLIENT_INTERACTION_TIMEOUT: wait_timeout
		return backend.ErrConnection
	case 1118, // ER_TOO_BIG_ROWSIZE: more than the redo log takes at once
		1153, // ER_NET_PACKET_TOO_LARGE
		1162: // ER_TOO_LONG_STRING
		return backend.ErrTooLarge
	}
	return nil
}

// wouldWait reports whether a statement that does not wait has met a lock. MariaDB says that as it says that a wait
// has been too long.
func wouldWait(err error) bool { return number(err) == 3572 || number(err) == 1205 }

// endsTransaction reports whether an error may have ended the transaction, so
// that a further statement would be one by itself. After a lock wait InnoDB
// rolls back the transaction only with innodb_rollback_on_timeout; it is given
// up in either case.
func endsTransaction(err error) bool {
	switch number(err) {
	case 1205, 1213, 1020, 1180, 1047, 1206, 3100, 3101:
		return true
	}
	return false
}
