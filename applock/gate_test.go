package applock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/applock"
)

// TestGate has workers take messages in order from a conversation, one receiver
// at a time, and enter the gate with them.
func TestGate(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, cleanup := open()
	defer cleanup()
	messages := []int{100, 100, 100, 200, 200, 300, 400, 400}
	next := 0
	var conversation, mu sync.Mutex
	inside, done, most := map[int]int{}, map[int]int{}, map[int]int{}
	var wg sync.WaitGroup
	for range 4 {
		s, err := applock.Open(ctx, b, nil)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer s.Close()
			for {
				conversation.Lock() // receive
				if next == len(messages) {
					conversation.Unlock()
					return
				}
				phase := messages[next]
				next++
				pass, err := s.Enter(ctx, "gate", phase-100, phase, func(context.Context) error {
					conversation.Unlock()
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				inside[phase]++
				most[phase] = max(most[phase], inside[phase])
				for _, p := range messages {
					if p < phase && done[p] < count(messages, p) {
						t.Errorf("one of phase %d began when %d of phase %d were done", phase, done[p], p)
					}
				}
				mu.Unlock()
				time.Sleep(20 * time.Millisecond)
				mu.Lock()
				inside[phase]--
				done[phase]++
				mu.Unlock()
				if err := pass.Leave(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if most[100] < 2 || most[400] < 1 {
		t.Errorf("at most %v of each phase were inside together", most)
	}
}

func count(list []int, x int) (n int) {
	for _, y := range list {
		if x == y {
			n++
		}
	}
	return n
}

// TestGateUncoupled shows why Enter calls free when it does. A worker that releases the
// conversation before it has the lock of its phase is overtaken.
func TestGateUncoupled(t *testing.T) {
	ctx := t.Context()
	b, cleanup := open()
	defer cleanup()
	second, err := applock.Open(ctx, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	// The first worker has received a message of phase 100, let go of the
	// conversation, and not yet entered. The second receives one of phase 200.
	pass, err := second.Enter(ctx, "gate", 100, 200, nil)
	if err != nil {
		t.Fatal("the gate held, so the order of its steps would not matter:", err)
	}
	if err := pass.Leave(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestGateFails: Enter gives back what it took when free fails, or when the session
// in the phase before does not leave.
func TestGateFails(t *testing.T) {
	ctx := t.Context()
	b, cleanup := open()
	defer cleanup()
	first, err := applock.Open(ctx, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := applock.Open(ctx, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	lost := errors.New("the delivery is lost")
	if _, err := first.Enter(ctx, "gate", 100, 200, func(context.Context) error { return lost }); !errors.Is(err, lost) {
		t.Errorf("Enter: %v", err)
	}
	if _, err := first.Enter(ctx, "gate", 0, 100, nil); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if _, err := second.Enter(short, "gate", 100, 200, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Enter: %v", err)
	}
	if free, err := first.Test(ctx, "gate - 200", applock.Exclusive); err != nil || !free {
		t.Errorf("the lock of phase 200 is free: %t, %v", free, err)
	}
}

// TestRefused: options, names and modes that mean nothing are refused.
func TestRefused(t *testing.T) {
	ctx := t.Context()
	b, cleanup := open()
	defer cleanup()
	session, err := applock.Open(ctx, b, &applock.Options{Lease: time.Millisecond})
	if !errors.Is(err, parley.ErrInvalidOption) {
		t.Errorf("session: %v, %v", session, err)
	}
	if session, err = applock.Open(ctx, b, nil); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []applock.Mode{0, applock.Shared | applock.IntentExclusive, 32, -1} {
		if _, err := session.Lock(ctx, "x", mode, 0); !errors.Is(err, parley.ErrInvalidOption) {
			t.Errorf("mode %d: %v", mode, err)
		}
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	if _, err := session.Lock(ctx, "x", applock.Shared, 0); !errors.Is(err, parley.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := session.Lock(ctx, "", applock.Shared, 0); !errors.Is(err, parley.ErrInvalidName) {
		t.Errorf("without a name: %v", err)
	}
}

// TestClosedBroker: a broker that is closed opens no session, and ends those that are open.
func TestClosedBroker(t *testing.T) {
	b, cleanup := open()
	defer cleanup()
	session, err := applock.Open(t.Context(), b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if session.Context().Err() == nil {
		t.Error("the session goes on")
	}
	if _, err := applock.Open(t.Context(), b, nil); !errors.Is(err, parley.ErrClosed) {
		t.Errorf("opened again: %v", err)
	}
	if _, err := applock.List(t.Context(), b, ""); !errors.Is(err, parley.ErrClosed) {
		t.Errorf("listed: %v", err)
	}
}
