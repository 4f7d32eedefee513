package backend

import (
	"context"
	"time"
)

// Claims is what receivers do outside transactions.
type Claims interface {
	// Extend extends the leases of the holds to d from now: the heartbeat. It returns ErrFenced if
	// any of them is lost; the others are extended. As in Reclaim, a store may accept or refuse an
	// expired lease that no other receiver has taken.
	Extend(ctx context.Context, holds []*Hold, d time.Duration) error
}

// TxClaims receives messages and settles them.
type TxClaims interface {
	// Claim finds groups with messages, locks them, and then, in a new look at the store, reads
	// their messages (rule R-A). See ClaimRequest. Nothing to claim is no error. It waits for no
	// lock. Within a group the conversations come by priority, and those of one priority by their
	// oldest message. In any other order a busy conversation, which always has more than MaxMessages,
	// would keep the others waiting. The messages of a conversation stay together, ordered by Kind.
	Claim(ctx context.Context, r ClaimRequest) (Claim, error)

	// More reads messages of a group beyond those in hold.Messages, in each stream, and adds them
	// there. What the caller took out of hold.Messages is read again. The transaction holds the
	// group, by Claim or Reclaim: a store need not check.
	More(ctx context.Context, hold *Hold, maxMessages int, maxBytes int) ([]*Message, error)

	// Reclaim takes the groups of leased holds in this transaction, by their fences, until it ends.
	// ErrFenced if any of them is lost, ErrNewerSchema if the schema has become too new for this
	// program. An expired lease is lost once another receiver has the group; before that, a store
	// may accept it or refuse it.
	Reclaim(ctx context.Context, holds []*Hold) error

	// Settle carries out the outcomes of deliveries, and then corrects the ready order of the
	// streams that it touched. Leases of the holds end with the transaction. It is the last call
	// before Commit: it locks guards, and a sender that needs one waits for the commit. If a sender
	// is writing to a stream, Settle cannot correct that stream's order, and again is true: look
	// again soon. With a single writer again is never true. Messages that EndDialog removed in this
	// transaction count as present, so a handler may end the conversation and then acknowledge.
	// ErrFenced also if a message of Dead is missing.
	Settle(ctx context.Context, outcomes []Outcome) (again bool, err error)

	// Keep makes the receiver keep a group by lease after the commit, and sets the hold's fence.
	// The transaction holds the group, or has just settled it: Keep may follow Settle. ErrFenced if
	// the transaction does not hold the group.
	Keep(ctx context.Context, hold *Hold, lease time.Duration, owner string) error

	// LockGroup takes a group until the transaction ends, without waiting: ErrGroupBusy if another
	// receiver holds it, in a transaction or by lease; ErrNoGroup if there is no such group. A
	// group that this transaction already holds is granted. If waiting inside a transaction is
	// futile on a backend, it returns ErrWouldDeadlock instead of ErrGroupBusy.
	LockGroup(ctx context.Context, group ID) error
}

// ClaimRequest asks for groups of one queue, best rank first. Promoted groups come first, by level
// and then by the time of their promotion. The others follow by the priority of their best ready
// conversation, and then by its oldest ready message.
//
// A claim considers only groups with a visible message, and none that is parked, deferred or held
// by another receiver. Groups in Own stay eligible; any other group that this transaction holds may
// be returned or not. A claim of several groups may return fewer than are available.
type ClaimRequest struct {
	Version int64 // of the catalog; another one: ErrStaleCatalog
	Queue   int64 // a disabled one: ErrQueueDisabled

	// Group or Handle narrow the claim to one group, or to the messages of one
	// endpoint (whose group is locked). An unknown group or endpoint has no messages.
	// Nor has an ended endpoint: what is there for it is removed (Discarded).
	Group  ID
	Handle ID

	MaxGroups   int // at least 1
	MaxMessages int // for each group; at least 1
	MaxBytes    int // of bodies and headers, for the whole claim; the first message is taken whatever its size

	// LockOnly locks the group and reads no messages.
	LockOnly bool

	// Lease asks for holds that outlive the transaction, and is how long they last
	// after its commit. Zero holds for the transaction.
	Lease time.Duration
	// Owner is shown to operators as the holder.
	Owner string

	// Own are groups that this transaction already holds, by an earlier claim or Reclaim.
	Own []ID

	// Walk continues the walk of an earlier claim with the same request: its Claim.Walk.
	Walk any

	// Alone says that the transaction was begun for this claim and is rolled back if it returns
	// nothing. A backend that has locked groups that it cannot return may then return nothing and
	// set Contended; others can ignore this.
	Alone bool

	// Consume settles what is returned at once, as the RECEIVE statement does:
	// the messages are gone when the transaction commits.
	Consume bool
	// Retain keeps copies of what Consume takes, for the receiver.
	Retain bool
	// Keep is how long consumed posts are kept.
	Keep time.Duration
}

// Claim is what a claim found.
type Claim struct {
	Holds []*Hold
	// Contended: nothing was claimed, but there is a locked group, or an entry in the ready order
	// without a visible message. Look again soon.
	Contended bool
	// Walk: nothing was claimed, and the walk is not over, because skipping everything in flight
	// would take more than about 20 ms. The caller claims again at once, with this in
	// ClaimRequest.Walk. Only a claim that returns neither holds nor a Walk means that no group is
	// free.
	Walk any
	// More: there may be more groups, although the claim returned fewer than it asked for, because
	// it reached a limit of the backend.
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
	Seq      int64 // in its stream, from 0 on, without gaps
	Kind     Kind
	Type     string
	Body     []byte // nil: NULL
	Headers  string // see EncodeHeaders
	Key      string // of a post
	Group    ID
	Enqueued time.Time // by the store's clock

	// The receiving endpoint; Handle is zero for posts.
	Handle       ID
	Conversation ID
	Initiator    bool // the receiving side began the conversation
	Service      string
	FarService   string
	Contract     string
	Priority     int

	// What earlier deliveries left behind.
	Attempts  int // failed ones
	Deaths    int // receivers that died with it in hand
	LastError string
	Errors    []FailedAttempt // the last ones, the oldest first
}

// Outcome is what became of one hold. Messages of the hold that are in none of
// its lists go back to where they were.
type Outcome struct {
	Hold *Hold
	// Done are acknowledged: they are removed. If any of them is not there, the
	// call fails with ErrFenced.
	Done []*Message
	// Retain keeps copies for the receiver (dialogs); Keep is how long copies of
	// posts are kept.
	Retain bool
	Keep   time.Duration
	// Dead are removed and recorded as dead letters.
	Dead []DeadLetter
	// Cancelled are posts that are removed, and of which no copy is kept.
	Cancelled []*Message
	// Failure records what is known of a message that stays.
	Failure *Failure
	// Defer hides the group for that time. Then it comes behind those that are
	// ready. Park hides it until Unpark, with a reason for operators, and it
	// keeps its place.
	Defer time.Duration
	Park  string
}

// Removed returns how many messages are taken out of their streams.
func (o Outcome) Removed() int { return len(o.Done) + len(o.Dead) + len(o.Cancelled) }

// DeadLetter is a message taken out of its stream. It keeps the Errors of Message, in which a time that is
// zero is the store's now.
type DeadLetter struct {
	Message *Message
	Reason  string
}

// Failure is what is known of a message that could not be handled.
type Failure struct {
	Message  *Message
	Attempts int
	Deaths   int
	Error    string
	// Errors replaces the message's. A time that is zero is the store's now: see AddAttempt.
	Errors []FailedAttempt
}
