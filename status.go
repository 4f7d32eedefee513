package parley

import (
	"context"
	"time"

	"github.com/parleymq/parley/backend"
)

// QueueStatus is what operators see of a queue.
type QueueStatus = backend.QueueStatus

// Place is the position of an entry in a list. A page begins after a Place; the zero Place is before all
// entries.
type Place = backend.Place

// GroupStatus is what operators see of a group, or of a post without key.
type GroupStatus struct {
	Group    ID // or the post
	Queue    string
	Service  string // "" for posts
	Key      string
	Post     bool // a post without key
	Promoted bool
	Level    int
	Sticky   bool
	// UntilEmpty: the promotion ends when the group is empty.
	UntilEmpty bool
	Priority   int
	Messages   int           // up to backend.CountLimit
	Oldest     time.Duration // age of its oldest ready message
	// Stranded counts messages of a ready group that are missing from the ready order, up to backend.CountLimit. No
	// receive of the queue finds them until Admin.Unpark or maintenance puts them back. While a group is in use, some
	// may seem stranded for a moment.
	Stranded int
	// State is "ready", "held", "deferred" or "parked". Holds of transactions cannot be seen on every store: such a
	// group may say "ready".
	State  string
	Reason string        // why it is parked or deferred
	Owner  string        // who holds it
	Since  time.Duration // how long it has been held, deferred or parked
	Until  time.Duration // until the lease or deferral ends
	Place  Place
}

// Endpoint is one side of a conversation.
type Endpoint struct {
	Handle       ID // of this side
	Conversation ID // shared by both sides
	FarHandle    ID // of the other side; given at the start, before that side exists
	Initiator    bool
	Service      string // on this side
	FarService   string // on the other side
	Contract     string
	Queue        string // of Service; "" if that is not known yet
	Group        ID
	Priority     int           // 1 to 10
	Lifetime     time.Duration // what is left of it, above zero also when it is over; zero: unlimited
	State        State         // when read
	Error        *DialogError  // when State is Errored: the first error
	FarCleaned   bool          // the other side was cleaned up, which shows only when this side sends
	NextSeq      int64         // number of this side's next message
	Sealed       bool          // this side has sent its last message
}

// ConversationQuery asks for one page of conversations.
type ConversationQuery = backend.ConversationQuery

// ConversationStatus is one side of a conversation.
type ConversationStatus struct {
	Endpoint
	Waiting  int           // messages for it, up to backend.CountLimit
	Withheld int           // messages of its that wait for the target, up to backend.CountLimit
	Status   string        // why they wait
	Timer    time.Duration // until its timer fires; zero: none
	Age      time.Duration
}

// WithheldStream is a stream whose messages wait for their target.
type WithheldStream struct {
	From    Endpoint
	Count   int // up to backend.CountLimit
	Status  string
	Waiting time.Duration
}

// WaitingMessage is a message that is not settled, without its body.
type WaitingMessage struct {
	ID      ID
	Handle  ID     // of a withheld message: of the side that sent it
	Group   ID     // in which it is received; zero if it is delayed or withheld
	Queue   string // "" if that is not known yet
	Type    string
	Headers map[string]string
	State   string // "waiting", also in a receiver's hands, "delayed" or "withheld"
	Place   Place  // in the list of waiting messages
}

// group is a store's group as programs see it, with the name of its queue.
func (v *catalogView) group(g backend.GroupStatus) (GroupStatus, error) {
	queue, err := v.queueName(g.Queue)
	return groupStatus(g, queue), err
}

func groupStatus(g backend.GroupStatus, queue string) GroupStatus {
	return GroupStatus{
		Group: g.Group, Queue: queue, Service: g.Service, Key: g.Key, Post: g.Post,
		Promoted: g.Promoted, Level: g.Level, Sticky: g.Sticky, UntilEmpty: g.UntilEmpty, Priority: g.Priority,
		Messages: g.Messages, Oldest: g.Oldest, Stranded: g.Stranded,
		State: g.State, Reason: g.Reason, Owner: g.Owner, Since: g.Since, Until: g.Until, Place: g.Place,
	}
}

// endpoint is a store's endpoint as programs see it, with the name of its queue.
func (v *catalogView) endpoint(e backend.Endpoint) (Endpoint, error) {
	queue, err := v.queueName(e.Queue)
	return Endpoint{
		Handle: e.Handle, Conversation: e.Conversation, FarHandle: e.FarHandle, Initiator: e.Initiator,
		Service: e.Service, FarService: e.FarService, Contract: e.Contract, Queue: queue, Group: e.Group,
		Priority: e.Priority, Lifetime: e.Lifetime, State: e.State, Error: e.Error, FarCleaned: e.FarCleaned,
		NextSeq: e.NextSeq, Sealed: e.Sealed,
	}, err
}

func (v *catalogView) conversation(c backend.ConversationStatus) (ConversationStatus, error) {
	e, err := v.endpoint(c.Endpoint)
	return ConversationStatus{e, c.Waiting, c.Withheld, c.Status, c.Timer, c.Age}, err
}

func (v *catalogView) withheld(s backend.WithheldStream) (WithheldStream, error) {
	e, err := v.endpoint(s.From)
	return WithheldStream{e, s.Count, s.Status, s.Waiting}, err
}

// named returns what a list of a store's is with the names of its queues, of a newer catalog if need be.
func named[A, B any](ctx context.Context, b *Broker, list []A, f func(*catalogView, A) (B, error)) (all []B, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	err = b.withCatalog(ctx, func(v *catalogView) error {
		all = make([]B, len(list))
		for i, x := range list {
			if all[i], err = f(v, x); err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

func (v *catalogView) waiting(m backend.WaitingMessage) (WaitingMessage, error) {
	queue, err := v.queueName(m.Queue)
	w := WaitingMessage{ID: m.ID, Group: m.Group, Queue: queue, Type: m.Type, Headers: backend.DecodeHeaders(m.Headers), State: m.State, Place: m.Place}
	if m.State == "withheld" {
		w.Handle = m.Stream
	}
	return w, err
}
