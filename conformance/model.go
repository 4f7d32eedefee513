package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// SeedEnv is the environment variable that repeats the random checks of a run:
// their failures say which seed they had.
const SeedEnv = "PARLEY_CONFORMANCE_SEED"

func modelSeed() uint64 {
	if n, err := strconv.ParseUint(os.Getenv(SeedEnv), 10, 64); err == nil {
		return n
	}
	return rand.Uint64N(1_000_000)
}

// model is a queue as it should be. It is driven in step with a store, one call
// after another, through several handles: so it knows at each step exactly what
// is committed, what is in flight, and what a claim may deliver.
type model struct {
	*invBelow // the handle of the step
	seed      uint64
	rng       *rand.Rand
	handles   []*invBelow

	streams []*modelStream
	groups  map[parley.ID]*modelGroup
	senders []*modelSender
	hands   []*modelHand
	bodies  int
	serial  int
	log     []string
}

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
	// blurred: it was acknowledged from while a sender was writing, so that its
	// place in the order may be older than its oldest message, until the next
	// acknowledgement.
	blurred bool
	// late: somebody was writing to it when its group was made ready, so that it
	// may stand at the place of a message that came while the group was hidden.
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
	// unsure: it was made ready while somebody was writing to one of its
	// streams; until DutyDeferred has looked, claims may pass that stream.
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

func checkModel(e *Env) {
	w := invWorld(e)
	m := &model{seed: modelSeed(), groups: map[parley.ID]*modelGroup{}}
	m.rng = rand.New(rand.NewPCG(m.seed, 1))
	for range 3 {
		m.handles = append(m.handles, invUnder(w))
	}
	m.invBelow = m.handles[0]
	for i := range 5 {
		m.beginConv(i)
	}
	for i := range 3 {
		key, level := fmt.Sprint("key ", i), []int{5, 3, 8}[i]
		how := &invStream{kind: "key", send: m.poster(key, backend.NewID, level)}
		m.streams = append(m.streams, &modelStream{name: key, queue: m.sq, level: level, key: key, how: how})
	}
	const steps = 1000
	for i := range steps {
		if e.Ctx.Err() != nil {
			m.failf("the check ran out of time at step %d", i)
		}
		m.invBelow = m.handles[m.rng.IntN(len(m.handles))]
		m.step()
		if i%20 == 19 {
			m.probe()
		}
	}
	m.finish()
}

// failf ends the check, with what it needs to be understood and repeated.
func (m *model) failf(format string, args ...any) {
	last := m.log[max(len(m.log)-40, 0):]
	text := fmt.Sprintf(format, args...) + fmt.Sprintf("\nseed %d (%s); step %d; the last steps:\n    %s", m.seed, SeedEnv, len(m.log), strings.Join(last, "\n    "))
	for _, queue := range []int64{m.sq, m.cq} {
		groups, err := m.be.Groups(m.Ctx, backend.GroupQuery{Queue: queue, Limit: 100})
		text += fmt.Sprintf("\nthe store's own list of groups (%v):", err)
		for _, g := range groups {
			text += fmt.Sprintf("\n    %s %s: promoted %t to %d, priority %d, %d messages, oldest %v ago", m.name(m.groups[g.Group]), g.State, g.Promoted, g.Level, g.Priority, g.Messages, g.Oldest)
		}
	}
	m.fail(text)
	runtime.Goexit()
}

func (m *model) logf(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

func (m *model) must(err error, what string) {
	if err != nil {
		m.failf("%s: %v", what, err)
	}
}

func (m *model) group(id parley.ID) *modelGroup {
	g := m.groups[id]
	if g == nil {
		g = &modelGroup{id: id}
		m.groups[id] = g
	}
	return g
}

// beginConv begins a conversation: two streams.
func (m *model) beginConv(n int) {
	st := m.dialog()
	back := &invStream{kind: "conversation", handle: st.peer, peer: st.handle}
	version, typ := m.version, m.Any
	back.send = func(ctx context.Context, tx backend.Tx, body string) error {
		_, err := tx.Send(ctx, version, []backend.Outgoing{{ID: backend.NewID(), From: back.handle, Type: typ, Kind: backend.KindUser, Body: []byte(body)}})
		return err
	}
	c := &modelConv{ended: map[parley.ID]bool{}}
	c.out = &modelStream{name: fmt.Sprintf("conv %d", n), queue: m.sq, level: 5, how: st, conv: c, group: m.group(st.peer)}
	c.in = &modelStream{name: fmt.Sprintf("conv %d back", n), queue: m.cq, level: 5, how: back, conv: c, group: m.group(st.handle)}
	m.streams = append(m.streams, c.out, c.in)
}

// poster returns what sends posts: each with an id of its own, or all with one.
func (m *model) poster(key string, id func() parley.ID, level int) func(context.Context, backend.Tx, string) error {
	version, queue, typ := m.version, m.sq, m.Any
	return func(ctx context.Context, tx backend.Tx, body string) error {
		_, err := tx.Post(ctx, version, []backend.Posting{{ID: id(), Queue: queue, Key: key, Rank: level, Type: typ, Body: []byte(body)}})
		return err
	}
}

// step does one thing at random.
func (m *model) step() {
	steps := []struct {
		weight int
		do     func()
	}{
		{24, m.send}, {14, m.endSender}, {24, m.claimStep}, {24, m.settleStep}, {4, m.more},
		{6, m.promote}, {3, m.unpark}, {4, m.move}, {2, m.endConv}, {4, m.tendStep}, {1, m.crash}, {1, m.abandon},
	}
	total := 0
	for _, s := range steps {
		total += s.weight
	}
	n := m.rng.IntN(total)
	for _, s := range steps {
		if n -= s.weight; n < 0 {
			s.do()
			return
		}
	}
}

// pick returns one of those that fit, zero if none does.
func pick[T any](rng *rand.Rand, all []T, fits func(T) bool) (one T) {
	n := 0
	for _, v := range all {
		if fits(v) {
			if n++; rng.IntN(n) == 0 {
				one = v
			}
		}
	}
	return one
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

// sendable: nobody else writes to it, and its conversation goes on.
func sendable(s *modelStream) bool {
	return s.writer == nil && s.post.IsZero() && (s.conv == nil || len(s.conv.ended) == 0)
}

func (m *model) send() {
	sender := &modelSender{s: m.invBelow, from: time.Now(), sent: map[*modelStream][]string{}}
	if m.HoldsInTransaction() && m.rng.IntN(3) == 0 { // add to an open one
		if s := pick(m.rng, m.senders, func(*modelSender) bool { return true }); s != nil {
			sender = s
		}
	}
	opened := sender.tx == nil
	if opened {
		sender.tx = m.begin()
	}
	for range 1 + m.rng.IntN(3) {
		if m.rng.IntN(8) == 0 && opened {
			s := m.newPost()
			m.sendOn(sender, s)
			continue
		}
		s := pick(m.rng, m.streams, func(s *modelStream) bool {
			return sendable(s) || s.writer == sender && s.post.IsZero() && (s.conv == nil || len(s.conv.ended) == 0)
		})
		if s != nil {
			m.sendOn(sender, s)
		}
	}
	if !opened {
		return
	}
	m.senders = append(m.senders, sender)
	if !m.HoldsInTransaction() || m.rng.IntN(2) == 0 {
		m.close(sender)
	}
}

func (m *model) newPost() *modelStream {
	id := backend.NewID()
	level := []int{3, 5, 8}[m.rng.IntN(3)]
	m.bodies++
	s := &modelStream{name: fmt.Sprint("post ", m.bodies), queue: m.sq, level: level, post: id, group: m.group(id)}
	s.how = &invStream{kind: "post", send: m.poster("", func() parley.ID { return id }, level)}
	m.streams = append(m.streams, s)
	return s
}

func (m *model) sendOn(sender *modelSender, s *modelStream) {
	m.bodies++
	body := fmt.Sprint("m", m.bodies)
	ctx, cancel := context.WithTimeout(m.Ctx, invPatience)
	defer cancel()
	if err := s.how.send(ctx, sender.tx, body); err != nil {
		m.failf("send %s on %s: %v", body, s.name, err)
	}
	s.writer = sender
	sender.sent[s] = append(sender.sent[s], body)
	m.logf("send %s on %s", body, s.name)
}

func (m *model) endSender() {
	if s := pick(m.rng, m.senders, func(*modelSender) bool { return true }); s != nil {
		m.close(s)
	}
}

// close commits or rolls back.
func (m *model) close(s *modelSender) {
	commit := m.rng.IntN(6) > 0
	if commit {
		ctx, cancel := context.WithTimeout(m.Ctx, invPatience)
		defer cancel()
		m.must(s.tx.Commit(ctx), "commit of a sender")
	} else {
		m.must(s.tx.Rollback(m.Ctx), "rollback of a sender")
	}
	m.gone(s, commit)
}

// gone is what the end of a sender means.
func (m *model) gone(s *modelSender, commit bool) {
	now := time.Now()
	m.senders = slices.DeleteFunc(m.senders, func(o *modelSender) bool { return o == s })
	var names []string
	for _, st := range slices.Clone(m.streams) {
		if st.writer != s {
			continue
		}
		st.writer = nil
		if commit {
			for _, body := range s.sent[st] {
				st.messages = append(st.messages, modelMessage{body: body, from: s.from, to: now})
			}
		} else if !st.post.IsZero() {
			m.drop(st)
		}
		names = append(names, fmt.Sprint(st.name, " ", s.sent[st]))
	}
	m.logf("the sender of %s ends: commit %t", strings.Join(names, ", "), commit)
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

// read checks what was delivered of a group: each stream in one piece and from
// its beginning, after skip messages of each that were delivered before.
func (m *model) read(h *backend.Hold, messages []*backend.Message, limit int, only parley.ID, skip map[*modelStream]int) *modelGroup {
	if len(messages) == 0 {
		m.failf("delivered nothing of group %s", h.Group)
	}
	g := m.streamOf(messages[0], h.Group).group
	if g == nil {
		m.failf("delivered %q, which was not committed", bodyOf(messages[0]))
	}
	if g.id.IsZero() {
		g.id = h.Group
		m.groups[g.id] = g
	}
	if g.id != h.Group {
		m.failf("delivered %q in group %s, want %s", bodyOf(messages[0]), h.Group, g.id)
	}
	total := 0
	for _, s := range m.in(g) {
		if only.IsZero() || s.how.peer == only {
			total += len(s.messages) - skip[s]
		}
	}
	var seen []*modelStream
	got := map[*modelStream]int{}
	for _, msg := range messages {
		s := m.streamOf(msg, h.Group)
		if s.group != g || !only.IsZero() && s.how.peer != only {
			m.failf("delivered %q of %s in group %s", bodyOf(msg), s.name, m.name(g))
		}
		if len(seen) == 0 || seen[len(seen)-1] != s {
			if slices.Contains(seen, s) {
				m.failf("the messages of %s are not delivered in one piece", s.name)
			}
			seen = append(seen, s)
		}
		at := skip[s] + got[s]
		if at >= len(s.messages) || s.messages[at].body != bodyOf(msg) {
			m.failf("delivered %q of %s as its number %d; committed and not acknowledged: %v", bodyOf(msg), s.name, at, s.texts())
		}
		if msg.Attempts != s.messages[at].attempts {
			m.failf("%q of %s says that it failed %d times, want %d", bodyOf(msg), s.name, msg.Attempts, s.messages[at].attempts)
		}
		got[s]++
	}
	if want := min(limit, total); len(messages) > want || len(messages) < want && !g.unsure {
		m.failf("delivered %d messages of %s, want %d", len(messages), m.name(g), want)
	}
	return g
}

func (s *modelStream) texts() (all []string) {
	for _, msg := range s.messages {
		all = append(all, msg.body)
	}
	return all
}

func (m *model) claimStep() {
	if len(m.hands) >= 4 {
		return
	}
	hold := m.Holds()[m.rng.IntN(len(m.Holds()))]
	r := backend.ClaimRequest{Queue: m.sq, MaxMessages: 1 + m.rng.IntN(5), MaxGroups: 1 + m.rng.IntN(2), Lease: time.Hour}
	if hold == parley.HoldTransaction {
		r.Lease = 0
	}
	if m.rng.IntN(4) == 0 {
		r.Queue = m.cq
	}
	ready := m.ready(r.Queue)
	if m.rng.IntN(6) == 0 { // one group, held and hidden ones included
		s := pick(m.rng, m.streams, func(s *modelStream) bool { return s.queue == r.Queue && s.group != nil && !s.group.id.IsZero() })
		if s == nil {
			return
		}
		r.Group, r.MaxGroups = s.group.id, 1
		of := s.group
		if s.conv != nil && m.rng.IntN(2) == 0 && !s.conv.ended[s.how.peer] {
			r.Group, r.Handle = parley.ID{}, s.how.peer
		}
		ready = slices.DeleteFunc(ready, func(g *modelGroup) bool { return g != of })
		if !r.Handle.IsZero() && len(s.messages) == 0 {
			ready = nil
		}
	}
	m.take(hold, r, ready)
}

// take claims and compares with the groups that may come.
func (m *model) take(hold parley.Hold, r backend.ClaimRequest, ready []*modelGroup) *modelHand {
	sure := slices.DeleteFunc(slices.Clone(ready), func(g *modelGroup) bool { return g.unsure })
	tx := m.begin()
	var c backend.Claim
	for range 50 { // as a receiver does when there is something in the way
		ctx, cancel := context.WithTimeout(m.Ctx, invPatience)
		var err error
		c, err = tx.Claim(ctx, m.request(r))
		cancel()
		m.must(err, "claim")
		if len(c.Holds) > 0 || !c.Contended || len(sure) == 0 {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	if len(c.Holds) == 0 && len(sure) > 0 {
		var names []string
		for _, g := range sure {
			names = append(names, m.name(g))
		}
		m.failf("a claim finds nothing; stranded: %s", strings.Join(names, " "))
	}
	if len(c.Holds) > r.MaxGroups {
		m.failf("a claim of %d groups brings %d", r.MaxGroups, len(c.Holds))
	}
	hand := &modelHand{s: m.invBelow, tx: tx, holds: c.Holds, narrow: !r.Handle.IsZero()}
	var names []string
	for k, h := range c.Holds {
		g := m.read(h, h.Messages, r.MaxMessages, r.Handle, nil)
		i := slices.Index(ready, g)
		if i < 0 {
			m.failf("claimed %s, which is in hand %t, hidden %t", m.name(g), g.hand != nil, g.hidden)
		}
		if k == 0 { // further ones may pass some
			for _, other := range sure {
				if other != g && m.before(other, g) {
					m.failf("claimed %s before %s", m.rank(g), m.rank(other))
				}
			}
		}
		if h.Promoted != (g.promo != nil) || h.Promoted && h.Level != g.promo.level {
			m.failf("claimed %s, promoted %t to %d", m.rank(g), h.Promoted, h.Level)
		}
		ready = slices.Delete(slices.Clone(ready), i, i+1)
		serial := 0
		if g.promo != nil {
			serial = g.promo.serial
		}
		hand.groups, hand.promo = append(hand.groups, g), append(hand.promo, serial)
		names = append(names, fmt.Sprint(m.name(g), " ", (&invHeld{Hold: h}).bodies()))
	}
	how := "in a transaction"
	if hold == parley.HoldLease || len(c.Holds) == 0 {
		how = "by lease"
		m.must(tx.Commit(m.Ctx), "commit of a claim")
		hand.tx = nil
	}
	m.logf("claim of %d groups of %d messages, %s: %s", r.MaxGroups, r.MaxMessages, how, strings.Join(names, ", "))
	if len(c.Holds) == 0 {
		return nil
	}
	for _, g := range hand.groups {
		g.hand = hand
	}
	m.hands = append(m.hands, hand)
	return hand
}

func (m *model) rank(g *modelGroup) string {
	level, from, to := m.place(g)
	s := fmt.Sprintf("%s (level %d, sent between %s and %s)", m.name(g), level, from.Format("05.000"), to.Format("05.000"))
	if g.promo != nil {
		s += fmt.Sprintf(" promoted to %d at %s", g.promo.level, g.promo.at.Format("05.000"))
	}
	return s
}

// free is the end of a hand.
func (m *model) free(h *modelHand) {
	for _, g := range h.groups {
		g.hand = nil
	}
	m.hands = slices.DeleteFunc(m.hands, func(o *modelHand) bool { return o == h })
}

func (m *model) more() {
	h := pick(m.rng, m.hands, func(h *modelHand) bool { return h.tx != nil && !h.narrow })
	if h == nil {
		return
	}
	i := m.rng.IntN(len(h.holds))
	hold, n := h.holds[i], 1+m.rng.IntN(3)
	skip := map[*modelStream]int{}
	for _, msg := range hold.Messages {
		skip[m.streamOf(msg, hold.Group)]++
	}
	ctx, cancel := context.WithTimeout(m.Ctx, invPatience)
	defer cancel()
	more, err := h.tx.More(ctx, hold, n, 1<<20)
	m.must(err, "more")
	left := 0
	for _, s := range m.in(h.groups[i]) {
		left += len(s.messages) - skip[s]
	}
	m.logf("more of %s: %d", m.name(h.groups[i]), len(more))
	if len(more) > 0 {
		m.read(hold, more, n, parley.ID{}, skip)
	} else if left > 0 && !h.groups[i].unsure {
		m.failf("More delivers nothing of %s, which has %d more", m.name(h.groups[i]), left)
	}
}

func (m *model) settleStep() {
	h := pick(m.rng, m.hands, func(*modelHand) bool { return true })
	if h == nil {
		return
	}
	if h.tx != nil && m.rng.IntN(6) == 0 {
		m.must(h.tx.Rollback(m.Ctx), "rollback of a receiver")
		m.logf("rollback of the receiver of %s", m.names(h))
		m.free(h)
		return
	}
	m.settle(h)
}

func (m *model) names(h *modelHand) string {
	var names []string
	for _, g := range h.groups {
		names = append(names, m.name(g))
	}
	return strings.Join(names, " ")
}

// settle settles in one of many ways.
func (m *model) settle(h *modelHand) {
	tx := h.tx
	ctx, cancel := context.WithTimeout(m.Ctx, 2*invPatience)
	defer cancel()
	if tx == nil {
		tx = m.begin()
		m.must(tx.Reclaim(ctx, h.holds), "reclaim")
	}
	var outcomes []backend.Outcome
	var texts []string
	for i, hold := range h.holds {
		o := backend.Outcome{Hold: hold}
		text := "given back"
		switch n := len(hold.Messages); m.rng.IntN(14) {
		case 0:
		case 12, 13: // failed, and tried again at once or later
			first := hold.Messages[0]
			o.Failure, text = &backend.Failure{Message: first, Attempts: first.Attempts + 1, Error: "a check"}, "failed"
			if m.rng.IntN(3) == 0 {
				o.Defer, text = time.Hour, "failed and deferred"
			}
		case 1:
			o.Park, text = "a check", "parked"
		case 2:
			o.Defer, text = time.Hour, "deferred"
		case 3: // some of it and then parked
			o.Park, o.Done, text = "a check", hold.Messages[:n/2], fmt.Sprintf("%d acknowledged and parked", n/2)
		case 4:
			o.Dead, o.Done = []backend.DeadLetter{{Message: hold.Messages[0], Reason: "a check"}}, hold.Messages[1:]
			text = "all acknowledged, the first dead"
		case 5, 6, 7:
			o.Done, text = hold.Messages[:(n+1)/2], fmt.Sprintf("%d acknowledged", (n+1)/2)
		default:
			o.Done, text = hold.Messages, "all acknowledged"
		}
		outcomes = append(outcomes, o)
		texts = append(texts, m.name(h.groups[i])+" "+text)
	}
	_, err := tx.Settle(ctx, outcomes)
	m.must(err, "settle "+strings.Join(texts, ", "))
	if m.rng.IntN(10) == 0 { // after all
		m.must(tx.Rollback(m.Ctx), "rollback after a settle")
		m.logf("settle and rollback: %s", strings.Join(texts, ", "))
		if h.tx != nil {
			m.free(h)
		}
		return
	}
	m.must(tx.Commit(ctx), "commit of a settle")
	m.logf("settle: %s", strings.Join(texts, ", "))
	m.free(h)
	for i, o := range outcomes {
		g := h.groups[i]
		gone := slices.Clone(o.Done)
		for _, d := range o.Dead {
			gone = append(gone, d.Message)
		}
		for _, msg := range o.Hold.Messages {
			s := m.streamOf(msg, o.Hold.Group)
			if slices.Contains(gone, msg) {
				s.messages, s.blurred, s.late = s.messages[1:], s.writer != nil, s.late && s.writer != nil
			}
			if o.Failure != nil && o.Failure.Message == msg {
				s.messages[0].attempts++
			}
		}
		for _, s := range slices.Clone(m.streams) {
			if s.group == g && !s.post.IsZero() && len(s.messages) == 0 {
				m.drop(s)
			}
		}
		if len(gone) > 0 && g.promo != nil && !g.promo.sticky && g.promo.serial == h.promo[i] {
			g.promo = nil
		}
		if o.Park != "" || o.Defer > 0 {
			g.hidden = true
		}
	}
}

func (m *model) promote() {
	g := pick(m.rng, m.inUse(), func(g *modelGroup) bool { return !g.id.IsZero() && !m.inFlight(g) })
	if g == nil {
		return
	}
	p := &modelPromotion{level: m.rng.IntN(3), sticky: m.rng.IntN(5) == 0, serial: m.serial + 1}
	ctx, cancel := context.WithTimeout(m.Ctx, invPatience)
	defer cancel()
	tx := m.begin()
	if m.rng.IntN(4) == 0 {
		m.must(tx.Demote(ctx, g.id), "demote")
		p = nil
	} else {
		m.must(tx.Promote(ctx, backend.Promotion{Group: g.id, Level: p.level, Sticky: p.sticky}), "promote")
		p.at = time.Now()
	}
	m.serial++
	commit := m.rng.IntN(6) > 0
	if commit {
		m.must(tx.Commit(ctx), "commit of a promotion")
		g.promo = p
	} else {
		m.must(tx.Rollback(m.Ctx), "rollback of a promotion")
	}
	if p == nil {
		m.logf("demote %s: commit %t", m.name(g), commit)
	} else {
		m.logf("promote %s to %d, sticky %t: commit %t", m.name(g), p.level, p.sticky, commit)
	}
}

// inFlight: the group is a post that is not committed yet.
func (m *model) inFlight(g *modelGroup) bool {
	return slices.ContainsFunc(m.streams, func(s *modelStream) bool { return s.group == g && !s.post.IsZero() && s.writer != nil })
}

func (m *model) unpark() {
	if g := pick(m.rng, m.inUse(), func(g *modelGroup) bool { return g.hidden }); g != nil {
		m.unparkGroup(g)
	}
}

func (m *model) unparkGroup(g *modelGroup) {
	ctx, cancel := context.WithTimeout(m.Ctx, invPatience)
	defer cancel()
	tx := m.begin()
	m.must(tx.Unpark(ctx, g.id), "unpark")
	m.must(tx.Commit(ctx), "commit of an unpark")
	g.hidden = false
	g.unsure = m.written(g)
	for _, s := range m.streams {
		if s.group == g {
			s.late = s.writer != nil
		}
	}
	m.logf("unpark %s", m.name(g))
}

// written reports whether somebody is writing to a stream of the group.
func (m *model) written(g *modelGroup) bool {
	return slices.ContainsFunc(m.streams, func(s *modelStream) bool { return s.group == g && s.writer != nil })
}

func (m *model) move() {
	s := pick(m.rng, m.streams, func(s *modelStream) bool { return s.conv != nil && !s.conv.ended[s.how.peer] })
	if s == nil {
		return
	}
	from := s.group
	to := pick(m.rng, m.inUse(), func(g *modelGroup) bool {
		return g != from && slices.ContainsFunc(m.streams, func(o *modelStream) bool { return o.group == g && o.conv != nil && o.queue == s.queue })
	})
	fresh := to == nil || m.rng.IntN(3) == 0
	if fresh {
		to = &modelGroup{id: backend.NewID()}
	}
	ctx, cancel := context.WithTimeout(m.Ctx, invPatience)
	defer cancel()
	tx := m.begin()
	what := fmt.Sprintf("move %s from %s to %s", s.name, m.name(from), m.name(to))
	for _, g := range []*modelGroup{from, to} {
		if g == to && fresh {
			continue
		}
		err := tx.LockGroup(ctx, g.id)
		if g.hand != nil {
			if !invBusy(m.Env, err) {
				m.failf("%s: LockGroup of a held group returns %v", what, err)
			}
			m.rollback(tx)
			m.logf("%s: the group is held", what)
			return
		}
		m.must(err, what+": LockGroup")
	}
	err := tx.Move(ctx, s.how.peer, to.id, fresh)
	if s.writer != nil {
		if !errors.Is(err, backend.ErrStreamBusy) {
			m.failf("%s: somebody is writing, and Move returns %v", what, err)
		}
		m.rollback(tx)
		m.logf("%s: somebody is writing", what)
		return
	}
	m.must(err, what)
	if m.rng.IntN(6) == 0 {
		m.rollback(tx)
		m.logf("%s and rollback", what)
		return
	}
	m.must(tx.Commit(ctx), "commit of a move")
	m.logf("%s", what)
	s.group, s.late = to, false
	if fresh {
		m.groups[to.id] = to
	}
}

func (m *model) endConv() {
	s := pick(m.rng, m.streams, func(s *modelStream) bool {
		return s.conv != nil && s.conv.out.writer == nil && s.conv.in.writer == nil && !s.conv.ended[s.how.peer]
	})
	if s == nil {
		return
	}
	handle, c := s.how.peer, s.conv // the side that receives s ends
	back := c.out
	if back == s {
		back = c.in
	}
	ctx, cancel := context.WithTimeout(m.Ctx, invPatience)
	defer cancel()
	tx := m.begin()
	what := "end of the side that receives " + s.name
	err := tx.LockGroup(ctx, s.group.id)
	if s.group.hand != nil {
		if !invBusy(m.Env, err) {
			m.failf("%s: LockGroup of a held group returns %v", what, err)
		}
		m.rollback(tx)
		return
	}
	m.must(err, what)
	ended, err := tx.EndDialog(ctx, backend.End{Handle: handle, MessageID: backend.NewID()})
	m.must(err, what)
	if ended.Dropped != len(s.messages) {
		m.failf("%s removed %d messages, want %d", what, ended.Dropped, len(s.messages))
	}
	if m.rng.IntN(6) == 0 {
		m.rollback(tx)
		m.logf("%s and rollback", what)
		return
	}
	from := time.Now()
	m.must(tx.Commit(ctx), "commit of an end")
	m.logf("%s", what)
	s.messages = nil
	c.ended[handle] = true
	if len(c.ended) == 2 {
		m.drop(c.out)
		m.drop(c.in)
		m.bodies++
		m.beginConv(m.bodies)
		return
	}
	back.messages = append(back.messages, modelMessage{body: parley.EndDialog, from: from.Add(-invPatience), to: time.Now()})
}

func (m *model) tendStep() {
	duties := []backend.Duty{backend.DutyMarkers, backend.DutyMarkers, backend.DutyDeferred, backend.DutyDeferred, backend.DutyDelayed, backend.DutyClosed}
	m.duty(duties[m.rng.IntN(len(duties))])
}

func (m *model) duty(duty backend.Duty) {
	m.tend(duty)
	m.logf("duty %s", duty)
	if duty == backend.DutyDeferred {
		for _, g := range m.inUse() {
			g.unsure = g.unsure && m.written(g)
		}
	}
}

// crash closes a handle: its transactions are rolled back, its leases live on.
func (m *model) crash() {
	if !m.HoldsInTransaction() {
		return
	}
	dead := m.invBelow
	m.must(dead.be.Close(), "close")
	m.logf("a process dies")
	for _, s := range slices.Clone(m.senders) {
		if s.s == dead {
			m.gone(s, false)
		}
	}
	for _, h := range slices.Clone(m.hands) {
		if h.s == dead && h.tx != nil {
			m.free(h)
		}
	}
	i := slices.Index(m.handles, dead)
	m.handles[i] = invUnder(dead.World)
	m.invBelow = m.handles[i]
}

// abandon takes a group by a short lease and leaves it: after its end it is
// there again, as it was, and the old hold is worth nothing.
func (m *model) abandon() {
	ready := m.ready(m.sq)
	hand := m.take(parley.HoldLease, backend.ClaimRequest{Queue: m.sq, MaxGroups: 1, MaxMessages: 2, Lease: 60 * time.Millisecond}, ready)
	if hand == nil {
		return
	}
	m.free(hand)
	if !m.Soon(10*time.Second, func() bool {
		tx := m.begin()
		defer m.rollback(tx)
		c, err := tx.Claim(m.Ctx, m.request(backend.ClaimRequest{Queue: m.sq, Group: hand.groups[0].id}))
		m.must(err, "claim of an abandoned group")
		return len(c.Holds) > 0
	}) {
		m.failf("the lease of %s does not end", m.names(hand))
	}
	m.logf("the lease ended")
	tx := m.begin()
	defer m.rollback(tx)
	if m.rng.IntN(2) == 0 {
		return
	}
	// Whether an old hold is good for anything as long as nobody else came is
	// the store's choice; after somebody did, it is not.
	g := hand.groups[0]
	next := m.take(parley.HoldLease, backend.ClaimRequest{Queue: m.sq, Group: g.id, MaxGroups: 1, MaxMessages: 2, Lease: time.Hour}, []*modelGroup{g})
	if next == nil {
		m.failf("the lease of %s ended, and a claim of it finds nothing", m.name(g))
	}
	if err := tx.Reclaim(m.Ctx, hand.holds); !errors.Is(err, backend.ErrFenced) {
		m.failf("a hold of %s whose lease ended and that another receiver followed is reclaimed: %v", m.name(g), err)
	}
}

// probe claims everything and rolls back: what is committed, and in nobody's
// hands, must be in the order, and nothing else. It claims by lease, so that what
// it has is not found again.
func (m *model) probe() {
	if m.rng.IntN(2) == 0 {
		m.duty(backend.DutyDeferred)
	}
	for _, queue := range []int64{m.sq, m.cq} {
		ready := m.ready(queue)
		tx := m.begin()
		for found := 0; ; {
			ctx, cancel := context.WithTimeout(m.Ctx, 2*invPatience)
			c, err := tx.Claim(ctx, m.request(backend.ClaimRequest{Queue: queue, MaxGroups: 1000, MaxMessages: 1000, Lease: time.Hour}))
			cancel()
			m.must(err, "claim of everything")
			if len(c.Holds) == 0 { // one claim may return fewer than could be had
				m.logf("probe: %d groups", found)
				break
			}
			found += len(c.Holds)
			for _, h := range c.Holds {
				g := m.read(h, h.Messages, 1000, parley.ID{}, nil)
				i := slices.Index(ready, g)
				if i < 0 {
					m.failf("claims of everything have %s, which is in hand %t, hidden %t, or was claimed before", m.name(g), g.hand != nil, g.hidden)
				}
				ready = slices.Delete(ready, i, i+1)
			}
		}
		for _, g := range ready {
			if !g.unsure {
				m.failf("stranded: claims of everything do not have %s", m.rank(g))
			}
		}
		m.rollback(tx)
	}
}

// finish lets everybody end, and takes all that is left.
func (m *model) finish() {
	for len(m.senders) > 0 {
		m.close(m.senders[0])
	}
	for len(m.hands) > 0 {
		m.settle(m.hands[0])
	}
	for _, g := range m.inUse() {
		if g.hidden {
			m.unparkGroup(g)
		}
	}
	m.duty(backend.DutyDeferred)
	m.probe()
	for _, queue := range []int64{m.sq, m.cq} {
		for len(m.ready(queue)) > 0 {
			hand := m.take(m.Holds()[0], backend.ClaimRequest{Queue: queue, MaxGroups: 2, MaxMessages: 3, Lease: map[bool]time.Duration{false: time.Hour}[m.HoldsInTransaction()]}, m.ready(queue))
			for len(m.hands) > 0 {
				m.settle(hand)
			}
			for _, g := range m.inUse() {
				if g.hidden {
					m.unparkGroup(g)
				}
			}
		}
	}
	m.duty(backend.DutyMarkers)
	m.probe()
}
