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

// farthest is how far into the order of a queue pages go: reading far costs as much as reading all before it.
const farthest = 10000

// queueData is a queue and a page of its groups.
type queueData struct {
	Row    queueRow
	State  string // of the groups that are shown; empty: all
	From   int
	Groups []placedGroup
	Before int // the place of the page before; -1: there is none
	Next   int // that of the next page; zero: there is none
}

// placedGroup is a group with its place in the order of its queue, from zero.
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
	d := &queueData{Row: row, State: q.Get("state"), Before: -1}
	if from := q.Get("from"); from != "" {
		if d.From, err = strconv.Atoi(from); err != nil || d.From < 0 || d.From > farthest {
			return nil, badInput("from: want a number from 0 to %d", farthest)
		}
	}
	if d.State != "" && !slices.Contains(groupStates, d.State) {
		return nil, badInput("state %q: want ready, held, deferred or parked", d.State)
	}
	if d.State != "parked" && d.State != "deferred" || d.State == "parked" && row.Parked > 0 || d.State == "deferred" && row.Deferred > 0 {
		d.Groups, d.Next, err = h.groupsFrom(ctx, row.Name, d.State, d.From, groupsShown)
	}
	if d.From > 0 {
		d.Before = max(0, d.From-groupsShown)
	}
	return d, err
}

// groupsFrom reads groups in a state from a place on, and returns the place of the next page. The groups that can be
// received come first, so a state that few groups have is looked for in larger pages, until the time is over.
func (h *Handler) groupsFrom(ctx context.Context, queue, state string, from, limit int) (groups []placedGroup, next int, err error) {
	size := limit + 1
	if state != "" {
		size = 1000
	}
	for at := from; ; at += size {
		list, err := h.b.Admin().Groups(ctx, queue, at, size)
		if err != nil {
			return nil, 0, err
		}
		for i, g := range list {
			if state != "" && g.State != state {
				continue
			}
			if len(groups) == limit {
				return groups, at + i, nil
			}
			groups = append(groups, placedGroup{g, at + i})
		}
		if len(list) < size {
			return groups, 0, nil
		}
		if at+size >= farthest {
			return groups, 0, nil
		}
	}
}

// groupData is a group with its conversations and, if they were asked for, its messages.
type groupData struct {
	Queue    string
	ID       parley.ID
	Group    *parley.GroupStatus // nil: no message waits in it, or it is far down the order
	Place    int                 // in the order
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

// side is one side of a conversation, with the name of its queue.
type side struct {
	parley.ConversationStatus
	QueueName string
}

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
	Enqueued time.Time
	Sent     bool // by this side; of kept ones
}

func (h *Handler) shown(queue string, m *parley.Message) message {
	x := message{ID: m.ID, Type: m.Type, Key: m.Key, Seq: m.Seq, Bytes: len(m.Body), Headers: m.Headers,
		Attempts: m.Attempt - 1, Error: m.LastError, Enqueued: m.Enqueued}
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
	if d.Group, d.Place, err = h.findGroup(ctx, row.Name, id, seenAt(q)); err != nil {
		return nil, err
	}
	list, err := h.b.Admin().Conversations(ctx, parley.ConversationQuery{Group: id, Limit: 50})
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, err
	}
	if d.Sides, err = h.sides(ctx, list); err != nil || !d.Peeked {
		return d, err
	}
	return d, h.peek(ctx, d)
}

// nearby is how many groups are read to find one: those around the place at which it was seen, and the first ones.
const nearby = 200

// findGroup looks for a group where it was seen, and then among the first ones of a queue. Reading a group counts its
// messages, so it does not look at all of them.
func (h *Handler) findGroup(ctx context.Context, queue string, id parley.ID, seen int) (*parley.GroupStatus, int, error) {
	from := max(0, min(seen, farthest)-nearby/2)
	for {
		list, err := h.b.Admin().Groups(ctx, queue, from, nearby)
		if err != nil {
			return nil, 0, err
		}
		if i := slices.IndexFunc(list, func(g parley.GroupStatus) bool { return g.Group == id }); i >= 0 {
			return &list[i], from + i, nil
		}
		if from == 0 {
			return nil, 0, nil
		}
		from = 0
	}
}

// seenAt is the place of a group when the link to its page was made.
func seenAt(q url.Values) int {
	n, err := strconv.Atoi(q.Get("at"))
	if err != nil {
		return 0
	}
	return n
}

// sides adds the names of queues.
func (h *Handler) sides(ctx context.Context, list []parley.ConversationStatus) ([]side, error) {
	queues, err := h.queues(ctx)
	if err != nil {
		return nil, err
	}
	sides := make([]side, len(list))
	for i, c := range list {
		sides[i].ConversationStatus = c
		for _, q := range queues {
			if q.ID == c.Queue {
				sides[i].QueueName = q.Name
			}
		}
	}
	return sides, nil
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

// conversationPair is both sides of a conversation, or the one that there is.
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
	sides, err := h.sides(ctx, list)
	if err != nil {
		return nil, err
	}
	d.List = pairs(sides)
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
	sides, err := h.sides(ctx, list)
	if err != nil {
		return nil, err
	}
	all := pairs(sides)
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
				Headers: backend.DecodeHeaders(m.Headers), Body: h.redacted(s.QueueName, m.Type, m.Body), Enqueued: m.Enqueued})
		}
		d.Kept = append(d.Kept, k)
	}
	return d, nil
}
