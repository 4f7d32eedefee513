package parley

import (
	"context"
	"errors"
	"fmt"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/guard"
)

// ErrNotRequeueable: a dead letter of a conversation cannot go back to its place.
var ErrNotRequeueable = errors.New("it was sent on a conversation, in whose order its place is gone")

// Parked lists the parked groups of a queue, in the order in which they were parked. It returns a
// page of at most limit groups after a Place, that of the last group of the previous page.
func (a Admin) Parked(ctx context.Context, queue string, after Place, limit int) ([]GroupStatus, error) {
	return a.groups(ctx, "parked", queue, backend.GroupQuery{After: after, Limit: limit, State: "parked"})
}

// SkipParked makes the first message of a parked or deferred group a dead letter with a reason.
// Then the group is ready again and continues with the next message. It returns the message's ID.
func (a Admin) SkipParked(ctx context.Context, queue string, group ID, reason string) (skipped ID, err error) {
	if reason = backend.CleanText(reason, guard.MaxReason); reason == "" {
		reason = "skipped by an operator"
	}
	err = a.b.reopened(ctx, queue, group, 1, func(h *backend.Hold, q Queue) backend.Outcome {
		skipped = h.Messages[0].ID
		return backend.Outcome{Hold: h, Dead: []backend.DeadLetter{{Message: h.Messages[0], Reason: reason}}}
	})
	return skipped, fail("skip", objGroup(group), err)
}

// DiscardParked removes the messages of a parked or deferred group for good, at
// most 1000 of them, and returns how many. Nothing is kept of them.
func (a Admin) DiscardParked(ctx context.Context, queue string, group ID) (n int, err error) {
	err = a.b.reopened(ctx, queue, group, 1000, func(h *backend.Hold, q Queue) backend.Outcome {
		n = len(h.Messages)
		return backend.Outcome{Hold: h, Done: h.Messages}
	})
	return n, fail("discard", objGroup(group), err)
}

// PeekParked shows the first messages of a parked or deferred group, which stays
// as it is.
func (a Admin) PeekParked(ctx context.Context, queue string, group ID, limit int) (list []*Message, err error) {
	errStays := errors.New("it stays")
	err = a.b.reopened(ctx, queue, group, limit, func(h *backend.Hold, q Queue) backend.Outcome {
		list = wrapMessages(h.Messages, q.Name, nil)
		return backend.Outcome{}
	}, errStays)
	if errors.Is(err, errStays) {
		err = nil
	}
	return list, fail("peek", objGroup(group), err)
}

// reopened makes a blocked group ready and takes it, in one transaction, and
// settles it there. An error given as undo rolls that back.
func (b *Broker) reopened(ctx context.Context, queue string, group ID, limit int, do func(*backend.Hold, Queue) backend.Outcome, undo ...error) error {
	return b.patiently(ctx, func() error {
		return b.InTx(ctx, func(tx *Tx) error {
			return tx.withCatalog(ctx, func(v *catalogView) error {
				q, err := v.queue(queue)
				if err != nil {
					return err
				}
				if err := tx.be.Unpark(ctx, group); err != nil {
					return err
				}
				c, err := tx.be.Claim(ctx, backend.ClaimRequest{Version: v.version, Queue: q.ID, Group: group,
					MaxGroups: 1, MaxMessages: limit, MaxBytes: 64 << 20, Owner: b.opt.Owner})
				if err != nil {
					return err
				}
				if len(c.Holds) == 0 {
					return ErrGroupBusy
				}
				o := do(c.Holds[0], q)
				if len(undo) > 0 {
					return undo[0]
				}
				tx.touch(q.ID)
				_, err = tx.be.Settle(ctx, []backend.Outcome{o})
				return err
			})
		})
	})
}

// DiscardDead removes dead letters for good and returns how many there were.
func (a Admin) DiscardDead(ctx context.Context, messages ...ID) (n int, err error) {
	err = a.b.InTx(ctx, func(tx *Tx) error {
		for _, id := range messages {
			had, err := tx.be.RemoveDead(ctx, id)
			if err != nil {
				return err
			}
			if had {
				n++
			}
		}
		return nil
	})
	return n, fail("discard dead letters", "", err)
}

// RequeueDead posts the dead letter of a post again with its priority, at the end of its queue or
// key. It returns the new post's ID. The new post has no unique value.
func (a Admin) RequeueDead(ctx context.Context, d DeadStatus) (id ID, err error) {
	if !d.Message.ConversationID.IsZero() {
		err = ErrNotRequeueable
	}
	if err == nil && d.Bytes > 0 && d.Message.Body == nil {
		err = fmt.Errorf("its body was not read (DeadSummaries): %w", ErrInvalidOption)
	}
	if err == nil {
		err = a.b.InTx(ctx, func(tx *Tx) error {
			had, err := tx.be.RemoveDead(ctx, d.Message.ID)
			if err == nil && !had {
				err = ErrNotPending
			}
			if err != nil {
				return err
			}
			var o []PostOption
			if d.Message.Priority > 0 {
				o = append(o, Priority(d.Message.Priority))
			}
			if d.Message.Key != "" {
				o = append(o, Key(d.Message.Key))
			}
			p := Payload{Type: d.Message.Type, Body: d.Message.Body, Headers: d.Message.Headers}
			// It has passed Options.Outgoing when it was sent first.
			ids, err := tx.post(ctx, d.Queue, []Posting{{p, o}})
			if err == nil {
				id, err = ids[0], tx.told(ctx)
			}
			return err
		})
	}
	return id, fail("requeue", "dead letter "+d.Message.ID.String(), err)
}
