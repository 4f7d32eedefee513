package conformance

import (
	"context"
	"slices"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		check{ID: "V06", Name: "what waits is listed", Run: checkWaiting},
		check{ID: "V06", Name: "the list of what waits waits for no transaction", Run: checkWaitingPrompt},
	)
}

// waiting lists those of some messages that a store lists, in pages.
func (s *invBelow) waiting(ctx context.Context, page int, of []backend.ID) (list []backend.WaitingMessage, err error) {
	for after := (backend.Place{}); ; {
		some, err := s.be.Waiting(ctx, after, page)
		if err != nil || len(some) == 0 {
			return list, err
		}
		if len(some) > page {
			s.Fatalf("a page of at most %d messages has %d", page, len(some))
		}
		for _, m := range some {
			if m.Place.Compare(after) <= 0 {
				s.Fatalf("behind the place %+v is message %+v", after, m)
			}
			if after = m.Place; slices.Contains(of, m.ID) {
				list = append(list, m)
			}
		}
	}
}

// unsettled are messages of a check, with what the list has to say of each.
type unsettled struct {
	*invBelow
	ids  []backend.ID // those of a key first
	want map[backend.ID]unsettledWant
	late backend.ID // the handle that withholds
}

type unsettledWant struct {
	state, typ string
	grouped    bool
}

func (u *unsettled) add(state, typ string, ids ...backend.ID) {
	for _, id := range ids {
		u.ids = append(u.ids, id)
		u.want[id] = unsettledWant{state, typ, state == "waiting"}
	}
}

// post posts with headers.
func (u *unsettled) post(state string, n int, o ...parley.PostOption) {
	for range n {
		id, err := u.B.Post(u.Ctx, u.SQ, parley.Payload{Type: u.Any, Headers: traced}, o...)
		u.Must(err)
		u.add(state, u.Any, id)
	}
}

// keep withholds messages with headers.
func (u *unsettled) keep(n int) {
	u.late = u.Dialog()
	for range n {
		id := backend.NewID()
		tx := u.begin()
		_, err := tx.Withhold(u.Ctx, []backend.Outgoing{{From: u.late, ID: id, Kind: backend.KindUser, Type: u.Any, Headers: backend.EncodeHeaders(traced)}}, "for the check")
		u.Must(err)
		u.commit(tx)
		u.add("withheld", u.Any, id)
	}
}

// listed compares what is listed with what is there.
func (u *unsettled) listed(page int) {
	list, err := u.waiting(u.Ctx, page, u.ids)
	u.Must(err)
	var got []backend.ID
	for i, m := range list {
		got = append(got, m.ID)
		w, queued, withheld := u.want[m.ID], m.Queue == u.sq, m.Stream == u.late
		if (unsettledWant{m.State, m.Type, !m.Group.IsZero()}) != w || w.state != "withheld" && !queued || w.state == "withheld" && !withheld {
			u.Errorf("message %v is listed as %+v, want %+v of queue %d", m.ID, m, w, u.sq)
		}
		sameHeaders(u.env, "a "+m.State+" message as it is listed", backend.DecodeHeaders(m.Headers), traced)
		for j := i + 1; j < len(list) && list[j].Stream == m.Stream && !m.Stream.IsZero(); j++ {
			next, err := u.be.Waiting(u.Ctx, m.Place, j-i)
			u.Must(err)
			if len(next) != j-i || next[j-i-1].ID != list[j].ID {
				u.Errorf("the page of %d behind message %d of a stream is %+v, want %v to be its last", j-i, m.Place.Seq, next, list[j].ID)
			}
		}
	}
	key := u.ids[:3]
	if inOrder := slices.DeleteFunc(slices.Clone(got), func(id backend.ID) bool { return !slices.Contains(key, id) }); !slices.Equal(inOrder, key) {
		u.Errorf("the messages of a key are listed as %v, want %v", inOrder, key)
	}
	ordered := func(ids []backend.ID) []backend.ID {
		return slices.SortedFunc(slices.Values(ids), func(a, b backend.ID) int { return slices.Compare(a[:], b[:]) })
	}
	if !slices.Equal(ordered(got), ordered(u.ids)) {
		u.Errorf("in pages of %d, %d messages are listed, want each of %d once: %v, want %v", page, len(got), len(u.ids), ordered(got), ordered(u.ids))
	}
}

// shown compares what programs see with what is there, but for messages that are done.
func (u *unsettled) shown(done []*parley.Message) {
	left := len(u.ids) - len(done)
	for after := (parley.Place{}); ; {
		list, err := u.B.Admin().Waiting(u.Ctx, after, 1000)
		u.Must(err)
		if len(list) == 0 {
			break
		}
		for _, m := range list {
			if after = m.Place; slices.ContainsFunc(done, func(d *parley.Message) bool { return d.ID == m.ID }) {
				u.Errorf("a message that was acknowledged is listed: %+v", m)
			}
			w, ours := u.want[m.ID]
			if !ours {
				continue
			}
			left--
			sameHeaders(u.env, "a "+m.State+" message as Admin lists it", m.Headers, traced)
			if m.State != w.state || w.state != "withheld" && m.Queue != u.SQ || w.state == "withheld" && m.Handle != u.late {
				u.Errorf("message %v is listed by Admin as %+v, want %+v of queue %s", m.ID, m, w, u.SQ)
			}
		}
	}
	if left != 0 {
		u.Errorf("of %d messages that are not done, Admin does not list %d", len(u.ids)-len(done), left)
	}
}

// checkWaiting lists messages of each kind, in pages of two sizes, and goes on behind each of them.
func checkWaiting(e *env) {
	u := &unsettled{invBelow: invUnder(e.idle()), want: make(map[backend.ID]unsettledWant)}
	u.post("waiting", 3, parley.Key("k"))
	u.post("waiting", 2)
	u.post("delayed", 1, parley.After(time.Hour))
	u.post("delayed", 1, parley.After(time.Hour), parley.Key("k"))
	u.keep(2)
	h := u.headed(traced, "1", "2", "3")
	inHand := u.Receive(u.SQ, &parley.ReceiveOptions{Conversation: dlgPeer(u.world, h), Hold: parley.HoldLease, MaxMessages: 3})
	for _, m := range inHand.Messages {
		u.add("waiting", m.Type, m.ID)
	}
	u.listed(1000)
	u.listed(7)
	e.Must(inHand.Ack(e.Ctx))
	u.shown(inHand.Messages)
}

// checkWaitingPrompt lists what waits while one transaction has a group in hand and another one sends to it.
func checkWaitingPrompt(e *env) {
	s := invUnder(e.idle())
	id, err := s.B.Post(e.Ctx, s.SQ, parley.Payload{Type: s.Any}, parley.Key("k"))
	e.Must(err)
	look := func(while string) {
		invPrompt(e, "the list of what waits "+while, func(ctx context.Context) error {
			list, err := s.waiting(ctx, 1000, []backend.ID{id})
			if err == nil && len(list) != 1 {
				e.Errorf("%s, %d messages are listed, want 1", while, len(list))
			}
			return err
		})
	}
	tx := s.opened(s.key("k"), "second")
	look("while a transaction sends")
	s.commit(tx)
	d := s.Receive(s.SQ, nil)
	look("while a receiver has a group")
	e.Must(d.Ack(e.Ctx))
}
