package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// What the comments of package backend say of single methods, and what no program sees at once.
func init() {
	add(
		check{ID: "B01", Name: "methods of a store on handles that are not there", Run: checkContractUnknown},
		check{ID: "B01", Name: "methods of a store on a side that has ended", Run: checkContractEnded},
		check{ID: "B01", Name: "of several refusals the first wins", Run: checkContractRefusals},
		check{ID: "B05", Name: "methods of a store under a lost lease", Run: checkContractLost},
		check{ID: "B07", Name: "a store that is not migrated describes itself", Run: checkContractInfo},
		check{ID: "B10", Name: "what was received is the caller's", Run: checkContractReceived},
		check{ID: "D04", Name: "what is withheld stays as long as there is no target", Run: checkContractNoTarget},
		check{ID: "E09", Name: "an end that is discarded counts", Run: checkContractDiscard},
		check{ID: "F06", Name: "a task that is retried has all its attempts again", Run: checkContractRetry},
		check{ID: "F11", Name: "a plan that is over has no phase", Run: checkContractOver},
		check{ID: "G07", Name: "a rollback under a context that has ended", Run: checkContractRollback},
		check{ID: "I5", Name: "a group that a transaction has is granted to it again", Run: checkContractAgain},
		check{ID: "V05", Name: "what operators list is what they asked for", Run: checkContractLists},
	)
}

// verb is a method of a store in a transaction, and what it has to return.
type verb struct {
	name string
	do   func(tx backend.Tx) error
	want error // nil: none
}

// verbs calls methods in one transaction, which stays usable, and rolls it back.
func (s *invBelow) verbs(what string, list ...verb) {
	tx := s.begin()
	for _, v := range list {
		if err := v.do(tx); !errors.Is(err, v.want) {
			s.Errorf("%s on %s: %v, want %v", v.name, what, err, v.want)
		}
	}
	if _, err := tx.Catalog(s.Ctx, false); err != nil {
		s.Errorf("after that the transaction reads no catalog: %v", err)
	}
	s.rollback(tx)
}

// refused is what a send has to return that is refused for a reason.
func refused(err error, why backend.Refusal) error {
	var r *backend.Refused
	if !errors.As(err, &r) || len(r.Refusals) != 1 || r.Refusals[0] != why {
		return fmt.Errorf("it returned %v, want that it is refused: %v", err, why)
	}
	return nil
}

func (s *invBelow) message(from backend.ID) []backend.Outgoing {
	return []backend.Outgoing{{ID: backend.NewID(), From: from, Type: s.Any, Kind: backend.KindUser, Body: []byte("x")}}
}

func (s *invBelow) noneOf(handle backend.ID) func(tx backend.Tx) error {
	return func(tx backend.Tx) error {
		c, err := tx.Claim(s.Ctx, s.request(backend.ClaimRequest{Handle: handle}))
		if err == nil && len(c.Holds) > 0 {
			err = fmt.Errorf("it has %d groups", len(c.Holds))
		}
		return err
	}
}

func checkContractUnknown(e *env) {
	s := invUnder(e.idle())
	good, unknown := s.Dialog("message"), backend.NewID()
	gone := backend.ErrNoConversation
	timer := func(tx backend.Tx) error { return tx.SetTimer(e.Ctx, unknown, time.Hour) }
	s.verbs("a handle that is not there",
		verb{"Endpoint", func(tx backend.Tx) error { _, err := tx.Endpoint(e.Ctx, unknown); return err }, gone},
		verb{"SetTimer", timer, gone},
		verb{"TryStream", func(tx backend.Tx) error { return tx.TryStream(e.Ctx, unknown) }, gone},
		verb{"Notice", func(tx backend.Tx) error {
			return tx.Notice(e.Ctx, backend.Notice{To: unknown, Kind: backend.KindTimer})
		}, gone},
		verb{"Deliver", func(tx backend.Tx) error { _, err := tx.Deliver(e.Ctx, unknown); return err }, gone},
		verb{"Discard", func(tx backend.Tx) error { _, err := tx.Discard(e.Ctx, unknown, "check"); return err }, gone},
		verb{"Resend from it", func(tx backend.Tx) error { _, err := tx.Resend(e.Ctx, unknown, good, "check"); return err }, gone},
		verb{"Resend to it", func(tx backend.Tx) error { _, err := tx.Resend(e.Ctx, good, unknown, "check"); return err }, gone},
		verb{"Accept", func(tx backend.Tx) error {
			_, err := tx.Accept(e.Ctx, s.version, unknown, backend.Endpoint{
				Handle: backend.NewID(), Conversation: backend.NewID(), FarHandle: unknown, Service: s.Server, FarService: s.Client,
				Contract: s.Contract, Queue: s.sq, Priority: 5,
			})
			return err
		}, gone},
		verb{"EndDialog", func(tx backend.Tx) error {
			_, err := tx.EndDialog(e.Ctx, backend.End{Handle: unknown, MessageID: backend.NewID()})
			return err
		}, gone},
		verb{"Send", func(tx backend.Tx) error {
			_, err := tx.Send(e.Ctx, s.version, s.message(unknown))
			return refused(err, backend.RefusedUnknown)
		}, nil},
		verb{"Withhold", func(tx backend.Tx) error {
			_, err := tx.Withhold(e.Ctx, s.message(unknown), "check")
			return refused(err, backend.RefusedUnknown)
		}, nil},
		verb{"Claim", s.noneOf(unknown), nil},
	)
	dlgBodies(s.world, s.SQ, nil, "message")
}

func checkContractEnded(e *env) {
	s := invUnder(e.idle())
	h, _ := dlgInState(s.world, "ended")
	s.verbs("a side that has ended",
		verb{"SetTimer", func(tx backend.Tx) error { return tx.SetTimer(e.Ctx, h, time.Hour) }, backend.ErrEnded},
		verb{"Notice", func(tx backend.Tx) error {
			return tx.Notice(e.Ctx, backend.Notice{To: h, Kind: backend.KindTimer})
		}, nil},
		verb{"Withhold", func(tx backend.Tx) error {
			_, err := tx.Withhold(e.Ctx, s.message(h), "check")
			return refused(err, backend.RefusedEnded)
		}, nil},
		verb{"Claim", s.noneOf(h), nil},
	)
	for _, kind := range []backend.EndKind{backend.EndPlain, backend.EndError, backend.EndCleanup} {
		s.verbs("a side that has ended", verb{fmt.Sprint("EndDialog of the kind ", kind), func(tx backend.Tx) error {
			ep, err := tx.Endpoint(e.Ctx, h)
			e.Must(err)
			e.Must(tx.LockGroup(e.Ctx, ep.Group))
			_, err = tx.EndDialog(e.Ctx, backend.End{
				Handle: h, Kind: kind, MessageID: backend.NewID(), Error: &backend.DialogError{Code: 1, Text: "check"},
			})
			return err
		}, backend.ErrEnded})
	}
}

// checkContractRefusals has messages that are refused for two reasons at once.
func checkContractRefusals(e *env) {
	s := invUnder(e.idle())
	send := func(what string, h backend.ID, want backend.Refusal) {
		s.verbs(what, verb{"Send", func(tx backend.Tx) error {
			_, err := tx.Send(e.Ctx, s.version, s.message(h))
			return refused(err, want)
		}, nil})
	}
	both, server := dlgInState(s.world, "conversing")
	dlgEndKept(s, both, server)
	send("a side that has ended, of a conversation that the other one has ended too", both, backend.RefusedEnded)

	sealed, server := dlgInState(s.world, "conversing")
	tx := s.begin()
	last := s.message(sealed)
	last[0].Last = true
	_, err := tx.Send(e.Ctx, s.version, last)
	e.Must(err)
	s.commit(tx)
	dlgEnd(s.world, server)
	send("a stream that has had its last message, whose other side has ended", sealed, backend.RefusedSealed)

	far, server := dlgInState(s.world, "conversing")
	dlgEnd(s.world, server)
	for h, why := range map[backend.ID]backend.Refusal{sealed: backend.RefusedSealed, far: backend.RefusedFar} {
		s.verbs(fmt.Sprint("a side that can send nothing: ", why), verb{"Withhold", func(tx backend.Tx) error {
			_, err := tx.Withhold(e.Ctx, s.message(h), "check")
			return refused(err, why)
		}, nil})
	}

	held, _ := dlgInState(s.world, "conversing")
	s.withhold(held, backend.Outgoing{Type: s.Any})
	e.Must(s.B.Admin().DisableQueue(e.Ctx, s.SQ))
	s = invUnder(s.world)
	send("a side with withheld messages, whose target's queue is disabled", held, backend.RefusedWithheld)
}

// dlgEndKept ends both sides of a conversation, which stays visible.
func dlgEndKept(s *invBelow, sides ...backend.ID) {
	for _, h := range sides {
		tx := s.begin()
		ep, err := tx.Endpoint(s.Ctx, h)
		s.Must(err)
		s.Must(tx.LockGroup(s.Ctx, ep.Group))
		_, err = tx.EndDialog(s.Ctx, backend.End{Handle: h, MessageID: backend.NewID(), Keep: time.Hour})
		s.Must(err)
		s.commit(tx)
	}
}

func checkContractLost(e *env) {
	s := invUnder(e.idle())
	for _, body := range []string{"kept", "lost"} {
		s.post(s.SQ, body)
	}
	claim := func(lease time.Duration) *backend.Hold {
		return s.claim(parley.HoldLease, backend.ClaimRequest{Lease: lease, MaxMessages: 1}).Hold
	}
	kept := claim(time.Minute)
	lost := claim(time.Millisecond) // and last: another claim might take it
	taken := (*invHeld)(nil)
	if !e.Soon(10*time.Second, func() bool {
		taken = s.claim(parley.HoldLease, backend.ClaimRequest{})
		return taken != nil
	}) {
		e.Fatalf("a lease of a millisecond does not end")
	}
	fenced := backend.ErrFenced
	s.verbs("a hold that another receiver has taken",
		verb{"Keep", func(tx backend.Tx) error { return tx.Keep(e.Ctx, lost, time.Minute, "check") }, fenced})
	for _, holds := range [][]*backend.Hold{{lost, kept}, {kept, lost}} {
		if err := s.be.Extend(e.Ctx, holds, time.Hour); !errors.Is(err, fenced) {
			e.Errorf("to extend a lease that is lost and another one: %v, want %v", err, fenced)
		}
		list, err := s.be.Groups(e.Ctx, backend.GroupQuery{Queue: s.sq, Group: kept.Group, Limit: 1})
		e.Must(err)
		if len(list) != 1 || list[0].Until < 30*time.Minute {
			e.Errorf("beside a lease that is lost, another one was not extended by an hour: %+v", list)
		}
		e.Must(s.be.Extend(e.Ctx, []*backend.Hold{kept}, time.Minute))
	}
}

func checkContractReceived(e *env) {
	s := invUnder(e.idle())
	s.Dialog("as sent")
	for range 3 {
		tx := s.begin()
		c, err := tx.Claim(e.Ctx, s.request(backend.ClaimRequest{}))
		e.Must(err)
		if len(c.Holds) != 1 || len(c.Holds[0].Messages) != 1 {
			e.Fatalf("a claim of the only message: %+v", c)
		}
		m := c.Holds[0].Messages[0]
		if string(m.Body) != "as sent" || m.Attempts != 0 {
			e.Fatalf("a receiver overwrites body and attempts of the message in its hands, and rolls back; the next one receives %q after %d attempts, want \"as sent\" after 0: "+
				"what a store returns must not share memory with the store", m.Body, m.Attempts)
		}
		copy(m.Body, "changed")
		m.Attempts = 7
		s.rollback(tx)
	}
}

func checkContractInfo(e *env) {
	if e.r.store.Fresh == nil {
		e.Skipf("Store.Fresh is not set")
	}
	be, err := e.r.store.Fresh(e.Ctx)
	e.Must(err)
	e.Cleanup(func() { be.Close() })
	info, err := be.Info(e.Ctx)
	if err != nil || info.Engine == "" || info.Schema != 0 || info.Program == 0 {
		e.Errorf("a store that is not migrated says %+v, %v; want its engine, schema 0, and the program's", info, err)
	}
}

func checkContractNoTarget(e *env) {
	s := invUnder(e.idle())
	h := s.Dialog()
	s.withhold(h, backend.Outgoing{Type: s.Any})
	tx := s.begin()
	if n, err := tx.Deliver(e.Ctx, h); n != 0 || err != nil {
		e.Errorf("without a target %d messages were delivered, %v; want none, and no error", n, err)
	}
	s.commit(tx)
	sides, err := s.be.Conversations(e.Ctx, backend.ConversationQuery{Handle: h, Limit: 1})
	e.Must(err)
	if len(sides) != 1 || sides[0].Withheld != 1 {
		e.Errorf("after that the conversation is %+v, want one withheld message", sides)
	}
}

func checkContractDiscard(e *env) {
	s := invUnder(e.idle())
	h := s.Dialog()
	s.withhold(h, backend.Outgoing{Type: s.Any})
	dlgEnd(s.world, h)
	tx := s.begin()
	n, err := tx.Discard(e.Ctx, h, "check")
	e.Must(err)
	s.commit(tx)
	letters, err := s.be.DeadLetters(e.Ctx, backend.DeadQuery{Limit: 100})
	e.Must(err)
	var kinds []backend.Kind
	for _, d := range letters {
		if d.Message.Stream == h {
			kinds = append(kinds, d.Message.Kind)
		}
	}
	slices.Sort(kinds)
	if want := []backend.Kind{backend.KindUser, backend.KindEnd}; n != 2 || !slices.Equal(kinds, want) {
		e.Errorf("of a message and an end %d were discarded, and the dead letters are of the kinds %v, want %v", n, kinds, want)
	}
}

// doTx does something in a separate transaction.
func (e *env) doTx(be backend.Backend, do func(tx backend.Tx) error) {
	tx, err := be.Begin(e.Ctx)
	e.Must(err)
	defer tx.Rollback(e.Ctx)
	e.Must(do(tx))
	e.Must(tx.Commit(e.Ctx))
}

// attempt claims the plan's only task, and ends it.
func (e *env) attempt(be backend.Backend, plan string, end backend.TaskState) (attempt int) {
	e.doTx(be, func(tx backend.Tx) error {
		holds, err := tx.ClaimTasks(e.Ctx, backend.TaskClaim{Plans: []string{plan}, Max: 1, Lease: time.Minute})
		if err != nil || len(holds) != 1 {
			return fmt.Errorf("a claim of the only task has %d, %v", len(holds), err)
		}
		attempt = holds[0].Attempt
		return tx.FinishTask(e.Ctx, holds[0], backend.TaskOutcome{State: end})
	})
	return attempt
}

func (e *env) plan(be backend.Backend, phase int) string {
	name := e.Name("plan")
	e.doTx(be, func(tx backend.Tx) error {
		return tx.Submit(e.Ctx, name, backend.PlanOptions{MaxAttempts: 2}, []backend.NewTask{{ID: backend.NewID(), Phase: phase}})
	})
	return name
}

func checkContractRetry(e *env) {
	be := e.Handle()
	plan := e.plan(be, 1)
	for _, x := range []struct {
		end  backend.TaskState
		want int
	}{{backend.TaskFailed, 1}, {backend.TaskDead, 2}} {
		if got := e.attempt(be, plan, x.end); got != x.want {
			e.Fatalf("attempt %d has the number %d", x.want, got)
		}
	}
	e.doTx(be, func(tx backend.Tx) error {
		_, _, err := tx.Control(e.Ctx, plan, backend.PlanRetry, backend.ID{})
		return err
	})
	if got := e.attempt(be, plan, backend.TaskDone); got != 1 {
		e.Errorf("the first attempt of a task that an operator retries has the number %d, want 1", got)
	}
}

func checkContractOver(e *env) {
	be := e.Handle()
	plan := e.plan(be, 3)
	phase := func(want backend.Progress) {
		p, err := be.Progress(e.Ctx, plan)
		want.ID = p.ID
		if err != nil || p != want {
			e.Errorf("the progress is %+v, %v; want %+v", p, err, want)
		}
	}
	phase(backend.Progress{Phase: 3})
	e.attempt(be, plan, backend.TaskDone)
	phase(backend.Progress{Over: true})
	if list, err := be.Plans(e.Ctx, plan+" not"); !errors.Is(err, backend.ErrNoPlan) {
		e.Errorf("of a name that no plan has %v are listed, %v; want %v", list, err, backend.ErrNoPlan)
	}
	tx, err := be.Begin(e.Ctx)
	e.Must(err)
	defer tx.Rollback(e.Ctx)
	if _, err := tx.NextFinished(e.Ctx, plan, backend.NewID()); !errors.Is(err, backend.ErrNoPlan) {
		e.Errorf("a finished task of a plan that was made anew: %v, want %v", err, backend.ErrNoPlan)
	}
}

func checkContractRollback(e *env) {
	s := invUnder(e.idle())
	h := s.Dialog("kept")
	tx := s.begin()
	_, err := tx.Send(e.Ctx, s.version, s.message(h))
	e.Must(err)
	ended, cancel := context.WithCancel(e.Ctx)
	cancel()
	if err := tx.Rollback(ended); err != nil {
		e.Errorf("a rollback under a context that has ended: %v", err)
	}
	s.Send(h, s.Ask, "next")
	dlgBodies(s.world, s.SQ, nil, "kept", "next")
	if err := tx.Rollback(e.Ctx); err != nil {
		e.Errorf("a second rollback: %v", err)
	}
}

func checkContractAgain(e *env) {
	s := invUnder(e.idle())
	h := s.Dialog("message")
	s.verbs("a group of the same transaction", verb{"LockGroup", func(tx backend.Tx) error {
		ep, err := tx.Endpoint(e.Ctx, h)
		e.Must(err)
		return errors.Join(tx.LockGroup(e.Ctx, ep.Group), tx.LockGroup(e.Ctx, ep.Group))
	}, nil})
}

func checkContractLists(e *env) {
	s := invUnder(e.idle())
	queues, err := s.be.Queues(e.Ctx, 0)
	e.Must(err)
	if !slices.IsSortedFunc(queues, func(a, b backend.QueueStatus) int { return cmp.Compare(a.Name, b.Name) }) {
		e.Errorf("queues are not listed by name: %+v", queues)
	}
	tx := s.begin()
	if was, err := tx.RemoveDead(e.Ctx, backend.NewID()); was || err != nil {
		e.Errorf("to remove a dead letter that is not there: there was one: %t, %v", was, err)
	}
	s.rollback(tx)
}
