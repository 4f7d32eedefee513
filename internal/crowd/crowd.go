// Package crowd carries out together what is called at the same time. Some verbs are at work, each by itself. The
// others wait for one of them to end, and then go together in one transaction, which takes little longer than one verb.
package crowd

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
)

// A Crowd are the verbs of a Broker. Their transaction must wait for no lock of another one. If it fails and nothing of it
// has happened, each verb goes by itself. So no verb waits for a lock that another one wants, and each has the outcome that
// it has by itself.
type Crowd[T any] struct {
	// Room is how many are at work before others wait. Zero: each verb goes by itself.
	Room int
	// Server says that the store is on a server. As long as there are no more callers than twice the room, none waits. There
	// is more room where a verb takes long although the server has little to do: a trip to it, or its disk, takes long.
	Server bool
	// Together carries out verbs of one kind. Its context ends when no caller waits for the outcome. If it returns undone,
	// nothing has happened, and each goes by itself. Otherwise its error is that of each.
	Together func(ctx context.Context, verbs []T) (undone bool, err error)
	// Go runs a function in the background, or returns false.
	Go func(f func(context.Context)) bool

	mu      sync.Mutex // guards what follows
	callers int
	working []*work          // what takes room
	written map[any]*writers // by subject
	waiting []*Member[T]
	quick   [2]time.Duration // of verbs by themselves, the quickest of this spell and of the last
	spell   time.Time        // when this one began
}

// work is a verb that is at work, or several together. It takes room for a moment. If it takes longer, it may wait for a
// lock, and must not keep others from work that do not want that.
type work struct{ begun time.Time }

// writers are those at work on a subject.
type writers struct{ n int }

// Member is a verb that takes part.
type Member[T any] struct {
	Verb T
	// Subject is what it has to itself until it is over, nil if there is none. It takes part at most once in what goes
	// together, unless Several.
	Subject any
	Several bool
	Kind    any // it goes together with others of the same kind
	Size    int // of its body

	ctx    context.Context
	answer chan error // errByItself: it has to go by itself
	before *writers   // who was at work on the subject when it last looked
	work   *work      // it is at work,
	batch  *batch     // in this
	gone   bool       // its caller does not wait any more
}

// batch is what is at work together.
type batch struct {
	callers int // that wait
	cancel  context.CancelFunc
}

const (
	most     = 100      // verbs of a transaction
	mostSize = 64 << 10 // of their bodies; a larger one goes by itself

	// stalled is how long work takes room, and how long a verb waits for another of its subject before it goes by itself:
	// what is at work may wait for a lock, even for one of its caller.
	stalled = 20 * time.Millisecond
	// grace is how long the outcome is waited for when the caller's context has ended.
	grace = 100 * time.Millisecond
	// spell is the time over which the quickest verb counts, and busy what a server has to do for a verb, at least.
	spell = 10 * time.Second
	busy  = 500 * time.Microsecond
)

var errByItself = errors.New("crowd: it has to go by itself")

// Do carries out a verb together with others, or by itself.
func (c *Crowd[T]) Do(ctx context.Context, m *Member[T], byItself func() error) error {
	if c.Room == 0 || m.Size > mostSize || backend.IsInside(ctx) { // what it is inside of may have what the others need
		return byItself()
	}
	m.ctx = ctx
	defer c.exit()
	if c.enter(m) {
		runtime.Gosched() // others that have been woken with it come along
		c.look()
		if err := c.wait(m); err != errByItself {
			return err
		}
	}
	begun := time.Now()
	done := false
	defer func() { c.leave(m, done, time.Since(begun)) }()
	err := byItself()
	done = err == nil
	return err
}

// enter reports whether the member has to wait.
func (c *Crowd[T]) enter(m *Member[T]) (waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.callers++
	few := c.room()
	if c.Server {
		few *= 2
	}
	if c.callers <= few && c.free(m) {
		c.start(m)
		return false
	}
	m.answer = make(chan error, 1)
	m.before = c.written[m.Subject]
	c.waiting = append(c.waiting, m)
	return true
}

func (c *Crowd[T]) exit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.callers--
}

// look begins what has come, if there is room.
func (c *Crowd[T]) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next()
}

// room is how many may be at work.
func (c *Crowd[T]) room() int {
	if !c.Server {
		return c.Room
	}
	quick := c.quick[0]
	if c.quick[1] > 0 {
		quick = min(quick, c.quick[1])
	}
	return max(c.Room, int(quick/busy))
}

// took notes how long a verb took by itself.
func (c *Crowd[T]) took(d time.Duration) {
	if now := time.Now(); now.Sub(c.spell) > spell {
		c.spell, c.quick = now, [2]time.Duration{d, c.quick[0]}
	}
	c.quick[0] = min(c.quick[0], d)
}

// free reports whether the subject of a member is not being written.
func (c *Crowd[T]) free(m *Member[T]) bool { return m.Subject == nil || c.written[m.Subject] == nil }

// start notes that members are at work, together.
func (c *Crowd[T]) start(members ...*Member[T]) {
	begun := &work{time.Now()}
	c.working = append(c.working, begun)
	if c.written == nil {
		c.written = make(map[any]*writers)
	}
	for _, m := range members {
		m.work = begun
		switch w := c.written[m.Subject]; {
		case m.Subject == nil:
		case w == nil:
			c.written[m.Subject] = &writers{1}
		default:
			w.n++
		}
	}
}

// stop notes that they are not.
func (c *Crowd[T]) stop(members ...*Member[T]) {
	c.working = slices.DeleteFunc(c.working, func(w *work) bool { return w == members[0].work })
	for _, m := range members {
		if w := c.written[m.Subject]; w != nil {
			if w.n--; w.n == 0 {
				delete(c.written, m.Subject)
			}
		}
	}
}

// wait returns the answer to a member.
func (c *Crowd[T]) wait(m *Member[T]) error {
	stall := time.NewTicker(stalled)
	defer stall.Stop()
	for {
		select {
		case err := <-m.answer:
			return err
		case <-m.ctx.Done():
			if c.withdraw(m) {
				return m.ctx.Err()
			}
			return c.outcome(m)
		case <-stall.C:
			if c.stalls(m) {
				return errByItself
			}
		}
	}
}

// stalls has a member go by itself if what writes its subject takes long.
func (c *Crowd[T]) stalls(m *Member[T]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next()
	now := c.written[m.Subject]
	if now != nil && now == m.before && c.remove(m) {
		c.start(m)
		return true
	}
	m.before = now
	return false
}

// withdraw takes back a member that is not at work yet.
func (c *Crowd[T]) withdraw(m *Member[T]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.remove(m)
}

func (c *Crowd[T]) remove(m *Member[T]) bool {
	i := slices.Index(c.waiting, m)
	if i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	}
	return i >= 0
}

// outcome returns what has become of a member at work whose caller's context has ended.
func (c *Crowd[T]) outcome(m *Member[T]) error {
	over := time.NewTimer(grace)
	defer over.Stop()
	select {
	case err := <-m.answer:
		return err
	case <-over.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(m.answer) > 0 {
		return <-m.answer
	}
	m.gone = true
	if m.batch.callers--; m.batch.callers == 0 {
		m.batch.cancel()
	}
	return fmt.Errorf("%w: %w", m.ctx.Err(), backend.ErrConnection)
}

// leave is called when a member that went by itself is over.
func (c *Crowd[T]) leave(m *Member[T], done bool, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop(m)
	if done {
		c.took(took)
	}
	c.next()
}

// next has members begin that wait. A single one goes by itself.
func (c *Crowd[T]) next() {
	if len(c.waiting) > 0 {
		c.working = slices.DeleteFunc(c.working, func(w *work) bool { return time.Since(w.begun) >= stalled })
	}
	for len(c.working) < c.room() && len(c.waiting) > 0 {
		members := c.pick()
		switch len(members) {
		case 0:
			return
		case 1:
			c.start(members...)
			members[0].answer <- errByItself
		default:
			c.start(members...)
			c.begin(members)
		}
	}
}

// pick takes those that can go together with the first that can go.
func (c *Crowd[T]) pick() (members []*Member[T]) {
	taken := make(map[any]bool)
	size := 0
	c.waiting = slices.DeleteFunc(c.waiting, func(m *Member[T]) bool {
		if len(members) == most || size+m.Size > mostSize || !c.free(m) || taken[m.Subject] ||
			len(members) > 0 && m.Kind != members[0].Kind {
			return false
		}
		members, size = append(members, m), size+m.Size
		taken[m.Subject] = m.Subject != nil && !m.Several
		return true
	})
	return members
}

// begin begins the transaction of members.
func (c *Crowd[T]) begin(members []*Member[T]) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(members[0].ctx))
	b := &batch{len(members), cancel}
	verbs := make([]T, len(members))
	for i, m := range members {
		m.batch, verbs[i] = b, m.Verb
	}
	work := func(context.Context) {
		undone, err := true, error(nil) // if its goroutine ends
		defer func() {
			cancel()
			c.mu.Lock()
			defer c.mu.Unlock()
			c.over(members, undone, err)
		}()
		undone, err = c.Together(ctx, verbs)
	}
	if !c.Go(work) {
		cancel()
		c.over(members, true, nil)
	}
}

// over tells members what has become of them.
func (c *Crowd[T]) over(members []*Member[T], undone bool, err error) {
	c.stop(members...)
	if undone {
		err = errByItself
	}
	for _, m := range members {
		if undone && !m.gone {
			c.start(m)
		}
		m.answer <- err
	}
	c.next()
}
