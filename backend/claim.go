package backend

import "time"

// ClaimRequest asks for groups of one queue, best rank first: promoted ones by
// level and then by when they were promoted, then by the priority of their best
// ready conversation, then by their oldest ready message.
//
// Only groups with a visible message are considered, not those that another
// receiver holds, nor parked or deferred ones. A claim of several may return
// fewer than could be had.
type ClaimRequest struct {
	Version int64 // of the catalog; another one: ErrStaleCatalog
	Queue   int64 // a disabled one: ErrQueueDisabled

	// Group or Handle narrow the claim to one group, or to the messages of one
	// endpoint (whose group is locked).
	Group  ID
	Handle ID

	MaxGroups   int // at least 1
	MaxMessages int // for each group; at least 1
	MaxBytes    int // for the whole claim; the first message is taken whatever its size

	// LockOnly locks the group and reads no messages.
	LockOnly bool

	// Lease asks for holds that outlive the transaction: they last for so long
	// after its commit. Zero holds for the transaction.
	Lease time.Duration
	// Owner is shown to operators as the holder.
	Owner string

	// Held are groups that this transaction holds already, by an earlier claim
	// or Reclaim: they stay eligible.
	Held []ID

	// Walk goes on with a walk that an earlier claim like this one has left: its
	// Claim.Walk.
	Walk any

	// Alone says that the transaction was begun for this claim and is rolled back
	// if it returns nothing. A backend that has locked what it cannot return may
	// then return nothing and say Contended.
	Alone bool

	// Consume settles what is returned at once, as the RECEIVE statement does:
	// the messages are gone when the transaction commits.
	Consume bool
	// Retain keeps copies of what Consume takes, for the receiver.
	Retain bool
	// Keep keeps consumed posts for so long.
	Keep time.Duration
}

// Claim is what a claim found.
type Claim struct {
	Holds []*Hold
	// Contended: nothing was claimed, but something was there: a locked group,
	// or an entry in the order without a message that we can see. Look again
	// soon.
	Contended bool
	// Walk: nothing was claimed, and not all was looked at, since so much is in flight
	// that a claim would take more than about 20 ms to pass it. The caller claims again
	// at once, with this in ClaimRequest.Walk. Nothing is there that is free only if a claim
	// returns neither holds nor a Walk.
	Walk any
	// More: there may be more than what was claimed, although it is less than what
	// was asked for: the claim came to a limit of the backend's.
	More bool
	// Discarded counts messages for endpoints that had ended, which were
	// removed.
	Discarded int
}

// Hold is a group in a receiver's hands.
type Hold struct {
	Queue    int64
	Group    ID // for a post without key, the post's own ID
	Messages []*Message
	// Fence is greater than that of every earlier hold of the group. Zero for
	// holds of a transaction.
	Fence int64
	// Promoted: the group came by a promotion of this level.
	Promoted bool
	Level    int

	// Private belongs to the backend.
	Private any
}

// Message is a message as delivered.
type Message struct {
	ID       ID // the same at every delivery
	Stream   ID
	Seq      int64 // in its stream
	Kind     Kind
	Type     string
	Body     []byte // nil: NULL
	Key      string // of a post
	Group    ID
	Enqueued time.Time // by the store's clock

	// The receiving endpoint; Handle is zero for posts.
	Handle       ID
	Conversation ID
	Initiator    bool // the receiving side began the conversation
	Service      string
	Far          string
	Contract     string
	Priority     int

	// What earlier deliveries left behind.
	Attempts  int // failed ones
	Suspicion int // receivers that died with it in hand
	LastError string
}

// Outcome is what became of one hold. Messages of the hold that are in none of
// its lists go back to where they were.
type Outcome struct {
	Hold *Hold
	// Done are acknowledged: they are removed. If any of them is not there, the
	// call fails with ErrFenced.
	Done []*Message
	// Retain keeps copies for the receiver (dialogs), Keep for so long (posts).
	Retain bool
	Keep   time.Duration
	// Dead are removed and recorded as dead letters.
	Dead []DeadLetter
	// Failure records what is known of a message that stays.
	Failure *Failure
	// Defer hides the group for so long; Park hides it until Unpark, with a
	// reason for operators.
	Defer time.Duration
	Park  string
}

// DeadLetter is a message taken out of its stream.
type DeadLetter struct {
	Message *Message
	Reason  string
}

// Failure is what is known of a message that could not be handled.
type Failure struct {
	Message   *Message
	Attempts  int
	Suspicion int
	Error     string
}
