package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		Check{ID: "B01", Name: "unknown handles", Run: checkUnknownHandles},
		Check{ID: "B01", Name: "ended, errored and foreign handles", Run: checkUnfitHandles},
		Check{ID: "B01", Name: "receiving by a foreign or ended handle", Run: checkReceiveUnfit},
		Check{ID: "B01", Name: "groups that are not there", Run: checkUnknownGroups},
		Check{ID: "B02", Name: "undefined names", Run: checkUndefinedNames},
		Check{ID: "B03", Name: "contradictions within a definition", Run: checkContradictions},
		Check{ID: "B03", Name: "contradictions with what is stored", Run: checkContradictionsStored},
		Check{ID: "B03", Name: "names that cannot be", Run: checkInvalidNames},
		Check{ID: "B03", Name: "the same again, and changes that are allowed", Run: checkDefineAgain},
		Check{ID: "B04", Name: "bodies that are too large", Run: checkTooLarge},
		Check{ID: "B04", Name: "posts with invalid bodies", Run: checkInvalidPosts},
		Check{ID: "B04", Name: "no validator", Run: checkNoValidator},
		Check{ID: "B08", Name: "receiving from a disabled queue", Run: checkDisabledQueue},
		Check{ID: "B08", Name: "receivers that wait", Run: checkDisabledWaiting},
		Check{ID: "B08", Name: "in hand and in flight", Run: checkDisabledInHand},
		Check{ID: "B10", Name: "names", Run: checkHostileNames},
		Check{ID: "B10", Name: "bodies", Run: checkHostileBodies},
		Check{ID: "B10", Name: "hostile keys and other values", Run: checkHostileValues},
		Check{ID: "B10", Name: "hostile names of application locks", Run: checkHostileLocks},
		Check{ID: "B10", Name: "texts of errors, reasons and owners", Run: checkHostileTexts},
		Check{ID: "B11", Name: "of a broker", Run: checkBrokerOptions},
		Check{ID: "B11", Name: "of receiving", Run: checkReceiveOptions},
		Check{ID: "B11", Name: "of conversations and posts", Run: checkOtherOptions},
		Check{ID: "B11", Name: "of operators", Run: checkOperatorOptions},
	)
}

// B01

func checkUnknownHandles(e *Env) {
	w := e.World()
	good := w.Dialog("0")
	unknown := parley.NewID()
	sending, others := dlgVerbs(w)
	w.Tx(func(tx *parley.Tx) error {
		for _, v := range append(sending, others...) {
			dlgNames(e, v.name, v.do(e.Ctx, tx, unknown), parley.ErrNoConversation, unknown.String())
		}
		c := tx.Conversation(unknown)
		_, err := c.Status(e.Ctx)
		dlgNames(e, "Status", err, parley.ErrNoConversation, unknown.String())
		_, err = c.ID(e.Ctx)
		dlgNames(e, "ID", err, parley.ErrNoConversation, unknown.String())
		_, err = c.Group(e.Ctx)
		dlgNames(e, "Group", err, parley.ErrNoConversation, unknown.String())
		// The second of several is named, too.
		err = tx.SendTo(e.Ctx, []*parley.Conversation{tx.Conversation(good), c}, w.Any, nil)
		dlgNames(e, "SendTo", err, parley.ErrNoConversation, unknown.String())
		return tx.Conversation(good).Send(e.Ctx, w.Ask, []byte("1")) // the transaction is still usable
	})
	for _, hold := range e.Holds() {
		_, err := w.B.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Conversation: unknown, Hold: hold, Wait: 5 * time.Second})
		dlgNames(e, "Receive", err, parley.ErrNoConversation, unknown.String())
	}
	dlgBodies(w, w.SQ, nil, "0", "1")
	dlgQuiet(w, w.SQ, w.CQ)
}

func checkUnfitHandles(e *Env) {
	w := e.World(func(c *parley.Catalog) { c.Services[1].PeerPromotion = 255 })
	sending, others := dlgVerbs(w)
	for _, c := range []struct {
		state           string
		sending, others error // nil: the verbs work
		after           parley.State
	}{
		{"ended", parley.ErrEnded, parley.ErrEnded, parley.DisconnectedOutbound},
		{"peer ended", parley.ErrPeerEnded, nil, parley.DisconnectedInbound},
		{"errored", parley.ErrConversationError, nil, parley.Errored},
		{"both ended", parley.ErrNoConversation, parley.ErrNoConversation, ""},
	} {
		h, server := dlgInState(w, c.state)
		good := w.Dialog("good")
		var before string
		if c.after != "" {
			before = fmt.Sprintf("%+v", *dlgStatus(w, h))
		}
		w.Tx(func(tx *parley.Tx) error {
			for _, v := range sending {
				err := v.do(e.Ctx, tx, h)
				dlgNames(e, v.name+" on a conversation that is "+c.state, err, c.sending, h.String())
				var told *parley.DialogError
				if c.state == "errored" && (!errors.As(err, &told) || told.Code != 77) {
					e.Errorf("%s on a conversation in error: the error %v does not carry the code 77", v.name, err)
				}
			}
			for _, v := range others {
				if c.others != nil {
					dlgNames(e, v.name+" on a conversation that is "+c.state, v.do(e.Ctx, tx, h), c.others, h.String())
				}
			}
			return tx.Conversation(good).Send(e.Ctx, w.Ask, []byte("good 2"))
		})
		dlgState(w, h, c.after)
		if c.after != "" {
			if after := fmt.Sprintf("%+v", *dlgStatus(w, h)); after != before {
				e.Errorf("%s: the refused verbs changed the side from %s to %s", c.state, before, after)
			}
		}
		switch c.state {
		case "peer ended", "errored": // what does not send works until the end
			want := parley.EndDialog
			if c.state == "errored" {
				want = parley.ErrorType
			}
			w.Tx(func(tx *parley.Tx) error {
				if err := tx.Conversation(h).SetTimer(e.Ctx, time.Hour); err != nil {
					return err
				}
				ms, err := tx.Receive(e.Ctx, w.CQ, &parley.ReceiveOptions{Conversation: h})
				if err != nil {
					return err
				}
				if len(ms) != 1 || ms[0].Type != want {
					e.Errorf("%s: received %s, want %s", c.state, describe(ms), want)
				}
				return tx.Conversation(h).End(e.Ctx)
			})
			dlgGone(w, h, server)
		case "ended":
			dlgEnd(w, server)
			dlgGone(w, h, server)
		}
		dlgQuiet(w, w.CQ)
		var got []string
		for _, m := range w.Drain(w.SQ) {
			if m.Conversation == dlgPeer(w, good) {
				got = append(got, string(m.Body))
			}
		}
		dlgSame(e, c.state+": the conversation beside it", got, []string{"good", "good 2"})
	}

	// The peer's handle is no way to send from its side.
	h := w.Dialog("0")
	server := dlgPeer(w, h)
	w.Tx(func(tx *parley.Tx) error {
		dlgNames(e, "send as the peer", tx.Conversation(h).Send(e.Ctx, w.Tell, nil), parley.ErrTypeNotAllowed, h.String())
		dlgNames(e, "send as the peer", tx.Conversation(server).Send(e.Ctx, w.Ask, nil), parley.ErrTypeNotAllowed, server.String())
		group := dlgVerb{do: func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			ep, err := tx.Conversation(server).Status(ctx)
			if err != nil {
				return err
			}
			return tx.Conversation(h).Move(ctx, ep.Group)
		}}
		dlgNames(e, "move to the peer's group", group.do(e.Ctx, tx, h), parley.ErrGroupElsewhere, h.String())
		_, err := tx.Begin(e.Ctx, w.Client, w.Server, &parley.DialogOptions{Contract: w.Contract, RelatedConversation: server})
		dlgNames(e, "begin related to the peer's side", err, parley.ErrGroupElsewhere, server.String())
		return nil
	})
	dlgBodies(w, w.SQ, nil, "0")
	dlgQuiet(w, w.SQ, w.CQ)
}

func checkReceiveUnfit(e *Env) {
	w := e.World()
	for _, c := range []struct {
		state string
		want  error
	}{{"conversing", parley.ErrGroupElsewhere}, {"ended", parley.ErrEnded}, {"both ended", parley.ErrNoConversation}} {
		h, server := dlgInState(w, c.state)
		queue := w.CQ
		if c.state == "conversing" {
			queue = w.SQ // where the handle does not belong
		}
		for _, hold := range e.Holds() {
			for _, wait := range []time.Duration{0, 5 * time.Second} {
				start := time.Now()
				_, err := w.B.Receive(e.Ctx, queue, &parley.ReceiveOptions{Conversation: h, Hold: hold, Wait: wait})
				dlgNames(e, "receive by a handle that is "+c.state, err, c.want, h.String())
				if took := time.Since(start); took > 4*time.Second {
					e.Errorf("receive by a handle that is %s failed only after %v", c.state, took)
				}
			}
		}
		w.Tx(func(tx *parley.Tx) error {
			o := &parley.ReceiveOptions{Conversation: h}
			_, err := tx.Receive(e.Ctx, queue, o)
			dlgNames(e, "receive in a transaction by a handle that is "+c.state, err, c.want, h.String())
			_, err = tx.GetGroup(e.Ctx, queue, o)
			dlgNames(e, "get the group by a handle that is "+c.state, err, c.want, h.String())
			return nil
		})
		if c.state == "conversing" {
			dlgBodies(w, w.SQ, &parley.ReceiveOptions{Conversation: server}, "first")
		}
		w.Drain(w.SQ)
	}
}

func checkUnknownGroups(e *Env) {
	w := e.World()
	h := w.Dialog("0")
	own := dlgStatus(w, h).Group
	// A group that is not there, or is another queue's, is one without messages.
	for _, g := range []parley.ID{parley.NewID(), own} {
		for _, hold := range e.Holds() {
			_, err := w.B.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Group: g, Hold: hold})
			e.Is(err, parley.ErrNoMessage)
			_, err = w.B.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Group: g, Hold: hold, Wait: 30 * time.Millisecond})
			e.Is(err, parley.ErrNoMessage)
		}
		w.Tx(func(tx *parley.Tx) error {
			_, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Group: g})
			e.Is(err, parley.ErrNoMessage)
			_, err = tx.GetGroup(e.Ctx, w.SQ, &parley.ReceiveOptions{Group: g})
			e.Is(err, parley.ErrNoMessage)
			return nil
		})
	}
	unknown := parley.NewID()
	dlgNames(e, "unpark", w.B.Unpark(e.Ctx, unknown), parley.ErrUnknownGroup, unknown.String())
	dlgNames(e, "promote", w.B.Promote(e.Ctx, unknown), parley.ErrUnknownGroup, unknown.String())
	e.Must(w.B.Demote(e.Ctx, unknown))
	w.Tx(func(tx *parley.Tx) error {
		dlgNames(e, "move to no group", tx.Conversation(h).Move(e.Ctx, parley.ID{}), parley.ErrUnknownGroup, h.String())
		return nil
	})
	dlgBodies(w, w.SQ, nil, "0")
}

// B02

func checkUndefinedNames(e *Env) {
	w := e.World()
	far := e.Name("far") // a service that is not there may be sent to, but not promoted at
	h := w.Dialog("0")
	none := e.Name("none")
	for _, name := range []string{none, "", strings.ToUpper(w.Client), w.SQ + " ", w.Contract + "x", "'; --"} {
		w.Tx(func(tx *parley.Tx) error {
			ctx := e.Ctx
			quoted := fmt.Sprintf("%q", name)
			try := func(what string, want error, err error) { dlgNames(e, what+" "+quoted, err, want, quoted) }

			_, err := tx.Begin(ctx, name, w.Server, nil)
			try("begin from", parley.ErrUnknownService, err)
			if name != "" { // which stands for the default
				_, err = tx.Begin(ctx, w.Client, w.Server, &parley.DialogOptions{Contract: name})
				try("begin on", parley.ErrUnknownContract, err)
				try("send", parley.ErrUnknownType, tx.Conversation(h).Send(ctx, name, nil))
				_, err = tx.Post(ctx, w.SQ, parley.Payload{Type: name})
				try("post", parley.ErrUnknownType, err)
			}
			_, err = tx.Receive(ctx, name, nil)
			try("receive from", parley.ErrUnknownQueue, err)
			_, err = tx.GetGroup(ctx, name, nil)
			try("get a group of", parley.ErrUnknownQueue, err)
			_, err = tx.Post(ctx, name, parley.Payload{})
			try("post to", parley.ErrUnknownQueue, err)
			try("cancel in", parley.ErrUnknownQueue, tx.CancelPost(ctx, name, parley.NewID()))

			return tx.Conversation(h).Send(ctx, w.Ask, []byte("usable"))
		})
		quoted := fmt.Sprintf("%q", name)
		try := func(what string, err error) { dlgNames(e, what+" "+quoted, err, parley.ErrUnknownQueue, quoted) }
		_, err := w.B.Queues(e.Ctx, name)
		try("tell the state of", err)
		_, err = w.B.Receive(e.Ctx, name, &parley.ReceiveOptions{Wait: 5 * time.Second})
		try("receive from", err)
		_, err = w.B.Post(e.Ctx, name, parley.Payload{})
		try("post to", err)
		try("enable", w.B.EnableQueue(e.Ctx, name))
		try("disable", w.B.DisableQueue(e.Ctx, name))
		_, err = w.B.Groups(e.Ctx, name, 0, 1)
		try("groups of", err)
		_, err = w.B.PostStatus(e.Ctx, name, parley.NewID())
		try("status of a post in", err)
		if name != "" { // which stands for all
			_, err = w.B.DeadLetters(e.Ctx, name, 1)
			try("dead letters of", err)
		}
	}
	// The broker's own types cannot be sent.
	w.Tx(func(tx *parley.Tx) error {
		for _, typ := range []string{parley.EndDialog, parley.ErrorType, parley.DialogTimer} {
			dlgNames(e, "send", tx.Conversation(h).Send(e.Ctx, typ, nil), parley.ErrUnknownType, typ)
		}
		c, err := tx.Begin(e.Ctx, w.Client, far, &parley.DialogOptions{Contract: w.Contract})
		if err != nil {
			return err
		}
		dlgNames(e, "promote at a service", c.Promote(e.Ctx), parley.ErrUnknownService, far)
		return c.End(e.Ctx)
	})
	dlgBodies(w, w.SQ, nil, "0", "usable", "usable", "usable", "usable", "usable", "usable")
	dlgQuiet(w, w.SQ, w.CQ)
}

// B03

// inpRefused ends the check unless a definition is refused and nothing of it is
// there afterwards. It also defines an object that would be right.
func inpRefused(w *World, what string, c parley.Catalog, want error, name string) {
	before, err := w.B.Catalog(w.Ctx)
	w.Must(err)
	c.Types = append([]parley.MessageType{{Name: w.Name("bystander")}}, c.Types...)
	dlgNames(w.Env, what, w.B.Define(w.Ctx, c), want, name)
	after, err := w.B.Catalog(w.Ctx)
	w.Must(err)
	if after.Version != before.Version {
		dlgFatal(w.Env, "%s: refused, and yet version %d of the catalog became %d", what, before.Version, after.Version)
	}
	if slices.ContainsFunc(after.Types, func(t parley.MessageType) bool { return t.Name == w.Name("bystander") }) {
		dlgFatal(w.Env, "%s: refused, and yet a part of it was defined", what)
	}
}

func checkContradictions(e *Env) {
	w := e.World()
	name := e.Name("new")
	any := []parley.ContractEntry{{Type: w.Any, SentBy: parley.ByAny}}
	for what, c := range map[string]parley.Catalog{
		"a type twice":                        {Types: []parley.MessageType{{Name: name}, {Name: name}}},
		"an unknown validation":               {Types: []parley.MessageType{{Name: name, Validation: "yaml"}}},
		"a Go validation without its name":    {Types: []parley.MessageType{{Name: name, Validation: parley.ValidationFunc}}},
		"a validator without Go validation":   {Types: []parley.MessageType{{Name: name, Validation: parley.ValidationXML, Validator: "x"}}},
		"a validator without any validation":  {Types: []parley.MessageType{{Name: name, Validator: "x"}}},
		"a contract twice":                    {Contracts: []parley.Contract{{Name: name, Messages: any}, {Name: name, Messages: any}}},
		"a contract without messages":         {Contracts: []parley.Contract{{Name: name}}},
		"a contract on which nobody begins":   {Contracts: []parley.Contract{{Name: name, Messages: []parley.ContractEntry{{Type: w.Any, SentBy: parley.ByTarget}}}}},
		"a contract with a type twice":        {Contracts: []parley.Contract{{Name: name, Messages: append(any, any...)}}},
		"a contract with an undefined type":   {Contracts: []parley.Contract{{Name: name, Messages: []parley.ContractEntry{{Type: e.Name("none"), SentBy: parley.ByAny}}}}},
		"a contract with a side unknown":      {Contracts: []parley.Contract{{Name: name, Messages: append([]parley.ContractEntry{{Type: w.Ask, SentBy: "nobody"}}, any...)}}},
		"a contract with no side":             {Contracts: []parley.Contract{{Name: name, Messages: append([]parley.ContractEntry{{Type: w.Ask}}, any...)}}},
		"a queue twice":                       {Queues: []parley.Queue{{Name: name}, {Name: name, Retention: true}}},
		"a queue that keeps for less than no": {Queues: []parley.Queue{{Name: name, KeepProcessed: -1}}},
		"a service twice":                     {Services: []parley.Service{{Name: name, Queue: w.SQ}, {Name: name, Queue: w.CQ}}},
		"a service on no queue":               {Services: []parley.Service{{Name: name}}},
		"a service on an undefined queue":     {Services: []parley.Service{{Name: name, Queue: e.Name("none")}}},
		"a service with an unknown contract":  {Services: []parley.Service{{Name: name, Queue: w.SQ, Contracts: []string{w.Contract, e.Name("none")}}}},
		"a service with promotion below zero": {Services: []parley.Service{{Name: name, Queue: w.SQ, PeerPromotion: -1}}},
		"a service with promotion too high":   {Services: []parley.Service{{Name: name, Queue: w.SQ, PeerPromotion: 256}}},
		"a rule twice":                        {Priorities: []parley.PriorityRule{{Name: name, Local: w.Client, Level: 1}, {Name: name, Local: w.Server, Level: 1}}},
		"a rule with level 0":                 {Priorities: []parley.PriorityRule{{Name: name, Local: w.Client}}},
		"a rule with level 11":                {Priorities: []parley.PriorityRule{{Name: name, Local: w.Client, Level: 11}}},
		"two rules with the same criteria": {Priorities: []parley.PriorityRule{
			{Name: name, Local: w.Client, Contract: w.Contract, Level: 1}, {Name: name + "2", Local: w.Client, Contract: w.Contract, Level: 2}}},
	} {
		inpRefused(w, what, c, parley.ErrContradiction, name)
	}
	for _, own := range []string{parley.Default, parley.EndDialog, parley.ErrorType, parley.DialogTimer} {
		inpRefused(w, "a type with the broker's own name", parley.Catalog{Types: []parley.MessageType{{Name: own}}}, parley.ErrContradiction, own)
	}
	inpRefused(w, "another contract of the name DEFAULT",
		parley.Catalog{Contracts: []parley.Contract{{Name: parley.Default, Messages: any}}}, parley.ErrContradiction, parley.Default)
}

func checkContradictionsStored(e *Env) {
	rule := e.Name("rule")
	w := e.World(func(c *parley.Catalog) {
		c.Priorities = []parley.PriorityRule{{Name: rule, Contract: c.Contracts[0].Name, Remote: c.Services[0].Name, Level: 7}}
	})
	// Whoever contradicts may be another process, which knows only what it reads.
	for _, b := range []*parley.Broker{w.B, e.Broker(nil)} {
		v := &World{Env: e, B: b}
		for what, messages := range map[string][]parley.ContractEntry{
			"a type less": {{Type: w.Ask, SentBy: parley.ByInitiator}},
			"a type more": {{Type: w.Ask, SentBy: parley.ByInitiator}, {Type: w.Tell, SentBy: parley.ByTarget}, {Type: w.Any, SentBy: parley.ByAny}, {Type: parley.Default, SentBy: parley.ByAny}},
			"other sides": {{Type: w.Ask, SentBy: parley.ByAny}, {Type: w.Tell, SentBy: parley.ByTarget}, {Type: w.Any, SentBy: parley.ByAny}},
		} {
			inpRefused(v, "the contract with "+what, parley.Catalog{Contracts: []parley.Contract{{Name: w.Contract, Messages: messages}}}, parley.ErrContradiction, w.Contract)
		}
		inpRefused(v, "the service on another queue", parley.Catalog{Services: []parley.Service{{Name: w.Server, Queue: w.CQ}}}, parley.ErrContradiction, w.Server)
		inpRefused(v, "another rule with the same criteria",
			parley.Catalog{Priorities: []parley.PriorityRule{{Name: rule + "2", Contract: w.Contract, Remote: w.Client, Level: 7}}}, parley.ErrContradiction, rule)
	}
	w.Dialog("0")
	dlgBodies(w, w.SQ, nil, "0")
}

func checkInvalidNames(e *Env) {
	w := e.World()
	any := []parley.ContractEntry{{Type: w.Any, SentBy: parley.ByAny}}
	long := strings.Repeat("ж", parley.MaxName+1)
	for _, name := range []string{"", long, "a\xffb", "a\x00b"} {
		shown := fmt.Sprintf("%.100q", name)
		shown = shown[:len(shown)-1]
		for kind, c := range map[string]parley.Catalog{
			"type":     {Types: []parley.MessageType{{Name: name}}},
			"contract": {Contracts: []parley.Contract{{Name: name, Messages: any}}},
			"queue":    {Queues: []parley.Queue{{Name: name}}},
			"service":  {Services: []parley.Service{{Name: name, Queue: w.SQ}}},
			"rule":     {Priorities: []parley.PriorityRule{{Name: name, Local: w.Client, Level: 1}}},
		} {
			inpRefused(w, fmt.Sprintf("a %s of the name %.20q", kind, name), c, parley.ErrInvalidName, shown)
		}
		w.Tx(func(tx *parley.Tx) error {
			_, err := tx.Begin(e.Ctx, w.Client, name, &parley.DialogOptions{Contract: w.Contract})
			dlgNames(e, fmt.Sprintf("begin to %.20q", name), err, parley.ErrInvalidName, shown)
			return nil
		})
	}
	inpRefused(w, "a contract of the name ANY", parley.Catalog{Contracts: []parley.Contract{{Name: "ANY", Messages: any}}}, parley.ErrInvalidName, "ANY")
	inpRefused(w, "a service of the name ANY", parley.Catalog{Services: []parley.Service{{Name: "ANY", Queue: w.SQ}}}, parley.ErrInvalidName, "ANY")
}

func checkDefineAgain(e *Env) {
	rule := e.Name("rule")
	w := e.World(func(c *parley.Catalog) {
		c.Priorities = []parley.PriorityRule{{Name: rule, Local: c.Services[0].Name, Level: 7}}
	})
	before, err := w.B.Catalog(e.Ctx)
	e.Must(err)
	// The order within a contract has no meaning.
	same := parley.Catalog{
		Types: []parley.MessageType{{Name: w.Tell}, {Name: w.Ask}},
		Contracts: []parley.Contract{{Name: w.Contract, Messages: []parley.ContractEntry{
			{Type: w.Any, SentBy: parley.ByAny}, {Type: w.Ask, SentBy: parley.ByInitiator}, {Type: w.Tell, SentBy: parley.ByTarget},
		}}},
		Queues:     []parley.Queue{{Name: w.SQ}},
		Services:   []parley.Service{{Name: w.Server, Queue: w.SQ, Contracts: []string{w.Contract}}},
		Priorities: []parley.PriorityRule{{Name: rule, Local: w.Client, Level: 7}},
	}
	for _, c := range []parley.Catalog{same, {}} {
		e.Must(w.B.Define(e.Ctx, c))
		if after, err := w.B.Catalog(e.Ctx); err != nil || after.Version != before.Version {
			e.Errorf("the same definition again: version %d of the catalog became %d (%v)", before.Version, after.Version, err)
		}
	}
	w.Dialog("0")
	// What may change, changes; the queue's status is not a definition's to set.
	e.Must(w.B.DisableQueue(e.Ctx, w.SQ))
	changed := parley.Catalog{
		Types:      []parley.MessageType{{Name: w.Ask, Validation: parley.ValidationJSON}},
		Queues:     []parley.Queue{{Name: w.SQ, Retention: true, KeepProcessed: time.Minute}},
		Services:   []parley.Service{{Name: w.Server, Queue: w.SQ, Contracts: []string{w.Contract, parley.Default}, PeerPromotion: 3}},
		Priorities: []parley.PriorityRule{{Name: rule, Remote: w.Client, Level: 2}},
	}
	e.Must(w.B.Define(e.Ctx, changed))
	now, err := e.Broker(nil).Catalog(e.Ctx)
	e.Must(err)
	if !slices.Contains(now.Types, changed.Types[0]) || !slices.Contains(now.Priorities, changed.Priorities[0]) {
		e.Errorf("the changed type and rule are not in the catalog")
	}
	if !slices.ContainsFunc(now.Queues, func(q parley.Queue) bool {
		return q.Name == w.SQ && q.ID != 0 && q.Disabled && q.Retention && q.KeepProcessed == time.Minute
	}) {
		e.Errorf("the queue is not in the catalog as disabled, with what was changed")
	}
	if !slices.ContainsFunc(now.Services, func(s parley.Service) bool {
		return s.Name == w.Server && s.PeerPromotion == 3 && slices.Equal(s.Contracts, changed.Services[0].Contracts)
	}) {
		e.Errorf("the changed service is not in the catalog")
	}
	e.Must(w.B.EnableQueue(e.Ctx, w.SQ))
	e.Must(w.B.EnableQueue(e.Ctx, w.SQ)) // again is no error
	dlgBodies(w, w.SQ, nil, "0")
}

// B04

func checkTooLarge(e *Env) {
	w := e.WorldOn(e.Broker(&parley.Options{MaxBody: 10}))
	h := w.Dialog("0")
	other := w.Dialog("a")
	eleven := make([]byte, 11)
	w.Tx(func(tx *parley.Tx) error {
		c := tx.Conversation(h)
		small, large := parley.Payload{Type: w.Ask, Body: []byte("small")}, parley.Payload{Type: w.Ask, Body: eleven}
		e.Is(c.Send(e.Ctx, w.Ask, eleven), parley.ErrTooLarge)
		e.Is(tx.SendBatch(e.Ctx, []parley.Sending{{To: tx.Conversation(other), Payload: small}, {To: c, Payload: large}}), parley.ErrTooLarge)
		_, err := tx.Post(e.Ctx, w.SQ, parley.Payload{Body: eleven})
		e.Is(err, parley.ErrTooLarge)
		_, err = tx.PostBatch(e.Ctx, w.SQ, []parley.Posting{{Payload: parley.Payload{Body: []byte("small")}}, {Payload: parley.Payload{Body: eleven}}})
		e.Is(err, parley.ErrTooLarge)
		return c.Send(e.Ctx, w.Ask, make([]byte, 10)) // as large as it may be
	})
	for _, d := range []parley.ID{h, other} {
		dlgState(w, d, parley.Conversing)
	}
	got := map[parley.ID]int{}
	for _, m := range dlgTake(w, w.SQ, 3, nil) {
		got[m.Conversation]++
	}
	if got[dlgPeer(w, h)] != 2 || got[dlgPeer(w, other)] != 1 {
		e.Errorf("received %v messages, want two and one", got)
	}
	dlgQuiet(w, w.SQ, w.CQ)
}

func checkInvalidPosts(e *Env) {
	w, xml, json, fn, empty := dlgChecked(e)
	for typ, body := range map[string]string{xml: "<a>", json: "{", fn: "7", empty: "x"} {
		w.Tx(func(tx *parley.Tx) error {
			_, err := tx.Post(e.Ctx, w.SQ, parley.Payload{Type: typ, Body: []byte(body)}, parley.Unique(typ), parley.Key("k"))
			dlgNames(e, "post", err, parley.ErrInvalidBody, typ)
			_, err = tx.PostBatch(e.Ctx, w.SQ, []parley.Posting{
				{Payload: parley.Payload{Type: w.Any, Body: []byte("never")}},
				{Payload: parley.Payload{Type: typ, Body: []byte(body)}},
			})
			dlgNames(e, "post a batch", err, parley.ErrInvalidBody, typ)
			return nil
		})
	}
	dlgQuiet(w, w.SQ)
	dlgDepth(w, w.SQ, 0)
	_, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Type: xml, Body: []byte("<a/>")}, parley.Unique(xml))
	e.Must(err)
	dlgBodies(w, w.SQ, nil, "<a/>") // the refused one did not use up the unique value
}

func checkNoValidator(e *Env) {
	w, _, _, fn, _ := dlgChecked(e)
	v := *w
	v.B = e.Broker(nil) // this process has no validator
	h := w.Dialog("0")
	v.Tx(func(tx *parley.Tx) error {
		c := tx.Conversation(h)
		payload := parley.Payload{Type: fn, Body: []byte("6")}
		dlgNames(e, "send", c.Send(e.Ctx, fn, []byte("6")), parley.ErrNoValidator, fn)
		dlgNames(e, "send without a body", c.Send(e.Ctx, fn, nil), parley.ErrNoValidator, fn)
		err := tx.SendBatch(e.Ctx, []parley.Sending{{To: c, Payload: parley.Payload{Type: w.Ask}}, {To: c, Payload: payload}})
		dlgNames(e, "send a batch", err, parley.ErrNoValidator, fn)
		_, err = tx.Post(e.Ctx, w.SQ, payload)
		dlgNames(e, "post", err, parley.ErrNoValidator, fn)
		return c.Send(e.Ctx, w.Ask, []byte("1"))
	})
	dlgState(w, h, parley.Conversing) // it is this process's trouble, not the conversation's
	w.Send(h, fn, "6")
	dlgBodies(w, w.SQ, nil, "0", "1", "6")
	dlgQuiet(w, w.SQ, w.CQ)
}

// B08

func checkDisabledQueue(e *Env) {
	w := e.World()
	h := w.Dialog("0", "1")
	_, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte("post")})
	e.Must(err)
	e.Must(w.B.DisableQueue(e.Ctx, w.SQ))
	e.Must(w.B.DisableQueue(e.Ctx, w.SQ)) // again is no error
	server := dlgPeer(w, h)
	for _, b := range []*parley.Broker{w.B, e.Broker(nil)} {
		for _, o := range []parley.ReceiveOptions{{}, {Wait: 5 * time.Second}, {Group: server}, {Conversation: server},
			{Choose: func(context.Context, iter.Seq[parley.GroupStatus]) (parley.ID, bool) { return server, true }}, {Release: parley.BeforeWork}} {
			for _, hold := range e.Holds() {
				o.Hold = hold
				_, err := b.Receive(e.Ctx, w.SQ, &o)
				dlgNames(e, "receive", err, parley.ErrQueueDisabled, w.SQ)
			}
		}
		e.Must(b.InTx(e.Ctx, func(tx *parley.Tx) error {
			_, err := tx.Receive(e.Ctx, w.SQ, nil)
			dlgNames(e, "receive in a transaction", err, parley.ErrQueueDisabled, w.SQ)
			_, err = tx.GetGroup(e.Ctx, w.SQ, nil)
			dlgNames(e, "get a group", err, parley.ErrQueueDisabled, w.SQ)
			_, err = tx.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte("never")})
			dlgNames(e, "post", err, parley.ErrQueueDisabled, w.SQ)
			_, err = tx.PostBatch(e.Ctx, w.SQ, []parley.Posting{{}, {Options: []parley.PostOption{parley.Key("k")}}, {Options: []parley.PostOption{parley.After(time.Hour)}}})
			dlgNames(e, "post a batch", err, parley.ErrQueueDisabled, w.SQ)
			return nil
		}))
	}
	w.Send(h, w.Ask, "2")
	dlgDepth(w, w.SQ, 3)
	// The other queue is not touched by it.
	w.Send(server, w.Tell, "answer")
	dlgBodies(w, w.CQ, nil, "answer")

	e.Must(w.B.EnableQueue(e.Ctx, w.SQ))
	var got []string
	for _, m := range dlgTake(w, w.SQ, 4, nil) {
		got = append(got, string(m.Body))
	}
	if i := slices.Index(got, "post"); i >= 0 {
		got = slices.Delete(got, i, i+1)
	}
	dlgSame(e, "received after the queue was enabled", got, []string{"0", "1", "2"})
	dlgQuiet(w, w.SQ)
}

func checkDisabledWaiting(e *Env) {
	// The receivers of the broker that disables are told; they would look again
	// only in a minute. Those of others look often.
	w := e.WorldOn(e.Broker(&parley.Options{Poll: time.Minute}))
	other := e.Broker(&parley.Options{Poll: 20 * time.Millisecond})
	var waits []func() error
	for _, b := range []*parley.Broker{w.B, other} {
		for _, hold := range e.Holds() {
			waits = append(waits, dlgGo(e, "a receiver that waits", func() error {
				_, err := b.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Wait: -1, Hold: hold})
				return err
			}))
		}
		if e.HoldsInTransaction() {
			waits = append(waits, dlgGo(e, "a transaction that waits", func() error {
				return b.InTx(e.Ctx, func(tx *parley.Tx) error {
					_, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Wait: -1})
					return err
				})
			}))
		}
	}
	time.Sleep(50 * time.Millisecond) // they wait by now; if not, they are refused at once
	start := time.Now()
	e.Must(w.B.DisableQueue(e.Ctx, w.SQ))
	for _, wait := range waits {
		dlgNames(e, "a receiver that waits", wait(), parley.ErrQueueDisabled, w.SQ)
	}
	if took := time.Since(start); took > 5*time.Second {
		e.Errorf("the last receiver heard of it after %v", took)
	}
	w.Dialog("0")
	e.Must(w.B.EnableQueue(e.Ctx, w.SQ))
	dlgBodies(w, w.SQ, nil, "0")
}

func checkDisabledInHand(e *Env) {
	w := e.World()
	for _, hold := range e.Holds() {
		// What is in hand may be settled either way.
		w.Dialog("ack")
		w.Dialog("roll back")
		first := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		second := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		e.Must(w.B.DisableQueue(e.Ctx, w.SQ))
		e.Must(first.Ack(e.Ctx))
		e.Must(second.Rollback(e.Ctx))
		_, err := w.B.Receive(e.Ctx, w.SQ, nil)
		e.Is(err, parley.ErrQueueDisabled)
		e.Must(w.B.EnableQueue(e.Ctx, w.SQ))
		dlgBodies(w, w.SQ, nil, "roll back")
	}
	w.Nothing(w.SQ, nil)

	if !e.HoldsInTransaction() {
		return
	}
	// What is on its way when the queue is disabled is not lost.
	h := w.Dialog("0")
	other := e.Broker(nil)
	var wait func() error
	e.Must(other.InTx(e.Ctx, func(tx *parley.Tx) error {
		if err := tx.Conversation(h).Send(e.Ctx, w.Ask, []byte("1")); err != nil {
			return err
		}
		wait = dlgGo(e, "disable while a sender is at work", func() error { return w.B.DisableQueue(e.Ctx, w.SQ) })
		time.Sleep(20 * time.Millisecond)
		return nil
	}))
	e.Must(wait())
	w.Send(h, w.Ask, "2")
	e.Must(w.B.EnableQueue(e.Ctx, w.SQ))
	dlgBodies(w, w.SQ, nil, "0", "1", "2")
	dlgQuiet(w, w.SQ)
}

// B10

// inpHostile are texts that a careless store takes for something else.
var inpHostile = []string{
	`'; DROP TABLE messages; --`, `"; SELECT 1; /*`, "`x`", `\`, `\'`, `\\x00`, `''''`, `%s %d %!`, `100%_`, `$1 ?1 :name @p1`, `{{.}} ${HOME} $(id)`,
	"\n", "\r\n\t", "\x01\x02\x1b[2J\x7f", "\u200b\u202e\ufeff", "🦊\U0010ffff", "\u2028\u0085", " lead and trail ", "NULL", "null", "0", "true", `<a b="c">&amp;</a>`, "][)(", "a,b;c|d", "E'\\n'", "N'x'", "0x00",
}

func checkHostileNames(e *Env) {
	b := e.Broker(nil)
	other := e.Broker(&parley.Options{NoDuties: true})
	w := &World{Env: e, B: b}
	var c parley.Catalog
	name := func(kind string, i int) string { return e.Name(kind) + inpHostile[i] }
	for i := range inpHostile {
		c.Types = append(c.Types, parley.MessageType{Name: name("t", i), Validation: parley.ValidationFunc, Validator: name("v", i)})
		c.Contracts = append(c.Contracts, parley.Contract{Name: name("k", i), Messages: []parley.ContractEntry{{Type: name("t", i), SentBy: parley.ByAny}}})
		c.Queues = append(c.Queues, parley.Queue{Name: name("q", i)})
		c.Services = append(c.Services, parley.Service{Name: name("s", i), Queue: name("q", i), Contracts: []string{name("k", i)}})
		c.Priorities = append(c.Priorities, parley.PriorityRule{Name: name("r", i), Contract: name("k", i), Local: name("s", i), Remote: name("s", i), Level: 9})
		b.RegisterValidator(name("v", i), func([]byte) error { return nil })
	}
	e.Must(b.Define(e.Ctx, c))
	for i, s := range inpHostile {
		h := func() (h parley.ID) {
			w.Tx(func(tx *parley.Tx) error {
				conv, err := tx.Begin(e.Ctx, name("s", i), name("s", i), &parley.DialogOptions{Contract: name("k", i)})
				if err != nil {
					return err
				}
				h = conv.Handle()
				return conv.Send(e.Ctx, name("t", i), []byte(s))
			})
			return h
		}()
		d, err := other.Receive(e.Ctx, name("q", i), nil)
		if err != nil {
			e.Fatalf("queue %q: %v", name("q", i), err)
		}
		if len(d.Messages) != 1 {
			e.Fatalf("queue %q: received %d messages, want one", name("q", i), len(d.Messages))
		}
		m := d.Messages[0]
		e.Must(d.Ack(e.Ctx))
		if m.Type != name("t", i) || m.Contract != name("k", i) || m.Service != name("s", i) || m.Far != name("s", i) || m.Priority != 9 || string(m.Body) != s {
			e.Errorf("%q: received type %q, contract %q, from %q to %q, priority %d, body %q", s, m.Type, m.Contract, m.Far, m.Service, m.Priority, m.Body)
		}
		list, err := other.Conversations(e.Ctx, parley.ConversationQuery{Handle: h})
		e.Must(err)
		for _, side := range list {
			if side.Service != name("s", i) || side.Far != name("s", i) || side.Contract != name("k", i) {
				e.Errorf("%q: the side is listed with service %q, far service %q, contract %q", s, side.Service, side.Far, side.Contract)
			}
		}
	}
	for _, i := range []int{0, 1, 3, 12} { // a definition that replaces another finds it by its name
		e.Must(b.DisableQueue(e.Ctx, name("q", i)))
		e.Must(b.EnableQueue(e.Ctx, name("q", i)))
	}
	now, err := other.Catalog(e.Ctx)
	e.Must(err)
	for i := range inpHostile {
		if !slices.Contains(now.Types, c.Types[i]) || !slices.Contains(now.Priorities, c.Priorities[i]) {
			e.Errorf("%q: the type or the rule did not come back as it was", inpHostile[i])
		}
	}

	// As the name of a service that is not there.
	ghost := e.Name("ghost'\"\\\n") + inpHostile[0]
	w.Tx(func(tx *parley.Tx) error {
		conv, err := tx.Begin(e.Ctx, name("s", 0), ghost, &parley.DialogOptions{Contract: name("k", 0)})
		if err != nil {
			return err
		}
		if err := conv.Send(e.Ctx, name("t", 0), []byte("x")); err != nil {
			return err
		}
		if ep, err := conv.Status(e.Ctx); err != nil || ep.Far != ghost {
			e.Errorf("the far service is %+v (%v), want %q", ep, err, ghost)
		}
		return conv.EndWithError(e.Ctx, 1, "not needed")
	})
}

func checkHostileBodies(e *Env) {
	w := e.World()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	bodies := append(slices.Clone(inpHostile), string(all), "\x00", "\x00\x00a", "\xff\xfe", "a\xc3", strings.Repeat("'", 5000))
	h := w.Dialog()
	for _, body := range bodies {
		w.Send(h, w.Ask, body)
	}
	dlgBodies(w, w.SQ, nil, bodies...)
	for _, body := range bodies {
		_, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte(body)})
		e.Must(err)
		dlgBodies(w, w.SQ, nil, body)
	}
	// What was sent is not what the caller does with its slice afterwards.
	body := []byte("before")
	w.Tx(func(tx *parley.Tx) error {
		if err := tx.Conversation(h).Send(e.Ctx, w.Ask, body); err != nil {
			return err
		}
		copy(body, "after!")
		return nil
	})
	dlgBodies(w, w.SQ, nil, "before")
}

func checkHostileValues(e *Env) {
	w := e.World()
	for _, s := range inpHostile {
		_, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte(s)}, parley.Key(s), parley.Unique(s))
		if err != nil {
			e.Fatalf("post with key %q: %v", s, err)
		}
		if _, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte("again")}, parley.Unique(s)); err != nil {
			e.Fatalf("post again with the unique value %q: %v", s, err)
		}
		m := dlgBodies(w, w.SQ, nil, s)[0]
		if m.Key != s {
			e.Errorf("the key %q came back as %q", s, m.Key)
		}
		key := e.Name("once") + s
		w.Tx(func(tx *parley.Tx) error {
			for _, want := range []bool{true, false} {
				if fresh, err := tx.Once(e.Ctx, key); err != nil || fresh != want {
					e.Errorf("once %q: new is %t (%v), want %t", key, fresh, err, want)
				}
			}
			return nil
		})
	}
	w.Tx(func(tx *parley.Tx) error {
		for _, bad := range append(slices.Clone(inpHostile), "a b", "A", "1a", "", "é", strings.Repeat("a", 61)) {
			if bad == "null" || bad == "true" {
				continue // words like any other
			}
			if err := tx.Savepoint(e.Ctx, bad); !errors.Is(err, parley.ErrInvalidName) {
				e.Errorf("savepoint %q: the error is %v, want one that is %q", bad, err, parley.ErrInvalidName)
			}
		}
		for _, word := range []string{"select", "table", "to", "null", "user", "transaction", "_", strings.Repeat("a", 60)} {
			if err := errors.Join(tx.Savepoint(e.Ctx, word), tx.RollbackTo(e.Ctx, word), tx.Release(e.Ctx, word)); err != nil {
				return fmt.Errorf("savepoint %q: %w", word, err)
			}
		}
		return nil
	})
	dlgQuiet(w, w.SQ)
	// Zero bytes are refused or kept, never changed.
	const zero = "a\x00b"
	if _, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{}, parley.Key(zero), parley.Unique(zero)); err == nil {
		if m := dlgTake(w, w.SQ, 1, nil)[0]; m.Key != zero {
			e.Errorf("the key %q came back as %q", zero, m.Key)
		}
	} else if !errors.Is(err, parley.ErrInvalidOption) {
		e.Errorf("the key %q: the error is %v, want none or one that is %q", zero, err, parley.ErrInvalidOption)
	}
}

func checkHostileLocks(e *Env) {
	session := dlgSession(e, e.Handle(), "o'\"\\\n🦊")
	defer session.Close(e.Ctx)
	for _, s := range inpHostile {
		name := e.Name("lock") + s
		if _, err := session.Lock(e.Ctx, name, backend.LockX, 0); err != nil {
			e.Fatalf("lock %q: %v", name, err)
		}
		mode, err := session.LockMode(e.Ctx, name)
		if err != nil || mode != backend.LockX {
			e.Errorf("lock %q is held as %s (%v), want %s", name, mode, err, backend.LockX)
		}
		e.Must(session.Unlock(e.Ctx, name))
	}
}

func checkHostileTexts(e *Env) {
	w := e.World()
	owner := "own'er \"of\" \\ 🦊\n; --"
	b := e.Broker(&parley.Options{Owner: owner})
	for i, s := range inpHostile {
		if strings.ContainsAny(s, "\x01\uffff") || strings.TrimSpace(s) == "" {
			continue // not a text in XML, or not a text at all
		}
		h := w.Dialog("0")
		server := dlgPeer(w, h)
		dlgEndError(w, server, 1+i, s)
		ep := dlgStatus(w, h)
		if ep.Error == nil || ep.Error.Text != s || ep.Error.Code != 1+i {
			e.Errorf("the side is in error %+v, want %d %q", ep.Error, 1+i, s)
		}
		if m := dlgError(w, w.CQ, 1+i); m.Err().Text != s {
			e.Errorf("the Error says %q, want %q", m.Err().Text, s)
		}
		dlgEnd(w, h)
	}
	w.Drain(w.SQ)
	w.Dialog("0")
	for _, s := range inpHostile {
		d, err := b.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Hold: parley.HoldLease})
		e.Must(err)
		list, err := w.B.Groups(e.Ctx, w.SQ, 0, 10)
		e.Must(err)
		if len(list) != 1 || list[0].Owner != owner || list[0].State != "held" {
			e.Errorf("the group in hand is listed as %+v, want it held by %q", list, owner)
		}
		e.Must(d.Park(e.Ctx, errors.New("reason "+s)))
		list, err = w.B.Groups(e.Ctx, w.SQ, 0, 10)
		e.Must(err)
		if len(list) != 1 || list[0].Reason != "reason "+s || list[0].State != "parked" {
			e.Errorf("the parked group is listed as %+v, want the reason %q", list, "reason "+s)
		}
		e.Must(w.B.Unpark(e.Ctx, d.Group))
	}
	// A reason may quote a body, or say nothing.
	for _, s := range []string{"a\x00b", "a\xffb", ""} {
		for _, hold := range e.Holds() {
			d, err := b.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Hold: hold})
			e.Must(err)
			if err := d.Park(e.Ctx, errors.New(s)); err != nil {
				e.Fatalf("park with the reason %q: %v", s, err)
			}
			w.Nothing(w.SQ, nil)
			e.Must(w.B.Unpark(e.Ctx, d.Group))
		}
	}
	dlgBodies(w, w.SQ, nil, "0")
}

// B11

func checkBrokerOptions(e *Env) {
	for name, o := range map[string]parley.Options{
		"Lease":      {Lease: 99 * time.Millisecond},
		"Lease ":     {Lease: -time.Second},
		"Poll":       {Poll: time.Microsecond},
		"Poll ":      {Poll: -time.Second},
		"GroupWait":  {GroupWait: -1},
		"KeepClosed": {KeepClosed: -1},
		"MaxBody":    {MaxBody: -1},
	} {
		b, err := parley.New(e.Ctx, e.Handle(), &o)
		if b != nil {
			b.Close()
		}
		dlgNames(e, fmt.Sprintf("new broker with %+v", o), err, parley.ErrInvalidOption, strings.TrimSpace(name))
	}
	_, err := parley.New(e.Ctx, nil, nil)
	e.Is(err, parley.ErrInvalidOption)
}

func checkReceiveOptions(e *Env) {
	w := e.World()
	w.Dialog("0")
	id := parley.NewID()
	choose := func(context.Context, iter.Seq[parley.GroupStatus]) (parley.ID, bool) { return parley.ID{}, true }
	wrong := []parley.ReceiveOptions{
		{Group: id, Conversation: id}, {Group: id, Choose: choose}, {Conversation: id, Choose: choose}, {Choose: choose},
		{MaxMessages: -1}, {MaxBytes: -1}, {Hold: -1}, {Hold: parley.HoldLease + 1}, {Release: -1}, {Release: parley.BeforeWork + 1},
		{Lease: -1}, {Lease: time.Millisecond}, {Hold: parley.HoldLease, Lease: 49 * time.Millisecond},
	}
	if !e.HoldsInTransaction() {
		wrong = append(wrong, parley.ReceiveOptions{Hold: parley.HoldTransaction})
	}
	for _, o := range wrong {
		o.Wait = 5 * time.Second
		_, err := w.B.Receive(e.Ctx, w.SQ, &o)
		if !errors.Is(err, parley.ErrInvalidOption) {
			e.Errorf("receive with %+v: the error is %v, want one that is %q", o, err, parley.ErrInvalidOption)
		}
		o.Wait = 0
		w.Tx(func(tx *parley.Tx) error {
			_, err := tx.Receive(e.Ctx, w.SQ, &o)
			if !errors.Is(err, parley.ErrInvalidOption) {
				e.Errorf("receive in a transaction with %+v: the error is %v, want one that is %q", o, err, parley.ErrInvalidOption)
			}
			_, err = tx.GetGroup(e.Ctx, w.SQ, &o)
			if !errors.Is(err, parley.ErrInvalidOption) {
				e.Errorf("get a group with %+v: the error is %v, want one that is %q", o, err, parley.ErrInvalidOption)
			}
			return nil
		})
	}
	for _, hold := range e.Holds() {
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		for _, after := range []time.Duration{0, -time.Second} {
			e.Is(d.Defer(e.Ctx, after), parley.ErrInvalidOption)
		}
		e.Must(d.Rollback(e.Ctx)) // which shows that it was not settled before
	}
	dlgBodies(w, w.SQ, nil, "0")
}

func checkOtherOptions(e *Env) {
	w := e.World(func(c *parley.Catalog) { c.Services[1].PeerPromotion = 255 })
	h := w.Dialog("0")
	group := dlgStatus(w, h).Group
	big := strings.Repeat("x", 513)
	w.Tx(func(tx *parley.Tx) error {
		bad := func(what string, err error) {
			if !errors.Is(err, parley.ErrInvalidOption) {
				e.Errorf("%s: the error is %v, want one that is %q", what, err, parley.ErrInvalidOption)
			}
		}
		for what, o := range map[string]parley.DialogOptions{
			"a lifetime below zero":  {Lifetime: -1},
			"both kinds of relation": {RelatedConversation: h, RelatedGroup: group},
		} {
			o.Contract = w.Contract
			_, err := tx.Begin(e.Ctx, w.Client, w.Server, &o)
			bad("begin with "+what, err)
		}
		for what, o := range map[string][]parley.PostOption{
			"no key":                  {parley.Key("")},
			"a key that is too long":  {parley.Key(big)},
			"a key that is no text":   {parley.Key("\xff")},
			"no unique value":         {parley.Unique("")},
			"a value too long":        {parley.Unique(big)},
			"a value that is no text": {parley.Unique("a\xc3")},
			"a delay below zero":      {parley.After(-1)},
			"priority 0":              {parley.Priority(0)},
			"priority 11":             {parley.Priority(11)},
			"priority -1":             {parley.Priority(-1)},
			"a delay and a time":      {parley.After(time.Second), parley.At(time.Now().Add(time.Hour))},
			"one wrong among several": {parley.Key("a"), parley.Priority(0), parley.After(time.Second)},
		} {
			_, err := tx.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte("never")}, o...)
			bad("post with "+what, err)
			_, err = tx.PostBatch(e.Ctx, w.SQ, []parley.Posting{{Payload: parley.Payload{Body: []byte("never")}}, {Options: o}})
			bad("post a batch with "+what, err)
		}
		for _, level := range []int{-1, 256} {
			bad(fmt.Sprintf("promote to level %d", level), tx.Promote(e.Ctx, group, parley.Level(level)))
			bad(fmt.Sprintf("promote the peer to level %d", level), tx.Conversation(h).Promote(e.Ctx, parley.Level(level)))
		}
		bad("set a timer below zero", tx.Conversation(h).SetTimer(e.Ctx, -1))
		return tx.Conversation(h).Send(e.Ctx, w.Ask, []byte("1"))
	})
	var old *parley.Conversation
	w.Tx(func(tx *parley.Tx) error {
		old = tx.Conversation(h)
		return nil
	})
	w.Tx(func(tx *parley.Tx) error { // a conversation is bound to its transaction
		err := tx.SendTo(e.Ctx, []*parley.Conversation{tx.Conversation(h), old}, w.Ask, nil)
		dlgNames(e, "send on another transaction's conversation", err, parley.ErrInvalidOption, h.String())
		return nil
	})
	if list, err := w.B.Conversations(e.Ctx, parley.ConversationQuery{Group: group}); err != nil || len(list) != 1 {
		e.Errorf("the group has %d conversations (%v), want one", len(list), err)
	}
	dlgBodies(w, w.SQ, nil, "0", "1")
	dlgQuiet(w, w.SQ, w.CQ)
}

func checkOperatorOptions(e *Env) {
	w := e.World()
	bad := func(what string, err error) {
		if !errors.Is(err, parley.ErrInvalidOption) {
			e.Errorf("%s: the error is %v, want one that is %q", what, err, parley.ErrInvalidOption)
		}
	}
	for _, n := range []int{-1, 0} {
		_, err := w.B.Groups(e.Ctx, w.SQ, 0, n)
		bad(fmt.Sprintf("list %d groups", n), err)
		_, err = w.B.Withheld(e.Ctx, n)
		bad(fmt.Sprintf("list %d withheld streams", n), err)
		_, err = w.B.DeadLetters(e.Ctx, w.SQ, n)
		bad(fmt.Sprintf("list %d dead letters", n), err)
	}
	_, err := w.B.Groups(e.Ctx, w.SQ, -1, 1)
	bad("list groups from -1 on", err)
	_, err = w.B.Conversations(e.Ctx, parley.ConversationQuery{Limit: -1})
	bad("list -1 conversations", err)
	bad("promote to level 256", w.B.Promote(e.Ctx, parley.NewID(), parley.Level(256)))
}
