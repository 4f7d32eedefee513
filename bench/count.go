package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
)

// cost is what one message costs on average.
type cost struct {
	Statements float64 `json:"statements"`
	Trips      float64 `json:"trips"`     // round trips to the server
	Commits    float64 `json:"commits"`   // transactions that may have written
	LogBytes   float64 `json:"log_bytes"` // of the whole server
}

// tally is what has been done for a database so far.
type tally struct{ statements, trips, commits, logBytes int64 }

// each is what has been done since for each of n messages.
func (t tally) each(since tally, n int) *cost {
	k := float64(max(n, 1))
	return &cost{
		Statements: float64(t.statements-since.statements) / k,
		Trips:      float64(t.trips-since.trips) / k,
		Commits:    float64(t.commits-since.commits) / k,
		LogBytes:   float64(t.logBytes-since.logBytes) / k,
	}
}

// counter tells what is done for a database that is used by another name.
type counter struct {
	dsn   string
	tally func(ctx context.Context) (tally, error)
	close func()
}

// proxy stands between a system and PostgreSQL and counts what goes by. It reads
// the messages of the protocol's version 3 and changes nothing.
type proxy struct {
	dsn    string
	target string
	l      net.Listener

	mu    sync.Mutex
	conns []net.Conn
	n     tally
}

func newProxy(dsn string) (*proxy, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, err
	}
	if u.Query().Get("sslmode") != "disable" {
		return nil, fmt.Errorf("counting needs sslmode=disable")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{target: u.Host, l: l}
	u.Host = l.Addr().String()
	p.dsn = u.String()
	go p.accept()
	return p, nil
}

func (p *proxy) close() {
	p.l.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
}

// tally returns what has been counted.
func (p *proxy) tally() tally {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

func (p *proxy) accept() {
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
		go func() {
			p.forward(s, c)
			s.Close()
		}()
		go func() {
			p.back(c, s)
			c.Close()
		}()
	}
}

// forward counts round trips: a Sync or a Query is what the client waits behind.
func (p *proxy) forward(to io.Writer, from io.Reader) {
	r := bufio.NewReader(from)
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil { // the first message has no type
		return
	}
	if !pass(to, r, size[:], int64(binary.BigEndian.Uint32(size[:]))-4) {
		return
	}
	frames(to, r, func(typ byte, _ func(int) []byte) {
		if typ == 'S' || typ == 'Q' {
			p.mu.Lock()
			p.n.trips++
			p.mu.Unlock()
		}
	})
}

// back counts statements by their tags, and commits by what the transaction
// status becomes.
func (p *proxy) back(to io.Writer, from io.Reader) {
	tag, inTx := "", false
	frames(to, bufio.NewReader(from), func(typ byte, peek func(int) []byte) {
		switch typ {
		case 'C':
			tag, _, _ = strings.Cut(string(peek(64)), "\x00")
			p.mu.Lock()
			p.n.statements++
			p.mu.Unlock()
		case 'Z':
			idle := peek(1)[0] == 'I'
			word, _, _ := strings.Cut(tag, " ")
			p.mu.Lock()
			switch {
			case !idle:
			case inTx && word == "COMMIT":
				p.n.commits++
			case !inTx && (word == "INSERT" || word == "UPDATE" || word == "DELETE" || word == "COPY"):
				p.n.commits++
			}
			p.mu.Unlock()
			inTx, tag = !idle, ""
		}
	})
}

// frames passes messages on and shows their types.
func frames(to io.Writer, r *bufio.Reader, f func(typ byte, peek func(int) []byte)) {
	for {
		var head [5]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return
		}
		left := int64(binary.BigEndian.Uint32(head[1:])) - 4
		f(head[0], func(n int) []byte {
			b, _ := r.Peek(int(min(int64(n), left)))
			return b
		})
		if !pass(to, r, head[:], left) {
			return
		}
	}
}

func pass(to io.Writer, r io.Reader, head []byte, left int64) bool {
	b := make([]byte, len(head)+int(left))
	copy(b, head)
	if _, err := io.ReadFull(r, b[len(head):]); err != nil {
		return false
	}
	_, err := to.Write(b)
	return err == nil
}
