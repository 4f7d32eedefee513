package memstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// post is what is known of a post as long as it is there; what a receiver reads
// is its message.
type post struct {
	backend.Posting
	state  string    // "delayed", "pending" or "processed"
	until  time.Time // delayed: when it joins; processed: when it goes
	stream backend.ID
	seq    int64
}

type unique struct {
	queue int64
	value string
}

func compareUniques(a, b unique) int {
	return cmp.Or(cmp.Compare(a.queue, b.queue), cmp.Compare(a.value, b.value))
}

// Post implements [backend.Tx].
func (tx *Tx) Post(ctx context.Context, version int64, posts []backend.Posting) ([]backend.Posted, error) {
	if err := tx.enter(ctx); err != nil {
		return nil, err
	}
	defer tx.leave()
	s := tx.store
	if err := tx.lockPosts(ctx, posts); err != nil {
		return nil, err
	}
	if s.stale(tx, version) {
		return nil, backend.ErrStaleCatalog
	}
	for _, p := range posts {
		if s.disabled(tx, p.Queue) {
			return nil, backend.ErrQueueDisabled
		}
	}
	posted := make([]backend.Posted, len(posts))
	for i, p := range posts {
		posted[i].Duplicate = s.post(tx, p)
	}
	return posted, nil
}

// lockPosts locks what a call writes to, all in one order: the streams of keys,
// then the unique values. A post without either waits for no transaction.
func (tx *Tx) lockPosts(ctx context.Context, posts []backend.Posting) error {
	var streams []backend.ID
	var values []unique
	for _, p := range posts {
		if p.Key != "" && p.Delay <= 0 {
			streams = append(streams, keyID(p.Queue, p.Key))
		}
		if p.Unique != "" {
			values = append(values, unique{p.Queue, p.Unique})
		}
	}
	slices.SortFunc(streams, compareIDs)
	for _, id := range slices.Compact(streams) {
		if err := tx.lock(ctx, guardLock(id)); err != nil {
			return err
		}
	}
	slices.SortFunc(values, compareUniques)
	for _, v := range slices.Compact(values) {
		if err := tx.lock(ctx, lock{kind: lockUnique, n: v.queue, name: v.value}); err != nil {
			return err
		}
	}
	return nil
}

// post adds one post, or returns the pending post with its unique value.
func (s *Store) post(tx *Tx, p backend.Posting) (duplicate backend.ID) {
	if p.Unique != "" && s.fault != FaultUniqueIgnored {
		key := unique{p.Queue, p.Unique}
		if like, ok := s.uniques.get(tx, key); ok {
			return like
		}
		s.uniques.put(tx, key, p.ID)
	}
	p.Body = bytes.Clone(p.Body)
	row := post{Posting: p, state: "delayed", until: s.now().Add(p.Delay), stream: p.ID}
	if p.Key != "" {
		row.stream = keyID(p.Queue, p.Key)
	}
	if s.fault == FaultPostsUnordered {
		row.stream = p.ID
	}
	// The group is there from the beginning, so that it can be promoted.
	if !s.groups.has(tx, row.stream) {
		s.groups.put(tx, row.stream, group{queue: p.Queue, key: p.Key, post: p.Key == ""})
	}
	s.posts.put(tx, p.ID, row)
	if p.Delay <= 0 {
		s.join(tx, row)
	}
	return backend.ID{}
}

// join makes a post receivable. If it has a key, its guard is held: the order
// of a key is that in which its posts join.
func (s *Store) join(tx *Tx, p post) {
	if !s.streams.has(tx, p.stream) {
		s.streams.put(tx, p.stream, stream{accepted: true, queue: p.Queue, priority: p.Rank, single: p.Key == ""})
	}
	p.state, p.until = "pending", time.Time{}
	p.seq = s.next(tx, p.stream)
	s.posts.put(tx, p.ID, p)
	if s.fault == FaultHeadersLostByDelay && p.Delay > 0 {
		p.Headers = ""
	}
	s.append(tx, p.stream, message{ID: p.ID, Kind: backend.KindUser, Type: p.Type, Body: p.Body, Headers: p.Headers})
	st, _ := s.streams.get(tx, p.stream)
	if p.Raise && s.fault != FaultRaiseIgnored && (st.priority < p.Rank || s.fault == FaultRaiseLowers) {
		st.priority = p.Rank
		s.streams.put(tx, p.stream, st)
		s.remark(tx, p.stream)
	}
}

// keyID is the id of the group and the stream of a key. Making it from the key
// gives those who post the first message of a key a guard to wait for.
func keyID(queue int64, key string) (id backend.ID) {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, uint64(queue)), key...))
	copy(id[:], sum[:])
	return id
}

// Cancel implements [backend.Tx].
func (tx *Tx) Cancel(ctx context.Context, queue int64, id backend.ID) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	return tx.store.cancel(tx, queue, id)
}

func (s *Store) cancel(tx *Tx, queue int64, id backend.ID) error {
	p, ok := s.posts.get(tx, id)
	if !ok || p.Queue != queue || p.state == "processed" {
		return backend.ErrNotPending
	}
	// In a receiver's hands it does not wait any more.
	if p.state == "pending" && !tx.tryGroup(p.stream) && s.fault != FaultCancelHeld {
		return errInHand
	}
	if s.posts.busy(tx, id) {
		return errInHand
	}
	s.messages.delete(tx, numbered{p.stream, p.seq})
	s.failures.delete(tx, id)
	s.gone(tx, p, 0)
	if now, ok := s.promotions.get(tx, p.stream); ok && now.empty && p.state == "pending" && s.fault != FaultUntilEmptyKept {
		s.served(tx, p.stream, now)
	}
	return nil
}

// gone is called when a post has left its queue.
func (s *Store) gone(tx *Tx, p post, keep time.Duration) {
	s.uniques.delete(tx, unique{p.Queue, p.Unique})
	if keep > 0 && s.fault != FaultKeepsNothing {
		p.state, p.until = "processed", s.now().Add(keep)
		s.posts.put(tx, p.ID, p)
	} else {
		s.posts.delete(tx, p.ID)
	}
	if p.Key == "" {
		s.removeStream(tx, p.stream)
		s.removeGroup(tx, p.stream)
	}
}
