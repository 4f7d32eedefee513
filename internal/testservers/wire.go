package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"
)

// As much of PostgreSQL's protocol, version 3.0, as it takes to see that a
// server answers and what it is. A driver would make this program, and with
// it every test run, depend on the driver.

// errPassword says that the server wants more than a user name, or no
// connection without TLS.
var errPassword = errors.New("the server asks for a password")

// queryRow logs in and returns the first column of a statement's first row.
func queryRow(ctx context.Context, address, sql string) (string, error) {
	s, err := logIn(ctx, address)
	if err != nil {
		return "", err
	}
	defer s.Close()
	if err := s.send('Q', sql+"\x00"); err != nil {
		return "", err
	}
	value, got := "", false
	for {
		kind, body, err := s.receive()
		if err != nil {
			return "", err
		}
		switch {
		case kind == 'D' && !got && len(body) >= 6:
			size := int(int32(binary.BigEndian.Uint32(body[2:])))
			if size >= 0 && 6+size <= len(body) {
				value, got = string(body[6:6+size]), true
			}
		case kind == 'Z' && got:
			return value, nil
		case kind == 'Z':
			return "", errors.New("no row")
		}
	}
}

// session is a connection that has logged in.
type session struct{ net.Conn }

func logIn(ctx context.Context, address string) (*session, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return nil, errPassword // an address in another form: leave it to psql
	}
	port := u.Port()
	if port == "" {
		port = "5432"
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, err
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(10 * time.Second)
	}
	conn.SetDeadline(deadline)
	s := &session{conn}
	if err := s.start(u.User.Username(), strings.TrimPrefix(u.Path, "/")); err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

// start sends the startup message and reads until the server is ready.
func (s *session) start(user, database string) error {
	if user == "" {
		user = "postgres"
	}
	if database == "" {
		database = user
	}
	if err := s.send(0, "\x00\x03\x00\x00user\x00"+user+"\x00database\x00"+database+"\x00\x00"); err != nil {
		return err
	}
	for {
		kind, body, err := s.receive()
		if err != nil {
			return err
		}
		switch kind {
		case 'R':
			if len(body) < 4 || binary.BigEndian.Uint32(body) != 0 {
				return errPassword
			}
		case 'Z':
			return nil
		}
	}
}

// send writes one message; the startup message alone has no kind.
func (s *session) send(kind byte, body string) error {
	var b []byte
	if kind != 0 {
		b = append(b, kind)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)+4))
	_, err := s.Write(append(b, body...))
	return err
}

// receive reads one message. The server's error message becomes an error.
func (s *session) receive() (kind byte, body []byte, err error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(s, head); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size < 4 || size > 1<<20 {
		return 0, nil, errors.New("the server does not speak PostgreSQL's protocol")
	}
	body = make([]byte, size-4)
	if _, err := io.ReadFull(s, body); err != nil {
		return 0, nil, err
	}
	if head[0] == 'E' {
		return 0, nil, serverError(body)
	}
	return head[0], body, nil
}

// serverError takes the message (M) and its code (C) out of an error's fields.
func serverError(body []byte) error {
	var message, code string
	for field := range bytes.SplitSeq(body, []byte{0}) {
		switch {
		case len(field) == 0:
		case field[0] == 'M':
			message = string(field[1:])
		case field[0] == 'C':
			code = string(field[1:])
		}
	}
	if code == "28000" { // pg_hba.conf has no line for it; mostly it wants TLS
		return fmt.Errorf("%w (%s)", errPassword, message)
	}
	return fmt.Errorf("the server says %s (%s)", message, code)
}
