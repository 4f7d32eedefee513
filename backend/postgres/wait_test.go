package postgres

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend/internal/backendtest"
)

// silence is a proxy to a server that drops its first connection silently. When the client sends
// the word, the proxy discards that and everything after it.
type silence struct {
	word   string
	begun  chan struct{} // closed when it begins
	server string
	first  bool
}

// listenThrough returns the server's name by way of a proxy.
func listenThrough(t *testing.T, dsn, word string) (string, *silence) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" {
		t.Skipf("the server's name is no URL: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := &silence{word: word, begun: make(chan struct{}), server: u.Host, first: true}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { client.Close() })
			server, err := net.Dial("tcp", p.server)
			if err != nil {
				client.Close()
				continue
			}
			t.Cleanup(func() { server.Close() })
			go io.Copy(client, server)
			go p.forward(server, client, p.first)
			p.first = false
		}
	}()
	u.Host = l.Addr().String()
	q := u.Query()
	q.Set("sslmode", "disable") // the proxy reads what is said
	u.RawQuery = q.Encode()
	return u.String(), p
}

func (p *silence) forward(to io.WriteCloser, from io.Reader, drops bool) {
	defer to.Close()
	dropped := false
	for b := make([]byte, 8192); ; {
		n, err := from.Read(b)
		if drops && !dropped && bytes.Contains(b[:n], []byte(p.word)) {
			dropped = true
			close(p.begun)
		}
		if err != nil {
			return
		}
		if !dropped {
			to.Write(b[:n])
		}
	}
}

// within fails the test if done is not closed within a time that is long enough for
// everything but a wait without end.
func within[T any](t *testing.T, what string, done <-chan T) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("after 20 s there was no %s", what)
	}
}

func listeningStore(t *testing.T, word string) (*Store, *silence) {
	t.Helper()
	dsn := backendtest.Server(t, "postgres", "PARLEY_TEST_POSTGRES", "the data source name of a PostgreSQL server for tests")
	listen, p := listenThrough(t, dsn, word)
	return New(backendtest.Connect(t, "postgres", dsn), &Options{Listen: listen, Pooler: PoolerNever}), p
}

// TestCloseWhileListenerIsCut: a Broker can be closed though the connection of its
// listener was dropped silently while the listener waited for an answer.
func TestCloseWhileListenerIsCut(t *testing.T) {
	for what, word := range map[string]string{"while it connects": "user\x00", "while it begins to listen": "LISTEN", "while it asks for a sign of life": "Q\x00\x00\x00\x05\x00"} {
		t.Run(what, func(t *testing.T) {
			s, p := listeningStore(t, word)
			s.pool.pings = pings{10 * time.Millisecond, time.Hour}
			b, err := parley.New(t.Context(), s, &parley.Options{NoMaintenance: true})
			if err != nil {
				t.Fatal(err)
			}
			within(t, "silence", p.begun)
			closed := make(chan error, 1)
			go func() { closed <- b.Close() }()
			within(t, "end of Close", closed)
		})
	}
}

// TestListenerThatWasCutListensAgain: a connection that was dropped silently is given
// up when the server does not answer in time.
func TestListenerThatWasCutListensAgain(t *testing.T) {
	s, p := listeningStore(t, "Q\x00\x00\x00\x05\x00")
	s.pool.pings = pings{20 * time.Millisecond, 50 * time.Millisecond}
	woken := make(chan int64, 100)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Listen(ctx, func(queue int64) { woken <- queue }) }()
	within(t, "silence", p.begun)
	for len(woken) > 0 {
		<-woken
	}
	within(t, "second connection", woken)
	for len(woken) > 0 {
		<-woken
	}
	if err := s.Notify(ctx, []int64{7}); err != nil {
		t.Fatal(err)
	}
	within(t, "notification", woken)
	stop()
	within(t, "end of Listen", ended)
}
