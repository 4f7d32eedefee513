package sqlstore

import (
	"context"

	"github.com/parleymq/parley/backend"
)

// Most posts that are held by lease are removed in the transaction that reclaims
// them, and their rows need not be written before that. The others are released
// when they are settled or, if they are not, with the commit.

// lookAt reclaims posts without writing, in the only writing transaction.
func (t *Tx) lookAt(ctx context.Context, posts []*backend.Hold) error {
	if len(posts) == 0 {
		return nil
	}
	n, err := t.s.d.HeldPosts(ctx, t, posts)
	if err != nil {
		return err
	}
	if n < int64(len(posts)) {
		return t.fenced(ctx)
	}
	t.looked = append(t.looked, posts...)
	t.holds = append(t.holds, posts...)
	return nil
}

// part notes that posts of the transaction have been removed, or are kept.
func (t *Tx) part(posts ...*backend.Hold) {
	if len(t.looked) > 0 {
		t.parted = append(t.parted, posts...)
	}
}

// letGo ends the leases of those posts that were looked at and are still there.
// A nil choice is all of them.
func (t *Tx) letGo(ctx context.Context, choice map[*backend.Hold]bool) error {
	if len(t.looked) == 0 || choice != nil && len(choice) == 0 {
		return nil
	}
	parted := make(map[*backend.Hold]bool, len(t.parted))
	for _, h := range t.parted {
		parted[h] = true
	}
	var left []*backend.Hold
	for _, h := range t.looked {
		if !parted[h] && (choice == nil || choice[h]) {
			left = append(left, h)
		}
	}
	if len(left) == 0 {
		return nil
	}
	t.part(left...)
	return t.s.d.ReleasePosts(ctx, t, left)
}
