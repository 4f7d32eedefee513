package conformance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		Check{ID: "C01", Name: "one conversation per key, in every process", Run: checkOneDialogPerKey},
		Check{ID: "C01", Name: "transactions with different keys, and without", Run: checkSendersApart},
		Check{ID: "C02", Name: "renewed by age", Run: checkRenewedByAge},
		Check{ID: "C02", Name: "renewed by number", Run: checkRenewedByNumber},
		Check{ID: "C02", Name: "renewed by Close", Run: checkRenewedByClose},
		Check{ID: "C03", Name: "renewed every 10 ms under load", Run: checkNothingAfterEndOfStream},
		Check{ID: "C04", Name: "no error under load", Run: checkNoErrorUnderLoad},
		Check{ID: "C05", Name: "dialogs that are of no use", Run: checkDeadDialogReplaced},
		Check{ID: "C05", Name: "ten dialogs that take nothing", Run: checkTenDialogs},
		Check{ID: "C06", Name: "errors that say nothing against the messages", Run: checkResent},
		Check{ID: "C06", Name: "errors that do", Run: func(e *Env) { checkNotResent(e, "") }},
		Check{ID: "C06", Name: "errors that do, by key", Run: func(e *Env) { checkNotResent(e, "k") }},
		Check{ID: "C07", Name: "one dialog after the other", Run: checkDialogsInOrder},
		Check{ID: "C07", Name: "the end of a target, while its dialog is locked", Run: checkEndBesideLock},
		Check{ID: "C07", Name: "one key under load", Run: checkOrderUnderLoad},
		Check{ID: "C08", Name: "the broker of the sender was closed", Run: checkSenderClosed},
		Check{ID: "C08", Name: "the process of the sender was killed", Run: checkSenderKilled},
	)
	addRole("sender", recChild)
}

// recCatalog makes Client of a world send to Server by a Sender.
func recCatalog(ordered bool) func(*parley.Catalog) {
	return func(c *parley.Catalog) {
		c.Contracts[0].Messages = c.Contracts[0].Messages[:1] // what the initiator sends
		c.Services[0].Recycles = []parley.Recycle{{Contract: c.Contracts[0].Name, Ordered: ordered}}
	}
}

// recSender makes a Sender of a world on a broker.
func recSender(w *World, b *parley.Broker, o parley.SenderOptions) *parley.Sender {
	o.From, o.To, o.Contract = w.Client, w.Server, w.Contract
	s, err := b.NewSender(w.Ctx, o)
	if err != nil {
		dlgFatal(w.Env, "new sender: %v", err)
	}
	return s
}

// recSend sends one message in a transaction of its own.
func recSend(w *World, b *parley.Broker, s *parley.Sender, body string) error {
	return b.InTx(w.Ctx, func(tx *parley.Tx) error {
		return s.Send(w.Ctx, tx, parley.Payload{Type: w.Ask, Body: []byte(body)})
	})
}

// recMust is recSend for one that must not fail.
func recMust(w *World, b *parley.Broker, s *parley.Sender, bodies ...string) {
	for _, body := range bodies {
		if err := recSend(w, b, s, body); err != nil {
			dlgFatal(w.Env, "send %q: %v", body, err)
		}
	}
}

// recTake receives as a target does: it takes one delivery and ends the
// conversation when EndOfStream comes. Nil: there was none within the wait.
func recTake(w *World, wait time.Duration) []*parley.Message {
	d := w.TryReceive(w.SQ, nil, wait)
	if d == nil {
		return nil
	}
	for _, m := range d.Messages {
		if m.Type == parley.EndOfStream {
			w.Must(m.End(w.Ctx))
		}
	}
	w.Must(d.Ack(w.Ctx))
	return d.Messages
}

// recUntil receives until there are n messages besides EndOfStream, and returns
// them and the conversations in which it came.
func recUntil(w *World, n int) (got []*parley.Message, ended []parley.ID) {
	for len(got) < n {
		ms := recTake(w, 10*time.Second)
		if ms == nil {
			dlgFatal(w.Env, "received %s, want %d messages", describe(got), n)
		}
		for _, m := range ms {
			if m.Type == parley.EndOfStream {
				ended = append(ended, m.ConversationID)
			} else {
				got = append(got, m)
			}
		}
	}
	if len(got) > n {
		dlgFatal(w.Env, "received %s, want %d messages", describe(got), n)
	}
	return got, ended
}

// recGone ends the check unless all conversations of the world's queues are over
// soon. What comes meanwhile is received as a target does, and may be
// EndOfStream only.
func recGone(w *World, handles ...parley.ID) {
	left := ""
	ok := w.Soon(10*time.Second, func() bool {
		for _, m := range recTake(w, 0) {
			if m.Type != parley.EndOfStream {
				dlgFatal(w.Env, "received %s after all messages", describe([]*parley.Message{m}))
			}
		}
		left = ""
		for _, h := range handles {
			list, err := w.B.Conversations(w.Ctx, parley.ConversationQuery{Handle: h})
			w.Must(err)
			for _, c := range list {
				left += fmt.Sprintf(" %s (%s)", c.Handle, c.State)
			}
		}
		return left == ""
	})
	if !ok {
		dlgFatal(w.Env, "conversations are left:%s", left)
	}
}

func handlesOf(ms []*parley.Message) (handles []parley.ID) {
	for _, m := range ms {
		if !slices.Contains(handles, m.Conversation) {
			handles = append(handles, m.Conversation)
		}
	}
	return handles
}

func checkOneDialogPerKey(e *Env) {
	w := e.World(recCatalog(false))
	other := e.Broker(nil)
	one, two := recSender(w, w.B, parley.SenderOptions{}), recSender(w, other, parley.SenderOptions{})
	for i := range 4 {
		for _, key := range []string{"a", "b", ""} {
			recMust(w, w.B, one.Key(key), fmt.Sprint(key, 2*i))
			recMust(w, other, two.Key(key), fmt.Sprint(key, 2*i+1))
		}
		recMust(w, w.B, one, fmt.Sprint("none", i))
	}
	got, ended := recUntil(w, 28)
	convs := map[string]parley.ID{} // by key
	next := map[string]int{}
	for _, m := range got {
		key := strings.TrimRight(string(m.Body), "0123456789")
		if c, ok := convs[key]; ok && c != m.ConversationID {
			e.Fatalf("messages with key %q came on the conversations %s and %s", key, c, m.ConversationID)
		}
		convs[key] = m.ConversationID
		if want := fmt.Sprint(key, next[key]); string(m.Body) != want {
			e.Errorf("received %s, want %s", m.Body, want)
		}
		next[key]++
	}
	if len(handlesOf(got)) != 4 || len(ended) > 0 {
		e.Errorf("%d conversations for three keys and none, want 4; %d of them ended", len(handlesOf(got)), len(ended))
	}
}

func checkSendersApart(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("this store has a single writer, for which all others wait")
	}
	w := e.World(recCatalog(true))
	s := recSender(w, w.B, parley.SenderOptions{})
	send := func(tx *parley.Tx, s *parley.Sender, body string) error {
		return s.Send(e.Ctx, tx, parley.Payload{Type: w.Ask, Body: []byte(body)})
	}
	// Once with dialogs that are begun, and once with those that there are.
	for round := range 2 {
		w.Tx(func(tx *parley.Tx) error {
			if err := errors.Join(send(tx, s, "outer"), send(tx, s.Key("outer"), "outer"), send(tx, s, "outer")); err != nil {
				return err
			}
			return dlgGo(e, "another transaction, while one is open", func() error {
				return w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
					return errors.Join(send(tx, s, "inner"), send(tx, s.Key("inner"), "inner"))
				})
			})()
		})
		got, _ := recUntil(w, 5)
		if n := len(handlesOf(got)); n != 4 {
			e.Errorf("round %d: two transactions, each with a key and without, used %d conversations, want 4", round, n)
		}
	}
	// Two begin the dialog of a key at the same time: one of them finds the other's.
	var second func() error
	w.Tx(func(tx *parley.Tx) error {
		if err := send(tx, s.Key("both"), "first"); err != nil {
			return err
		}
		second = dlgGo(e, "a transaction with the same key", func() error { return recSend(w, w.B, s.Key("both"), "second") })
		time.Sleep(100 * time.Millisecond) // it meets the group that is being made
		return nil
	})
	e.Must(second())
	both, _ := recUntil(w, 2)
	dlgSame(e, "received", Bodies(both), []string{"first", "second"})
	if len(handlesOf(both)) != 1 {
		e.Errorf("two messages of a key came on %d conversations", len(handlesOf(both)))
	}
	// A key waits for itself, and loses nothing when the first gives up.
	stop := errors.New("stop")
	started := make(chan struct{})
	var wait func() error
	e.Is(w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
		if err := send(tx, s.Key("new"), "undone"); err != nil {
			return err
		}
		wait = dlgGo(e, "a transaction with the same key", func() error {
			close(started)
			return recSend(w, w.B, s.Key("new"), "done")
		})
		<-started
		time.Sleep(50 * time.Millisecond)
		return stop
	}), stop)
	e.Must(wait())
	recMust(w, w.B, s.Key("new"), "next")
	got, _ := recUntil(w, 2)
	dlgSame(e, "received", Bodies(got), []string{"done", "next"})
	if len(handlesOf(got)) != 1 {
		e.Errorf("two messages of a key came on %d conversations", len(handlesOf(got)))
	}
}

func checkRenewedByAge(e *Env) {
	w := e.World(recCatalog(false))
	s := recSender(w, w.B, parley.SenderOptions{MaxAge: 150 * time.Millisecond})
	begun := time.Now()
	recMust(w, w.B, s, "1", "2")
	recMust(w, w.B, s.Key("k"), "k")
	got, ended := recUntil(w, 3)
	old := handlesOf(got)
	if len(old) != 2 {
		e.Fatalf("a key and none used %d conversations, want 2", len(old))
	}
	for len(ended) < 2 {
		ms := recTake(w, 10*time.Second)
		if len(ms) == 0 || ms[0].Type != parley.EndOfStream || ms[0].Body != nil {
			e.Fatalf("received %s, want EndOfStream without a body on two conversations", describe(ms))
		}
		ended = append(ended, ms[0].ConversationID)
	}
	if passed := time.Since(begun); passed < 150*time.Millisecond-tmrEarly {
		e.Errorf("the dialogs were to be used for 150 ms and were over after %v", passed)
	}
	recGone(w, old...)
	recMust(w, w.B, s, "3")
	recMust(w, w.B, s.Key("k"), "4")
	got, _ = recUntil(w, 2)
	for _, h := range handlesOf(got) {
		if slices.Contains(old, h) {
			e.Errorf("conversation %s was used again", h)
		}
	}
	recGone(w, handlesOf(got)...)
	dlgQuiet(w, w.SQ)
}

func checkRenewedByNumber(e *Env) {
	w := e.World(recCatalog(false))
	s := recSender(w, w.B, parley.SenderOptions{MaxMessages: 3})
	for _, s := range []*parley.Sender{s, s.Key("k")} {
		var got []*parley.Message
		recMust(w, w.B, s, "1", "2", "3", "4", "5", "6", "7")
		for len(got) < 9 {
			ms := recTake(w, 10*time.Second)
			if ms == nil {
				e.Fatalf("received %s, want seven messages and two times EndOfStream", describe(got))
			}
			got = append(got, ms...)
		}
		convs := map[parley.ID][]string{}
		for _, m := range got {
			body := string(m.Body)
			if m.Type == parley.EndOfStream {
				body = "end"
			}
			convs[m.ConversationID] = append(convs[m.ConversationID], body)
		}
		var all []string
		for _, bodies := range convs {
			all = append(all, strings.Join(bodies, " "))
		}
		slices.Sort(all)
		dlgSame(e, "the conversations", all, []string{"1 2 3 end", "4 5 6 end", "7"})
		var over []parley.ID
		for _, m := range got {
			if m.Type == parley.EndOfStream {
				over = append(over, m.Conversation)
			}
		}
		recGone(w, over...)
	}
}

func checkRenewedByClose(e *Env) {
	w := e.World(recCatalog(false))
	s := recSender(w, w.B, parley.SenderOptions{})
	recMust(w, w.B, s, "1")
	e.Must(s.Close(e.Ctx))
	e.Must(s.Close(e.Ctx))
	got, _ := recUntil(w, 1)
	recGone(w, handlesOf(got)...)
	recMust(w, w.B, s, "2")
	again, _ := recUntil(w, 1)
	if again[0].Conversation == got[0].Conversation {
		e.Errorf("the conversation was used again after Close")
	}
}

// recLoad is what became of senders that sent, for a while, on dialogs that were
// renewed all the time.
type recLoad struct {
	w       *World
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
func recHammer(e *Env, ordered bool, keys int, d time.Duration) *recLoad {
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
		if missing == 0 || time.Since(at) > 8*time.Second {
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
	return l.w.Ctx.Err() == nil && (passed < d || passed < 20*time.Second && len(l.ended) < recEnough)
}

// recEnough is how many dialogs have to be renewed for a load to say something.
const recEnough = 12

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

func checkNothingAfterEndOfStream(e *Env) {
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

func checkNoErrorUnderLoad(e *Env) {
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

func checkDeadDialogReplaced(e *Env) {
	w := e.World(recCatalog(false))
	s := recSender(w, w.B, parley.SenderOptions{})
	for _, death := range []struct {
		how string
		do  func(client, server parley.ID)
	}{
		{"ended with an error by the target", func(_, server parley.ID) { dlgEndError(w, server, 17, "no more") }},
		{"ended by the target", func(_, server parley.ID) { dlgEnd(w, server) }},
		{"cleaned up at the target", func(_, server parley.ID) { dlgCleanup(w, server) }},
		{"ended by this side", func(client, _ parley.ID) { dlgEnd(w, client) }},
		{"gone", func(client, server parley.ID) { dlgCleanup(w, server); dlgCleanup(w, client) }},
	} {
		for _, s := range []*parley.Sender{s, s.Key("k")} {
			recMust(w, w.B, s, "first")
			first, _ := recUntil(w, 1)
			server := first[0].Conversation
			client := dlgPeer(w, server)
			death.do(client, server)
			recMust(w, w.B, s, "second", "third")
			// A dialog that this side ended brings the target an EndDialog.
			var got []*parley.Message
			for len(got) < 2 {
				ms := recTake(w, 5*time.Second)
				if ms == nil {
					e.Fatalf("%s: received %s, want the two messages that were sent afterwards", death.how, describe(got))
				}
				for _, m := range ms {
					if m.Type == w.Ask {
						got = append(got, m)
					}
				}
			}
			dlgSame(e, death.how+": received", Bodies(got), []string{"second", "third"})
			if hs := handlesOf(got); len(hs) != 1 || hs[0] == server {
				e.Errorf("%s: the messages came on %v, want one new conversation and not %s", death.how, hs, server)
			}
			// The next round begins with a new one.
			dlgEnd(w, got[0].Conversation)
			w.Drain(w.SQ)
		}
	}
}

// recCounter counts the dialogs that a broker begins.
type recCounter struct {
	backend.Backend
	begun atomic.Int64
}

type recCounterTx struct {
	backend.Tx
	n *atomic.Int64
}

func (c *recCounter) Begin(ctx context.Context) (backend.Tx, error) {
	tx, err := c.Backend.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &recCounterTx{tx, &c.begun}, nil
}

func (c *recCounterTx) BeginDialog(ctx context.Context, version int64, d backend.NewDialog) error {
	c.n.Add(1)
	return c.Tx.BeginDialog(ctx, version, d)
}

// recLog collects what is logged.
type recLog struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
}

func newRecLog() *recLog { return &recLog{Handler: slog.DiscardHandler} }

func (l *recLog) Enabled(context.Context, slog.Level) bool { return true }

func (l *recLog) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool { line += fmt.Sprintf(" %s=%v", a.Key, a.Value); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

// with returns the lines that have all the parts.
func (l *recLog) with(parts ...string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) }) {
			found = append(found, line)
		}
	}
	return found
}

func checkTenDialogs(e *Env) {
	log := newRecLog()
	be := &recCounter{Backend: e.Handle()}
	b, err := parley.New(e.Ctx, be, &parley.Options{Logger: slog.New(log)})
	e.Must(err)
	defer b.Close()
	w := e.WorldOn(b, recCatalog(false), func(c *parley.Catalog) { c.Services[1].Contracts = nil })
	s := recSender(w, b, parley.SenderOptions{})
	for i, s := range []*parley.Sender{s, s.Key("k")} {
		be.begun.Store(0)
		e.Must(b.InTx(e.Ctx, func(tx *parley.Tx) error {
			err := s.Send(e.Ctx, tx, parley.Payload{Type: w.Ask})
			dlgNames(e, "send to a service that does not take the contract", err, parley.ErrSenderFailed, w.Server)
			return nil // the transaction goes on
		}))
		if n := be.begun.Load(); n != 10 {
			e.Errorf("%d dialogs were tried, want 10", n)
		}
		if lines := log.with("ERROR", "event=sender.failed", w.Server); len(lines) != i+1 {
			e.Errorf("%d times was it logged that a sender failed, want %d: %q", len(lines), i+1, lines)
		}
	}
	list, err := b.Conversations(e.Ctx, parley.ConversationQuery{Limit: backend.CountLimit})
	e.Must(err)
	for _, c := range list {
		if c.Service == w.Client {
			e.Errorf("conversation %s was left behind", c.Handle)
		}
	}
	// Once the service takes it, the same senders go on.
	e.Must(b.Define(e.Ctx, parley.Catalog{Services: []parley.Service{{Name: w.Server, Queue: w.SQ, Contracts: []string{w.Contract}}}}))
	recMust(w, b, s, "1")
	recMust(w, b, s.Key("k"), "2")
	recUntil(w, 2)
}

// recFail gives one side of a conversation an error of the broker's.
func recFail(w *World, h parley.ID, code int) {
	tx, err := w.Handle().Begin(w.Ctx)
	w.Must(err)
	defer tx.Rollback(w.Ctx)
	w.Must(tx.Notice(w.Ctx, backend.Notice{To: h, Kind: backend.KindError, Error: &backend.DialogError{Code: code, Text: "made by the check"}}))
	w.Must(tx.Commit(w.Ctx))
}

// recPending makes a world whose target has one message of a dialog and whose
// sender has three more that it cannot deliver. It returns both handles of the
// dialog.
func recPending(e *Env, log *recLog, key string) (w *World, s *parley.Sender, client, server parley.ID) {
	e.r.forget() // a broker that is open serves every Sender's dialogs, and this one is to log it
	b := e.Broker(&parley.Options{Logger: slog.New(log)})
	w = e.WorldOn(b, recCatalog(true))
	s = recSender(w, b, parley.SenderOptions{})
	if key != "" {
		s = s.Key(key)
	}
	recMust(w, b, s, "0")
	got, _ := recUntil(w, 1)
	server = got[0].Conversation
	client = dlgPeer(w, server)
	e.Must(b.DisableQueue(e.Ctx, w.SQ))
	recMust(w, b, s, "1", "2", "3")
	if held := dlgWithheld(w, client); held == nil || held.Count != 3 {
		e.Fatalf("%+v is withheld, want three messages", held)
	}
	return w, s, client, server
}

// recDead returns the bodies of the dead letters that Server should have got.
func recDead(w *World) (bodies []string) {
	dead, err := w.B.DeadLetters(w.Ctx, "", 1000)
	w.Must(err)
	for _, d := range dead {
		if d.Message.Service == w.Server {
			bodies = append(bodies, string(d.Message.Body))
		}
	}
	slices.Sort(bodies)
	return bodies
}

func checkResent(e *Env) {
	for i, code := range []int{parley.CodeLifetime, parley.CodeRemoteClosed, parley.CodeRestored, parley.CodeKeyChanged} {
		log := newRecLog()
		key := []string{"", "k"}[i%2]
		w, s, client, server := recPending(e, log, key)
		recFail(w, client, code)
		if !e.Soon(10*time.Second, func() bool { return len(log.with("event=recycle.error", fmt.Sprint("code=", code), "resent=3")) > 0 }) {
			e.Fatalf("code %d: it was not logged that three messages were sent again: %q", code, log.with(""))
		}
		dlgEnd(w, server) // which the error of the other side does not end
		recMust(w, w.B, s, "4")
		e.Must(w.B.EnableQueue(e.Ctx, w.SQ))
		got, _ := recUntil(w, 4)
		if key != "" {
			dlgSame(e, fmt.Sprintf("code %d: received", code), Bodies(got), []string{"1", "2", "3", "4"})
		}
		var again []*parley.Message // what was sent again
		for _, m := range got {
			if string(m.Body) != "4" {
				again = append(again, m)
			}
		}
		dlgSame(e, fmt.Sprintf("code %d: received again", code), Bodies(again), []string{"1", "2", "3"})
		if hs := handlesOf(again); len(hs) != 1 || hs[0] == server {
			e.Errorf("code %d: they came on %v, want one conversation and not %s", code, hs, server)
		}
		recGone(w, append(handlesOf(again), server)...)
		if dead := recDead(w); len(dead) > 0 {
			e.Errorf("code %d: %q are dead letters", code, dead)
		}
		e.Must(w.B.Close())
	}
}

func checkNotResent(e *Env, key string) {
	const code = -8425
	log := newRecLog()
	w, s, client, server := recPending(e, log, key)
	recFail(w, client, code)
	if !e.Soon(10*time.Second, func() bool {
		return len(log.with("event=recycle.error", fmt.Sprint("code=", code))) > 0 && len(log.with("event=recycle.lost", "messages=3")) > 0
	}) {
		e.Fatalf("it was not logged that three messages are lost: %q", log.with(""))
	}
	e.Must(w.B.EnableQueue(e.Ctx, w.SQ))
	dlgEnd(w, server)
	recMust(w, w.B, s, "4")
	got, _ := recUntil(w, 1)
	dlgSame(e, "received", Bodies(got), []string{"4"})
	dlgSame(e, "dead letters", recDead(w), []string{"1", "2", "3"})
	recGone(w, server)
}

func checkDialogsInOrder(e *Env) {
	w := e.World(recCatalog(true))
	s := recSender(w, w.B, parley.SenderOptions{MaxMessages: 2}).Key("k")
	recMust(w, w.B, s, "1", "2", "3", "4", "5")
	recMust(w, w.B, recSender(w, w.B, parley.SenderOptions{}).Key("other"), "other") // waits for nobody

	var seen []string
	for len(seen) < 6 {
		d := w.Receive(w.SQ, nil)
		for _, m := range d.Messages {
			if m.Type != parley.EndOfStream {
				seen = append(seen, string(m.Body))
			}
		}
		if slices.Contains(seen, "2") && !slices.Contains(seen, "3") {
			// As long as the target has not ended, nothing of the next one comes, and
			// it says why.
			held := dlgHeldOf(w, w.Client)
			if len(held) != 2 {
				e.Fatalf("after %q %d dialogs are withheld, want 2", seen, len(held))
			}
			for _, h := range held {
				if !strings.Contains(h.Status, "the dialog before it is not finished") && !strings.Contains(h.Status, "earlier messages") {
					e.Errorf("the status of what is withheld is %q", h.Status)
				}
			}
			for range 3 {
				if o := w.TryReceive(w.SQ, nil, 50*time.Millisecond); o != nil {
					for _, m := range o.Messages {
						if string(m.Body) != "other" {
							e.Fatalf("received %s before the first dialog was finished", describe(o.Messages))
						}
						seen = append(seen, "other")
					}
					e.Must(o.Ack(e.Ctx))
				}
			}
		}
		for _, m := range d.Messages {
			if m.Type == parley.EndOfStream {
				e.Must(m.End(e.Ctx))
			}
		}
		e.Must(d.Ack(e.Ctx))
	}
	seen = slices.DeleteFunc(seen, func(s string) bool { return s == "other" })
	dlgSame(e, "received", seen, []string{"1", "2", "3", "4", "5"})
}

// dlgHeldOf returns what is withheld of a service.
// checkEndBesideLock: the rows of the conversation cannot go as its target ends,
// and until they do, the next dialog does not wait for them.
func checkEndBesideLock(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("this store has a single writer: nothing can be locked while another transaction ends a conversation")
	}
	log := newRecLog()
	w, s, client, server := recPending(e, log, "k")
	recFail(w, client, -8425)
	if !e.Soon(10*time.Second, func() bool { return len(log.with("event=recycle.error")) > 0 }) {
		e.Fatalf("it was not logged that the dialog failed: %q", log.with(""))
	}
	e.Must(w.B.EnableQueue(e.Ctx, w.SQ))
	if !e.Soon(10*time.Second, func() bool { return len(dlgHeldOf(w, w.Client)) == 0 }) {
		e.Fatalf("what the first dialog's end says is withheld from a queue that is enabled")
	}
	lock := func(h parley.ID) (free func()) {
		tx, err := w.Handle().Begin(e.Ctx)
		e.Must(err)
		if !e.Soon(5*time.Second, func() bool { err = tx.TryStream(e.Ctx, h); return !errors.Is(err, backend.ErrStreamBusy) }) || err != nil {
			e.Fatalf("lock %s: %v", h, err)
		}
		return func() { e.Must(tx.Rollback(e.Ctx)) }
	}
	free := lock(client)
	dlgEnd(w, server)
	over := lock(server) // in place of the other lock, which a sender of the key waits for
	free()
	recMust(w, w.B, s, "4")
	if held := dlgHeldOf(w, w.Client); len(held) > 0 {
		e.Errorf("the target of the first dialog has ended, and %q is withheld", held[0].Status)
	}
	got, _ := recUntil(w, 1)
	dlgSame(e, "received", Bodies(got), []string{"4"})
	over()
	recGone(w, server)
}

func dlgHeldOf(w *World, service string) (of []parley.WithheldStream) {
	list, err := w.B.Withheld(w.Ctx, backend.CountLimit)
	w.Must(err)
	for _, s := range list {
		if s.From.Service == service {
			of = append(of, s)
		}
	}
	return of
}

func checkOrderUnderLoad(e *Env) {
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

func checkSenderClosed(e *Env) {
	w := e.World(recCatalog(false))
	be := e.Handle()
	b, err := parley.New(e.Ctx, be, nil)
	e.Must(err)
	s := recSender(w, b, parley.SenderOptions{MaxAge: 300 * time.Millisecond})
	recMust(w, b, s, "1")
	recMust(w, b, s.Key("k"), "2")
	e.Must(b.Close())
	got, _ := recUntil(w, 2)
	recGone(w, handlesOf(got)...)
}

// recChild sends on a dialog, which it keeps, and waits to be killed.
func recChild(ctx context.Context, b *parley.Broker, args []string, say func(string, ...any), hear *bufio.Scanner) error {
	s, err := b.NewSender(ctx, parley.SenderOptions{From: args[0], To: args[1], Contract: args[2], MaxAge: time.Second})
	if err != nil {
		return err
	}
	for _, s := range []*parley.Sender{s, s.Key("k")} {
		if err := b.InTx(ctx, func(tx *parley.Tx) error {
			return s.Send(ctx, tx, parley.Payload{Type: args[3], Body: []byte("from the child")})
		}); err != nil {
			return err
		}
	}
	say("sent")
	hear.Scan()
	return nil
}

func checkSenderKilled(e *Env) {
	w := e.World(recCatalog(false))
	c := e.Child("sender", w.Client, w.Server, w.Contract, w.Ask)
	if line := c.Hear(); line != "sent" {
		e.Fatalf("the child says %q", line)
	}
	c.Kill()
	got, _ := recUntil(w, 2)
	recGone(w, handlesOf(got)...)
}
