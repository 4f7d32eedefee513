package console

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// groupsShown is how many groups a page has.
const groupsShown = 50

// farthest is how many groups of a queue are looked at to find something in them.
const farthest = 10000

// queueData is a queue and a page of its groups.
type queueData struct {
	Row    queueRow
	State  string // of the groups that are shown; empty: all
	From   int    // how many groups come before the page
	Groups []placedGroup
	Next   string // the place behind which the next page begins; empty: there is none
}

// Behind is how many groups come before the next page.
func (d *queueData) Behind() int { return d.From + len(d.Groups) }

// placedGroup is a group with its number in the list, from zero.
type placedGroup struct {
	parley.GroupStatus
	Place int
}

func (d *queueData) pageTitle() string { return "Queue " + d.Row.Name }

// states are what groups can be asked for by.
var groupStates = []string{"ready", "held", "deferred", "parked"}

// States are the states by which groups can be asked for.
func (d *queueData) States() []string { return groupStates }

func (h *Handler) queueRow(ctx context.Context, name string) (queueRow, error) {
	queues, err := h.queues(ctx)
	if err != nil {
		return queueRow{}, err
	}
	i := slices.IndexFunc(queues, func(q queueRow) bool { return q.Name == name })
	if i < 0 {
		return queueRow{}, parley.WrapError("queue", strconv.Quote(name), parley.ErrUnknownQueue)
	}
	return queues[i], nil
}

func (h *Handler) readQueue(ctx context.Context, q url.Values) (any, error) {
	row, err := h.queueRow(ctx, q.Get("name"))
	if err != nil {
		return nil, err
	}
	d := &queueData{Row: row, State: q.Get("state")}
	if from := q.Get("from"); from != "" {
		if d.From, err = strconv.Atoi(from); err != nil || d.From < 0 {
			return nil, badInput("from: want a number above zero")
		}
	}
	after, err := placeOf(q.Get("after"))
	if err != nil {
		return nil, err
	}
	if after == (parley.Place{}) {
		d.From = 0
	}
	if d.State != "" && !slices.Contains(groupStates, d.State) {
		return nil, badInput("state %q: want ready, held, deferred or parked", d.State)
	}
	list, more, err := h.groupsAfter(ctx, row.Name, d.State, after, groupsShown)
	for i, g := range list {
		d.Groups = append(d.Groups, placedGroup{g, d.From + i})
	}
	if more {
		d.Next = textOf(list[len(list)-1].Place)
	}
	return d, err
}

// groupsAfter reads groups in a state that stand after a place, and whether there are more.
func (h *Handler) groupsAfter(ctx context.Context, queue, state string, after parley.Place, limit int) (groups []parley.GroupStatus, more bool, err error) {
	return pageAfter(ctx, h.inState(state), queue, after, limit)
}

// groupReader reads a page of a list of groups, which may be shorter than the limit though there are more.
type groupReader func(ctx context.Context, queue string, after parley.Place, limit int) ([]parley.GroupStatus, error)

func (h *Handler) inState(state string) groupReader {
	return func(ctx context.Context, queue string, after parley.Place, limit int) ([]parley.GroupStatus, error) {
		return h.b.Admin().GroupsIn(ctx, queue, state, after, limit)
	}
}

func pageAfter(ctx context.Context, read groupReader, queue string, after parley.Place, limit int) (groups []parley.GroupStatus, more bool, err error) {
	for len(groups) <= limit {
		list, err := read(ctx, queue, after, limit+1-len(groups))
		if err != nil {
			return nil, false, err
		}
		if len(list) == 0 {
			return groups, false, nil
		}
		groups, after = append(groups, list...), list[len(list)-1].Place
	}
	return groups[:limit], true, nil
}

// placeOf reads a place in a list from a link; none is the beginning.
func placeOf(text string) (p parley.Place, err error) {
	if text != "" && p.UnmarshalText([]byte(text)) != nil {
		err = badInput("after: %q is no place in a list", text)
	}
	return p, err
}

func textOf(p parley.Place) string {
	if p == (parley.Place{}) {
		return ""
	}
	text, _ := p.MarshalText() // it never fails
	return string(text)
}

// groupData is a group with its conversations and, if they were asked for, its messages.
type groupData struct {
	Queue    string
	ID       parley.ID
	Group    *parley.GroupStatus // nil: no message waits in it
	Place    int                 // in the list from which the link came, below zero if it is not known
	Sides    []side
	Peeked   bool
	Messages []message
	Busy     bool // another receiver holds it
	Bodies   bool
	Promoted bool
}

func (d *groupData) pageTitle() string { return "Group " + short(d.ID) }

// Number is the group's place as people count.
func (d *groupData) Number() int { return d.Place + 1 }

// side is one side of a conversation.
type side struct{ parley.ConversationStatus }

// Sent is how many messages the side has sent.
func (s side) Sent() int { return int(s.NextSeq) }

// Role says which side it is.
func (s side) Role() string {
	if s.Initiator {
		return "initiator"
	}
	return "target"
}

// StateName is the state in words.
func (s side) StateName() string { return stateNames[s.State] }

// StateShape is how the state looks.
func (s side) StateShape() string {
	switch s.State {
	case parley.Errored:
		return "bad"
	case parley.StateClosed:
		return "over"
	case parley.DisconnectedInbound, parley.DisconnectedOutbound:
		return "late"
	}
	return "ready"
}

var stateNames = map[parley.State]string{
	parley.StartedOutbound: "started", parley.Conversing: "conversing", parley.DisconnectedInbound: "far side ended",
	parley.DisconnectedOutbound: "this side ended", parley.Errored: "error", parley.StateClosed: "closed",
}

// message is a message as pages show it.
type message struct {
	ID       parley.ID
	Type     string
	Key      string
	Seq      int64
	Bytes    int
	Body     string // what Options.Redact leaves
	Headers  map[string]string
	Attempts int // failed ones
	Error    string
	Errors   []parley.FailedAttempt
	Enqueued time.Time
	Sent     bool // by this side; of kept ones
}

func (h *Handler) shown(queue string, m *parley.Message) message {
	x := message{ID: m.ID, Type: m.Type, Key: m.Key, Seq: m.Seq, Bytes: len(m.Body), Headers: m.Headers,
		Attempts: m.Attempt - 1, Error: m.LastError, Errors: m.Errors, Enqueued: m.Enqueued}
	x.Body = h.redacted(queue, m.Type, m.Body)
	return x
}

// longestBody is how much of a body a page shows.
const longestBody = 20000

func (h *Handler) redacted(queue, typ string, body []byte) (text string) {
	if h.opt.Redact == nil {
		return ""
	}
	defer func() { // it may be called for open pages, where nothing else would catch it
		if p := recover(); p != nil {
			h.log.Error("parley: console: Redact has panicked", "event", "console.failed", "type", typ, "panic", fmt.Sprint(p))
			text = "(the body cannot be shown)"
		}
	}()
	return backend.CleanText(h.opt.Redact(queue, typ, body), longestBody)
}

func (h *Handler) readGroup(ctx context.Context, q url.Values) (any, error) {
	id, err := parseID(q.Get("id"))
	if err != nil {
		return nil, err
	}
	row, err := h.queueRow(ctx, q.Get("queue"))
	if err != nil {
		return nil, err
	}
	d := &groupData{Queue: row.Name, ID: id, Peeked: q.Get("peek") != "", Bodies: h.opt.Redact != nil}
	d.Place = seenAt(q)
	if d.Group, err = h.b.Admin().Group(ctx, row.Name, id); err != nil && !errors.Is(err, parley.ErrUnknownGroup) {
		return nil, err
	}
	list, err := h.b.Admin().Conversations(ctx, parley.ConversationQuery{Group: id, Limit: 50})
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, err
	}
	if d.Sides = sidesOf(list); !d.Peeked {
		return d, nil
	}
	return d, h.peek(ctx, d)
}

// seenAt is the place of a group when the link to its page was made.
func seenAt(q url.Values) int {
	n, err := strconv.Atoi(q.Get("at"))
	if err != nil {
		return -1
	}
	return n
}

func sidesOf(list []parley.ConversationStatus) []side {
	sides := make([]side, len(list))
	for i, c := range list {
		sides[i] = side{c}
	}
	return sides
}

// messagesShown is how many messages of a group a page has.
const messagesShown = 50

// errPeeked ends a transaction that has only looked.
var errPeeked = errors.New("only looked")

// peek receives messages of a group and gives them back.
func (h *Handler) peek(ctx context.Context, d *groupData) (err error) {
	var list []*parley.Message
	if d.Group != nil && (d.Group.State == "parked" || d.Group.State == "deferred") {
		list, err = h.b.Admin().PeekParked(ctx, d.Queue, d.ID, messagesShown)
	} else {
		err = h.b.InTx(ctx, func(tx *parley.Tx) error {
			list, err = tx.Receive(ctx, d.Queue, &parley.ReceiveOptions{Group: d.ID, MaxMessages: messagesShown})
			if err != nil {
				return err
			}
			return errPeeked
		})
	}
	switch {
	case errors.Is(err, parley.ErrNoMessage), errors.Is(err, parley.ErrGroupBusy), errors.Is(err, parley.ErrQueueDisabled):
		d.Busy, err = d.Group != nil, nil
	case errors.Is(err, errPeeked):
		err = nil
	}
	for _, m := range list {
		d.Messages = append(d.Messages, h.shown(d.Queue, m))
	}
	return err
}

func parseID(text string) (parley.ID, error) {
	id, err := parley.ParseID(text)
	if err != nil {
		return id, &inputError{err}
	}
	return id, nil
}

// conversationsData is a page of conversations.
type conversationsData struct {
	After string
	List  []conversationPair
	Next  string // the id behind which the next page begins
}

// conversationPair is both sides of a conversation, or the side that is left.
type conversationPair struct {
	ID    parley.ID
	Sides []side
}

// conversationsShown is how many conversations a page has.
const conversationsShown = 50

func (h *Handler) readConversations(ctx context.Context, q url.Values) (any, error) {
	d := &conversationsData{After: q.Get("after")}
	query := parley.ConversationQuery{Limit: conversationsShown}
	if d.After != "" {
		var err error
		if query.After, err = parseID(d.After); err != nil {
			return nil, err
		}
	}
	list, err := h.b.Admin().Conversations(ctx, query)
	if err != nil {
		return nil, err
	}
	d.List = pairs(sidesOf(list))
	if len(d.List) == conversationsShown {
		d.Next = d.List[len(d.List)-1].ID.String()
	}
	return d, nil
}

// pairs puts the sides of a conversation together, the initiator first.
func pairs(sides []side) (list []conversationPair) {
	for _, s := range sides {
		n := len(list)
		switch {
		case n == 0 || list[n-1].ID != s.Conversation:
			list = append(list, conversationPair{s.Conversation, []side{s}})
		case s.Initiator:
			list[n-1].Sides = append([]side{s}, list[n-1].Sides...)
		default:
			list[n-1].Sides = append(list[n-1].Sides, s)
		}
	}
	return list
}

// conversationData is a conversation with both sides.
type conversationData struct {
	ID     parley.ID
	Pair   conversationPair
	Peeked bool
	Kept   []keptMessages
	Bodies bool
}

// keptMessages are the copies that a side keeps.
type keptMessages struct {
	Side     side
	Messages []message
}

func (d *conversationData) pageTitle() string { return "Conversation " + short(d.Pair.ID) }

func (h *Handler) readConversation(ctx context.Context, q url.Values) (any, error) {
	id, err := parseID(q.Get("id"))
	if err != nil {
		return nil, err
	}
	list, err := h.b.Admin().Conversations(ctx, parley.ConversationQuery{Handle: id, Limit: 1})
	if err != nil {
		return nil, err
	}
	all := pairs(sidesOf(list))
	if len(all) == 0 {
		return nil, errNotThere
	}
	d := &conversationData{ID: id, Pair: all[0], Peeked: q.Get("kept") != "", Bodies: h.opt.Redact != nil}
	if !d.Peeked {
		return d, nil
	}
	for _, s := range d.Pair.Sides {
		kept, err := h.b.Admin().Retained(ctx, s.Handle)
		if err != nil {
			return nil, err
		}
		k := keptMessages{Side: s}
		for _, r := range kept[max(0, len(kept)-messagesShown):] {
			m := r.Message
			k.Messages = append(k.Messages, message{ID: m.ID, Type: m.Type, Seq: m.Seq, Bytes: len(m.Body), Sent: r.Sent,
				Headers: m.Headers, Body: h.redacted(s.Queue, m.Type, m.Body), Enqueued: m.Enqueued})
		}
		d.Kept = append(d.Kept, k)
	}
	return d, nil
}
