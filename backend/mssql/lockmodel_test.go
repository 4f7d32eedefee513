package mssql

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"testing"
)

// This file runs two senders and two receivers of one stream in every order there is,
// on the locks that the statements of dialect.go say they take, with the server's rules
// of compatibility, and looks for what must not happen. Each access of a statement to a
// row is a step. The accesses of one statement come in any order, as the server's plan
// may have it; those of different statements do not. A scan visits its rows one by one,
// and is not one instant.

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

// The rows: the group, the guard (whose value is the next number), the marker, and the
// messages of one stream; and the range between keys of the ready order.
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

// party is where a sender or receiver is, and what it has seen.
type party struct {
	statement int8
	done      uint8          // accesses of the statement
	visit     int8           // in the scan that is going on
	snapshot  [rowCount]int8 // of the statement, if it reads versions
	begun     bool           // the statement
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
	// apart: the senders write to streams of their own, and only the range between
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
	var way []string
	var visit func(w world)
	note := func(kind string) {
		if _, ok := found[kind]; !ok {
			found[kind] = strings.Join(way, "\n\t")
		}
	}
	visit = func(w world) {
		if _, ok := seen[w]; ok || found[want] != "" {
			return
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
						way = append(way, fmt.Sprintf("%s waits for %s", who(p), who(next.wait)))
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

// judge says what is wrong with a wait, "" if nothing: senders of one stream wait for
// each other, and for a receiver who is about to commit.
func (s *system) judge(w *world, p, by int) string {
	switch {
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

type move struct {
	w       world
	says    string
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
	for int(x.statement) < len(steps) && x.done == 0 && !x.begun && steps[x.statement].when != nil && !steps[x.statement].when(x) {
		x.statement++
	}
	if int(x.statement) == len(steps) {
		return []move{
			{w: w.end(p, true), says: who(p) + ": commit", wait: -1},
			{w: w.end(p, false), says: who(p) + ": roll back", wait: -1},
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
	m := move{w: next, says: who(p) + ": delivers", wait: -1}
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
	says := fmt.Sprintf("%s: %s: %s, row %d", who(p), st.name, a.lock, row)
	m := modeOf(a.lock)
	versioned := s.versions && a.lock.version == "option" && m == modeS
	own := s.apart && row != rowGap // of the party's own stream
	if m != modeNone && !versioned && !own {
		if o := w.blocker(p, row, m); o >= 0 {
			if a.lock.conflict != "skip" {
				return []move{{wait: o}}
			}
			if a.miss != nil {
				a.miss(&next, p)
			}
			advance(false)
			return []move{{w: next, says: says + ": skipped", wait: -1}}
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
			return []move{{w: next, says: who(p) + ": " + st.name, wait: -1}}
		}
	} else {
		a.write(&next, p)
	}
	x.done |= bit
	if problem == "fenced" {
		return []move{{w: next.end(p, false), says: who(p) + ": the count is wrong", wait: -1}}
	}
	return []move{{w: next, says: who(p) + ": " + st.name + ": changes row " + fmt.Sprint(row), wait: -1}}
}

// end ends a transaction.
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
		next.held[r][p] = modeNone
	}
	next.at[p] = party{over: true}
	return next
}

// find returns the n-th lock on a table in a statement.
func find(t *testing.T, text, table string, n int) lockStep {
	t.Helper()
	for _, l := range lockSteps(text) {
		if name, _, _ := strings.Cut(l.table, "."); name == table {
			if n == 0 {
				return l
			}
			n--
		}
	}
	t.Fatalf("no such lock on %s in:%s", table, text)
	return lockStep{}
}

// texts are the statements of the protocol, which a test may break.
type texts struct {
	guard, send, walk, take, read, remove, finish string

	claimAndRead bool // in one statement
	finishAtOnce bool // the guard, and the look at what is left
}

func realTexts() texts {
	return texts{
		guard: statements("", "parley_").GuardLock, send: sendSQL, walk: walkSQL, take: takeSQL, read: readSQL,
		remove: removeSQL, finish: finishSQL,
	}
}

// system builds what the statements do, with the locks that they take.
func (x texts) system(t *testing.T, versions bool) *system {
	get := func(text, table string, n int) lockStep { t.Helper(); return find(t, text, table, n) }
	s := &system{versions: versions}
	s.senders = []step{
		{name: "send, the guard", reads: []access{{
			lock: get(x.send, "stream", 0), row: rowGuard,
			seen: func(w *world, p, row int, v int8) { w.at[p].guard = true },
		}}},
		{name: "the guard, waiting", when: func(x *party) bool { return !x.guard }, reads: []access{{
			lock: get(x.guard, "stream", 0), row: rowGuard,
			seen: func(w *world, p, row int, v int8) { w.at[p].guard = true },
		}}},
		{name: "send, the look", reads: []access{
			{lock: get(x.send, "stream", 1), row: rowGuard, seen: func(w *world, p, row int, v int8) { w.at[p].seq = v }},
			{lock: get(x.send, "ready", 1), row: rowMarker,
				seen: func(w *world, p, row int, v int8) { w.at[p].marker = v == 1 },
				miss: func(w *world, p int) {}},
		}, changes: []access{
			{lock: get(x.send, "stream", 2), row: rowGuard, write: func(w *world, p int) { w.now[rowGuard]++ }},
			{lock: get(x.send, "ready", 0), row: rowMarker, when: func(x *party) bool { return !x.marker },
				write: func(w *world, p int) { w.now[rowMarker] = 1 }},
			{lock: get(x.send, "message", 0), row: rowMessage,
				write: func(w *world, p int) { w.now[rowMessage+int(w.at[p].seq)] = 1 }},
		}},
	}
	claim := access{lock: get(x.take, "grp", 0), row: rowGroup,
		seen: func(w *world, p, row int, v int8) { w.at[p].group = true }}
	last := access{lock: get(x.read, "message", 0), from: true, seen: func(w *world, p, row int, v int8) {
		if v == 1 {
			w.at[p].last = max(w.at[p].last, int8(row-rowMessage))
		}
	}}
	bounded := !x.claimAndRead && strings.Contains(x.read, "seq <= s.last")
	read := access{lock: get(x.read, "message", 1), scan: true, seen: func(w *world, p, row int, v int8) {
		k := row - rowMessage
		if v != 1 || bounded && int8(k) > w.at[p].last {
			return
		}
		w.at[p].got |= 1 << k
	}}
	had := func(x *party) bool { return x.group }
	walk := step{name: "walk", reads: []access{
		{lock: get(x.walk, "ready", 1), row: rowMarker, seen: func(*world, int, int, int8) {}},
		{lock: get(x.walk, "message", 1), scan: true, seen: func(*world, int, int, int8) {}},
		{lock: get(x.walk, "grp", 1), row: rowGroup, seen: func(*world, int, int, int8) {}},
	}}
	take := step{name: "take", reads: []access{claim}}
	bound := step{name: "read, how far", reads: []access{last}, when: had}
	messages := step{name: "read, the messages", reads: []access{read}, when: had, delivers: true}
	remove := step{name: "remove", when: func(x *party) bool { return x.group && x.got != 0 }, changes: []access{
		{lock: get(x.remove, "message", 0), row: rowMessage},
	}}
	guard := access{lock: get(x.finish, "stream", 0), row: rowGuard,
		seen: func(w *world, p, row int, v int8) { w.at[p].guard = true }}
	left := access{lock: get(x.finish, "message", 0), scan: true, seen: func(w *world, p, row int, v int8) {
		if v == 1 {
			w.at[p].seq = 1 // something is left
		}
	}}
	drop := access{lock: get(x.finish, "ready", 0), row: rowMarker,
		when:  func(x *party) bool { return x.guard && x.seq == 0 },
		write: func(w *world, p int) { w.now[rowMarker] = 0 }}
	s.receiver = []step{walk, take, bound, messages, remove}
	if x.claimAndRead {
		s.receiver = []step{walk, {name: "take and read", reads: []access{claim, read}, delivers: true}, remove}
	}
	if x.finishAtOnce {
		s.receiver = append(s.receiver, step{name: "finish", reads: []access{guard, left}, changes: []access{drop}, when: had, last: true})
	} else {
		s.receiver = append(s.receiver,
			step{name: "finish, the guard", reads: []access{guard}, when: had, last: true},
			step{name: "finish, the look", reads: []access{left}, changes: []access{drop}, last: true,
				when: func(x *party) bool { return x.guard }})
	}
	return s
}

// TestProtocol finds nothing in the real statements.
func TestProtocol(t *testing.T) {
	for _, versions := range []bool{false, true} {
		found, states := realTexts().system(t, versions).explore("")
		t.Logf("versions %v: %d states", versions, states)
		if states < 10000 {
			t.Errorf("only %d states were visited", states)
		}
		for kind, way := range found {
			t.Errorf("versions %v: %s:\n\t%s", versions, kind, way)
		}
	}
}

// TestBrokenProtocol finds what is wrong with statements that were broken.
func TestBrokenProtocol(t *testing.T) {
	replace := func(s *string, old, new string) {
		t.Helper()
		if !strings.Contains(*s, old) {
			t.Fatalf("nothing to break: no %q in:%s", old, *s)
		}
		*s = strings.ReplaceAll(*s, old, new)
	}
	for _, test := range []struct {
		name     string
		broken   func(x *texts)
		versions []bool
		want     string
	}{
		{"the finish is one statement", func(x *texts) { x.finishAtOnce = true }, []bool{false, true}, "lost wake-up"},
		{"the finish takes U of a guard that senders share", func(x *texts) {
			replace(&x.finish, "XLOCK", "UPDLOCK")
			replace(&x.send, "XLOCK", "REPEATABLEREAD")
			replace(&x.guard, "XLOCK", "REPEATABLEREAD")
		}, []bool{false, true}, "lost wake-up"},
		{"the finish does not lock the guard", func(x *texts) { replace(&x.finish, "XLOCK, ", "") }, []bool{false, true}, "lost wake-up"},
		{"claim and read are one statement", func(x *texts) { x.claimAndRead = true }, []bool{false, true}, "double delivery"},
		{"the read sees versions", func(x *texts) { x.claimAndRead = true; replace(&x.read, "READCOMMITTEDLOCK, ", "") }, []bool{true}, "double delivery"},
		{"the claim locks nothing", func(x *texts) { replace(&x.take, "UPDLOCK, ", "") }, []bool{false, true}, "double delivery"},
		{"the read is plain", func(x *texts) { replace(&x.read, ", READPAST", "") }, []bool{false, true}, "a receiver waits for a sender"},
		{"the walk is plain", func(x *texts) { replace(&x.walk, ", READPAST", "") }, []bool{false, true}, "a receiver waits for a sender"},
		{"the claim waits", func(x *texts) { replace(&x.take, ", READPAST", "") }, []bool{false, true}, "a receiver waits for another"},
		{"the finish waits", func(x *texts) { replace(&x.finish, ", READPAST", "") }, []bool{false, true}, "a receiver waits for a sender"},
		{"the read goes on to the end", func(x *texts) { replace(&x.read, "AND y.seq <= s.last", "") }, []bool{false, true}, "a gap in the order"},
	} {
		for _, versions := range test.versions {
			x := realTexts()
			test.broken(&x)
			found, states := x.system(t, versions).explore(test.want)
			if _, ok := found[test.want]; !ok {
				t.Errorf("%s, versions %v: %d states, found %v, want %q", test.name, versions, states, slices.Collect(maps.Keys(found)), test.want)
			}
		}
	}
}

// TestRangeLocks shows why an insert that may find its row there takes no range: two
// senders of different streams would wait for each other.
func TestRangeLocks(t *testing.T) {
	for _, broken := range []bool{false, true} {
		x := realTexts()
		s := x.system(t, false)
		s.apart = true
		look := &s.senders[2].reads[1]
		if broken {
			look.lock = find(t, strings.Replace(x.send, "parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK)",
				"parley_ready r WITH (UPDLOCK, HOLDLOCK, ROWLOCK)", 1), "ready", 1)
		}
		if look.lock.granule == "range" {
			look.row = rowGap
		}
		found, _ := s.explore("")
		want := "a sender waits for one of another stream"
		if _, ok := found[want]; ok != broken {
			t.Errorf("broken %v: found %v", broken, slices.Collect(maps.Keys(found)))
		}
	}
}
