package conformance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		Check{ID: "T01", Name: "a timer comes once, to the side that set it", Run: checkTimer},
		Check{ID: "T01", Name: "each side has a timer of its own", Run: checkTimerOnBothSides},
		Check{ID: "T02", Name: "a later setting replaces an earlier one", Run: checkTimerSetAgain},
		Check{ID: "T02", Name: "a timer that fired can be set again, and one set to zero is gone", Run: checkTimerZero},
		Check{ID: "T03", Name: "a setting that was rolled back never was", Run: checkTimerRolledBack},
		Check{ID: "T03", Name: "an ended side has no timer", Run: checkTimerEnded},
		Check{ID: "T04", Name: "a timer fires after its broker was closed, and not early", Run: checkTimerOutlivesBroker},
		Check{ID: "T04", Name: "a timer fires after its process was killed, and not early", Run: checkTimerOutlivesProcess},
		Check{ID: "T05", Name: "both sides learn of the end of the lifetime", Run: checkLifetime},
		Check{ID: "T05", Name: "a side that is alone learns of it, and ended ones do not", Run: checkLifetimeAlone},
		Check{ID: "T06", Name: "a timer beyond the lifetime is refused on both sides", Run: checkTimerBeyondLifetime},
	)
	addRole("timer", tmrChild)
}

// tmrEarly is by how much a store may round a time.
const tmrEarly = 5 * time.Millisecond

// tmrSet sets a timer in a transaction of its own and returns a time before
// that.
func tmrSet(w *World, h parley.ID, d time.Duration) time.Time {
	before := time.Now()
	w.Tx(func(tx *parley.Tx) error { return tx.Conversation(h).SetTimer(w.Ctx, d) })
	return before
}

// tmrFires takes the next delivery, which must be the timer of h and not before
// its time.
func tmrFires(w *World, queue string, h parley.ID, set time.Time, d time.Duration) {
	got := w.Receive(queue, nil)
	passed := time.Since(set)
	if len(got.Messages) != 1 || got.Messages[0].Type != parley.DialogTimer || got.Messages[0].Conversation != h {
		w.Fatalf("received %s, want the timer of %s", tmrDescribe(got.Messages), h)
	}
	if m := got.Messages[0]; m.Body != nil {
		w.Errorf("the timer has a body of %d bytes", len(m.Body))
	}
	if passed < d-tmrEarly {
		w.Errorf("the timer was set to %v and came after %v", d, passed)
	}
	w.Must(got.Ack(w.Ctx))
}

func tmrDescribe(ms []*parley.Message) string {
	s := make([]string, len(ms))
	for i, m := range ms {
		s[i] = fmt.Sprintf("%s on %s", describe(ms[i:i+1]), m.Conversation)
	}
	return strings.Join(s, ", ")
}

// tmrNothingElse proves that no timer is due on the initiators' queue in the
// next moment: one that is set now comes first.
func tmrNothingElse(w *World) {
	const d = 200 * time.Millisecond
	h := w.Dialog()
	tmrFires(w, w.CQ, h, tmrSet(w, h, d), d)
	w.Nothing(w.CQ, nil)
}

// tmrShown returns in how long the store says that the timer of h fires.
func tmrShown(w *World, h parley.ID) time.Duration {
	sides, err := w.B.Admin().Conversations(w.Ctx, parley.ConversationQuery{Handle: h})
	w.Must(err)
	for _, s := range sides {
		if s.Handle == h {
			return s.Timer
		}
	}
	w.Fatalf("the store does not list the side %s", h)
	return 0
}

// tmrPair begins a conversation, has its first message taken, and returns both
// handles.
func tmrPair(w *World, o *parley.DialogOptions) (client, server parley.ID) {
	client = w.DialogWith(o, "hello")
	d := w.Receive(w.SQ, nil)
	if len(d.Messages) != 1 || d.Messages[0].Type == parley.DialogTimer {
		w.Fatalf("received %s, want the first message", tmrDescribe(d.Messages))
	}
	server = d.Messages[0].Conversation
	w.Must(d.Ack(w.Ctx))
	return client, server
}

func checkTimer(e *Env) {
	w := e.World()
	h, _ := tmrPair(w, nil)
	const d = 200 * time.Millisecond
	set := tmrSet(w, h, d)
	if left := tmrShown(w, h); left > d+tmrEarly {
		e.Errorf("a timer of %v is said to fire in %v", d, left)
	}
	tmrFires(w, w.CQ, h, set, d)
	tmrNothingElse(w)
	w.Nothing(w.SQ, nil)

	// The conversation goes on.
	w.Send(h, w.Ask, "more")
	if got := w.Take(w.SQ, nil); !slices.Equal(got, []string{"more"}) {
		e.Errorf("after the timer the other side received %q, want more", got)
	}
}

func checkTimerOnBothSides(e *Env) {
	w := e.World()
	client, server := tmrPair(w, nil)
	// The later one is set first, on the other side: neither replaces the other.
	const long, short = 600 * time.Millisecond, 200 * time.Millisecond
	late, early := tmrSet(w, server, long), tmrSet(w, client, short)
	tmrFires(w, w.CQ, client, early, short)
	tmrFires(w, w.SQ, server, late, long)
	tmrNothingElse(w)
	w.Nothing(w.SQ, nil)
}

func checkTimerSetAgain(e *Env) {
	w := e.World()
	later, sooner, same := w.Dialog(), w.Dialog(), w.Dialog()
	const short, long = 250 * time.Millisecond, 700 * time.Millisecond

	tmrSet(w, later, short)
	atLater := tmrSet(w, later, long)
	tmrSet(w, sooner, time.Hour)
	atSooner := tmrSet(w, sooner, short)
	atSame := time.Now()
	w.Tx(func(tx *parley.Tx) error { // twice in one transaction
		c := tx.Conversation(same)
		return errors.Join(c.SetTimer(e.Ctx, time.Hour), c.SetTimer(e.Ctx, short))
	})
	want := map[parley.ID]struct {
		set time.Time
		d   time.Duration
	}{later: {atLater, long}, sooner: {atSooner, short}, same: {atSame, short}}
	for range 3 {
		d := w.Receive(w.CQ, nil)
		m := d.Messages[0]
		at, ok := want[m.Conversation]
		if len(d.Messages) != 1 || m.Type != parley.DialogTimer || !ok {
			e.Fatalf("received %s, want one timer of each of %d conversations", tmrDescribe(d.Messages), 3)
		}
		if passed := time.Since(at.set); passed < at.d-tmrEarly {
			e.Errorf("a timer that was last set to %v came after %v", at.d, passed)
		}
		delete(want, m.Conversation)
		e.Must(d.Ack(e.Ctx))
	}
	tmrNothingElse(w)
}

func checkTimerZero(e *Env) {
	w := e.World()
	h := w.Dialog()
	const d = 100 * time.Millisecond
	for range 2 { // a fired timer can be set again
		tmrFires(w, w.CQ, h, tmrSet(w, h, d), d)
	}
	w.Tx(func(tx *parley.Tx) error {
		c := tx.Conversation(h)
		return errors.Join(c.SetTimer(e.Ctx, d), c.SetTimer(e.Ctx, 0))
	})
	tmrSet(w, h, time.Hour)
	tmrSet(w, h, 0)
	if left := tmrShown(w, h); left != 0 {
		e.Errorf("a timer that was removed is said to fire in %v", left)
	}
	tmrNothingElse(w)
}

func checkTimerRolledBack(e *Env) {
	w := e.World()
	fresh, replaced, removed, saved := w.Dialog(), w.Dialog(), w.Dialog(), w.Dialog()
	const short, long = 50 * time.Millisecond, 400 * time.Millisecond
	set := tmrSet(w, replaced, long)
	tmrSet(w, removed, long)

	undo := errors.New("undo")
	err := w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
		for _, h := range []parley.ID{fresh, replaced} {
			if err := tx.Conversation(h).SetTimer(e.Ctx, short); err != nil {
				return err
			}
		}
		if err := tx.Conversation(removed).SetTimer(e.Ctx, 0); err != nil {
			return err
		}
		return undo
	})
	e.Is(err, undo)
	w.Tx(func(tx *parley.Tx) error {
		if err := tx.Savepoint(e.Ctx, "before"); err != nil {
			return err
		}
		if err := tx.Conversation(saved).SetTimer(e.Ctx, short); err != nil {
			return err
		}
		return tx.RollbackTo(e.Ctx, "before")
	})
	for _, h := range []parley.ID{fresh, saved} {
		if left := tmrShown(w, h); left != 0 {
			e.Errorf("a timer whose setting was rolled back is said to fire in %v", left)
		}
	}
	// What stood before the rollback fires, and nothing before it.
	want := []parley.ID{replaced, removed}
	for len(want) > 0 {
		d := w.Receive(w.CQ, nil)
		passed := time.Since(set)
		i := slices.Index(want, d.Messages[0].Conversation)
		if i < 0 || len(d.Messages) != 1 || d.Messages[0].Type != parley.DialogTimer {
			e.Fatalf("received %s, want the timers set before the rollback", tmrDescribe(d.Messages))
		}
		if passed < long-tmrEarly {
			e.Errorf("a timer set to %v came after %v, as if a setting that was rolled back counted", long, passed)
		}
		want = slices.Delete(want, i, i+1)
		e.Must(d.Ack(e.Ctx))
	}
	tmrNothingElse(w)
}

func checkTimerEnded(e *Env) {
	w := e.World()
	const d = 150 * time.Millisecond
	client, server := tmrPair(w, nil)
	second, _ := tmrPair(w, nil) // before there is a timer, which it might receive
	tmrSet(w, client, d)
	tmrSet(w, server, d)
	w.Tx(func(tx *parley.Tx) error { return tx.Conversation(client).End(e.Ctx) })
	w.Tx(func(tx *parley.Tx) error { // set and ended at once
		c := tx.Conversation(second)
		return errors.Join(c.SetTimer(e.Ctx, d), c.EndWithError(e.Ctx, 1, "over"))
	})
	for _, h := range []parley.ID{client, second} { // they are there until the other side ends too
		if left := tmrShown(w, h); left != 0 {
			e.Errorf("the timer of a side that has ended is said to fire in %v", left)
		}
	}
	tmrNothingElse(w)

	// The other side has not ended: its own timer is still its own.
	timers, deadline := 0, time.Now().Add(5*time.Second)
	for timers == 0 {
		d := w.TryReceive(w.SQ, nil, time.Until(deadline))
		if d == nil {
			e.Fatalf("the timer of the side that has not ended did not come")
		}
		for _, m := range d.Messages {
			if m.Type == parley.DialogTimer && m.Conversation == server {
				timers++
			}
		}
		e.Must(d.Ack(e.Ctx))
	}
	for _, m := range append(w.Drain(w.SQ), w.Drain(w.CQ)...) {
		if m.Type == parley.DialogTimer {
			e.Errorf("received a timer on %s, where none should be left", m.Conversation)
		}
	}
}

func checkTimerOutlivesBroker(e *Env) {
	w := e.World()
	h, far := w.Dialog(), w.Dialog()
	const d = 400 * time.Millisecond
	other := e.Broker(nil)
	before := time.Now()
	e.Must(other.InTx(e.Ctx, func(tx *parley.Tx) error {
		return errors.Join(tx.Conversation(far).SetTimer(e.Ctx, time.Hour), tx.Conversation(h).SetTimer(e.Ctx, d))
	}))
	e.Must(other.Close())
	tmrFires(w, w.CQ, h, before, d)
	tmrNothingElse(w)
}

// tmrChild begins a conversation, sets its timer, says since when, and waits to
// be killed.
func tmrChild(ctx context.Context, b *parley.Broker, args []string, say func(string, ...any), hear *bufio.Scanner) error {
	from, to, contract := args[0], args[1], args[2]
	d, err := time.ParseDuration(args[3])
	if err != nil {
		return err
	}
	before := time.Now()
	var h parley.ID
	err = b.InTx(ctx, func(tx *parley.Tx) error {
		c, err := tx.Begin(ctx, from, to, &parley.DialogOptions{Contract: contract})
		if err != nil {
			return err
		}
		h = c.Handle()
		return c.SetTimer(ctx, d)
	})
	if err != nil {
		return err
	}
	say("%s %d", h, before.UnixNano())
	hear.Scan()
	return nil
}

func checkTimerOutlivesProcess(e *Env) {
	w := e.World()
	const d = 800 * time.Millisecond
	child := e.Child("timer", w.Client, w.Server, w.Contract, d.String())
	handle, nanos, _ := strings.Cut(child.Hear(), " ")
	child.Kill()
	h, err := parley.ParseID(handle)
	e.Must(err)
	n, err := strconv.ParseInt(nanos, 10, 64)
	e.Must(err)
	tmrFires(w, w.CQ, h, time.Unix(0, n), d)
	tmrNothingElse(w)
}

func checkLifetime(e *Env) {
	w := e.World()
	const life = 1500 * time.Millisecond
	before := time.Now()
	client, server := tmrPair(w, &parley.DialogOptions{Lifetime: life})
	w.Send(client, w.Ask, "one")
	w.Send(client, w.Ask, "two")
	w.Send(server, w.Tell, "answer")

	tmrExpires(w, w.CQ, client, before, life, "answer")
	tmrExpires(w, w.SQ, server, before, life, "one", "two")
	for _, h := range []parley.ID{client, server} {
		err := w.B.InTx(e.Ctx, func(tx *parley.Tx) error { return tx.Conversation(h).Send(e.Ctx, w.Any, []byte("late")) })
		e.Is(err, parley.ErrConversationError)
		var de *parley.DialogError
		if !errors.As(err, &de) || de.Code != parley.CodeLifetime {
			e.Errorf("sending after the lifetime failed with %v, want one that holds the code %d", err, parley.CodeLifetime)
		}
		w.Tx(func(tx *parley.Tx) error {
			ep, err := tx.Conversation(h).Status(e.Ctx)
			if err == nil && ep.State != parley.Errored {
				e.Errorf("after the lifetime the state is %s, want %s", ep.State, parley.Errored)
			}
			return err
		})
	}
	for _, h := range []parley.ID{client, server} {
		w.Tx(func(tx *parley.Tx) error { return tx.Conversation(h).End(e.Ctx) })
	}
	for _, queue := range []string{w.CQ, w.SQ} {
		for _, m := range w.Drain(queue) {
			if m.Type != parley.EndDialog { // whether an errored side is told of an end is E's matter
				e.Errorf("received %s after both sides had ended", tmrDescribe([]*parley.Message{m}))
			}
		}
	}
}

// tmrExpires receives a side's error, not before its time, and then what was
// queued.
func tmrExpires(w *World, queue string, h parley.ID, before time.Time, life time.Duration, queued ...string) {
	var sides []*parley.Message
	var passed time.Duration
	deadline := time.Now().Add(10 * time.Second)
	for len(sides) <= len(queued) {
		// What is queued may be received before the error is there: giving it
		// back shows that the error comes and that nothing is lost.
		d := w.TryReceive(queue, &parley.ReceiveOptions{Conversation: h}, time.Until(deadline))
		if d == nil {
			w.Fatalf("received %s from %s within 10 s, want an error and then %q", tmrDescribe(sides), queue, queued)
		}
		if len(sides) == 0 && d.Messages[0].Type != parley.ErrorType {
			w.Must(d.Rollback(w.Ctx))
			if time.Now().After(deadline) {
				w.Fatalf("no error came to %s within 10 s of a lifetime of %v", queue, life)
			}
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if len(sides) == 0 {
			passed = time.Since(before)
		}
		sides = append(sides, d.Messages...)
		w.Must(d.Ack(w.Ctx))
	}
	m := sides[0]
	if err := m.Err(); err == nil || err.Code != parley.CodeLifetime {
		w.Fatalf("received %s first, want an error with code %d", tmrDescribe(sides), parley.CodeLifetime)
	}
	if m.Conversation != h {
		w.Errorf("the error is for %s, want %s", m.Conversation, h)
	}
	if passed < life-tmrEarly {
		w.Errorf("the error came after %v of a lifetime of %v", passed, life)
	}
	if got := Bodies(sides[1:]); !slices.Equal(got, queued) {
		w.Errorf("after the error %q was received from %s, want what was queued, %q", got, queue, queued)
	}
}

func checkLifetimeAlone(e *Env) {
	w := e.World()
	const life = 600 * time.Millisecond
	before := time.Now()
	over, otherSide := tmrPair(w, &parley.DialogOptions{Lifetime: life})
	w.Tx(func(tx *parley.Tx) error { return tx.Conversation(over).End(e.Ctx) })
	w.Tx(func(tx *parley.Tx) error { return tx.Conversation(otherSide).End(e.Ctx) })
	h := w.DialogWith(&parley.DialogOptions{Lifetime: life})
	tmrExpires(w, w.CQ, h, before, life)
	w.Tx(func(tx *parley.Tx) error { return tx.Conversation(h).End(e.Ctx) })
	tmrNothingElse(w)
	w.Nothing(w.SQ, nil)
}

func checkTimerBeyondLifetime(e *Env) {
	w := e.World()
	client, server := tmrPair(w, &parley.DialogOptions{Lifetime: time.Hour})
	const d = 200 * time.Millisecond
	set := tmrSet(w, client, d)
	for _, h := range []parley.ID{client, server} {
		w.Tx(func(tx *parley.Tx) error {
			c := tx.Conversation(h)
			e.Is(c.SetTimer(e.Ctx, 2*time.Hour), parley.ErrBeyondLifetime)
			return c.Send(e.Ctx, w.Any, []byte("still usable"))
		})
	}
	if left := tmrShown(w, client); left > d+tmrEarly {
		e.Errorf("after a refused setting the timer of %v is said to fire in %v", d, left)
	}
	got := w.Receive(w.CQ, nil)
	for len(got.Messages) == 1 && got.Messages[0].Type == w.Any { // it may come before the timer
		e.Must(got.Ack(e.Ctx))
		got = w.Receive(w.CQ, nil)
	}
	if got.Messages[0].Type != parley.DialogTimer || time.Since(set) < d-tmrEarly {
		e.Errorf("received %s %v after the setting, want the earlier timer of %v", tmrDescribe(got.Messages), time.Since(set), d)
	}
	e.Must(got.Ack(e.Ctx))

	unlimited := w.Dialog()
	tmrSet(w, unlimited, 1000*time.Hour)
	tmrSet(w, server, 30*time.Minute) // within
}
