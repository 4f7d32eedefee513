// Package bolt keeps Parley's conversations in a file of go.etcd.io/bbolt. It is an example of a
// backend in a separate module, written from docs/writing-a-backend.md and the prose of package
// backend. The conformance suite proves it.
//
//	import _ "github.com/parleymq/parley/examples/backend-bolt"
//
//	b, err := parley.Open(ctx, "bolt:app.db", nil)
//
// One process at a time has the file. In it, one transaction at a time writes, and readers see
// what was committed last. So the guards and locks of the contract cost nothing here: a
// transaction that has begun to write has all of them. What must outlive a transaction, such as
// the hold of a receiver, is a lease in a row.
//
//	open.go      files, handles, the schema
//	rows.go      typed rows in buckets, and how they are undone
//	tx.go        transactions, their turn, savepoints
//	catalog.go   what has been defined
//	dialog.go    conversations: begin, accept, state, timers
//	send.go      sending, and what cannot be sent yet
//	end.go       the end of a side, and of both
//	post.go      one-way messages
//	ready.go     the ready order
//	group.go     groups: leases, moves, promotions
//	claim.go     receiving
//	settle.go    the outcome of deliveries
//	maintain.go  what is due
//	read.go      what operators see
//	worker.go    records of readers
//	lock.go      application locks, in memory
//	plan.go      tasks in phases
package bolt
