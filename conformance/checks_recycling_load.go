package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/slow"
)

func init() {
	add(
		check{ID: "C03", Name: "renewed every 10 ms under load", Run: checkNothingAfterEndOfStream},
		check{ID: "C04", Name: "no error under load", Run: checkNoErrorUnderLoad},
		check{ID: "C04", Name: "a sender beside the process that serves its dialogs", Run: checkSenderBesideServer},
		check{ID: "C07", Name: "one key under load", Run: checkOrderUnderLoad},
	)
}

// recLoad is the result of senders that sent, for a while, on dialogs that were
// renewed all the time.
type recLoad struct {
	w       *world
	senders []*parley.Sender
	brokers []*parley.Broker

	mu     sync.Mutex
	sent   map[string]bool // committed
	errs   []error
	got    map[string]int
	late   []string // received after EndOfStream
	ended  map[parley.ID]bool
	byKey  map[string][]int
	counts [2]atomic.Int64 // transactions in each half of the time
}

// recHammer lets senders of two processes send by keys and without, renewing
// their dialogs every 10 ms, and receives all.
func recHammer(e *env, ordered bool, keys int, d time.Duration) *recLoad {
	w := e.World(recCatalog(ordered))
	l := &recLoad{w: w, sent: map[string]bool{}, got: map[string]int{}, ended: map[parley.ID]bool{}, byKey: map[string][]int{}}
	l.brokers = []*parley.Broker{w.B, e.Broker(nil)}
	for i, b := range l.brokers {
		l.senders = append(l.senders, recSender(w, b, parley.SenderOptions{MaxAge: 10 * time.Millisecond, MaxMessages: []int{0, 40}[i]}))
	}
	var sending, receiving sync.WaitGroup
	stopReceiving := make(chan struct{})
	begun := time.Now()
	for i := range keys {
		key := fmt.Sprint("k", i)
		sending.Go(func() {
			for n := 0; l.more(begun, d); n++ {
				at := (i + n) % len(l.brokers)
				l.send(at, l.senders[at].Key(key), fmt.Sprint(key, " ", n), time.Since(begun) > d/2)
			}
		})
		if !ordered {
			sending.Go(func() { // without key, and the same key as another goroutine
				for n := 0; l.more(begun, d); n++ {
					at := (i + n) % len(l.brokers)
					s, from := l.senders[at], "none"
					if n%3 == 0 {
						s, from = s.Key(fmt.Sprint("k", (i+1)%keys)), "other"
					}
					l.send(at, s, fmt.Sprint(from, i, " ", n), time.Since(begun) > d/2)
				}
			})
		}
	}
	for i := range 3 {
		receiving.Go(func() { l.receive(l.brokers[i%2], stopReceiving) })
	}
	sending.Wait()
	// All that was sent comes, or nothing new for a long time.
	last, at := 0, time.Now()
	for e.Ctx.Err() == nil {
		l.mu.Lock()
		n, missing := len(l.got), 0
		for body := range l.sent {
			if l.got[body] == 0 {
				missing++
			}
		}
		l.mu.Unlock()
		if n != last {
			last, at = n, time.Now()
		}
		if missing == 0 || time.Since(at) > slow.By(15*time.Second) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond) // for what comes twice
	close(stopReceiving)
	receiving.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Logf("%d messages sent and %d received on %d conversations that ended", len(l.sent), len(l.got), len(l.ended))
	return l
}

// more reports whether to go on sending: for the time, and on a busy machine
// until enough dialogs were renewed.
func (l *recLoad) more(begun time.Time, d time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	passed := time.Since(begun)
	return l.w.Ctx.Err() == nil && (passed < d || passed < slow.By(20*time.Second) && len(l.ended) < recEnough)
}

func (l *recLoad) send(at int, s *parley.Sender, body string, second bool) {
	err := recSend(l.w, l.brokers[at], s, body)
	half := 0
	if second {
		half = 1
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.errs = append(l.errs, err)
		return
	}
	l.sent[body] = true
	l.counts[half].Add(1)
}

func (l *recLoad) receive(b *parley.Broker, stop <-chan struct{}) {
	ctx := l.w.Ctx
	for {
		select {
		case <-stop:
			return
		default:
		}
		d, err := b.Receive(ctx, l.w.SQ, &parley.ReceiveOptions{Wait: 50 * time.Millisecond, MaxMessages: 20})
		if errors.Is(err, parley.ErrNoMessage) {
			continue
		}
		if err != nil {
			l.w.Errorf("receive: %v", err)
			return
		}
		for _, m := range d.Messages {
			if m.Type == parley.EndOfStream && err == nil {
				err = m.End(ctx)
			}
		}
		if err == nil {
			// What is in order is noted while the group is held.
			l.note(d.Messages)
			err = d.Ack(ctx)
		}
		if err != nil {
			l.w.Errorf("receive: %v", err)
			d.Close()
			return
		}
	}
}

func (l *recLoad) note(ms []*parley.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range ms {
		body := string(m.Body)
		if l.ended[m.ConversationID] {
			l.late = append(l.late, body)
		}
		if m.Type == parley.EndOfStream {
			l.ended[m.ConversationID] = true
			continue
		}
		l.got[body]++
		if key, n, ok := strings.Cut(body, " "); ok {
			var i int
			fmt.Sscan(n, &i)
			l.byKey[key] = append(l.byKey[key], i)
		}
	}
}

func checkNothingAfterEndOfStream(e *env) {
	l := recHammer(e, false, 4, 2*time.Second)
	if len(l.late) > 0 {
		e.Errorf("%d messages came after EndOfStream, among them %q", len(l.late), l.late[:min(3, len(l.late))])
	}
	var lost, twice []string
	for body := range l.sent {
		switch n := l.got[body]; {
		case n == 0:
			lost = append(lost, body)
		case n > 1:
			twice = append(twice, body)
		}
	}
	if len(lost) > 0 || len(twice) > 0 {
		e.Errorf("of %d messages %d were lost, among them %q, and %d came twice, among them %q",
			len(l.sent), len(lost), lost[:min(5, len(lost))], len(twice), twice[:min(5, len(twice))])
	}
	if len(l.ended) < recEnough {
		e.Errorf("only %d dialogs were renewed", len(l.ended))
	}
}

func checkNoErrorUnderLoad(e *env) {
	l := recHammer(e, false, 4, 2*time.Second)
	for i, err := range l.errs {
		if i < 3 {
			e.Errorf("a sender got: %v", err)
		}
	}
	if first, second := l.counts[0].Load(), l.counts[1].Load(); first == 0 || second == 0 {
		e.Errorf("%d messages were sent in the first half of the time, %d in the second", first, second)
	}
	if len(l.errs) > 3 {
		e.Errorf("%d errors in all, and %d messages sent", len(l.errs), len(l.sent))
	}
}

// checkSenderBesideServer: a process that renews or ends a dialog holds its group. Neither the next
// message nor the EndOfStream behind it waits for that group.
func checkSenderBesideServer(e *env) {
	if !e.ManyWriters() {
		e.Skipf("this store has a single writer, for which all others wait")
	}
	w := e.World(recCatalog(false))
	s := recSender(w, w.B, parley.SenderOptions{MaxMessages: 3}).Key("k")
	recMust(w, w.B, s, "1")
	got, _ := recUntil(w, 1)
	ep, err := w.B.Admin().Conversations(w.Ctx, parley.ConversationQuery{Handle: dlgPeer(w, got[0].Conversation)})
	e.Must(err)
	i := slices.IndexFunc(ep, func(c parley.ConversationStatus) bool { return c.Initiator })
	if i < 0 {
		e.Fatalf("the dialog is not there")
	}
	tx, err := w.Handle().Begin(e.Ctx)
	e.Must(err)
	defer tx.Rollback(e.Ctx)
	e.Must(tx.LockGroup(e.Ctx, ep[i].Group))
	for _, body := range []string{"2", "3"} { // the third is followed by EndOfStream
		e.Must(dlgGo(e, "send "+body+" while another transaction has the group of the sender's side", func() error {
			return recSend(w, w.B, s, body)
		})())
	}
}

func checkOrderUnderLoad(e *env) {
	l := recHammer(e, true, 3, 1500*time.Millisecond)
	for i, err := range l.errs {
		if i < 3 {
			e.Errorf("a sender got: %v", err)
		}
	}
	for key, numbers := range l.byKey {
		for i, n := range numbers {
			if i != n {
				e.Errorf("key %s: after %d messages came number %d: %v", key, i, n, numbers[max(i-3, 0):min(i+4, len(numbers))])
				break
			}
		}
	}
	if len(l.got) != len(l.sent) {
		e.Errorf("%d messages were sent, %d received", len(l.sent), len(l.got))
	}
	if len(l.ended) < recEnough {
		e.Errorf("only %d dialogs were renewed", len(l.ended))
	}
}
