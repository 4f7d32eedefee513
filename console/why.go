package console

import (
	"context"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/parleymq/parley/doctor"
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
