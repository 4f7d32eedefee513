package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// violations counts violations of the promises.
type violations struct {
	Lost, Doubled, Disordered, Stuck, Broken int

	Operations int            // sends, handler calls, promotions, operators' verbs and locks
	Load       map[string]int // those that are not handler calls, by kind
	Faults     map[string]int // by kind
	Pauses     pauses
	Problems   []string // the first of them, for people
}

func (v *violations) problem(n *int, format string, args ...any) {
	*n++
	if len(v.Problems) < 20 {
		v.Problems = append(v.Problems, fmt.Sprintf(format, args...))
	}
}

func (v *violations) bad() bool { return v.Lost+v.Doubled+v.Disordered+v.Stuck+v.Broken > 0 }

func (v *violations) String() string {
	text := fmt.Sprintf("lost %d, doubled %d, out of order %d, stuck %d, broken %d",
		v.Lost, v.Doubled, v.Disordered, v.Stuck, v.Broken)
	if len(v.Pauses) > 0 {
		text += fmt.Sprintf(", pauses in seconds %v", v.Pauses)
	}
	return text
}

// message names a message by its place in its stream.
type message struct {
	Stream string
	Seq    int
}

func (m message) String() string { return fmt.Sprintf("%s #%d", m.Stream, m.Seq) }

// call is a call of a handler.
type call struct {
	message
	group    string
	from, to time.Time // to is zero if it did not return
	later    bool      // the handler of the reply wrote its effect
}

// passage is the way of a message, as far as its senders and receivers have told it.
type passage struct {
	state   kind      // sending, unless its outcome is known
	logged  time.Time // before the commit
	arrives time.Time // no receiver may have it before
	parents []string  // the attempts in whose transactions it was sent
}

// judge has a history in the forms in which the rules want it.
type judge struct {
	*violations
	history   []event
	rows      rows
	messages  map[message]*passage
	calls     map[string]*call   // by attempt
	committed map[string]bool    // the attempts that have an effect
	cancelled map[message]kind   // whether it may be gone: removed, kept, or cancelling, if that is open
	once      map[message]string // the key that was new
}

// check judges a history by what is in the user tables at its end. stall is the longest time
// without progress while messages wait and there is no fault. Clocks of processes may differ by
// slack, where theirs is the database's.
func check(history []event, rows rows, stall, slack time.Duration) *violations {
	slices.SortStableFunc(history, func(a, b event) int { return a.At.Compare(b.At) })
	j := &judge{&violations{Load: make(map[string]int), Faults: make(map[string]int)}, history, rows,
		make(map[message]*passage), make(map[string]*call), make(map[string]bool), make(map[message]kind), make(map[message]string)}
	for _, e := range rows.effects {
		j.committed[e.Attempt] = true
	}
	for _, e := range history {
		j.note(e)
	}
	for _, p := range j.messages {
		p.settle(j.committed)
	}
	j.effects()
	j.early(slack)
	j.holders()
	j.handovers()
	j.hot()
	j.progress(stall)
	j.Pauses = j.pauses()
	j.blocked(slack)
	j.promotions()
	j.phases()
	j.locks()
	j.deadlocks()
	j.uniques()
	j.onces()
	j.overtaken()
	j.ticks(slack)
	return j.violations
}

// note puts an event where the rules look for it.
func (j *judge) note(e event) {
	m := message{e.Stream, e.Seq}
	switch e.Kind {
	case sending:
		j.operation(e)
		if strings.HasPrefix(e.Name, onceKey) {
			j.once[m] = e.Name
		}
		j.messages[m] = &passage{state: sending, logged: e.At, arrives: e.At.Add(time.Duration(e.After))}
	case sent, undone, unknown:
		if p := j.messages[m]; p != nil {
			p.state = e.Kind
		}
	case posted:
		j.operation(e)
		p := j.messages[m]
		if p == nil {
			p = &passage{state: sending, arrives: e.At.Add(time.Duration(e.After))}
			j.messages[m] = p
		}
		p.parents = append(p.parents, e.Attempt)
	case began:
		j.Operations++
		j.calls[e.Attempt] = &call{message: m, group: e.Group, from: e.At}
	case returned:
		if c := j.calls[e.Attempt]; c != nil {
			c.to = e.At
		}
	case promoting, parked, unparking, moving, locked:
		j.operation(e)
	case cancelling:
		j.operation(e)
		j.cancelled[m] = e.Kind
	case waived:
		j.cancelled[m] = cancelling
	case removed, kept:
		j.Load[string(e.Kind)]++
		j.cancelled[m] = e.Kind
	case failed:
		j.problem(&j.Broken, "%s", e.Name)
	case fault:
		j.Faults[e.Name]++
	}
}

// operation counts what an event tells of by its kind, and a send by that of its stream.
func (j *judge) operation(e event) {
	j.Operations++
	name := string(e.Kind)
	if e.Kind == sending || e.Kind == posted {
		name, _, _ = strings.Cut(e.Stream, "/")
	}
	j.Load[name]++
}

// settle decides about a message that handlers sent: what they send, and their effect,
// commit together.
func (p *passage) settle(committed map[string]bool) {
	if len(p.parents) == 0 {
		return
	}
	p.state = undone
	if slices.ContainsFunc(p.parents, func(a string) bool { return committed[a] }) {
		p.state = sent
	}
}
