package backend

import (
	"context"
	"time"
)

// CancelTopic is announced in the place of a queue when requests to cancel were stored. Listen and
// Notify treat it as they do queues.
const CancelTopic int64 = -3

// CancelRequest asks the receiver of a post, or the worker of a task, to stop.
type CancelRequest struct {
	ID    ID            // of the post or the task
	Queue int64         // of the post; zero for a task
	Age   time.Duration // by the store's clock
}

// PendingQuery asks for one page of the posts of a queue that wait, are delayed or are in a
// receiver's hands.
type PendingQuery struct {
	Queue int64
	Key   string // those with this key, and maybe others; empty: all
	After ID     // those with a greater ID
	Limit int    // at least 1
}

// PendingPost is a post that waits, is delayed or is in a receiver's hands.
type PendingPost struct {
	ID   ID
	Key  string
	Type string
}

// TxCancels is what asks receivers to stop, inside transactions.
type TxCancels interface {
	// RequestCancel stores requests to cancel posts of a queue, or tasks if queue is zero, that
	// others have in hand. It changes no other row and waits for no transaction, whatever others
	// request. An ID of nothing does no harm.
	RequestCancel(ctx context.Context, queue int64, ids []ID) error
	// CancelFree removes those of many posts that it can remove quickly, and returns their IDs.
	// TxPosts.Cancel sees to the others.
	CancelFree(ctx context.Context, queue int64, ids []ID) (removed []ID, err error)
}

// Cancels is what asks receivers to stop, outside transactions.
type Cancels interface {
	// CancelRequests lists the committed requests. A request may be listed twice. It stays until
	// JobCancels finds that its post or task is no longer in hand.
	CancelRequests(ctx context.Context) ([]CancelRequest, error)
	// PendingPosts lists posts by ID. The list is over when a page is empty.
	PendingPosts(ctx context.Context, q PendingQuery) ([]PendingPost, error)
}
