package parley

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/crowd"
	"github.com/parleymq/parley/internal/wait"
)

// PostOption says more of a post.
type PostOption func(*postOptions)

type postOptions struct {
	key    string
	delay  time.Duration
	at     time.Time
	unique string
	period time.Duration // of UniquePer
	ends   time.Time     // that period
	rank   int
	raise  bool
	is     *bool // a duplicate
	id     ID
	err    error
}

// Key orders posts. Those of one queue with the same key are received in the order in
// which they were committed, by one receiver at a time. A post without key is in no
// order and waits for no other post.
func Key(key string) PostOption {
	return func(o *postOptions) {
		o.key = key
		if key == "" || !backend.IsText(key) || len(key) > 512 {
			o.err = fmt.Errorf("key of %d bytes: want UTF-8 of 1 to 512, none of them zero: %w", len(key), ErrInvalidOption)
		}
	}
}

// After delays a post: it joins its queue, and the order of its key, only then.
func After(d time.Duration) PostOption {
	return func(o *postOptions) {
		o.delay = d
		if d < 0 {
			o.err = fmt.Errorf("after %v: %w", d, ErrInvalidOption)
		}
	}
}

// At delays a post until a time, by this process's clock.
func At(t time.Time) PostOption {
	return func(o *postOptions) { o.at = t }
}

// Unique adds the post only if no other post of the queue with the same value is pending: waiting,
// delayed, or held by a receiver. Otherwise nothing is added, and the result is the ID of the
// pending post; Duplicate reports that. The message that a handler works on is pending until it is
// acknowledged, so its successor needs another value, or UniquePer.
func Unique(value string) PostOption {
	return func(o *postOptions) {
		o.unique = value
		if value == "" || !backend.IsText(value) || len(value) > 512 {
			o.err = fmt.Errorf("unique value of %d bytes: want UTF-8 of 1 to 512, none of them zero: %w", len(value), ErrInvalidOption)
		}
	}
}

// UniquePer adds the post only if no post of the queue with the same value and period was due in that period, whatever
// has become of it. Otherwise nothing is added, and the result is the ID of the period's post; Duplicate reports that.
// Periods are those of time.Truncate, by this process's clock: hours, days in UTC, or weeks that begin on Monday. A
// period has at least a second. A handler posts its successor with the same value and an After that leads to a later
// period.
func UniquePer(value string, period time.Duration) PostOption {
	return func(o *postOptions) {
		Unique(value)(o)
		if o.period = period; period < time.Second && o.err == nil {
			o.err = fmt.Errorf("unique per %v: want a second or more: %w", period, ErrInvalidOption)
		}
	}
}

// Duplicate sets is to true if the post was not added because of Unique or UniquePer.
func Duplicate(is *bool) PostOption {
	return func(o *postOptions) { o.is = is }
}

// PostID gives the post this ID instead of a new one. No other message may ever have the same ID; Parley does not
// check that.
func PostID(id ID) PostOption {
	return func(o *postOptions) {
		o.id = id
		if id.IsZero() {
			o.err = fmt.Errorf("the ID of a post is zero: %w", ErrInvalidOption)
		}
	}
}

// Priority ranks a post: 1 to 10, default 5. A key keeps the rank of its first
// post while it has any waiting, unless a post with RaiseKey has a higher one.
func Priority(level int) PostOption {
	return func(o *postOptions) {
		o.rank = level
		if level < 1 || level > 10 {
			o.err = fmt.Errorf("priority %d: want 1 to 10: %w", level, ErrInvalidOption)
		}
	}
}

// RaiseKey raises the key of a post to the post's Priority, if that is higher. It applies to all posts under the key,
// earlier and later ones, while any of them waits. A delayed post, or one without key, cannot raise a key.
func RaiseKey() PostOption {
	return func(o *postOptions) { o.raise = true }
}

// Posting is a post, for PostBatch.
type Posting struct {
	Payload
	Options []PostOption
}

// Post puts a message straight into a queue, without a conversation. It returns
// the message's ID.
func (tx *Tx) Post(ctx context.Context, queue string, p Payload, o ...PostOption) (ID, error) {
	ids, err := tx.PostBatch(ctx, queue, []Posting{{p, o}})
	if err != nil {
		return ID{}, err
	}
	return ids[0], nil
}

// PostBatch adds all posts or none.
func (tx *Tx) PostBatch(ctx context.Context, queue string, posts []Posting) ([]ID, error) {
	posts, err := tx.b.shownPosts(ctx, queue, posts)
	var ids []ID
	if err == nil {
		ids, err = tx.post(ctx, queue, posts)
	}
	if err == nil {
		err = tx.told(ctx)
	}
	return ids, fail("post", objQueue(queue), err)
}

func (tx *Tx) post(ctx context.Context, queue string, posts []Posting) (ids []ID, err error) {
	if len(posts) == 0 {
		return nil, nil
	}
	options := make([]postOptions, len(posts))
	per := false
	for i, p := range posts {
		if options[i], err = optionsOf(queue, p.Options); err != nil {
			return nil, err
		}
		per = per || options[i].period > 0
	}
	if !per {
		return tx.postAll(ctx, queue, posts, options)
	}
	err = tx.Atomically(ctx, func() error {
		ids, err = tx.postOnce(ctx, queue, posts, options)
		return err
	})
	return ids, err
}

// optionsOf returns what the options of a post come to.
func optionsOf(queue string, list []PostOption) (o postOptions, err error) {
	o.rank = DefaultPriority
	for _, f := range list {
		f(&o)
	}
	switch {
	case o.err != nil:
		return o, o.err
	case !o.at.IsZero() && o.delay > 0:
		return o, fmt.Errorf("both After and At: %w", ErrInvalidOption)
	case o.period > 0 && !o.id.IsZero():
		return o, fmt.Errorf("both UniquePer, which gives the post its ID, and PostID: %w", ErrInvalidOption)
	case !o.at.IsZero():
		o.delay = max(time.Until(o.at), 0)
	}
	if o.raise && (o.key == "" || o.delay > 0) {
		return o, fmt.Errorf("RaiseKey, with the key %.100q and a delay of %v: want a key and no delay: %w", o.key, o.delay, ErrInvalidOption)
	}
	if o.period > 0 {
		start := time.Now().Add(o.delay).UTC().Truncate(o.period)
		o.id = backend.DerivedID(start, fmt.Sprintf("unique %q %q %v", queue, o.unique, o.period))
		o.ends, o.unique = start.Add(o.period), ""
	}
	if o.id.IsZero() {
		o.id = NewID()
	}
	return o, nil
}

// onceSlack is how much longer than its period a post of UniquePer is remembered: clocks differ.
const onceSlack = time.Hour

// postOnce adds the posts of UniquePer that are the first of their periods, and all others.
func (tx *Tx) postOnce(ctx context.Context, queue string, posts []Posting, options []postOptions) ([]ID, error) {
	var per, left []int
	for i, o := range options {
		if o.period > 0 {
			per = append(per, i)
		} else {
			left = append(left, i)
		}
	}
	// All callers take the keys in one order, so that they do not wait for each other in a circle.
	slices.SortStableFunc(per, func(i, j int) int { return bytes.Compare(options[i].id[:], options[j].id[:]) })
	for _, i := range per {
		o := options[i]
		fresh, err := tx.be.Once(ctx, "parley unique "+o.id.String(), time.Until(o.ends)+onceSlack)
		if err != nil {
			return nil, err
		}
		if fresh {
			left = append(left, i)
		}
		if o.is != nil {
			*o.is = !fresh
		}
	}
	slices.Sort(left)
	first, own := make([]Posting, len(left)), make([]postOptions, len(left))
	for k, i := range left {
		first[k], own[k] = posts[i], options[i]
	}
	added, err := tx.postAll(ctx, queue, first, own)
	if err != nil {
		return nil, err
	}
	ids := make([]ID, len(posts))
	for i, o := range options {
		ids[i] = o.id // of the period's post, also if that is an earlier one
	}
	for k, i := range left {
		ids[i] = added[k]
	}
	return ids, nil
}

func (tx *Tx) postAll(ctx context.Context, queue string, posts []Posting, options []postOptions) (ids []ID, err error) {
	if len(posts) == 0 {
		return nil, nil
	}
	var rows []backend.Posting
	var posted []backend.Posted
	err = tx.withCatalog(ctx, func(v *catalogView) error {
		rows, err = tx.postings(v, queue, posts, options)
		if err == nil {
			posted, err = tx.be.Post(ctx, v.version, rows)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	ids = make([]ID, len(rows))
	for i, p := range rows {
		ids[i] = p.ID
		if is := options[i].is; is != nil {
			*is = !posted[i].Duplicate.IsZero()
		}
		if !posted[i].Duplicate.IsZero() {
			ids[i] = posted[i].Duplicate
			continue
		}
		if p.Delay > 0 {
			tx.soon(p.Delay)
		} else {
			tx.touch(p.Queue)
		}
	}
	return ids, nil
}

func (tx *Tx) postings(v *catalogView, queue string, posts []Posting, options []postOptions) (rows []backend.Posting, err error) {
	q, ok := v.queues[queue]
	if !ok {
		return nil, ErrUnknownQueue
	}
	rows = make([]backend.Posting, len(posts))
	for i, p := range posts {
		c, why, err := tx.b.checked(v, p.Payload, func(string) error { return nil })
		if err == nil && why != nil {
			err = fmt.Errorf("message type %q: %w: %w", c.Type, ErrInvalidBody, why)
		}
		if err != nil {
			return nil, err
		}
		o := &options[i]
		rows[i] = backend.Posting{ID: o.id, Queue: q.ID, Key: o.key, Rank: o.rank, Raise: o.raise, Type: c.Type, Body: c.Body,
			Headers: backend.EncodeHeaders(c.Headers), Delay: o.delay, Unique: o.unique}
	}
	return rows, nil
}

// CancelPost removes a post that waits, when the transaction commits. ErrNotPending means that it is
// in a receiver's hands, done, or was never there. Broker.CancelPosts also asks receivers to stop.
func (tx *Tx) CancelPost(ctx context.Context, queue string, id ID) error {
	err := tx.withCatalog(ctx, func(v *catalogView) error {
		q, ok := v.queues[queue]
		if !ok {
			return ErrUnknownQueue
		}
		err := tx.be.Cancel(ctx, q.ID, id)
		if tx.b.caps.SingleWriter {
			return err // no other transaction can write while this one is open
		}
		// A background job may be moving it, or have it locked until it has committed.
		pause := 5 * time.Millisecond
		for try := 1; errors.Is(err, ErrNotPending) && (try <= 3 || try <= 7 && errors.Is(err, ErrGroupBusy)); try++ {
			if try > 3 {
				pause *= 2
			}
			if wait.Sleep(ctx, pause) != nil {
				break
			}
			err = tx.be.Cancel(ctx, q.ID, id)
		}
		return err
	})
	return fail("cancel post", fmt.Sprintf("%s in %s", id, objQueue(queue)), err)
}

// Post puts one message into a queue in a separate transaction, which begins again if it loses against
// another one. Calls of many goroutines may share a transaction, and each has the outcome that it has alone.
// After ErrConnection the message may be there, unless the error is ErrNotBegun as well, or
// may still arrive, on PostgreSQL even behind messages with the same key that are posted after it.
// If ctx ends while the database's answer is missing, the error is that of ctx and ErrConnection.
func (b *Broker) Post(ctx context.Context, queue string, p Payload, o ...PostOption) (id ID, err error) {
	posts, err := b.shownPosts(ctx, queue, []Posting{{p, o}})
	if err != nil {
		return ID{}, fail("post", objQueue(queue), err)
	}
	v := &verb{queue: queue, Posting: posts[0]}
	if x, bad := optionsOf(queue, o); bad == nil && b.gathers(&x) {
		m := &crowd.Member[*verb]{Verb: v, Kind: kind{queue, x.key != ""}, Several: true}
		if x.key != "" {
			m.Subject = subject{queue: queue, key: x.key}
		}
		err = b.crowded(ctx, m)
	} else {
		err = b.verb(ctx, v)
	}
	if err != nil {
		return ID{}, fail("post", objQueue(queue), err)
	}
	return v.id, nil
}

// gathers reports whether a post may go together with others.
func (b *Broker) gathers(o *postOptions) bool {
	t := b.caps.Together
	if t == nil || o.unique != "" || o.period > 0 || o.delay > 0 || o.raise || o.is != nil {
		return false
	}
	return o.key == "" && t.Posts || o.key != "" && t.KeyedPosts
}

// PostBatch puts messages into a queue in a separate transaction, as Post does: all or none.
func (b *Broker) PostBatch(ctx context.Context, queue string, posts []Posting) (ids []ID, err error) {
	err = b.alone(ctx, func(tx *Tx) error {
		ids, err = tx.PostBatch(ctx, queue, posts)
		return err
	})
	return ids, err
}

// CancelPost removes a post that waits, in a separate transaction; see Tx.CancelPost.
func (b *Broker) CancelPost(ctx context.Context, queue string, id ID) error {
	return b.InTx(ctx, func(tx *Tx) error { return tx.CancelPost(ctx, queue, id) })
}
