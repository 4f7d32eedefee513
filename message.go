package parley

import (
	"context"
	"fmt"
	"time"

	"github.com/parleymq/parley/backend"
)

// Message is a message as received.
type Message struct {
	ID       ID     // the same at every delivery
	Type     string // for the broker's own: EndDialog, ErrorType, DialogTimer
	Body     []byte // nil if there is none
	Seq      int64  // its number in its direction of the conversation, from 0
	Group    ID
	Key      string    // of a post with key
	Enqueued time.Time // by the database's clock

	// Conversation is the handle of the side that received it, zero for a post.
	Conversation   ID
	ConversationID ID // shared by both sides
	Service        string
	Far            string // the service on the other side
	Contract       string
	Initiator      bool // this side began the conversation
	Priority       int

	// What earlier deliveries left behind.
	Attempt     int // 1 at the first
	Redelivered bool
	LastError   string

	raw *backend.Message
	of  receiver
}

// receiver is what has a message in hand: it knows the transaction in which the
// message is acknowledged.
type receiver interface {
	txFor(context.Context, *Message) (*Tx, error)
}

func messagesOf(h *backend.Hold, of receiver) []*Message {
	return wrapMessages(h.Messages, of)
}

func wrapMessages(raw []*backend.Message, of receiver) []*Message {
	all := make([]Message, len(raw))
	out := make([]*Message, len(raw))
	for i, m := range raw {
		all[i] = Message{
			ID: m.ID, Type: m.Type, Body: m.Body, Seq: m.Seq, Group: m.Group, Key: m.Key, Enqueued: m.Enqueued,
			Conversation: m.Handle, ConversationID: m.Conversation, Service: m.Service, Far: m.Far,
			Contract: m.Contract, Initiator: m.Initiator, Priority: m.Priority,
			Attempt: m.Attempts + m.Suspicion + 1, Redelivered: m.Attempts+m.Suspicion > 0, LastError: m.LastError,
			raw: m, of: of,
		}
		out[i] = &all[i]
	}
	return out
}

// Tx returns the transaction in which the message is acknowledged: what is
// written in it commits with the acknowledgement or not at all. It is opened at
// the first call if need be; see Delivery.Tx.
func (m *Message) Tx(ctx context.Context) (*Tx, error) {
	if m.of == nil {
		return nil, fail("transaction of message", m.ID.String(), fmt.Errorf("it was not received: %w", ErrInvalidOption))
	}
	return m.of.txFor(ctx, m)
}

// Err returns the error that an Error message carries, and nil for any other.
func (m *Message) Err() *DialogError {
	if m.Type != ErrorType {
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
	f := &facts{m.Conversation, m.ConversationID, m.Initiator, m.Service, m.Far, m.Contract}
	tx.b.facts.put(f)
	return &Conversation{tx: tx, handle: m.Conversation, facts: f}, nil
}

// Reply sends on the message's conversation, in the transaction in which the
// message is acknowledged.
func (m *Message) Reply(ctx context.Context, typ string, body []byte) error {
	c, err := m.On(ctx)
	if err != nil {
		return err
	}
	return c.Send(ctx, typ, body)
}

// End ends this side of the message's conversation, in the transaction in which
// the message is acknowledged: what EndDialog and Error messages ask for.
func (m *Message) End(ctx context.Context) error {
	c, err := m.On(ctx)
	if err != nil {
		return err
	}
	return c.End(ctx)
}
