package sqlstore

import (
	"context"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// Settlement is what a call of Settle comes to, in the order of its outcomes.
type Settlement struct {
	Consumed bool      // by a claim: the transaction goes on
	Finished bool      // Finish follows at once
	Messages []Removal // of streams
	Posts    []Removal // without key
	Failures []backend.Failure
	Blocks   []Block
	Used     []*backend.Hold // that came by a promotion, which may end now

	left map[*backend.Hold]bool // posts that stay
}

// Removal is a message to be taken out.
type Removal struct {
	Message *backend.Message
	Hold    *backend.Hold
	Reason  string // of a dead letter
	Dead    bool
	Retain  bool
	Keep    time.Duration // posts only
}

// Block hides a group.
type Block struct {
	Hold   *backend.Hold
	Kind   int
	For    time.Duration
	Reason string
}

// Settle implements backend.Tx.
func (t *Tx) Settle(ctx context.Context, outcomes []backend.Outcome) (again bool, err error) {
	if err := t.usable(ctx); err != nil {
		return false, err
	}
	if err := t.storeBegun(ctx); err != nil {
		return false, err
	}
	// In a joined transaction the user's code follows, and a sender that needs one of the guards
	// would wait for it. JobMarkers sees to what is left over.
	finish := !t.Joined() || t.s.d.Futile
	defer func() { t.late = nil }() // if it fails they are to stay
	// Whether a promotion has ended shows when the messages are removed.
	late := finish && !slices.ContainsFunc(outcomes, func(o backend.Outcome) bool { return heldOf(o.Hold).lasts == untilEmpty })
	if err := t.settle(ctx, outcomes, Settlement{Finished: late}); err != nil || !finish {
		return false, err
	}
	return t.finish(ctx)
}

// settle does what Settle does but for the markers.
func (t *Tx) settle(ctx context.Context, outcomes []backend.Outcome, s Settlement) error {
	s.left = make(map[*backend.Hold]bool)
	for _, o := range outcomes {
		if o.Hold.Fence > 0 && !t.holding(o.Hold) {
			if err := t.Reclaim(ctx, []*backend.Hold{o.Hold}); err != nil {
				return err
			}
		}
		s.add(o)
	}
	if err := t.decideEnds(ctx); err != nil {
		return err
	}
	leaves := t.leaves()
	settled := make(map[messageKey]bool, len(leaves))
	for i, r := range s.Messages {
		if k := (messageKey{r.Message.Stream, r.Message.Seq}); leaves[k] {
			settled[k] = true
			s.Messages[i].Retain = false // for a side that has ended
		}
	}
	if err := t.writeEnds(ctx, settled); err != nil {
		return err
	}
	deliver := t.s.d.SettleBatch
	if deliver == nil {
		deliver = SettleRows
	}
	if err := deliver(ctx, t, &s); err != nil {
		return err
	}
	if err := t.usePromotions(ctx, &s); err != nil {
		return err
	}
	for _, r := range s.Messages {
		t.touch(r.Message.Stream)
	}
	t.touch(s.Touched()...)
	t.settled = false
	for _, r := range s.Posts {
		t.part(r.Hold)
	}
	return t.letGo(ctx, s.left)
}

// Touched are the streams whose messages are hidden with their groups.
func (s *Settlement) Touched() (streams []backend.ID) {
	for _, b := range s.Blocks {
		if isPost(b.Hold) {
			continue
		}
		for _, m := range b.Hold.Messages {
			streams = append(streams, m.Stream)
		}
	}
	return streams
}

// RemoveLater leaves it to Finish, which follows at once, to remove messages, all of which must be there.
func (t *Tx) RemoveLater(list []Removal) { t.late = list }

// Late are the messages that Finish removes.
func (t *Tx) Late() []Removal { return t.late }

// Guarded records which guards this transaction has tried to lock, and which it got.
func (t *Tx) Guarded(tried, had []backend.ID) {
	if t.guarded == nil {
		t.guarded = make(map[backend.ID]bool, len(tried))
	}
	for _, id := range tried {
		t.guarded[id] = t.guarded[id] || slices.Contains(had, id)
	}
}

// TakeGuarded returns those of streams whose guards the transaction got, if it has
// tried the guards of all of them.
func (t *Tx) TakeGuarded(streams []backend.ID) (had []backend.ID, all bool) {
	for _, id := range streams {
		ours, tried := t.guarded[id]
		if !tried {
			return nil, false
		}
		if ours {
			had = append(had, id)
		}
	}
	return had, true
}

func (s *Settlement) add(o backend.Outcome) {
	post := heldOf(o.Hold).post
	list := &s.Messages
	if post {
		list = &s.Posts
		if o.Removed() == 0 {
			s.left[o.Hold] = true
		}
	}
	for _, m := range o.Done {
		*list = append(*list, Removal{Message: m, Hold: o.Hold, Retain: o.Retain && !post, Keep: o.Keep})
	}
	for _, m := range o.Cancelled {
		*list = append(*list, Removal{Message: m, Hold: o.Hold})
	}
	for _, d := range o.Dead {
		*list = append(*list, Removal{Message: d.Message, Hold: o.Hold, Reason: d.Reason, Dead: true})
	}
	if o.Failure != nil {
		s.Failures = append(s.Failures, *o.Failure)
	}
	switch {
	case o.Park != "":
		s.Blocks = append(s.Blocks, Block{Hold: o.Hold, Kind: parked, Reason: o.Park})
	case o.Defer > 0:
		b := Block{Hold: o.Hold, Kind: deferred, For: o.Defer}
		if o.Failure != nil {
			b.Reason = o.Failure.Error
		}
		s.Blocks = append(s.Blocks, b)
	}
	if h := heldOf(o.Hold); h.version != 0 && h.lasts != sticky && o.Removed() > 0 {
		s.Used = append(s.Used, o.Hold)
	}
}

// Uniq returns the unique value of a message that was removed, "" for none.
func (r Removal) Uniq() string { return heldOf(r.Hold).uniq[r.Message.ID] }

// Dropped reports whether END has removed a message in this transaction. It is there all
// the same if that was rolled back: see Returned.
func (t *Tx) Dropped(r Removal) bool { return t.dropped[messageKey{r.Message.Stream, r.Message.Seq}] }

// Returned reports whether what the transaction has removed may be there again.
func (t *Tx) Returned() bool { return t.returned || t.unseen() }

// SettleRows carries out a settlement row by row.
func SettleRows(ctx context.Context, t *Tx, s *Settlement) error {
	var removed, dropped []Removal
	for _, r := range s.Messages {
		if t.Dropped(r) {
			dropped = append(dropped, r)
		} else {
			removed = append(removed, r)
		}
	}
	if err := t.removeMessages(ctx, removed); err != nil {
		return err
	}
	for _, r := range dropped {
		back := int64(0)
		if t.Returned() {
			var err error
			if back, err = t.Exec(ctx, t.s.q.MessageDelete, r.Message.Stream, r.Message.Seq); err != nil {
				return err
			}
		}
		if back > 0 {
			removed = append(removed, r)
		} else if r.Dead {
			if err := t.buryRemoval(ctx, r); err != nil {
				return err
			}
		}
	}
	for _, r := range removed {
		if r.Message.Kind <= backend.KindError {
			if err := t.dropNote(ctx, r.Hold.Group, r.Message.Stream); err != nil {
				return err
			}
		}
		if err := t.remember(ctx, r); err != nil {
			return err
		}
	}
	if err := t.RemovePosts(ctx, s.Posts); err != nil {
		return err
	}
	for _, r := range s.Posts {
		if err := t.remember(ctx, r); err != nil {
			return err
		}
	}
	return t.LeaveBehind(ctx, s)
}

// removeMessages removes messages, all of which must be there.
func (t *Tx) removeMessages(ctx context.Context, list []Removal) error {
	keys := make([]messageKey, len(list))
	for i, r := range list {
		keys[i] = messageKey{r.Message.Stream, r.Message.Seq}
	}
	n, err := t.remove(ctx, keys)
	if err == nil && n < int64(len(keys)) {
		err = backend.ErrFenced
	}
	return err
}

// RemovePosts removes posts without key, all of which must be there.
func (t *Tx) RemovePosts(ctx context.Context, posts []Removal) error {
	if len(posts) > 0 && t.s.d.RemovePosts != nil {
		ids := make([]backend.ID, len(posts))
		for i, r := range posts {
			ids[i] = r.Message.ID
		}
		n, err := t.s.d.RemovePosts(ctx, t, ids)
		if err == nil && n < int64(len(ids)) {
			err = backend.ErrFenced
		}
		return err
	}
	for _, r := range posts {
		n, err := t.Exec(ctx, t.s.q.PostDelete, r.Message.ID)
		if err != nil {
			return err
		}
		if n == 0 {
			return backend.ErrFenced
		}
	}
	return nil
}

// buryRemoval records a message of a settlement as a dead letter.
func (t *Tx) buryRemoval(ctx context.Context, r Removal) error {
	return t.bury(ctx, r.Hold.Queue, r.Message, r.Message.Enqueued.UnixMicro(), r.Reason)
}

// bury records a dead letter.
func (t *Tx) bury(ctx context.Context, queue int64, m *backend.Message, since int64, reason string) error {
	_, err := t.Exec(ctx, t.s.q.DeadInsert, m.ID, queue, m.Stream, m.Seq, m.Group, m.Kind, m.Type, m.Body, NullText(m.Headers), since,
		m.Key, Null(m.Handle), Null(m.Conversation), m.Initiator, m.Service, m.FarService, m.Contract,
		m.Priority, m.Attempts, m.Deaths, m.LastError, storedAttempts(m.Errors), reason)
	return err
}

// RemoveDead implements backend.Tx.
func (t *Tx) RemoveDead(ctx context.Context, message backend.ID) (bool, error) {
	if err := t.ready(ctx); err != nil {
		return false, err
	}
	n, err := t.Exec(ctx, t.s.q.DeadDelete, message)
	return n > 0, err
}

// HasFailed reports whether there is a row of failures for a message. A deferral makes one, too, without attempts.
func HasFailed(m *backend.Message) bool { return m.Attempts+m.Deaths > 0 || m.LastError != "" }

// dropBeside removes what is kept beside a message that is removed.
func (t *Tx) dropBeside(ctx context.Context, r Removal) error {
	if !isPost(r.Hold) && HasFailed(r.Message) {
		if _, err := t.Exec(ctx, t.s.q.FailureDelete, r.Message.ID); err != nil {
			return err
		}
	}
	return t.freeUnique(ctx, r.Hold.Queue, r.Uniq())
}

// freeUnique lets another post have a unique value.
func (t *Tx) freeUnique(ctx context.Context, queue int64, value string) error {
	if value == "" {
		return nil
	}
	_, err := t.Exec(ctx, t.s.q.UniqueDelete, queue, value)
	return err
}

// remember stores what the queue keeps of a message that was removed.
func (t *Tx) remember(ctx context.Context, r Removal) (err error) {
	m := r.Message
	switch {
	case r.Dead:
		err = t.buryRemoval(ctx, r)
	case r.Retain && !m.Handle.IsZero():
		_, err = t.Exec(ctx, t.s.q.RetainedInsert, m.Handle, m.Stream, m.Seq, false, m.ID, m.Kind, m.Type, m.Body,
			NullText(m.Headers), m.Enqueued.UnixMicro())
	case r.Keep > 0 && m.Handle.IsZero():
		_, err = t.Exec(ctx, t.s.q.ProcessedInsert, m.ID, r.Hold.Queue, m.Key, m.Type, m.Body, NullText(m.Headers), r.Keep)
	}
	if err != nil {
		return err
	}
	return t.dropBeside(ctx, r)
}

// Copies are what a settlement keeps of messages.
type Copies struct {
	Retained []Removal // for their receivers
	Keyed    []Removal // posts with a key
	Posts    []Removal // posts without
}

// CopiesOf stores the dead letters of a settlement and removes the data kept beside its messages.
// It returns the messages to copy before they are removed.
func (t *Tx) CopiesOf(ctx context.Context, s *Settlement) (c Copies, err error) {
	for _, r := range slices.Concat(s.Messages, s.Posts) {
		switch {
		case r.Dead:
			if err := t.buryRemoval(ctx, r); err != nil {
				return c, err
			}
		case r.Retain && !r.Message.Handle.IsZero():
			c.Retained = append(c.Retained, r)
		case r.Keep > 0 && isPost(r.Hold):
			c.Posts = append(c.Posts, r)
		case r.Keep > 0 && r.Message.Handle.IsZero():
			c.Keyed = append(c.Keyed, r)
		}
		if err := t.dropBeside(ctx, r); err != nil {
			return c, err
		}
	}
	return c, nil
}

// LeaveBehind carries out what a settlement does besides removing messages.
func (t *Tx) LeaveBehind(ctx context.Context, s *Settlement) error {
	for _, f := range s.Failures {
		if f.Message.Stream == f.Message.ID && f.Message.Kind == backend.KindUser {
			if _, err := t.Exec(ctx, t.s.q.PostFail, f.Attempts, f.Deaths, f.Error, storedAttempts(f.Errors), f.Message.ID); err != nil {
				return err
			}
			continue
		}
		if _, err := t.Exec(ctx, t.s.q.FailurePut, f.Message.ID, f.Attempts, f.Deaths, f.Error, storedAttempts(f.Errors)); err != nil {
			return err
		}
	}
	for _, b := range s.Blocks {
		q := t.s.q.GroupBlock
		if heldOf(b.Hold).post {
			q = t.s.q.PostBlock
		}
		if _, err := t.Exec(ctx, q, b.Kind, b.For, b.Reason, b.Hold.Group); err != nil {
			return err
		}
	}
	return nil
}

// usePromotions ends promotions, when the messages of the settlement are removed.
func (t *Tx) usePromotions(ctx context.Context, s *Settlement) error {
	if s.Consumed && !t.Joined() {
		// The transaction goes on as long as its user likes, and a promotion of the
		// group must not wait for it meanwhile.
		t.used = append(t.used, s.Used...)
		return nil
	}
	for _, h := range s.Used {
		if err := t.usePromotion(ctx, h); err != nil {
			return err
		}
	}
	return nil
}

// finish corrects the ready order of streams from which messages were taken. If a guard is busy, a
// sender in flight relies on the marker that it saw: the marker stays, and again is true.
func (t *Tx) finish(ctx context.Context) (again bool, err error) {
	t.touched = slices.DeleteFunc(t.touched, t.Vanished)
	streams := SortIDs(t.touched)
	if len(streams)+len(t.late) == 0 {
		t.touched, t.settled = nil, true
		return false, nil
	}
	if again, err = t.s.d.Finish(ctx, t, streams); err == nil {
		t.touched, t.settled = nil, true
	}
	return again, err
}

// Vanished reports whether the transaction has removed a stream.
func (t *Tx) Vanished(stream backend.ID) bool { return slices.Contains(t.vanished, stream) }
