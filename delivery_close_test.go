package parley_test

import (
	"sync"
	"testing"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// unclosed is a store that another Broker goes on with.
type unclosed struct{ backend.Backend }

func (unclosed) Close() error { return nil }

// TestCloseBesideAReceiver: Close gives back what a receiver has in hand, while that still uses its delivery. The race
// detector watches it.
func TestCloseBesideAReceiver(t *testing.T) {
	ctx := t.Context()
	first, cleanup := shop()
	defer cleanup()
	b, err := parley.New(ctx, unclosed{first.Backend()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Post(ctx, "mail", parley.Payload{Body: []byte("in hand")}); err != nil {
		t.Fatal(err)
	}
	d, err := b.Receive(ctx, "mail", &parley.ReceiveOptions{Hold: parley.HoldLease})
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	var receiver sync.WaitGroup
	receiver.Go(func() {
		for {
			if err := d.Return(ctx); err != nil {
				t.Error(err)
			}
			select {
			case <-closed:
				return
			default:
			}
		}
	})
	err = b.Close()
	close(closed)
	receiver.Wait()
	if err != nil {
		t.Fatal(err)
	}
	again, err := first.Receive(ctx, "mail", nil)
	if err != nil {
		t.Fatalf("after Close: %v, want the message that was in hand", err)
	}
	defer again.Close()
	if len(again.Messages) != 1 || string(again.Messages[0].Body) != "in hand" {
		t.Errorf("after Close received %d messages", len(again.Messages))
	}
}
