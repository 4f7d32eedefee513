package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/parleymq/parley/internal/slow"
)

const begun = "\tbegin d \"1\" \"2\"\n\t\t\t"

// scriptCases are scripts, and how they fail.
var scriptCases = []struct {
	name, script, fails string
}{
	{"right", begun + `take SQ as m -> Ask "1" #0 on d.peer, "2" #1
			equal m.conversation d.peer; differ d d.peer
			each n: 1 | 2
				send d "$n"
			take SQ -> "1", "2"`, ""},
	{"block", begun + `each end: end d | cleanup d.peer
				$end
				take SQ -> "1"`, "line 4, take SQ -> \"1\": received"},
	{"condition", begun + `if one writer:
				end nothing
			take SQ -> "1"`, `line 4, take SQ -> "1": received 2 messages from`},
	{"no such condition", `if it rains:
				quiet SQ`, `line 1, if it rains:: there is no condition "it rains"`},
	{"body", begun + `take SQ -> "1", "3"`, `line 2, take SQ -> "1" , "3": message 2 of ask "1" #0, ask "2" #1 is not "3": its body is "2", want "3"`},
	{"number", begun + `take SQ -> "1" #1, "2"`, `its number is "0", want "1"`},
	{"type", begun + `take SQ -> "1", Any "2"`, `its type is`},
	{"side", begun + `take SQ -> "1" on d, "2"`, `its handle is`},
	{"count", begun + `take SQ -> "1"`, `line 2, take SQ -> "1": received 2 messages from`},
	{"in hand", begun + `receive SQ max 1 as r -> "2"`, `line 2, receive SQ max 1 as r -> "2": message 1 of`},
	{"nothing", begun + `nothing SQ`, `line 2, nothing SQ: received`},
	{"quiet", begun + `quiet CQ SQ`, `line 2, quiet CQ SQ: received`},
	{"equal", begun + `equal d.state DI`, `line 2, equal d.state DI: they are "CO" and "DI"`},
	{"differ", begun + `differ d.id d.peer.id`, `line 2, differ d.id d.peer.id: they are both`},
	{"error that does not come", begun + `end d -> ErrEnded`, `line 2, end d -> ErrEnded: the error is <nil>, want "`},
	{"another error", begun + `send d Tell "x" -> ErrEnded`, `the error is parley: send`},
	{"name", begun + `send d Tell "x" -> ErrTypeNotAllowed naming SQ`, `does not name`},
	{"error", begun + `send d Tell "x"`, `line 2, send d Tell "x": parley: send`},
	{"depth", begun + `depth SQ 3 now`, `line 2, depth SQ 3 now: 2 messages wait`},
	{"withheld", begun + `withheld d 2`, `line 2, withheld d 2: withheld: <nil>, want 2`},
	{"copies", begun + `copies d "sent 0 1"`, `line 2, copies d "sent 0 1": copies: 0, want 1`},
	{"order", begun + `order SQ "2" "1"`, `line 2, order SQ "2" "1": order: received`},
	{"key", `once "k" new; once "k" new`, `line 1, once "k" new: the key is new: false`},
	{"transaction", begun + `transaction t
			t: send d "3"
			rollback t
			receive SQ as r -> "1", "2", "3"`, `line 5, receive SQ as r -> "1" , "2" , "3": received 2 messages`},
	{"verb", "dance d", `line 1, dance d: there is no verb "dance"`},
	{"variable", "send e \"x\"", `line 1, send e "x": there is no variable "e"`},
	{"actor", begun + "u: end d", `line 2, u: end d: there is no transaction, broker or delivery "u"`},
	{"word too many", begun + "cleanup d d", `line 2, cleanup d d: cleanup cannot do anything with ["d"]`},
	{"arrow too many", begun + "cleanup d -> \"x\"", `cleanup does not return what is expected, ["\"x\""]`},
	{"duration", `begin d lifetime long`, `"long" is no duration`},
	{"beside", begun + `broker other
			start r other: receive CQ wait 5s as got -> "answer"
			waits r
			clock c
			send d.peer "answer"
			join r; within c 5s; ack got; nothing CQ
			soon:
				equal d.state CO
			start e for 20ms receive CQ wait 5s -> DeadlineExceeded
			join e; passed c 20ms`, ""},
	{"beside, fails", begun + `start r nothing SQ
			join r`, `line 3, join r: line 2, nothing SQ: received`},
	{"beside, does not wait", begun + `start r send d "3"
			depth SQ 3
			waits r`, `line 4, waits r: send d "3" did not wait`},
	{"not joined in time", begun + `start r receive CQ wait 300ms
			join r within 10ms`, `line 3, join r within 10ms: receive CQ wait 300ms is not done after 10ms`},
	{"not soon", begun + `soon 30ms:
				equal d.state DI`, `line 3, equal d.state DI: line 3, equal d.state DI: they are`},
	{"before", begun + `before 10s:
				equal d.state CO
			equal d.state DI`, `line 4, equal d.state DI: they are`},
	{"too slow before", begun + `before 1ms:
				pause 20ms
			equal d.state DI`, `expired: line 4, equal d.state DI: they are`},
	{"fails too late", begun + `before 1ms:
				pause 20ms
				equal d.state DI`, `expired: line 4, equal d.state DI: they are`},
	{"not passed", begun + "clock c; passed c 1h", `want at least 1h`},
	{"not within", begun + "clock c; pause 20ms; within c 1ms", `want at most 1ms`},
	{"field", begun + "equal d.colour 1", `has no field "colour"`},
}

// TestScript: a right script passes. A wrong script fails at its line, and the report says what
// led to the failure.
func TestScript(t *testing.T) {
	t.Parallel()
	r, err := newRunner(t.Context(), memoryStore(""))
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	for _, c := range scriptCases {
		got := r.run(t.Context(), scripted("D01", c.name, c.script)).Failed
		if c.fails == "" && got != "" || !strings.Contains(got, c.fails) {
			t.Errorf("%s: the script fails with\n%s\nwant %q", c.name, got, c.fails)
		}
		var line int
		if n, _ := fmt.Sscanf(c.fails, "line %d,", &line); n == 1 && !strings.Contains(got, fmt.Sprintf("\n> %3d ", line)) {
			t.Errorf("%s: the failure marks another line than %d:\n%s", c.name, line, got)
		}
		if c.fails != "" && strings.Contains(c.script, "begin d \"1\"") && !strings.Contains(got, "what was done:\n    1  begin d \"1\" \"2\"") {
			t.Errorf("%s: the failure does not say what was done before:\n%s", c.name, got)
		}
	}
}

// TestHours: the factor of a slow machine makes a wait longer, and not an hour that no check waits for.
func TestHours(t *testing.T) {
	child := exec.Command(os.Args[0], "-test.run=^TestMemory$/^T06$")
	child.Env = append(os.Environ(), slow.Variable+"=10")
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
