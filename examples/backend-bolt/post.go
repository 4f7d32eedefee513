package bolt

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/parleymq/parley/backend"
)

// post is what is known of a post; what a receiver reads is its message.
type post struct {
	backend.Posting           // without Body, which is in a separate bucket
	State           string    // "delayed", "pending" or "processed"
	Until           time.Time // delayed: joins then; processed: goes then
	Stream          backend.ID
	Seq             int64
	HasBody         bool
}

// Post implements [backend.Tx].
func (tx *Tx) Post(ctx context.Context, version int64, all []backend.Posting) (posted []backend.Posted, err error) {
	err = tx.write(ctx, func(l *look) error {
		if l.stale(version) {
			return backend.ErrStaleCatalog
		}
		for _, p := range all {
			if l.disabled(p.Queue) {
				return backend.ErrQueueDisabled
			}
		}
		for _, p := range all {
			posted = append(posted, backend.Posted{Duplicate: l.post(p)})
		}
		return nil
	})
	return posted, err
}

// post adds a post, or returns the pending post with its unique value.
func (l *look) post(p backend.Posting) (duplicate backend.ID) {
	if p.Unique != "" {
		k := key(p.Queue, p.Unique)
		if like, ok := get(l, uniques, k); ok {
			return like
		}
		put(l, uniques, k, p.ID)
	}
	r := post{Posting: p, State: "delayed", Until: l.now().Add(p.Delay), Stream: p.ID, HasBody: p.Body != nil}
	r.Body = nil
	if p.Body != nil {
		put(l, texts, key(p.ID), p.Body)
	}
	if p.Key != "" {
		r.Stream = keyStream(p.Queue, p.Key)
	}
	// The group is there from the beginning, so that it can be promoted.
	g, ok := get(l, groups, key(r.Stream))
	if !ok {
		g = group{Queue: p.Queue, Key: p.Key, Post: p.Key == ""}
	}
	g.Posts++
	l.putGroup(r.Stream, g)
	if p.Delay > 0 {
		put(l, posts, key(p.ID), r)
		l.due(backend.JobDelayed, r.Until, key(p.ID))
		return backend.ID{}
	}
	l.joinQueue(r)
	return backend.ID{}
}

// joinQueue makes a post receivable: the order of a key is that in which its posts join.
func (l *look) joinQueue(p post) {
	if !has(l, streams, key(p.Stream)) {
		l.putStream(p.Stream, stream{Accepted: true, Queue: p.Queue, Priority: p.Rank})
	}
	if s, _ := get(l, streams, key(p.Stream)); p.Raise && s.Priority < p.Rank {
		l.unmark(p.Stream, &s)
		s.Priority, s.Marked = p.Rank, false
		l.putStream(p.Stream, s)
	}
	p.State, p.Until = "pending", time.Time{}
	p.Seq = l.append(p.Stream, message{ID: p.ID, Kind: backend.KindUser, Type: p.Type, Headers: p.Headers}, l.text(p))
	put(l, posts, key(p.ID), p)
}

// text returns the body of a post.
func (l *look) text(p post) []byte {
	if !p.HasBody {
		return nil
	}
	b, _ := get(l, texts, key(p.ID))
	if b == nil {
		b = []byte{}
	}
	return b
}

// Cancel implements [backend.Tx].
func (tx *Tx) Cancel(ctx context.Context, queue int64, id backend.ID) error {
	return tx.write(ctx, func(l *look) error {
		p, ok := get(l, posts, key(id))
		if !ok || p.Queue != queue || p.State == "processed" {
			return backend.ErrNotPending
		}
		if p.State == "pending" {
			if !tx.tryGroup(l, p.Stream) { // in a receiver's hands it does not wait any more
				return backend.ErrNotPending
			}
			l.take(messages, key(p.Stream, p.Seq))
			l.mark(p.Stream)
		} else {
			l.notDue(backend.JobDelayed, p.Until, key(id))
		}
		remove(l, failures, key(id))
		l.gone(p, 0)
		if now, ok := get(l, promotions, key(p.Stream)); ok && now.Empty && p.State == "pending" && !l.waits(p.Stream) {
			remove(l, promotions, key(p.Stream))
		}
		return nil
	})
}

// gone is called when a post has left its queue.
func (l *look) gone(p post, keep time.Duration) {
	if p.Unique != "" {
		remove(l, uniques, key(p.Queue, p.Unique))
	}
	if keep > 0 {
		p.State, p.Until = "processed", l.now().Add(keep)
		put(l, posts, key(p.ID), p)
		l.due(backend.JobProcessed, p.Until, key(p.ID))
	} else {
		l.removePost(p.ID)
	}
	if p.Key == "" {
		l.removeStream(p.Stream)
		l.removeGroup(p.Stream)
		return
	}
	g, _ := get(l, groups, key(p.Stream))
	g.Posts--
	l.putGroup(p.Stream, g)
}

func (l *look) removePost(id backend.ID) {
	remove(l, posts, key(id))
	remove(l, texts, key(id))
}

// keyStream is the id of the stream, and of the group, of a key.
func keyStream(queue int64, name string) (id backend.ID) {
	sum := sha256.Sum256(key(queue, name))
	copy(id[:], sum[:])
	return id
}
