package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/parleymq/parley"
)

// world is what the load works on. Children get it from their parent.
type world struct {
	Work, Answers  string // queues
	Client, Worker string // services
	Contract       string
	Request, Reply string // message types

	Groups  []parley.ID
	Dialogs []dialog
	Keys    []string
}

// dialog is a conversation. Its stream is written on the initiator's side; the
// target's side is in one of the groups.
type dialog struct {
	Stream string
	Handle parley.ID
	Target parley.ID
}

// Streams have names that tell what they are.
const (
	fixed  = "d" // a conversation of the world
	single = "s" // one with a sender to itself, where the time of a send is measured
	inner  = "c" // one of a child's
	key    = "k" // the posts of a key
	loose  = "-" // a post without key
	brief  = "b" // a conversation that ends soon after its beginning
	answer = "r" // what comes back on a conversation
)

// newWorld names things after the run, so that others in the store do no harm.
func newWorld(run string) *world {
	n := func(s string) string { return "stress " + run + " " + s }
	return &world{
		Work: n("work"), Answers: n("answers"), Client: n("client"), Worker: n("worker"),
		Contract: n("contract"), Request: n("request"), Reply: n("reply"),
	}
}

func (w *world) define(ctx context.Context, b *parley.Broker) error {
	return b.Define(ctx, parley.Catalog{
		Types:  []parley.MessageType{{Name: w.Request}, {Name: w.Reply}},
		Queues: []parley.Queue{{Name: w.Work}, {Name: w.Answers}},
		Contracts: []parley.Contract{{Name: w.Contract, Messages: []parley.ContractEntry{
			{Type: w.Request, SentBy: parley.ByInitiator}, {Type: w.Reply, SentBy: parley.ByTarget},
		}}},
		Services: []parley.Service{{Name: w.Client, Queue: w.Answers}, {Name: w.Worker, Queue: w.Work, Contracts: []string{w.Contract}}},
	})
}

// populate begins the conversations and spreads their targets over the groups.
// They are made in the order in which senders write to several of them.
func (w *world) populate(ctx context.Context, b *parley.Broker, rec recorder, o options) error {
	var names []string
	add := func(kind string, n int) {
		for i := range n {
			names = append(names, fmt.Sprintf("%s%03d", kind, i))
		}
	}
	add(fixed, o.groups*o.streams)
	add(single, o.singles())
	add(inner, o.children*childDialogs)
	for i := range o.groups {
		w.Groups = append(w.Groups, parley.NewID())
		if i < 5 {
			w.Keys = append(w.Keys, fmt.Sprintf("%s%d", key, i))
		}
	}
	at := make(map[parley.ID]int)
	for i, name := range names {
		err := b.InTx(ctx, func(tx *parley.Tx) error {
			c, err := tx.Begin(ctx, w.Client, w.Worker, &parley.DialogOptions{Contract: w.Contract})
			if err != nil {
				return err
			}
			at[c.Handle()] = i
			w.Dialogs = append(w.Dialogs, dialog{Stream: name, Handle: c.Handle()})
			first := "first-" + name
			if err := c.Send(ctx, w.Request, content(name, first, 0)); err != nil {
				return err
			}
			rec.writing(first, name, "setup")
			return nil
		})
		if err != nil {
			return err
		}
		rec.ended(committed, []string{"first-" + name})
	}
	const page = 500
	for q := (parley.ConversationQuery{Limit: page}); ; {
		list, err := b.Admin().Conversations(ctx, q)
		if err != nil {
			return err
		}
		for _, c := range list {
			if i, ok := at[c.FarHandle]; ok && !c.Initiator {
				w.Dialogs[i].Target = c.Handle
			}
			q.After = c.Conversation
		}
		if len(list) == 0 {
			break
		}
	}
	for i, d := range w.Dialogs {
		if d.Target.IsZero() {
			return fmt.Errorf("the conversation of stream %s has no target after its first message", d.Stream)
		}
		group := w.Groups[i/o.streams%len(w.Groups)]
		err := b.InTx(ctx, func(tx *parley.Tx) error { return tx.Conversation(d.Target).Move(ctx, group) })
		if err != nil {
			return err
		}
	}
	return nil
}

// of returns the conversations of a kind.
func (w *world) of(kind string) (list []dialog) {
	for _, d := range w.Dialogs {
		if strings.HasPrefix(d.Stream, kind) {
			list = append(list, d)
		}
	}
	return list
}

// content is the body of a message: its stream, its token, and something to
// carry.
func content(stream, token string, weight int) []byte {
	return []byte(stream + " " + token + "\n" + strings.Repeat("x", weight))
}

func parse(body []byte) (stream, token string, err error) {
	line, _, ok := strings.Cut(string(body), "\n")
	stream, token, ok2 := strings.Cut(line, " ")
	if !ok || !ok2 {
		return "", "", fmt.Errorf("a body of %d bytes that no sender wrote: %.40q", len(body), body)
	}
	return stream, token, nil
}

// answered says which messages get a reply.
func answered(stream, token string) bool {
	h := fnv.New32a()
	h.Write([]byte(token))
	return strings.HasPrefix(stream, fixed) && h.Sum32()%8 == 0
}
