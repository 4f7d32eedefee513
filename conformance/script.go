package conformance

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/slow"
)

// A script is a check that does one thing after the other:
//
//	begin d "hello"                // a conversation of Client with Server, with a message of type Ask
//	take SQ as m -> "hello" #0     // receives and acknowledges exactly this
//	equal m.conversation d.peer    // the message names the handle of the other side
//	transaction t
//	t: send d Any "never"          // in the open transaction t; a step without a name commits at once
//	rollback t
//	each how: end d | cleanup d    // what is indented below is done with each alternative
//		$how
//		send d "x" -> ErrNoConversation naming d
//	soon 10s:                      // and this again and again, until all of it succeeds
//		equal d.waiting 1
//	before 2s:                     // and this proves something only if it is done before something else
//		receive SQ -> "early"      // happens: a failure after that time is told as expired
//
// What stands behind an arrow is expected, and a step without one has to succeed. Client,
// Server, CQ, SQ, Contract, Ask, Tell and Any are the names of the check's world; every other
// name of the catalog is made unique. The verbs are in the files script_….go.
type script struct {
	*world
	lines   []scriptLine
	vars    map[string]any
	brokers map[string]*parley.Broker
	txs     map[string]*parley.OwnTx

	be backend.Backend // for maintenance, once a step needs it

	line    int // at work
	step    *scriptStep
	history []string
	told    bool                    // what led to the first failure
	until   time.Time               // the end of the time that the block "before" has
	peers   map[parley.ID]parley.ID // as they were last seen
}

type scriptLine struct {
	indent int
	text   string // without its comment
}

// scriptStep is one verb, what it is given, and what is expected of it.
type scriptStep struct {
	text     string
	actor    string
	verb     string
	args     []string
	want     []string // behind the arrow
	wants    bool     // there is an arrow
	anyOrder bool     // of messages
	result   string   // for the history
}

// scripted makes a check of a script, on a World unless another is given.
func scripted(id, name, text string, on ...func(*env) *world) check {
	return check{ID: id, Name: name, Run: func(e *env) {
		if len(on) == 0 {
			play(e.World(), text)
			return
		}
		play(on[0](e), text)
	}}
}

var scriptBlocks = []string{"before", "each", "if", "soon"}

var (
	scriptComment = regexp.MustCompile(`^((?:[^"/]|/[^/]|"(?:[^"\\]|\\.)*")*)//.*$`)
	scriptTokens  = regexp.MustCompile(`"(?:[^"\\]|\\.)*"(?:\*\d+)?|->|[;,|]|[^\s";,|]+`)
)

// play runs a script, which knows the variables given: pairs of a name and a value. Go code may go
// on with what it returns.
func play(w *world, text string, given ...any) *script {
	s := &script{
		world: w, vars: map[string]any{}, brokers: map[string]*parley.Broker{}, txs: map[string]*parley.OwnTx{},
		peers: map[parley.ID]parley.ID{},
	}
	for i := 0; i < len(given); i += 2 {
		s.vars[given[i].(string)] = given[i+1]
	}
	return s.play(text)
}

// play goes on with another script.
func (s *script) play(text string) *script {
	s.lines = nil
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimRight(scriptComment.ReplaceAllString(line, "$1"), " \t")
		trimmed := strings.TrimLeft(line, " \t")
		if n := len(s.lines); n > 0 && strings.HasSuffix(s.lines[n-1].text, "|") { // it goes on here
			s.lines[n-1].text += " " + trimmed
			continue
		}
		s.lines = append(s.lines, scriptLine{len(line) - len(trimmed), trimmed})
	}
	s.world.explain = s.explain
	defer func() { s.world.explain = nil }()
	s.block(0, len(s.lines), nil)
	return s
}

// block runs the lines from one to before another. given has pairs of a "$name" and its text.
func (s *script) block(from, to int, given []string) {
	for i := from; i < to; i++ {
		line := s.lines[i]
		if line.text == "" {
			continue
		}
		s.line, s.step = i, &scriptStep{text: line.text}
		text := strings.NewReplacer(given...).Replace(line.text)
		head, rest, isBlock := strings.Cut(text, ":")
		words := strings.Fields(head)
		if !isBlock || len(words) == 0 || !slices.Contains(scriptBlocks, words[0]) {
			for _, one := range splitTokens(tokens(text), ";") {
				s.do(one)
			}
			continue
		}
		end := i + 1
		for end < to && (s.lines[end].text == "" || s.lines[end].indent > line.indent) {
			end++
		}
		switch words[0] {
		case "before":
			s.before(strings.Join(words[1:], " "), i+1, end, given)
		case "if":
			if s.holds(strings.Join(words[1:], " ")) {
				s.block(i+1, end, given)
			}
		case "soon":
			s.soon(strings.Join(words[1:], " "), i+1, end, given)
		default:
			for _, values := range s.alternatives(strings.TrimPrefix(head, "each"), rest) {
				s.block(i+1, end, append(values, given...))
			}
		}
		i = end - 1
	}
}

// alternatives returns what each gives to its names: separated by commas, and the last takes the rest.
func (s *script) alternatives(names, text string) (all [][]string) {
	order := strings.Split(names, ",")
	list := strings.Split(text, "|")
	if strings.TrimSpace(text) == "every hold" {
		list = nil
		for _, hold := range s.Holds() {
			list = append(list, holdNames[hold])
		}
	}
	for _, values := range list {
		var pairs []string
		for i, value := range strings.SplitN(values, ",", len(order)) {
			pairs = append(pairs, "$"+strings.TrimSpace(order[i]), strings.TrimSpace(value))
		}
		all = append(all, pairs)
	}
	return all
}

var holdNames = map[parley.Hold]string{parley.HoldTransaction: "by transaction", parley.HoldLease: "by lease"}

// holds tells whether a condition of the store holds.
func (s *script) holds(condition string) bool {
	switch condition {
	case "many writers":
		return s.ManyWriters()
	case "one writer":
		return !s.ManyWriters()
	case "holds in transactions":
		return s.HoldsInTransaction()
	}
	s.failf("there is no condition %q", condition)
	return false
}

func tokens(text string) []string { return scriptTokens.FindAllString(text, -1) }

func splitTokens(all []string, at string) [][]string {
	parts := [][]string{nil}
	for _, t := range all {
		if t == at {
			parts = append(parts, nil)
			continue
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], t)
	}
	return parts
}

// do does one step.
func (s *script) do(words []string) {
	st := &scriptStep{text: strings.Join(words, " ")}
	s.step = st
	if len(words) > 1 && strings.HasSuffix(words[0], ":") {
		st.actor, words = strings.TrimSuffix(words[0], ":"), words[1:]
	}
	parts := splitTokens(words, "->")
	if len(parts[0]) == 0 || len(parts) > 2 {
		s.failf("a step is a verb, what it is given, and at most one arrow")
	}
	st.verb, st.args = parts[0][0], parts[0][1:]
	if st.wants = len(parts) == 2; st.wants {
		st.want = parts[1]
	}
	do, ok := verbs[st.verb]
	if !ok {
		s.failf("there is no verb %q", st.verb)
	}
	err := do(s, st)
	if len(st.args) > 0 && s.Ctx.Err() == nil { // a step whose time is over may not have come to them
		s.failf("%s cannot do anything with %q", st.verb, st.args)
	}
	s.check(err)
	s.note()
}

// check compares the error of a step with the expected error.
func (s *script) check(err error) {
	st := s.step
	want, isError := error(nil), false
	if len(st.want) > 0 {
		want, isError = scriptErrors[st.want[0]]
	}
	switch {
	case !isError && err != nil:
		s.failf("%v", err)
	case !isError && len(st.want) > 0:
		s.failf("%s does not return what is expected, %q", st.verb, st.want)
	case isError && st.want[0] == "Busy" && invBusy(s.env, err):
	case isError && !errors.Is(err, want):
		s.failf("the error is %v, want %q", err, want)
	}
	if err == nil {
		return
	}
	st.result = err.Error()
	for i := 1; i < len(st.want); i++ {
		switch word := st.want[i]; word {
		case "naming":
		case "telling": // the code, and perhaps the text, of a DialogError
			var told *parley.DialogError
			i++
			if !errors.As(err, &told) || fmt.Sprint(told.Code) != st.want[i] {
				s.failf("the error carries %+v", told)
			}
			if i+1 < len(st.want) && strings.HasPrefix(st.want[i+1], `"`) {
				i++
				if told.Text != s.quoted(st.want[i]) {
					s.failf("the error carries %+v", told)
				}
			}
		default:
			if text := s.text(word); !strings.Contains(err.Error(), text) {
				s.failf("the error %q does not name %q", err, text)
			}
		}
	}
}

// note adds the step to the history.
func (s *script) note() {
	line := fmt.Sprintf("%3d  %s", s.line+1, s.step.text)
	if s.step.result != "" {
		line += "  = " + s.step.result
	}
	s.history = append(s.history, line)
}

// failf ends the check.
func (s *script) failf(format string, args ...any) {
	s.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

// explain adds to a failure where in the script it was, and to the first one what led to it.
func (s *script) explain(failure string) string {
	if !s.until.IsZero() && time.Now().After(s.until) {
		s.late()
	}
	failure = strings.ReplaceAll(failure, s.Name(""), "") // names are as in the script
	failure = fmt.Sprintf("line %d, %s: %s", s.line+1, s.step.text, failure)
	if s.told {
		return failure
	}
	s.told = true
	var b strings.Builder
	b.WriteString(failure)
	for i, line := range s.lines {
		mark := "  "
		if i == s.line {
			mark = "> "
		}
		if line.text != "" {
			fmt.Fprintf(&b, "\n%s%3d  %s%s", mark, i+1, strings.Repeat("  ", line.indent-s.outdent()), line.text)
		}
	}
	b.WriteString("\nwhat was done:")
	for _, line := range s.history {
		b.WriteString("\n  " + line)
	}
	return b.String()
}

// outdent is how far the whole script is indented.
func (s *script) outdent() int {
	least := 100
	for _, line := range s.lines {
		if line.text != "" {
			least = min(least, line.indent)
		}
	}
	return least
}

// broker returns the broker of the step's actor.
func (s *script) broker() *parley.Broker {
	if b := s.brokers[s.step.actor]; b != nil {
		return b
	}
	if s.step.actor != "" && s.txs[s.step.actor] == nil && s.delivery(s.step.actor) == nil {
		s.failf("there is no transaction, broker or delivery %q", s.step.actor)
	}
	return s.B
}

// as returns the world of the step's broker.
func (s *script) as() *world {
	w := *s.world
	w.B = s.broker()
	return &w
}

// in calls f in the actor's transaction, or in a transaction that is committed at once.
func (s *script) in(f func(tx *parley.Tx) error) error {
	b := s.broker()
	if tx := s.txs[s.step.actor]; tx != nil {
		return f(tx.Tx)
	}
	if d := s.delivery(s.step.actor); d != nil {
		tx, err := d.Tx(s.Ctx)
		if err != nil {
			return err
		}
		return f(tx)
	}
	return b.InTx(s.Ctx, f)
}

// open returns the open transaction in which the step is done; nil if it is none.
func (s *script) open() *parley.Tx {
	if tx := s.txs[s.step.actor]; tx != nil {
		return tx.Tx
	}
	return nil
}

// next takes the next word that the step is given; "" if there is none.
func (st *scriptStep) next() string {
	if len(st.args) == 0 {
		return ""
	}
	word := st.args[0]
	st.args = st.args[1:]
	return word
}

// option takes a word and what stands behind it.
func (st *scriptStep) option(name string) (value string, ok bool) {
	for i := 0; i+1 < len(st.args); i++ {
		if st.args[i] == name {
			value = st.args[i+1]
			st.args = append(st.args[:i:i], st.args[i+2:]...)
			return value, true
		}
	}
	return "", false
}

// flag takes a word and tells whether it was there.
func (st *scriptStep) flag(name string) bool {
	for i, a := range st.args {
		if a == name {
			st.args = append(st.args[:i:i], st.args[i+1:]...)
			return true
		}
	}
	return false
}

// duration takes an option that is a duration; zero if it is not there.
func (s *script) duration(name string) time.Duration {
	text, ok := s.step.option(name)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		s.failf("%q is no duration", text)
	}
	if d >= 5*time.Second && d < time.Hour { // something comes in it; for an hour no check waits
		d = slow.By(d)
	}
	return d
}
