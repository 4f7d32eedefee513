package mssql

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// The steps of the protocol, with the locks of its statements, for the explorer.

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

func realTexts(t *testing.T) texts {
	all := allStatements(t)
	return texts{
		guard: all["GuardLock"], send: all["Send"], walk: all["Walk"], take: all["Take"], read: all["Read"],
		remove: all["Remove"], finish: all["Finish"],
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
	var to func(x *party) int8
	if bounded {
		to = func(x *party) int8 { return x.last }
	}
	read := access{lock: get(x.read, "message", 2 /* 1 is for the order alone */), scan: true, to: to, seen: func(w *world, p, row int, v int8) {
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
		found, states := realTexts(t).system(t, versions).explore("")
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
		{"the second read skips", func(x *texts) {
			replace(&x.read, "parley_message y WITH (READCOMMITTEDLOCK, ROWLOCK)", "parley_message y WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)")
		}, []bool{false, true}, "a gap in the order"},
		{"the walk is plain", func(x *texts) { replace(&x.walk, ", READPAST", "") }, []bool{false, true}, "a receiver waits for a sender"},
		{"the claim waits", func(x *texts) { replace(&x.take, ", READPAST", "") }, []bool{false, true}, "a receiver waits for another"},
		{"the finish waits", func(x *texts) { replace(&x.finish, ", READPAST", "") }, []bool{false, true}, "a receiver waits for a sender"},
		{"the read goes on to the end", func(x *texts) { replace(&x.read, "AND y.seq <= s.last", "") }, []bool{false, true}, "a gap in the order"},
	} {
		for _, versions := range test.versions {
			x := realTexts(t)
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
		x := realTexts(t)
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
