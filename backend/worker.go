package backend

import (
	"context"
	"time"
)

// Workers keeps records of the readers that serve queues. They tell operators which worker has what
// in hand. They tell the next receiver of a message that an earlier receiver died with it in hand.
//
// A receiver that dies while it holds by lease leaves a trace, too. A Claim that takes over an
// expired lease adds one to Deaths of the first message of the hold. It keeps that count with its
// new lease.
type Workers interface {
	// PutReader replaces a reader's record, or adds it. When it returns, the record survives the
	// death of the process, though not necessarily that of the machine. It returns those of the
	// reader's messages that records of other workers have in hand. If the caller holds the
	// messages, such a worker has died.
	PutReader(ctx context.Context, r ReaderRecord) ([]Trace, error)

	// ExtendReaders extends all records of a worker to d from now.
	ExtendReaders(ctx context.Context, worker ID, d time.Duration) error

	// RemoveReaders removes all records of a worker, or only one reader's.
	RemoveReaders(ctx context.Context, worker, reader ID) error

	// ReaderRecords lists the records, those of dead workers as well.
	ReaderRecords(ctx context.Context) ([]ReaderStatus, error)
}

// TxWorkers changes those records inside transactions.
type TxWorkers interface {
	// ResetReader empties the record of a reader (Backend.PutReader), with the commit.
	ResetReader(ctx context.Context, reader ID) error

	// ClearTraces removes messages from records of workers that died with them in hand. Records
	// that become empty are removed with the commit. The messages are handled or given up in this
	// transaction.
	ClearTraces(ctx context.Context, traces []Trace) error
}

// ReaderRecord is the record of a reader.
type ReaderRecord struct {
	Reader  ID
	Worker  ID // whose reader it is
	Queue   int64
	Owner   string
	Readers int           // the most that the worker may have
	For     time.Duration // without a further sign the worker counts as dead
	InHand  []ID          // the first message of each group
	Alone   bool          // the worker handles nothing else that may be deadly
}

// Trace is a message in a record.
type Trace struct {
	Message ID
	Reader  ID // the record's
	Worker  ID
	Alone   bool
}

// ReaderStatus is a record as operators see it.
type ReaderStatus struct {
	ReaderRecord
	Since time.Duration // since it was written
	Left  time.Duration // until the worker counts as dead; below zero: since then
}
