package mssql

import (
	"fmt"
	"math/bits"
	"strings"
	"testing"
)

// This file runs two senders and two receivers of one stream in every order there is. It uses
// the locks that the statements of dialect.go say they take and the server's rules of
// compatibility, and looks for what must not happen. Each access of a statement to a row is a
// step. The accesses of one statement come in any order, as the server's plan may have it;
// those of different statements do not. A scan visits its rows one by one, and is not one
// instant. Nor is the end of a transaction: it releases its locks one by one, in any order.

// mode is a lock mode of those in the tables of compatibility of the manual's
// "Transaction locking and row versioning guide".
type mode uint8

const (
	modeNone mode = iota
	modeIS
	modeS
	modeU
	modeIX
	modeX
	modeRangeSS
	modeRangeSU
	modeRangeIN
	modeRangeXX
	modeCount
)

// conflicts are the modes with which each is incompatible.
var conflicts = [modeCount][]mode{
	modeIS:      {modeX},
	modeS:       {modeIX, modeX, modeRangeXX},
	modeU:       {modeU, modeIX, modeX, modeRangeSU, modeRangeXX},
	modeIX:      {modeS, modeU, modeX},
	modeX:       {modeIS, modeS, modeU, modeIX, modeX, modeRangeSS, modeRangeSU, modeRangeXX},
	modeRangeSS: {modeX, modeRangeIN, modeRangeXX},
	modeRangeSU: {modeU, modeX, modeRangeSU, modeRangeIN, modeRangeXX},
	modeRangeIN: {modeRangeSS, modeRangeSU, modeRangeXX},
	modeRangeXX: {modeS, modeU, modeX, modeRangeSS, modeRangeSU, modeRangeIN, modeRangeXX},
}

var incompatible = func() (m [modeCount][modeCount]bool) {
	for a, list := range conflicts {
		for _, b := range list {
			m[a][b] = true
		}
	}
	return m
}()

// TestCompatibility holds the table against what makes one.
func TestCompatibility(t *testing.T) {
	for a := range modeCount {
		for b := range modeCount {
			if incompatible[a][b] != incompatible[b][a] {
				t.Errorf("%d and %d are not compatible one way only", a, b)
			}
		}
	}
	for _, x := range []struct {
		a, b mode
		ok   bool
	}{
		{modeS, modeU, true}, {modeU, modeU, false}, {modeS, modeX, false}, {modeIX, modeIX, true}, {modeIS, modeX, false},
		{modeRangeSS, modeRangeSS, true}, {modeRangeSS, modeS, true}, {modeRangeSS, modeRangeIN, false},
		{modeRangeIN, modeX, true}, {modeRangeIN, modeRangeIN, true}, {modeRangeSU, modeRangeSU, false},
	} {
		if incompatible[x.a][x.b] == x.ok {
			t.Errorf("%d and %d: compatible %v, want %v", x.a, x.b, !x.ok, x.ok)
		}
	}
}

// The rows of the model: the group, the guard (its value is the next number), the marker, and the
// messages of one stream. The last one is the range between keys of the ready order.
const (
	rowGroup = iota
	rowGuard
	rowMarker
	rowGap
	rowMessage // the first of them
	messages   = 3
	rowCount   = rowMessage + messages
)

const (
	sender0 = iota
	sender1
	receiver0
	receiver1
	parties
)

// world is the state of everything. It is comparable, so that no state is visited
// twice.
type world struct {
	now  [rowCount]int8 // with what is not committed
	com  [rowCount]int8 // as committed
	held [rowCount][parties]mode
	at   [parties]party
}

// alike are the state and those in which the senders, or the receivers, have changed places.
func (w world) alike() [4]world {
	swapped := func(w world, a, b int) world {
		w.at[a], w.at[b] = w.at[b], w.at[a]
		for r := range w.held {
			w.held[r][a], w.held[r][b] = w.held[r][b], w.held[r][a]
		}
		return w
	}
	other := swapped(w, sender0, sender1)
	return [4]world{w, other, swapped(w, receiver0, receiver1), swapped(other, receiver0, receiver1)}
}

// party is where a sender or receiver is, and what it has seen.
type party struct {
	statement int8
	done      uint8          // accesses of the statement
	visit     int8           // in the scan that is going on
	snapshot  [rowCount]int8 // of the statement, if it reads versions
	begun     bool           // the statement
	ending    bool           // committed or rolled back, and releases its locks one by one
	over      bool

	guard  bool
	marker bool
	seq    int8
	group  bool  // had
	last   int8  // message that could be seen
	got    uint8 // messages
}

// access is one look at a row, or at the messages one by one, or one change.
type access struct {
	lock  lockStep
	row   int
	scan  bool                  // messages upwards from the first
	to    func(x *party) int8   // the last message of the scan's range, which is not looked beyond
	from  bool                  // downwards from the last, until one is seen
	write func(w *world, p int) // with the row locked
	seen  func(w *world, p int, row int, value int8)
	miss  func(w *world, p int) // the row was skipped
	when  func(x *party) bool
}

// step is a statement: its reads in any order, then its changes one after another.
type step struct {
	name     string
	reads    []access
	changes  []access
	when     func(x *party) bool
	last     bool // the commit follows at once
	delivers bool // what was read goes to the handler
}

// system is what is explored.
type system struct {
	versions bool // READ_COMMITTED_SNAPSHOT
	senders  []step
	receiver []step
	// apart: the senders write to separate streams, and only the range between
	// their markers is common.
	apart bool
}

func modeOf(l lockStep) mode {
	switch l.mode {
	case "S":
		if l.granule == "range" {
			return modeRangeSS
		}
		return modeS
	case "U":
		if l.granule == "range" {
			return modeRangeSU
		}
		return modeU
	case "X", "insert":
		return modeX
	}
	return modeNone
}

// explore visits all states, depth first, and returns the first problem of each kind,
// with the way there. It ends when it has found one of the kind wanted.
func (s *system) explore(want string) (found map[string]string, states int) {
	var w world
	w.now[rowMarker], w.now[rowMessage], w.now[rowGuard] = 1, 1, 1 // one message waits
	w.com = w.now
	for p := range w.at {
		w.at[p].last = -1
	}
	found = make(map[string]string)
	seen := map[world]struct{}{}
	var way []saying
	var visit func(w world)
	note := func(kind string) {
		if _, ok := found[kind]; !ok {
			var lines []string
			for _, w := range way {
				lines = append(lines, w.String())
			}
			found[kind] = strings.Join(lines, "\n\t")
		}
	}
	visit = func(w world) {
		if found[want] != "" {
			return
		}
		for _, same := range w.alike() {
			if _, ok := seen[same]; ok {
				return
			}
		}
		seen[w] = struct{}{}
		for i := range messages {
			if !s.apart && w.com[rowMessage+i] == 1 && w.com[rowMarker] == 0 {
				note("lost wake-up")
			}
		}
		moved, waiting := false, false
		for p := range parties {
			for _, next := range s.moves(&w, p) {
				if next.wait >= 0 {
					waiting = true
					if kind := s.judge(&w, p, next.wait); kind != "" {
						way = append(way, saying{p: p, does: "waits for " + who(next.wait)})
						note(kind)
						way = way[:len(way)-1]
					}
					continue
				}
				moved = true
				way = append(way, next.says)
				if next.problem != "" {
					note(next.problem)
				}
				visit(next.w)
				way = way[:len(way)-1]
			}
		}
		if waiting && !moved {
			note("deadlock")
		}
	}
	visit(w)
	return found, len(seen)
}

func who(p int) string {
	if p < receiver0 {
		return fmt.Sprintf("sender %d", p+1)
	}
	return fmt.Sprintf("receiver %d", p-receiver0+1)
}

// judge says why a wait is wrong, or returns "". Senders of one stream may wait for each other and
// for a receiver that is about to commit.
func (s *system) judge(w *world, p, by int) string {
	switch {
	case w.at[by].ending: // for a moment
		return ""
	case p < receiver0 && by < receiver0:
		if s.apart {
			return "a sender waits for one of another stream"
		}
		return ""
	case p < receiver0:
		if at := int(w.at[by].statement); at == len(s.receiver) || s.receiver[at].last {
			return ""
		}
		return "a sender waits for a receiver"
	case by < receiver0:
		return "a receiver waits for a sender"
	}
	return "a receiver waits for another"
}

// saying is what a party does, put into words only where something is wrong.
type saying struct {
	p          int
	does, then string
	lock       *lockStep
	row        int
}

func (s saying) String() string {
	text := who(s.p) + ": " + s.does
	if s.lock != nil {
		text += ": " + s.lock.String()
	}
	if s.then != "" || s.lock != nil {
		text += fmt.Sprintf(", row %d %s", s.row, s.then)
	}
	return text
}

type move struct {
	w       world
	says    saying
	problem string
	wait    int // for whom, instead
}

func (s *system) steps(p int) []step {
	if p < receiver0 {
		return s.senders
	}
	return s.receiver
}

// moves are all that a party can do next.
func (s *system) moves(w *world, p int) (list []move) {
	x := &w.at[p]
	steps := s.steps(p)
	if x.over || len(steps) == 0 || s.apart && p >= receiver0 {
		return nil
	}
	if x.ending {
		return w.releases(p)
	}
	for int(x.statement) < len(steps) && x.done == 0 && !x.begun && steps[x.statement].when != nil && !steps[x.statement].when(x) {
		x.statement++
	}
	if int(x.statement) == len(steps) {
		return []move{
			{w: w.end(p, true), says: saying{p: p, does: "commit"}, wait: -1},
			{w: w.end(p, false), says: saying{p: p, does: "roll back"}, wait: -1},
		}
	}
	st := &steps[x.statement]
	open := false
	for i, a := range st.reads {
		if x.done&(1<<i) != 0 {
			continue
		}
		open = true
		if x.visit > 0 && !(a.scan || a.from) {
			continue // a scan is going on: it goes on first, not to multiply states
		}
		list = append(list, s.read(w, p, st, i, a)...)
	}
	if open {
		return list
	}
	for i, a := range st.changes {
		bit := uint8(1) << (len(st.reads) + i)
		if x.done&bit != 0 {
			continue
		}
		next := *w
		y := &next.at[p]
		if a.when != nil && !a.when(y) {
			y.done |= bit
			return s.moves(&next, p)
		}
		return s.change(w, p, st, bit, a)
	}
	next := *w
	y := &next.at[p]
	y.statement++
	y.done, y.visit, y.begun, y.snapshot = 0, 0, false, [rowCount]int8{}
	if !st.delivers || !y.group {
		return s.moves(&next, p)
	}
	m := move{w: next, says: saying{p: p, does: "delivers"}, wait: -1}
	for k := range messages {
		other := &next.at[receiver0+receiver1-p]
		switch {
		case y.got&(1<<k) == 0:
		case next.com[rowMessage+k] == 0 && next.now[rowMessage+k] == 0: // acknowledged by the other
			m.problem = "double delivery"
		case other.group && other.got&(1<<k) != 0: // in his hands
			m.problem = "double delivery"
		}
	}
	return []move{m}
}

// blocker returns who has a row in a mode that is incompatible, or -1.
func (w *world) blocker(p, row int, m mode) int {
	for o, h := range w.held[row] {
		if o != p && incompatible[m][h] {
			return o
		}
	}
	return -1
}

// read is one visit of a row.
func (s *system) read(w *world, p int, st *step, i int, a access) []move {
	next := *w
	x := &next.at[p]
	if !x.begun {
		x.begun = true
		if s.versions {
			x.snapshot = next.com
			for r := range x.snapshot { // and what is the transaction's own
				if next.held[r][p] == modeX {
					x.snapshot[r] = next.now[r]
				}
			}
		}
	}
	row := a.row
	switch {
	case a.scan:
		row = rowMessage + int(x.visit)
	case a.from:
		row = rowMessage + messages - 1 - int(x.visit)
	}
	done := func() {
		x.done |= 1 << i
		x.visit = 0
	}
	advance := func(hit bool) {
		if !a.scan && !a.from || a.from && hit || int(x.visit) == messages-1 {
			done()
		} else {
			x.visit++
		}
	}
	says := saying{p: p, does: st.name, lock: &a.lock, row: row}
	m := modeOf(a.lock)
	versioned := s.versions && a.lock.version == "option" && m == modeS
	own := s.apart && row != rowGap // of the party's own stream
	if a.to != nil && int8(row-rowMessage) > a.to(x) {
		done()
		says.then = "beyond the range"
		return []move{{w: next, says: says, wait: -1}}
	}
	if m != modeNone && !versioned && !own {
		if o := w.blocker(p, row, m); o >= 0 {
			if a.lock.conflict != "skip" {
				return []move{{wait: o}}
			}
			if a.miss != nil {
				a.miss(&next, p)
			}
			advance(false)
			says.then = "skipped"
			return []move{{w: next, says: says, wait: -1}}
		}
		if a.lock.until == "end" && m > next.held[row][p] {
			next.held[row][p] = m
		}
	}
	value := next.now[row]
	if versioned {
		value = x.snapshot[row]
	}
	a.seen(&next, p, row, value)
	problem := ""
	if x.got != 0 {
		if g := x.got; a.scan && bits.Len8(g)-1 == row-rowMessage {
			for k := range row - rowMessage {
				if g&(1<<k) == 0 && next.com[rowMessage+k] == 1 {
					problem = "a gap in the order"
				}
			}
		}
	}
	advance(value != 0)
	return []move{{w: next, says: says, problem: problem, wait: -1}}
}

// change is one row changed.
func (s *system) change(w *world, p int, st *step, bit uint8, a access) []move {
	next := *w
	row := a.row
	x := &next.at[p]
	switch {
	case a.row == rowMessage && p < receiver0: // the sender's next number
		row = rowMessage + int(x.seq)
	case a.row == rowMessage: // the messages that were received, one by one
		k := bits.TrailingZeros8(x.got)
		row = rowMessage + k
	}
	if o := w.blocker(p, row, modeX); o >= 0 && !s.apart {
		return []move{{wait: o}}
	}
	if a.lock.mode == "insert" && a.row == rowMarker {
		if o := w.blocker(p, rowGap, modeRangeIN); o >= 0 {
			return []move{{wait: o}}
		}
	}
	if !s.apart {
		next.held[row][p] = modeX
	}
	problem := ""
	if p >= receiver0 && a.row == rowMessage {
		if next.now[row] == 0 {
			problem = "fenced" // the count is wrong: the transaction is rolled back
		}
		next.now[row] = 0
		if x.got &= x.got - 1; x.got != 0 {
			return []move{{w: next, says: saying{p: p, does: st.name}, wait: -1}}
		}
	} else {
		a.write(&next, p)
	}
	x.done |= bit
	if problem == "fenced" {
		return []move{{w: next.end(p, false), says: saying{p: p, does: "the count is wrong"}, wait: -1}}
	}
	return []move{{w: next, says: saying{p: p, does: st.name, row: row, then: "changed"}, wait: -1}}
}

// end ends a transaction, whose locks are still there.
func (w *world) end(p int, commit bool) world {
	next := *w
	for r := range next.held {
		if next.held[r][p] == modeX {
			if commit {
				next.com[r] = next.now[r]
			} else {
				next.now[r] = next.com[r]
			}
		}
	}
	next.at[p] = party{ending: true, over: !next.holds(p)}
	return next
}

func (w *world) holds(p int) bool {
	for r := range w.held {
		if w.held[r][p] != modeNone {
			return true
		}
	}
	return false
}

// releases are the locks that can be released next: the server says of no order.
func (w *world) releases(p int) (list []move) {
	for r := range w.held {
		if w.held[r][p] == modeNone {
			continue
		}
		next := *w
		next.held[r][p] = modeNone
		next.at[p].over = !next.holds(p)
		list = append(list, move{w: next, says: saying{p: p, row: r, then: "released"}, wait: -1})
	}
	return list
}
