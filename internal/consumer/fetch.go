package consumer

import (
	"errors"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/guard"
	"github.com/parleymq/parley/internal/wait"
)

// fetcher counts what is under way and decides how many looks for messages are made beside
// it. The fetch loop alone uses it.
//
// A look that finds a batch becomes its reader. The loop then makes sure that another look is
// made, or that it waits for news, up to the number of readers. When a batch is over, a look
// takes its place. A look that finds nothing ends, and the loop waits for news.
type fetcher struct {
	max      int // readers: looks and batches at once
	want     int // looks that are to begin
	looking  int
	handling int  // batches
	brief    int  // batches that are expected to be over soon
	waiting  bool // for news, or for the end of a pause
	pausing  bool // no second reader is to begin

	tries              int // looks without a batch in a row
	contended, trouble time.Duration
	timer              *time.Timer     // ends the wait
	news               <-chan struct{} // ends the wait, if it is not nil
	forget             func()          // ends the watch for news
}

// quickReaders is how many readers there are, while handlers take next to no time,
// before batches have grown as long as they may. More of them would open connections,
// each of which plans every statement, for batches that four can have by then.
const quickReaders = 4

// drainTries is how many looks in a row find groups but none free before a Drain ends. The
// pauses between them take half a second: others hold groups briefly while they write, and a
// busy machine may leave them no time for a while.
const drainTries = 8

func (f *fetcher) readers() int { return f.want + f.looking + f.handling }

// more wants another look, unless the loop waits: then news will have one made.
func (f *fetcher) more() {
	if !f.waiting && (f.readers() == 0 || !f.pausing) {
		f.again()
	}
}

// again wants a look in the place of one, or of a batch, that is over.
func (f *fetcher) again() {
	if f.readers() < f.max {
		f.want++
	}
}

// nudge ends the wait by a look.
func (f *fetcher) nudge() {
	if f.waiting {
		f.rouse()
		f.again()
	}
}

// rouse ends the wait.
func (f *fetcher) rouse() {
	f.waiting, f.news = false, nil
	if f.forget != nil {
		f.forget()
		f.forget = nil
	}
}

// found records that a look has found a batch, and reports whether to wait for news. While handlers
// are fast the batch is soon over, and its reader looks for what it left. A second reader would
// take a share of the messages that arrive until then. Each claim, acknowledgement and commit would
// then serve fewer messages.
func (f *fetcher) found(t *batch) (wait bool) {
	f.looking--
	f.handling++
	f.tries, f.contended, f.trouble = 0, 0, 0
	others := f.readers()
	if f.waiting {
		others++
	}
	switch {
	case t.outlook.quick && (t.outlook.spent || t.outlook.growing && others >= quickReaders):
		t.outlook.brief = true
		f.brief++
	case t.outlook.spent:
		return !f.waiting && !f.pausing
	default:
		f.more()
		f.more()
	}
	if !t.outlook.spent {
		f.nudge()
	}
	return false
}

// long records that a batch is over, or takes longer than expected.
func (f *fetcher) long(t *batch) {
	if t.outlook.brief {
		t.outlook.brief = false
		f.brief--
	}
}

// over takes note of the end of a batch. If its claim left nothing, the reader of a brief
// batch will look soon, and no other needs to.
func (f *fetcher) over(t *batch) {
	f.long(t)
	f.handling--
	f.tries = 0
	if !t.outlook.spent || f.brief == 0 {
		f.again()
	}
}

// fetch is the fetch loop. It ends when the consumer has stopped, or has drained its queues,
// and no reader is left.
func (c *Consumer) fetch() {
	defer close(c.gone)
	f := &fetcher{want: 1, timer: time.NewTimer(time.Hour)}
	defer f.timer.Stop()
	stop := c.stop.Done()
	for {
		c.launch(f)
		c.readers.Store(int64(f.readers()))
		if f.readers() >= f.max {
			f.rouse()
		}
		if f.readers() == 0 && !f.waiting && (c.Drain || c.stop.Err() != nil) {
			return
		}
		select {
		case event := <-c.events:
			event(f)
		case <-f.news:
			f.nudge()
		case <-f.timer.C:
			f.nudge()
		case <-c.poke:
			c.limit(f)
			f.more()
			f.nudge()
		case <-stop:
			stop = nil
		}
	}
}

// limit takes note of how many readers there may be.
func (c *Consumer) limit(f *fetcher) {
	f.max, f.pausing = c.most(), c.pausing()
	if c.stop.Err() != nil {
		f.max, f.want = 0, 0
	}
}

// launch begins the looks that are wanted. During a pause there are none: the loop waits for
// its end.
func (c *Consumer) launch(f *fetcher) {
	c.limit(f)
	if d := max(c.outage.left(), c.slowdown.left()); d > 0 && f.want > 0 {
		f.want = 0
		if !f.waiting {
			f.waiting = true
			f.timer.Reset(d)
		}
	}
	for ; f.want > 0; f.want-- {
		f.looking++
		go c.read(f.looking == 1 && !f.waiting && f.looking+f.handling < f.max)
	}
}

// wait has the loop wait for what is announced after the ticket.
func (c *Consumer) wait(f *fetcher, ticket uint64, pause time.Duration) {
	queues := make([]int64, len(c.sources))
	for i, s := range c.sources {
		queues[i] = s.queue.ID
	}
	f.news, f.forget = c.Hub.Watch(ticket, queues...)
	f.waiting = true
	f.timer.Reset(pause)
}

// tell has the loop carry out f.
func (c *Consumer) tell(f func(*fetcher)) {
	select {
	case c.events <- f:
	case <-c.gone:
	}
}

// nudge has the loop make a look now.
func (c *Consumer) nudge() {
	select {
	case c.poke <- struct{}{}:
	default:
	}
}

// read is a reader: it looks for a batch and handles it. idle tells that there could be more
// readers than there are.
func (c *Consumer) read(idle bool) {
	ticket := c.Hub.Ticket()
	t, more, err := c.look(idle)
	if t == nil {
		if err == nil {
			c.works(false)
		}
		c.tell(func(f *fetcher) { c.nothing(f, ticket, more, err) })
		return
	}
	var d time.Duration
	if d, t.outlook.quick = t.s.pace.brief(t.got.messages); t.outlook.quick {
		t.outlook.growing = t.s.pace.growing()
		t.outlook.relief = time.AfterFunc(d, func() {
			c.tell(func(f *fetcher) {
				if t.outlook.brief {
					f.long(t)
					f.more()
				}
			})
		})
	}
	c.tell(func(f *fetcher) {
		if f.found(t) {
			c.wait(f, ticket, wait.Jitter(c.Poll))
		}
	})
	returned := false
	defer func() {
		if k := t.inHand; !returned && k != nil { // the handler ended the goroutine
			c.charge(t.s, k.raw[0], guard.ErrExited)
		}
		c.tell(func(f *fetcher) { f.over(t) })
	}()
	t.run()
	returned = true
}

// nothing takes note of a look without a batch. more tells that there was something that
// could not be had.
func (c *Consumer) nothing(f *fetcher, ticket uint64, more bool, err error) {
	f.looking--
	pause := wait.Jitter(c.Poll)
	switch {
	case err != nil:
		switch {
		case c.stop.Err() != nil || c.Host.Check() != nil:
			return
		case TooOld(err):
			c.refuse(err)
			return
		case !errors.Is(err, backend.ErrSerialization):
			c.outage.begin(c.Log, c.name(), err)
			f.again()
			return
		}
		f.trouble = min(max(2*f.trouble, 50*time.Millisecond), 5*time.Second)
		pause = wait.Jitter(f.trouble)
	case more:
		f.contended = min(max(2*f.contended, 2*time.Millisecond), 250*time.Millisecond)
		pause = min(pause, wait.Jitter(f.contended))
	default:
		f.contended, f.trouble = 0, 0
	}
	if c.Drain && err == nil && (!more || f.tries >= drainTries) {
		return
	}
	f.tries++
	switch {
	case !f.waiting:
		c.wait(f, ticket, pause)
	case more:
		f.nudge() // the loop looks again as soon as this reader would have
	}
}
