package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// queue looks at one queue and who serves it.
func (d *diagnosis) queue(q parley.QueueStatus) {
	obj := objQueue(q.Name)
	if q.Disabled {
		d.add(true, codeDisabled, obj, "Admin.EnableQueue", "the queue is disabled: nothing is received, and what is sent to it is withheld")
	}
	alive, dead := 0, deadWorkers{}
	for _, w := range d.workers {
		switch {
		case w.Queue != q.Name:
		case w.Left < 0:
			dead.add(w)
		default:
			alive++
			if len(w.InHand) > 0 && w.Since > longInHand {
				d.add(false, codeInHand, obj, "", "a worker of %s has %d groups in hand, or had, for %s", w.Owner, len(w.InHand), round(w.Since))
			}
		}
	}
	if dead.workers != nil {
		d.add(false, codeDeadWorker, obj, "", "%d workers have died, the last one, of %s, at least %s ago; they had %d groups in hand",
			len(dead.workers), dead.last.Owner, round(-dead.last.Left), dead.inHand)
	}
	if alive == 0 && q.Depth > 0 {
		d.add(true, codeNoWorker, obj, "start a worker", "%d messages wait, the oldest for %s, and no worker serves the queue", q.Depth, round(q.Oldest))
	}
}

// deadWorkers sums up the records of workers that have died.
type deadWorkers struct {
	workers map[parley.ID]bool
	last    parley.WorkerStatus
	inHand  int
}

func (d *deadWorkers) add(w parley.WorkerStatus) {
	if d.workers == nil {
		d.workers, d.last = make(map[parley.ID]bool), w
	}
	d.workers[w.Worker] = true
	d.inHand += len(w.InHand)
	if w.Left > d.last.Left {
		d.last = w
	}
}

// longDeploy is how long a type may be without a handler while programs are replaced
// before that is bad.
const longDeploy = time.Hour

// strandedFor is how long messages are out of the ready order before doctor says so.
const strandedFor = 200 * time.Millisecond

// longInHand is how long a batch is in hand before doctor mentions it.
const longInHand = 10 * time.Second

// groups looks at the blocked and held groups of a queue, if there are any.
func (d *diagnosis) groups(ctx context.Context, q parley.QueueStatus) error {
	const most = 100
	found := 0
	for _, x := range []struct {
		state  string
		groups int // or more
	}{{"held", q.Leased}, {"deferred", q.Deferred}, {"parked", q.Parked}} {
		if x.groups == 0 {
			continue
		}
		list, err := d.be.Groups(ctx, backend.GroupQuery{Queue: q.ID, State: x.state, Limit: min(x.groups, most-found) + 1})
		if err != nil {
			return err
		}
		for _, g := range list {
			if found++; found > most {
				d.add(false, codeMore, objQueue(q.Name), "parley groups "+q.Name, "there may be more than %d groups that are blocked or held", most)
				return nil
			}
			d.group(g, q)
		}
	}
	return nil
}

func (d *diagnosis) group(g backend.GroupStatus, q parley.QueueStatus) {
	obj := objGroup(g.Group) + " of " + objQueue(q.Name)
	switch g.State {
	case "parked":
		d.add(true, codeParked, obj, "parley parked show, retry, skip or discard "+g.Group.String(),
			"parked for %s, with %d messages: %s", round(g.Since), g.Messages, g.Reason)
	case "deferred":
		if since, ok := parley.UnhandledSince(g.Reason); ok {
			d.add(time.Since(since) > longDeploy, codeNoHandler, obj, "start a worker whose program handles the type", "%s; %d messages wait in the group", g.Reason, g.Messages)
			return
		}
		d.add(false, codeDeferred, obj, "", "deferred for another %s, with %d messages: %s", round(g.Until), g.Messages, g.Reason)
	case "held":
		d.add(false, codeHeld, obj, "", "held by %s for %s; its lease lasts another %s", g.Owner, round(g.Since), round(g.Until))
	}
}

// one looks for what has an id, whatever it is.
func (d *diagnosis) one(ctx context.Context, id parley.ID) error {
	place, err := d.be.Find(ctx, id)
	if errors.Is(err, parley.ErrNotPending) {
		place, err = id, nil
	}
	if err != nil {
		return err
	}
	sides, err := d.be.Conversations(ctx, parley.ConversationQuery{Handle: place, Limit: 1})
	if err != nil {
		return err
	}
	group := place
	if len(sides) == 0 {
		if sides, err = d.be.Conversations(ctx, parley.ConversationQuery{Group: group, Limit: 1}); err != nil {
			return err
		}
	}
	for _, c := range sides {
		if c.Handle == place {
			group = c.Group
		}
		if c.Withheld > 0 {
			if err := d.heldBack(ctx, backend.WithheldStream{From: c.Endpoint, Count: c.Withheld, Status: c.Status}); err != nil {
				return err
			}
		}
	}
	if known, err := d.waits(ctx, group); err != nil || known {
		return err
	}
	for _, q := range d.queues {
		if known, err := d.isPost(ctx, q, id); err != nil || known {
			return err
		}
	}
	if known, err := d.task(ctx, id); err != nil || known {
		return err
	}
	if err := d.dead(ctx, id); err != nil {
		return err
	}
	if len(d.found) > 0 {
		return nil
	}
	promotions, err := d.be.Promotions(ctx, backend.ID{}, backend.CountLimit)
	if err != nil {
		return err
	}
	for _, p := range promotions {
		if p.Group == group {
			d.promotion(p)
		}
	}
	if len(sides) > 0 || len(d.found) > 0 {
		d.add(false, codeEmpty, objGroup(group), "", "no message waits in the group")
		return nil
	}
	d.add(false, codeUnknown, id.String(), "", "nothing with this id waits: it was handled, or has never been there")
	return nil
}

// waits looks for a group with messages.
func (d *diagnosis) waits(ctx context.Context, group parley.ID) (known bool, err error) {
	list, err := d.be.Groups(ctx, backend.GroupQuery{Group: group, Limit: 1})
	if err != nil || len(list) == 0 {
		return false, err
	}
	g := list[0]
	i := slices.IndexFunc(d.queues, func(q parley.QueueStatus) bool { return q.ID == g.Queue })
	if i < 0 {
		return false, nil
	}
	q := d.queues[i]
	d.queue(q)
	if g.State != "ready" {
		d.group(g, q)
		return true, nil
	}
	if stranded, err := d.stranded(ctx, g); err != nil || stranded {
		return true, err
	}
	return true, d.ready(ctx, g, q)
}

// stranded says so of messages that no receive finds. It looks again after a moment, since a group in
// use may look so.
func (d *diagnosis) stranded(ctx context.Context, g backend.GroupStatus) (bool, error) {
	for range 2 {
		if g.Stranded == 0 {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(strandedFor / 2):
		}
		list, err := d.be.Groups(ctx, backend.GroupQuery{Group: g.Group, Limit: 1})
		if err != nil || len(list) == 0 {
			return false, err
		}
		g = list[0]
	}
	if g.Stranded > 0 {
		obj := objGroup(g.Group)
		if i := slices.IndexFunc(d.queues, func(q parley.QueueStatus) bool { return q.ID == g.Queue }); i >= 0 {
			obj += " of " + objQueue(d.queues[i].Name)
		}
		d.add(true, codeStranded, obj, "parley retry "+g.Group.String(),
			"%d of its %d messages are out of the ready order: no receive finds them", g.Stranded, g.Messages)
	}
	return g.Stranded > 0, nil
}

// isPost looks for a post that is not in a group's queue now.
func (d *diagnosis) isPost(ctx context.Context, q parley.QueueStatus, id parley.ID) (known bool, err error) {
	p, err := d.be.PostStatus(ctx, q.ID, id)
	switch {
	case errors.Is(err, parley.ErrNotPending):
		return false, nil
	case err != nil:
		return false, err
	case p.State == "delayed":
		d.add(false, codeDelayed, "post "+id.String(), "", "it joins %s in %s", objQueue(q.Name), round(p.Due))
		return true, nil
	case p.State == "processed":
		d.add(false, codeProcessed, "post "+id.String(), "", "it was processed, and is kept")
		return true, nil
	}
	return false, nil
}

// ready says whether a group can be received or is held by an open transaction.
func (d *diagnosis) ready(ctx context.Context, g backend.GroupStatus, q parley.QueueStatus) error {
	obj := objGroup(g.Group) + " of " + objQueue(q.Name)
	if d.be.Capabilities().HoldsInTransaction && !q.Disabled {
		if free, err := d.free(ctx, g, q); err != nil || !free {
			return err
		}
	}
	before, err := d.before(ctx, g, q)
	if err == nil {
		d.add(false, codeReady, obj, "parley promote "+g.Group.String()+" puts it first", "ready, with %d messages; %s groups come before it", g.Messages, before)
	}
	return err
}

// before counts the groups before one, as far as that takes a moment.
func (d *diagnosis) before(ctx context.Context, g backend.GroupStatus, q parley.QueueStatus) (string, error) {
	const most = 500
	list, err := d.be.Groups(ctx, backend.GroupQuery{Queue: q.ID, Limit: most})
	if n := slices.IndexFunc(list, func(x backend.GroupStatus) bool { return x.Group == g.Group }); n >= 0 {
		return strconv.Itoa(n), err
	}
	return fmt.Sprintf("%d or more", len(list)), err
}

// free tries to take a group, and says who may have it.
func (d *diagnosis) free(ctx context.Context, g backend.GroupStatus, q parley.QueueStatus) (bool, error) {
	tx, err := d.be.Begin(ctx)
	if err != nil {
		return false, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	catalog, err := tx.Catalog(ctx, false)
	if err != nil {
		return false, err
	}
	c, err := tx.Claim(ctx, backend.ClaimRequest{Version: catalog.Version, Queue: q.ID, Group: g.Group,
		MaxGroups: 1, MaxMessages: 1, MaxBytes: 1, Owner: "doctor"})
	if err != nil || len(c.Holds) > 0 {
		return len(c.Holds) > 0, err
	}
	var who []string
	for _, w := range d.workers {
		if w.Queue == q.Name && w.Left >= 0 && len(w.InHand) > 0 && !slices.Contains(who, w.Owner) {
			who = append(who, w.Owner)
		}
	}
	if len(who) == 0 {
		who = []string{"a program that receives without a worker"}
	}
	d.add(false, codeHeld, objGroup(g.Group)+" of "+objQueue(q.Name), "", "held by an open transaction, of %s", strings.Join(who, " or "))
	return false, nil
}

// withheld looks at messages that wait for their target.
func (d *diagnosis) withheld(ctx context.Context) error {
	list, err := backend.Offered(d.be.Withheld(ctx, backend.ID{}, 100))
	for _, s := range list {
		if err := d.heldBack(ctx, s); err != nil {
			return err
		}
	}
	return err
}

// queueOf returns the queue of a service, by the catalog as it is now.
func (d *diagnosis) queueOf(ctx context.Context, service string) (queue string, known bool, err error) {
	if d.catalog == nil {
		if d.catalog, err = d.b.Catalog(ctx); err != nil {
			return "", false, err
		}
	}
	i := slices.IndexFunc(d.catalog.Services, func(s parley.Service) bool { return s.Name == service })
	if i < 0 {
		return "", false, nil
	}
	return d.catalog.Services[i].Queue, true, nil
}

func (d *diagnosis) heldBack(ctx context.Context, s backend.WithheldStream) error {
	queue, known, err := d.queueOf(ctx, s.From.FarService)
	if err != nil {
		return err
	}
	obj := "conversation " + s.From.Handle.String()
	switch {
	case !known:
		d.add(true, codeNoService, obj, "define the service", "%d messages wait for service %q, which is not defined: %s", s.Count, s.From.FarService, s.Status)
	case slices.ContainsFunc(d.queues, func(q parley.QueueStatus) bool { return q.Name == queue && q.Disabled }):
		d.add(true, codeWithheld, obj, "enable "+objQueue(queue), "%d messages for service %q wait: %s", s.Count, s.From.FarService, s.Status)
	case s.Waiting > withheldLate:
		d.add(true, codeWithheld, obj, "", "%d messages for service %q wait, which could take them: %s", s.Count, s.From.FarService, s.Status)
		d.stopped("withheld", s.Waiting)
	default:
		d.add(false, codeWithheld, obj, "", "%d messages for service %q wait for their delivery: %s", s.Count, s.From.FarService, s.Status)
	}
	return nil
}

// promotions looks for promotions that have no effect any more.
func (d *diagnosis) promotions(ctx context.Context) error {
	list, err := backend.Offered(d.be.Promotions(ctx, backend.ID{}, backend.CountLimit))
	for _, p := range list {
		if p.Ended {
			d.promotion(p)
		}
	}
	return err
}

func (d *diagnosis) promotion(p backend.PromotionStatus) {
	if p.Ended {
		d.add(false, codePromotion, objGroup(p.Group), "parley demote "+p.Group.String(), "a promotion of level %d for a group that has ended", p.Level)
	}
}

// dead looks for dead letters by the id of the message or its group.
func (d *diagnosis) dead(ctx context.Context, id parley.ID) error {
	list, err := backend.Offered(d.be.DeadLetters(ctx, backend.DeadQuery{Limit: 1000}))
	for _, x := range list {
		if x.Message.ID == id || x.Message.Group == id {
			d.add(true, codeDead, "message "+x.Message.ID.String(), "parley dead requeue or discard", "a dead letter for %s: %s", round(x.Age), x.Reason)
		}
	}
	return err
}

// conversations looks at the oldest conversation.
func (d *diagnosis) conversations(ctx context.Context) error {
	list, err := backend.Offered(d.be.Conversations(ctx, parley.ConversationQuery{Limit: 1}))
	for _, c := range list {
		if c.Initiator && c.Age > old {
			d.add(false, codeOld, "conversation "+c.Handle.String(), "end conversations, or give them a lifetime (DialogOptions.Lifetime)",
				"the oldest conversation, of %q with %q, is from %d days ago", c.Service, c.FarService, int(c.Age.Hours()/24))
		}
	}
	return err
}

// old is the age at which a program has probably forgotten to end a conversation.
const old = 30 * 24 * time.Hour
