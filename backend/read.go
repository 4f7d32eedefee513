package backend

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Reader lets operators look. It reads without locking and never counts
// without a bound.
type Reader interface {
	// Queues returns the state of one queue (0: of all, by name).
	Queues(ctx context.Context, queue int64) ([]QueueStatus, error)
	// Groups lists groups with messages in the order of claims. Deferred groups follow
	// in the order in which they are due, then parked groups in the order in which they
	// were parked. The list is over when a page is empty.
	Groups(ctx context.Context, q GroupQuery) ([]GroupStatus, error)
	// Conversations lists conversations by id, one entry for each side.
	Conversations(ctx context.Context, q ConversationQuery) ([]ConversationStatus, error)
	// Withheld lists streams whose messages wait for their target, by handle. after is the last
	// handle of the previous page.
	Withheld(ctx context.Context, after ID, limit int) ([]WithheldStream, error)
	// Retained lists the copies that an endpoint keeps, oldest first.
	Retained(ctx context.Context, handle ID) ([]RetainedMessage, error)
	// DeadLetters lists dead letters, newest first.
	DeadLetters(ctx context.Context, q DeadQuery) ([]DeadStatus, error)
	// PostStatus returns one post of a queue by id, pending, delayed or kept
	// after processing; ErrNotPending if there is none.
	PostStatus(ctx context.Context, queue int64, id ID) (*PostStatus, error)
	// Waiting lists messages in the order of their Places, without their bodies: those that wait, are
	// delayed or withheld, or are in a receiver's hands. It reads at most limit rows, by their keys. The
	// messages of a stream come in their order. A message that joins its queue between two pages may be
	// listed twice, and is listed at least once. The list is over when a page is empty.
	Waiting(ctx context.Context, after Place, limit int) ([]WaitingMessage, error)
	// Find returns the group in which a message waits or, if it is withheld, the
	// handle that sent it; ErrNotPending if it does neither. It may read all
	// messages there are.
	Find(ctx context.Context, message ID) (ID, error)
	// Promotions lists promotions by group. after is the last group of the previous page. Promotions of
	// groups without messages are included.
	Promotions(ctx context.Context, after ID, limit int) ([]PromotionStatus, error)
	// Astray reads up to limit messages of the streams after the stream after, by stream, and lists streams
	// whose messages no receive finds. While a stream is in use, it may be listed for a moment. The result
	// last is the stream to continue after; zero means that there are no more.
	Astray(ctx context.Context, after ID, limit int) (list []Astray, last ID, err error)
	// Overdue returns, for each maintenance job with items due, how long ago the first of them fell due.
	// A short delay is normal.
	Overdue(ctx context.Context) (map[Job]time.Duration, error)
}

// Astray is a stream with messages that no receive finds: no place in the ready order leads to it.
type Astray struct {
	Stream ID
	Group  ID // zero: the stream itself is gone
}

// CountLimit bounds counting. A count that reaches it means "at least".
const CountLimit = 10000

// QueueStatus is what operators see of a queue.
type QueueStatus struct {
	ID       int64
	Name     string
	Disabled bool
	Depth    int           // messages ready or in a receiver's hands, up to CountLimit
	Oldest   time.Duration // age of the oldest of these, of whatever priority; zero: none
	Delayed  int           // posts that are not yet due, up to CountLimit
	Leased   int           // groups held by lease
	Deferred int           // groups
	Parked   int           // groups
	Withheld int           // messages that wait for this queue, up to CountLimit
}

// Place is the position of an entry in a list. A page begins after a Place; the zero Place is
// before all entries.
type Place struct {
	Part  int   // of the list
	Rank  int   // a greater one comes first
	Since int64 // microseconds
	ID    ID
	Seq   int64 // the number of a message in the stream ID
}

// Compare returns -1 if p comes before q, 1 if it comes after q, and else 0.
func (p Place) Compare(q Place) int {
	return cmp.Or(cmp.Compare(p.Part, q.Part), cmp.Compare(q.Rank, p.Rank), cmp.Compare(p.Since, q.Since), bytes.Compare(p.ID[:], q.ID[:]), cmp.Compare(p.Seq, q.Seq))
}

// MarshalText writes the place as words with dots between them, which UnmarshalText reads: four, or five if it has a Seq.
func (p Place) MarshalText() ([]byte, error) {
	text := fmt.Appendf(nil, "%d.%d.%d.%s", p.Part, p.Rank, p.Since, p.ID)
	if p.Seq != 0 {
		text = fmt.Appendf(text, ".%d", p.Seq)
	}
	return text, nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Place) UnmarshalText(text []byte) (err error) {
	words := strings.Split(string(text), ".")
	if len(words) != 4 && len(words) != 5 {
		return fmt.Errorf("%q is no place in a list", text)
	}
	var failed [5]error
	p.Part, failed[0] = strconv.Atoi(words[0])
	p.Rank, failed[1] = strconv.Atoi(words[1])
	p.Since, failed[2] = strconv.ParseInt(words[2], 10, 64)
	p.ID, failed[3] = ParseID(words[3])
	if p.Seq = 0; len(words) == 5 {
		p.Seq, failed[4] = strconv.ParseInt(words[4], 10, 64)
	}
	return errors.Join(failed[:]...)
}

// The parts of a list of groups.
const (
	PartPromoted = 1 + iota // by level
	PartReady               // by priority; also those that are held
	PartDeferred
	PartParked
)

// PartOf returns the part of a group in a list of groups, by its state.
func PartOf(state string, promoted bool) int {
	switch {
	case state == "parked":
		return PartParked
	case state == "deferred":
		return PartDeferred
	case promoted:
		return PartPromoted
	}
	return PartReady
}

// GroupQuery asks for one page, or for one group.
type GroupQuery struct {
	// Group asks for this one, of whatever queue, if it has messages. Its Place is not told.
	Group ID

	Queue int64
	After Place // groups after this one, of any state
	Limit int   // at least 1
	// State leaves out groups of other states; empty means all. A group that only a
	// transaction holds may count as ready.
	State string
	// Brief leaves it to the store to tell, of groups that are deferred or parked, what has to be looked up for
	// each: Messages, Oldest, Priority and how they are promoted.
	Brief bool
}

// GroupStatus is what operators see of a group.
type GroupStatus struct {
	Group    ID
	Queue    int64  `json:"-"`
	Service  string // "" for posts
	Key      string
	Post     bool // a post without key
	Promoted bool
	Level    int
	Sticky   bool
	// UntilEmpty: the promotion ends when the group is empty.
	UntilEmpty bool
	Priority   int
	Messages   int           // up to CountLimit
	Oldest     time.Duration // age of its oldest ready message
	// Stranded counts messages of a ready group that are missing from the ready order, up to
	// CountLimit. No receive of the queue finds them until Unpark or JobGroups puts them back. While
	// a group is in use, some may seem stranded for a moment.
	Stranded int
	// State is "ready", "held", "deferred" or "parked". Holds of transactions
	// cannot be seen on every store: such a group may say "ready".
	State  string
	Reason string        // why it is parked or deferred
	Owner  string        // who holds it
	Since  time.Duration // how long it has been held, deferred or parked
	Until  time.Duration // until the lease or deferral ends
	Place  Place
}

// ConversationQuery asks for one page.
type ConversationQuery struct {
	After  ID  // conversations after this id
	Limit  int // of conversations; both sides of each are listed
	Handle ID  // only this one's conversation
	Group  ID  // only this group's
}

// ConversationStatus is one side of a conversation.
type ConversationStatus struct {
	Endpoint
	Waiting  int           // messages for it, up to CountLimit
	Withheld int           // messages of its that wait for the target, up to CountLimit
	Status   string        // why they wait
	Timer    time.Duration // until its timer fires; zero: none
	Age      time.Duration
}

// WithheldStream is a stream whose messages wait for their target.
type WithheldStream struct {
	From    Endpoint
	Count   int // up to CountLimit
	Status  string
	Waiting time.Duration
}

// RetainedMessage is a copy kept by retention.
type RetainedMessage struct {
	Message Message
	Sent    bool // a copy of what this side sent, else of what it received
}

// PromotionStatus is a promotion.
type PromotionStatus struct {
	Group  ID // or a post
	Queue  int64
	Level  int
	Sticky bool // or until the group is empty
	Ended  bool // nothing can arrive in the group any more: it is gone, or all its sides have ended
}

// DeadQuery says which dead letters to list.
type DeadQuery struct {
	Queue  int64 // 0: all
	After  Place // those after this one
	Limit  int
	Bodies bool // with the bodies of messages
}

// DeadStatus is a dead letter.
type DeadStatus struct {
	Queue   int64
	Message Message // without its body, if that was not asked for
	Bytes   int     // of the body
	Reason  string
	Age     time.Duration
	Place   Place
}

// WaitingMessage is a message without its body that is not yet settled.
type WaitingMessage struct {
	ID      ID
	Stream  ID // of a withheld message the handle that sent it; zero for a delayed post
	Group   ID // in which it is received; zero if it is delayed or withheld
	Queue   int64
	Type    string
	Headers string
	State   string // "waiting", also in a receiver's hands, "delayed" or "withheld"
	Place   Place
}

// PostStatus is a post.
type PostStatus struct {
	ID      ID
	Key     string
	Type    string
	Body    []byte
	Headers string
	State   string        // "pending", "delayed" or "processed"
	Due     time.Duration // for a delayed one
}
