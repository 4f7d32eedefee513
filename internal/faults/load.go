package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/applock"
	"github.com/parleymq/parley/phases"
)

// sender is one of a program's goroutines that make work. It is the only writer of the
// streams that it names.
type sender struct {
	*program
	b    *parley.Broker
	own  connection
	role role
	name string
	next map[string]int // the next number in each stream

	keys   [6]int // of posts; 0 is none
	newest int

	diary    *parley.Sender   // by load_diary.go
	session  *applock.Session // by load_locks.go
	schedule *phases.Plan     // by load_tasks.go
}

// loads are what senders do, each as often as its weight says. What only sends never waits for a handler, and
// is all that is done by brokers that are senders.
var loads = []struct {
	name   string
	weight int
	sends  bool
	step   func(*sender, context.Context) error
}{
	{"posts", 20, true, (*sender).posts},
	{"dialogs", 8, true, (*sender).dialogs},
	{"diary", 6, true, (*sender).entries},
	{"shared", 8, true, (*sender).shared},
	{"alone", 8, true, (*sender).alone},
	{"unique", 6, true, (*sender).uniques},
	{"once", 4, true, (*sender).once},
	{"errors", 4, true, (*sender).errors},
	{"cancels", 6, false, (*sender).cancels},
	{"ranked", 4, false, (*sender).rankedPosts},
	{"operators", 10, false, (*sender).operate},
	{"groups", 8, false, (*sender).move},
	{"tasks", 2, false, (*sender).submit},
	{"locks", 8, false, (*sender).lock},
}

// kindsVariable narrows a run to some loads, with commas between.
const kindsVariable = "PARLEY_FAULTS_KINDS"

func wanted(load string) bool {
	only := os.Getenv(kindsVariable)
	return only == "" || strings.Contains(","+only+",", ","+load+",")
}

// run takes a step after the other, of loads that it draws, until the programs are told
// to stop.
func (s *sender) run(ctx context.Context, fail func(error)) {
	var deck []func(*sender, context.Context) error
	for _, l := range loads {
		for range l.weight {
			if wanted(l.name) && (l.sends || s.role == roleBoth) {
				deck = append(deck, l.step)
			}
		}
	}
	for ctx.Err() == nil && len(deck) > 0 && !s.stopped() {
		if s.role == roleSender { // with no handlers beside it, it is many times as fast
			time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
		}
		if s.backlog.Load() > mostWaiting {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		switch err := deck[random.IntN(len(deck))](s, context.WithoutCancel(ctx)); {
		case err == nil:
		case passing(err):
			time.Sleep(20 * time.Millisecond)
		default:
			fail(err)
			return
		}
	}
}

var errNoRow = errors.New("the hot row was not changed")

var errBack = errors.New("rolled back on purpose")

// send writes messages down and sends them in one transaction: f calls log for each of
// them before it sends it.
func (s *sender) send(ctx context.Context, f func(tx *parley.Tx, log func(event)) error) error {
	var events []event
	k, err := s.transact(ctx, func(tx *parley.Tx) error {
		return f(tx, func(e event) {
			e.Kind = sending
			s.rec.write(e)
			events = append(events, e)
		})
	})
	for _, e := range events {
		e.Kind = k
		s.rec.write(e)
	}
	return err
}

// transact works in a transaction, which may be the program's own, and says what became of that.
func (s *sender) transact(ctx context.Context, f func(tx *parley.Tx) error) (kind, error) {
	complete, joins := false, s.own.begin != nil && random.IntN(3) == 0
	in := s.b.InTx
	if joins {
		in = s.join
	}
	err := in(ctx, func(tx *parley.Tx) error {
		err := f(tx)
		if err == nil && random.IntN(20) == 0 {
			err = errBack
		}
		complete = err == nil
		return err
	})
	atSnapshot := joins && s.own.snapshot
	// A single writer has no deadlocks, and waits for its turn.
	if s.role == roleSender && !atSnapshot && errors.Is(err, parley.ErrSerialization) && !s.b.Backend().Capabilities().SingleWriter {
		s.rec.write(event{Kind: deadlocked, Name: err.Error()})
	}
	k := outcome(err, complete)
	if atSnapshot { // some verbs do not work there
		err = unless(err, parley.ErrIsolation)
	}
	return k, err
}

// join is InTx in a transaction of the program's. If its COMMIT fails, it may have been carried out all the same.
func (s *sender) join(ctx context.Context, f func(*parley.Tx) error) error {
	t, err := s.own.begin(ctx, s.b)
	if err != nil {
		return err
	}
	if err := f(t.tx); err != nil {
		t.rollback()
		return err
	}
	if err := t.commit(); err != nil {
		return errors.Join(parley.ErrConnection, err)
	}
	return nil
}

// outcome says what became of a transaction that was begun to commit, or not.
func outcome(err error, committing bool) kind {
	switch {
	case err == nil:
		return sent
	case committing && errors.Is(err, parley.ErrConnection) && !errors.Is(err, parley.ErrNotBegun):
		return unknown
	}
	return undone
}

// unless returns an error, or nil if it is one of those.
func unless(err error, those ...error) error {
	if slices.ContainsFunc(those, func(e error) bool { return errors.Is(err, e) }) {
		return nil
	}
	return err
}

// nextIn returns the event of the next message of a stream.
func (s *sender) nextIn(stream string) event {
	e := event{Stream: stream, Seq: s.next[stream]}
	s.next[stream]++
	return e
}

// single returns the event of the only message of a stream of its own.
func (s *sender) single(load string) event { return event{Stream: load + "/" + s.serialName()} }

// body is what a message carries.
type body struct {
	Stream string
	Seq    int
	Left   int     `json:",omitempty"` // requests that follow in its dialog
	Owed   *effect `json:",omitempty"` // of the request, whose handler only answered
}

func (b body) payload(typ string) parley.Payload {
	text, err := json.Marshal(b)
	if err != nil {
		panic(err)
	}
	return parley.Payload{Type: typ, Body: text}
}

func bodyOf(m *parley.Message) (b body, err error) { return b, json.Unmarshal(m.Body, &b) }

// handlers are a broker's.
type handlers struct {
	*program
	b *parley.Broker
}

// mux has the handlers of all loads.
func (h *handlers) mux() *parley.Mux {
	mux := parley.NewMux()
	mux.HandleFunc(parley.DefaultType, h.post)
	mux.HandleFunc(requestType, h.request)
	mux.HandleFunc(replyType, h.reply)
	mux.HandleFunc(parley.DialogTimer, h.timer)
	mux.HandleFunc(parley.EndDialog, h.ended)
	mux.HandleFunc(parley.ErrorMessageType, h.errored)
	mux.HandleFunc(entryType, h.entry)
	mux.HandleFunc(tickType, h.tick)
	return mux
}

// attempt is a call of a handler.
type attempt struct {
	name string
	tx   *parley.Tx
	rec  *recorder
}

// posts writes down that the attempt sends a message in its transaction.
func (a *attempt) posts(stream string, seq int) {
	a.rec.write(event{Kind: posted, Stream: stream, Seq: seq, Attempt: a.name})
}

// handle writes the effect of a message, and calls then for what follows from it in the
// same transaction.
func (h *handlers) handle(ctx context.Context, m *parley.Message, b body, then func(a *attempt) error) error {
	return h.try(ctx, m, b, func(a *attempt) error {
		err := a.writes(ctx, m, b)
		if err == nil && then != nil {
			err = then(a)
		}
		return err
	})
}

// answer has half of the handlers answer before they write the effect. A worker may send such an answer later.
func (h *handlers) answer(ctx context.Context, m *parley.Message, b body, say func(a *attempt) error) error {
	if random.IntN(2) == 0 {
		return h.handle(ctx, m, b, say)
	}
	return h.try(ctx, m, b, func(a *attempt) error {
		if err := say(a); err != nil {
			return err
		}
		return a.writes(ctx, m, b)
	})
}

// try is an attempt that may do something on the side before, and fail behind.
func (h *handlers) try(ctx context.Context, m *parley.Message, b body, f func(a *attempt) error) error {
	return h.attempted(m.Group, b, func(a *attempt) error {
		err := h.aside(ctx)
		if err == nil {
			err = f(a)
		}
		if err == nil && random.IntN(50) == 0 {
			err = errors.New("failed on purpose")
		}
		return err
	})
}

// writes opens the transaction of the attempt and writes the effect of its message there, and what the handler of the
// request has left to that of the reply.
func (a *attempt) writes(ctx context.Context, m *parley.Message, b body) (err error) {
	if a.tx, err = m.Tx(ctx); err == nil {
		err = writeEffect(ctx, a.tx, effect{b.Stream, b.Seq, a.name, hotRow()})
	}
	if err == nil && b.Owed != nil {
		err = writeEffect(ctx, a.tx, *b.Owed)
	}
	return err
}

// attempted writes down the call of a handler; tasks have no group.
func (p *program) attempted(group parley.ID, b body, f func(a *attempt) error) error {
	e := event{Kind: began, Stream: b.Stream, Seq: b.Seq, Attempt: p.serialName()}
	if !group.IsZero() {
		e.Group = group.String()
	}
	p.rec.write(e)
	defer func() {
		p.rec.write(event{Kind: returned, Stream: e.Stream, Seq: e.Seq, Attempt: e.Attempt})
	}()
	return f(&attempt{name: e.Attempt, rec: p.rec})
}

// aside is what some handlers do outside of their transactions: they are slow, or post
// by the broker. Such a post is there whatever becomes of the attempt, and each attempt
// makes one of its own.
func (h *handlers) aside(ctx context.Context) error {
	switch n := random.IntN(400); {
	case n == 0:
		time.Sleep(1100 * time.Millisecond) // long enough to go on by lease
	case n < 10:
		time.Sleep(20 * time.Millisecond)
	case n < 30:
		e := event{Kind: sending, Stream: "aside/" + h.serialName()}
		h.rec.write(e)
		_, err := h.b.Post(ctx, postQueue, body{Stream: e.Stream}.payload(parley.DefaultType))
		e.Kind = outcome(err, true)
		h.rec.write(e)
		return err
	}
	return nil
}

// writeEffect writes the effect of a message. The values are the program's own, and need
// no quoting.
func writeEffect(ctx context.Context, tx *parley.Tx, e effect) error {
	_, err := tx.SQL().ExecContext(ctx, fmt.Sprintf(
		"INSERT INTO faults_effect (stream, seq, attempt, hot) VALUES ('%s', %d, '%s', %d)",
		e.Stream, e.Seq, e.Attempt, e.Hot))
	if err == nil && e.Hot >= 0 {
		var res sql.Result
		res, err = tx.SQL().ExecContext(ctx, fmt.Sprintf("UPDATE faults_hot SET n = n + 1 WHERE id = %d", e.Hot))
		if err != nil {
			return err
		}
		// MariaDB may report success for a statement that its time limit has ended.
		if n, err := res.RowsAffected(); err != nil || n != 1 {
			return errors.Join(errNoRow, err)
		}
	}
	return err
}

// hotRow is a row that some effects count up, which many handlers want.
func hotRow() int {
	if random.IntN(4) > 0 {
		return notHot
	}
	return random.IntN(hotRows)
}
