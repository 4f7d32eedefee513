package backend

import "context"

// TxOperators is what operators change.
type TxOperators interface {
	// Promote puts a group, or a post without key, before all that are not promoted. A second
	// promotion replaces the first. ErrNoGroup if there is no such group, or no post was made under
	// the key. It waits for no sender and no receiver.
	Promote(ctx context.Context, p Promotion) error

	// Demote removes a promotion; none is no error.
	Demote(ctx context.Context, group ID) error

	// Unpark makes a parked or deferred group ready again. For a ready group it puts back messages that are not in the
	// ready order. ErrGroupBusy if it is held, ErrNoGroup if there is none. Until the transaction ends, senders of at
	// most a hundred of the group's streams wait, and no sender of an empty stream. JobDeferred puts the other streams
	// into the ready order, a hundred at a time.
	Unpark(ctx context.Context, group ID) error

	// RemoveDead removes a dead letter and reports whether there was one.
	RemoveDead(ctx context.Context, message ID) (bool, error)
}
