package memstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
)

// stress is random load of all kinds at once on few streams, so that everything
// meets everything. Each message carries the name of its stream and its number
// in it; a message counts when its settle is committed.
type stress struct {
	*bench
	store    *Store
	handles  []backend.ID // initiators
	targets  []backend.ID
	deadline time.Time

	mu       sync.Mutex
	sent     map[string]int // committed, by stream
	settled  map[string]int // the next one expected, by stream
	problems []string

	inHand sync.Map // group → true while a receiver has it
}

func (st *stress) problem(format string, args ...any) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.problems) < 10 {
		st.problems = append(st.problems, fmt.Sprintf(format, args...))
	}
}

func runStress(t *testing.T, fault Fault, d time.Duration) *stress {
	b := newBench(t, "")
	store := b.store
	store.now, store.fault = time.Now, fault
	st := &stress{bench: b, store: store, deadline: time.Now().Add(d), sent: map[string]int{}, settled: map[string]int{}}
	for range 6 {
		from, to := b.dialog(5)
		st.handles, st.targets = append(st.handles, from), append(st.targets, to)
	}
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(st.sender)
	}
	for range 8 {
		wg.Go(st.receiver)
	}
	for range 2 {
		wg.Go(st.operator)
	}
	wg.Go(func() {
		for time.Now().Before(st.deadline) {
			if s := store.stranded(); len(s) > 0 {
				st.problem("stranded: %v", s)
			}
			time.Sleep(200 * time.Microsecond)
		}
	})
	wg.Wait()
	st.drain()
	return st
}

// sender sends to a conversation or a key, several at a time, and rolls some of
// it back.
func (st *stress) sender() {
	h := st.store.Open()
	defer func() { h.Close() }()
	for time.Now().Before(st.deadline) {
		tx, err := h.Begin(ctx)
		if err != nil {
			st.problem("begin: %v", err)
			return
		}
		var name string
		n := 1 + rand.IntN(3)
		var write func() error
		switch k := rand.IntN(3); k {
		case 0: // posts without key
			name = fmt.Sprint("alone ", backend.NewID())
			n = 1
			write = func() error {
				_, err := tx.Post(ctx, st.version, []backend.Posting{{ID: backend.NewID(), Queue: queueB, Rank: 5, Body: []byte(name + "/0")}})
				return err
			}
		default:
			// The number is chosen under the guard: read, write, remember.
			at := rand.IntN(len(st.handles))
			key := fmt.Sprint("key ", at)
			from := st.handles[at]
			name = fmt.Sprint("dialog ", at)
			if k == 1 {
				name = key
			}
			write = func() error {
				for j := range n {
					var err error
					if k == 1 {
						_, err = tx.Post(ctx, st.version, []backend.Posting{{ID: backend.NewID(), Queue: queueB, Key: key, Rank: 5, Body: []byte(name + "/" + st.number(name, j))}})
					} else {
						// An empty Send takes the guard, so that the number is ours.
						if err = tx.(*Tx).takeGuard(from); err == nil {
							_, err = tx.Send(ctx, st.version, []backend.Outgoing{{ID: backend.NewID(), From: from, Kind: backend.KindUser, Body: []byte(name + "/" + st.number(name, j))}})
						}
					}
					if err != nil {
						return err
					}
				}
				return nil
			}
			if k == 1 {
				if err := tx.(*Tx).takeGuard(keyID(queueB, key)); err != nil {
					tx.Rollback(ctx)
					continue
				}
			}
		}
		if err := write(); err != nil {
			tx.Rollback(ctx)
			if !errors.Is(err, backend.ErrSerialization) {
				st.problem("send: %v", err)
			}
			continue
		}
		if rand.IntN(3) == 0 {
			time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
		}
		switch rand.IntN(8) {
		case 0:
			tx.Rollback(ctx)
		case 1:
			h.Crash()
			h = st.store.Open()
		default:
			// Counted before the commit, while the guard is still ours.
			st.mu.Lock()
			st.sent[name] += n
			st.mu.Unlock()
			if err := tx.Commit(ctx); err != nil {
				st.problem("commit: %v", err)
			}
		}
	}
}

func (st *stress) number(name string, j int) string {
	st.mu.Lock()
	defer st.mu.Unlock()
	return fmt.Sprint(st.sent[name] + j)
}

// takeGuard locks a stream as Send does.
func (tx *Tx) takeGuard(id backend.ID) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	return tx.lock(ctx, guardLock(id))
}

// receiver claims in a transaction or by lease, and then settles, gives back,
// defers, parks, rolls back or dies.
func (st *stress) receiver() {
	h := st.store.Open()
	defer func() { h.Close() }()
	for time.Now().Before(st.deadline) {
		if st.receive(h, rand.IntN(2) == 0, true) == errDied {
			h = st.store.Open()
		}
	}
}

var errDied = errors.New("died")

func (st *stress) receive(h *Handle, lease, trouble bool) error {
	tx, err := h.Begin(ctx)
	if err != nil {
		st.problem("begin: %v", err)
		return err
	}
	defer func() { tx.Rollback(ctx) }()
	r := st.request(queueB)
	r.MaxGroups, r.MaxMessages = 1+rand.IntN(3), 1+rand.IntN(4)
	claimed := time.Now()
	if lease {
		r.Lease = 20 * time.Millisecond
		if !trouble {
			r.Lease = time.Minute
		}
	}
	c, err := tx.Claim(ctx, r)
	if err != nil {
		st.problem("claim: %v", err)
		return err
	}
	if len(c.Holds) == 0 {
		time.Sleep(100 * time.Microsecond)
		return nil
	}
	if lease {
		if err := tx.Commit(ctx); err != nil {
			st.problem("commit: %v", err)
			return err
		}
		if tx, err = h.Begin(ctx); err != nil {
			return err
		}
	} else {
		for _, hold := range c.Holds {
			if _, dup := st.inHand.LoadOrStore(hold.Group, true); dup {
				st.problem("two receivers in group %v", hold.Group)
			}
			defer st.inHand.Delete(hold.Group)
		}
	}
	if trouble {
		dawdle(lease)
	}
	act := 9
	if trouble {
		act = rand.IntN(10)
	}
	switch act {
	case 0:
		return nil // rolled back; a lease is left to expire
	case 1:
		for _, hold := range c.Holds {
			st.inHand.Delete(hold.Group) // before the locks are gone, so that the check is fair
		}
		h.Crash()
		return errDied
	}
	outcomes := decide(act, c.Holds)
	if _, err := tx.Settle(ctx, outcomes); err != nil {
		if held := time.Since(claimed); !errors.Is(err, backend.ErrFenced) || !lease || held < r.Lease {
			st.problem("settle (lease %v) after %v: %v", r.Lease, held, err)
		}
		return nil
	}
	// Who settles has the groups for sure, until the commit.
	for _, o := range outcomes {
		for _, m := range o.Done {
			st.receipt(string(m.Body))
		}
	}
	for _, hold := range c.Holds {
		st.inHand.Delete(hold.Group)
	}
	if err := tx.Commit(ctx); err != nil {
		st.problem("commit: %v", err)
	}
	return nil
}

// dawdle lets a moment pass, and now and then more than a lease.
func dawdle(lease bool) {
	if rand.IntN(4) == 0 {
		time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
	}
	if rand.IntN(30) == 0 && lease {
		time.Sleep(25 * time.Millisecond)
	}
}

// decide is what becomes of deliveries by an act: put off, parked, failed or, by most, handled.
func decide(act int, holds []*backend.Hold) (outcomes []backend.Outcome) {
	for _, hold := range holds {
		o := backend.Outcome{Hold: hold, Done: hold.Messages}
		switch act {
		case 2:
			o.Done, o.Defer = hold.Messages[:len(hold.Messages)-1], time.Millisecond
		case 3:
			o.Done, o.Park = nil, "trouble"
		case 4:
			o.Done, o.Failure = nil, &backend.Failure{Message: hold.Messages[0], Attempts: hold.Messages[0].Attempts + 1}
		}
		outcomes = append(outcomes, o)
	}
	return outcomes
}

// receipt checks that a message is the next one of its stream.
func (st *stress) receipt(body string) {
	var name string
	var n int
	for i := len(body) - 1; i >= 0; i-- {
		if body[i] == '/' {
			name = body[:i]
			fmt.Sscan(body[i+1:], &n)
			break
		}
	}
	st.mu.Lock()
	want := st.settled[name]
	st.settled[name] = n + 1
	st.mu.Unlock()
	if n != want {
		st.problem("%s: received %d, want %d", name, n, want)
	}
}

// operator promotes, moves, unparks and does the maintenance jobs.
func (st *stress) operator() {
	h := st.store.Open()
	defer h.Close()
	for time.Now().Before(st.deadline) {
		at := rand.IntN(len(st.targets))
		tx, _ := h.Begin(ctx)
		switch rand.IntN(4) {
		case 0:
			tx.Promote(ctx, backend.Promotion{Group: keyID(queueB, fmt.Sprint("key ", at)), Level: rand.IntN(256), Sticky: rand.IntN(2) == 0})
			if e, err := tx.Endpoint(ctx, st.targets[at]); err == nil {
				tx.Promote(ctx, backend.Promotion{Group: e.Group})
			}
		case 1:
			if e, err := tx.Endpoint(ctx, st.targets[at]); err == nil && tx.LockGroup(ctx, e.Group) == nil {
				// It may have moved before it was locked.
				if e, err = tx.Endpoint(ctx, st.targets[at]); err == nil {
					err = tx.Move(ctx, e.Handle, backend.NewID(), true)
				}
				if err != nil && !errors.Is(err, backend.ErrStreamBusy) && !errors.Is(err, backend.ErrGroupBusy) {
					st.problem("move: %v", err)
				}
			}
		case 2:
			if e, err := tx.Endpoint(ctx, st.targets[at]); err == nil {
				tx.Unpark(ctx, e.Group)
			}
			tx.Unpark(ctx, keyID(queueB, fmt.Sprint("key ", at)))
		case 3:
			for d := range backend.JobCount {
				if _, err := h.Maintain(ctx, backend.Job(d), 50); err != nil {
					st.problem("%v: %v", backend.Job(d), err)
				}
			}
			for _, p := range st.parked(h) {
				tx.Unpark(ctx, p)
			}
		}
		if rand.IntN(5) == 0 {
			tx.Rollback(ctx)
		} else {
			tx.Commit(ctx)
		}
		time.Sleep(time.Duration(rand.IntN(500)) * time.Microsecond)
	}
}

func (st *stress) parked(h *Handle) (ids []backend.ID) {
	groups, err := h.Groups(ctx, backend.GroupQuery{Queue: queueB, Limit: 1000})
	if err != nil {
		st.problem("groups: %v", err)
	}
	for _, g := range groups {
		if g.State == "parked" {
			ids = append(ids, g.Group)
		}
	}
	return ids
}

// drain receives what is left and checks that all of it came.
func (st *stress) drain() {
	h := st.store.Open()
	defer h.Close()
	end := time.Now().Add(10 * time.Second)
	for time.Now().Before(end) {
		tx, _ := h.Begin(ctx)
		for _, id := range st.parked(h) {
			tx.Unpark(ctx, id)
		}
		tx.Commit(ctx)
		for d := range backend.JobCount {
			h.Maintain(ctx, backend.Job(d), 1000)
		}
		st.receive(h, false, false)
		if left, _ := h.Groups(ctx, backend.GroupQuery{Queue: queueB, Limit: 10}); len(left) == 0 {
			break
		}
	}
	for name, n := range st.sent {
		if st.settled[name] != n {
			st.problem("%s: sent %d, received %d", name, n, st.settled[name])
		}
	}
}

func TestStress(t *testing.T) {
	d := 4 * time.Second
	if testing.Short() {
		d = time.Second
	}
	st := runStress(t, "", d)
	for _, p := range st.problems {
		t.Error(p)
	}
	total := 0
	for _, n := range st.sent {
		total += n
	}
	t.Logf("%d messages in %d streams", total, len(st.sent))
	if total == 0 {
		t.Error("nothing was sent")
	}
}

// TestStressFinds makes the mistakes that only show under load, and some that
// show everywhere: a stress that finds none of them proves nothing.
func TestStressFinds(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second for each fault")
	}
	for _, fault := range []Fault{
		FaultTwoReceivers, FaultOldLook, FaultFinishUnguarded, FaultStateBeforeLock, FaultMarksFirstOnly,
		FaultRetryOvertaken, FaultRollbackReorders, FaultSkipsMessage, FaultLatestOfMany, FaultSettleFrees,
		FaultMoveLoses, FaultPostsUnlocked,
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			for range 10 {
				if st := runStress(t, fault, time.Second); len(st.problems) > 0 {
					t.Log(st.problems[0])
					return
				}
			}
			t.Error("not found")
		})
	}
}
