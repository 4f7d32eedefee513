package backendtest

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
)

// MuteServer connects to a server that accepts and never answers, and wants the caller's
// deadline to be kept.
func MuteServer(t *testing.T, open func(ctx context.Context, address string) (backend.Backend, error)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		b, err := open(ctx, l.Addr().String())
		if err == nil {
			b.Close()
		}
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the caller's deadline", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("no answer 5 s after the caller's deadline")
	}
}
