package parley

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/parleymq/parley/backend"
)

// PostFilter chooses posts of a queue: those that meet all conditions that are set. The zero value
// chooses none and is an error.
type PostFilter struct {
	IDs  []ID   // these posts
	Key  string // posts with this key
	Type string // posts of this message type
	All  bool   // all posts of the queue
}

// Cancelled is what CancelPosts has done. A post that is in neither list was not pending.
type Cancelled struct {
	Removed   []ID // they waited, or were delayed, and are gone
	Requested []ID // receivers have them in hand, and were asked to stop
}

// cancelPage is how many posts are cancelled in one transaction.
const cancelPage = 100

// CancelPosts cancels pending posts of a queue, a hundred in a transaction. It removes posts that wait.
// If a receiver has a post in hand, CancelPosts stores a request to stop and waits for nothing.
//
// A worker sees the request within a second and ends the context of the post's handler, with the cause
// ErrCancelled. If the handler then returns an error, its writes are undone and the post is removed. If
// it returns nil, or has done so before, the post is done. A post that waits again with a request, after
// a failed attempt or because its receiver died, is removed by the maintenance of any process. Programs
// that receive by Broker.Receive, and programs of older versions, are not told.
//
// If Key, Type or All is set, posts that are added meanwhile may be cancelled or not. If only IDs are
// given, and none of these posts is pending, the error is ErrNotPending. After another error the result
// has what was done before it.
func (b *Broker) CancelPosts(ctx context.Context, queue string, f PostFilter) (c Cancelled, err error) {
	switch listed := len(f.IDs) > 0; {
	case !listed && f.Key == "" && f.Type == "" && !f.All:
		err = fmt.Errorf("the filter is empty: %w", ErrInvalidOption)
	case listed && f.Key == "" && f.Type == "":
		err = b.cancelAll(ctx, queue, f.IDs, &c)
		if err == nil && len(c.Removed)+len(c.Requested) == 0 {
			err = ErrNotPending
		}
	default:
		err = b.cancelFound(ctx, queue, f, &c)
	}
	return c, fail("cancel posts", objQueue(queue), err)
}

// cancelFound cancels the posts that a filter finds.
func (b *Broker) cancelFound(ctx context.Context, queue string, f PostFilter, c *Cancelled) error {
	q := backend.PendingQuery{Key: f.Key, Limit: 100 * cancelPage}
	for {
		var page []backend.PendingPost
		err := b.onQueue(ctx, queue, func(_ *catalogView, def Queue) (err error) {
			q.Queue = def.ID
			page, err = b.be.PendingPosts(ctx, q)
			return err
		})
		if err != nil || len(page) == 0 {
			return err
		}
		q.After = page[len(page)-1].ID
		var ids []ID
		for _, p := range page {
			if (f.Key == "" || p.Key == f.Key) && (f.Type == "" || p.Type == f.Type) && (len(f.IDs) == 0 || slices.Contains(f.IDs, p.ID)) {
				ids = append(ids, p.ID)
			}
		}
		if err := b.cancelAll(ctx, queue, ids, c); err != nil {
			return err
		}
	}
}

func (b *Broker) cancelAll(ctx context.Context, queue string, ids []ID, c *Cancelled) error {
	for page := range slices.Chunk(ids, cancelPage) {
		var done Cancelled
		err := b.retry(ctx, func() error {
			return b.InTx(ctx, func(tx *Tx) (err error) {
				done, err = tx.cancelPosts(ctx, queue, page)
				return err
			})
		}, func(err error) bool { return errors.Is(err, ErrSerialization) })
		if err != nil {
			return err
		}
		c.Removed = append(c.Removed, done.Removed...)
		c.Requested = append(c.Requested, done.Requested...)
	}
	return nil
}

func (tx *Tx) cancelPosts(ctx context.Context, queue string, ids []ID) (c Cancelled, err error) {
	err = tx.withCatalog(ctx, func(v *catalogView) error {
		q, err := v.queue(queue)
		if err != nil {
			return err
		}
		c = Cancelled{}
		if len(ids) > 1 {
			if c.Removed, err = tx.be.CancelFree(ctx, q.ID, ids); err != nil {
				return err
			}
		}
		for _, id := range ids {
			if slices.Contains(c.Removed, id) {
				continue
			}
			err := tx.be.Cancel(ctx, q.ID, id)
			if errors.Is(err, ErrNotPending) && !errors.Is(err, ErrGroupBusy) {
				err = tx.be.Cancel(ctx, q.ID, id) // a background job may have moved it
			}
			switch {
			case err == nil:
				c.Removed = append(c.Removed, id)
			case errors.Is(err, ErrGroupBusy):
				c.Requested = append(c.Requested, id)
			case !errors.Is(err, ErrNotPending):
				return err
			}
		}
		if len(c.Requested) == 0 {
			return nil
		}
		tx.touch(backend.CancelTopic)
		return tx.be.RequestCancel(ctx, q.ID, c.Requested)
	})
	return c, err
}
