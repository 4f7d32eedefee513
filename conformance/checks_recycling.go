package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/slow"
)

func init() {
	add(
		check{ID: "C01", Name: "one conversation per key, in every process", Run: checkOneDialogPerKey},
		check{ID: "C01", Name: "transactions with different keys, and without", Run: checkSendersApart},
		check{ID: "C02", Name: "renewed by age", Run: checkRenewedByAge},
		check{ID: "C02", Name: "renewed by number", Run: checkRenewedByNumber},
		check{ID: "C02", Name: "renewed by Close", Run: checkRenewedByClose},
	)
}

func checkOneDialogPerKey(e *env) {
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

func checkSendersApart(e *env) {
	if !e.ManyWriters() {
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
	dlgSame(e, "received", bodiesOf(both), []string{"first", "second"})
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
	dlgSame(e, "received", bodiesOf(got), []string{"done", "next"})
	if len(handlesOf(got)) != 1 {
		e.Errorf("two messages of a key came on %d conversations", len(handlesOf(got)))
	}
}

func checkRenewedByAge(e *env) {
	w := e.World(recCatalog(false))
	age := slow.By(500 * time.Millisecond) // what is sent at once has to fit in
	s := recSender(w, w.B, parley.SenderOptions{MaxAge: age})
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
	if passed := time.Since(begun); passed < age-tmrEarly {
		e.Errorf("the dialogs were to be used for %v and were over after %v", age, passed)
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

func checkRenewedByNumber(e *env) {
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

func checkRenewedByClose(e *env) {
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

// recEnough is how many dialogs have to be renewed for a load to say something.
const recEnough = 12
