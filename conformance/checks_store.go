package conformance

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		check{ID: "RA", Name: "a dead letter is of a message that is there", Run: checkDeadIsThere},
		check{ID: "A20", Name: "a group that another receiver leases is refused at once", Run: checkGroupWouldDeadlock},
		check{ID: "G07", Name: "closing a handle rolls back", Run: checkCloseRollsBack},
		check{ID: "G07", Name: "closing a handle rolls back what begins meanwhile", Run: checkCloseBesideBegin},
		check{ID: "G07", Name: "a transaction that waits is rolled back", Run: checkRollbackWhileWaiting},
		scripted("P14", "a key keeps the rank of its first post", `
			post SQ key k priority 2 type Any "low"
			post SQ key k priority 9 type Any "high"
			post SQ priority 5 type Any "between"
			receive SQ max 1 as r -> "between"
			ack r
			receive SQ max 1 as r -> "low"
			ack r
			post SQ priority 5 type Any "between again"
			order SQ "between again" "high"
		`, (*env).idle),
		scripted("P17", "a post raises its key", `
			post SQ key k priority 2 type Any "first"
			post SQ key k priority 2 type Any "second"
			post SQ key l priority 4 type Any "lower"
			post SQ priority 5 type Any "between"
			post SQ key k priority 9 raise true type Any "urgent"
			post SQ key k priority 3 type Any "last"
			post SQ key o priority 2 type Any "lowest"
			post SQ key l priority 1 raise true type Any "lower still"
			post SQ key m priority 8 raise true type Any "new"
			receive SQ max 1 as r -> "first"
			ack r
			order SQ "second" "urgent" "last" "new" "between" "lower" "lower still" "lowest"
		`, (*env).idle),
		check{ID: "E06", Name: "an end says what it did", Run: checkEnded},
		check{ID: "X16", Name: "a worker's own readers are alive", Run: checkOwnTraces},
		check{ID: "X17", Name: "everything is closed and opened again", Run: checkReopened},
		check{ID: "F06", Name: "a plan halts at the end of the phase", Run: checkHaltsAfterPhase},
		check{ID: "C06", Name: "the end of a stream is not sent again", Run: checkEndOfStreamStays},
		check{ID: "M06", Name: "the version of the catalog", Run: checkCatalogVersion},
	)
}

func checkDeadIsThere(e *env) {
	s := invUnder(e.idle())
	s.Dialog("first", "second")
	tx := s.begin()
	c, err := tx.Claim(e.Ctx, backend.ClaimRequest{
		Version: s.version, Queue: s.sq, MaxGroups: 1, MaxMessages: 2, MaxBytes: 1 << 20, Lease: time.Minute,
	})
	e.Must(err)
	if len(c.Holds) != 1 || len(c.Holds[0].Messages) != 2 {
		e.Fatalf("a claim of two messages has %+v", c.Holds)
	}
	s.commit(tx)
	hold, first := c.Holds[0], c.Holds[0].Messages[0]
	tx = s.begin()
	e.Must(tx.Reclaim(e.Ctx, []*backend.Hold{hold}))
	_, err = tx.Settle(e.Ctx, []backend.Outcome{{Hold: hold, Done: []*backend.Message{first}}})
	e.Must(err)
	e.Must(tx.Keep(e.Ctx, hold, time.Minute, "check"))
	s.commit(tx)
	tx = s.begin()
	e.Must(tx.Reclaim(e.Ctx, []*backend.Hold{hold}))
	dead := []backend.DeadLetter{{Message: first, Reason: "check"}}
	if _, err = tx.Settle(e.Ctx, []backend.Outcome{{Hold: hold, Dead: dead}}); !errors.Is(err, backend.ErrFenced) {
		e.Errorf("a settle that makes a dead letter of a message that is gone: %v, want %v", err, backend.ErrFenced)
	}
	s.rollback(tx)
	letters, err := s.be.DeadLetters(e.Ctx, backend.DeadQuery{Queue: s.sq, Limit: 10, Bodies: true})
	e.Must(err)
	if len(letters) != 0 {
		e.Errorf("there are dead letters: %+v", letters)
	}
}

func checkGroupWouldDeadlock(e *env) {
	if e.ManyWriters() {
		e.Skipf("the store has many writers")
	}
	s := invUnder(e.idle())
	h := s.Dialog("message")
	d := s.Receive(s.SQ, &parley.ReceiveOptions{Hold: parley.HoldLease})
	tx := s.begin()
	message := backend.Outgoing{ID: backend.NewID(), From: h, Type: s.Ask, Kind: backend.KindUser}
	_, err := tx.Send(e.Ctx, s.version, []backend.Outgoing{message})
	e.Must(err)
	if err, want := tx.LockGroup(e.Ctx, d.Group), backend.ErrWouldDeadlock; !errors.Is(err, want) {
		e.Errorf("a transaction that has the only turn asks for a group that is leased: %v, want %v", err, want)
	}
	s.rollback(tx)
	e.Must(d.Ack(e.Ctx))
}

func checkCloseRollsBack(e *env) {
	s := invUnder(e.idle())
	h := s.Dialog("kept")
	tx := s.begin()
	message := backend.Outgoing{ID: backend.NewID(), From: h, Type: s.Ask, Kind: backend.KindUser, Body: []byte("lost")}
	_, err := tx.Send(e.Ctx, s.version, []backend.Outgoing{message})
	e.Must(err)
	e.Must(s.be.Close())
	if err := tx.Commit(e.Ctx); err == nil {
		e.Errorf("a transaction was committed after its handle had been closed")
	}
	var got []string
	invPrompt(e, "receive after a handle was closed in a transaction", func(context.Context) error {
		got = bodiesOf(s.Drain(s.SQ))
		return nil
	})
	if !slices.Equal(got, []string{"kept"}) {
		e.Errorf("after a handle was closed in a transaction that had sent %q, there is %q", message.Body, got)
	}
	s.Send(h, s.Ask, "next")
}

// checkCloseBesideBegin begins transactions while their handle is closed: none of them may be left open.
func checkCloseBesideBegin(e *env) {
	for round := range 10 {
		be := e.Handle()
		first, err := be.Begin(e.Ctx) // later ones need not look at the schema
		e.Must(err)
		e.Must(first.Rollback(e.Ctx))
		var begins sync.WaitGroup
		var mu sync.Mutex
		var begun []backend.Tx
		for range 4 {
			begins.Go(func() {
				tx, err := be.Begin(e.Ctx)
				if err != nil {
					if !errors.Is(err, backend.ErrClosed) && !errors.Is(err, backend.ErrTxDone) {
						e.Errorf("to begin a transaction while the handle is closed: %v, want none or %q", err, backend.ErrClosed)
					}
					return
				}
				mu.Lock()
				defer mu.Unlock()
				begun = append(begun, tx)
			})
		}
		time.Sleep(time.Duration(round) * 100 * time.Microsecond)
		e.Must(be.Close())
		begins.Wait()
		for _, tx := range begun {
			if _, err := tx.Catalog(e.Ctx, false); !errors.Is(err, backend.ErrTxDone) && !errors.Is(err, backend.ErrClosed) {
				e.Errorf("a transaction that began while its handle was closed goes on: %v, want %q", err, backend.ErrTxDone)
				tx.Rollback(e.Ctx)
			}
		}
	}
}

// checkRollbackWhileWaiting rolls back a transaction whose verb waits for another one.
func checkRollbackWhileWaiting(e *env) {
	s := invUnder(e.idle())
	h := s.Dialog("first")
	send := func(tx backend.Tx) error {
		message := backend.Outgoing{ID: backend.NewID(), From: h, Type: s.Ask, Kind: backend.KindUser}
		_, err := tx.Send(e.Ctx, s.version, []backend.Outgoing{message})
		return err
	}
	one, two := s.begin(), s.begin()
	e.Must(send(one))
	ended := make(chan error, 1)
	go func() { ended <- send(two) }()
	select {
	case err := <-ended:
		e.Fatalf("a second sender on a conversation did not wait: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	done := make(chan error, 1)
	go func() { done <- two.Rollback(e.Ctx) }()
	time.Sleep(50 * time.Millisecond) // it may wait for the verb, and the verb for the first sender
	s.rollback(one)
	invPrompt(e, "rolling back a transaction while a verb of it waited", func(ctx context.Context) error {
		for _, c := range []chan error{done, ended} {
			select {
			case err := <-c:
				if c == done && err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	invPrompt(e, "sending after both senders were rolled back", func(ctx context.Context) error {
		return s.B.InTx(ctx, func(tx *parley.Tx) error {
			return tx.Conversation(h).Send(ctx, s.Ask, []byte("next"))
		})
	})
	if got, want := bodiesOf(s.Drain(s.SQ)), []string{"first", "next"}; !slices.Equal(got, want) {
		e.Errorf("after both senders were rolled back there are %q, want %q", got, want)
	}
}

func checkEnded(e *env) {
	s := invUnder(e.idle())
	h := s.Dialog("unread", "too")
	peer := dlgPeer(s.world, h)
	end := func(handle backend.ID, kind backend.EndKind) (done backend.Ended) {
		tx := s.begin()
		ep, err := tx.Endpoint(e.Ctx, handle)
		e.Must(err)
		e.Must(tx.LockGroup(e.Ctx, ep.Group))
		done, err = tx.EndDialog(e.Ctx, backend.End{
			Handle: handle, Kind: kind, MessageID: backend.NewID(), Keep: time.Hour,
			Error: &backend.DialogError{Code: 1, Text: "check"},
		})
		e.Must(err)
		s.commit(tx)
		return done
	}
	if got, want := end(h, backend.EndPlain), (backend.Ended{Queue: s.sq}); got != want {
		e.Errorf("the first end of a conversation did %+v, want %+v", got, want)
	}
	if got, want := end(peer, backend.EndError), (backend.Ended{Dropped: 3, FarEnded: true, FarGone: true}); got != want {
		e.Errorf("the second end, with three messages unread, did %+v, want %+v", got, want)
	}
}

func checkOwnTraces(e *env) {
	e.Needs(partReaders)
	s := invUnder(e.idle())
	m, worker := backend.NewID(), backend.NewID()
	put := func(worker backend.ID) []backend.Trace {
		reader := backend.NewID()
		traces, err := s.be.PutReader(e.Ctx, backend.ReaderRecord{
			Reader: reader, Worker: worker, Queue: s.sq, Owner: "check", Readers: 1, For: time.Minute, InHand: []backend.ID{m},
		})
		e.Must(err)
		e.Cleanup(func() { s.be.RemoveReaders(context.WithoutCancel(e.Ctx), worker, reader) })
		return traces
	}
	put(worker)
	if got := put(worker); len(got) != 0 {
		e.Errorf("what another reader of the same worker has in hand is told as %+v", got)
	}
	if got := put(backend.NewID()); len(got) != 2 {
		e.Errorf("a message that two readers of another worker have in hand is told as %+v", got)
	}
}

// checkReopened closes all handles on the store, those that checks share as well.
func checkReopened(e *env) {
	b := e.Broker(&parley.Options{NoMaintenance: true})
	w := e.WorldOn(b)
	w.Dialog("a message")
	h := w.Dialog()
	w.Tx(func(tx *parley.Tx) error { return tx.Conversation(h).SetTimer(e.Ctx, time.Hour) })
	w.posts([]string{"k"}, "a post")
	w.Tx(func(tx *parley.Tx) error { _, err := tx.Once(e.Ctx, e.Name("key")); return err })
	info, err := e.r.main.Info(e.Ctx)
	e.Must(err)

	e.r.forget()
	e.Must(b.Close())
	e.Must(e.r.main.Close())
	e.Must(e.r.open(e.Ctx))

	again := *w
	again.B = e.Broker(&parley.Options{NoMaintenance: true})
	if now, err := e.r.main.Info(e.Ctx); err != nil || now.Schema != info.Schema {
		e.Errorf("the schema's version was %d and is %d, %v", info.Schema, now.Schema, err)
	}
	sides, err := again.B.Backend().Conversations(e.Ctx, backend.ConversationQuery{Handle: h, Limit: 1})
	e.Must(err)
	if len(sides) != 1 || sides[0].Timer == 0 {
		e.Fatalf("after all handles were closed, a conversation with a timer is %+v", sides)
	}
	if !invWrote(&again, e.Name("key")) {
		e.Errorf("after all handles were closed, a key that was recorded is new")
	}
	got := bodiesOf(again.Drain(w.SQ))
	slices.Sort(got)
	if want := []string{"a message", "a post"}; !slices.Equal(got, want) {
		e.Errorf("after all handles were closed there are %q, want %q", got, want)
	}
}

func checkHaltsAfterPhase(e *env) {
	be := e.Handle()
	plan := e.Name("plan")
	var tasks []backend.NewTask
	for _, phase := range []int{1, 1, 2} {
		tasks = append(tasks, backend.NewTask{ID: backend.NewID(), Phase: phase})
	}
	in := func(do func(tx backend.Tx) error) {
		tx, err := be.Begin(e.Ctx)
		e.Must(err)
		defer tx.Rollback(e.Ctx)
		e.Must(do(tx))
		e.Must(tx.Commit(e.Ctx))
	}
	claim := func() (holds []backend.TaskHold) {
		in(func(tx backend.Tx) (err error) {
			holds, err = tx.ClaimTasks(e.Ctx, backend.TaskClaim{Plans: []string{plan}, Max: 1, Lease: time.Minute})
			return err
		})
		return holds
	}
	finish := func(h backend.TaskHold, state backend.TaskState) {
		in(func(tx backend.Tx) error { return tx.FinishTask(e.Ctx, h, backend.TaskOutcome{State: state}) })
	}
	in(func(tx backend.Tx) error { return tx.Submit(e.Ctx, plan, backend.PlanOptions{MaxAttempts: 1}, tasks) })
	first := claim()
	if len(first) != 1 {
		e.Fatalf("no task can be claimed")
	}
	finish(first[0], backend.TaskDead)
	if p, err := be.Progress(e.Ctx, plan); err != nil || p.Halted || p.Phase != 1 {
		e.Errorf("with a task dead and another one of its phase queued, the progress is %+v, %v, want phase 1, not halted", p, err)
	}
	second := claim()
	if len(second) != 1 || second[0].Phase != 1 {
		e.Fatalf("with one task of the phase dead, a claim has %+v, want the other one of the phase", second)
	}
	finish(second[0], backend.TaskDone)
	if more := claim(); len(more) != 0 {
		e.Errorf("with a task dead and its phase over, a claim has %+v", more)
	}
	if p, err := be.Progress(e.Ctx, plan); err != nil || !p.Halted || p.Over || p.Phase != 2 {
		e.Errorf("with a task dead and its phase over, the progress is %+v, %v, want halted before phase 2", p, err)
	}
}

func checkEndOfStreamStays(e *env) {
	s := invUnder(e.idle())
	from, to := s.Dialog(), s.Dialog()
	s.withhold(from, backend.Outgoing{Type: s.Any}, backend.Outgoing{Type: backend.TypeEndOfStream, Last: true})
	tx := s.begin()
	moved, err := tx.Resend(e.Ctx, from, to, "for the check")
	e.Must(err)
	s.commit(tx)
	if moved != 1 {
		e.Errorf("of a message and EndOfStream %d were moved to the next dialog, want 1", moved)
	}
	for _, x := range []struct {
		h    backend.ID
		want int
	}{{from, 0}, {to, 1}} {
		sides, err := s.be.Conversations(e.Ctx, backend.ConversationQuery{Handle: x.h, Limit: 1})
		e.Must(err)
		if len(sides) != 1 || sides[0].Withheld != x.want {
			e.Errorf("after a message was moved from one dialog to another, one shows %+v, want %d withheld", sides, x.want)
		}
	}
}

func checkCatalogVersion(e *env) {
	s := invUnder(e.idle())
	for range 2 {
		tx := s.begin()
		c, err := tx.Catalog(e.Ctx, true)
		e.Must(err)
		version, err := tx.PutCatalog(e.Ctx, &backend.Catalog{Types: []backend.MessageType{{Name: e.Name("type")}}})
		e.Must(err)
		s.commit(tx)
		tx = s.begin()
		now, err := tx.Catalog(e.Ctx, false)
		e.Must(err)
		s.rollback(tx)
		if version != c.Version+1 || now.Version != version {
			e.Errorf("a change of catalog %d made version %d, and now it is %d", c.Version, version, now.Version)
		}
	}
}
