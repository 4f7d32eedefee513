package crowd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleymq/parley/backend"
)

// rig is a crowd whose verbs are numbers, with a record of what was carried out.
type rig struct {
	Crowd[int]
	mu       sync.Mutex
	together [][]int
	alone    []int
	undone   bool          // what goes together
	fails    error         // of it
	takes    time.Duration // what goes together
	ended    int           // contexts of such
}

func newRig(room int) *rig {
	r := &rig{takes: time.Millisecond}
	r.Crowd = Crowd[int]{Room: room, Together: r.carryOut, Go: func(f func(context.Context)) bool {
		go f(context.Background())
		return true
	}}
	return r
}

func (r *rig) carryOut(ctx context.Context, verbs []int) (bool, error) {
	select {
	case <-time.After(r.takes):
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		r.ended++
		return true, ctx.Err()
	}
	if r.fails == nil {
		r.together = append(r.together, verbs)
	}
	return r.undone, r.fails
}

// do begins a verb, which takes so long by itself, and returns its result.
func (r *rig) do(ctx context.Context, verb int, subject any, takes time.Duration) <-chan error {
	result := make(chan error, 1)
	go func() {
		result <- r.Do(ctx, &Member[int]{Verb: verb, Subject: subject}, func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			time.Sleep(takes)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.alone = append(r.alone, verb)
			return nil
		})
	}()
	synctest.Wait()
	return result
}

func (r *rig) want(t *testing.T, alone []int, together ...[]int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Sort(r.alone); fmt.Sprint(r.alone, r.together) != fmt.Sprint(alone, together) {
		t.Errorf("by themselves %v, together %v; want %v, %v", r.alone, r.together, alone, together)
	}
	if r.callers != 0 || len(r.working) != 0 || len(r.written) != 0 || len(r.waiting) != 0 {
		t.Errorf("%d are called, %d at work, on %v, and %d wait, although all is over", r.callers, len(r.working), r.written, len(r.waiting))
	}
}

func all(t *testing.T, want error, results ...<-chan error) {
	t.Helper()
	for i, c := range results {
		if err := <-c; !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("verb %d: %v, want %v", i+1, err, want)
		}
	}
}

var bg = context.Background()

// full is a rig whose room is taken by the verb 0, which takes so long.
func full(takes time.Duration) (r *rig, results []<-chan error) {
	r = newRig(1)
	return r, []<-chan error{r.do(bg, 0, nil, takes)}
}

// Those for which there is no room go together, when others have ended.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(2)
		var results []<-chan error
		for i := range 7 {
			results = append(results, r.do(bg, i+1, nil, time.Duration(i+1)*time.Millisecond))
		}
		all(t, nil, results...)
		r.want(t, []int{1, 2}, []int{3, 4, 5, 6, 7})
	})
}

// A verb that is the only one to wait goes by itself.
func TestSingle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, first := full(time.Millisecond)
		all(t, nil, append(first, r.do(bg, 1, nil, time.Millisecond))...)
		r.want(t, []int{0, 1})
	})
}

// Two on one subject do not go at once, also if there is room, nor together.
func TestSubjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(2)
		results := []<-chan error{r.do(bg, 1, "a", time.Millisecond), r.do(bg, 2, "a", time.Millisecond), r.do(bg, 3, "b", 5*time.Millisecond),
			r.do(bg, 4, "a", time.Millisecond)}
		for n, subject := range []string{"c", "c", "d"} {
			results = append(results, r.do(bg, 5+n, subject, time.Millisecond))
		}
		all(t, nil, results...)
		r.want(t, []int{1, 3}, []int{2, 5, 7}, []int{4, 6})
	})
}

// Several takes part more than once, in its order.
func TestSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, results := full(time.Millisecond)
		for n := range 3 {
			over := make(chan error, 1)
			go func() {
				over <- r.Do(bg, &Member[int]{Verb: n + 1, Subject: "a", Several: true}, func() error { return nil })
			}()
			synctest.Wait()
			results = append(results, over)
		}
		all(t, nil, results...)
		r.want(t, []int{0}, []int{1, 2, 3})
	})
}

// If nothing has happened of what went together, each goes by itself.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, first := full(time.Millisecond)
		r.undone, r.fails = true, errors.New("refused")
		all(t, nil, append(first, r.do(bg, 1, "a", time.Millisecond), r.do(bg, 2, "b", time.Millisecond))...)
		r.want(t, []int{0, 1, 2})
	})
}

// If that is not known, none goes again.
func TestUncertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, first := full(time.Millisecond)
		r.fails = backend.ErrConnection
		all(t, backend.ErrConnection, r.do(bg, 1, "a", time.Millisecond), r.do(bg, 2, "b", time.Millisecond))
		all(t, nil, first...)
		r.want(t, []int{0})
	})
}

// What does not end holds nothing up, neither others nor those on its subject.
func TestStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, first := full(time.Minute)
		begun := time.Now()
		all(t, nil, r.do(bg, 1, "a", time.Minute))
		if d := time.Since(begun); d != stalled+time.Minute {
			t.Errorf("it has taken %v", d)
		}
		all(t, nil, first...)

		stuck := r.do(bg, 2, "a", time.Minute)
		begun = time.Now()
		all(t, nil, r.do(bg, 3, "a", time.Millisecond))
		if d := time.Since(begun); d != stalled+time.Millisecond {
			t.Errorf("it has waited %v", d)
		}
		all(t, nil, stuck)
		r.want(t, []int{0, 1, 2, 3})
	})
}

// What waits for a lock keeps none from work that does not want it.
func TestStuck(t *testing.T) {
	for stuck := range 4 {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(2)
			var results []<-chan error
			for i := range stuck {
				results = append(results, r.do(bg, -i, fmt.Sprint("locked ", i), time.Minute))
			}
			var done atomic.Int64
			over := time.Now().Add(10 * time.Second)
			for i := range 16 {
				result := make(chan error, 1)
				results = append(results, result)
				go func() {
					var err error
					for err == nil && time.Now().Before(over) {
						m := &Member[int]{Verb: i, Subject: fmt.Sprint("free ", i)}
						err = r.Do(bg, m, func() error { time.Sleep(time.Millisecond); return nil })
						done.Add(1)
					}
					result <- err
				}()
			}
			all(t, nil, results...)
			if n := done.Load(); n < 50_000 {
				t.Errorf("beside %d that wait for a lock, %d of the others were done in ten seconds", stuck, n)
			}
		})
	}
}

// While others end, those that are many wait for their turn.
func TestBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, results := full(time.Millisecond)
		r.takes = 15 * time.Millisecond
		for i := range 4 * most {
			results = append(results, r.do(bg, i, nil, time.Millisecond))
		}
		all(t, nil, results...)
		if len(r.alone) != 1 || len(r.together) != 4 {
			t.Errorf("%d by themselves, %d times together", len(r.alone), len(r.together))
		}
	})
}

// A caller whose context ends while it waits has done nothing. If it ends at work, the outcome is not known, and what
// no caller waits for is cancelled.
func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, first := full(10 * time.Millisecond)
		r.takes = time.Minute
		soon, cancel := context.WithTimeout(bg, 5*time.Millisecond)
		defer cancel()
		later, cancel := context.WithTimeout(bg, 15*time.Millisecond)
		defer cancel()
		early, two, three := r.do(soon, 1, "b", 0), r.do(later, 2, "c", 0), r.do(later, 3, "d", 0)
		all(t, context.DeadlineExceeded, early)
		all(t, backend.ErrConnection, two, three)
		all(t, nil, first...)
		synctest.Wait()
		r.want(t, []int{0})
		if r.ended != 1 {
			t.Errorf("%d contexts have ended", r.ended)
		}
	})
}

// A context that ends at work does not take an outcome away that comes a little later.
func TestGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, first := full(time.Millisecond)
		r.takes = 30 * time.Millisecond
		soon, cancel := context.WithTimeout(bg, 5*time.Millisecond)
		defer cancel()
		all(t, nil, append(first, r.do(soon, 1, nil, 0), r.do(soon, 2, nil, 0))...)
		r.want(t, []int{0}, []int{1, 2})
	})
}

// Where a verb takes long although nothing else is at work, more are at work at once.
func TestRoomGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(1)
		r.Server = true
		all(t, nil, r.do(bg, 0, nil, 4*busy))
		var results []<-chan error
		for i := range 12 {
			results = append(results, r.do(bg, i+1, nil, 4*busy))
		}
		all(t, nil, results...)
		r.want(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}, []int{9, 10, 11, 12})
		for range 3 { // where a trip takes less time again
			time.Sleep(2 * spell)
			all(t, nil, r.do(bg, 0, nil, busy))
		}
		if n := r.room(); n != 1 {
			t.Errorf("room for %d", n)
		}
	})
}

// A broker that is closed begins nothing in the background.
func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, first := full(time.Millisecond)
		r.Go = func(func(context.Context)) bool { return false }
		all(t, nil, append(first, r.do(bg, 1, nil, 0), r.do(bg, 2, nil, 0))...)
		r.want(t, []int{0, 1, 2})
	})
}

// A verb that is large, or inside a transaction, goes by itself at once.
func TestApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(1)
		stuck := r.do(bg, 1, nil, time.Minute)
		begun := time.Now()
		if err := r.Do(bg, &Member[int]{Size: mostSize + 1}, func() error { return nil }); err != nil {
			t.Error(err)
		}
		inside := backend.InsideWork(bg, func(context.Context) backend.Tx { return nil })
		if err := r.Do(inside, &Member[int]{}, func() error { return nil }); err != nil {
			t.Error(err)
		}
		if d := time.Since(begun); d > 0 {
			t.Errorf("they have waited %v", d)
		}
		all(t, nil, stuck)
	})
}
