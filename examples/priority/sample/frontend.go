package sample

import (
	"context"
	"fmt"

	"github.com/parleymq/parley"
)

// serveFrontEnd forwards requests to the back end, carries out requests for
// priority, and forwards responses, ends and errors.
func (s *sample) serveFrontEnd(ctx context.Context) error {
	return s.serve(ctx, frontEndQueue, func(ctx context.Context, d *parley.Delivery) error {
		tx, err := d.Tx(ctx)
		if err != nil {
			return err
		}
		for _, m := range d.Messages {
			if err := s.forward(ctx, tx, m); err != nil {
				return fmt.Errorf("front end, message %s: %w", m.Type, err)
			}
		}
		if err := d.Ack(ctx); err != nil {
			return err
		}
		for _, m := range d.Messages {
			if m.Type == workload || m.Type == setPriority {
				s.pass()
			}
		}
		return nil
	})
}

func (s *sample) forward(ctx context.Context, tx *parley.Tx, m *parley.Message) error {
	bound, err := peer(ctx, tx, m.Conversation)
	if err != nil {
		return err
	}
	switch m.Type {
	case workload:
		back := tx.Conversation(bound)
		if bound.IsZero() {
			back, err = tx.Begin(ctx, frontEnd, backEnd, &parley.DialogOptions{
				Contract:            requestInternal,
				RelatedConversation: m.Conversation,
			})
			if err != nil {
				return err
			}
			if err := bind(ctx, tx, m.Conversation, back.Handle()); err != nil {
				return err
			}
		}
		return back.Send(ctx, workload, m.Body)

	case setPriority:
		level, err := number(m.Body)
		if err != nil || bound.IsZero() {
			return err
		}
		return tx.Conversation(bound).Promote(ctx, parley.PromoteLevel(level))

	case response:
		return tx.Conversation(bound).Send(ctx, response, m.Body)

	case parley.EndDialog, parley.ErrorMessageType:
		if err := m.End(ctx); err != nil || bound.IsZero() {
			return err
		}
		if err := unbind(ctx, tx, m.Conversation); err != nil {
			return err
		}
		other := tx.Conversation(bound)
		if e := m.Err(); e != nil {
			// The broker's own codes are below zero, and a side can only end with one above. The
			// published program meant to turn them round and did not.
			return other.EndWithError(ctx, max(e.Code, -e.Code, 1), e.Text)
		}
		return other.End(ctx)
	}
	return nil
}
