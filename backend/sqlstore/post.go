package sqlstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/parleymq/parley/backend"
)

// Post implements backend.Tx.
func (t *Tx) Post(ctx context.Context, version int64, posts []backend.Posting) ([]backend.Posted, error) {
	if err := t.ready(ctx); err != nil {
		return nil, err
	}
	if len(posts) == 0 {
		return nil, nil
	}
	given := slices.ContainsFunc(posts, func(p backend.Posting) bool { return p.Headers != "" })
	if err := t.admitHeaders(ctx, given); err != nil {
		return nil, err
	}
	values := t.s.d.PostValues && t.Joined()
	if p := posts[0]; len(posts) == 1 && p.Key == "" && p.Delay <= 0 && p.Unique == "" && !values {
		n, err := t.Exec(ctx, t.s.q.PostOne, p.ID, p.Rank, p.Type, p.Body, NullText(p.Headers), p.Queue, version)
		if err == nil && n == 0 {
			if err = t.queueState(ctx, version, p.Queue); err == nil {
				err = backend.ErrStaleCatalog // it has changed again
			}
		}
		return make([]backend.Posted, 1), err
	}
	return t.postMany(ctx, version, posts)
}

// postMany adds posts. Those that the engine can add many at a time are added together, posts with
// a key after the others. The rest, which are rarer, are added one by one.
func (t *Tx) postMany(ctx context.Context, version int64, posts []backend.Posting) ([]backend.Posted, error) {
	posted := make([]backend.Posted, len(posts))
	if x := posts[0]; t.s.d.PostKeyed != nil && len(posts) == 1 && x.Key != "" && x.Unique == "" && x.Delay <= 0 && !x.Raise {
		if done, err := t.s.d.PostKeyed(ctx, t, version, x); err != nil || done {
			return posted, err
		}
	}
	if t.noWait && posts[0].Key != "" { // and so has each of them
		return posted, t.postTogether(ctx, version, posts)
	}
	if t.s.d.PostPlain != nil && !slices.ContainsFunc(posts, func(p backend.Posting) bool { return p.Key != "" || single(p) }) {
		if done, err := t.s.d.PostPlain(ctx, t, version, posts); err != nil || done {
			return posted, err
		}
	}
	if err := t.checkQueues(ctx, version, posts); err != nil {
		return nil, err
	}
	var plain, keyed []backend.Posting
	for _, i := range postOrder(posts) {
		x := posts[i]
		switch {
		case single(x) || t.s.d.PostPlain == nil:
			// A key's order is that of the call: what has been collected for it goes
			// first.
			if err := t.appendKeyed(ctx, keyed); err != nil {
				return nil, err
			}
			keyed = nil
			var err error
			if posted[i], err = t.postOne(ctx, x); err != nil {
				return nil, err
			}
		case x.Key != "":
			keyed = append(keyed, x)
		default:
			plain = append(plain, x)
		}
	}
	if len(plain) > 0 {
		if _, err := t.s.d.PostPlain(ctx, t, 0, plain); err != nil {
			return nil, err
		}
	}
	return posted, t.appendKeyed(ctx, keyed)
}

// single reports whether a post is always added by itself.
func single(p backend.Posting) bool { return p.Unique != "" || p.Delay > 0 || p.Raise }

// Key is the key of posts in a queue.
type Key struct {
	Queue int64
	Name  string
}

// keyStreams returns the streams of posts that are sorted by key, as far as the engine returns several at once.
func (t *Tx) keyStreams(ctx context.Context, posts []backend.Posting) (map[Key]*Stream, error) {
	if t.s.d.KeyStreams == nil {
		return make(map[Key]*Stream), nil
	}
	var keys []Key
	for _, x := range posts {
		keys = append(keys, Key{x.Queue, x.Key})
	}
	return t.s.d.KeyStreams(ctx, t, slices.Compact(keys))
}

// postTogether adds posts with a key in a transaction that waits for no lock.
func (t *Tx) postTogether(ctx context.Context, version int64, posts []backend.Posting) error {
	if t.s.d.KeyStreams == nil { // the engine does best with one post at a time
		for _, x := range posts {
			if done, err := t.s.d.PostKeyed(ctx, t, version, x); err != nil || !done {
				return cmp.Or(err, backend.ErrStreamBusy)
			}
		}
		return nil
	}
	sorted := make([]backend.Posting, len(posts))
	for i, k := range postOrder(posts) {
		sorted[i] = posts[k]
	}
	streams, err := t.keyStreams(ctx, sorted)
	if err != nil {
		return err
	}
	made := false // a stream: others say whether their queue is on
	for _, s := range streams {
		made = made || s.Version == 0
		if s.Version != 0 && (s.Version != version || !s.Enabled) {
			return backend.ErrStreamBusy
		}
	}
	if made {
		if err := t.checkQueues(ctx, version, posts); err != nil {
			return err
		}
	}
	return t.appendTo(ctx, streams, sorted)
}

// appendKeyed adds posts that are sorted by key.
func (t *Tx) appendKeyed(ctx context.Context, posts []backend.Posting) error {
	if len(posts) == 0 {
		return nil
	}
	streams, err := t.keyStreams(ctx, posts)
	if err != nil {
		return err
	}
	return t.appendTo(ctx, streams, posts)
}

// appendTo adds posts to streams, and to those of their keys that are not among these.
func (t *Tx) appendTo(ctx context.Context, streams map[Key]*Stream, posts []backend.Posting) (err error) {
	var b Batch
	for _, x := range posts {
		k := Key{x.Queue, x.Key}
		if streams[k] == nil && t.noWait {
			return backend.ErrStreamBusy
		}
		if streams[k] == nil { // it was swept a moment ago, or the engine makes one at a time
			if streams[k], err = t.keyStream(ctx, x); err != nil {
				return err
			}
		}
		if s := streams[k]; s.Priority != x.Rank && !b.has[s] {
			s.Priority, s.reranked = x.Rank, true // that of the post that makes the marker
		}
		b.add(streams[k], x.ID, KindKeyed, x.Type, x.Body, x.Headers)
	}
	return t.append(ctx, &b)
}

// CheckQueue returns an error unless the catalog has the version and the queue is on.
func (t *Tx) CheckQueue(ctx context.Context, version, queue int64) error {
	return t.queueState(ctx, version, queue)
}

// checkQueues returns an error unless the catalog has the version and the
// queues of all posts are on.
func (t *Tx) checkQueues(ctx context.Context, version int64, posts []backend.Posting) error {
	var seen []int64
	for _, p := range posts {
		if slices.Contains(seen, p.Queue) {
			continue
		}
		seen = append(seen, p.Queue)
		if err := t.queueState(ctx, version, p.Queue); err != nil {
			return err
		}
	}
	return nil
}

// postOrder returns the indexes of posts in the order in which all posters take
// the keys that others may wait for. Posts of one key, and those without, keep
// their order.
func postOrder(posts []backend.Posting) []int {
	order := make([]int, len(posts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := posts[i], posts[j]
		return cmp.Or(
			cmp.Compare(a.Queue, b.Queue),
			cmp.Compare(a.Key, b.Key),
		)
	})
	return order
}

// postOne adds one post whose queue has been looked at.
func (t *Tx) postOne(ctx context.Context, p backend.Posting) (done backend.Posted, err error) {
	uniq, headers := NullText(p.Unique), NullText(p.Headers)
	if p.Unique != "" {
		if done.Duplicate, err = t.claimUnique(ctx, p); err != nil || !done.Duplicate.IsZero() {
			return done, err
		}
	}
	switch {
	case p.Delay > 0:
		_, err = t.Exec(ctx, t.s.q.DelayedInsert, p.ID, p.Queue, p.Key, p.Rank, p.Type, p.Body, headers, uniq, p.Delay)
	case p.Key != "":
		err = t.postKeyed(ctx, p)
	default:
		_, err = t.Exec(ctx, t.s.q.PostInsert, p.ID, p.Queue, p.Rank, p.Type, p.Body, headers, uniq)
	}
	return done, err
}

// claimUnique records the post under its unique value, or returns the pending post that
// has the value. It looks before it inserts: the insert would wait for a receiver that is
// just about to remove the row.
func (t *Tx) claimUnique(ctx context.Context, p backend.Posting) (other backend.ID, err error) {
	for {
		found, err := t.Row(ctx, []any{ID(&other)}, t.s.q.UniqueRead, p.Queue, p.Unique)
		if err != nil || found {
			return other, err
		}
		n, err := t.Exec(ctx, t.s.q.UniqueInsert, p.Queue, p.Unique, p.ID)
		if err != nil || n > 0 {
			return backend.ID{}, err
		}
	}
}

// postKeyed appends a post to the stream of its key, which it makes if need be.
func (t *Tx) postKeyed(ctx context.Context, p backend.Posting) error {
	s, err := t.keyStream(ctx, p)
	if err != nil {
		return err
	}
	_, err = t.Exec(ctx, t.s.q.MessageInsert, s.ID, s.Next, p.ID, KindKeyed, p.Type, p.Body, NullText(p.Headers), NullText(p.Unique))
	if err != nil {
		return err
	}
	if _, err := t.Exec(ctx, t.s.q.StreamAdvance, s.Next+1, s.ID); err != nil {
		return err
	}
	if s.Priority != p.Rank { // a key has the rank of the post that made its marker
		s.Priority = p.Rank
		if _, err := t.Exec(ctx, t.s.q.StreamRank, p.Rank, s.ID); err != nil {
			return err
		}
	}
	if err := t.mark(ctx, *s); err != nil || !p.Raise {
		return err
	}
	_, err = t.Exec(ctx, t.s.q.MarkerRaise, p.Rank, s.Group, s.ID, p.Rank)
	return err
}

// NewKeyStream is the stream of a key that has just been made.
func NewKeyStream(k Key, id backend.ID) *Stream {
	return &Stream{ID: id, Kind: streamKey, Group: id, Queue: k.Queue}
}

// keyStream returns the stream of a post's key with its guard locked.
func (t *Tx) keyStream(ctx context.Context, p backend.Posting) (*Stream, error) {
	for {
		var id backend.ID
		found, err := t.Row(ctx, []any{ID(&id)}, t.s.q.KeyRead, p.Queue, p.Key)
		if err != nil {
			return nil, err
		}
		if !found {
			// Of two who make the key at once the second waits here, and then
			// finds what the first has made, or that it made nothing.
			id = backend.NewID()
			n, err := t.Exec(ctx, t.s.q.KeyInsert, p.Queue, p.Key, id)
			if err != nil {
				return nil, err
			}
			if n == 0 {
				continue
			}
			s := Stream{ID: id, Kind: streamKey, Group: id, Queue: p.Queue, Priority: p.Rank}
			if _, err := t.Exec(ctx, t.s.q.GroupInsert, id, p.Queue, "", p.Key); err != nil {
				return nil, err
			}
			return &s, t.putStream(ctx, s)
		}
		if _, err := t.TryLock(ctx, t.s.q.GuardLock, id); err != nil {
			return nil, err
		}
		s, err := t.stream(ctx, id)
		if err != nil || s != nil {
			return s, err
		}
		// It was swept between the two looks.
	}
}

// delayed reads a post that is not yet due, nil if there is none. Its delay is
// what is left.
func (r run) delayed(ctx context.Context, id backend.ID) (*backend.Posting, error) {
	p := backend.Posting{ID: id}
	var due, now int64
	found, err := r.Row(ctx, []any{&p.Queue, &p.Key, &p.Rank, &p.Type, Body(&p.Body), Text(&p.Headers), Text(&p.Unique), &due, &now},
		r.s.q.DelayedRead, id)
	if err != nil || !found {
		return nil, err
	}
	p.Delay = span(now, due)
	return &p, nil
}
