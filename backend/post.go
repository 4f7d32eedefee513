package backend

import "context"

// TxPosts sends one-way messages.
type TxPosts interface {
	// Post adds posts. A unique post with a pending duplicate is not added; the result is the
	// duplicate's ID. ErrStaleCatalog and ErrQueueDisabled refuse the whole call. It waits for
	// other transactions that post with the same key or the same Unique, in one order for all
	// callers. Posts without either wait for none.
	Post(ctx context.Context, version int64, posts []Posting) ([]Posted, error)

	// Cancel removes a waiting post. Otherwise it returns ErrNotPending. The error is ErrGroupBusy
	// as well if a receiver has the post in hand, or another transaction has it locked. A
	// maintenance job may have it locked for a moment.
	Cancel(ctx context.Context, queue int64, id ID) error
}
