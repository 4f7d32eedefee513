package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleymq/parley"
)

// The verbs of a broker, of a transaction and of a delivery, for the checks
// that ask all of them the same question.

type inpBrokerVerb struct {
	name string
	do   func(ctx context.Context, b *parley.Broker) error
}

// inpBrokerVerbs are the verbs of a broker but for Migrate and Info, which work
// without a schema. Each would find what it needs in a World.
func inpBrokerVerbs(w *world, h parley.ID) []inpBrokerVerb {
	return []inpBrokerVerb{
		{"InTx", func(ctx context.Context, b *parley.Broker) error {
			return b.InTx(ctx, func(tx *parley.Tx) error {
				return tx.Conversation(h).Send(context.WithoutCancel(ctx), w.Ask, []byte("never"))
			})
		}},
		{"Define", func(ctx context.Context, b *parley.Broker) error {
			return b.Define(ctx, parley.Catalog{Types: []parley.MessageType{{Name: w.Name("never")}}})
		}},
		{"Catalog", func(ctx context.Context, b *parley.Broker) error { _, err := b.Catalog(ctx); return err }},
		{"EnableQueue", func(ctx context.Context, b *parley.Broker) error { return b.Admin().EnableQueue(ctx, w.SQ) }},
		{"DisableQueue", func(ctx context.Context, b *parley.Broker) error { return b.Admin().DisableQueue(ctx, w.SQ) }},
		{"Receive", func(ctx context.Context, b *parley.Broker) error { _, err := b.Receive(ctx, w.SQ, nil); return err }},
		{"Receive with a wait", func(ctx context.Context, b *parley.Broker) error {
			_, err := b.Receive(ctx, w.SQ, &parley.ReceiveOptions{Wait: time.Minute})
			return err
		}},
		{"Receive by lease", func(ctx context.Context, b *parley.Broker) error {
			_, err := b.Receive(ctx, w.SQ, &parley.ReceiveOptions{Hold: parley.HoldLease})
			return err
		}},
		{"Receive before work", func(ctx context.Context, b *parley.Broker) error {
			_, err := b.Receive(ctx, w.SQ, &parley.ReceiveOptions{Release: parley.BeforeWork})
			return err
		}},
		{"Post", func(ctx context.Context, b *parley.Broker) error {
			_, err := b.Post(ctx, w.SQ, parley.Payload{Body: []byte("never")})
			return err
		}},
		{"Promote", func(ctx context.Context, b *parley.Broker) error { return b.Promote(ctx, parley.NewID()) }},
		{"Demote", func(ctx context.Context, b *parley.Broker) error { return b.Demote(ctx, parley.NewID()) }},
		{"Unpark", func(ctx context.Context, b *parley.Broker) error { return b.Admin().Unpark(ctx, parley.NewID()) }},
		{"Queues", func(ctx context.Context, b *parley.Broker) error { _, err := b.Admin().Queues(ctx); return err }},
		{"Groups", func(ctx context.Context, b *parley.Broker) error {
			_, err := b.Admin().Groups(ctx, w.SQ, parley.Place{}, 1)
			return err
		}},
		{"Conversations", func(ctx context.Context, b *parley.Broker) error {
			_, err := b.Admin().Conversations(ctx, parley.ConversationQuery{Limit: 1})
			return err
		}},
		{"Withheld", func(ctx context.Context, b *parley.Broker) error {
			_, err := b.Admin().Withheld(ctx, parley.ID{}, 1)
			return err
		}},
		{"Retained", func(ctx context.Context, b *parley.Broker) error { _, err := b.Admin().Retained(ctx, h); return err }},
		{"DeadLetters", func(ctx context.Context, b *parley.Broker) error {
			_, err := b.Admin().DeadLetters(ctx, w.SQ, parley.Place{}, 1)
			return err
		}},
		{"PostStatus", func(ctx context.Context, b *parley.Broker) error {
			_, err := b.PostStatus(ctx, w.SQ, parley.NewID())
			return err
		}},
	}
}

// inpTxVerbs are all verbs of a transaction on one of the initiator's
// conversations.
func inpTxVerbs(w *world) []dlgVerb {
	sending, others := dlgVerbs(w)
	return append(append(sending, others...), []dlgVerb{
		{"Status", func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			_, err := tx.Conversation(h).Status(ctx)
			return err
		}},
		{"Group", func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			_, err := tx.Conversation(h).Group(ctx)
			return err
		}},
		{"Begin", func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			_, err := tx.Begin(ctx, w.Client, w.Server, &parley.DialogOptions{Contract: w.Contract})
			return err
		}},
		{"Receive of a queue", func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			_, err := tx.Receive(ctx, w.SQ, nil)
			return err
		}},
		{"Receive with a wait", func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			_, err := tx.Receive(ctx, w.SQ, &parley.ReceiveOptions{Wait: time.Minute})
			return err
		}},
		{"GetGroup of a queue", func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			_, err := tx.GetGroup(ctx, w.SQ, nil)
			return err
		}},
		{"Post", func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			_, err := tx.Post(ctx, w.SQ, parley.Payload{Body: []byte("never")}, parley.Key("k"))
			return err
		}},
		{"PostBatch", func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			_, err := tx.PostBatch(ctx, w.SQ, []parley.Posting{{}, {Options: []parley.PostOption{parley.Unique("u"), parley.After(time.Hour)}}})
			return err
		}},
		{"CancelPost", func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			err := tx.CancelPost(ctx, w.SQ, parley.NewID())
			if errors.Is(err, parley.ErrNotPending) {
				err = nil
			}
			return err
		}},
		{"Promote a group", func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			err := tx.Promote(ctx, parley.NewID())
			if errors.Is(err, parley.ErrUnknownGroup) {
				err = nil
			}
			return err
		}},
		{"Demote a group", func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			return tx.Demote(ctx, parley.NewID())
		}},
		{"Once", func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			fresh, err := tx.Once(ctx, w.Name("once")+h.String())
			if err == nil && !fresh {
				err = fmt.Errorf("a key that should be new is not")
			}
			return err
		}},
		{"Savepoint", func(ctx context.Context, tx *parley.Tx, h parley.ID) error { return tx.Savepoint(ctx, "here") }},
		{"RollbackTo", func(ctx context.Context, tx *parley.Tx, h parley.ID) error { return tx.RollbackTo(ctx, "outer") }},
		{"Release", func(ctx context.Context, tx *parley.Tx, h parley.ID) error { return tx.Release(ctx, "outer") }},
	}...)
}

type inpDeliveryVerb struct {
	name string
	do   func(ctx context.Context, d *parley.Delivery, m *parley.Message) error
}

// inpDeliveryVerbs are the verbs of a delivery of Ask messages: those that work
// under it and those that settle it.
func inpDeliveryVerbs(w *world) (working, settling []inpDeliveryVerb) {
	working = []inpDeliveryVerb{
		{"Tx", func(ctx context.Context, d *parley.Delivery, m *parley.Message) error {
			_, err := d.Tx(ctx)
			return err
		}},
		{"More", func(ctx context.Context, d *parley.Delivery, m *parley.Message) error {
			_, err := d.More(ctx, 1)
			return err
		}},
		{"On", func(ctx context.Context, d *parley.Delivery, m *parley.Message) error {
			_, err := m.On(ctx)
			return err
		}},
		{"Reply", func(ctx context.Context, d *parley.Delivery, m *parley.Message) error {
			return m.Reply(ctx, w.Tell, []byte("never"))
		}},
		{"End", func(ctx context.Context, d *parley.Delivery, m *parley.Message) error { return m.End(ctx) }},
	}
	settling = []inpDeliveryVerb{
		{"Ack", func(ctx context.Context, d *parley.Delivery, m *parley.Message) error { return d.Ack(ctx) }},
		{"Defer", func(ctx context.Context, d *parley.Delivery, m *parley.Message) error { return d.Defer(ctx, time.Hour) }},
		{"Park", func(ctx context.Context, d *parley.Delivery, m *parley.Message) error {
			return d.Park(ctx, errors.New("never"))
		}},
		{"Rollback", func(ctx context.Context, d *parley.Delivery, m *parley.Message) error { return d.Rollback(ctx) }},
	}
	return working, settling
}
