package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// modelStream is one direction of a conversation, the posts of a key, or a post
// without key.
type modelStream struct {
	name     string
	queue    int64
	level    int
	how      *invStream
	conv     *modelConv // nil: posts
	key      string
	post     parley.ID // of a post without key
	group    *modelGroup
	messages []modelMessage // committed and not acknowledged
	writer   *modelSender   // who has sent and is open
	// blurred: it was acknowledged from while a sender was writing. Until the next
	// acknowledgement its place in the order may be older than its oldest message.
	blurred bool
	// late: a sender was writing to it when its group was made ready. So it may stand at
	// the place of a message that came while the group was hidden.
	late bool
}

type modelMessage struct {
	body     string
	from, to time.Time // it was sent after from and committed before to
	attempts int
}

type modelConv struct {
	out, in *modelStream // of the initiator, of the target
	ended   map[parley.ID]bool
}

type modelGroup struct {
	id     parley.ID
	hand   *modelHand
	hidden bool // parked or deferred
	// unsure: it was made ready while a sender was writing to one of its
	// streams; until JobDeferred has looked, claims may pass that stream.
	unsure bool
	promo  *modelPromotion
}

type modelPromotion struct {
	level  int
	sticky bool
	at     time.Time
	serial int // tells it from its replacement
}

type modelSender struct {
	s    *invBelow
	tx   backend.Tx
	from time.Time
	sent map[*modelStream][]string
}

// modelHand is one or several groups held by one receiver.
type modelHand struct {
	s      *invBelow
	tx     backend.Tx // nil: by lease
	holds  []*backend.Hold
	groups []*modelGroup
	promo  []int // serial of the promotion of each group when it was claimed
	narrow bool  // claimed for one endpoint
}

func (m *model) group(id parley.ID) *modelGroup {
	g := m.groups[id]
	if g == nil {
		g = &modelGroup{id: id}
		m.groups[id] = g
	}
	return g
}

// inUse lists the groups that have a stream, in the same order at each run of a
// seed.
func (m *model) inUse() []*modelGroup {
	var all []*modelGroup
	for _, s := range m.streams {
		if s.group != nil && !slices.Contains(all, s.group) {
			all = append(all, s.group)
		}
	}
	return all
}

// name says which group it is by the names of its streams.
func (m *model) name(g *modelGroup) string {
	if g == nil {
		return "{unknown}"
	}
	var names []string
	for _, s := range m.streams {
		if s.group == g {
			names = append(names, s.name)
		}
	}
	return "{" + strings.Join(names, ", ") + "}"
}

// sendable: no sender writes to it, and its conversation goes on.
func sendable(s *modelStream) bool {
	return s.writer == nil && s.post.IsZero() && (s.conv == nil || len(s.conv.ended) == 0)
}

func (m *model) drop(st *modelStream) {
	m.streams = slices.DeleteFunc(m.streams, func(o *modelStream) bool { return o == st })
}

// in lists the streams of a group with messages.
func (m *model) in(g *modelGroup) (streams []*modelStream) {
	for _, s := range m.streams {
		if s.group == g && len(s.messages) > 0 {
			streams = append(streams, s)
		}
	}
	return streams
}

// ready lists the groups of a queue that a claim may take. A key's group is
// known once it was claimed for the first time: before, it is a candidate
// without id.
func (m *model) ready(queue int64) (ready []*modelGroup) {
	for _, s := range m.streams {
		if s.queue != queue || len(s.messages) == 0 {
			continue
		}
		if s.group == nil {
			s.group = &modelGroup{} // to be known by its streams
		}
		if g := s.group; g.hand == nil && !g.hidden && !slices.Contains(ready, g) {
			ready = append(ready, g)
		}
	}
	return ready
}

// place says between which times the oldest message of a group was sent, and
// which level the group has.
func (m *model) place(g *modelGroup) (level int, earliest, latest time.Time) {
	for i, s := range m.in(g) {
		first := s.messages[0]
		if s.blurred {
			first.from = time.Time{}
		}
		if s.late {
			first.to = time.Now().Add(time.Hour)
		}
		if i == 0 || first.from.Before(earliest) {
			earliest = first.from
		}
		if i == 0 || first.to.Before(latest) {
			latest = first.to
		}
		level = max(level, s.level)
	}
	return level, earliest, latest
}

// before reports whether a must come before b. Times that are close together
// may be equal to the store.
func (m *model) before(a, b *modelGroup) bool {
	const close = 3 * time.Millisecond
	switch {
	case a.promo != nil && b.promo != nil && a.promo.level != b.promo.level:
		return a.promo.level > b.promo.level
	case a.promo != nil && b.promo != nil:
		return b.promo.at.Sub(a.promo.at) > close
	case a.promo != nil || b.promo != nil:
		return a.promo != nil
	}
	la, _, latest := m.place(a)
	lb, earliest, _ := m.place(b)
	if la != lb {
		return la > lb
	}
	return earliest.Sub(latest) > close
}

// streamOf finds the stream of a message.
func (m *model) streamOf(msg *backend.Message, group parley.ID) *modelStream {
	for _, s := range m.streams {
		switch {
		case !msg.Handle.IsZero():
			if s.conv != nil && s.how.peer == msg.Handle {
				return s
			}
		case msg.Key != "":
			if s.key == msg.Key {
				return s
			}
		case s.post == group && !group.IsZero():
			return s
		}
	}
	m.failf("delivered %q of group %s, which belongs to no stream", msg.Body, group)
	return nil
}

func bodyOf(msg *backend.Message) string {
	if msg.Kind != backend.KindUser {
		return msg.Type
	}
	return string(msg.Body)
}

func (s *modelStream) texts() (all []string) {
	for _, msg := range s.messages {
		all = append(all, msg.body)
	}
	return all
}

func (m *model) rank(g *modelGroup) string {
	level, from, to := m.place(g)
	s := fmt.Sprintf("%s (level %d, sent between %s and %s)", m.name(g), level, from.Format("05.000"), to.Format("05.000"))
	if g.promo != nil {
		s += fmt.Sprintf(" promoted to %d at %s", g.promo.level, g.promo.at.Format("05.000"))
	}
	return s
}

func (m *model) names(h *modelHand) string {
	var names []string
	for _, g := range h.groups {
		names = append(names, m.name(g))
	}
	return strings.Join(names, " ")
}

// inFlight: the group is a post that is not committed yet.
func (m *model) inFlight(g *modelGroup) bool {
	return slices.ContainsFunc(m.streams, func(s *modelStream) bool { return s.group == g && !s.post.IsZero() && s.writer != nil })
}

// written reports whether a sender is writing to a stream of the group.
func (m *model) written(g *modelGroup) bool {
	return slices.ContainsFunc(m.streams, func(s *modelStream) bool { return s.group == g && s.writer != nil })
}
