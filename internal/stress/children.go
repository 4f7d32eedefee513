package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
)

// Children are this program again, with its part in the environment. They tell
// their parent by lines what they do, and are killed at any moment.
const childEnv = "PARLEY_STRESS_CHILD"

// childDialogs is how many conversations a child has that sends. Two senders
// share them, so that the child is the only process that writes to them.
const childDialogs = 4

// part is what a child does.
type part struct {
	DB     string
	Role   string
	World  *world
	Origin string
	First  int64 // of the serial numbers
	Seed   uint64
	Start  int64 // of the run, in Unix nanoseconds
	Slow   time.Duration
	Pause  time.Duration
	Work   time.Duration
	Mine   []dialog
}

// line is what a child says: one call of a recorder.
type line struct {
	Writing []string `json:",omitempty"` // token, stream, origin
	Ended   []string `json:",omitempty"`
	Fate    fate     `json:",omitempty"`
	Acked   int      `json:",omitempty"`
	Held    *span    `json:",omitempty"`
	Name    string   `json:",omitempty"`
	Count   int      `json:",omitempty"`
	Problem string   `json:",omitempty"`
}

// span is a hold in a line.
type span struct {
	Who, Group      string
	Streams         []string
	From, To, Until time.Duration
	Settled, Undone bool
}

// startChildren starts a sender and a receiver, in a control run only the
// sender, and kills and restarts them until the load ends.
func (l *load) startChildren(i int) error {
	for k, role := range []string{roleSender, roleReceiver} {
		if l.control && role == roleReceiver {
			continue
		}
		p := part{
			DB: l.engine.name(role), Role: role, World: l.world, Origin: fmt.Sprintf("%c%d", "xy"[k], i),
			Start: l.led.start.UnixNano(), Slow: l.slow.sender, Pause: l.pause, Work: l.work,
			Mine: l.world.of(inner)[i*childDialogs : (i+1)*childDialogs],
		}
		rng := l.rng(700 + 2*i + k)
		c, err := startChild(p, rng.Uint64(), l.led)
		if err != nil {
			return err
		}
		l.done.Add(1)
		go func() {
			defer l.done.Done()
			for incarnation := int64(1); ; incarnation++ {
				life := time.Duration(800+rng.IntN(2500)) * time.Millisecond
				for end := time.Now().Add(life); time.Now().Before(end) && !l.stop.Load(); {
					time.Sleep(20 * time.Millisecond)
				}
				if l.stop.Load() {
					c.finish()
					return
				}
				c.kill()
				p.First = incarnation << 32
				next, err := startChild(p, rng.Uint64(), l.led)
				if err != nil {
					l.led.problem("errors", "a child could not be started: %v", err)
					return
				}
				c = next
			}
		}()
	}
	return nil
}

// child is a running child process.
type child struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	led  *ledger
	read chan struct{} // closed when all its lines are read
	open map[string]bool
}

func startChild(p part, seed uint64, led *ledger) (*child, error) {
	p.Seed = seed
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(exe), led: led, read: make(chan struct{}), open: make(map[string]bool)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	c.cmd.Stderr = led.log
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go c.listen(out)
	return c, nil
}

func (c *child) listen(out io.Reader) {
	defer close(c.read)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var s line
		if json.Unmarshal(lines.Bytes(), &s) != nil {
			continue // the last one of a child that was killed
		}
		switch {
		case s.Writing != nil:
			c.open[s.Writing[0]] = true
			c.led.writing(s.Writing[0], s.Writing[1], s.Writing[2])
		case s.Ended != nil:
			for _, t := range s.Ended {
				delete(c.open, t)
			}
			c.led.ended(s.Fate, s.Ended)
		case s.Acked > 0:
			c.led.acknowledged(s.Acked)
		case s.Held != nil:
			h := s.Held
			c.led.held(hold{who: h.Who, group: h.Group, streams: h.Streams, from: h.From, to: h.To, until: h.Until, settled: h.Settled, undone: h.Undone})
		case s.Problem != "":
			c.led.problem(s.Name, "%s", s.Problem)
		case s.Name != "":
			c.led.count(s.Name, s.Count)
		}
	}
}

// kill ends the child as a crash would. What it had sent and not reported may
// have been committed or not.
func (c *child) kill() {
	c.led.dying.Add(1)
	c.led.cut(func() { c.cmd.Process.Kill() })
	c.over()
	time.AfterFunc(mourning, func() { c.led.dying.Add(-1) })
}

// mourning is how long a server may take to notice that a client has gone.
const mourning = 250 * time.Millisecond

// finish lets the child come to its end.
func (c *child) finish() {
	c.in.Close()
	t := time.AfterFunc(5*time.Second, func() { c.cmd.Process.Kill() })
	defer t.Stop()
	c.over()
}

func (c *child) over() {
	<-c.read
	c.cmd.Wait()
	c.in.Close()
	var open []string
	for t := range c.open {
		open = append(open, t)
	}
	c.led.doubt(open)
}

// childMain plays a part if this process is a child, and reports whether it was.
func childMain() bool {
	text := os.Getenv(childEnv)
	if text == "" {
		return false
	}
	var p part
	rec := &pipe{out: os.Stdout}
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		rec.start = time.Unix(0, p.Start)
		err = p.play(rec)
	}
	switch {
	case err == nil:
	case errors.Is(err, parley.ErrConnection): // cut while it started; it will be started again
		rec.count("cut off", 1)
	default:
		rec.problem("errors", "child %s: %v", p.Origin, err)
		os.Exit(1)
	}
	return true
}

// play works until the parent closes the pipe, or is gone.
func (p part) play(rec *pipe) error {
	e, err := openEngine(p.DB, "")
	if err != nil {
		return err
	}
	defer e.close()
	proc, err := openProcess(context.Background(), plain(p.DB), p.Role, parley.Options{Poll: 100 * time.Millisecond, Lease: time.Second, NoMaintenance: true})
	if err != nil {
		return err
	}
	defer proc.Close()
	var stop atomic.Bool
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop.Store(true)
		time.Sleep(4 * time.Second)
		os.Exit(1)
	}()
	var serial atomic.Int64
	serial.Store(p.First)
	var work []func()
	const workers = 2
	for i := range workers {
		rng := rand.New(rand.NewPCG(p.Seed, uint64(i)))
		if p.Role == roleSender {
			n := len(p.Mine) / workers
			s := &sender{w: p.World, rec: rec, rng: rng, origin: p.Origin, serial: &serial, dialogs: p.Mine[i*n : (i+1)*n], slow: p.Slow}
			work = append(work, func() {
				s.turn(proc)
				time.Sleep(time.Duration(rng.Int64N(int64(2*p.Pause) + 1)))
			})
			continue
		}
		r := &receiver{w: p.World, rec: rec, rng: rng, who: fmt.Sprintf("%s.%d", p.Origin, i), serial: &serial, queue: p.World.Work, effects: e.effects(), slow: p.Slow, works: p.Work}
		work = append(work, func() { r.turn(proc) })
	}
	var done sync.WaitGroup
	for _, f := range work {
		done.Go(func() {
			for !stop.Load() {
				f()
			}
		})
	}
	done.Wait()
	return nil
}

// pipe is a recorder that writes lines.
type pipe struct {
	mu    sync.Mutex
	out   io.Writer
	start time.Time
}

func (p *pipe) say(s line) {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out.Write(append(text, '\n'))
}

func (p *pipe) writing(token, stream, origin string) {
	p.say(line{Writing: []string{token, stream, origin}})
}

func (p *pipe) ended(f fate, tokens []string) {
	if len(tokens) > 0 {
		p.say(line{Ended: tokens, Fate: f})
	}
}

func (p *pipe) acknowledged(n int) { p.say(line{Acked: n}) }

func (p *pipe) held(h hold) {
	p.say(line{Held: &span{Who: h.who, Group: h.group, Streams: h.streams, From: h.from, To: h.to, Until: h.until, Settled: h.settled, Undone: h.undone}})
}

func (p *pipe) count(name string, n int) { p.say(line{Name: name, Count: n}) }

func (p *pipe) problem(name, format string, args ...any) {
	p.say(line{Name: name, Problem: fmt.Sprintf(format, args...)})
}

func (p *pipe) since() time.Duration { return time.Since(p.start) }
