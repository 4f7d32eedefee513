package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"
)

// greeting returns the version with which a server of MySQL or MariaDB greets
// a client that connects. No log-in is needed for that, and so no driver.
func greeting(ctx context.Context, address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return "", errors.New("no address with a host and a port")
	}
	port := u.Port()
	if port == "" {
		port = "3306"
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(10 * time.Second)
	}
	conn.SetDeadline(deadline)
	// A packet's head is its length in three bytes and a number. The first packet is the
	// protocol's version and the server's, which a zero ends.
	head := make([]byte, 4)
	if _, err := io.ReadFull(conn, head); err != nil {
		return "", err
	}
	body := make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
	if _, err := io.ReadFull(conn, body); err != nil {
		return "", err
	}
	if len(body) > 0 && body[0] == 10 {
		if version, _, ok := bytes.Cut(body[1:], []byte{0}); ok {
			// MariaDB pretends to be 5.5.5 for the sake of old replicas.
			return strings.TrimPrefix(string(version), "5.5.5-"), nil
		}
	}
	if len(body) > 3 && body[0] == 0xff { // error packet: a code in two bytes, a text
		return "", fmt.Errorf("the server says %s", body[3:])
	}
	return "", errors.New("the server does not speak MySQL's protocol")
}
