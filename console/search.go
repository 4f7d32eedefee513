package console

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/applock"
	"github.com/parleymq/parley/phases"
	"github.com/parleymq/parley/recurring"
)

// hit is something that a search has found.
type hit struct{ Kind, Name, Note, Link string }

// searchData are the hits of a search.
type searchData struct {
	Query   string
	id      parley.ID // that the query is; zero: none
	Hits    []hit
	Looked  int    // at how many groups, dead letters and messages
	Next    string // the link that continues with the remaining ones
	Partial bool   // the time was over before the rest was looked at
}

// hitsShown is how many hits a search shows, and searchTime how long it looks before it shows them.
const (
	hitsShown  = 50
	searchTime = time.Second
)

func (h *Handler) readSearch(ctx context.Context, q url.Values) (any, error) {
	d := &searchData{Query: strings.TrimSpace(q.Get("q"))}
	if d.Query == "" {
		return d, nil
	}
	part, cancel := context.WithTimeout(ctx, min(searchTime, h.opt.Limit*2/3))
	defer cancel()
	after, err := placeOf(q.Get("after"))
	if err != nil {
		return nil, err
	}
	d.id, _ = parley.ParseID(d.Query)
	switch q.Get("of") {
	case "groups":
		err = h.searchGroups(ctx, part, d, q.Get("queue"), after)
	case "dead":
		err = h.searchDead(ctx, part, d, after)
	case "waiting":
		err = h.searchWaiting(ctx, part, d, after)
	default:
		err = h.searchNames(part, d)
		if err == nil && (d.id.IsZero() || len(d.Hits) == 1) { // of an id, there is always the diagnosis
			err = h.searchGroups(ctx, part, d, "", parley.Place{})
		} else if err == nil || part.Err() != nil {
			d.Next = link("search", "q", d.Query, "of", "groups")
		}
	}
	if part.Err() != nil && ctx.Err() == nil && (d.Next == "" || err != nil) {
		d.Partial, err = true, nil
	}
	return d, err
}

// searchNames looks for what has the id or a name with the text.
func (h *Handler) searchNames(ctx context.Context, d *searchData) error {
	if d.id.IsZero() {
		return h.searchText(ctx, d)
	}
	return h.searchID(ctx, d.id, d)
}

func (d *searchData) add(kind, name, note, link string) {
	if found := (hit{kind, name, note, link}); !slices.Contains(d.Hits, found) {
		d.Hits = append(d.Hits, found)
	}
}

// searchID looks for what has an id.
func (h *Handler) searchID(ctx context.Context, id parley.ID, d *searchData) error {
	d.add("diagnosis", "Why is it stuck?", "asks doctor for "+d.Query, link("why", "what", d.Query))
	queues, err := h.queues(ctx)
	if err != nil {
		return err
	}
	for _, query := range []parley.ConversationQuery{{Handle: id, Limit: 1}, {Group: id, Limit: hitsShown}} {
		list, err := h.b.Admin().Conversations(ctx, query)
		if err != nil {
			return err
		}
		for _, s := range sidesOf(list) {
			d.add("conversation", s.Handle.String(), fmt.Sprintf("%s with %s, %s", s.Service, s.FarService, s.StateName()), link("conversation", "id", s.Handle.String()))
			if s.Group == id {
				d.add("group", id.String(), "of queue "+s.Queue, link("group", "queue", s.Queue, "id", id.String()))
			}
		}
	}
	for _, q := range queues {
		p, err := h.b.PostStatus(ctx, q.Name, id)
		switch {
		case err == nil:
			d.add("post", id.String(), fmt.Sprintf("%s, type %s, in queue %s", p.State, p.Type, q.Name), link("why", "what", d.Query))
		case !errors.Is(err, parley.ErrNotPending):
			return err
		}
		_, err = h.b.Admin().Group(ctx, q.Name, id)
		switch {
		case err == nil:
			d.add("group", id.String(), "of queue "+q.Name, link("group", "queue", q.Name, "id", id.String()))
		case !errors.Is(err, parley.ErrUnknownGroup):
			return err
		}
	}
	_, _, err = h.eachDead(ctx, "", false, parley.Place{}, deadLooked, d.deadLetters(parley.Place{}))
	return err
}

// searchText looks for names that contain a text.
func (h *Handler) searchText(ctx context.Context, d *searchData) error {
	catalog, err := h.b.Catalog(ctx)
	if err != nil {
		return err
	}
	for _, q := range catalog.Queues {
		if contains(q.Name, d.Query) {
			d.add("queue", q.Name, "", link("queue", "name", q.Name))
		}
	}
	for _, s := range catalog.Services {
		if contains(s.Name, d.Query) {
			d.add("service", s.Name, "on queue "+s.Queue, link("queue", "name", s.Queue))
		}
	}
	for _, t := range catalog.Types {
		if contains(t.Name, d.Query) {
			d.add("message type", t.Name, "its dead letters", link("dead", "type", t.Name))
		}
	}
	for _, look := range []func(context.Context, *searchData) error{h.searchJobs, h.searchLocks, h.searchPlans} {
		if err := look(ctx, d); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	return nil
}

func (h *Handler) searchJobs(ctx context.Context, d *searchData) error {
	jobs, err := recurring.List(ctx, h.b)
	for _, j := range jobs {
		if contains(j.Name, d.Query) || contains(j.Type, d.Query) {
			d.add("recurring job", j.Name, "posts "+j.Type+" to "+j.Queue, "recurring")
		}
	}
	return err
}

func (h *Handler) searchLocks(ctx context.Context, d *searchData) error {
	list, err := applock.List(ctx, h.b, d.Query)
	for _, row := range lockRows(list)[:min(len(lockRows(list)), hitsShown)] {
		d.add("application lock", row.Name, plural(len(row.Holders), "holder"), link("locks", "prefix", row.Name))
	}
	return err
}

func (h *Handler) searchPlans(ctx context.Context, d *searchData) error {
	list, err := phases.List(ctx, h.b)
	for _, p := range list {
		if contains(p.Name, d.Query) {
			d.add("plan", p.Name, newPlanRow(p).State(), link("plan", "name", p.Name))
		}
	}
	return err
}

// searchGroups looks for a text in the keys, ids and errors of the groups of all queues, then among dead letters, and then
// among the messages that wait. If from names a queue, it begins behind a Place in that queue. It stops when the time of part is over, or when it has
// found enough. Then it says where to continue. Each search reads at least one page, so that repeated searches reach the
// end.
func (h *Handler) searchGroups(ctx, part context.Context, d *searchData, from string, after parley.Place) error {
	queues, err := h.queues(part)
	if err != nil {
		return err
	}
	const page = 500
	began := from == ""
	for _, q := range queues {
		if began = began || q.Name == from; !began {
			continue
		}
		for more := true; more; {
			if d.over(part) {
				d.Next = link("search", "q", d.Query, "of", "groups", "queue", q.Name, "after", textOf(after))
				return nil
			}
			reading := part
			if d.Looked == 0 {
				reading = ctx
			}
			var list []parley.GroupStatus
			list, more, err = h.groupsAfter(reading, q.Name, "", after, page)
			if err != nil && reading.Err() != nil && ctx.Err() == nil {
				more = true
				continue
			}
			if err != nil {
				return err
			}
			for _, g := range list {
				d.Looked++
				after = g.Place
				page := link("group", "queue", q.Name, "id", g.Group.String())
				switch {
				case d.finds(g.Key):
					d.add("key", g.Key, fmt.Sprintf("%s, %s in queue %s", g.State, plural(g.Messages, "message"), q.Name), page)
				case g.Group == d.id:
					d.add("group", g.Group.String(), "of queue "+q.Name, page)
				case d.finds(g.Reason):
					d.add(g.State+" group", nameOf(g), brief(g.Reason), page)
				}
			}
		}
		after = parley.Place{}
	}
	return h.searchDead(ctx, part, d, parley.Place{})
}

// over reports whether a search has found enough, or its time has ended. It has looked at something.
func (d *searchData) over(part context.Context) bool {
	return (part.Err() != nil || len(d.Hits) >= hitsShown) && d.Looked > 0
}

// finds reports whether one of the texts has the text that is searched for.
func (d *searchData) finds(texts ...string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return contains(text, d.Query) })
}

// searchDead looks for a text in the types, keys, ids, headers and errors of dead letters behind a place, and then among
// the messages that wait.
func (h *Handler) searchDead(ctx, part context.Context, d *searchData, after parley.Place) error {
	reading := part
	if d.Looked == 0 {
		reading = ctx
	}
	look := d.deadLetters(after)
	on := func() { d.Next = link("search", "q", d.Query, "of", "dead", "after", textOf(after)) }
	_, _, err := h.eachDead(reading, "", false, after, math.MaxInt, func(x parley.DeadStatus) bool {
		if d.over(part) {
			on()
			return false
		}
		d.Looked++
		after = x.Place
		return look(x)
	})
	if err != nil && reading.Err() != nil && ctx.Err() == nil {
		on()
		return nil
	}
	if err != nil && !errors.Is(err, errors.ErrUnsupported) || d.Next != "" {
		return err
	}
	return h.searchWaiting(ctx, part, d, parley.Place{})
}

// deadLetters returns a function that takes dead letters behind a place, in their order, and keeps those with the text.
func (d *searchData) deadLetters(after parley.Place) func(parley.DeadStatus) bool {
	return func(x parley.DeadStatus) bool {
		m := x.Message
		texts := []string{m.Type, m.Key, x.Reason, m.LastError}
		for name, value := range m.Headers {
			texts = append(texts, name+": "+value)
		}
		if d.finds(texts...) || !d.id.IsZero() && slices.Contains([]parley.ID{m.ID, m.Group, m.Conversation}, d.id) {
			d.add("dead letter", m.ID.String(), x.Reason, link("dead", "after", textOf(after)))
		}
		after = x.Place
		return true
	}
}

// searchWaiting looks for a text in the types, ids and headers of the messages that wait behind a place.
func (h *Handler) searchWaiting(ctx, part context.Context, d *searchData, after parley.Place) error {
	const page = 1000
	for more := true; more; {
		reading := part
		if d.Looked == 0 {
			reading = ctx
		}
		list, err := h.b.Admin().Waiting(reading, after, page)
		switch late := reading.Err() != nil && ctx.Err() == nil; {
		case errors.Is(err, errors.ErrUnsupported):
			return nil
		case err != nil && !late:
			return err
		}
		more = len(list) > 0 || err != nil
		for _, m := range list {
			if d.over(part) {
				break
			}
			d.Looked++
			after = m.Place
			d.waiting(m)
		}
		if more && d.over(part) {
			d.Next = link("search", "q", d.Query, "of", "waiting", "after", textOf(after))
			return nil
		}
	}
	return nil
}

// waiting keeps a message that waits if it has the text.
func (d *searchData) waiting(m parley.WaitingMessage) {
	note, found := "type "+m.Type, m.ID == d.id || d.finds(m.Type)
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		if header := name + ": " + m.Headers[name]; d.finds(header) {
			note, found = brief(header)+", "+note, true
		}
	}
	if !found {
		return
	}
	if m.Queue != "" {
		note += ", queue " + m.Queue
	}
	to := link("why", "what", m.ID.String())
	switch {
	case !m.Group.IsZero():
		to = link("group", "queue", m.Queue, "id", m.Group.String())
	case !m.Handle.IsZero():
		to = link("conversation", "id", m.Handle.String())
	}
	d.add(m.State+" message", m.ID.String(), note, to)
}
