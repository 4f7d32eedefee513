package console

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/applock"
	"github.com/parleymq/parley/phases"
)

func TestCycles(t *testing.T) {
	holds := func(owner, lock string, mode applock.Mode) applock.Status {
		return applock.Status{Name: lock, Owner: owner, Mode: mode}
	}
	waits := func(owner, lock string, mode applock.Mode) applock.Status {
		return applock.Status{Name: lock, Owner: owner, Mode: mode, Waiting: true}
	}
	const x, s = applock.Exclusive, applock.Shared
	for _, test := range []struct {
		list []applock.Status
		want string
	}{
		{nil, ""},
		{[]applock.Status{holds("a", "1", x), waits("b", "1", x)}, ""},
		{[]applock.Status{holds("a", "1", x), waits("b", "1", x), holds("b", "2", x), waits("a", "2", x)}, "b>a a>b"},
		{[]applock.Status{holds("a", "1", s), waits("b", "1", s), holds("b", "2", x), waits("a", "2", x)}, ""}, // shared modes do not exclude each other
		{[]applock.Status{holds("a", "1", x), waits("b", "1", x), holds("b", "2", x), waits("c", "2", x), holds("c", "3", x), waits("a", "3", x), waits("d", "3", x)}, "b>a a>c c>b"},
		{[]applock.Status{holds("a", "1", x), waits("a", "1", s)}, ""},
	} {
		var got []string
		for _, c := range cycles(test.list) {
			for _, w := range c {
				got = append(got, w.Owner+">"+w.For)
			}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%v: cycles %v, want %s", test.list, got, test.want)
		}
	}
}

// TestPicture: bars are where their times are, and a phase's end is where the next one begins.
func TestPicture(t *testing.T) {
	from := time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return from.Add(time.Duration(s) * time.Second) }
	task := func(phase int, state phases.State, started, ended int) phases.TaskStatus {
		x := phases.TaskStatus{ID: parley.NewID(), Phase: phase, Type: "t", State: state, Attempts: 1, Submitted: from}
		if started >= 0 {
			x.Started = at(started)
		}
		if ended >= 0 {
			x.Ended = at(ended)
		}
		return x
	}
	all := []phases.TaskStatus{task(1, phases.StateDone, 0, 40), task(2, phases.StateRunning, 40, -1), task(1, phases.StateDone, 0, 20), task(3, phases.StateQueued, -1, -1)}
	g := picture(all, false, at(80))
	const room = ganttWidth - ganttLeft - ganttRight
	if len(g.Bars) != 4 || len(g.Bands) != 3 || len(g.Barriers) != 1 || !g.Each {
		t.Fatalf("the picture is %+v", g)
	}
	for i, want := range []struct{ x, width float64 }{{ganttLeft, room / 2}, {ganttLeft, room / 4}, {ganttLeft + room/2, room / 2}, {ganttLeft + room + 6, future}} {
		if b := g.Bars[i]; b.X != want.x || b.Width != want.width {
			t.Errorf("bar %d is at %g, %g wide, want %g and %g", i, b.X, b.Width, want.x, want.width)
		}
	}
	if b := g.Barriers[0]; b.X != ganttLeft+room/2 || b.To != g.Bands[2].Y {
		t.Errorf("the barrier is %+v", b)
	}
	if g.Now != ganttLeft+room || g.Bands[2].Waits != "waits for phase 2" || g.Bands[1].Waits != "" {
		t.Errorf("now at %g, bands %+v", g.Now, g.Bands)
	}
	for n := range tasksDrawn {
		all = append(all, task(1, phases.StateDone, n%40, n%40+1))
	}
	if g = picture(all, false, at(80)); g.Each || len(g.Bars) != 3 || g.Bars[0].Done != g.Bars[0].Width || g.Bars[1].Done != 0 || g.Height > 200 {
		t.Errorf("the picture of many tasks is %+v", g)
	}
	if picture(nil, false, from) != nil {
		t.Error("there is a picture of nothing")
	}
	for _, d := range []time.Duration{0, time.Millisecond, time.Second, time.Hour, 100 * 24 * time.Hour, 10000 * 24 * time.Hour} {
		if n := len((scale{from, max(d, 1)}).ticks()); n < 1 || n > 14 {
			t.Errorf("%d ticks for %v", n, d)
		}
	}
}

// TestCache: calls for one key run once at a time, errors and panics are not kept, and it does not grow.
func TestCache(t *testing.T) {
	var c cache
	ctx := t.Context()
	calls := 0
	f := func() (int, error) { calls++; return calls, nil }
	for range 3 {
		if v, err := cached(ctx, &c, "a", time.Hour, f); v != 1 || err != nil {
			t.Fatalf("%d, %v", v, err)
		}
	}
	if v, _ := cached(ctx, &c, "a", 0, f); v != 2 {
		t.Errorf("an old value, %d, is given for a new one", v)
	}
	c.forget()
	if v, _ := cached(ctx, &c, "a", time.Hour, f); v != 3 {
		t.Errorf("%d is given though it was forgotten", v)
	}
	wrong := errors.New("wrong")
	for range 2 {
		if _, err := cached(ctx, &c, "b", time.Hour, func() (int, error) { calls++; return 0, wrong }); err != wrong {
			t.Errorf("the error is %v", err)
		}
	}
	if calls != 5 {
		t.Errorf("%d calls: an error is kept", calls)
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = cached(ctx, &c, "p", time.Hour, func() (int, error) { panic("p") })
	}()
	if v, err := cached(ctx, &c, "p", 0, f); v != 6 || err != nil {
		t.Errorf("after a panic: %d, %v", v, err)
	}
	begun, end := make(chan struct{}), make(chan struct{})
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = cached(ctx, &c, "slow", time.Hour, func() (int, error) { close(begun); <-end; return 1, nil })
	})
	<-begun
	impatient, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := cached(impatient, &c, "slow", time.Hour, f); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that has ended waits: %v", err)
	}
	both.Go(func() {
		if v, err := cached(ctx, &c, "slow", time.Hour, f); v != 1 || err != nil {
			t.Errorf("the second caller gets %d, %v", v, err)
		}
	})
	close(end)
	both.Wait()
	for i := range 3 * most {
		_, _ = cached(ctx, &c, fmt.Sprint(i), time.Hour, f)
	}
	if len(c.entries) > most {
		t.Errorf("%d entries", len(c.entries))
	}
}

// TestWaits: what is known of waits is of the last minutes, and of a bounded number of messages.
func TestWaits(t *testing.T) {
	var w waits
	if w.of("mail", time.Now()) != nil {
		t.Error("something is known before anything was heard")
	}
	for i := range 3 * handledKept {
		e := parley.HandleEvent{Queue: "mail", Age: time.Hour}
		if i >= 2*handledKept {
			e.Age = time.Duration(i-2*handledKept+1) * time.Millisecond // 1 to 2000
		}
		if i%10 == 0 {
			e.Err = errors.New("no")
		}
		w.Handled(t.Context(), e)
	}
	got := w.of("mail", time.Now())
	if got == nil || got.N != handledKept || got.P50 != time.Second || got.P99 != 1980*time.Millisecond || got.Failed != handledKept/10 {
		t.Errorf("known is %+v", got)
	}
	if got := w.of("mail", time.Now().Add(2*lately)); got != nil {
		t.Errorf("known of old times is %+v", got)
	}
}

func TestFormats(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "–", time.Microsecond: "<1 ms", 999 * time.Millisecond: "999 ms", 9990 * time.Millisecond: "9.9 s", 59 * time.Second: "59 s",
		time.Minute: "1 min", 3599 * time.Second: "59 min 59 s", 25 * time.Hour: "1 d 1 h", -time.Minute: "−1 min"} {
		if got := age(d); got != want {
			t.Errorf("age(%v) is %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1\u202f000", 9999: "9\u202f999", 10000: "10k+"} {
		if got := number(n); got != want {
			t.Errorf("number(%d) is %q, want %q", n, got, want)
		}
	}
	if got := grouped(-1234567); got != "−1\u202f234\u202f567" {
		t.Errorf("grouped: %q", got)
	}
	sum := 0.0
	for _, p := range shares(part100{"a", 1}, part100{"b", 0}, part100{"c", 1e6}) {
		sum += p.Width
		if p.Width < 1.9 {
			t.Errorf("a piece is %g wide", p.Width)
		}
	}
	if sum < 99.9 || sum > 100.1 {
		t.Errorf("the pieces are %g wide", sum)
	}
}
