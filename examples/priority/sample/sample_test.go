package sample_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/sqlite"
	"github.com/parleymq/parley/examples/priority/sample"
)

func broker(t *testing.T) *parley.Broker {
	b, err := parley.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "p.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func run(t *testing.T, b *parley.Broker, o sample.Options) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out strings.Builder
	if err := sample.Run(ctx, b, o, &out); err != nil {
		t.Fatal(err)
	}
	left, err := b.Admin().Conversations(ctx, parley.ConversationQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("%d sides of conversations are left, the first %+v", len(left), left[0])
	}
	return out.String()
}

// order is what one reader prints: first these, then the rest as they arrived.
func order(requests int, first ...int) string {
	var out strings.Builder
	done := map[int]bool{}
	for _, n := range first {
		fmt.Fprintf(&out, "response %d\n", n)
		done[n] = true
	}
	for n := range requests {
		if !done[n] {
			fmt.Fprintf(&out, "response %d\n", n)
		}
	}
	return out.String()
}

func TestOneReader(t *testing.T) {
	for _, test := range []struct {
		name string
		o    sample.Options
		want string
	}{
		{"published program", sample.Options{Work: time.Millisecond}, order(100, 0, 90, 80, 70, 60, 50, 40, 30, 20, 10)},
		{"published output", sample.Options{Work: time.Millisecond, Late: 90}, order(100, 0, 80, 90, 70, 60, 50, 40, 30, 20, 10)},
		{"without front end", sample.Options{Work: time.Millisecond, Direct: true, Size: 20_000}, order(100, 0, 90, 80, 70, 60, 50, 40, 30, 20, 10)},
		{"without front end, late", sample.Options{Work: time.Millisecond, Direct: true, Size: 1, Requests: 50, Late: 30}, order(50, 0, 40, 20, 30, 10)},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := run(t, broker(t), test.o); got != test.want {
				t.Errorf("printed\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// With ten readers the order of the responses depends on the machine, but no
// request without a promotion is taken while a promoted one waits.
func TestTenReaders(t *testing.T) {
	b := broker(t)
	var taken atomic.Int32
	o := sample.Options{Work: 5 * time.Millisecond, Readers: 10}
	o.Taken = func(n int, promoted bool) {
		// The first ten are taken while requests still arrive.
		if taken.Add(1) <= 10 || promoted {
			return
		}
		groups, err := b.Admin().Groups(t.Context(), "BackEndQueue", parley.Place{}, 200)
		if err != nil {
			t.Error(err)
		}
		for _, g := range groups {
			if g.Promoted && g.State == "ready" {
				t.Errorf("request %d was taken while group %s, promoted to %d, waits", n, g.Group, g.Level)
			}
		}
	}
	got := run(t, b, o)
	if n := strings.Count(got, "response "); n != 100 {
		t.Errorf("%d responses, want 100", n)
	}
	for n := range 100 {
		if c := strings.Count(got, fmt.Sprintf("response %d\n", n)); c != 1 {
			t.Errorf("response %d came %d times", n, c)
		}
	}
}
