package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// progress draws a bar on standard error while something takes long, if that is a terminal.
type progress struct {
	mu    sync.Mutex
	w     io.Writer
	says  string
	done  float64
	total float64 // zero: not known
	start time.Time
	over  chan struct{}
	ended sync.WaitGroup
}

// drawEvery is how often a bar is redrawn. What is over sooner shows none.
const drawEvery = 100 * time.Millisecond

// progress begins a bar for a number of things, or of seconds.
func (c *call) progress(says string, total float64) *progress {
	p := &progress{w: io.Discard, says: says, total: total, start: time.Now(), over: make(chan struct{})}
	w := c.stderr
	if x, ok := w.(plain); ok { // the bar is ours, and moves the cursor
		w = x.w
	}
	if _, ok := screen(w); !ok {
		return p
	}
	p.w = w.(*os.File)
	p.ended.Go(func() {
		t := time.NewTicker(drawEvery)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				p.draw()
			case <-p.over:
				return
			}
		}
	})
	return p
}

// set tells how much is done, and of what.
func (p *progress) set(done float64, says string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.says = done, says
}

// during lets the bar of seconds go on by itself for a stage of that time, until over is called.
func (p *progress) during(says string, past, d time.Duration) (over func()) {
	start := time.Now()
	stop := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		t := time.NewTicker(drawEvery)
		defer t.Stop()
		for {
			p.set((past + min(time.Since(start), d)).Seconds(), says)
			select {
			case <-t.C:
			case <-stop:
				return
			}
		}
	})
	return func() { close(stop); ended.Wait() }
}

// hide takes the bar away until it is drawn again, so that a line can be printed.
func (p *progress) hide() {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprint(p.w, "\r\x1b[K")
}

// end takes the bar away.
func (p *progress) end() {
	close(p.over)
	p.ended.Wait()
	p.hide()
}

func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	const width = 30
	if p.total == 0 {
		fmt.Fprintf(p.w, "\r%s, %.0f s\x1b[K", shown(p.says), time.Since(p.start).Seconds())
		return
	}
	n := min(int(width*p.done/p.total), width)
	fmt.Fprintf(p.w, "\r[%s%s] %.0f of %.0f  %s\x1b[K", strings.Repeat("#", n), strings.Repeat(".", width-n), p.done, p.total, shown(p.says))
}
