package parley_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/parleymq/parley"
)

// TestHandleGroup: messages of a type that follow each other come in one call, up to another type or a body that cannot be
// decoded. What fails comes again, all of it, and counts for the first.
func TestHandleGroup(t *testing.T) {
	ctx := t.Context()
	b, cleanup := shop()
	defer cleanup()
	number := parley.Type[int]("Number", parley.JSON)
	must(b.Define(ctx, parley.Catalog{Types: []parley.MessageType{{Name: "Number"}, {Name: "Word"}}}))
	post := func(typ, body string) {
		_, err := b.Post(ctx, "mail", parley.Payload{Type: typ, Body: []byte(body)}, parley.Key("k"))
		must(err)
	}
	// A worker takes one message first, and twice as many each time.
	warmUp := func(n int) {
		for range n {
			post("Word", "")
		}
	}
	warmUp(7)
	for _, body := range []string{"1", "2", "a word", "3", "no number", "4", "5"} {
		typ := "Number"
		if body == "a word" {
			typ = "Word"
		}
		post(typ, body)
	}
	var calls []string
	var failing error
	mux := parley.NewMux()
	mux.Use(func(next parley.Handler) parley.Handler {
		return parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
			if len(m.Body) > 0 {
				calls = append(calls, "first "+string(m.Body))
			}
			return next.HandleMessage(ctx, m)
		})
	})
	parley.HandleGroup(mux, number, func(_ context.Context, messages []*parley.Message, values []int) error {
		if len(messages) != len(values) || string(messages[0].Body) != fmt.Sprint(values[0]) {
			t.Errorf("messages %v with the values %v", messages, values)
		}
		calls = append(calls, fmt.Sprint(values))
		return failing
	})
	mux.HandleFunc("Word", func(_ context.Context, m *parley.Message) error {
		if len(m.Body) > 0 {
			calls = append(calls, string(m.Body))
		}
		return nil
	})
	observer := new(heard)
	drain := func(o parley.WorkerOptions) {
		t.Helper()
		o.MaxReaders, o.BatchTime, o.Observer = 1, time.Minute, observer
		worker, err := b.NewWorker("mail", mux, &o)
		must(err)
		must(worker.Drain(ctx))
	}
	expect := func(want ...string) {
		t.Helper()
		if !slices.Equal(calls, want) {
			t.Errorf("calls %q, want %q", calls, want)
		}
		calls = nil
	}
	drain(parley.WorkerOptions{Poison: parley.ActionDeadLetter})
	expect("first 1", "[1 2]", "first a word", "a word", "first 3", "[3]", "first no number", "first 4", "[4 5]")
	dead, err := b.Admin().DeadLetters(ctx, "mail", parley.Place{}, 10)
	must(err)
	if n := len(observer.calls[7].IDs); n != 2 || len(dead) != 1 || string(dead[0].Message.Body) != "no number" {
		t.Errorf("the observer hears of %d messages in the first call, want 2; dead letters %v, want that without a number", n, dead)
	}

	warmUp(3)
	post("Number", "6")
	post("Number", "7")
	failing = errors.New("no")
	drain(parley.WorkerOptions{MaxAttempts: 1, Poison: parley.ActionDeadLetter})
	expect("first 6", "[6 7]", "first 7", "[7]") // the first is a dead letter, and the other one comes again
}

// TestHandleGroupAlone: by itself a message is a group of one.
func TestHandleGroupAlone(t *testing.T) {
	var got []int
	mux := parley.NewMux()
	parley.HandleGroup(mux, parley.Type[int]("Number", parley.JSON), func(_ context.Context, messages []*parley.Message, values []int) error {
		got = append(got, values...)
		return nil
	})
	must(mux.HandleMessage(t.Context(), &parley.Message{Type: "Number", Body: []byte("8")}))
	if !slices.Equal(got, []int{8}) {
		t.Errorf("the handler got %v", got)
	}
}

func ExampleHandleGroup() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	Number := parley.Type[int](parley.DefaultType, parley.JSON)
	must(b.InTx(ctx, func(tx *parley.Tx) error {
		_, err := Number.PostBatch(ctx, tx, "mail", []int{1, 2, 3}, parley.Key("n"))
		return err
	}))
	mux := parley.NewMux()
	parley.HandleGroup(mux, Number, func(_ context.Context, messages []*parley.Message, values []int) error {
		for i, v := range values {
			fmt.Print(messages[i].Key, v, " ")
		}
		return nil // all are acknowledged
	})
	worker, err := b.NewWorker("mail", mux, nil)
	must(err)
	must(worker.Drain(ctx))
	// Output: n1 n2 n3
}
