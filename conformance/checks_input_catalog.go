package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		check{ID: "B02", Name: "undefined names", Run: checkUndefinedNames},
		check{ID: "B03", Name: "contradictions within a definition", Run: checkContradictions},
		check{ID: "B03", Name: "contradictions with what is stored", Run: checkContradictionsStored},
		check{ID: "B03", Name: "names that cannot be", Run: checkInvalidNames},
		check{ID: "B03", Name: "the same again, and changes that are allowed", Run: checkDefineAgain},
	)
}

// B02

func checkUndefinedNames(e *env) {
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
		_, err := w.B.Admin().Queues(e.Ctx, name)
		try("tell the state of", err)
		_, err = w.B.Receive(e.Ctx, name, &parley.ReceiveOptions{Wait: 5 * time.Second})
		try("receive from", err)
		_, err = w.B.Post(e.Ctx, name, parley.Payload{})
		try("post to", err)
		try("enable", w.B.Admin().EnableQueue(e.Ctx, name))
		try("disable", w.B.Admin().DisableQueue(e.Ctx, name))
		_, err = w.B.Admin().Groups(e.Ctx, name, parley.Place{}, 1)
		try("groups of", err)
		_, err = w.B.PostStatus(e.Ctx, name, parley.NewID())
		try("status of a post in", err)
		if name != "" { // which stands for all
			_, err = w.B.Admin().DeadLetters(e.Ctx, name, parley.Place{}, 1)
			try("dead letters of", err)
		}
	}
	// The broker's own types cannot be sent.
	w.Tx(func(tx *parley.Tx) error {
		for _, typ := range []string{parley.EndDialog, parley.ErrorMessageType, parley.DialogTimer} {
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
func inpRefused(w *world, what string, c parley.Catalog, want error, name string) {
	before, err := w.B.Catalog(w.Ctx)
	w.Must(err)
	c.Types = append([]parley.MessageType{{Name: w.Name("bystander")}}, c.Types...)
	dlgNames(w.env, what, w.B.Define(w.Ctx, c), want, name)
	after, err := w.B.Catalog(w.Ctx)
	w.Must(err)
	if after.Version != before.Version {
		dlgFatal(w.env, "%s: refused, and yet version %d of the catalog became %d", what, before.Version, after.Version)
	}
	if slices.ContainsFunc(after.Types, func(t parley.MessageType) bool { return t.Name == w.Name("bystander") }) {
		dlgFatal(w.env, "%s: refused, and yet a part of it was defined", what)
	}
}

func checkContradictions(e *env) {
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
		"a contract on which no side begins":  {Contracts: []parley.Contract{{Name: name, Messages: []parley.ContractEntry{{Type: w.Any, SentBy: parley.ByTarget}}}}},
		"a contract with a type twice":        {Contracts: []parley.Contract{{Name: name, Messages: append(any, any...)}}},
		"a contract with an undefined type":   {Contracts: []parley.Contract{{Name: name, Messages: []parley.ContractEntry{{Type: e.Name("none"), SentBy: parley.ByAny}}}}},
		"a contract with a side unknown":      {Contracts: []parley.Contract{{Name: name, Messages: append([]parley.ContractEntry{{Type: w.Ask, SentBy: "outsider"}}, any...)}}},
		"a contract with no side":             {Contracts: []parley.Contract{{Name: name, Messages: append([]parley.ContractEntry{{Type: w.Ask}}, any...)}}},
		"a queue twice":                       {Queues: []parley.Queue{{Name: name}, {Name: name, Retention: true}}},
		"a queue that keeps for less than no": {Queues: []parley.Queue{{Name: name, KeepProcessed: -1}}},
		"a service twice":                     {Services: []parley.Service{{Name: name, Queue: w.SQ}, {Name: name, Queue: w.CQ}}},
		"a service on no queue":               {Services: []parley.Service{{Name: name}}},
		"a service on an undefined queue":     {Services: []parley.Service{{Name: name, Queue: e.Name("none")}}},
		"a service with an unknown contract":  {Services: []parley.Service{{Name: name, Queue: w.SQ, Contracts: []string{w.Contract, e.Name("none")}}}},
		"a service with promotion below zero": {Services: []parley.Service{{Name: name, Queue: w.SQ, FarPromotion: -1}}},
		"a service with promotion too high":   {Services: []parley.Service{{Name: name, Queue: w.SQ, FarPromotion: 256}}},
		"a rule twice":                        {Priorities: []parley.PriorityRule{{Name: name, Local: w.Client, Level: 1}, {Name: name, Local: w.Server, Level: 1}}},
		"a rule with level 0":                 {Priorities: []parley.PriorityRule{{Name: name, Local: w.Client}}},
		"a rule with level 11":                {Priorities: []parley.PriorityRule{{Name: name, Local: w.Client, Level: 11}}},
		"two rules with the same criteria": {Priorities: []parley.PriorityRule{
			{Name: name, Local: w.Client, Contract: w.Contract, Level: 1}, {Name: name + "2", Local: w.Client, Contract: w.Contract, Level: 2}}},
	} {
		inpRefused(w, what, c, parley.ErrContradiction, name)
	}
	for _, own := range []string{parley.DefaultType, parley.EndDialog, parley.ErrorMessageType, parley.DialogTimer} {
		inpRefused(w, "a type with the broker's own name", parley.Catalog{Types: []parley.MessageType{{Name: own}}}, parley.ErrContradiction, own)
	}
	inpRefused(w, "another contract of the name DEFAULT",
		parley.Catalog{Contracts: []parley.Contract{{Name: parley.DefaultContract, Messages: any}}}, parley.ErrContradiction, parley.DefaultType)
}

func checkContradictionsStored(e *env) {
	rule := e.Name("rule")
	w := e.World(func(c *parley.Catalog) {
		c.Priorities = []parley.PriorityRule{{Name: rule, Contract: c.Contracts[0].Name, Remote: c.Services[0].Name, Level: 7}}
	})
	// The broker that contradicts may be another process, which knows only what it reads.
	for _, b := range []*parley.Broker{w.B, e.Broker(nil)} {
		v := &world{env: e, B: b}
		for what, messages := range map[string][]parley.ContractEntry{
			"a type less": {{Type: w.Ask, SentBy: parley.ByInitiator}},
			"a type more": {{Type: w.Ask, SentBy: parley.ByInitiator}, {Type: w.Tell, SentBy: parley.ByTarget}, {Type: w.Any, SentBy: parley.ByAny}, {Type: parley.DefaultType, SentBy: parley.ByAny}},
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

func checkInvalidNames(e *env) {
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

func checkDefineAgain(e *env) {
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
	e.Must(w.B.Admin().DisableQueue(e.Ctx, w.SQ))
	changed := parley.Catalog{
		Types:      []parley.MessageType{{Name: w.Ask, Validation: parley.ValidationJSON}},
		Queues:     []parley.Queue{{Name: w.SQ, Retention: true, KeepProcessed: time.Minute}},
		Services:   []parley.Service{{Name: w.Server, Queue: w.SQ, Contracts: []string{w.Contract, parley.DefaultContract}, FarPromotion: 3}},
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
		return s.Name == w.Server && s.FarPromotion == 3 && slices.Equal(s.Contracts, changed.Services[0].Contracts)
	}) {
		e.Errorf("the changed service is not in the catalog")
	}
	e.Must(w.B.Admin().EnableQueue(e.Ctx, w.SQ))
	e.Must(w.B.Admin().EnableQueue(e.Ctx, w.SQ)) // again is no error
	dlgBodies(w, w.SQ, nil, "0")
}
