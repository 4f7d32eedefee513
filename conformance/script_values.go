package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleymq/parley"
)

// side is a variable for one side of a conversation.
type side struct {
	handle parley.ID
	target bool
}

// post is a variable for a post.
type post struct {
	queue, key string
	id         parley.ID
}

// postFields are what can be asked of a post that waits or is kept.
var postFields = map[string]func(p *parley.PostStatus) any{
	"state": func(p *parley.PostStatus) any { return p.State },
	"body":  func(p *parley.PostStatus) any { return string(p.Body) },
	"type":  func(p *parley.PostStatus) any { return p.Type },
	"key":   func(p *parley.PostStatus) any { return p.Key },
	"id":    func(p *parley.PostStatus) any { return p.ID },
	"due":   func(p *parley.PostStatus) any { return p.Due },
}

// scriptErrors are the errors that a script can expect.
var scriptErrors = map[string]error{
	"ErrBeyondLifetime": parley.ErrBeyondLifetime, "ErrConversationError": parley.ErrConversationError,
	"ErrEnded": parley.ErrEnded, "ErrFarEnded": parley.ErrFarEnded, "ErrFenced": parley.ErrFenced,
	"ErrNoValidator": parley.ErrNoValidator, "Busy": parley.ErrGroupBusy, // or another error of this kind
	"ErrClosed": parley.ErrClosed, "ErrGroupBusy": parley.ErrGroupBusy,
	"ErrInvalidName": parley.ErrInvalidName, "ErrTooLarge": parley.ErrTooLarge,
	"Canceled": context.Canceled, "DeadlineExceeded": context.DeadlineExceeded,
	"ErrGroupElsewhere": parley.ErrGroupElsewhere, "ErrInvalidBody": parley.ErrInvalidBody,
	"ErrInvalidErrorCode": parley.ErrInvalidErrorCode, "ErrInvalidOption": parley.ErrInvalidOption,
	"ErrNoConversation": parley.ErrNoConversation, "ErrNoMessage": parley.ErrNoMessage,
	"ErrNotPending": parley.ErrNotPending, "ErrPromotionRefused": parley.ErrPromotionRefused,
	"ErrQueueDisabled": parley.ErrQueueDisabled, "ErrSettled": parley.ErrSettled, "ErrTxDone": parley.ErrTxDone,
	"ErrTypeNotAllowed": parley.ErrTypeNotAllowed, "ErrUnknownGroup": parley.ErrUnknownGroup,
	"ErrUnknownQueue": parley.ErrUnknownQueue, "ErrUnknownService": parley.ErrUnknownService,
	"ErrUnknownContract": parley.ErrUnknownContract, "ErrUnknownType": parley.ErrUnknownType,
}

// set gives a variable a value, if it has a name.
func (s *script) set(name string, v any) {
	if name != "" {
		s.vars[name] = v
	}
}

// worldName returns a name that every world has.
func (s *script) worldName(word string) (string, bool) {
	name, ok := map[string]string{
		"Client": s.Client, "Server": s.Server, "CQ": s.CQ, "SQ": s.SQ, "Contract": s.Contract,
		"Ask": s.Ask, "Tell": s.Tell, "Any": s.Any,
		"EndDialog": parley.EndDialog, "Error": parley.ErrorMessageType, "DialogTimer": parley.DialogTimer,
		"DefaultType": parley.DefaultType, "NoType": "",
	}[word]
	return name, ok
}

// name returns the name of something in the catalog.
func (s *script) name(word string) string {
	if strings.HasPrefix(word, `"`) {
		return s.quoted(word)
	}
	if name, ok := s.worldName(word); ok {
		return name
	}
	if _, ok := s.vars[word]; !ok {
		s.vars[word] = s.Name(word) // from now on a value too
	}
	return s.Name(word)
}

// unquoted is quoted for a word that may be without quotes.
func (s *script) unquoted(word string) string {
	if strings.HasPrefix(word, `"`) {
		return s.quoted(word)
	}
	return word
}

// quoted returns the text of "text", or of "text"*3: three times.
func (s *script) quoted(word string) string {
	last := strings.LastIndexByte(word, '"') + 1
	times, text := 1, word[:last]
	if n, ok := strings.CutPrefix(word[last:], "*"); ok {
		times, _ = strconv.Atoi(n)
	}
	text, err := strconv.Unquote(text)
	if err != nil {
		s.failf("%s is no text in quotes", word)
	}
	return strings.Repeat(text, times)
}

// body is quoted for what is sent; nil stands for no slice.
func (s *script) body(word string) []byte {
	if word == "nil" {
		return nil
	}
	return []byte(s.quoted(word))
}

// text returns what a word stands for: a text in quotes, a number, a variable with its fields, or a name.
func (s *script) text(word string) string { return fmt.Sprint(s.value(word)) }

var scriptLiterals = strings.Fields("true false none SO CO DI DO ER CD pending delayed processed")

func (s *script) value(word string) any {
	switch {
	case strings.HasPrefix(word, `"`):
		return s.quoted(word)
	case word == "NoGroup":
		return parley.ID{}
	case slices.Contains(scriptLiterals, word) || strings.Trim(word, "-0123456789") == "":
		return word
	}
	if d, err := time.ParseDuration(word); err == nil {
		return d
	}
	if name, ok := s.worldName(word); ok {
		return name
	}
	path := strings.Split(word, ".")
	v, ok := s.vars[path[0]]
	if !ok {
		s.failf("there is no variable %q", path[0])
	}
	for _, field := range path[1:] {
		v = s.field(v, field)
	}
	switch v := v.(type) {
	case side:
		return v.handle
	case post:
		return v.id
	}
	return v
}

// field returns a field of a value.
func (s *script) field(v any, name string) any {
	var got any
	switch v := v.(type) {
	case side:
		got = s.sideField(v, name)
	case post:
		got = s.postField(v, name)
	case *parley.Delivery:
		switch name {
		case "group":
			got = v.Group
		case "promoted":
			got = v.Promoted
		case "level":
			got = v.Level
		default:
			return s.field(v.Messages, name)
		}
	case []*parley.Message:
		if n, err := strconv.Atoi(name); err == nil && n < len(v) {
			return v[n : n+1]
		}
		switch name {
		case "bodies": // whatever their order
			return strings.Join(slices.Sorted(slices.Values(bodiesOf(v))), ", ")
		case "count":
			return len(v)
		}
		if read, ok := messageFields[name]; ok && len(v) > 0 {
			got = read(v[0])
		}
	}
	if got == nil {
		s.failf("a %T has no field %q", v, name)
	}
	return got
}

// postField reads a field of a post from the store; the state of a missing post is "none".
func (s *script) postField(p post, name string) any {
	if name == "group" {
		groups, err := s.B.Admin().Groups(s.Ctx, p.queue, parley.Place{}, 100)
		s.Must(err)
		for _, g := range groups {
			if g.Key == p.key && (p.key != "" || g.Group == p.id) {
				return g.Group
			}
		}
		s.failf("the queue does not list the post's group")
	}
	status, err := s.B.PostStatus(s.Ctx, p.queue, p.id)
	if errors.Is(err, parley.ErrNotPending) && name == "state" {
		return "none"
	}
	s.Must(err)
	if read, ok := postFields[name]; ok {
		return read(status)
	}
	return nil
}

// messageFields are what can be asked of a message.
var messageFields = map[string]func(m *parley.Message) any{
	"id":             func(m *parley.Message) any { return m.ID },
	"key":            func(m *parley.Message) any { return m.Key },
	"conversation":   func(m *parley.Message) any { return side{m.Conversation, !m.Initiator} },
	"conversationID": func(m *parley.Message) any { return m.ConversationID },
	"group":          func(m *parley.Message) any { return m.Group },
	"service":        func(m *parley.Message) any { return m.Service },
	"far":            func(m *parley.Message) any { return m.FarService },
	"contract":       func(m *parley.Message) any { return m.Contract },
	"initiator":      func(m *parley.Message) any { return m.Initiator },
	"priority":       func(m *parley.Message) any { return m.Priority },
	"text":           func(m *parley.Message) any { return m.Err().Text },
}

// sideFields are what can be asked of a side that is there.
var sideFields = map[string]func(ep *parley.Endpoint) any{
	"state":     func(ep *parley.Endpoint) any { return string(ep.State) },
	"group":     func(ep *parley.Endpoint) any { return ep.Group },
	"id":        func(ep *parley.Endpoint) any { return ep.Conversation },
	"service":   func(ep *parley.Endpoint) any { return ep.Service },
	"far":       func(ep *parley.Endpoint) any { return ep.FarService },
	"initiator": func(ep *parley.Endpoint) any { return ep.Initiator },
	"next":      func(ep *parley.Endpoint) any { return ep.NextSeq },
	"priority":  func(ep *parley.Endpoint) any { return ep.Priority },
}

// sideField reads a field of a side from the store.
func (s *script) sideField(v side, name string) any {
	switch name {
	case "timer", "waiting", "withheld", "sides", "says":
		list, err := s.B.Admin().Conversations(s.Ctx, parley.ConversationQuery{Handle: v.handle})
		s.Must(err)
		if name == "sides" {
			return len(list)
		}
		for _, c := range list {
			if c.Handle == v.handle {
				return map[string]any{
					"timer": c.Timer, "waiting": c.Waiting, "withheld": c.Withheld, "says": c.Status,
				}[name]
			}
		}
		s.failf("side %s is not listed", v.handle)
	}
	ep := s.status(v.handle)
	if ep == nil {
		if peer, ok := s.peers[v.handle]; ok && name == "peer" {
			return side{peer, !v.target}
		}
		if name != "state" {
			s.failf("conversation %s is gone", v.handle)
		}
		return "none"
	}
	if read, ok := sideFields[name]; ok {
		return read(ep)
	}
	switch name {
	case "peer":
		s.peers[v.handle] = ep.FarHandle
		return side{ep.FarHandle, !v.target}
	case "code", "text":
		if ep.Error == nil {
			s.failf("side %s is %s and not in error", v.handle, ep.State)
		}
		if name == "code" {
			return ep.Error.Code
		}
		return ep.Error.Text
	}
	return nil
}

// status reads a side in the actor's transaction; nil if there is none.
func (s *script) status(h parley.ID) (ep *parley.Endpoint) {
	s.Must(s.in(func(tx *parley.Tx) (err error) {
		ep, err = tx.Conversation(h).Status(s.Ctx)
		if errors.Is(err, parley.ErrNoConversation) {
			ep, err = nil, nil
		}
		return err
	}))
	return ep
}

// side returns the side for which a word stands.
func (s *script) side(word string) side {
	path := strings.Split(word, ".")
	v, ok := s.vars[path[0]]
	if !ok {
		s.failf("there is no variable %q", path[0])
	}
	for _, field := range path[1:] {
		v = s.field(v, field)
	}
	switch v := v.(type) {
	case side:
		return v
	case parley.ID:
		return side{handle: v}
	}
	s.failf("%q is no side of a conversation", word)
	return side{}
}

// sides returns those that the step is given.
func (s *script) sides() (all []parley.ID) {
	for len(s.step.args) > 0 {
		all = append(all, s.side(s.step.next()).handle)
	}
	return all
}

// id returns the group or post for which a word stands.
func (s *script) id(word string) parley.ID {
	switch v := s.value(word).(type) {
	case parley.ID:
		return v
	case *parley.Delivery:
		return v.Group
	}
	s.failf("%q is no group or post", word)
	return parley.ID{}
}

// delivery returns the delivery that has a name; nil if there is none.
func (s *script) delivery(name string) *parley.Delivery {
	d, _ := s.vars[name].(*parley.Delivery)
	return d
}

// mustDelivery is delivery for the next word of the step.
func (s *script) mustDelivery() *parley.Delivery {
	name := s.step.next()
	d := s.delivery(name)
	if d == nil {
		s.failf("there is no delivery %q", name)
	}
	return d
}

// match ends the check unless the messages are as the step expects. The expectations are separated
// by commas. Each has some of these: type, body, #number, "on" the handle of its side, and "naming"
// a part of an Error's text.
func (s *script) match(ms []*parley.Message) {
	var told []string
	for _, m := range ms {
		told = append(told, fmt.Sprintf("%s %.60q #%d", strings.TrimPrefix(m.Type, s.Name("")), m.Body, m.Seq))
	}
	s.step.result = strings.Join(told, ", ")
	if !s.step.wants {
		return
	}
	patterns := splitTokens(s.step.want, ",")
	s.step.want = nil
	if len(patterns) != len(ms) {
		s.failf("received %d messages (%s), want %d", len(ms), s.step.result, len(patterns))
	}
	for i, m := range ms {
		problem := s.mismatch(m, patterns[i])
		for j := i + 1; s.step.anyOrder && problem != "" && j < len(patterns); j++ {
			patterns[i], patterns[j] = patterns[j], patterns[i]
			problem = s.mismatch(m, patterns[i])
		}
		if problem != "" {
			s.failf("message %d of %s is not %s: %s", i+1, s.step.result, strings.Join(patterns[i], " "), problem)
		}
	}
}

// mismatch tells in what a message is unlike a pattern.
func (s *script) mismatch(m *parley.Message, pattern []string) string {
	same := func(what string, got, want any) string {
		if fmt.Sprint(got) == fmt.Sprint(want) {
			return ""
		}
		return fmt.Sprintf("its %s is %.200q, want %.200q", what, fmt.Sprint(got), fmt.Sprint(want))
	}
	for i := 0; i < len(pattern); i++ {
		word, problem := pattern[i], ""
		switch {
		case word == "on" && i+1 < len(pattern):
			i++
			problem = same("handle", m.Conversation, s.side(pattern[i]).handle)
		case word == "naming" && i+1 < len(pattern):
			i++
			if name := s.text(pattern[i]); !strings.Contains(m.Err().Text, name) {
				problem = same("text", m.Err().Text, name)
			}
		case word[0] == '#':
			problem = same("number", m.Seq, word[1:])
		case word[0] == '"' && m.Type == parley.ErrorMessageType:
			if text := m.Err().Text; !strings.Contains(text, s.quoted(word)) {
				problem = same("text", text, s.quoted(word))
			}
		case word == `""` && m.Body != nil:
			problem = fmt.Sprintf("its body is %q, want none", m.Body)
		case word[0] == '"':
			problem = same("body", string(m.Body), s.quoted(word))
		case strings.Trim(word, "-0123456789") == "" && m.Type == parley.ErrorMessageType:
			problem = same("code", m.Err().Code, word)
		default:
			problem = same("type", m.Type, s.name(word))
			switch {
			case word == "EndDialog" && m.Body != nil:
				problem = fmt.Sprintf("it has the body %q", m.Body)
			case word == "Error" && problem == "":
				problem = same("body", string(m.Body), string(m.Err().Body()))
			}
		}
		if problem != "" {
			return problem
		}
	}
	return ""
}
