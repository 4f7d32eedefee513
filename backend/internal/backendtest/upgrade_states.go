package backendtest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
)

// years is a time that does not come while a dump is in use.
const years = 100 * 365 * 24 * time.Hour

// place is where a dump has one state: a service on a queue, both with the state's name.
type place struct {
	*Fixture
	name string
	q    int64
}

// state is a kind of rows: put makes them, check finds them again by public verbs.
type state struct {
	name       string
	put, check func(p *place)
}

// since are the first schemas that have rows of a state, where it is not the oldest with a dump.
var since = map[string]int{"recurring": 6, "headers": 7, "cancels": 8, "attempts": 9, "returned": 10}

// states are all states that a program leaves to the next one. The last one changes the catalog.
var states = []state{
	{"waiting", putWaiting, checkWaiting},
	{"withheld", putWithheld, checkWithheld},
	{"retained", putRetained, checkRetained},
	{"dead", putDead, checkDead},
	{"timers", putTimers, checkTimers},
	{"ended", putEnded, checkEnded},
	{"errors", putErrors, checkErrors},
	{"closed", putClosed, checkClosed},
	{"together", putTogether, checkTogether},
	{"delayed", putDelayed, checkDelayed},
	{"unique", putUnique, checkUnique},
	{"processed", putProcessed, checkProcessed},
	{"leased", putLeased, checkLeased},
	{"returned", putReturned, checkReturned}, // before others leave something that is due
	{"deferred", putDeferred, checkDeferred},
	{"parked", putParked, checkParked},
	{"promoted", putPromoted, checkPromoted},
	{"failed", putFailed, checkFailed},
	{"readers", putReaders, checkReaders},
	{"plans", putPlans, checkPlans},
	{"locks", putLocks, checkLocks},
	{"once", putOnce, checkOnce},
	{"recurring", putRecurring, checkRecurring},
	{"headers", putHeaders, checkHeaders},
	{"cancels", putCancels, checkCancels},
	{"attempts", putAttempts, checkAttempts},
	{"catalog", putCatalog, checkCatalog},
}

// putStates leaves rows in every state in an empty store.
func putStates(f *Fixture) {
	c := &backend.Catalog{
		Types:     []backend.MessageType{{Name: "m"}},
		Contracts: []backend.Contract{{Name: "c", Messages: []backend.ContractEntry{{Type: "m", SentBy: backend.ByAny}}}},
	}
	for _, s := range states {
		c.Queues = append(c.Queues, backend.Queue{Name: s.name})
		c.Services = append(c.Services, backend.Service{Name: s.name, Queue: s.name, Contracts: []string{"c"}})
	}
	f.Define(c)
	for _, p := range f.places(math.MaxInt) {
		p.state().put(p)
	}
}

// checkStates checks that each state that a program of a schema has left is there, and that it goes on.
func checkStates(f *Fixture, version int) {
	for _, p := range f.places(version) {
		f.Run(p.name, func(t *testing.T) {
			p.T = t
			p.state().check(p)
		})
	}
}

// places finds the places of all states of a schema in the catalog.
func (f *Fixture) places(version int) (list []*place) {
	c := f.catalog()
	f.Version = c.Version
	for _, s := range states {
		if since[s.name] > version {
			continue
		}
		i := slices.IndexFunc(c.Queues, func(q backend.Queue) bool { return q.Name == s.name })
		if i < 0 {
			f.Fatalf("the dump has no queue %q", s.name)
		}
		own := *f
		list = append(list, &place{&own, s.name, c.Queues[i].ID})
	}
	return list
}

func (f *Fixture) catalog() (c *backend.Catalog) {
	f.Do(func(tx backend.Tx) (err error) { c, err = tx.Catalog(f.Ctx, true); return err })
	return c
}

func (p *place) state() state {
	return states[slices.IndexFunc(states, func(s state) bool { return s.name == p.name })]
}

// id is the same for a thing in the program that makes a dump and in that which reads it.
func (p *place) id(thing string) backend.ID {
	sum := sha256.Sum256([]byte(p.name + " " + thing))
	return backend.ID(sum[:16])
}

// sides are those of a conversation whose service talks to itself.
func (p *place) sides(name string) Dialog {
	p.QA, p.QB = p.q, p.q
	d := p.ends()
	for _, e := range []*backend.Endpoint{&d.A, &d.B} {
		e.Service, e.FarService, e.Conversation = p.name, p.name, p.id(name)
	}
	d.A.Handle, d.B.Handle = p.id(name+" A"), p.id(name+" B")
	d.A.FarHandle, d.B.FarHandle = d.B.Handle, d.A.Handle
	d.A.Group, d.B.Group = d.A.Handle, d.B.Handle
	return d
}

// begin begins a conversation, and open accepts it as well.
func (p *place) begin(d Dialog) Dialog {
	p.Do(func(tx backend.Tx) error {
		return tx.BeginDialog(p.Ctx, p.Version, backend.NewDialog{Endpoint: d.A, NewGroup: true})
	})
	return d
}

func (p *place) open(d Dialog) Dialog {
	p.begin(d)
	p.Do(func(tx backend.Tx) error { _, err := tx.Accept(p.Ctx, p.Version, d.A.Handle, d.B); return err })
	return d
}

// post posts a message with its body as its name.
func (p *place) post(body string, x backend.Posting) {
	x.ID, x.Queue, x.Body = p.id(body), p.q, []byte(body)
	p.Post(x)
}

// three puts a message of each kind on the queue, and take leases as many holds as are wanted.
func (p *place) three() {
	p.Send(p.open(p.sides("d")).A.Handle, "dialog")
	p.post("key", backend.Posting{Key: "k"})
	p.post("post", backend.Posting{})
}

func (p *place) take(n int, lease time.Duration) (holds []*backend.Hold) {
	for range n {
		r := p.Request(p.q)
		r.Lease = lease
		holds = append(holds, p.One(r))
	}
	return holds
}

// settled puts a message of each kind and settles each in a way.
func (p *place) settled(outcome backend.Outcome) {
	p.three()
	for _, h := range p.take(3, time.Minute) {
		o := outcome
		o.Hold = h
		switch {
		case o.Failure != nil:
			failure := *o.Failure
			failure.Message, o.Failure = h.Messages[0], &failure
		case o.Dead != nil:
			o.Dead = []backend.DeadLetter{{Message: h.Messages[0], Reason: o.Dead[0].Reason}}
		case o.Keep > 0:
			o.Done = h.Messages
		}
		p.Settle(o)
	}
}

// groups tells what is listed of the queue's groups, in an order of its own.
func (p *place) groups() (list []string) {
	groups, err := p.Backend.Groups(p.Ctx, backend.GroupQuery{Queue: p.q, Limit: 10})
	p.OK(err)
	for _, g := range groups {
		list = append(list, fmt.Sprint(g.State, " ", g.Reason, g.Owner, " ", g.Messages, " ", g.Until > years/2))
	}
	slices.Sort(list)
	return list
}

// free makes all blocked groups ready again and returns what is received then.
func (p *place) free() []string {
	groups, err := p.Backend.Groups(p.Ctx, backend.GroupQuery{Queue: p.q, Limit: 10})
	p.OK(err)
	for _, g := range groups {
		p.Do(func(tx backend.Tx) error { return tx.Unpark(p.Ctx, g.Group) })
	}
	return sorted(p.Drain(p.q))
}

func (p *place) is(what string, got, want any) {
	p.Helper()
	p.Equal(what, got, want)
}

// gone checks that there is no such side of a conversation.
func (p *place) gone(handle backend.ID) {
	p.Helper()
	p.Is(p.Try(func(tx backend.Tx) error { _, err := tx.Endpoint(p.Ctx, handle); return err }), backend.ErrNoConversation)
}

var allThree = []string{"dialog", "key", "post"}

func putWaiting(p *place) {
	p.Send(p.open(p.sides("d")).A.Handle, "one", "two")
	p.post("keyed 1", backend.Posting{Key: "k"})
	p.post("keyed 2", backend.Posting{Key: "k"})
	p.post("post", backend.Posting{})
	p.begin(p.sides("begun"))
}

func checkWaiting(p *place) {
	d := p.sides("d")
	e := p.endpoint(d.A.Handle)
	p.is("initiator", []any{e.State, e.NextSeq, e.FarHandle, e.Group, e.Priority}, []any{backend.Conversing, 2, d.B.Handle, d.A.Group, 5})
	p.is("begun", p.endpoint(p.sides("begun").A.Handle).State, backend.StartedOutbound)
	p.is("depth", p.queue(p.q).Depth, 5)
	h := p.One(p.Request(p.q))
	m := h.Messages[0]
	p.is("message", []any{m.Seq, m.Handle, m.Conversation, m.Service, m.Contract, m.Attempts}, []any{0, d.B.Handle, d.B.Conversation, p.name, "c", 0})
	p.Settle(backend.Outcome{Hold: h})
	p.Send(d.A.Handle, "three")
	p.post("keyed 3", backend.Posting{Key: "k"})
	p.is("received, those of a group together", p.Drain(p.q), []string{"one", "two", "three", "keyed 1", "keyed 2", "keyed 3", "post"})
}

func putWithheld(p *place) {
	d := p.begin(p.sides("d"))
	p.Do(func(tx backend.Tx) error {
		_, err := tx.Withhold(p.Ctx, []backend.Outgoing{Message(d.A.Handle, "1"), Message(d.A.Handle, "2")}, "no target")
		return err
	})
}

func checkWithheld(p *place) {
	d := p.sides("d")
	list, err := p.Backend.Withheld(p.Ctx, backend.ID{}, 10)
	p.OK(err)
	if len(list) != 1 || list[0].From.Handle != d.A.Handle || list[0].Count != 2 || list[0].Status != "no target" {
		p.Fatalf("withheld: %+v", list)
	}
	p.Do(func(tx backend.Tx) error { _, err := tx.Accept(p.Ctx, p.Version, d.A.Handle, d.B); return err })
	p.Do(func(tx backend.Tx) error { _, err := tx.Deliver(p.Ctx, d.A.Handle); return err })
	p.Send(d.A.Handle, "3")
	p.is("received", p.Drain(p.q), []string{"1", "2", "3"})
}

func putRetained(p *place) {
	m := Message(p.open(p.sides("d")).A.Handle, "kept")
	m.Retain = true
	p.Do(func(tx backend.Tx) error { _, err := tx.Send(p.Ctx, p.Version, []backend.Outgoing{m}); return err })
	h := p.take(1, time.Minute)[0]
	p.Settle(backend.Outcome{Hold: h, Done: h.Messages, Retain: true})
}

func checkRetained(p *place) {
	d := p.sides("d")
	for handle, sent := range map[backend.ID]bool{d.A.Handle: true, d.B.Handle: false} {
		list, err := p.Backend.Retained(p.Ctx, handle)
		p.OK(err)
		if len(list) != 1 || list[0].Sent != sent || string(list[0].Message.Body) != "kept" {
			p.Errorf("retained: %+v", list)
		}
	}
	p.End(backend.End{Handle: d.A.Handle})
	list, err := p.Backend.Retained(p.Ctx, d.A.Handle)
	p.OK(err)
	p.is("retained after END", len(list), 0)
}

func putDead(p *place) {
	p.settled(backend.Outcome{Dead: []backend.DeadLetter{{Reason: "rotten"}}})
	d := p.begin(p.sides("discarded"))
	p.Do(func(tx backend.Tx) error {
		_, err := tx.Withhold(p.Ctx, []backend.Outgoing{Message(d.A.Handle, "discarded")}, "no target")
		return errors.Join(err, func() error { _, err := tx.Discard(p.Ctx, d.A.Handle, "dropped"); return err }())
	})
}

func checkDead(p *place) {
	dead, err := p.Backend.DeadLetters(p.Ctx, backend.DeadQuery{Limit: 10, Bodies: true})
	p.OK(err)
	var list []string
	for _, d := range dead {
		list = append(list, fmt.Sprintf("%s %s %s %v", d.Message.Body, d.Reason, d.Message.Key, d.Queue == p.q))
		p.Do(func(tx backend.Tx) error {
			was, err := tx.RemoveDead(p.Ctx, d.Message.ID)
			p.is("there was a dead letter", was, true)
			return err
		})
	}
	p.is("dead letters", sorted(list), []string{"dialog rotten  true", "discarded dropped  false", "key rotten k true", "post rotten  true"})
	p.is("received", p.Drain(p.q), []string{})
}

func putTimers(p *place) {
	far := p.sides("far")
	far.A.Lifetime, far.B.Lifetime = years, years
	over := p.sides("over")
	over.A.Lifetime, over.B.Lifetime = time.Millisecond, time.Millisecond
	p.open(far)
	p.open(over)
	p.Do(func(tx backend.Tx) error { return tx.SetTimer(p.Ctx, far.A.Handle, years) })
	p.Do(func(tx backend.Tx) error { return tx.SetTimer(p.Ctx, far.B.Handle, time.Millisecond) })
}

func checkTimers(p *place) {
	far, over := p.sides("far"), p.sides("over")
	list, err := p.Backend.Conversations(p.Ctx, backend.ConversationQuery{Limit: 10, Handle: far.A.Handle})
	p.OK(err)
	if len(list) != 2 || list[0].Timer < years/2 || list[0].Lifetime < years/2 || list[1].Lifetime < years/2 {
		p.Errorf("timers and lifetimes: %+v", list)
	}
	due, err := p.Backend.Overdue(p.Ctx)
	p.OK(err)
	p.is("overdue", []bool{due[backend.JobTimers] > 0, due[backend.JobLifetimes] > 0}, []bool{true, true})
	p.MaintainUntil(backend.JobTimers, 1)
	p.MaintainUntil(backend.JobLifetimes, 2)
	p.is("received", sorted(p.Drain(p.q)), []string{"<DialogTimer>", "<Error>", "<Error>"})
	p.is("error", p.endpoint(over.B.Handle).Error.Code, backend.CodeLifetime)
	p.Do(func(tx backend.Tx) error { return tx.SetTimer(p.Ctx, far.A.Handle, time.Millisecond) })
	p.MaintainUntil(backend.JobTimers, 1)
	p.is("received after that", p.Drain(p.q), []string{"<DialogTimer>"})
}

func putEnded(p *place) {
	d := p.open(p.sides("d"))
	p.Send(d.A.Handle, "last")
	p.End(backend.End{Handle: d.A.Handle})
	p.End(backend.End{Handle: p.open(p.sides("cleaned")).A.Handle, Kind: backend.EndCleanup})
	m := Message(p.open(p.sides("sealed")).A.Handle, "sealed")
	m.Last = true
	p.Do(func(tx backend.Tx) error { _, err := tx.Send(p.Ctx, p.Version, []backend.Outgoing{m}); return err })
}

func checkEnded(p *place) {
	d, sealed := p.sides("d"), p.sides("sealed")
	p.is("states", []any{p.endpoint(d.A.Handle).State, p.endpoint(d.B.Handle).State}, []any{backend.DisconnectedOutbound, backend.DisconnectedInbound})
	p.is("the far side is cleaned up", p.endpoint(p.sides("cleaned").B.Handle).FarCleaned, true)
	p.gone(p.sides("cleaned").A.Handle)
	p.is("sealed", p.endpoint(sealed.A.Handle).Sealed, true)
	for handle, want := range map[backend.ID]backend.Refusal{d.B.Handle: backend.RefusedFar, d.A.Handle: backend.RefusedEnded, sealed.A.Handle: backend.RefusedSealed} {
		err := p.Try(func(tx backend.Tx) error {
			_, err := tx.Send(p.Ctx, p.Version, []backend.Outgoing{Message(handle, "x")})
			return err
		})
		var r *backend.Refused
		if !errors.As(err, &r) || r.Refusals[0] != want {
			p.Errorf("send: %v, want refusal %q", err, want)
		}
	}
	p.is("received", p.Drain(p.q), []string{"last", "<EndDialog>", "sealed"})
	p.is("ended", p.End(backend.End{Handle: d.B.Handle}).FarGone, true)
	p.Maintain(backend.JobClosed)
	p.gone(d.B.Handle)
}

func putErrors(p *place) {
	told, ended := p.open(p.sides("told")), p.open(p.sides("ended"))
	p.Do(func(tx backend.Tx) error {
		return tx.Notice(p.Ctx, backend.Notice{To: told.B.Handle, Kind: backend.KindError, Error: &backend.DialogError{Code: -1, Text: "broken"}})
	})
	p.End(backend.End{Handle: ended.A.Handle, Kind: backend.EndError, Error: &backend.DialogError{Code: 42, Text: "no & no"}})
}

func checkErrors(p *place) {
	for name, want := range map[string]backend.DialogError{"told": {Code: -1, Text: "broken"}, "ended": {Code: 42, Text: "no & no"}} {
		e := p.endpoint(p.sides(name).B.Handle)
		if e.State != backend.Errored || e.Error == nil || *e.Error != want {
			p.Errorf("%s: state %v, error %v, want %v", name, e.State, e.Error, want)
		}
	}
	p.is("received", p.Drain(p.q), []string{"<Error>", "<Error>"})
}

func putClosed(p *place) {
	for name, keep := range map[string]time.Duration{"kept": years, "over": time.Millisecond} {
		d := p.open(p.sides(name))
		p.End(backend.End{Handle: d.A.Handle, Keep: keep})
		p.End(backend.End{Handle: d.B.Handle, Keep: keep})
	}
}

func checkClosed(p *place) {
	kept, over := p.sides("kept"), p.sides("over")
	p.Maintain(backend.JobClosed)
	for _, handle := range []backend.ID{kept.A.Handle, kept.B.Handle} {
		p.is("kept", p.endpoint(handle).State, backend.Closed)
	}
	p.gone(over.A.Handle)
	p.gone(over.B.Handle)
}

func putTogether(p *place) {
	d, e := p.open(p.sides("d")), p.open(p.sides("e"))
	p.Do(func(tx backend.Tx) error {
		return errors.Join(tx.LockGroup(p.Ctx, d.B.Group), tx.LockGroup(p.Ctx, e.B.Group), tx.Move(p.Ctx, d.B.Handle, e.B.Group, false))
	})
	p.Send(d.A.Handle, "1")
	p.Send(e.A.Handle, "2")
}

func checkTogether(p *place) {
	d, e := p.sides("d"), p.sides("e")
	p.Do(func(tx backend.Tx) error {
		members, err := tx.Members(p.Ctx, e.B.Group)
		p.is("members", len(members), 2)
		return err
	})
	h := p.One(p.Request(p.q))
	p.is("received together", []any{h.Group, sorted(Bodies(h.Messages))}, []any{e.B.Group, []string{"1", "2"}})
	p.Ack(h)
	p.Send(d.A.Handle, "3")
	p.is("group", p.One(p.Request(p.q)).Group, e.B.Group)
}

func putDelayed(p *place) {
	p.post("later", backend.Posting{Delay: years})
	p.post("keyed later", backend.Posting{Delay: years, Key: "k"})
	p.post("due", backend.Posting{Delay: time.Millisecond})
	p.post("keyed due", backend.Posting{Delay: time.Millisecond, Key: "k"})
}

func checkDelayed(p *place) {
	p.MaintainUntil(backend.JobDelayed, 2)
	p.is("received", sorted(p.Drain(p.q)), []string{"due", "keyed due"})
	p.is("delayed", p.queue(p.q).Delayed, 2)
	for _, name := range []string{"later", "keyed later"} {
		s, err := p.Backend.PostStatus(p.Ctx, p.q, p.id(name))
		p.OK(err)
		p.is(name, []any{s.State, s.Due > years/2, string(s.Body)}, []any{"delayed", true, name})
		p.Do(func(tx backend.Tx) error { return tx.Cancel(p.Ctx, p.q, p.id(name)) })
	}
}

func putUnique(p *place) {
	p.post("post", backend.Posting{Unique: "u"})
	p.post("key", backend.Posting{Unique: "v", Key: "k"})
	p.post("later", backend.Posting{Unique: "w", Delay: years})
}

func checkUnique(p *place) {
	posted := func(unique string) (other backend.ID) {
		x := p.Posting(backend.Posting{Queue: p.q, Unique: unique})
		p.Do(func(tx backend.Tx) error {
			done, err := tx.Post(p.Ctx, p.Version, []backend.Posting{x})
			other = done[0].Duplicate
			return err
		})
		return other
	}
	for unique, name := range map[string]string{"u": "post", "v": "key", "w": "later"} {
		p.is("duplicate of "+name, posted(unique), p.id(name))
	}
	p.is("received", p.Drain(p.q), []string{"post", "key"})
	p.is("after the post", posted("u"), backend.ID{})
}

func putProcessed(p *place) {
	p.settled(backend.Outcome{Keep: years})
	p.post("over", backend.Posting{})
	h := p.take(1, time.Minute)[0]
	p.Settle(backend.Outcome{Hold: h, Done: h.Messages, Keep: time.Millisecond})
}

func checkProcessed(p *place) {
	p.MaintainUntil(backend.JobProcessed, 1)
	for _, name := range []string{"post", "key"} {
		s, err := p.Backend.PostStatus(p.Ctx, p.q, p.id(name))
		p.OK(err)
		p.is(name, []any{s.State, string(s.Body)}, []any{"processed", name})
	}
	_, err := p.Backend.PostStatus(p.Ctx, p.q, p.id("over"))
	p.Is(err, backend.ErrNotPending)
}

func putLeased(p *place) {
	p.three()
	p.take(3, years)
	p.post("over", backend.Posting{})
	p.take(1, time.Millisecond)
}

func checkLeased(p *place) {
	p.is("leased", p.queue(p.q).Leased, 3)
	p.is("groups", p.groups(), []string{"held test 1 true", "held test 1 true", "held test 1 true", "ready  1 false"})
	h := p.One(p.Request(p.q))
	p.is("received after its lease", []any{Bodies(h.Messages), h.Messages[0].Deaths}, []any{[]string{"over"}, 1})
	p.Ack(h)
	p.is("the rest is in hand", p.None(p.Request(p.q)).Contended, true)
	p.Is(p.Try(func(tx backend.Tx) error { return tx.LockGroup(p.Ctx, p.sides("d").B.Group) }), backend.ErrGroupBusy)
}

func putDeferred(p *place) {
	p.settled(backend.Outcome{Defer: years})
	p.post("due", backend.Posting{})
	p.Settle(backend.Outcome{Hold: p.take(1, time.Minute)[0], Defer: time.Millisecond})
}

func checkDeferred(p *place) {
	p.Maintain(backend.JobDeferred)
	p.is("received when it is due", p.Drain(p.q), []string{"due"})
	p.is("deferred", p.queue(p.q).Deferred, 3)
	p.is("groups", p.groups(), []string{"deferred  1 true", "deferred  1 true", "deferred  1 true"})
	p.is("received", p.free(), allThree)
}

func putParked(p *place) { p.settled(backend.Outcome{Park: "bad"}) }

func checkParked(p *place) {
	p.is("parked", p.queue(p.q).Parked, 3)
	p.is("groups", p.groups(), []string{"parked bad 1 false", "parked bad 1 false", "parked bad 1 false"})
	p.is("received at first", p.Drain(p.q), []string{})
	p.is("received", p.free(), allThree)
}

func putPromoted(p *place) {
	p.post("plain", backend.Posting{})
	p.post("one-shot", backend.Posting{})
	d := p.open(p.sides("d"))
	p.Send(d.A.Handle, "sticky")
	p.Do(func(tx backend.Tx) error {
		return errors.Join(tx.Promote(p.Ctx, backend.Promotion{Group: p.id("one-shot"), Level: 5}),
			tx.Promote(p.Ctx, backend.Promotion{Group: d.B.Group, Level: 7, Sticky: true}))
	})
}

func checkPromoted(p *place) {
	promotions := func() (list []string) {
		all, err := p.Backend.Promotions(p.Ctx, backend.ID{}, 10)
		p.OK(err)
		for _, x := range all {
			list = append(list, fmt.Sprint(x.Level, x.Sticky, x.Queue == p.q))
		}
		return sorted(list)
	}
	p.is("promotions", promotions(), []string{"5 false true", "7 true true"})
	p.is("received", p.Drain(p.q), []string{"sticky", "one-shot", "plain"})
	p.is("promotions after that", promotions(), []string{"7 true true"})
	p.post("again", backend.Posting{})
	p.Send(p.sides("d").A.Handle, "still sticky")
	p.is("received after that", p.Drain(p.q), []string{"still sticky", "again"})
}

func putFailed(p *place) {
	p.settled(backend.Outcome{Failure: &backend.Failure{Attempts: 2, Deaths: 1, Error: "oops"}, Defer: years})
}

func checkFailed(p *place) {
	p.Do(func(tx backend.Tx) error {
		return errors.Join(tx.Unpark(p.Ctx, p.sides("d").B.Group), tx.Unpark(p.Ctx, p.id("post")))
	})
	for range 2 {
		h := p.One(p.Request(p.q))
		m := h.Messages[0]
		p.is("failure of "+string(m.Body), []any{m.Attempts, m.Deaths, m.LastError}, []any{2, 1, "oops"})
		p.Ack(h)
	}
	p.is("received", p.free(), []string{"key"})
}
