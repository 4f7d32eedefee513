package parley

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/consumer"
	"github.com/parleymq/parley/internal/wait"
)

// maintenance does the maintenance: it makes due what is due, delivers what
// was withheld, and cleans up. Every process with an open Broker has one; none
// is the leader, since each maintenance job skips what another has locked.
type maintenance struct {
	b    *Broker
	poke chan struct{} // has the background look

	mu        sync.Mutex // guards what follows
	next      [backend.JobCount]time.Time
	held      time.Time       // when to look at withheld messages again
	heldSoon  time.Time       // and when to do so for a receiver that finds nothing
	heldPause time.Duration   // between two such looks
	dueAt     time.Time       // when the due jobs were last done
	told      map[string]bool // jobs that the store does not allow, as the log has been told
}

// dueJobs are those that make messages receivable.
var dueJobs = [...]backend.Job{backend.JobDelayed, backend.JobTimers, backend.JobLifetimes, backend.JobDeferred}

const (
	jobLimit      = 100
	withheldEvery = 2 * time.Second
	// withheldSoon is the shortest time between two tries for receivers that find nothing.
	// It grows while nothing of what is withheld can be delivered.
	withheldSoon = 100 * time.Millisecond
	// deniedEvery is how often a maintenance job is tried that the program's role may not do: the
	// role may have been granted more.
	deniedEvery = 5 * time.Minute
)

func (b *Broker) startMaintenance() *maintenance {
	c := &maintenance{b: b, poke: make(chan struct{}, 1)}
	if !b.opt.NoMaintenance {
		b.Go(c.run)
	}
	return c
}

// kick has everything looked at now.
func (c *maintenance) kick() {
	c.mu.Lock()
	clear(c.next[:])
	c.held, c.heldSoon = time.Time{}, time.Time{}
	c.mu.Unlock()
	c.poked()
}

// within has the due maintenance jobs looked at when something falls due.
func (c *maintenance) within(d time.Duration) { c.sooner(d, dueJobs[:]...) }

// closedSoon has conversations removed soon that are over and were locked: the
// next one of an ordered Sender may wait for it.
func (c *maintenance) closedSoon() { c.sooner(100*time.Millisecond, backend.JobClosed) }

// sooner has jobs done after a time at the latest.
func (c *maintenance) sooner(d time.Duration, jobs ...backend.Job) {
	at := time.Now().Add(d)
	c.mu.Lock()
	for _, job := range jobs {
		if at.Before(c.next[job]) {
			c.next[job] = at
		}
	}
	c.mu.Unlock()
	c.poked()
}

func (c *maintenance) poked() {
	select {
	case c.poke <- struct{}{}:
	default:
	}
}

func (c *maintenance) run(ctx context.Context) {
	for ctx.Err() == nil {
		pause, over := c.round(ctx)
		if over {
			c.b.log.Warn("parley: the backend was closed before its Broker", "event", "backend.closed")
			return
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-c.poke:
		case <-ctx.Done():
		}
		t.Stop()
	}
}

// round does the maintenance jobs whose time has come. It says when the next one is due, or that the backend is closed.
func (c *maintenance) round(ctx context.Context) (pause time.Duration, over bool) {
	trouble := false
	for job := range backend.Job(backend.JobCount) {
		c.mu.Lock()
		due := !time.Now().Before(c.next[job])
		c.mu.Unlock()
		if !due {
			continue
		}
		if _, err := c.maintain(ctx, job); err != nil {
			if ctx.Err() != nil {
				return 0, false
			}
			if errors.Is(err, ErrClosed) {
				return 0, true
			}
			if !consumer.Gone(err) && !errors.Is(err, ErrSerialization) && !c.denied(job.String(), err) {
				c.b.log.Warn("parley: background job failed", "job", job.String(), "error", err)
			}
			trouble = trouble || consumer.Gone(err)
		}
	}
	c.mu.Lock()
	look := !time.Now().Before(c.held)
	c.dueAt = time.Now()
	c.mu.Unlock()
	if look && !trouble {
		_, err := c.deliverWithheld(ctx)
		if err != nil && ctx.Err() == nil && !consumer.Gone(err) && !c.denied("withheld", err) {
			c.b.log.Warn("parley: delivering withheld messages failed", "error", err)
		}
	}
	if trouble {
		return wait.Jitter(time.Second), false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	soonest := c.held
	for _, at := range c.next {
		if at.Before(soonest) {
			soonest = at
		}
	}
	return max(time.Until(soonest), time.Millisecond), false
}

// denied reports whether the store does not allow a maintenance job to the program's role, and logs
// that the first time.
func (c *maintenance) denied(job string, err error) bool {
	if !errors.Is(err, ErrDenied) {
		return false
	}
	c.mu.Lock()
	told := c.told[job]
	if c.told == nil {
		c.told = make(map[string]bool)
	}
	c.told[job] = true
	if job == "withheld" {
		c.held = time.Now().Add(wait.Jitter(deniedEvery))
	}
	c.mu.Unlock()
	if !told {
		c.b.log.Warn("parley: the program's role may not do a background job: leave it to others by Options.NoMaintenance,"+
			" or grant the rights of a worker", "event", "job.denied", "job", job, "error", err)
	}
	return true
}

// maintain does a batch of one maintenance job. Where more is left the next round goes on, when the
// other maintenance jobs have had their turns.
func (c *maintenance) maintain(ctx context.Context, job backend.Job) (done backend.Maintained, err error) {
	c.mu.Lock()
	c.next[job] = time.Now().Add(time.Hour) // what falls due meanwhile is set before that
	c.mu.Unlock()
	done, err = backend.Offered(c.b.be.Maintain(ctx, job, jobLimit))
	pause := wait.Jitter(job.Period())
	switch {
	case errors.Is(err, ErrDenied):
		pause = wait.Jitter(deniedEvery)
	case err != nil: // most are of the moment: a deadlock, a connection that was cut
		pause = min(pause, wait.Jitter(time.Second))
	case done.Moved >= jobLimit:
		pause = 0
	case done.Next > 0:
		pause = min(pause, done.Next)
	}
	c.mu.Lock()
	if at := time.Now().Add(pause); at.Before(c.next[job]) {
		c.next[job] = at
	}
	c.mu.Unlock()
	if done.Moved > 0 && job <= backend.JobDeferred {
		c.b.wake(topics(done.Queues))
	}
	return done, err
}

// topics are those of queues, or of all if none is named.
func topics(queues []int64) map[int64]bool {
	if len(queues) == 0 {
		return map[int64]bool{0: true}
	}
	set := make(map[int64]bool, len(queues))
	for _, q := range queues {
		set[q] = true
	}
	return set
}

// due makes due what is due, for a receiver that found nothing, unless that was
// done a moment ago or is being done.
func (c *maintenance) due(ctx context.Context) (moved bool, err error) {
	c.mu.Lock()
	recent := time.Since(c.dueAt) < 100*time.Millisecond && !c.missed()
	if !recent {
		c.dueAt = time.Now()
	}
	c.mu.Unlock()
	if recent {
		return false, nil
	}
	for _, job := range dueJobs {
		done, err := c.maintain(ctx, job)
		if err != nil {
			return moved, err
		}
		moved = moved || done.Moved > 0
	}
	c.mu.Lock()
	look := !time.Now().Before(c.heldSoon)
	c.mu.Unlock()
	if !look {
		return moved, nil
	}
	n, err := c.deliverWithheld(ctx)
	return moved || n > 0, err
}

// missed reports whether something is known to have fallen due and was not yet
// looked at. c.mu is held.
func (c *maintenance) missed() bool {
	now := time.Now()
	return slices.ContainsFunc(dueJobs[:], func(job backend.Job) bool { return !now.Before(c.next[job]) })
}

// deliverWithheld delivers the messages whose target can now take them.
func (c *maintenance) deliverWithheld(ctx context.Context) (moved int, err error) {
	c.mu.Lock()
	c.held = time.Now().Add(wait.Jitter(withheldEvery))
	c.heldSoon = c.held // not by two at once
	c.mu.Unlock()
	stuck := false
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.heldPause *= 2; moved > 0 || !stuck {
			c.heldPause = 0
		}
		c.heldPause = min(max(c.heldPause, withheldSoon), withheldEvery/4)
		c.heldSoon = time.Now().Add(c.heldPause)
	}()

	var streams []backend.WithheldStream
	for limit := jobLimit; ; limit *= 4 {
		if streams, err = backend.Offered(c.b.be.Withheld(ctx, backend.ID{}, limit)); err != nil || len(streams) == 0 {
			return 0, err
		}
		if len(streams) < limit || limit >= backend.CountLimit { // those that cannot move do not hide the others
			break
		}
	}
	stuck = true
	v, err := c.b.reload(ctx)
	if err != nil {
		return 0, err
	}
	for _, s := range streams {
		svc, ok := v.services[s.From.FarService]
		if !ok || v.queues[svc.Queue].Disabled {
			continue
		}
		n, err := c.deliver(ctx, v, s, svc)
		moved += n
		busy := errors.Is(err, backend.ErrStreamBusy) || errors.Is(err, ErrQueueDisabled) || errStale(err) || errors.Is(err, ErrSerialization)
		over := errors.Is(err, ErrNoConversation) // another process was faster, and it has ended since
		if err != nil && !busy && !over {
			return moved, err
		}
	}
	return moved, nil
}

func (c *maintenance) deliver(ctx context.Context, v *catalogView, s backend.WithheldStream, svc Service) (n int, err error) {
	tx, err := c.b.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer tx.rollback(ctx)
	// The side that began has been there from the start; the other may be new.
	if s.From.Initiator && !takes(svc, s.From.Contract) {
		return c.refuse(ctx, tx, s, svc)
	}
	if s.From.Initiator {
		if waits, err := tx.waits(ctx, v, &s.From); err != nil || waits {
			return 0, err
		}
		_, err = tx.acceptEndpoint(ctx, v, &s.From)
	}
	if err == nil {
		n, err = tx.be.Deliver(ctx, s.From.Handle)
	}
	if err != nil {
		return 0, err
	}
	if n > 0 { // else they were for a side that has ended, and are gone now
		tx.touch(v.queues[svc.Queue].ID)
	}
	return n, tx.commit(ctx)
}

// refuse gives up messages for a service that does not take their contract, and
// tells their sender.
func (c *maintenance) refuse(ctx context.Context, tx *Tx, s backend.WithheldStream, svc Service) (n int, err error) {
	reason := fmt.Sprintf("service %q does not accept contract %q", svc.Name, s.From.Contract)
	n, err = tx.be.Discard(ctx, s.From.Handle, reason)
	if err != nil || n == 0 { // another process has done it
		return 0, err
	}
	if err := tx.refuseContract(ctx, &s.From, svc); err != nil {
		return 0, err
	}
	if err := tx.commit(ctx); err != nil {
		return 0, err
	}
	c.b.log.Warn("parley: messages were refused by their target and are dead letters now", "messages", n, "conversation", s.From.Conversation, "reason", reason)
	c.sooner(0, backend.JobClosed) // their sender may have ended long ago
	return n, nil
}
