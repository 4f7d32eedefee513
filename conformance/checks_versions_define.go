package conformance

import (
	"slices"

	"github.com/parleymq/parley"
)

func init() {
	add(
		check{ID: "M03", Name: "two programs with different contracts", Run: checkDefineAdds},
		check{ID: "M04", Name: "an older program defines again", Run: checkDefineReplaced},
		check{ID: "M04", Name: "an older program that changed nothing", Run: checkDefineUnheard},
		check{ID: "M05", Name: "removal", Run: checkUndefine},
	)
}

// replicas are two brokers of different versions of one application, with what they
// define of a service, a type, a queue and a rule.
type replicas struct {
	*world
	old, new *parley.Broker
	service  string
	rule     string
	more     string // a contract
}

func newReplicas(e *env) *replicas {
	r := &replicas{old: e.Broker(nil), new: e.Broker(nil), service: e.Name("replicated"), rule: e.Name("rule"), more: e.Name("more")}
	r.world = e.WorldOn(r.old)
	e.Must(r.old.Define(e.Ctx, parley.Catalog{Contracts: []parley.Contract{
		{Name: r.more, Messages: []parley.ContractEntry{{Type: r.Any, SentBy: parley.ByAny}}},
	}}))
	return r
}

func (r *replicas) catalog(level int, validation parley.Validation, retention bool, contracts ...string) parley.Catalog {
	return parley.Catalog{
		Types:      []parley.MessageType{{Name: r.service, Validation: validation}},
		Queues:     []parley.Queue{{Name: r.service, Retention: retention}},
		Services:   []parley.Service{{Name: r.service, Queue: r.service, Contracts: contracts, FarPromotion: level}},
		Priorities: []parley.PriorityRule{{Name: r.rule, Contract: r.more, Local: r.service, Level: level}},
	}
}

// is compares what is defined.
func (r *replicas) is(when string, level int, validation parley.Validation, retention bool, contracts ...string) {
	c, err := r.new.Catalog(r.Ctx)
	r.Must(err)
	want := r.catalog(level, validation, retention, contracts...)
	for _, t := range c.Types {
		if t.Name == r.service && t != want.Types[0] {
			r.Errorf("%s: the type is %+v, want %+v", when, t, want.Types[0])
		}
	}
	for _, q := range c.Queues {
		if q.Name == r.service && q.Retention != retention {
			r.Errorf("%s: the queue is %+v, want %+v", when, q, want.Queues[0])
		}
	}
	for _, s := range c.Services {
		if s.Name == r.service && (s.FarPromotion != level || !slices.Equal(slices.Sorted(slices.Values(s.Contracts)), slices.Sorted(slices.Values(contracts)))) {
			r.Errorf("%s: the service is %+v, want %+v", when, s, want.Services[0])
		}
	}
	for _, p := range c.Priorities {
		if p.Name == r.rule && p != want.Priorities[0] {
			r.Errorf("%s: the rule is %+v, want %+v", when, p, want.Priorities[0])
		}
	}
}

func checkDefineAdds(e *env) {
	r := newReplicas(e)
	e.Must(r.old.Define(e.Ctx, r.catalog(1, "", false, r.Contract)))
	e.Must(r.new.Define(e.Ctx, r.catalog(1, "", false, r.more)))
	r.is("a second program", 1, "", false, r.Contract, r.more)
	e.Must(r.old.Define(e.Ctx, r.catalog(1, "", false, r.Contract)))
	r.is("the first one again", 1, "", false, r.Contract, r.more)
	e.Must(r.old.Define(e.Ctx, parley.Catalog{}))
	r.is("a program that says nothing", 1, "", false, r.Contract, r.more)
}

func checkDefineReplaced(e *env) {
	r := newReplicas(e)
	first, second := r.catalog(1, "", false, r.Contract), r.catalog(2, parley.ValidationJSON, true, r.Contract, r.more)
	e.Must(r.old.Define(e.Ctx, first))
	e.Must(r.new.Define(e.Ctx, second))
	r.is("a newer program", 2, parley.ValidationJSON, true, r.Contract, r.more)
	before, err := r.new.Catalog(e.Ctx)
	e.Must(err)
	for range 2 {
		e.Must(r.old.Define(e.Ctx, first))
	}
	e.Must(r.new.Define(e.Ctx, second))
	r.is("the older program again", 2, parley.ValidationJSON, true, r.Contract, r.more)
	after, err := r.new.Catalog(e.Ctx)
	e.Must(err)
	if after.Version != before.Version {
		e.Errorf("definitions that change nothing made version %d of version %d", after.Version, before.Version)
	}
	e.Must(r.new.Define(e.Ctx, r.catalog(3, parley.ValidationJSON, true, r.Contract, r.more)))
	r.is("a third program", 3, parley.ValidationJSON, true, r.Contract, r.more)
	e.Must(r.new.Define(e.Ctx, second))
	r.is("the second program again", 3, parley.ValidationJSON, true, r.Contract, r.more)

	e.Must(r.new.Redefine(e.Ctx, first))
	r.is("Redefine", 1, "", false, r.Contract)
	e.Must(r.new.Define(e.Ctx, second))
	r.is("what Redefine has replaced", 1, "", false, r.Contract)
}

// checkDefineUnheard: the older program comes when a newer one has defined already, and
// changes nothing; another change does not make a new one of it.
func checkDefineUnheard(e *env) {
	r := newReplicas(e)
	e.Must(r.new.Define(e.Ctx, r.catalog(1, "", false, r.Contract, r.more)))
	e.Must(r.old.Define(e.Ctx, r.catalog(1, "", false, r.Contract)))
	e.Must(r.new.Define(e.Ctx, r.catalog(2, "", false, r.Contract, r.more)))
	e.Must(r.old.Define(e.Ctx, r.catalog(1, "", false, r.Contract)))
	r.is("an older program that changed nothing", 2, "", false, r.Contract, r.more)
}

func checkUndefine(e *env) {
	r := newReplicas(e)
	defined := r.catalog(1, "", false, r.Contract, r.more)
	e.Must(r.old.Define(e.Ctx, defined))
	more := parley.Catalog{Contracts: []parley.Contract{{Name: r.more}}}
	e.Is(r.new.Undefine(e.Ctx, more), parley.ErrContradiction)
	e.Is(r.new.Undefine(e.Ctx, parley.Catalog{Types: []parley.MessageType{{Name: r.Any}}}), parley.ErrContradiction)
	e.Is(r.new.Undefine(e.Ctx, parley.Catalog{Queues: []parley.Queue{{Name: r.service}}}), parley.ErrContradiction)
	r.is("what is referred to", 1, "", false, r.Contract, r.more)

	e.Must(r.new.Undefine(e.Ctx, allBut(r, more)))
	gone := func(when string) {
		c, err := r.new.Catalog(e.Ctx)
		e.Must(err)
		left := slices.ContainsFunc(c.Services, func(s parley.Service) bool { return s.Name == r.service }) ||
			slices.ContainsFunc(c.Types, func(t parley.MessageType) bool { return t.Name == r.service }) ||
			slices.ContainsFunc(c.Contracts, func(k parley.Contract) bool { return k.Name == r.more }) ||
			slices.ContainsFunc(c.Priorities, func(p parley.PriorityRule) bool { return p.Name == r.rule })
		if left {
			e.Errorf("%s: something of what was removed is there", when)
		}
	}
	gone("Undefine")
	e.Must(r.new.Undefine(e.Ctx, allBut(r, more)))
	e.Must(r.old.Define(e.Ctx, defined))
	gone("an older program")
	e.Must(r.new.Define(e.Ctx, r.catalog(2, "", false, r.Contract)))
	r.is("a newer program", 2, "", false, r.Contract)
}

// allBut names all of the replicas' objects but the queue, and what is in c.
func allBut(r *replicas, c parley.Catalog) parley.Catalog {
	c.Types = []parley.MessageType{{Name: r.service}}
	c.Services = []parley.Service{{Name: r.service}}
	c.Priorities = []parley.PriorityRule{{Name: r.rule}}
	return c
}
