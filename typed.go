package parley

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
)

// Codec turns values into bodies and back.
type Codec interface {
	Marshal(v any) ([]byte, error)
	Unmarshal(body []byte, v any) error
}

// The codecs that come along. Raw takes []byte and string.
var (
	JSON Codec = funcCodec{json.Marshal, json.Unmarshal}
	XML  Codec = funcCodec{xml.Marshal, xml.Unmarshal}
	Raw  Codec = funcCodec{rawMarshal, rawUnmarshal}
)

type funcCodec struct {
	marshal   func(any) ([]byte, error)
	unmarshal func([]byte, any) error
}

func (c funcCodec) Marshal(v any) ([]byte, error)      { return c.marshal(v) }
func (c funcCodec) Unmarshal(body []byte, v any) error { return c.unmarshal(body, v) }

func rawMarshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		return v, nil
	case string:
		return []byte(v), nil
	}
	return nil, fmt.Errorf("parley: the raw codec takes []byte and string, not %T", v)
}

func rawUnmarshal(body []byte, v any) error {
	switch v := v.(type) {
	case *[]byte:
		*v = body
		return nil
	case *string:
		*v = string(body)
		return nil
	}
	return fmt.Errorf("parley: the raw codec fills *[]byte and *string, not %T", v)
}

// Typed binds a message type's name to a Go type and a codec.
type Typed[T any] struct {
	name    string
	codec   Codec
	headers map[string]string
}

// Type binds a message type's name, a Go type and a codec, once for all uses:
//
//	var Order = parley.Type[OrderRequest]("Order", parley.JSON)
func Type[T any](name string, codec Codec) Typed[T] {
	return Typed[T]{name: name, codec: codec}
}

// Name returns the name of the message type.
func (t Typed[T]) Name() string { return t.name }

// WithHeaders returns the type with headers that go with each message; see Payload.Headers. They take
// the place of those that the type had.
func (t Typed[T]) WithHeaders(headers map[string]string) Typed[T] {
	t.headers = maps.Clone(headers)
	return t
}

// Encode makes the payload that carries v.
func (t Typed[T]) Encode(v T) (Payload, error) {
	body, err := t.codec.Marshal(v)
	if err != nil {
		return Payload{}, fail("encode", fmt.Sprintf("message type %q", t.name), err)
	}
	return Payload{Type: t.name, Body: body, Headers: maps.Clone(t.headers)}, nil
}

// Decode returns the value that a message of this type carries.
func (t Typed[T]) Decode(m *Message) (v T, err error) {
	if m.Type != t.name {
		return v, fail("decode", "message "+m.ID.String(), fmt.Errorf("it is of type %q, not %q", m.Type, t.name))
	}
	err = t.codec.Unmarshal(m.Body, &v)
	return v, fail("decode", "message "+m.ID.String(), err)
}

// Send sends v on a conversation.
func (t Typed[T]) Send(ctx context.Context, c *Conversation, v T) error {
	p, err := t.Encode(v)
	if err != nil {
		return err
	}
	return c.SendPayload(ctx, p)
}

// SendBy sends v by a Sender.
func (t Typed[T]) SendBy(ctx context.Context, s *Sender, tx *Tx, v T) error {
	p, err := t.Encode(v)
	if err != nil {
		return err
	}
	return s.Send(ctx, tx, p)
}

// Post puts v into a queue.
func (t Typed[T]) Post(ctx context.Context, tx *Tx, queue string, v T, o ...PostOption) (ID, error) {
	p, err := t.Encode(v)
	if err != nil {
		return ID{}, err
	}
	return tx.Post(ctx, queue, p, o...)
}

// PostBatch puts all values into a queue, or none. The options are those of each.
func (t Typed[T]) PostBatch(ctx context.Context, tx *Tx, queue string, values []T, o ...PostOption) ([]ID, error) {
	posts := make([]Posting, len(values))
	for i, v := range values {
		p, err := t.Encode(v)
		if err != nil {
			return nil, err
		}
		posts[i] = Posting{p, o}
	}
	return tx.PostBatch(ctx, queue, posts)
}

// Reply sends v back on a message's conversation, in the transaction in which the message is acknowledged.
func (t Typed[T]) Reply(ctx context.Context, m *Message, v T) error {
	p, err := t.Encode(v)
	if err != nil {
		return err
	}
	return m.reply(ctx, p)
}
