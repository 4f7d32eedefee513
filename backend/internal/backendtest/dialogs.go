package backendtest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/sure"
)

// Dialogs counts the statements of a request and its reply on a new dialog, until both sides have
// ended. Statements that frame a transaction do not count. The steps run in separate transactions
// first, and then by workers, whose longest transaction counts.
func Dialogs(t *testing.T, be backend.Backend, count *Counter, frame []string, want map[string]int) {
	ctx := t.Context()
	b, err := parley.New(ctx, be, &parley.Options{NoMaintenance: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	d := &dialogs{T: t, ctx: ctx, b: b, count: count, frame: frame, want: want}
	d.OK(b.Define(ctx, parley.Catalog{
		Types: []parley.MessageType{{Name: "Request"}, {Name: "Reply"}},
		Contracts: []parley.Contract{{Name: "Ask", Messages: []parley.ContractEntry{
			{Type: "Request", SentBy: parley.ByInitiator}, {Type: "Reply", SentBy: parley.ByTarget}}}},
		Queues:   []parley.Queue{{Name: "asks"}, {Name: "answers"}},
		Services: []parley.Service{{Name: "Asker", Queue: "asks"}, {Name: "Answerer", Queue: "answers", Contracts: []string{"Ask"}}},
	}))
	d.byHand()
	d.byWorkers()
	d.promoted()
	d.alone()
}

// alone: what Broker.Post and Broker.Send take, with what frames a transaction.
func (d *dialogs) alone() {
	var asking parley.ID
	d.OK(d.b.InTx(d.ctx, func(tx *parley.Tx) error {
		c, err := tx.Begin(d.ctx, "Asker", "Answerer", &parley.DialogOptions{Contract: "Ask"})
		if err == nil {
			asking = c.Handle()
		}
		return err
	}))
	post := func(o ...parley.PostOption) func() error {
		return func() error {
			_, err := d.b.Post(d.ctx, "asks", parley.Payload{}, o...)
			return err
		}
	}
	reader := backend.ReaderRecord{Reader: backend.NewID(), Worker: backend.NewID(), Queue: 1, For: time.Minute, InHand: []backend.ID{backend.NewID(), backend.NewID()}}
	for name, verb := range map[string]func() error{
		"a post by itself, with BEGIN and COMMIT":            post(),
		"a post by itself with a key, with BEGIN and COMMIT": post(parley.Key("alone")),
		"a send by itself, with BEGIN and COMMIT":            func() error { return d.b.Send(d.ctx, asking, parley.Payload{Type: "Request"}) },
		"a begin by itself, with BEGIN and COMMIT": func() error {
			_, err := d.b.BeginDialog(d.ctx, "Asker", "Answerer", &parley.DialogOptions{Contract: "Ask"}, parley.Payload{Type: "Request"})
			return err
		},
		"what a reader has in hand, with BEGIN and COMMIT": func() error {
			_, err := d.b.Backend().PutReader(d.ctx, reader)
			return err
		},
	} {
		least := math.MaxInt // a connection that has not been used for a moment begins a transaction
		for range 10 {
			d.count.Take()
			d.OK(verb())
			least = min(least, len(d.count.Take()))
		}
		if least != d.want[name] {
			d.Errorf("%s: %d statements, want %d", name, least, d.want[name])
		}
	}
}

// promoted: what a promotion costs when a message that came by it is acknowledged.
func (d *dialogs) promoted() {
	acknowledge := func(promotions ...[]parley.PromoteOption) int {
		_, err := d.b.Post(d.ctx, "asks", parley.Payload{}, parley.Key("k"))
		d.OK(err)
		for _, o := range promotions {
			d.OK(d.b.PromoteKey(d.ctx, "asks", "k", o...))
		}
		r, err := d.b.Receive(d.ctx, "asks", nil)
		d.OK(err)
		d.count.Take()
		d.OK(r.Ack(d.ctx))
		return len(d.own(d.count.Take()))
	}
	plain := acknowledge()
	if n := acknowledge([]parley.PromoteOption{parley.Sticky()}); n != plain {
		d.Errorf("by a sticky promotion: %d statements, without %d", n, plain)
	}
	if n := acknowledge([]parley.PromoteOption{}); n <= plain || n > plain+2 {
		d.Errorf("by a promotion: %d statements, without %d", n, plain)
	}
	if n := acknowledge([]parley.PromoteOption{parley.UntilEmpty()}); n < plain+2 || n > plain+4 {
		d.Errorf("by a promotion until empty: %d statements, without %d", n, plain)
	}
}

type dialogs struct {
	*testing.T
	ctx   context.Context
	b     *parley.Broker
	count *Counter
	frame []string
	want  map[string]int
}

func (d *dialogs) OK(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// own leaves out what frames a transaction, and what is done beside it: telling other processes, and looking for
// requests to cancel.
func (d *dialogs) own(texts []string) []string {
	return slices.DeleteFunc(texts, func(text string) bool {
		return slices.Contains(d.frame, text) || strings.Contains(text, "NOTIFY ") || strings.Contains(text, "FROM parley_cancel")
	})
}

// holds compares a number of statements with what it must be.
func (d *dialogs) holds(name string, got []string) {
	d.Helper()
	got = d.own(got)
	d.Logf("%s: %d statements:\n\t%s", name, len(got), strings.Join(brief(got), "\n\t"))
	if len(got) != d.want[name] {
		d.Errorf("%s: %d statements, want %d", name, len(got), d.want[name])
	}
}

// brief is what statements begin with.
func brief(texts []string) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		line := strings.Join(strings.Fields(text), " ")
		out[i] = line[:min(len(line), 150)]
	}
	return out
}

// ask begins dialogs, each with a request.
func (d *dialogs) ask(n int) {
	d.Helper()
	d.OK(d.b.InTx(d.ctx, func(tx *parley.Tx) error {
		batch := make([]parley.Sending, n)
		for i := range batch {
			c, err := tx.Begin(d.ctx, "Asker", "Answerer", &parley.DialogOptions{Contract: "Ask"})
			if err != nil {
				return err
			}
			batch[i] = parley.Sending{To: c, Payload: parley.Payload{Type: "Request", Body: []byte("?")}}
		}
		return tx.SendBatch(d.ctx, batch)
	}))
}

// answer replies to a request and ends the target's side.
func answer(ctx context.Context, m *parley.Message) error {
	if m.Type != "Request" {
		return m.End(ctx)
	}
	if err := m.Reply(ctx, "Reply", []byte("!")); err != nil {
		return err
	}
	return m.End(ctx)
}

// hear takes the reply, and ends the initiator's side when the target has ended.
func hear(ctx context.Context, m *parley.Message) error {
	if m.Type == "Reply" {
		return nil
	}
	return m.End(ctx)
}

// receive handles one delivery.
func (d *dialogs) receive(queue string, messages int, handle func(context.Context, *parley.Message) error) {
	d.Helper()
	del, err := d.b.Receive(d.ctx, queue, nil)
	d.OK(err)
	if len(del.Messages) != messages {
		d.Fatalf("%d messages received from %s, want %d", len(del.Messages), queue, messages)
	}
	for _, m := range del.Messages {
		d.OK(handle(d.ctx, m))
	}
	d.OK(del.Ack(d.ctx))
}

// receiveIn is receive in one transaction.
func (d *dialogs) receiveIn(queue string, messages int, handle func(context.Context, *parley.Message) error) {
	d.Helper()
	d.OK(d.b.InTx(d.ctx, func(tx *parley.Tx) error {
		list, err := tx.Receive(d.ctx, queue, nil)
		if err != nil {
			return err
		}
		if len(list) != messages {
			return fmt.Errorf("%d messages received from %s, want %d", len(list), queue, messages)
		}
		for _, m := range list {
			if err := handle(d.ctx, m); err != nil {
				return err
			}
		}
		return nil
	}))
}

// gone checks that nothing is left of conversations.
func (d *dialogs) gone() {
	d.Helper()
	list, err := d.b.Admin().Conversations(d.ctx, parley.ConversationQuery{Limit: 10})
	d.OK(err)
	if len(list) > 0 {
		d.Errorf("conversations are left: %v", list)
	}
}

// byHand counts the third of three rounds: by then statements are prepared.
func (d *dialogs) byHand() {
	type step struct {
		name string
		work func()
	}
	for round := range 3 {
		for _, s := range []step{
			{"begin and send", func() { d.ask(1) }},
			{"receive, reply and end", func() { d.receive("answers", 1, answer) }},
			{"receive the reply and end", func() { d.receive("asks", 2, hear) }},
			{"", func() { d.gone(); d.ask(1) }},
			{"receive, reply and end, in one transaction", func() { d.receiveIn("answers", 1, answer) }},
			{"receive the reply and end, in one transaction", func() { d.receiveIn("asks", 2, hear) }},
			{"", d.gone},
		} {
			d.count.Take()
			s.work()
			if seen := d.count.Take(); round == 2 && s.name != "" {
				d.holds(s.name, seen)
			}
		}
	}
	d.ask(20)
	d.count.Take()
	d.ask(20)
	d.holds("begin and send on twenty dialogs", d.count.Take())
	for range 40 {
		d.receive("answers", 1, answer)
		d.receive("asks", 2, hear)
	}
	d.gone()
}

// byWorkers counts the longest transaction of a worker with batches of 20 messages.
func (d *dialogs) byWorkers() {
	d.ask(111) // batches grow from one message on
	for _, s := range []struct {
		name, queue string
		handle      parley.HandlerFunc
	}{
		{"a worker's batch of requests", "answers", answer},
		{"a worker's batch of replies and ends", "asks", hear},
	} {
		d.count.Take()
		d.OK(sure.Of(d.b.NewWorker(s.queue, s.handle, &parley.WorkerOptions{MaxReaders: 1, MaxBatch: 20, BatchTime: 10 * time.Second})).Drain(d.ctx))
		var longest, current []string
		for _, text := range d.count.Take() {
			switch current = append(current, text); {
			case text == "COMMIT" && len(current) > len(longest):
				longest = current
			case slices.Contains(d.frame, text): // it begins
				current = nil
			case slices.ContainsFunc(d.frame, func(begin string) bool { return strings.HasPrefix(text, begin+";") }): // with its first statement
				current = []string{text}
			}
		}
		d.holds(s.name, longest)
	}
	d.gone()
}
