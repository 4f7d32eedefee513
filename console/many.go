package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// sliceTime is how long a verb works on what a filter leaves before the page says how far it has come, and offers to go
// on. The preview counts for a fifth of it.
const sliceTime = 5 * time.Second

// retryAll retries the blocked groups that a filter leaves.
func (h *Handler) retryAll(ctx context.Context, q url.Values) (said, next string, err error) {
	n := 0
	next, err = h.blockedLeft(ctx, q, h.slice, func(g parley.GroupStatus) error {
		err := h.b.Admin().Unpark(ctx, g.Group)
		if err == nil {
			n++
		} else if errors.Is(err, parley.ErrUnknownGroup) || errors.Is(err, parley.ErrGroupBusy) { // another person was faster
			err = nil
		}
		return err
	})
	if err != nil {
		return "", "", fmt.Errorf("%w (after %s)", err, plural(n, "group"))
	}
	return fmt.Sprintf("%s %s ready again.", plural(n, "group"), are(n)), next, nil
}

// requeueAll requeues the dead letters that a filter leaves.
func (h *Handler) requeueAll(ctx context.Context, q url.Values) (said, next string, err error) {
	n := 0
	next, err = h.deadLeft(ctx, q, true, h.slice, func(x parley.DeadStatus) error {
		_, err := h.b.Admin().RequeueDead(ctx, x)
		if err == nil {
			n++
		} else if errors.Is(err, parley.ErrNotPending) { // another person was faster
			err = nil
		}
		return err
	})
	if err != nil {
		return "", "", fmt.Errorf("%w (after %s)", err, plural(n, "dead letter"))
	}
	return fmt.Sprintf("%s %s again.", plural(n, "message"), waitOrWaits(n)), next, nil
}

func waitOrWaits(n int) string {
	if n == 1 {
		return "waits"
	}
	return "wait"
}

// left counts what a filter leaves for a verb.
func (h *Handler) left(ctx context.Context, q url.Values) (fact, error) {
	n, next, err := 0, "", error(nil)
	f := fact{"Groups", "group"}
	switch {
	case q.Get("do") == "requeue-all":
		f = fact{"Dead letters", "post"}
		next, err = h.deadLeft(ctx, q, false, h.slice/5, func(parley.DeadStatus) error { n++; return nil })
	case q.Get("reason") == "" && q.Get("after") == "":
		n, more, err := h.blockedCount(ctx, q)
		if f.Value = plural(n, f.Value); more {
			f.Value = "at least " + f.Value
		}
		return f, err
	default:
		next, err = h.blockedLeft(ctx, q, h.slice/5, func(parley.GroupStatus) error { n++; return nil })
	}
	if f.Value = plural(n, f.Value); next != "" {
		f.Value = "at least " + f.Value + "; the time was over before all were counted"
	}
	return f, err
}

// blockedCount adds up the blocked groups of the queues and states that a filter names. There are more if the count of one
// has ended at its bound.
func (h *Handler) blockedCount(ctx context.Context, q url.Values) (n int, more bool, err error) {
	queues, err := h.blockedIn(ctx, q)
	for _, row := range queues {
		for state, count := range map[string]int{"parked": row.Parked, "deferred": row.Deferred} {
			if leaves(q.Get("queue"), row.Name) && leaves(q.Get("state"), state) {
				n, more = n+count, more || count == backend.CountLimit
			}
		}
	}
	return n, more, err
}

// blockedIn checks a filter, and returns all queues.
func (h *Handler) blockedIn(ctx context.Context, q url.Values) ([]queueRow, error) {
	if state := q.Get("state"); state != "" && !slices.Contains(blockedStates, state) {
		return nil, badInput("state %q: want parked or deferred", state)
	}
	if queue := q.Get("queue"); queue != "" {
		if _, err := h.queueRow(ctx, queue); err != nil {
			return nil, err
		}
	}
	return h.queues(ctx)
}

// blockedLeft calls f for the blocked groups that a filter leaves. When the time is over, next says where to go on. It
// looks at one group at least, so that repeated calls reach the end.
func (h *Handler) blockedLeft(ctx context.Context, q url.Values, limit time.Duration, f func(parley.GroupStatus) error) (next string, err error) {
	var failed error
	end, last := time.Now().Add(limit), ""
	err = h.eachBlocked(ctx, q, true, func(g parley.GroupStatus) bool {
		if last != "" && time.Now().After(end) {
			next = last
			return false
		}
		if last = afterBlocked(g); contains(g.Reason, q.Get("reason")) {
			failed = f(g)
		}
		return failed == nil
	})
	return next, cmp.Or(failed, err)
}

// deadLeft does for dead letters of posts what blockedLeft does for groups.
func (h *Handler) deadLeft(ctx context.Context, q url.Values, bodies bool, limit time.Duration, f func(parley.DeadStatus) error) (next string, err error) {
	after, err := placeOf(q.Get("after"))
	if err != nil {
		return "", err
	}
	var failed error
	var last parley.Place
	end := time.Now().Add(limit)
	_, _, err = h.eachDead(ctx, q.Get("queue"), bodies, after, math.MaxInt, func(x parley.DeadStatus) bool {
		if last != (parley.Place{}) && time.Now().After(end) {
			next = textOf(last)
			return false
		}
		if last = x.Place; fits(x, q.Get("type"), q.Get("reason")) && x.Message.Conversation.IsZero() {
			failed = f(x)
		}
		return failed == nil
	})
	return next, cmp.Or(failed, err)
}

// afterBlocked says in a link where a list of blocked groups goes on behind one of them.
func afterBlocked(g parley.GroupStatus) string {
	return g.State + ":" + textOf(g.Place) + ":" + g.Queue
}

// blockedStates are the states of blocked groups, in the order in which each queue's are read.
var blockedStates = []string{"parked", "deferred"}

// eachBlocked calls f for the blocked groups of the queues and states that a filter names, behind a place, until f
// returns false. If brief is set, it leaves out what Admin.Blocked does.
func (h *Handler) eachBlocked(ctx context.Context, q url.Values, brief bool, f func(parley.GroupStatus) bool) error {
	atState, rest, _ := strings.Cut(q.Get("after"), ":")
	place, atQueue, _ := strings.Cut(rest, ":")
	after, err := placeOf(place)
	if err != nil || q.Get("after") != "" && atQueue == "" {
		return badInput("after: %q is no place in a list", q.Get("after"))
	}
	queues, err := h.blockedIn(ctx, q)
	if err != nil {
		return err
	}
	began := atQueue == ""
	for _, row := range queues {
		for _, state := range blockedStates {
			if !began && (row.Name != atQueue || state != atState) {
				continue
			}
			if began {
				after = parley.Place{}
			}
			began = true
			if row.Parked+row.Deferred == 0 || !leaves(q.Get("queue"), row.Name) || !leaves(q.Get("state"), state) {
				continue
			}
			if on, err := h.blockedOf(ctx, row.Name, state, after, brief, f); err != nil || !on {
				return err
			}
		}
	}
	return nil
}

// leaves reports whether a filter, if it is set, leaves a name.
func leaves(filter, name string) bool { return filter == "" || filter == name }

// blockedOf calls f for the groups of a queue in a state, and reports whether f always returned true.
func (h *Handler) blockedOf(ctx context.Context, queue, state string, after parley.Place, brief bool, f func(parley.GroupStatus) bool) (on bool, err error) {
	read := h.inState(state)
	if brief {
		read = func(ctx context.Context, queue string, after parley.Place, limit int) ([]parley.GroupStatus, error) {
			return h.b.Admin().Blocked(ctx, queue, state, after, limit)
		}
	}
	page := blockedShown + 1 // what a page without a text needs; others read on in larger steps
	for more := true; more; page = 1000 {
		var list []parley.GroupStatus
		if list, more, err = pageAfter(ctx, read, queue, after, page); err != nil {
			return false, err
		}
		for _, g := range list {
			if after = g.Place; !f(g) {
				return false, nil
			}
		}
	}
	return true, nil
}
