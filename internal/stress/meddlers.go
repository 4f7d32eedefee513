package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/parleymq/parley"
)

// meddler does what operators and administrators do while the work goes on.
type meddler struct {
	w    *world
	rec  recorder
	rng  *rand.Rand
	slow time.Duration // how long a transaction may stay open
}

func (m *meddler) sleep(atMost time.Duration) { time.Sleep(time.Duration(m.rng.Int64N(int64(atMost)))) }

// promote raises a group, or lets it fall again.
func (m *meddler) promote(p *process) {
	ctx := context.Background()
	group := m.w.Groups[m.rng.IntN(len(m.w.Groups))]
	if m.rng.IntN(3) == 0 { // or the group of a key, or a post
		list, err := p.Admin().Groups(ctx, m.w.Work, parley.Place{}, 1+m.rng.IntN(20))
		if err != nil {
			complain(m.rec, p, "promoter", err)
			return
		}
		if len(list) > 0 {
			group = list[len(list)-1].Group
		}
	}
	level := []parley.PromoteOption{parley.PromoteLevel(m.rng.IntN(parley.MaxLevel + 1))}
	if m.rng.IntN(10) == 0 {
		level = append(level, parley.Sticky())
	}
	err := p.InTx(ctx, func(tx *parley.Tx) error {
		if m.rng.IntN(6) == 0 {
			return tx.Demote(ctx, group)
		}
		if err := tx.Promote(ctx, group, level...); err != nil {
			return err
		}
		if m.rng.IntN(8) == 0 {
			m.sleep(m.slow)
		}
		if m.rng.IntN(6) == 0 {
			return errBack
		}
		return nil
	})
	switch {
	case err == nil:
		m.rec.count("promotions", 1)
	case errors.Is(err, errBack), errors.Is(err, parley.ErrUnknownGroup): // the post was acknowledged meanwhile
	default:
		complain(m.rec, p, "promoter", err)
	}
}

// move takes a conversation to another group.
func (m *meddler) move(p *process) {
	ctx := context.Background()
	d := m.w.Dialogs[m.rng.IntN(len(m.w.Dialogs))]
	if m.rng.IntN(2) == 0 {
		var err error
		if d, err = m.blocked(ctx, p, d); err != nil {
			complain(m.rec, p, "mover", err)
			return
		}
	}
	group := m.w.Groups[m.rng.IntN(len(m.w.Groups))]
	h := hold{who: "mover", group: group.String(), streams: []string{d.Stream}}
	err := p.InTx(ctx, func(tx *parley.Tx) error {
		if err := tx.Conversation(d.Target).Move(ctx, group); err != nil {
			return err
		}
		h.from = m.rec.since()
		m.sleep(min(m.slow, 20*time.Millisecond))
		h.to = m.rec.since()
		if m.rng.IntN(5) == 0 {
			h.settled, h.undone = alive(ctx, tx), true
			return errBack
		}
		return nil
	})
	switch {
	case err == nil:
		h.settled = true
		m.rec.held(h)
		m.rec.count("moves", 1)
	case errors.Is(err, errBack):
		m.rec.held(h)
	default:
		complain(m.rec, p, "mover", err)
	}
}

// blocked finds a conversation in a group that is parked or deferred, where its
// stream may be out of the ready order; otherwise it returns d.
func (m *meddler) blocked(ctx context.Context, p *process, d dialog) (dialog, error) {
	groups, err := p.Admin().Groups(ctx, m.w.Work, parley.Place{}, 1000)
	if err != nil {
		return d, err
	}
	for _, g := range groups {
		if g.State != "parked" && g.State != "deferred" || g.Post || g.Key != "" {
			continue
		}
		list, err := p.Admin().Conversations(ctx, parley.ConversationQuery{Group: g.Group, Limit: 100})
		if err != nil {
			return d, err
		}
		for _, c := range list {
			for _, one := range m.w.Dialogs {
				if one.Target == c.Handle && c.Waiting > 0 {
					return one, nil
				}
			}
		}
	}
	return d, nil
}

// unpark lets parked groups go on.
func (m *meddler) unpark(p *process, all bool) {
	ctx := context.Background()
	for _, queue := range []string{m.w.Work, m.w.Answers} {
		list, err := p.Admin().Groups(ctx, queue, parley.Place{}, 1000)
		if err != nil {
			complain(m.rec, p, "unparker", err)
			return
		}
		for _, g := range list {
			if g.State != "parked" || !all && m.rng.IntN(2) == 0 {
				continue
			}
			err := p.Admin().Unpark(ctx, g.Group)
			switch {
			case err == nil:
				m.rec.count("unparks", 1)
			case errors.Is(err, parley.ErrUnknownGroup):
			default:
				complain(m.rec, p, "unparker", err)
			}
		}
	}
}
