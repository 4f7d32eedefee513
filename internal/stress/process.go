package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// process is a Broker with a handle of its own on the store. It stands for a
// process: it can be killed under the hands of those who work with it.
type process struct {
	*parley.Broker
	handle *handle

	mu    sync.Mutex
	users int
	dead  bool
}

// openProcess makes one. What it does in the database is marked with the role.
func openProcess(ctx context.Context, e engine, role string, o parley.Options) (*process, error) {
	be, err := backend.Open(ctx, e.name(role))
	if err != nil {
		return nil, err
	}
	h := &handle{Backend: be}
	o.Owner = role
	b, err := parley.New(ctx, h, &o)
	if err != nil {
		be.Close()
		return nil, err
	}
	return &process{Broker: b, handle: h}, nil
}

// kill takes the store's handle away from the Broker, which notices nothing
// until it tries to work. The Broker is closed when its last user has let go of it.
func (p *process) kill() {
	p.mu.Lock()
	p.dead = true
	idle := p.users == 0
	p.mu.Unlock()
	p.handle.crash()
	if idle {
		p.Close()
	}
}

func (p *process) killed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// slot has a process in it, and another one after that was killed.
type slot struct {
	open func() (*process, error)
	mu   sync.Mutex
	p    *process
}

func newSlot(open func() (*process, error)) (*slot, error) {
	p, err := open()
	if err != nil {
		return nil, err
	}
	return &slot{open: open, p: p}, nil
}

// use runs f with the slot's process.
func (s *slot) use(f func(p *process)) {
	s.mu.Lock()
	p := s.p
	p.mu.Lock()
	p.users++
	p.mu.Unlock()
	s.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.users--
		last := p.dead && p.users == 0
		p.mu.Unlock()
		if last {
			p.Close()
		}
	}()
	f(p)
}

// kill puts another process into the place of this one. With polite, the Broker
// is closed as a program does that is told to stop while its workers are busy.
func (s *slot) kill(polite bool, led *ledger) error {
	fresh, err := s.open()
	if err != nil {
		return err
	}
	s.mu.Lock()
	old := s.p
	s.p = fresh
	s.mu.Unlock()
	led.cut(func() {
		if !polite {
			old.kill()
			return
		}
		old.mu.Lock()
		old.dead = true
		old.mu.Unlock()
		old.Close() // a connection that was cut cannot be closed well
	})
	return nil
}

func (s *slot) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.p.Close()
}

// handle is a backend in which heartbeats can be held up, as they are in a
// process that does not get to run, and which can be taken away.
type handle struct {
	backend.Backend
	stalled sync.Map // backend.ID of a group -> struct{}
}

// stall stops the heartbeats of a group until the function that it returns is
// called.
func (h *handle) stall(group backend.ID) (resume func()) {
	h.stalled.Store(group, struct{}{})
	return func() { h.stalled.Delete(group) }
}

func (h *handle) Extend(ctx context.Context, holds []*backend.Hold, d time.Duration) error {
	for _, hold := range holds {
		if _, ok := h.stalled.Load(hold.Group); ok {
			<-ctx.Done()
			return ctx.Err()
		}
	}
	return h.Backend.Extend(ctx, holds, d)
}

// crash ends the handle as the death of its process would, as far as the backend
// can play that.
func (h *handle) crash() {
	if c, ok := h.Backend.(interface{ Crash() }); ok {
		c.Crash()
		return
	}
	h.Backend.Close()
}

// expected reports whether an error is what the killing of a process or of its
// connection looks like to those who work with it.
func expected(err error, p *process) bool {
	return errors.Is(err, parley.ErrConnection) ||
		p.killed() && (errors.Is(err, parley.ErrClosed) || errors.Is(err, parley.ErrTxDone) || errors.Is(err, parley.ErrSettled))
}
