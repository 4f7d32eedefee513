package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// recorded is a history without fault: two streams, one of them with a gap where
// the run does not know whether a message was sent.
func recorded() *history {
	h := &history{}
	for i, token := range []string{"a1", "b1", "a2", "a3", "b2", "a4"} {
		h.sent = append(h.sent, &sent{token: token, stream: token[:1], origin: "p", place: i, fate: committed})
	}
	h.sent = append(h.sent,
		&sent{token: "b3", stream: "b", origin: "x", place: 6, fate: maybe},
		&sent{token: "b4", stream: "b", origin: "p", place: 7, fate: undone})
	for i, token := range []string{"a1", "a2", "a3", "a4"} {
		h.effects = append(h.effects, effect{"a", i, token})
	}
	for i, token := range []string{"b1", "b2"} {
		h.effects = append(h.effects, effect{"b", i, token})
	}
	h.holds = []hold{
		{who: "r1", group: "g", streams: []string{"a"}, from: 10 * ms, to: 20 * ms, settled: true},
		{who: "r2", group: "g", streams: []string{"a"}, from: 20 * ms, to: 30 * ms, settled: true},
		{who: "r1", group: "h", streams: []string{"b"}, from: 15 * ms, to: 25 * ms, settled: true},
	}
	return h
}

const ms = time.Millisecond

// spoiled are histories that are spoiled in one way each, and what the check says of them.
var spoiled = []struct {
	name  string
	spoil func(h *history)
	want  violations
}{
	{"nothing wrong", func(h *history) {}, violations{}},
	{"a doubtful message received", func(h *history) {
		h.effects = append(h.effects, effect{"b", 2, "b3"})
	}, violations{}},
	{"senders that count apart may overtake", func(h *history) {
		h.effects[4], h.effects[5] = effect{"b", 1, "b1"}, effect{"b", 2, "b2"}
		h.effects = append(h.effects, effect{"b", 0, "b3"})
	}, violations{}},
	{"a lost message", func(h *history) {
		h.effects = slices.Delete(h.effects, 2, 3)
	}, violations{lost: 1}},
	{"a doubled message", func(h *history) {
		h.effects = append(h.effects, effect{"a", 4, "a4"})
	}, violations{doubled: 1}},
	{"a message received three times", func(h *history) {
		h.effects = append(h.effects, effect{"a", 4, "a4"}, effect{"a", 5, "a4"})
	}, violations{doubled: 2}},
	{"a message doubled later is out of order as well", func(h *history) {
		h.effects = append(h.effects, effect{"a", 4, "a1"})
	}, violations{doubled: 1, outOfOrder: 1}},
	{"two messages reordered", func(h *history) {
		h.effects[1].index, h.effects[2].index = 2, 1
	}, violations{outOfOrder: 1}},
	{"a message that was rolled back", func(h *history) {
		h.effects = append(h.effects, effect{"b", 2, "b4"})
	}, violations{ghosts: 1}},
	{"a message that was never sent", func(h *history) {
		h.effects = append(h.effects, effect{"b", 2, "b9"})
	}, violations{ghosts: 1}},
	{"a message in the wrong stream", func(h *history) {
		h.effects[0].stream = "b"
	}, violations{ghosts: 1}},
	{"two receivers in a group", func(h *history) {
		h.holds[1].from -= ms
	}, violations{twoInGroup: 2}}, // in the group and in the stream
	{"two receivers of a stream in two groups", func(h *history) {
		h.holds[2].streams = []string{"a"}
	}, violations{twoInGroup: 2}},
	{"a long hold over two others", func(h *history) {
		h.holds = append(h.holds, hold{who: "r3", group: "g", from: 5 * ms, to: 40 * ms, settled: true})
	}, violations{twoInGroup: 2}},
	{"a hold that was killed in between", func(h *history) {
		h.holds[0].to, h.holds[0].settled = 29*ms, false
		h.cuts = []cut{{12 * ms, 13 * ms}}
	}, violations{}},
	{"a hold that began while its process was killed", func(h *history) {
		h.holds[0].to, h.holds[0].settled = 29*ms, false
		h.cuts = []cut{{8 * ms, 12 * ms}}
	}, violations{}},
	{"a hold that was not killed in between", func(h *history) {
		h.holds[0].to, h.holds[0].settled = 29*ms, false
		h.cuts = []cut{{2 * ms, 3 * ms}, {28 * ms, 29 * ms}}
	}, violations{twoInGroup: 2}},
	{"a lease that ran out", func(h *history) {
		h.holds[0].to, h.holds[0].settled, h.holds[0].until = 29*ms, false, 18*ms
	}, violations{}},
	{"a lease that ran out, a transaction that changed nothing, and the lease again", func(h *history) {
		h.holds[0].to, h.holds[0].until, h.holds[1].undone = 29*ms, 18*ms, true
	}, violations{}},
	{"a transaction that changed nothing in a lease that had not run out", func(h *history) {
		h.holds[0].to, h.holds[0].until, h.holds[1].undone = 29*ms, 22*ms, true
	}, violations{twoInGroup: 2}},
	{"a lease that ran out and was acknowledged all the same", func(h *history) {
		h.holds[0].to, h.holds[0].until = 29*ms, 18*ms
	}, violations{twoInGroup: 2}},
}

func TestCheck(t *testing.T) {
	for _, tt := range spoiled {
		t.Run(tt.name, func(t *testing.T) {
			h := recorded()
			tt.spoil(h)
			got := h.check()
			tt.want.received, tt.want.problems = got.received, got.problems
			if !sameViolations(*got, tt.want) {
				t.Errorf("lost %d doubled %d two-in-group %d out-of-order %d ghosts %d, want %d %d %d %d %d\n%s",
					got.lost, got.doubled, got.twoInGroup, got.outOfOrder, got.ghosts,
					tt.want.lost, tt.want.doubled, tt.want.twoInGroup, tt.want.outOfOrder, tt.want.ghosts,
					strings.Join(got.problems, "\n"))
			}
			if faults := got.lost + got.doubled + got.twoInGroup + got.outOfOrder + got.ghosts; (faults > 0) != (len(got.problems) > 0) {
				t.Errorf("%d faults, told as %q", faults, got.problems)
			}
		})
	}
}

func sameViolations(a, b violations) bool {
	return a.lost == b.lost && a.doubled == b.doubled && a.twoInGroup == b.twoInGroup && a.outOfOrder == b.outOfOrder && a.ghosts == b.ghosts
}

// TestAround shows what a person is told of a fault.
func TestAround(t *testing.T) {
	h := recorded()
	h.effects = slices.Delete(h.effects, 2, 3)
	v := h.check()
	const want = "lost: message a3 of stream a\n" +
		"    sent: a1@0 committed, a2@2 committed, a3@3 committed, a4@5 committed\n" +
		"    received: 0:a1, 1:a2, 3:a4"
	if len(v.problems) != 1 || v.problems[0] != want {
		t.Errorf("got %q, want %q", v.problems, want)
	}
}

// TestLedger: what the recorders keep is what the check reads.
func TestLedger(t *testing.T) {
	var out strings.Builder
	l := newLedger(&out)
	l.writing("1", "a", "p")
	l.writing("2", "a", "p")
	l.writing("3", "a", "p")
	l.ended(committed, []string{"1"})
	l.ended(undone, []string{"2"})
	l.doubt([]string{"3"})
	if got := l.waiting(); got != 1 {
		t.Errorf("%d messages wait, want 1", got)
	}
	l.history.effects = []effect{{"a", 0, "1"}, {"a", 1, "3"}}
	if v := l.history.check(); !sameViolations(*v, violations{}) || v.received != 2 {
		t.Errorf("violations %+v", v)
	}
	l.problem("errors", "%s", "something")
	if !strings.Contains(out.String(), "errors: something") || l.tally()["errors"] != 1 || l.tally()["maybe"] != 1 {
		t.Errorf("log %q, counts %v", out.String(), l.tally())
	}
}

func TestPercentile(t *testing.T) {
	r := &report{}
	if got := r.percentile(99); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	for i := range 1000 {
		r.latencies = append(r.latencies, time.Duration(1000-i)*time.Millisecond)
	}
	for p, want := range map[float64]time.Duration{50: 501 * time.Millisecond, 99: 991 * time.Millisecond, 99.9: time.Second} {
		if got := r.percentile(p); got != want {
			t.Errorf("p%v = %v, want %v", p, got, want)
		}
	}
}

// TestAtWork: what MySQL remembers of a receiver tells a handler at work from a receiver
// that is about to commit.
func TestAtWork(t *testing.T) {
	const before = "/*M! SET STATEMENT max_statement_time = 0 FOR */ "
	for text, want := range map[string]bool{
		"SAVEPOINT a": true, before + "SELECT g.group_id FROM x_grp g": true, before + "\n\tUPDATE `x_grp` SET fence = 1": true,
		before + "INSERT IGNORE INTO x_once VALUES (1)": true, before + "DELETE x FROM x_message": false, "COMMIT": false,
		before + "SELECT stream_id FROM x_stream FOR UPDATE": false,
	} {
		if atWork.MatchString(text) != want {
			t.Errorf("%q: want %v", text, want)
		}
	}
}
