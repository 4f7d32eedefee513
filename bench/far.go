package main

import (
	"fmt"
	"net"
	"net/url"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// far stands between a system and PostgreSQL and makes each round trip longer, as in a cloud whose database is in
// another zone. What is sent together still travels together.
type far struct {
	dsn string
	l   net.Listener
	lag time.Duration // one way
	way chan parcel   // all that is under way, in the order of arrival

	mu     sync.Mutex
	target string
	conns  []net.Conn
}

func newFar(dsn string, trip time.Duration) (*far, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, err
	}
	if u.Query().Get("sslmode") != "disable" {
		return nil, fmt.Errorf("a delay needs sslmode=disable")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &far{target: u.Host, l: l, lag: trip / 2, way: make(chan parcel, 1<<14)}
	u.Host = l.Addr().String()
	p.dsn = u.String()
	go p.accept()
	go p.deliver()
	return p, nil
}

func (p *far) close() {
	p.l.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
}

func (p *far) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", p.target)
		if err != nil {
			c.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, c, s)
		p.mu.Unlock()
		go p.carry(s, c)
		go p.carry(c, s)
	}
}

// parcel is what was read at once, and when it arrives. The last one of a connection is empty.
type parcel struct {
	data []byte
	at   time.Time
	to   chan<- []byte
}

// deliver hands over each parcel when it arrives. One goroutine waits for all connections. Their lag
// is the same, and a thread that sleeps in the kernel can keep a processor from other goroutines.
func (p *far) deliver() {
	runtime.LockOSThread() // Go's own timers are a millisecond late where nothing else runs
	defer runtime.UnlockOSThread()
	for x := range p.way {
		if d := time.Until(x.at); d > 0 {
			left := syscall.NsecToTimespec(d.Nanoseconds())
			syscall.Nanosleep(&left, nil)
		}
		if len(x.data) == 0 {
			close(x.to)
		} else {
			x.to <- x.data
		}
	}
}

// carry passes on what it reads, each piece after the lag.
func (p *far) carry(to, from net.Conn) {
	arrived := make(chan []byte, 1024)
	go func() {
		buffer := make([]byte, 64<<10)
		for {
			n, err := from.Read(buffer)
			if n > 0 {
				p.way <- parcel{append([]byte(nil), buffer[:n]...), time.Now().Add(p.lag), arrived}
			}
			if err != nil {
				p.way <- parcel{nil, time.Now().Add(p.lag), arrived}
				return
			}
		}
	}()
	for data := range arrived {
		if _, err := to.Write(data); err != nil {
			break
		}
	}
	to.Close()
	for range arrived { // its reader ends
	}
}
