package backend

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"time"
)

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
	CodeKeyChanged = -28052 // the database's master key was made anew
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
	Peer         ID // the other side's handle; given at the start, before that side exists
	Initiator    bool
	Service      string // on this side
	Far          string // the service on the other side
	Contract     string
	Queue        int64 // of Service
	Group        ID
	Priority     int           // 1 to 10
	Lifetime     time.Duration // what is left of it; zero: unlimited
	State        State         // when read
	Error        *DialogError  // when State is Errored: the first error
	PeerCleaned  bool          // the peer was cleaned up, which shows only when this side sends
	NextSeq      int64         // number of this side's next message
	Sealed       bool          // this side has sent its last message
}

// DialogError is what a conversation was ended with, or what the broker says of
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
}

// Outgoing is a message on a conversation.
type Outgoing struct {
	ID     ID // of the message
	From   ID // handle of the side that sends it
	Type   string
	Kind   Kind // KindUser; the backend adds KindEnd itself
	Body   []byte
	Retain bool // keep a copy for the sender
	// Last: no message may follow it on its stream. The backend notes that under
	// the stream's guard, so that whoever sends later is refused (RefusedSealed)
	// at every isolation level. The side can still end.
	Last bool
}

// Sent says where a message went.
type Sent struct {
	Seq   int64
	Queue int64 // of the receiver; 0 if the message is withheld
}

// Refusal says why a message was not sent.
type Refusal int

// The refusals.
const (
	RefusedStale    Refusal = iota + 1 // the catalog changed: reload it and try again
	RefusedUnknown                     // no such handle
	RefusedEnded                       // this side ended the conversation
	RefusedPeer                        // the peer ended, the conversation is in error, or the peer was cleaned up: read the endpoint
	RefusedNoTarget                    // the conversation has no target yet: Accept
	RefusedDisabled                    // the target's queue is off: Withhold
	RefusedHeld                        // earlier messages are withheld: Withhold
	RefusedSealed                      // a message with Last was sent, or stands before it in the call
)

func (r Refusal) String() string {
	return [...]string{"", "stale catalog", "unknown handle", "ended", "ended by the peer or in error", "no target yet", "target queue disabled", "earlier messages withheld", "the last message was sent"}[r]
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
	// Keep is for how long a conversation stays visible after both sides have
	// ended. Zero removes it at once where nothing stands in the way.
	Keep time.Duration
}

// Ended says what ending did.
type Ended struct {
	Queue    int64 // the peer's, if it was told
	Dropped  int   // unread messages of this side that were removed
	Unheard  bool  // the peer had ended before: it will not hear of an error
	PeerGone bool  // both sides have ended now
	Remains  bool  // they have, but the conversation is locked: DutyClosed has to remove it
}

// Posting is a post to be added.
type Posting struct {
	ID    ID
	Queue int64
	Key   string // "": alone, in no order
	Rank  int    // 1 to 10
	Type  string
	Body  []byte
	Delay time.Duration // joins its queue (and its key's order) only then
	// Unique, if not empty, is added only when no post of the queue with the
	// same value is waiting or in a receiver's hands.
	Unique string
}

// Posted says what became of a Posting.
type Posted struct {
	Duplicate ID // the pending post that has the same Unique; zero: added
}

// Promotion raises a group or a post.
type Promotion struct {
	Group  ID
	Level  int // 0 to 255
	Sticky bool
}
