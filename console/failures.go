package console

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley"
)

// parkedData are the groups that a filter leaves.
type parkedData struct {
	Queue, Reason, State string
	Queues               []string
	Groups               []parley.GroupStatus
	Parked, Deferred     int    // in all queues that were asked for
	Next                 string // where the next page begins; empty: there is none
}

// blockedShown is how many blocked groups a page has, and blockedFound how many if it looks for a text: it looks up
// each of these.
const (
	blockedShown = 100
	blockedFound = 50
)

// readParked reads a page of blocked groups. With a text it looks at the next groups as long as a search does.
func (h *Handler) readParked(ctx context.Context, q url.Values) (any, error) {
	d := &parkedData{Queue: q.Get("queue"), Reason: q.Get("reason"), State: q.Get("state")}
	queues, err := h.queues(ctx)
	if err != nil {
		return nil, err
	}
	for _, row := range queues {
		d.Queues = append(d.Queues, row.Name)
		if leaves(d.Queue, row.Name) {
			d.Parked, d.Deferred = d.Parked+row.Parked, d.Deferred+row.Deferred
		}
	}
	looked, last, end := 0, "", time.Now().Add(searchTime)
	most, brief := blockedShown, d.Reason != "" // most groups do not fit, perhaps
	if brief {
		most = blockedFound
	}
	err = h.eachBlocked(ctx, q, brief, func(g parley.GroupStatus) bool {
		fits := contains(g.Reason, d.Reason)
		if looked == farthest || fits && len(d.Groups) == most || looked > blockedShown && time.Now().After(end) {
			d.Next = last
			return false
		}
		looked, last = looked+1, afterBlocked(g)
		if fits {
			d.Groups = append(d.Groups, g)
		}
		return true
	})
	if err == nil && brief {
		d.Groups, err = h.detailed(ctx, d.Groups)
	}
	slices.SortStableFunc(d.Groups, func(a, b parley.GroupStatus) int { return strings.Compare(b.State, a.State) }) // parked ones first
	return d, err
}

// detailed adds what a brief list leaves out. A group that has gone meanwhile is left out.
func (h *Handler) detailed(ctx context.Context, brief []parley.GroupStatus) (list []parley.GroupStatus, err error) {
	for _, b := range brief {
		g, err := h.b.Admin().Group(ctx, b.Queue, b.Group)
		if errors.Is(err, parley.ErrUnknownGroup) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, *g)
	}
	return list, nil
}

// contains reports whether a text has a part, however that is written.
func contains(text, part string) bool {
	return part == "" || strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// deadLetter is a dead letter as pages show it.
type deadLetter struct {
	ID           parley.ID
	Queue        string
	Type         string
	Key          string
	Conversation parley.ID // the handle; zero for a post
	Bytes        int
	Body         string
	Headers      map[string]string
	Attempts     int
	Error        string
	Errors       []parley.FailedAttempt
	Reason       string
	Age          time.Duration
}

// deadData are the dead letters that a filter leaves.
type deadData struct {
	Queue, Type, Reason string
	Queues              []string
	Letters             []deadLetter
	Looked              int // the newest ones that there are
	More                bool
	Next                string
	Bodies              bool
}

// fits reports whether a filter leaves a dead letter.
func fits(d parley.DeadStatus, typ, reason string) bool {
	return (typ == "" || d.Message.Type == typ) && contains(d.Reason+" "+d.Message.LastError, reason)
}

// deadLooked is among how many of the newest dead letters a page looks, and deadPage how many it shows.
const (
	deadLooked = 1000
	deadPage   = 50
)

func (h *Handler) readDead(ctx context.Context, q url.Values) (any, error) {
	d := &deadData{Queue: q.Get("queue"), Type: q.Get("type"), Reason: q.Get("reason"), Bodies: h.opt.Redact != nil}
	queues, err := h.queues(ctx)
	if err != nil {
		return nil, err
	}
	for _, row := range queues {
		d.Queues = append(d.Queues, row.Name)
	}
	after, err := placeOf(q.Get("after"))
	if err != nil {
		return nil, err
	}
	var last parley.Place
	d.Looked, d.More, err = h.eachDead(ctx, d.Queue, d.Bodies, after, deadLooked, func(x parley.DeadStatus) bool {
		m := x.Message
		if !fits(x, d.Type, d.Reason) {
			return true
		}
		if len(d.Letters) == deadPage {
			d.Next = textOf(last)
			return false
		}
		last = x.Place
		d.Letters = append(d.Letters, deadLetter{ID: m.ID, Queue: x.Queue, Type: m.Type, Key: m.Key, Conversation: m.Conversation,
			Bytes: x.Bytes, Body: h.redacted(x.Queue, m.Type, m.Body), Headers: m.Headers,
			Attempts: x.Attempts, Error: m.LastError, Errors: m.Errors, Reason: x.Reason, Age: x.Age})
		return true
	})
	if errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return d, err
}

// eachDead calls f for dead letters behind a place, newest first, until f returns false or it has read the most that
// it may. The result more reports whether others follow. Bodies can be large, so it reads a few at a time.
func (h *Handler) eachDead(ctx context.Context, queue string, bodies bool, after parley.Place, most int, f func(parley.DeadStatus) bool) (looked int, more bool, err error) {
	page, list := deadLooked, h.b.Admin().DeadSummaries
	if bodies {
		page, list = deadPage+1, h.b.Admin().DeadLetters
	}
	for looked < most {
		list, err := list(ctx, queue, after, page)
		if err != nil {
			return looked, false, err
		}
		for _, x := range list {
			looked++
			if after = x.Place; !f(x) {
				return looked, false, nil
			}
		}
		if len(list) < page {
			return looked, false, nil
		}
	}
	return looked, true, nil
}
