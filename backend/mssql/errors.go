package mssql

import (
	"errors"

	driver "github.com/microsoft/go-mssqldb"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// number returns the number of a server's error, 0 if it is none.
func number(err error) int32 {
	var e interface {
		error
		SQLErrorNumber() int32
	}
	if errors.As(err, &e) {
		return e.SQLErrorNumber()
	}
	return 0
}

// classify returns the sentinel that fits an error by its number, nil if there is none. The numbers
// are those of the manual's "Database Engine events and errors". There is none for 3930 and 3998
// (the transaction is doomed). They follow an ignored error of an earlier statement, so the same
// transaction would end the same way again.
func classify(err error) error {
	var stream driver.StreamError
	var fatal driver.ServerError // the server has hung up, whatever the number of its error
	if errors.As(err, &stream) || errors.As(err, &fatal) {
		return backend.ErrConnection
	}
	var e driver.Error
	if errors.As(err, &e) && e.Number == 0 {
		// The driver's own: it has been told that the server ended the transaction.
		return backend.ErrSerialization
	}
	switch number(err) {
	case 1205, // deadlock victim: the transaction is gone
		1222,       // lock request time out
		3960, 3961, // update conflict of a snapshot, or its tables have changed
		3902, 3903, // COMMIT or ROLLBACK without BEGIN: the server has ended the transaction
		601,                   // "could not continue scan with NOLOCK due to data movement"
		1203,                  // a lock was released that was not held
		1204,                  // no lock can be had: all of them are in use
		701, 8645, 8628, 8651, // no memory, or not in time
		// Azure SQL: the transaction took too long, or too much: locks, space, log, memory.
		40549, 40550, 40551, 40552, 40553,
		errEnded:
		return backend.ErrSerialization
	case 650, // READPAST at another level than READ COMMITTED or REPEATABLE READ
		3951, 3952: // SNAPSHOT is not possible here
		return backend.ErrIsolation
	case 1101, 1105, // no space in the file group
		9002,         // the log is full
		40544, 40545: // Azure SQL: the quota of the database
		return backend.ErrNoSpace
	case 3906, 3908, // the database is read-only
		978, 3947: // a secondary replica
		return backend.ErrReadOnly
	case 229, 230, // no permission on an object, on a column
		262, 297, 300: // nor for a statement, or the server
		return backend.ErrDenied
	case 208, // invalid object name
		207,  // invalid column name: an older schema
		2812, // no such procedure
		2715, // no such type
		1088, 15151:
		return backend.ErrNotMigrated
	case 2628, 8152, // data would be truncated
		7119, 1946: // beyond 2 GB; beyond the size of an index key
		return backend.ErrTooLarge
	case 596, 6005, 10053, 10054, 10060, // the session or the server is going away
		4060, 17142, 18456, 983, 976, // it cannot be had
		40197, 40501, 40613, 49918, 49919, 49920: // Azure SQL: throttled, or moving
		return backend.ErrConnection
	case 10928, 10929, // Azure SQL: the database has as many sessions as it may have
		17809: // the server has as many connections as it may have
		return sqlstore.ErrFull
	}
	return nil
}
