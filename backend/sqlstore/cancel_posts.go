package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/parleymq/parley/backend"
)

// errInHand: the post is locked, by a receiver as long as it works or by a maintenance job for a
// moment.
var errInHand = fmt.Errorf("%w: %w", backend.ErrNotPending, backend.ErrGroupBusy)

// Cancel implements backend.Tx.
func (t *Tx) Cancel(ctx context.Context, queue int64, id backend.ID) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	for _, try := range []func(context.Context, int64, backend.ID) (bool, error){
		t.cancelPost, t.cancelDelayed, t.cancelKeyed,
	} {
		if done, err := try(ctx, queue, id); err != nil || done {
			return err
		}
	}
	return backend.ErrNotPending
}

func (t *Tx) cancelPost(ctx context.Context, queue int64, id backend.ID) (bool, error) {
	locked, err := t.TryLock(ctx, t.s.q.PostFree, id)
	if err != nil {
		return false, err
	}
	p, err := t.post(ctx, id)
	if err != nil || p == nil || p.Queue != queue {
		return false, err
	}
	if !locked {
		return false, errInHand
	}
	if p.leased() {
		return false, errInHand
	}
	if _, err := t.Exec(ctx, t.s.q.PostDelete, id); err != nil {
		return false, err
	}
	return true, t.freeUnique(ctx, queue, p.Uniq.String)
}

func (t *Tx) cancelDelayed(ctx context.Context, queue int64, id backend.ID) (bool, error) {
	locked, err := t.TryLock(ctx, t.s.q.DelayedTry, id)
	if err != nil {
		return false, err
	}
	d, err := t.delayed(ctx, id)
	if err != nil || d == nil || d.Queue != queue {
		return false, err
	}
	if !locked { // it is joining its queue
		return false, errInHand
	}
	if _, err := t.Exec(ctx, t.s.q.DelayedDelete, id); err != nil {
		return false, err
	}
	return true, t.freeUnique(ctx, queue, d.Unique)
}

func (t *Tx) cancelKeyed(ctx context.Context, queue int64, id backend.ID) (bool, error) {
	var k messageKey
	var g backend.ID
	var home int64
	var uniq string
	dest := []any{ID(&k.stream), &k.seq, Text(&uniq), ID(&g), &home}
	found, err := t.Row(ctx, dest, t.s.q.MessageFind, id)
	if err != nil || !found || home != queue {
		return false, err
	}
	// A receiver that has the group may have the post in hand.
	row, locked, err := t.take(ctx, g)
	switch {
	case err != nil || row == nil:
		return false, err
	case row.leased(), !locked:
		return false, errInHand
	}
	n, err := t.Exec(ctx, t.s.q.MessageDelete, k.stream, k.seq)
	if err != nil || n == 0 {
		return false, err
	}
	if _, err := t.Exec(ctx, t.s.q.FailureDelete, id); err != nil {
		return false, err
	}
	t.touch(k.stream)
	if err := t.emptied(ctx, g); err != nil {
		return false, err
	}
	return true, t.freeUnique(ctx, queue, uniq)
}

// CancelFree implements backend.TxCancels. What others have locked it leaves to Cancel.
func (t *Tx) CancelFree(ctx context.Context, queue int64, ids []backend.ID) (removed []backend.ID, err error) {
	if err := t.ready(ctx); err != nil {
		return nil, err
	}
	for some := range slices.Chunk(slices.Clone(ids), detailed) {
		for _, cancel := range []func(context.Context, int64, []backend.ID) ([]backend.ID, error){
			t.cancelPosts, t.cancelAllDelayed, t.cancelAllKeyed,
		} {
			if len(some) == 0 {
				break
			}
			found, err := cancel(ctx, queue, some)
			if err != nil {
				return nil, err
			}
			removed = append(removed, found...)
			some = slices.DeleteFunc(some, func(id backend.ID) bool { return slices.Contains(found, id) })
		}
	}
	return removed, nil
}

func (t *Tx) cancelPosts(ctx context.Context, queue int64, ids []backend.ID) ([]backend.ID, error) {
	ids, err := t.lockFree(ctx, t.s.q.PostsFree, queue, ids)
	removals := make([]Removal, len(ids))
	for i, id := range ids {
		removals[i].Message = &backend.Message{ID: id}
	}
	if err == nil {
		err = t.RemovePosts(ctx, removals)
	}
	return ids, err
}

func (t *Tx) cancelAllDelayed(ctx context.Context, queue int64, ids []backend.ID) ([]backend.ID, error) {
	ids, err := t.lockFree(ctx, t.s.q.DelayedFree, queue, ids)
	for _, id := range ids {
		if err == nil {
			_, err = t.Exec(ctx, t.s.q.DelayedDelete, id)
		}
	}
	return ids, err
}

// lockFree locks posts that are free, frees their unique values, and returns their IDs.
func (t *Tx) lockFree(ctx context.Context, q *Stmt, queue int64, ids []backend.ID) (free []backend.ID, err error) {
	var unique []string
	err = t.Rows(ctx, func(rows *sql.Rows) error {
		var id backend.ID
		var value string
		err := rows.Scan(ID(&id), Text(&value))
		free, unique = append(free, id), append(unique, value)
		return err
	}, q, append(padded(ids), queue)...)
	for _, value := range unique {
		if err == nil {
			err = t.freeUnique(ctx, queue, value)
		}
	}
	return free, err
}

// keyedPost is a post with a key that waits.
type keyedPost struct {
	unreadMessage
	group backend.ID
	uniq  string
}

func (t *Tx) cancelAllKeyed(ctx context.Context, queue int64, ids []backend.ID) (removed []backend.ID, err error) {
	list, err := t.keyedPosts(ctx, queue, ids)
	ours := make(map[backend.ID]bool)
	for _, p := range list {
		if _, seen := ours[p.group]; !seen && err == nil {
			_, ours[p.group], err = t.take(ctx, p.group)
		}
	}
	if err != nil || len(ours) == 0 {
		return nil, err
	}
	// By now others may have received some.
	list, err = t.keyedPosts(ctx, queue, ids)
	list = slices.DeleteFunc(list, func(p keyedPost) bool { return !ours[p.group] })
	if err != nil || len(list) == 0 {
		return nil, err
	}
	messages := make([]unreadMessage, len(list))
	for i, p := range list {
		messages[i], removed = p.unreadMessage, append(removed, p.id)
		t.touch(p.stream)
	}
	if err := t.drop(ctx, messages); err != nil {
		return nil, err
	}
	for _, p := range list {
		if ours[p.group] {
			ours[p.group] = false
			if err := t.emptied(ctx, p.group); err != nil {
				return nil, err
			}
		}
		if err := t.freeUnique(ctx, queue, p.uniq); err != nil {
			return nil, err
		}
	}
	return removed, nil
}

// keyedPosts reads those that wait in streams of keys, by their groups.
func (t *Tx) keyedPosts(ctx context.Context, queue int64, ids []backend.ID) (list []keyedPost, err error) {
	err = t.Rows(ctx, func(rows *sql.Rows) error {
		var p keyedPost
		err := rows.Scan(ID(&p.id), ID(&p.stream), &p.seq, Text(&p.uniq), ID(&p.group), Bool(&p.failed))
		list = append(list, p)
		return err
	}, t.s.q.KeyedFind, append(padded(ids), queue)...)
	slices.SortFunc(list, func(a, b keyedPost) int { return bytes.Compare(a.group[:], b.group[:]) })
	return list, err
}
