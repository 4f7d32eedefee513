package parley

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// Message is a message as received.
type Message struct {
	ID       ID                // the same at every delivery
	Type     string            // for the broker's own: EndDialog, ErrorMessageType, DialogTimer
	Body     []byte            // nil if there is none
	Headers  map[string]string // nil if there are none
	Queue    string            // that it was received from
	Seq      int64             // its number in its direction of the conversation, from 0
	Group    ID
	Key      string    // of a post with key
	Enqueued time.Time // by the database's clock

	// Conversation is the handle of the side that received it, zero for a post.
	Conversation   ID
	ConversationID ID // shared by both sides
	Service        string
	FarService     string // the service on the other side
	Contract       string
	Initiator      bool // this side began the conversation
	Priority       int

	// What earlier deliveries left behind.
	Attempt     int // 1 at the first
	Redelivered bool
	LastError   string
	Errors      []FailedAttempt // the last ten attempts that failed, the oldest first

	raw *backend.Message
	of  receiver
}

// FailedAttempt is an attempt to handle a message that failed. Its error has at most 1 KiB of valid text;
// Message.LastError has more of the last one.
type FailedAttempt = backend.FailedAttempt

// receiver is what has a message in hand: it knows the transaction in which the
// message is acknowledged.
type receiver interface {
	txFor(context.Context, *Message) (*Tx, error)

	// within returns ctx marked as inside that transaction.
	within(ctx context.Context) context.Context
}

func wrapMessages(raw []*backend.Message, queue string, of receiver) []*Message {
	all := make([]Message, len(raw))
	out := make([]*Message, len(raw))
	for i, m := range raw {
		all[i] = Message{
			ID: m.ID, Type: m.Type, Body: bytes.Clone(m.Body), Headers: backend.DecodeHeaders(m.Headers),
			Queue: queue, Seq: m.Seq, Group: m.Group, Key: m.Key, Enqueued: m.Enqueued,
			Conversation: m.Handle, ConversationID: m.Conversation, Service: m.Service, FarService: m.FarService,
			Contract: m.Contract, Initiator: m.Initiator, Priority: m.Priority,
			Attempt: m.Attempts + m.Deaths + 1, Redelivered: m.Attempts+m.Deaths > 0, LastError: m.LastError,
			Errors: slices.Clone(m.Errors),
			raw:    m, of: of,
		}
		out[i] = &all[i]
	}
	return out
}

// Tx returns the transaction in which the message is acknowledged: what is
// written in it commits with the acknowledgement or not at all. It is opened at
// the first call if need be; see Delivery.Tx. A message that the program made itself has
// none: ErrNotReceived.
func (m *Message) Tx(ctx context.Context) (*Tx, error) {
	if m.of == nil {
		return nil, fail("transaction of message", m.ID.String(), ErrNotReceived)
	}
	return m.of.txFor(ctx, m)
}

// WithTx returns a copy of the message whose Tx is tx. A program that calls a handler itself passes the
// transaction in this way; the call acknowledges nothing.
func (m *Message) WithTx(tx *Tx) *Message {
	c := *m
	if c.of = nil; tx != nil {
		c.of = tx
	}
	return &c
}

// Err returns the error that an Error message carries, and nil for any other.
func (m *Message) Err() *DialogError {
	if m.Type != ErrorMessageType {
		return nil
	}
	e, err := backend.ParseDialogError(m.Body)
	if err != nil {
		return &DialogError{Text: err.Error()}
	}
	return e
}

// On returns the conversation of the message in the transaction in which the
// message is acknowledged, which it opens if need be.
func (m *Message) On(ctx context.Context) (*Conversation, error) {
	if m.Conversation.IsZero() {
		return nil, fail("conversation of message", m.ID.String(), fmt.Errorf("it is a post: %w", ErrNoConversation))
	}
	tx, err := m.Tx(ctx)
	if err != nil {
		return nil, err
	}
	f := m.info()
	tx.b.convs.put(f)
	return &Conversation{tx: tx, handle: m.Conversation, group: m.Group, info: f}, nil
}

// info is what never changes about the message's conversation.
func (m *Message) info() *convInfo {
	return &convInfo{m.Conversation, m.ConversationID, m.Initiator, m.Service, m.FarService, m.Contract}
}
