// Package sqlstore is what the backends of PostgreSQL, MySQL and MariaDB, SQLite and
// SQL Server have in common. It keeps Parley's tables in a database and implements
// backend.Backend on them.
//
// Its code knows no engine by name. An engine's package hands it a [Dialect]: whole
// statements, and a few functions where the shape of the work differs. What is the same
// everywhere is written once, in the folder sql. Words in braces stand there for what an
// engine says in its own way: see [Dialect.Token].
//
// # Lock, then look
//
// Every operation that depends on a row that others may be changing first locks that
// row in a separate statement. Then it reads the row, and what depends on it, in a new
// one. A statement that does both sees the locked row as it is now, but everything else
// as it was when the statement began. So the statements that lock return nothing but
// ids, and an engine that has one writer at a time leaves them empty.
//
// # Locks
//
//   - The row of a group (table grp) is locked by its receiver.
//   - The row of a stream (table stream) is the guard: it is locked by the one
//     transaction that writes to the stream. It holds the stream's next number
//     and its home: the group, queue and endpoint that receive from it.
//   - The entry of a stream in the ready order (table ready, "marker") is
//     changed only under the guard. All but senders take the guard only if it is
//     free, without waiting.
//   - A post without key is all of this in one row (table post).
//
// Group, then guard, then inserts; guards that a receiver needs come last and
// are followed by the commit.
package sqlstore
