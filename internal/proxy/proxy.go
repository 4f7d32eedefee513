// Package proxy stands between programs and a server, and does to their connections what networks do.
package proxy

import (
	"bytes"
	"encoding/binary"
	"net"
	"slices"
	"sync"
	"time"
)

// Proxy is a listener whose connections lead to a server.
type Proxy struct {
	net.Listener

	mu     sync.Mutex
	target string
	conns  map[net.Conn]bool
	hole   bool          // what the server answers vanishes
	lag    time.Duration // before each piece of data
	at     [][]byte      // the next client that sends one of these is cut off; in upper case
	after  bool          // as soon as the server has answered it
	watch  func(id int64)
}

// New makes a Proxy in front of an address.
func New(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	p := &Proxy{Listener: l, target: target, conns: make(map[net.Conn]bool)}
	if err == nil {
		go p.serve()
	}
	return p, err
}

func (p *Proxy) serve() {
	for {
		client, err := p.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.Leads())
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		between := &link{p: p}
		go between.copy(server, client, between.asked)
		go between.copy(client, server, between.answered)
	}
}

// Lead has new connections go to another server.
func (p *Proxy) Lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Leads returns where new connections go.
func (p *Proxy) Leads() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// Cut ends all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// Set changes what happens to data: the server's answers vanish, and each piece waits.
func (p *Proxy) Set(hole bool, lag time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hole, p.lag = hole, lag
}

// CutAt cuts the connection of the next client that sends one of the texts, in upper or lower case.
// It does so before the server gets the text, or once the server has answered, which the client
// does not learn.
func (p *Proxy) CutAt(answered bool, texts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.after = nil, answered
	for _, text := range texts {
		p.at = append(p.at, bytes.ToUpper([]byte(text)))
	}
}

// Watch makes the proxy call f with everything that a client is about to send, and with the server's
// number of the connection. That is the process on PostgreSQL, the thread on MySQL and MariaDB. f must
// not block.
func (p *Proxy) Watch(f func(id int64)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch = f
}

// link is a connection through a Proxy. The Proxy's mutex guards it.
type link struct {
	p      *Proxy
	doomed bool  // the server's next answer cuts it
	id     int64 // the server's number of it; 0: not yet known
}

// asked decides about what the client sends.
func (l *link) asked(data []byte) (pass, cut bool) {
	p := l.p
	if p.watch != nil && l.id != 0 {
		p.watch(l.id)
	}
	if !slices.ContainsFunc(p.at, func(text []byte) bool { return bytes.Contains(bytes.ToUpper(data), text) }) {
		return true, false
	}
	p.at, l.doomed = nil, p.after
	return p.after, !p.after
}

// answered decides about what the server sends.
func (l *link) answered(data []byte) (pass, cut bool) {
	if l.id == 0 {
		l.id = number(data)
	}
	return !l.p.hole && !l.doomed, l.doomed
}

// keyData is how PostgreSQL's BackendKeyData begins, before the number of the process.
var keyData = []byte{'K', 0, 0, 0, 12}

// number reads the server's number of a connection from what the server says first. MySQL greets with the
// version of its protocol and its own version, as a string, before the number.
func number(data []byte) int64 {
	if len(data) > 5 && data[3] == 0 && data[4] == 10 {
		if _, rest, ok := bytes.Cut(data[5:], []byte{0}); ok && len(rest) >= 4 {
			return int64(binary.LittleEndian.Uint32(rest))
		}
	}
	if _, rest, ok := bytes.Cut(data, keyData); ok && len(rest) >= 4 {
		return int64(binary.BigEndian.Uint32(rest))
	}
	return 0
}

// copy passes on what decide lets pass.
func (l *link) copy(to, from net.Conn, decide func(data []byte) (pass, cut bool)) {
	p := l.p
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
		pass, cut := decide(buffer[:n])
		lag := p.lag
		p.mu.Unlock()
		time.Sleep(lag)
		if pass && n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil || cut {
			return
		}
	}
}
