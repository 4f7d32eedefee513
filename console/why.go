package console

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/applock"
	"github.com/parleymq/parley/doctor"
	"github.com/parleymq/parley/phases"
	"github.com/parleymq/parley/recurring"
)

// finding is one of doctor's, with a link to what it is about.
type finding struct {
	doctor.Finding
	Link string
}

// whyData is what doctor says.
type whyData struct {
	What     string
	Findings []finding
	Bad      int
	Stopped  string // why the rest could not be looked at
}

func (d *whyData) pageTitle() string {
	if d.What == "" {
		return "Doctor"
	}
	return "Why is it stuck?"
}

func (h *Handler) readDoctor(ctx context.Context, _ url.Values) (any, error) {
	return h.diagnose(ctx, "")
}

func (h *Handler) readWhy(ctx context.Context, q url.Values) (any, error) {
	what := strings.TrimSpace(q.Get("what"))
	if what == "" {
		return &whyData{}, nil
	}
	return h.diagnose(ctx, what)
}

func (h *Handler) diagnose(ctx context.Context, what string) (*whyData, error) {
	list, err := doctor.Diagnose(ctx, h.b, what)
	if err != nil && len(list) == 0 {
		return nil, err
	}
	d := &whyData{What: what}
	if err != nil {
		d.Stopped = explained(err).Text
	}
	for _, f := range list {
		d.Findings = append(d.Findings, finding{f, objectLink(f.Object)})
		if f.Bad {
			d.Bad++
		}
	}
	slices.SortStableFunc(d.Findings, func(a, b finding) int { return number01(b.Bad) - number01(a.Bad) })
	return d, nil
}

func number01(b bool) int {
	if b {
		return 1
	}
	return 0
}

const uuid = `([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})`

var (
	objectQueue = regexp.MustCompile(`^queue (".*")$`)
	objectGroup = regexp.MustCompile(`^group ` + uuid + ` of queue (".*")$`)
	objectConv  = regexp.MustCompile(`^conversation ` + uuid + `$`)
	objectDead  = regexp.MustCompile(`^message ` + uuid + `$`)
	objectPlan  = regexp.MustCompile(`^plan (".*")$`)
)

// objectLink is the page of what a finding is about.
func objectLink(object string) string {
	quoted := func(view string, m []string) string {
		name, err := strconv.Unquote(m[len(m)-1])
		if err != nil {
			return ""
		}
		if len(m) == 3 {
			return link(view, "queue", name, "id", m[1])
		}
		return link(view, "name", name)
	}
	if m := objectQueue.FindStringSubmatch(object); m != nil {
		return quoted("queue", m)
	}
	if m := objectGroup.FindStringSubmatch(object); m != nil {
		return quoted("group", m)
	}
	if m := objectPlan.FindStringSubmatch(object); m != nil {
		return quoted("plan", m)
	}
	if m := objectConv.FindStringSubmatch(object); m != nil {
		return link("conversation", "id", m[1])
	}
	if m := objectDead.FindStringSubmatch(object); m != nil {
		return link("search", "q", m[1])
	}
	return ""
}

// link is the link of a view with parameters.
func link(view string, params ...string) string {
	q := make(url.Values)
	for i := 0; i+1 < len(params); i += 2 {
		q.Set(params[i], params[i+1])
	}
	return view + "?" + q.Encode()
}

// hit is something that a search has found.
type hit struct{ Kind, Name, Note, Link string }

// searchData are the hits of a search.
type searchData struct {
	Query   string
	Hits    []hit
	Looked  int    // at how many groups
	Next    string // the link that continues with the remaining groups
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
	if queue := q.Get("queue"); queue != "" {
		err = h.searchKeys(ctx, part, d, queue, after)
	} else if id, wrong := parley.ParseID(d.Query); wrong == nil {
		err = h.searchID(part, id, d)
	} else {
		err = h.searchText(ctx, part, d)
	}
	if part.Err() != nil && ctx.Err() == nil && d.Next == "" {
		d.Partial, err = true, nil
	}
	return d, err
}

func (d *searchData) add(kind, name, note, link string) {
	d.Hits = append(d.Hits, hit{kind, name, note, link})
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
	}
	var before parley.Place // of the newer one
	_, _, err = h.eachDead(ctx, "", false, parley.Place{}, func(x parley.DeadStatus) bool {
		if x.Message.ID == id || x.Message.Group == id || x.Message.Conversation == id {
			after := ""
			if before != (parley.Place{}) {
				after = textOf(before)
			}
			d.add("dead letter", x.Message.ID.String(), x.Reason, "dead"+query(url.Values{"after": {after}}, []string{"after"}))
		}
		before = x.Place
		return true
	})
	return err
}

// searchText looks for names, keys and types that contain a text.
func (h *Handler) searchText(ctx, part context.Context, d *searchData) error {
	catalog, err := h.b.Catalog(part)
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
		if err := look(part, d); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	return h.searchKeys(ctx, part, d, "", parley.Place{})
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

// searchKeys reads the groups of all queues. If from names a queue, it begins behind a Place in that queue. It stops
// when the time of part is over, or when it has found enough. Then it says where to continue. Each search reads at
// least one page, so that repeated searches reach the end.
func (h *Handler) searchKeys(ctx, part context.Context, d *searchData, from string, after parley.Place) error {
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
			if (part.Err() != nil || len(d.Hits) >= hitsShown) && d.Looked > 0 {
				d.Next = link("search", "q", d.Query, "queue", q.Name, "after", textOf(after))
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
			d.Looked += len(list)
			for _, g := range list {
				if after = g.Place; g.Key != "" && contains(g.Key, d.Query) {
					d.add("key", g.Key, fmt.Sprintf("%s, %s in queue %s", g.State, plural(g.Messages, "message"), q.Name),
						link("group", "queue", q.Name, "id", g.Group.String()))
				}
			}
		}
		after = parley.Place{}
	}
	return nil
}
