package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/parleymq/parley"
)

// byOperator begins the reasons that operators give. A group that is parked for another
// one is left alone, and so keeps the run from its end.
const byOperator = "operator: "

// operate interferes with one group: it parks or defers a group that it has received, or
// retries a group that waits after a failure.
func (s *sender) operate(ctx context.Context) error {
	queue := []string{postQueue, postQueue, askQueue, answerQueue, diaryQueue}[random.IntN(5)]
	groups, err := s.b.Admin().Groups(ctx, queue, parley.Place{}, 40)
	if err != nil {
		return err
	}
	var chosen parley.ID // zero: the next one
	if len(groups) > 0 {
		g := groups[random.IntN(len(groups))]
		if chosen = g.Group; g.State == "deferred" {
			return unless(s.unpark(ctx, s.b, chosen), parley.ErrUnknownGroup) // it may be handled already
		}
	}
	return s.block(ctx, queue, chosen)
}

// block takes a group, parks or defers it for a while, and makes it ready again.
func (s *sender) block(ctx context.Context, queue string, group parley.ID) error {
	d, err := s.b.Receive(ctx, queue, &parley.ReceiveOptions{Group: group, MaxMessages: 1, Wait: 20 * time.Millisecond})
	if err != nil {
		return unless(err, parley.ErrNoMessage)
	}
	defer d.Close() // else it would hold the group on if it cannot be settled
	e := event{Kind: parked, Group: d.Group.String(), Since: time.Now()}
	if random.IntN(2) == 0 {
		err = d.Park(ctx, errors.New(byOperator+"looks at it"))
	} else {
		after := time.Duration(50+random.IntN(300)) * time.Millisecond
		e.After = int64(after)
		err = d.Defer(ctx, after)
	}
	if err != nil {
		return err
	}
	s.rec.write(e)
	time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
	m, coin := d.Messages[0], random.IntN(2) == 0
	if m.Key == "" && m.Conversation.IsZero() && coin && m.Type != tickType { // whose ID has its number
		err = s.skip(ctx, queue, m)
	} else {
		if !m.Conversation.IsZero() && coin { // its messages wait no more, whatever becomes of the group
			err = s.moveTo(ctx, m.Conversation, parley.NewID())
		}
		err = errors.Join(err, unless(s.unpark(ctx, s.b, d.Group), parley.ErrUnknownGroup, parley.ErrNotPending))
	}
	return unless(err, parley.ErrUnknownGroup, parley.ErrNotPending) // it was due, or tidy was quicker
}

// skip takes the message of a post out of the queue; tidy puts it back, or does so here.
func (s *sender) skip(ctx context.Context, queue string, m *parley.Message) error {
	b, err := bodyOf(m)
	if err != nil {
		return err
	}
	s.rec.write(event{Kind: skipping, Stream: b.Stream, Seq: b.Seq})
	err = s.releasing(m.Group, func() error {
		_, err := s.b.Admin().SkipParked(ctx, queue, m.Group, byOperator+"takes it out")
		return err
	})
	if err != nil {
		return err
	}
	return requeue(ctx, s.b, 0)
}

func (p *program) unpark(ctx context.Context, b *parley.Broker, group parley.ID) error {
	return p.releasing(group, func() error { return b.Admin().Unpark(ctx, group) })
}

// releasing writes down that a call makes a group ready.
func (p *program) releasing(group parley.ID, call func() error) error {
	e := event{Kind: unparking, Group: group.String(), Attempt: p.serialName()}
	p.rec.write(e)
	err := call()
	e.Kind = unparked
	p.rec.write(e)
	return err
}

// requeue puts dead letters back that operators made, if they are so old.
func requeue(ctx context.Context, b *parley.Broker, age time.Duration) error {
	dead, err := b.Admin().DeadLetters(ctx, postQueue, parley.Place{}, 20)
	for i := 0; err == nil && i < len(dead); i++ {
		if strings.HasPrefix(dead[i].Reason, byOperator) && dead[i].Age >= age {
			_, err = b.Admin().RequeueDead(ctx, dead[i])
			err = unless(err, parley.ErrNotPending) // another operator has done it
		}
	}
	return err
}

// tidy goes on for operators that were killed, and looks how many messages wait.
func (p *program) tidy(ctx context.Context, b *parley.Broker) {
	const abandoned = 2 * time.Second
	for ctx.Err() == nil {
		time.Sleep(time.Second)
		if queues, err := b.Admin().Queues(ctx); err == nil {
			waiting := 0
			for _, q := range queues {
				waiting += q.Depth
			}
			p.backlog.Store(int64(waiting))
		}
		for _, queue := range []string{postQueue, askQueue, answerQueue, diaryQueue} {
			list, err := b.Admin().Parked(ctx, queue, parley.Place{}, 100)
			for i := 0; err == nil && i < len(list); i++ {
				if strings.HasPrefix(list[i].Reason, byOperator) && list[i].Since > abandoned {
					p.unpark(ctx, b, list[i].Group) // again in a second, if that fails
				}
			}
		}
		requeue(ctx, b, abandoned)
	}
}
