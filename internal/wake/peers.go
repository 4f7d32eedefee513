package wake

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/wait"
)

// Peers connects a Hub with those of other processes by the store's notifications, if it
// has any.
type Peers struct {
	Hub *Hub
	Log *slog.Logger

	// Expected reports whether an error needs no line in the log: the store cannot be
	// worked with at present, which others say.
	Expected func(error) bool

	l      backend.Listener // nil: the store cannot
	mu     sync.Mutex
	to     map[int64]bool // topics to tell others about
	signal chan struct{}
	again  chan struct{}
}

// Telling costs the store something, so it is done at most so often.
const tellEvery = 5 * time.Millisecond

// Start has start run what listens and what tells, until its context ends.
func (p *Peers) Start(l backend.Listener, start func(func(context.Context)) bool) {
	if p.l = l; l == nil {
		return
	}
	p.to, p.signal, p.again = make(map[int64]bool), make(chan struct{}, 1), make(chan struct{}, 1)
	start(p.listen)
	start(p.speak)
}

func (p *Peers) listen(ctx context.Context) {
	for ctx.Err() == nil {
		err := p.l.Listen(ctx, p.Hub.Wake)
		if ctx.Err() != nil || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, backend.ErrClosed) {
			return
		}
		if err != nil && !p.Expected(err) {
			p.Log.Warn("parley: listening for messages of other processes failed; the program polls meanwhile", "error", err)
		}
		select {
		case <-time.After(wait.Jitter(time.Second)):
		case <-p.again:
		case <-ctx.Done():
		}
	}
}

// Kick tries at once what was waiting for better times.
func (p *Peers) Kick() {
	select {
	case p.again <- struct{}{}:
	default:
	}
}

// Tell has others told of topics soon.
func (p *Peers) Tell(topics map[int64]bool) {
	if p.l == nil {
		return
	}
	p.mu.Lock()
	for t := range topics {
		p.to[t] = true
	}
	p.mu.Unlock()
	select {
	case p.signal <- struct{}{}:
	default:
	}
}

func (p *Peers) speak(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			p.notify(context.WithoutCancel(ctx)) // what was committed before Close
			return
		case <-p.signal:
		}
		if err := p.notify(ctx); errors.Is(err, errors.ErrUnsupported) {
			return
		}
		if wait.Sleep(ctx, tellEvery) != nil {
			continue
		}
	}
}

func (p *Peers) notify(ctx context.Context) error {
	p.mu.Lock()
	topics := make([]int64, 0, len(p.to))
	for t := range p.to {
		topics = append(topics, t)
	}
	clear(p.to)
	p.mu.Unlock()
	if len(topics) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := p.l.Notify(ctx, topics)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) && ctx.Err() == nil {
		p.Log.Warn("parley: notifying other processes of new messages failed; they find the messages by polling", "error", err)
	}
	return err
}
