package conformance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/slow"
)

func init() {
	add(
		check{ID: "O01", Name: "several receivers handle one conversation in order", Run: checkOrdManyReceivers},
		scripted("O02", "the next message waits while one is handled", heldGroups+heldFromAll+`
					other: $send "m2" // nor when more is sent meanwhile
`+heldFromAll+`
					ack r
					other: receive SQ as rest -> "m1", "m2"
					ack rest
		`, alone),
		scripted("O03", "a rolled back message comes again first", heldGroups+`
					rollback r
					receive SQ $hold max 1 as r1 -> "m0"
					r1: once "write" new
					rollback r1
					other: receive SQ $hold max 2 as r2 -> "m0", "m1"
					rollback r2
					receive SQ $hold max 1 as r3 -> "m0"
					r3: once "write" new
					rollback r3
					other: receive SQ $hold max 2 as r4 -> "m0", "m1"
					equal r.id r1.id r2.id r3.id r4.id // a message has one ID at all its deliveries
					rollback r4
					each body: m0 | m1
						receive SQ $hold max 1 as r -> "$body"
						ack r
		`, alone),
		check{ID: "O04", Name: "conversations received together stand together", Run: checkOrdTogether},
		scripted("O05", "groups come in the order of their oldest message", `
			broker other
			each d: c0 | c1 | c2 | c3 | c4 | c5 | c6 | c7 | c8 | c9 | c10 | c11
				begin $d
			each hold: every hold
				each by, d: , c3 | other:, c8 | , c1 | other:, c6 | , c11 | other:, c4 |
					, c9 | other:, c2 | , c7 | other:, c0 | , c5 | other:, c10
					$by send $d "$d"
					pause 2ms // for stores whose clock is coarse
				send c3 "again" // later messages of an older group do not change its place
				each want: "c3", "again" | "c8" | "c1" | "c6" | "c11" | "c4" | "c9" | "c2" | "c7" | "c0" | "c5" | "c10"
					receive SQ $hold as r -> $want
					ack r
		`, alone),
		check{ID: "O05", Name: "groups whose messages came at one instant are all received", Run: checkOrdSameInstant},
		scripted("O05", "a group that keeps messages ranks by the oldest of them", `
			each hold: every hold
				each step: begin a "a0" | begin b "b0" | send a "a1" | send b "b1"
					$step
					pause 2ms
				each body: a0 | b0 | a1 | b1
					receive SQ $hold max 1 as r -> "$body"
					rollback r // which does not cost the group its place
					receive SQ $hold max 1 as r -> "$body"
					ack r
		`, alone),
		scripted("O05", "a group that was hidden keeps the place of its oldest message", `
			each hide: park r | defer r for 1h
				each clean: pause 0s | maintain markers
					each back: unpark r.group | move p to fresh
						begin d "m0"
						let p d.peer
						group fresh
						receive SQ as r -> "m0"
						$hide
						$clean
						line x
						send d "m1" // which does not make the group younger
						$back
						order SQ "m0" "x" "m1"
		`, alone),
		scripted("O06", "timer, error, messages, and the end in its place", `
			each end, want: end d.peer with 7 "x", DialogTimer, Error, Tell "m0", Tell "m1" |
				end d.peer, DialogTimer, Tell "m0", Tell "m1", EndDialog
				begin d "hello"
				take SQ -> "hello"
				send d.peer "m0"
				send d.peer "m1"
				timer d 20ms
				soon 10s:
					maintain timers
					equal d.waiting 3
				$end
				soon 10s:
					maintain timers
					equal d.waiting 4
				each hold: every hold
					receive CQ $hold as r -> $want
					rollback r
				take CQ max 1 -> $want
		`, alone),
		scripted("O07", "a receive takes at most as many as asked for, of one group", `
			each hold: every hold
				each g: a | b | c
					begin $g "$g0" "$g1" "$g2" "$g3" "$g4"
					pause 2ms
				each max, want: 1, "a0" | 2, "a1", "a2" | 3, "a3", "a4" | 4, "b0", "b1", "b2", "b3" | 100, "b4" |
					100, "c0", "c1", "c2", "c3", "c4"
					receive SQ $hold max $max as r -> $want
					ack r
				nothing SQ

				group g // of a group with several conversations
				each d: x | y | z
					begin $d group g "hello"
					send $d.peer "tell"
				drain SQ
				each count: 2 | 1
					receive CQ $hold max 2 as r
					equal r.count $count
					ack r
				drain CQ

				begin d "a" "b" "c" // the same in a transaction
				transaction t
				t: receive SQ max 2 -> "a", "b"
				commit t
				receive SQ as r -> "c"
				ack r
		`, alone),
		check{ID: "O08", Name: "a message of a receiver that crashed comes again first", Run: checkOrdCrash},
		check{ID: "O08", Name: "a message of a process that was killed comes again first", Run: checkOrdKilled},
		scripted("O10", "a busy conversation and the others of its group", `
			group g
			each d: busy | other | quiet
				begin $d group g "hello"
			drain SQ
			each hold: every hold
				each busy, rest: busy, other | quiet, busy // begun first, and last
					send $busy.peer "0" "1" "2"
					pause 2ms // for stores whose clock is coarse
					send $rest.peer "rest 0" "rest 1"
					pause 2ms
					receive CQ $hold max 2 as r -> "0", "1"
					send $busy.peer "3" "4" // it always has more than a receive takes
					ack r
					receive CQ $hold max 2 as r -> "2", "3" // of which the first is older than what waits behind
					send $busy.peer "5" "6"
					rollback r
					receive CQ $hold max 1 as r -> "2"
					ack r
					receive CQ $hold max 2 as r -> "rest 0", "rest 1"
					ack r
					receive CQ $hold max 1 as r -> "3"
					send other.peer "error" // behind those that wait
					ack r
					take CQ -> "4", "5", "6", "error"
		`, alone),
		scripted("O10", "a conversation to which a sender is always writing", `
			needs many writers
			broker second
			group g
			each d: busy | other
				begin $d group g "hello"
			drain SQ
			each hold: every hold
				each d, body: busy, 0 | other, other | busy, 1
					send $d.peer "$body"
					pause 2ms
				transaction t on second
				t: send busy.peer "2"
				receive CQ $hold max 1 as r -> "0"
				ack r // while the stream is the sender's
				receive CQ $hold max 1 as r -> "other"
				ack r
				take CQ -> "1"
				commit t
				take CQ -> "2"
		`, alone),
	)
}

func init() {
	addRole("receive and hold", roleReceiveAndHold)
	addRole("receive in a transaction", roleReceiveInTx)
}

func checkOrdManyReceivers(e *env) {
	w := invWorld(e)
	const n = 60
	for _, hold := range e.Holds() {
		h := w.Dialog()
		var mu sync.Mutex
		var handled []string
		over := make(chan struct{})
		var wg sync.WaitGroup
		for r := range 4 {
			b := invOther(w).B
			wg.Go(func() {
				for {
					select {
					case <-over:
						return
					case <-e.Ctx.Done():
						return
					default:
					}
					d, err := b.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1 + r%3, Wait: 50 * time.Millisecond})
					if errors.Is(err, parley.ErrNoMessage) {
						continue
					}
					if err != nil {
						e.Errorf("receive: %v", err)
						return
					}
					mu.Lock() // still held by the group's lock, so this is the order of handling
					handled = append(handled, bodiesOf(d.Messages)...)
					done := len(handled) >= n
					mu.Unlock()
					if err := d.Ack(e.Ctx); err != nil {
						e.Errorf("acknowledge: %v", err)
						return
					}
					if done {
						close(over)
						return
					}
				}
			})
		}
		for i := 0; i < n; {
			w.Tx(func(tx *parley.Tx) error {
				for range 1 + i%3 {
					if i == n {
						break
					}
					if err := tx.Conversation(h).Send(e.Ctx, w.Ask, fmt.Append(nil, i)); err != nil {
						return err
					}
					i++
				}
				return nil
			})
		}
		wg.Wait()
		for i, body := range handled {
			if body != fmt.Sprint(i) {
				e.Fatalf("%s: handled %q as number %d; all: %q", invHoldName(hold), body, i, handled)
			}
		}
		if len(handled) != n {
			e.Fatalf("%s: handled %d messages of %d", invHoldName(hold), len(handled), n)
		}
	}
}

func checkOrdTogether(e *env) {
	w := invWorld(e)
	group := parley.NewID()
	var peers []parley.ID
	for range 3 {
		peers = append(peers, dlgPeer(w, w.DialogWith(&parley.DialogOptions{RelatedGroup: group}, "hello")))
	}
	w.Drain(w.SQ)
	for i := range 5 {
		for c, peer := range peers {
			w.Send(peer, w.Tell, fmt.Sprint(c, " ", i))
		}
	}
	// What is received must go on where next says, each conversation in one piece.
	check := func(ms []*parley.Message, next map[string]int, what string) {
		last, seen := "", map[string]bool{}
		for _, m := range ms {
			var conv string
			var n int
			fmt.Sscan(string(m.Body), &conv, &n)
			if n != next[conv] || conv != last && seen[conv] {
				e.Fatalf("%s: after %v came %q", what, next, bodiesOf(ms))
			}
			if m.Group != group {
				e.Errorf("%s: message of group %s, want %s", what, m.Group, group)
			}
			next[conv]++
			seen[conv], last = true, conv
		}
	}
	for _, hold := range e.Holds() {
		d := w.Receive(w.CQ, &parley.ReceiveOptions{Hold: hold})
		if len(d.Messages) != 15 {
			e.Fatalf("%s: received %d messages of the group, want 15: %s", invHoldName(hold), len(d.Messages), describe(d.Messages))
		}
		check(d.Messages, map[string]int{}, invHoldName(hold))
		e.Must(d.Rollback(e.Ctx))
	}
	next, total := map[string]int{}, 0
	for range 4 {
		d := w.Receive(w.CQ, &parley.ReceiveOptions{MaxMessages: 4})
		check(d.Messages, next, "piece by piece")
		total += len(d.Messages)
		e.Must(d.Ack(e.Ctx))
	}
	if total != 15 {
		e.Errorf("piece by piece %d messages were received, want 15", total)
	}
	w.Nothing(w.CQ, nil)
}

func checkOrdSameInstant(e *env) {
	w := invWorld(e)
	const n = 40
	handles := make([]parley.ID, n)
	w.Tx(func(tx *parley.Tx) error {
		for i := range handles {
			c, err := tx.Begin(e.Ctx, w.Client, w.Server, &parley.DialogOptions{Contract: w.Contract})
			if err != nil {
				return err
			}
			handles[i] = c.Handle()
		}
		return nil
	})
	for _, hold := range e.Holds() {
		w.Dialog("before")
		time.Sleep(2 * time.Millisecond)
		w.Tx(func(tx *parley.Tx) error {
			var to []*parley.Conversation
			for _, h := range handles {
				to = append(to, tx.Conversation(h))
			}
			return tx.SendTo(e.Ctx, to, w.Ask, []byte("x"))
		})
		time.Sleep(2 * time.Millisecond)
		w.Dialog("after")

		if got := w.Take(w.SQ, nil); !slices.Equal(got, []string{"before"}) {
			e.Fatalf("%s: received %q first, want before", invHoldName(hold), got)
		}
		seen := map[parley.ID]bool{}
		var ds []*parley.Delivery
		for i := range n {
			d := w.TryReceive(w.SQ, &parley.ReceiveOptions{Hold: hold}, 0)
			if d == nil {
				e.Fatalf("%s: %d of %d groups that became ready at one instant are received", invHoldName(hold), i, n)
			}
			if got := bodiesOf(d.Messages); !slices.Equal(got, []string{"x"}) || seen[d.Group] {
				e.Fatalf("%s: as number %d of %d group %s was received, again %t, with %q", invHoldName(hold), i, n, d.Group, seen[d.Group], got)
			}
			seen[d.Group] = true
			if i%4 != 0 || len(ds) == 5 { // some stay in hand, so that the walk has to pass them
				e.Must(d.Ack(e.Ctx))
			} else {
				ds = append(ds, d)
			}
		}
		if got := w.Take(w.SQ, nil); !slices.Equal(got, []string{"after"}) {
			e.Errorf("%s: received %q last, want after", invHoldName(hold), got)
		}
		for _, d := range ds {
			e.Must(d.Ack(e.Ctx))
		}
		w.Nothing(w.SQ, nil)
	}
}

func checkOrdCrash(e *env) {
	w := invWorld(e)
	for _, hold := range e.Holds() {
		for _, take := range []int{1, 2} {
			what := fmt.Sprintf("%s, %d in hand", invHoldName(hold), take)
			h := w.Dialog("m0", "m1", "m2")
			s := invUnder(w)
			r := backend.ClaimRequest{MaxMessages: take}
			if hold == parley.HoldLease {
				r.Lease = slow.By(2 * time.Second) // and no worker extends it
			}
			if s.claim(hold, r) == nil {
				e.Fatalf("%s: nothing to claim", what)
			}
			w.Send(h, w.Ask, "m3")
			w.Nothing(w.SQ, &parley.ReceiveOptions{Conversation: dlgPeer(w, h)})
			e.Must(s.be.Close())
			var got []string
			for len(got) < 4 {
				got = append(got, w.Take(w.SQ, &parley.ReceiveOptions{MaxMessages: 3})...)
			}
			if want := []string{"m0", "m1", "m2", "m3"}; !slices.Equal(got, want) {
				e.Errorf("%s: after the crash received %q, want %q", what, got, want)
			}
		}
	}
}

// roleReceiveAndHold receives one message and holds it until it is killed.
// Arguments: queue, "transaction" or "lease".
func roleReceiveAndHold(ctx context.Context, b *parley.Broker, args []string, say func(string, ...any), hear *bufio.Scanner) error {
	o := &parley.ReceiveOptions{MaxMessages: 1, Wait: 10 * time.Second, Hold: parley.HoldTransaction}
	if args[1] == "lease" {
		o.Hold, o.Lease = parley.HoldLease, time.Second
	}
	d, err := b.Receive(ctx, args[0], o)
	if err != nil {
		return err
	}
	say("holds %s", d.Messages[0].Body)
	hear.Scan()
	return errors.New("was not killed")
}

// roleReceiveInTx takes all messages of so many groups, and records a key, in
// one transaction, in which it stays until it is killed. Arguments: queue,
// number of groups, key.
func roleReceiveInTx(ctx context.Context, b *parley.Broker, args []string, say func(string, ...any), hear *bufio.Scanner) error {
	var n int
	fmt.Sscan(args[1], &n)
	return b.InTx(ctx, func(tx *parley.Tx) error {
		for range n {
			if _, err := tx.Receive(ctx, args[0], nil); err != nil {
				return err
			}
		}
		if _, err := tx.Once(ctx, args[2]); err != nil {
			return err
		}
		say("received")
		hear.Scan()
		return errors.New("was not killed")
	})
}

func checkOrdKilled(e *env) {
	w := invWorld(e)
	ways := []string{"lease"}
	if e.ManyWriters() {
		ways = append(ways, "transaction")
	}
	for _, way := range ways {
		h := w.Dialog("m0", "m1")
		c := e.Child("receive and hold", w.SQ, way)
		if got := c.Hear(); got != "holds m0" {
			e.Fatalf("%s: the child says %q, want that it holds m0", way, got)
		}
		w.Nothing(w.SQ, &parley.ReceiveOptions{Conversation: dlgPeer(w, h)})
		c.Kill()
		d := w.TryReceive(w.SQ, nil, 15*time.Second)
		if d == nil {
			e.Fatalf("%s: the process was killed 15 s ago, and its message is not received", way)
		}
		if got := bodiesOf(d.Messages); !slices.Equal(got, []string{"m0", "m1"}) {
			e.Errorf("%s: after the process was killed received %q, want m0 and m1", way, got)
		}
		e.Must(d.Ack(e.Ctx))
	}

	// In a transaction of the RECEIVE verb, on any store.
	w.Dialog("m0", "m1")
	key := e.Name("write")
	c := e.Child("receive in a transaction", w.SQ, "1", key)
	if got := c.Hear(); got != "received" {
		e.Fatalf("the child says %q, want that it received", got)
	}
	c.Kill()
	d := w.TryReceive(w.SQ, nil, 15*time.Second)
	if d == nil {
		e.Fatalf("the process was killed 15 s ago in its transaction, and its message is not received")
	}
	if got := bodiesOf(d.Messages); !slices.Equal(got, []string{"m0", "m1"}) {
		e.Errorf("after the process was killed in its transaction received %q, want m0 and m1", got)
	}
	e.Must(d.Ack(e.Ctx))
	if invWrote(w, key) {
		e.Errorf("the write of a process that was killed before its commit is there")
	}
}
