package backend

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"time"
)

// TxDialogs begins, uses and ends conversations.
type TxDialogs interface {
	// BeginDialog stores the initiator's side of a new conversation. It stores the endpoint, its
	// group if NewGroup is set, and the streams of both directions, the outgoing one without a
	// home. It returns ErrGroupBusy if the new group exists by now. An existing group must be held
	// (LockGroup); ErrGroupElsewhere if it is of another queue or service, ErrNoGroup if there is
	// none. ErrStaleCatalog if version is not that of the catalog, because the priority depends on
	// the catalog.
	BeginDialog(ctx context.Context, version int64, d NewDialog) error

	// Accept stores the target side of the conversation that from began. Its
	// new group has the target's handle as its id, and becomes the home of
	// from's stream. It waits for other senders on from. It returns false,
	// changing nothing, when there is a target already. ErrStaleCatalog as in
	// BeginDialog; ErrNoConversation if there is no from.
	Accept(ctx context.Context, version int64, from ID, target Endpoint) (bool, error)

	// Endpoint returns one side of a conversation as this transaction sees it,
	// ErrNoConversation if there is none.
	Endpoint(ctx context.Context, handle ID) (*Endpoint, error)

	// Members returns the sides of conversations that are in a group, by handle, as this
	// transaction sees them. After LockGroup no others exist.
	Members(ctx context.Context, group ID) ([]*Endpoint, error)

	// TryStream takes the stream on which an endpoint sends until the transaction ends, without
	// waiting: ErrStreamBusy if another transaction has it. It is for callers that hold a group,
	// for which a sender may be waiting. ErrNoConversation if there is no such side; with a single
	// writer this is the only error.
	TryStream(ctx context.Context, handle ID) error

	// Send appends messages to their streams and returns their numbers. Within one call a stream's
	// messages keep their order. Send waits for other senders on the streams, in one order for all
	// callers, and then checks whether the messages can be sent. It is all or nothing: if any
	// message is refused, nothing is sent and the error is a *Refused.
	Send(ctx context.Context, version int64, messages []Outgoing) ([]Sent, error)

	// Withhold appends messages to the streams of senders whose target cannot take them, with a
	// text that says why. Once a stream has messages there, Send refuses further ones
	// (RefusedWithheld) until Deliver has moved them. It refuses messages that no target could
	// take: RefusedUnknown, RefusedEnded, RefusedSealed, RefusedFar.
	Withhold(ctx context.Context, messages []Outgoing, status string) ([]Sent, error)

	// Deliver moves what Withhold kept for the stream of from to its target, in order, and returns
	// how many messages moved. Without a target that is zero. The errors are ErrStreamBusy when a
	// sender is writing, ErrQueueDisabled when the target's queue is off, and ErrNoConversation if
	// there is no from. If the target has ended or was cleaned up, a store removes the messages, or
	// moves them for the next claim to remove.
	Deliver(ctx context.Context, from ID) (int, error)

	// Discard removes what Withhold kept for the stream of from, and records each message as dead
	// with the reason. It returns how many there were; an EndDialog counts, too. ErrStreamBusy and
	// ErrNoConversation as in Deliver.
	Discard(ctx context.Context, from ID, reason string) (int, error)

	// Resend moves what Withhold kept for the stream of from to the stream of to, behind the
	// messages withheld there, with a new status. It removes an EndOfStream instead. It returns how
	// many messages moved. It waits for other senders on both streams. ErrNoConversation if one
	// side does not exist.
	Resend(ctx context.Context, from, to ID, status string) (int, error)

	// Notice gives an endpoint a message of the broker. The message gets a separate stream, so that
	// Notice waits for no sender. A notice of KindError also puts the endpoint in error. On an
	// endpoint that has ended it does nothing; ErrNoConversation if there is none.
	Notice(ctx context.Context, n Notice) error

	// EndDialog ends one side of a conversation, whose group must be held. It
	// waits at most for senders on that side. ErrEnded if it ended before, whatever the
	// kind; ErrNoConversation if there is none. EndCleanup drops what is withheld.
	EndDialog(ctx context.Context, end End) (Ended, error)

	// Move makes another group of the same queue the home of the endpoint. Both groups must be
	// held. With NewGroup the group is made. ErrStreamBusy when the peer is writing: nothing has
	// changed; release the groups and try again. ErrGroupElsewhere if the group is of another queue
	// or service.
	Move(ctx context.Context, handle, group ID, newGroup bool) error

	// SetTimer makes a DialogTimer message due on the endpoint in after,
	// replacing an earlier one; zero removes it. ErrEnded, ErrNoConversation.
	SetTimer(ctx context.Context, handle ID, after time.Duration) error
}

// Kind tells the broker's own messages from the users'.
type Kind int

// The kinds, in the order in which the messages of one conversation are
// received: timers first, then errors, then the rest as it was sent.
const (
	KindTimer Kind = iota
	KindError
	KindUser
	KindEnd // in its stream's order, like KindUser
)

// The names of the broker's own message types.
const (
	TypeEndDialog   = "http://schemas.microsoft.com/SQL/ServiceBroker/EndDialog"
	TypeError       = "http://schemas.microsoft.com/SQL/ServiceBroker/Error"
	TypeDialogTimer = "http://schemas.microsoft.com/SQL/ServiceBroker/DialogTimer"
	TypeDefault     = "DEFAULT"
)

// TypeEndOfStream is the type of the message after which its sender sends
// nothing more on the conversation.
const TypeEndOfStream = "EndOfStream"

// Type returns the message type of a broker's message, "" for KindUser.
func (k Kind) Type() string {
	return [...]string{TypeDialogTimer, TypeError, "", TypeEndDialog}[k]
}

// Codes of errors that the broker makes: Service Broker's, negative.
const (
	CodeLifetime         = -8489 // the conversation's lifetime is over
	CodeRemoteClosed     = -8462 // the other side is gone
	CodeContractRefused  = -8408 // the target service does not accept the contract
	CodeValidationFailed = -9615 // the body is not what its type asks for

	CodeRestored   = -9719  // the database was attached or restored
	CodeKeyChanged = -28052 // the database's master key was recreated
)

// State is the state of one side of a conversation.
type State string

// The states.
const (
	StartedOutbound      State = "SO" // begun, nothing sent
	Conversing           State = "CO"
	DisconnectedInbound  State = "DI" // the peer ended
	DisconnectedOutbound State = "DO" // this side ended, the peer has not
	Errored              State = "ER"
	Closed               State = "CD" // both ended
)

// Endpoint is one side of a conversation.
type Endpoint struct {
	Handle       ID // this side's own
	Conversation ID // shared by both sides
	FarHandle    ID // the other side's handle; given at the start, before that side exists
	Initiator    bool
	Service      string // on this side
	FarService   string // the service on the other side
	Contract     string
	Queue        int64 // of Service
	Group        ID
	Priority     int           // 1 to 10
	Lifetime     time.Duration // what is left of it, above zero also when it is over; zero: unlimited
	State        State         // when read
	Error        *DialogError  // when State is Errored: the first error
	FarCleaned   bool          // the peer was cleaned up, which shows only when this side sends
	NextSeq      int64         // number of this side's next message
	Sealed       bool          // this side has sent its last message
}

// DialogError is the error with which a side ended a conversation, or which the broker reports on
// it. Codes above zero are the application's, below zero the broker's.
type DialogError struct {
	Code int
	Text string
}

func (e *DialogError) Error() string {
	return fmt.Sprintf("conversation error %d: %s", e.Code, e.Text)
}

// ErrorNamespace is the XML namespace of an Error message's body.
const ErrorNamespace = "http://schemas.microsoft.com/SQL/ServiceBroker/Error"

type errorBody struct {
	XMLName     xml.Name
	Code        int    `xml:"Code"`
	Description string `xml:"Description"`
}

// Body returns the body of the Error message.
func (e *DialogError) Body() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<?xml version="1.0"?><Error xmlns="%s"><Code>%d</Code><Description>`, ErrorNamespace, e.Code)
	xml.EscapeText(&b, []byte(e.Text))
	b.WriteString(`</Description></Error>`)
	return b.Bytes()
}

// ParseDialogError reads the body of an Error message.
func ParseDialogError(body []byte) (*DialogError, error) {
	var v errorBody
	if err := xml.Unmarshal(body, &v); err != nil {
		return nil, fmt.Errorf("parley: not the body of an Error message: %w", err)
	}
	return &DialogError{Code: v.Code, Text: v.Description}, nil
}

// NewDialog is the initiator's side of a conversation to be made.
type NewDialog struct {
	Endpoint
	NewGroup bool
	// Renew lets the store postpone storing the conversation, to store it together with its first
	// message. It stores the conversation before it does anything else in the transaction. If the
	// catalog has changed by then, it calls Renew, which returns the new version, and the endpoint
	// for that version. If Renew is nil, BeginDialog stores the conversation at once.
	Renew func(ctx context.Context) (version int64, e Endpoint, err error)
}

// Outgoing is a message on a conversation.
type Outgoing struct {
	ID      ID // of the message
	From    ID // handle of the side that sends it
	Type    string
	Kind    Kind // KindUser; the backend adds KindEnd itself
	Body    []byte
	Headers string // see EncodeHeaders; "": none
	Retain  bool   // keep a copy for the sender
	// Last: no message may follow this one on its stream. The backend records that under the
	// stream's guard, so that later senders are refused (RefusedSealed) at every isolation level.
	// The side can still end.
	Last bool
}

// Sent says where a message went.
type Sent struct {
	Seq   int64
	Queue int64 // of the receiver; 0 if the message is withheld
}

// Refusal says why a message was not sent. If there are several reasons, the first in this order
// wins, with three exceptions. RefusedSealed precedes RefusedFar, RefusedWithheld precedes
// RefusedDisabled, and RefusedUnknown may precede RefusedStale.
type Refusal int

// The refusals.
const (
	RefusedStale    Refusal = iota + 1 // the catalog changed: reload it and try again
	RefusedUnknown                     // no such handle
	RefusedEnded                       // this side ended the conversation
	RefusedFar                         // the peer ended or was cleaned up, or the conversation is in error: read the endpoint
	RefusedNoTarget                    // the conversation has no target yet: Accept
	RefusedDisabled                    // the target's queue is off: Withhold
	RefusedWithheld                    // earlier messages are withheld: Withhold
	RefusedSealed                      // a message with Last was sent, or stands before it in the call
)

func (r Refusal) String() string {
	return [...]string{"", "stale catalog", "unknown handle", "ended", "ended by the peer or in error", "no target yet",
		"target queue disabled", "earlier messages withheld", "the last message was sent"}[r]
}

// Refused is the error of a Send that sent nothing.
type Refused struct {
	// Refusals has an entry for each message that was refused, by its index in
	// the call. RefusedStale may stand alone for all of them.
	Refusals map[int]Refusal
}

func (e *Refused) Error() string {
	for i, r := range e.Refusals {
		return fmt.Sprintf("message %d of the batch was refused: %s", i, r)
	}
	return "refused"
}

// Notice is a message that the broker makes for one endpoint.
type Notice struct {
	To    ID
	Kind  Kind         // KindError or KindTimer
	Error *DialogError // for KindError
}

// EndKind says how a side ends.
type EndKind int

// The ways to end.
const (
	EndPlain   EndKind = iota // the peer gets EndDialog after all that was sent
	EndError                  // the peer gets an Error first; what was withheld is dropped
	EndCleanup                // this side vanishes and the peer is not told
)

// End asks to end one side of a conversation.
type End struct {
	Handle ID
	Kind   EndKind
	Error  *DialogError // for EndError
	// MessageID is for the message that tells the peer.
	MessageID ID
	// Keep is how long a conversation stays visible after both sides have ended. Zero removes it at
	// once if possible.
	Keep time.Duration
}

// Ended says what ending did.
type Ended struct {
	Queue    int64 // the peer's, if it was told
	Dropped  int   // unread messages of this side that were removed
	FarEnded bool  // the peer had ended or was cleaned up before: an error does not reach it
	FarGone  bool  // both sides have ended now
	Remains  bool  // they have, but it is locked: JobClosed has to remove it
	// Later, unless nil, says Remains when the transaction has settled or committed: a backend may decide the
	// end of a side then whose group the transaction holds. Dropped is zero meanwhile.
	Later *bool
}

// Posting is a post to be added.
type Posting struct {
	ID      ID
	Queue   int64
	Key     string // "": alone, in no order
	Rank    int    // 1 to 10; a key keeps that of its first post as long as it is there (JobGroups)
	Raise   bool   // the key, which is not empty, gets Rank if that is higher. Delay is zero
	Type    string
	Body    []byte
	Headers string        // see EncodeHeaders; "": none
	Delay   time.Duration // joins its queue (and its key's order) only then
	// Unique, if not empty, is added only when no post of the queue with the
	// same value is waiting or in a receiver's hands.
	Unique string
}

// Posted is the outcome of a Posting.
type Posted struct {
	Duplicate ID // the pending post that has the same Unique; zero: added
}

// Promotion raises a group or a post.
type Promotion struct {
	Group ID     // zero: that of Key in Queue
	Queue int64  // of the key
	Key   string // of posts
	Level int    // 0 to 255
	// By default it ends when messages of the group are acknowledged. Sticky: it stays. UntilEmpty: it ends when
	// messages are acknowledged, or a post is cancelled, and none waits. Not both.
	Sticky, UntilEmpty bool
}
