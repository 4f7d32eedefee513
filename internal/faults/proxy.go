package main

import (
	"io"
	"net"
	"sync"
	"time"
)

// proxy stands between programs and a server.
type proxy struct {
	net.Listener

	mu     sync.Mutex
	target string
	conns  map[net.Conn]bool
	hole   bool          // what the server answers vanishes
	lag    time.Duration // before each piece of data
}

func newProxy(target string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	p := &proxy{Listener: l, target: target, conns: make(map[net.Conn]bool)}
	if err == nil {
		go p.serve()
	}
	return p, err
}

func (p *proxy) serve() {
	for {
		client, err := p.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.leads())
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		go p.copy(server, client, false)
		go p.copy(client, server, true)
	}
}

// lead has new connections go to another server.
func (p *proxy) lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

func (p *proxy) leads() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

func (p *proxy) copy(to, from net.Conn, answers bool) {
	defer func() {
		for _, c := range []net.Conn{to, from} {
			c.Close()
			p.mu.Lock()
			delete(p.conns, c)
			p.mu.Unlock()
		}
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		hole, lag := p.hole && answers, p.lag
		p.mu.Unlock()
		time.Sleep(lag)
		if n > 0 && !hole {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err == io.EOF || err != nil {
			return
		}
	}
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// set changes what happens to data.
func (p *proxy) set(hole bool, lag time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hole, p.lag = hole, lag
}
