package console

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/phases"
	"github.com/parleymq/parley/recurring"
)

// verb is something that people can do to one thing, after a page that says what will happen.
type verb struct {
	action Action
	params []string // of the form; the first one is the target that Authorize is asked about
	title  string   // %s is the target
	text   string   // what it means
	button string
	lost   bool // nothing brings back what it removes
	do     func(h *Handler, ctx context.Context, q url.Values) (said string, err error)
	// slice, instead of do, does it to what a filter leaves, as far as it comes in its time; next is where to go on. The
	// target can be empty, which is all queues.
	slice func(h *Handler, ctx context.Context, q url.Values) (said, next string, err error)
}

// verbs are found by the name that forms have for them.
var verbs map[string]verb

func init() {
	verbs = map[string]verb{
		"promote": {action: Promote, params: []string{"id", "queue", "at", "level", "sticky"}, title: "Promote group %s",
			text:   "The group comes before all that are not promoted, and before those with a lower level. Its messages keep their order.",
			button: "Promote", do: (*Handler).promote},
		"move": {action: Promote, params: []string{"id", "queue", "at", "before"}, title: "Move group %s",
			text:   "The group is promoted to the place before another one, until its messages have been received. Groups ahead of it that are not promoted are promoted too, in their order, with the lowest level.",
			button: "Move", do: (*Handler).move},
		"demote": {action: Demote, params: []string{"id", "queue", "at"}, title: "Demote group %s",
			text: "The promotion ends. The group goes back to the place that its priority and age give it.", button: "Demote",
			do: byID("demoted", func(h *Handler, ctx context.Context, _ string, id parley.ID) error { return h.b.Demote(ctx, id) })},
		"retry": {action: Retry, params: []string{"id", "queue", "at"}, title: "Retry group %s",
			text: "The group becomes ready again, and its first message is tried once more.", button: "Retry",
			do: byID("ready again", func(h *Handler, ctx context.Context, _ string, id parley.ID) error {
				return h.b.Admin().Unpark(ctx, id)
			})},
		"skip": {action: Skip, params: []string{"id", "queue", "at"}, title: "Skip the first message of group %s",
			text: "The first message becomes a dead letter, and the group goes on behind it.", button: "Skip", do: (*Handler).skip},
		"discard": {action: Discard, params: []string{"id", "queue", "at"}, title: "Discard the messages of group %s",
			text: "All messages that wait in the group are removed, up to 1,000. No copy is kept.", button: "Discard", lost: true, do: (*Handler).discard},
		"requeue": {action: Requeue, params: []string{"id", "queue"}, title: "Requeue dead letter %s",
			text: "The message is posted again, at the end of its queue or key, with a new id.", button: "Requeue", do: (*Handler).requeue},
		"bury": {action: Discard, params: []string{"id", "queue"}, title: "Discard dead letter %s",
			text: "The message is removed. No copy is kept.", button: "Discard", lost: true, do: (*Handler).bury},
		"cancel": {action: Cancel, params: []string{"id", "queue"}, title: "Cancel post %s",
			text:   "A post that waits is removed. If a receiver has it in hand, its handler is asked to stop, and the post is removed unless the handler succeeds.",
			button: "Cancel the post", lost: true, do: (*Handler).cancelPost},
		"enable": {action: Enable, params: []string{"queue"}, title: "Enable queue %s",
			text: "Messages are added and received again, those too that were withheld meanwhile.", button: "Enable",
			do: byName("queue", "enabled", func(h *Handler, ctx context.Context, name string) error { return h.b.Admin().EnableQueue(ctx, name) })},
		"disable": {action: Disable, params: []string{"queue"}, title: "Disable queue %s",
			text: "Nothing is added and nothing received until the queue is enabled. Messages that are sent meanwhile are withheld; posts fail.", button: "Disable",
			do: byName("queue", "disabled", func(h *Handler, ctx context.Context, name string) error { return h.b.Admin().DisableQueue(ctx, name) })},
		"run": {action: Run, params: []string{"job"}, title: "Run recurring job %s now",
			text: "A message of the job is posted at once. Its due times stay as they are.", button: "Run now",
			do: byName("job", "posted", func(h *Handler, ctx context.Context, name string) error {
				_, err := recurring.RunNow(ctx, h.b, name)
				return err
			})},
		"pause": {action: Disable, params: []string{"job"}, title: "Pause recurring job %s",
			text: "Its due times bring no messages until it is resumed.", button: "Pause",
			do: byName("job", "paused", func(h *Handler, ctx context.Context, name string) error { return recurring.Pause(ctx, h.b, name) })},
		"resume": {action: Enable, params: []string{"job"}, title: "Resume recurring job %s",
			text: "It goes on with its next due time. Those that have passed are not made up for.", button: "Resume",
			do: byName("job", "resumed", func(h *Handler, ctx context.Context, name string) error { return recurring.Resume(ctx, h.b, name) })},
		"retry-all": {action: Retry, params: []string{"queue", "state", "reason", "after"}, title: "Retry blocked groups",
			text:   "All groups that the filter leaves become ready again. If that takes longer than 5 s, the next page says how far it has come, and offers to go on.",
			button: "Retry them", slice: (*Handler).retryAll},
		"requeue-all": {action: Requeue, params: []string{"queue", "type", "reason", "after"}, title: "Requeue dead letters",
			text:   "All posts that the filter leaves are posted again, at the ends of their queues or keys. Dead letters of conversations stay. If that takes longer than 5 s, the next page says how far it has come, and offers to go on.",
			button: "Requeue them", slice: (*Handler).requeueAll},
		"retry-tasks": {action: Retry, params: []string{"plan", "task"}, title: "Retry dead tasks of plan %s",
			text: "They are queued again, with all their attempts.", button: "Retry", do: tasksOfPlan((*phases.Plan).Retry)},
		"skip-tasks": {action: Skip, params: []string{"plan", "task"}, title: "Skip dead tasks of plan %s",
			text: "Later phases go on without them.", button: "Skip", do: tasksOfPlan((*phases.Plan).Skip)},
		"cancel-tasks": {action: Cancel, params: []string{"plan", "task"}, title: "Cancel tasks of plan %s",
			text: "Tasks that wait are cancelled, and handlers of running ones are asked to stop.", button: "Cancel the tasks", lost: true,
			do: tasksOfPlan((*phases.Plan).Cancel)},
	}
}

func (h *Handler) cancelPost(ctx context.Context, q url.Values) (string, error) {
	id, err := parseID(q.Get("id"))
	if err != nil {
		return "", err
	}
	done, err := h.b.CancelPosts(ctx, q.Get("queue"), parley.PostFilter{IDs: []parley.ID{id}})
	if len(done.Requested) > 0 {
		return fmt.Sprintf("A stop of %s is requested, because a receiver has it in hand.", id), err
	}
	return fmt.Sprintf("%s is cancelled.", id), err
}

// byID makes what a verb does of a call for one id.
func byID(said string, do func(h *Handler, ctx context.Context, queue string, id parley.ID) error) func(*Handler, context.Context, url.Values) (string, error) {
	return func(h *Handler, ctx context.Context, q url.Values) (string, error) {
		id, err := parseID(q.Get("id"))
		if err == nil {
			err = do(h, ctx, q.Get("queue"), id)
		}
		return fmt.Sprintf("%s is %s.", q.Get("id"), said), err
	}
}

// byName makes what a verb does of a call for a queue or a job.
func byName(param, said string, do func(h *Handler, ctx context.Context, name string) error) func(*Handler, context.Context, url.Values) (string, error) {
	return func(h *Handler, ctx context.Context, q url.Values) (string, error) {
		return fmt.Sprintf("%s is %s.", q.Get(param), said), do(h, ctx, q.Get(param))
	}
}

// tasksOfPlan makes what a verb does of a method for tasks: of one, or of all that it fits.
func tasksOfPlan(do func(*phases.Plan, context.Context, ...parley.ID) (int, error)) func(*Handler, context.Context, url.Values) (string, error) {
	return func(h *Handler, ctx context.Context, q url.Values) (string, error) {
		var tasks []parley.ID
		if text := q.Get("task"); text != "" {
			id, err := parseID(text)
			if err != nil {
				return "", err
			}
			tasks = append(tasks, id)
		}
		p, err := phases.Find(ctx, h.b, q.Get("plan"))
		if err != nil {
			return "", err
		}
		n, err := do(p, ctx, tasks...)
		return fmt.Sprintf("%s of %s.", plural(n, "task"), q.Get("plan")), err
	}
}

// promote looks again before it promotes: what was dragged may have been received meanwhile.
func (h *Handler) promote(ctx context.Context, q url.Values) (string, error) {
	id, err := parseID(q.Get("id"))
	if err != nil {
		return "", err
	}
	level := parley.DefaultLevel
	if text := q.Get("level"); text != "" {
		if level, err = strconv.Atoi(text); err != nil {
			return "", badInput("level %q: want a number from 0 to %d", text, parley.MaxLevel)
		}
	}
	o := []parley.PromoteOption{parley.PromoteLevel(level)}
	if q.Get("sticky") != "" {
		o = append(o, parley.Sticky())
	}
	if err := h.b.Promote(ctx, id, o...); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s is promoted with level %d.", id, level) + h.placeNow(ctx, q), nil
}

func (h *Handler) skip(ctx context.Context, q url.Values) (string, error) {
	id, err := parseID(q.Get("id"))
	if err != nil {
		return "", err
	}
	skipped, err := h.b.Admin().SkipParked(ctx, q.Get("queue"), id, "skipped in the console")
	return fmt.Sprintf("Message %s is a dead letter now, and its group goes on.", skipped), err
}

func (h *Handler) discard(ctx context.Context, q url.Values) (string, error) {
	id, err := parseID(q.Get("id"))
	if err != nil {
		return "", err
	}
	n, err := h.b.Admin().DiscardParked(ctx, q.Get("queue"), id)
	return fmt.Sprintf("%s of %s %s discarded.", plural(n, "message"), id, are(n)), err
}

func (h *Handler) requeue(ctx context.Context, q url.Values) (string, error) {
	id, err := parseID(q.Get("id"))
	if err != nil {
		return "", err
	}
	var before parley.Place // of the newer letter
	found := func(d parley.DeadStatus) bool { return d.Message.ID == id }
	_, _, err = h.eachDead(ctx, q.Get("queue"), false, parley.Place{}, math.MaxInt, func(d parley.DeadStatus) bool {
		if found(d) {
			return false
		}
		before = d.Place
		return true
	})
	if err != nil {
		return "", err
	}
	list, err := h.b.Admin().DeadLetters(ctx, q.Get("queue"), before, deadPage) // others may have died meanwhile
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(list, found)
	if i < 0 {
		return "", errNotThere
	}
	posted, err := h.b.Admin().RequeueDead(ctx, list[i])
	return fmt.Sprintf("The message waits again, as %s.", posted), err
}

func (h *Handler) bury(ctx context.Context, q url.Values) (string, error) {
	id, err := parseID(q.Get("id"))
	if err != nil {
		return "", err
	}
	n, err := h.b.Admin().DiscardDead(ctx, id)
	if err == nil && n == 0 {
		err = errNotThere
	}
	return fmt.Sprintf("Dead letter %s is discarded.", id), err
}

// fact is a line of a preview.
type fact struct{ Name, Value string }

// actData is the page that asks before something is done.
type actData struct {
	Do, Title, Text, Button string
	Lost                    bool
	Facts                   []fact
	Fields                  []fact // of the form, as the link has them
	Level                   string // empty if the verb has none
	Choices                 []choice
	Back                    string
}

func (v verb) titleOf(target string) string {
	switch {
	case v.slice == nil:
		return fmt.Sprintf(v.title, target)
	case target == "":
		return v.title + " of all queues"
	}
	return v.title + " of queue " + target
}

// asked is the verb of a request, and its parameters without others.
func asked(q url.Values) (v verb, known url.Values, err error) {
	v, ok := verbs[q.Get("do")]
	if !ok {
		return v, nil, badInput("there is no verb %q", q.Get("do"))
	}
	known = url.Values{"do": {q.Get("do")}}
	for _, name := range v.params {
		if value := q.Get(name); value != "" {
			known.Set(name, value)
		}
	}
	if known.Get(v.params[0]) == "" && v.slice == nil {
		return v, nil, badInput("%s: which %s?", q.Get("do"), v.params[0])
	}
	return v, known, nil
}

// confirm asks before something is done, and shows what it will be done to.
func (h *Handler) confirm(w http.ResponseWriter, r *http.Request) {
	v, q, err := asked(r.URL.Query())
	if err != nil {
		if h.allowed(w, r, View, "") {
			h.problem(w, r, http.StatusBadRequest, err)
		}
		return
	}
	target := q.Get(v.params[0])
	if !h.allowed(w, r, v.action, target) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.opt.Limit)
	defer cancel()
	d := &actData{Do: q.Get("do"), Title: v.titleOf(target), Text: v.text, Button: v.button, Lost: v.lost, Back: back(cmp.Or(r.URL.Query().Get("back"), referer(r)))}
	for _, name := range v.params {
		if name == "level" {
			d.Level = q.Get("level")
			if d.Level == "" {
				d.Level = strconv.Itoa(parley.DefaultLevel)
			}
		} else if name != "sticky" && name != "before" && q.Get(name) != "" {
			d.Fields = append(d.Fields, fact{name, q.Get(name)})
		}
	}
	d.Facts, err = h.preview(ctx, q)
	if err == nil && slices.Contains(v.params, "before") {
		var more []fact
		d.Choices, more, err = h.choices(ctx, q)
		d.Facts = append(d.Facts, more...)
	}
	if err != nil {
		t := explained(err)
		h.problem(w, r, t.Status, err)
		return
	}
	h.write(w, r, http.StatusOK, "act", &content{Title: d.Title, View: "act", Data: d, Said: said(w, r)})
}

// referer is the page of the console from which a request comes, with its filters.
func referer(r *http.Request) string {
	u, err := url.Parse(r.Referer())
	if err != nil || u.Host != r.Host {
		return ""
	}
	return u.Path[strings.LastIndex(u.Path, "/")+1:] + "?" + u.RawQuery
}

// preview says what something will be done to, as it is now.
func (h *Handler) preview(ctx context.Context, q url.Values) (list []fact, err error) {
	add := func(name, format string, args ...any) { list = append(list, fact{name, fmt.Sprintf(format, args...)}) }
	if name := q.Get("queue"); name != "" {
		row, err := h.queueRow(ctx, name)
		if err != nil {
			return nil, err
		}
		add("Queue", "%s, where %s wait", name, plural(row.Depth, "message"))
	}
	switch do := q.Get("do"); {
	case verbs[do].slice != nil:
		f, err := h.left(ctx, q)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	case do == "requeue" || do == "bury" || do == "cancel":
		add("Message", "%s", q.Get("id"))
	case q.Get("id") != "":
		id, err := parseID(q.Get("id"))
		if err != nil {
			return nil, err
		}
		g, err := h.b.Admin().Group(ctx, q.Get("queue"), id)
		if errors.Is(err, parley.ErrUnknownGroup) {
			add("Group", "no message waits in it")
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		add("Group", "%s, %s", g.State, plural(g.Messages, "message"))
		if name := g.Key + g.Service; name != "" {
			add("Of", "%s", name)
		}
		if g.Promoted {
			add("Promoted", "level %d", g.Level)
		}
		if g.Reason != "" {
			add("Reason", "%s", brief(g.Reason))
		}
	case q.Get("plan") != "":
		p, err := phases.Find(ctx, h.b, q.Get("plan"))
		if err != nil {
			return nil, err
		}
		s, err := p.Status(ctx)
		if err != nil {
			return nil, err
		}
		for _, c := range newPlanRow(s).Each() {
			add(strings.ToUpper(string(c.State)[:1])+string(c.State)[1:], "%s", plural(c.N, "task"))
		}
	}
	return list, nil
}

// act does what was confirmed, writes it into the log, and goes back to the page that it was asked for on, with its
// filters.
func (h *Handler) act(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	if err := r.ParseForm(); err != nil {
		h.problem(w, r, http.StatusBadRequest, err)
		return
	}
	v, q, err := asked(r.PostForm)
	if err != nil {
		if h.allowed(w, r, View, "") {
			h.problem(w, r, http.StatusBadRequest, err)
		}
		return
	}
	target := q.Get(v.params[0])
	if !h.allowed(w, r, v.action, target) {
		return
	}
	if v.lost && r.PostForm.Get("sure") == "" {
		h.problem(w, r, http.StatusBadRequest, errors.New("nothing was done: confirm the question in the form"))
		return
	}
	// A browser that goes away does not leave it half done.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actLimit)
	defer cancel()
	said, next, err := h.audited(ctx, r, v, q)
	h.cache.forget() // also if it failed: some of it may be done
	if err != nil {
		h.problem(w, r, explained(err).Status, err)
		return
	}
	to := back(r.PostForm.Get("back"))
	if next != "" {
		said += " The time was over before all were looked at."
		on := maps.Clone(q) // the program has the other one for its record
		on.Set("after", next)
		on.Set("back", to)
		to = "./act?" + on.Encode()
	}
	http.SetCookie(w, &http.Cookie{Name: saidName, Value: base64.RawURLEncoding.EncodeToString([]byte(said)), MaxAge: 60,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
	redirect(w, to)
}

// actLimit is how long an action may take; a large group takes its time.
const actLimit = 30 * time.Second

// saidName is the cookie with what the next page says of an action.
const saidName = "parley_said"

// said takes what is to be said of the last action, once.
func said(w http.ResponseWriter, r *http.Request) string {
	c, err := r.Cookie(saidName)
	if err != nil || c.Value == "" {
		return ""
	}
	http.SetCookie(w, &http.Cookie{Name: saidName, MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
	text, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil {
		return ""
	}
	return string(text)
}
