package conformance

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		check{ID: "V04", Name: "lists come in pages", Run: checkPages},
		check{ID: "V04", Name: "groups are listed in pages", Run: checkGroupPages},
		check{ID: "V04", Name: "dead letters are listed in pages", Run: checkDeadPages},
		check{ID: "V04", Name: "tasks are listed in pages", Run: checkTaskPages},
		check{ID: "V04", Name: "a job keeps to its limit", Run: checkJobLimit},
		check{ID: "V05", Name: "ages and counts of what waits", Run: checkShown},
		check{ID: "V05", Name: "ages of what has failed or is not yet due", Run: checkShownFailed},
		check{ID: "V05", Name: "the age of a group is that of its oldest message", Run: checkShownGroup},
		check{ID: "V05", Name: "the age of a queue whose first message is younger", Run: checkShownQueue},
		check{ID: "V05", Name: "a record of a reader says when it ends", Run: checkShownReaders},
		check{ID: "V05", Name: "a store says what it is", Run: checkInfo},
	)
}

// storeAge is how old the oldest thing is, at least, when a check looks at ages.
const storeAge = 60 * time.Millisecond

// old reports whether an age is that of something that a check of this moment made.
func (e *env) old(what string, age time.Duration) {
	if age < storeAge/2 || age > 5*time.Minute {
		e.Errorf("%s: shown as %v old, want at least %v", what, age, storeAge/2)
	}
}

// lately reports whether a time is one of this check's. Two machines never agree.
func (e *env) lately(what string, at time.Time) {
	if ago := time.Since(at).Abs(); ago > 24*time.Hour {
		e.Errorf("%s says that it was stored %v ago", what, ago)
	}
}

// withhold keeps a message of a conversation back.
func (s *invBelow) withhold(h parley.ID, messages ...backend.Outgoing) {
	tx := s.begin()
	for i := range messages {
		messages[i].ID, messages[i].From, messages[i].Kind = backend.NewID(), h, backend.KindUser
	}
	_, err := tx.Withhold(s.Ctx, messages, "for the check")
	s.Must(err)
	s.commit(tx)
}

func checkPages(e *env) {
	s := invUnder(e.idle())
	var handles, conversations []backend.ID
	for i := range 4 {
		h := s.Dialog(fmt.Sprint("message ", i))
		handles = append(handles, h)
		conversations = append(conversations, dlgStatus(s.world, h).Conversation)
	}
	list, err := s.be.Conversations(e.Ctx, backend.ConversationQuery{After: conversations[0], Limit: 2})
	e.Must(err)
	var got []backend.ID
	for _, c := range list {
		got = append(got, c.Conversation)
	}
	if want := conversations[1:3]; !slices.Equal(slices.Compact(got), want) {
		e.Errorf("two conversations after the first of four: %v, want %v", got, want)
	}
	for _, h := range handles[:2] {
		s.withhold(h, backend.Outgoing{Type: s.Any})
	}
	withheld, err := s.be.Withheld(e.Ctx, backend.ID{}, 1)
	e.Must(err)
	if len(withheld) != 1 {
		e.Fatalf("of at least two streams with withheld messages %d are listed, want 1 as asked for", len(withheld))
	}
	next, err := s.be.Withheld(e.Ctx, withheld[0].From.Handle, 1)
	e.Must(err)
	if len(next) != 1 || next[0].From.Handle == withheld[0].From.Handle {
		e.Errorf("the withheld stream after the first of at least two is %+v", next)
	}
}

// checkGroupPages lists groups of all states, in pages of each size.
func checkGroupPages(e *env) {
	s := invUnder(e.idle())
	for i := range 9 {
		_, err := s.B.Post(e.Ctx, s.SQ, parley.Payload{}, parley.Key(fmt.Sprint("key ", i/2)), parley.Priority(1+i/2))
		e.Must(err)
	}
	for range 3 {
		_, err := s.B.Post(e.Ctx, s.SQ, parley.Payload{}, parley.Priority(3))
		e.Must(err)
	}
	s.Dialog("message")
	all, err := s.be.Groups(e.Ctx, backend.GroupQuery{Queue: s.sq, Limit: 100})
	e.Must(err)
	if len(all) != 9 {
		e.Fatalf("%d groups are listed, want 9", len(all))
	}
	for i, g := range all[:4] {
		d := s.Receive(s.SQ, &parley.ReceiveOptions{Group: g.Group})
		if i < 2 {
			e.Must(d.Park(e.Ctx, errors.New("for the check")))
		} else {
			e.Must(d.Defer(e.Ctx, time.Hour))
		}
	}
	e.Must(s.B.Promote(e.Ctx, all[8].Group, parley.PromoteLevel(3)))
	e.Must(s.B.Promote(e.Ctx, all[7].Group, parley.PromoteLevel(9)))
	held := s.Receive(s.SQ, &parley.ReceiveOptions{Group: all[4].Group, Hold: parley.HoldLease})
	want := map[string][]backend.ID{
		"":         {all[7].Group, all[8].Group, all[4].Group, all[5].Group, all[6].Group, all[2].Group, all[3].Group, all[0].Group, all[1].Group},
		"ready":    {all[7].Group, all[8].Group, all[5].Group, all[6].Group},
		"held":     {all[4].Group},
		"deferred": {all[2].Group, all[3].Group},
		"parked":   {all[0].Group, all[1].Group},
	}
	for state, want := range want {
		for limit := 1; limit <= len(want)+1; limit++ {
			var got []backend.ID
			for after := (backend.Place{}); len(got) <= len(want); {
				page, err := s.be.Groups(e.Ctx, backend.GroupQuery{Queue: s.sq, After: after, Limit: limit, State: state})
				e.Must(err)
				if len(page) == 0 {
					break
				}
				for _, g := range page {
					got = append(got, g.Group)
				}
				after = page[len(page)-1].Place
			}
			if !slices.Equal(got, want) {
				e.Errorf("groups of state %q in pages of %d: %v, want %v", state, limit, got, want)
			}
		}
	}
	checkBrief(s)
	e.Must(held.Ack(e.Ctx))
	for _, group := range []backend.ID{all[4].Group, all[0].Group, backend.NewID()} {
		list, err := s.be.Groups(e.Ctx, backend.GroupQuery{Group: group})
		e.Must(err)
		if is := group == all[0].Group; is != (len(list) == 1) || is && (list[0].Group != group || list[0].Queue != s.sq || list[0].State != "parked") {
			e.Errorf("a group alone, which is there: %v; listed: %+v", is, list)
		}
	}
}

// checkBrief wants lists of blocked groups that leave out only what they may.
func checkBrief(s *invBelow) {
	for _, state := range []string{"deferred", "parked"} {
		q := backend.GroupQuery{Queue: s.sq, Limit: 10, State: state}
		full, err := s.be.Groups(s.Ctx, q)
		s.Must(err)
		q.Brief = true
		brief, err := s.be.Groups(s.Ctx, q)
		s.Must(err)
		if len(brief) != len(full) {
			s.Fatalf("a brief list of groups that are %s: %+v, want %+v", state, brief, full)
		}
		for i, b := range brief {
			f := full[i]
			if drift := f.Since - b.Since; drift.Abs() > time.Minute || (f.Until-b.Until).Abs() > time.Minute {
				s.Errorf("a brief list has a group that is %s for %v until %v, want %v and %v", state, b.Since, b.Until, f.Since, f.Until)
			}
			b.Messages, b.Oldest, b.Priority, b.Since, b.Until = f.Messages, f.Oldest, f.Priority, f.Since, f.Until
			if b != f {
				s.Errorf("a brief list of groups that are %s has %+v, want %+v", state, b, f)
			}
		}
	}
}

func checkDeadPages(e *env) {
	s := invUnder(e.idle())
	bodies := []string{"", "a", "an umlaut: ä"}
	for _, body := range bodies {
		_, err := s.B.Post(e.Ctx, s.SQ, parley.Payload{Body: []byte(body)})
		e.Must(err)
		d := s.Receive(s.SQ, nil)
		e.Must(d.Park(e.Ctx, errors.New("for the check")))
		_, err = s.B.Admin().SkipParked(e.Ctx, s.SQ, d.Messages[0].Group, "for the check")
		e.Must(err)
	}
	all, err := s.be.DeadLetters(e.Ctx, backend.DeadQuery{Queue: s.sq, Limit: 10, Bodies: true})
	e.Must(err)
	if len(all) != 3 {
		e.Fatalf("%d dead letters are listed, want 3", len(all))
	}
	brief, err := s.be.DeadLetters(e.Ctx, backend.DeadQuery{Queue: s.sq, Limit: 10})
	e.Must(err)
	for i, d := range all {
		if want := bodies[2-i]; string(d.Message.Body) != want || d.Bytes != len(want) {
			e.Errorf("dead letter %d of 3 has the body %q of %d bytes, want %q", i+1, d.Message.Body, d.Bytes, want)
		}
		if len(brief) != 3 || brief[i].Message.ID != d.Message.ID || brief[i].Message.Body != nil || brief[i].Bytes != d.Bytes || brief[i].Reason != d.Reason {
			e.Fatalf("without bodies dead letter %d of 3 is one of %+v", i+1, brief)
		}
		next, err := s.be.DeadLetters(e.Ctx, backend.DeadQuery{Queue: s.sq, After: d.Place, Limit: 1, Bodies: true})
		e.Must(err)
		if i == 2 && len(next) > 0 || i < 2 && (len(next) != 1 || next[0].Message.ID != all[i+1].Message.ID) {
			e.Errorf("after dead letter %d of 3: %+v", i+1, next)
		}
	}
}

func checkTaskPages(e *env) {
	e.Needs(partTasks)
	be := e.Handle()
	plan := e.Name("plan")
	tasks := []backend.NewTask{{ID: backend.NewID()}, {ID: backend.NewID()}, {ID: backend.NewID()}}
	tx, err := be.Begin(e.Ctx)
	e.Must(err)
	defer tx.Rollback(e.Ctx)
	e.Must(tx.Submit(e.Ctx, plan, backend.PlanOptions{}, tasks))
	holds, err := tx.ClaimTasks(e.Ctx, backend.TaskClaim{Plans: []string{plan}, Max: 1, Lease: time.Minute})
	e.Must(err)
	e.Must(tx.Commit(e.Ctx))
	if len(holds) != 1 {
		e.Fatalf("a claim of one of three tasks has %d", len(holds))
	}
	for _, x := range []struct {
		what  string
		query backend.TaskQuery
		want  []backend.ID
	}{
		{"those after the first", backend.TaskQuery{After: tasks[0].ID, Limit: 10}, []backend.ID{tasks[1].ID, tasks[2].ID}},
		{"one after the first", backend.TaskQuery{After: tasks[0].ID, Limit: 1}, []backend.ID{tasks[1].ID}},
		{"those that run", backend.TaskQuery{Running: true, Limit: 10}, []backend.ID{holds[0].Task}},
	} {
		x.query.Plan = plan
		list, err := be.TaskLog(e.Ctx, x.query)
		e.Must(err)
		var got []backend.ID
		for _, t := range list {
			got = append(got, t.ID)
		}
		if !slices.Equal(got, x.want) {
			e.Errorf("of three tasks, %s: %v, want %v", x.what, got, x.want)
		}
	}
}

func checkJobLimit(e *env) {
	const all, limit = 24, 3
	s := invUnder(e.idle())
	for range all {
		_, err := s.B.Post(e.Ctx, s.SQ, parley.Payload{Type: s.Any}, parley.After(time.Millisecond))
		e.Must(err)
	}
	delayed := func() int {
		list, err := s.be.Queues(e.Ctx, s.sq)
		e.Must(err)
		return list[0].Delayed
	}
	time.Sleep(20 * time.Millisecond)
	done, err := s.be.Maintain(e.Ctx, backend.JobDelayed, limit)
	e.Must(err)
	if left := delayed(); done.Moved > 2*limit || left < all-2*limit {
		e.Errorf("a job with a limit of %d says that it moved %d, and left %d of %d", limit, done.Moved, left, all)
	}
	if done.Next == 0 && delayed() > 0 {
		e.Errorf("a job that left %d items says that nothing is due", delayed())
	}
	s.maintain(backend.JobDelayed)
	if left := delayed(); left != 0 {
		e.Errorf("the job was done until it had nothing to do, and left %d of %d", left, all)
	}
}

func checkShown(e *env) {
	s := invUnder(e.idle())
	h := s.Dialog("first")
	s.Tx(func(tx *parley.Tx) error { return tx.Conversation(h).SetTimer(e.Ctx, time.Hour) })
	late := s.Dialog()
	s.withhold(late, backend.Outgoing{Type: s.Any})
	time.Sleep(storeAge)
	s.Send(h, s.Ask, "second") // the age is that of the first

	queues, err := s.be.Queues(e.Ctx, s.sq)
	e.Must(err)
	e.old("the oldest message of a queue", queues[0].Oldest)
	if queues[0].Depth != 2 {
		e.Errorf("a queue with two messages has a depth of %d", queues[0].Depth)
	}
	groups, err := s.be.Groups(e.Ctx, backend.GroupQuery{Queue: s.sq, Limit: 10})
	e.Must(err)
	if len(groups) != 1 || groups[0].Priority != 5 || groups[0].Messages != 2 {
		e.Fatalf("the groups are %+v, want one of priority 5 with two messages", groups)
	}
	e.old("the oldest message of a group", groups[0].Oldest)

	sides, err := s.be.Conversations(e.Ctx, backend.ConversationQuery{Handle: h, Limit: 1})
	e.Must(err)
	if len(sides) != 2 {
		e.Fatalf("the sides of a conversation are %+v, want two", sides)
	}
	for _, side := range sides {
		e.old("a side of a conversation", side.Age)
		switch {
		case side.Initiator && (side.Timer < 50*time.Minute || side.Timer > time.Hour || side.Waiting != 0):
			e.Errorf("the initiator's timer is due in %v, and %d messages wait for it, want an hour and none",
				side.Timer, side.Waiting)
		case !side.Initiator && (side.Timer != 0 || side.Waiting != 2):
			e.Errorf("the target's timer is due in %v and %d messages wait for it, want none and 2", side.Timer, side.Waiting)
		}
	}
	streams, err := s.be.Withheld(e.Ctx, backend.ID{}, backend.CountLimit)
	e.Must(err)
	i := slices.IndexFunc(streams, func(w backend.WithheldStream) bool { return w.From.Handle == late })
	if i < 0 {
		e.Fatalf("a stream with a withheld message is not listed")
	}
	e.old("a withheld stream", streams[i].Waiting)

	d := s.Receive(s.SQ, &parley.ReceiveOptions{Hold: parley.HoldLease})
	e.lately("a message", d.Messages[0].Enqueued)
	held, err := s.be.Groups(e.Ctx, backend.GroupQuery{Queue: s.sq, Limit: 10})
	e.Must(err)
	if len(held) != 1 || held[0].State != "held" || held[0].Until <= 0 {
		e.Errorf("a group that is held by lease is shown as %+v", held)
	}
	e.Must(d.Ack(e.Ctx))
}

func checkShownFailed(e *env) {
	s := invUnder(e.WorldOn(e.Broker(&parley.Options{NoMaintenance: true}), func(c *parley.Catalog) {
		c.Queues[0].Retention = true
	}))
	h := s.Dialog("fails")
	kept, err := s.be.Retained(e.Ctx, h)
	e.Must(err)
	if len(kept) != 1 {
		e.Fatalf("the copies that a side keeps of what it has sent are %+v, want one", kept)
	}
	e.lately("the copy of a message", kept[0].Message.Enqueued)

	delayed, err := s.B.Post(e.Ctx, s.SQ, parley.Payload{Type: s.Any}, parley.After(time.Hour))
	e.Must(err)
	post, err := s.be.PostStatus(e.Ctx, s.sq, delayed)
	e.Must(err)
	if post.Due < 50*time.Minute || post.Due > time.Hour {
		e.Errorf("a post that is delayed by an hour is due in %v", post.Due)
	}

	d := s.Receive(s.SQ, nil)
	e.Must(d.Park(e.Ctx, errors.New("for the check")))
	time.Sleep(storeAge)
	groups, err := s.be.Groups(e.Ctx, backend.GroupQuery{Queue: s.sq, Limit: 10, State: "parked"})
	e.Must(err)
	if len(groups) != 1 {
		e.Fatalf("the parked groups are %+v, want one", groups)
	}
	e.old("a group's parking", groups[0].Since)
	_, err = s.B.Admin().SkipParked(e.Ctx, s.SQ, d.Group, "for the check")
	e.Must(err)
	time.Sleep(storeAge)
	letters, err := s.be.DeadLetters(e.Ctx, backend.DeadQuery{Queue: s.sq, Limit: 10})
	e.Must(err)
	if len(letters) != 1 {
		e.Fatalf("the dead letters are %+v, want one", letters)
	}
	e.old("a dead letter", letters[0].Age)
	e.lately("the message of a dead letter", letters[0].Message.Enqueued)
}

// checkShownGroup has a group whose best conversation has the younger message.
func checkShownGroup(e *env) {
	s := invUnder(e.WorldOn(e.Broker(&parley.Options{NoMaintenance: true}), func(c *parley.Catalog) {
		better := c.Contracts[0]
		better.Name += " better"
		c.Contracts = append(c.Contracts, better)
		c.Services[1].Contracts = append(c.Services[1].Contracts, better.Name)
		c.Priorities = append(c.Priorities, parley.PriorityRule{Name: better.Name, Contract: better.Name, Level: 9})
	}))
	plain := s.Dialog("plain")
	better := s.DialogWith(&parley.DialogOptions{Contract: s.Contract + " better", RelatedConversation: plain}, "better")
	s.Drain(s.SQ)
	s.Send(dlgPeer(s.world, plain), s.Tell, "old")
	time.Sleep(storeAge)
	s.Send(dlgPeer(s.world, better), s.Tell, "young")
	groups, err := s.be.Groups(e.Ctx, backend.GroupQuery{Queue: s.cq, Limit: 10})
	e.Must(err)
	if len(groups) != 1 || groups[0].Priority != 9 || groups[0].Messages != 2 {
		e.Fatalf("the groups are %+v, want one of priority 9 with two messages", groups)
	}
	e.old("a group, of whose conversations the one of lower priority has the older message,", groups[0].Oldest)
}

// checkShownQueue has a queue whose first message is younger than others.
func checkShownQueue(e *env) {
	s := invUnder(e.idle())
	oldest := func(what string) {
		queues, err := s.be.Queues(e.Ctx, s.sq)
		e.Must(err)
		e.old("the oldest message of a queue, behind a younger message: "+what, queues[0].Oldest)
	}
	s.post(s.SQ, "old", parley.Priority(1))
	time.Sleep(storeAge)
	s.post(s.SQ, "young", parley.Priority(10))
	oldest("a post")
	s.Drain(s.SQ)

	s.post(s.SQ, "old", parley.Priority(2), parley.Key("old"))
	time.Sleep(storeAge)
	s.post(s.SQ, "young", parley.Priority(3), parley.Key("younger"))
	oldest("of a group")
	s.post(s.SQ, "young", parley.Priority(10))
	oldest("of a group, beside a post")
}

func checkShownReaders(e *env) {
	e.Needs(partReaders)
	s := invUnder(e.idle())
	r := backend.ReaderRecord{
		Reader: backend.NewID(), Worker: backend.NewID(), Queue: s.sq, Owner: "check", Readers: 1, For: time.Minute,
	}
	_, err := s.be.PutReader(e.Ctx, r)
	e.Must(err)
	list, err := s.be.ReaderRecords(e.Ctx)
	e.Must(err)
	i := slices.IndexFunc(list, func(have backend.ReaderStatus) bool { return have.Reader == r.Reader })
	if i < 0 || list[i].Left < 30*time.Second || list[i].Left > time.Minute {
		e.Errorf("the records are %+v, want one of a reader that is good for a minute", list)
	}
	e.Must(s.be.RemoveReaders(e.Ctx, r.Worker, r.Reader))
}

func checkInfo(e *env) {
	info, err := e.Handle().Info(e.Ctx)
	e.Must(err)
	if info.Engine == "" || info.Version == "" || info.Program == 0 || info.Schema != info.Program {
		e.Errorf("a migrated store says of itself %+v, want engine and version, and its schema to be the program's", info)
	}
}
