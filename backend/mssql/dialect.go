package mssql

import (
	"embed"
	"fmt"
	"strings"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// now is the engine's clock, in UTC whatever the server's time zone. It is the
// time of the statement, not of the transaction.
const now = `DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())`

// The statements of this package lock by hints. The manual describes them in "Table hints
// (Transact-SQL)" and the "Transaction locking and row versioning guide":
//
// READPAST: "not read rows that are locked by other transactions". It skips only rows with an
// incompatible lock: a reader skips a group that is changed (X), but not a group that is claimed
// (U). It skips row locks, but waits for page locks: these are off. It "can only be specified in
// transactions operating at the READ COMMITTED or REPEATABLE READ isolation levels", hence
// ErrIsolation.
//
// READCOMMITTEDLOCK: "shared locks as data is read", released "when the read operation is
// completed, regardless of the setting of the READ_COMMITTED_SNAPSHOT database option". With that
// option on, READPAST needs it ("include the READCOMMITTEDLOCK table hint"). Without it a read
// after a lock could return an older version.
//
// UPDLOCK: "update locks are to be taken and held until the transaction completes". Two U are
// incompatible, U and S are not: a claimed group can be read. "When UPDLOCK is specified, the
// READCOMMITTED and READCOMMITTEDLOCK isolation level hints are ignored." In a SERIALIZABLE
// transaction it would lock ranges, which is the second reason for ErrIsolation.
//
// XLOCK: "exclusive locks are to be taken and held until the transaction
// completes". Guards are taken with it, and not with U: READPAST would not skip a
// guard on which another transaction has a shared lock.
//
// ROWLOCK: "row locks are taken when page or table locks are ordinarily taken". The
// manual has it in one group with READCOMMITTEDLOCK, of which a table may have one;
// the server takes both.
//
// HOLDLOCK is not used: "equivalent to SERIALIZABLE", a lock of the range between
// two keys, in which every new id falls. Where a share lock is meant to last it
// is REPEATABLEREAD.
//
// READUNCOMMITTED reads a row whatever its locks. It is used for rows that are changed
// in place: group, stream and endpoint. Of these only what never changes is needed, or
// what the transaction has itself, or a hint where to look.
//
// NOWAIT: "return a message as soon as a lock is encountered on the table".
//
// MERGE is not used: it is not safe from another inserter without HOLDLOCK. An
// insert that may find its row there catches 2601 and 2627, which leave the
// transaction as it is as long as XACT_ABORT is off. What SET sets in dynamic SQL
// lasts until that returns ("SET statements"), so it is set in the statement and
// no other statement notices.
//
// No statement deletes or updates rows through a common table expression or derived table, because
// the plan would decide which lock the inner read takes.
//
// testdata/locks.txt lists what each statement locks: the table, key or range, the mode, and the
// duration (row: until the row has been read). It also says whether the statement waits for locked
// rows or skips them. A test compares these lines with the hints, and a model of the lock manager
// runs them.

//go:embed sql/*.sql
var sqlFiles embed.FS

// statements are those that differ from the portable ones in more than tokens.
var statements = sqlstore.ReadTexts(sqlFiles)

// hints are those of tables, by what a statement wants of one.
var hints = map[string]string{
	"read dirty": "READUNCOMMITTED",
	"read skip":  "READCOMMITTEDLOCK, ROWLOCK, READPAST",
	"read wait":  "READCOMMITTEDLOCK, ROWLOCK",
	"lock skip":  "READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST",
	"lock wait":  "READCOMMITTEDLOCK, UPDLOCK, ROWLOCK",
	"guard skip": "READCOMMITTEDLOCK, XLOCK, ROWLOCK, READPAST",
	"guard wait": "READCOMMITTEDLOCK, XLOCK, ROWLOCK",
}

// token writes what the portable statements have in T-SQL.
func (p *pool) token(verb, arg string) (string, bool) {
	first, second, _ := strings.Cut(arg, " ")
	if h, ok := hints[verb+" "+first]; ok {
		if second != "" {
			h = "INDEX(" + second + "), " + h
		}
		return "WITH (" + h + ")", true
	}
	const page = "OFFSET 0 ROWS FETCH NEXT %s ROWS ONLY"
	switch verb {
	case "exact":
		if second != "" {
			return " AND DATALENGTH(" + first + ") = DATALENGTH(" + second + ")", true
		}
		return " AND " + first + "bytes = DATALENGTH(?!)", true
	case "bytes":
		return ", " + strings.Replace(arg, "?", "DATALENGTH(?!)", 1), true
	case "limit":
		return fmt.Sprintf(page, arg), true
	case "some":
		return fmt.Sprintf("ORDER BY (SELECT NULL) "+page, arg), true
	case "new": // as it is more than one statement it says itself how many rows there were: see counted
		return "SET XACT_ABORT OFF; SET @rows = 0;\nBEGIN TRY\n  INSERT", true
	case "otherwise":
		return ";\n  SET @rows = @@ROWCOUNT;\nEND TRY\n" +
			"BEGIN CATCH\n  IF ERROR_NUMBER() NOT IN (2601, 2627) THROW;\nEND CATCH", true
	case "made":
		// REPLACE cuts what is not nvarchar(max) after 8,000 bytes, and compares by the collation.
		return "REPLACE(CONVERT(nvarchar(max), " + arg + ") COLLATE Latin1_General_100_BIN2, N'" + backend.AttemptNow +
			"', N'\"at\":' + CONVERT(nvarchar(20), :now))", true
	case "octets":
		return "CONVERT(bigint, DATALENGTH(" + arg + "))", true
	case "convert":
		return "CONVERT(" + second + ", " + first + ")", true
	}
	if p.options.Locks == LocksNative {
		return p.nativeToken(verb)
	}
	return "", false
}

// many are the statements that do in one trip what package sqlstore does row by row. If a statement
// locks rows of several tables, a LOOP JOIN from the list of keys keeps their order and finds each
// row by key. A hash join would read, and lock, the whole table.
type many struct {
	Send, Guards, Append, Posts                  *sqlstore.Stmt
	Walk, Take, Lease, Held, Read                *sqlstore.Stmt
	Remove, RemovePosts, Finish, Extend, Reclaim *sqlstore.Stmt
	Submit                                       *sqlstore.Stmt
}
