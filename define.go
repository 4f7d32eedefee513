package parley

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parleymq/parley/backend"
)

// defining is a definition under way: what is given, as far as it is to be heeded,
// beside what is defined.
type defining struct {
	now    *catalogView
	all    bool // earlier definitions and shorter lists count, too
	merged Catalog
	given  Catalog // without what is left as it is
	out    change  // what has to be stored
	dirty  bool
	seen   map[backend.Object]bool
	past   map[backend.Object][]string // digests of each object's definitions, the last one in force
	left   []string                    // objects that are left as they are
}

func newDefining(now *catalogView, past []backend.Definition, all bool) *defining {
	d := &defining{
		now: now, all: all, merged: *now.catalog,
		seen: map[backend.Object]bool{}, past: map[backend.Object][]string{},
	}
	for _, x := range past {
		d.past[x.Object] = append(d.past[x.Object], x.Digest)
	}
	return d
}

// fresh checks a name that is given, which must not be given twice.
func (d *defining) fresh(kind backend.ObjectKind, name string) error {
	says := kindText(kind)
	if err := checkName(says, name); err != nil {
		return err
	}
	o := backend.Object{Kind: kind, Name: name}
	if d.seen[o] {
		return contradiction(says, name, "it is defined twice")
	}
	d.seen[o] = true
	return nil
}

func kindText(kind backend.ObjectKind) string {
	if kind == backend.ObjectType {
		return "message type"
	}
	return string(kind)
}

// accept decides whether a definition that differs from the current one counts, and if so records
// it in the history. The digest is computed from given. The stored definition is old, nil if there
// is none.
func (d *defining) accept(kind backend.ObjectKind, name string, given, old any) bool {
	o := backend.Object{Kind: kind, Name: name}
	past, sum := d.past[o], digest(given)
	if !d.all && slices.Contains(past, sum) && past[len(past)-1] != sum {
		d.left = append(d.left, fmt.Sprintf("%s %q", kindText(kind), name))
		return false
	}
	d.dirty = true
	d.record(o, sum, old)
	return true
}

// record adds a definition to the history, unless it is the last one there. What was
// defined before there was a history comes before it.
func (d *defining) record(o backend.Object, sum string, old any) {
	past := d.past[o]
	if len(past) == 0 && old != nil {
		d.out.History = append(d.out.History, backend.Definition{Object: o, Digest: digest(old)})
	}
	if len(past) == 0 || past[len(past)-1] != sum {
		d.out.History = append(d.out.History, backend.Definition{Object: o, Digest: sum})
	}
}

// note records a definition of a service that changes nothing, because it says less than earlier
// definitions. When a later definition changes the service, the recorded one counts as replaced.
func (d *defining) note(given, old Service) {
	o := backend.Object{Kind: backend.ObjectService, Name: given.Name}
	past, sum := d.past[o], digest(given)
	if len(past) == 0 && sum == digest(old) || slices.Contains(past, sum) {
		return
	}
	d.dirty = true
	d.record(o, sum, old)
}

// digest is the same for definitions that mean the same.
func digest(definition any) string {
	text, err := json.Marshal(definition)
	if err != nil {
		panic(err) // there is nothing in it but texts and numbers
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// changes checks a definition against itself and against what is defined, and
// returns what has to be stored, nil for nothing.
func (d *defining) changes(c Catalog) (*change, error) {
	for _, step := range []func(Catalog) error{d.types, d.contracts, d.queues, d.services, d.priorities} {
		if err := step(c); err != nil {
			return nil, err
		}
	}
	more, err := recycling(viewOf(&d.merged), d.given.Services)
	if err != nil {
		return nil, err
	}
	for _, k := range more {
		d.out.Contracts = slices.DeleteFunc(d.out.Contracts, func(o Contract) bool { return o.Name == k.Name })
		d.out.Contracts, d.dirty = append(d.out.Contracts, k), true
		d.merged.Contracts = append(d.merged.Contracts, k)
	}
	if err := checkReferences(viewOf(&d.merged), d.given); err != nil {
		return nil, err
	}
	if !d.dirty {
		return nil, nil
	}
	return &d.out, nil
}

func (d *defining) types(c Catalog) error {
	for _, t := range c.Types {
		if err := d.fresh(backend.ObjectType, t.Name); err != nil {
			return err
		}
		if err := checkType(t); err != nil {
			return err
		}
		old, ok := d.now.types[t.Name]
		if !ok || old != t {
			if !d.accept(backend.ObjectType, t.Name, t, known(old, ok)) {
				continue
			}
			d.out.Types = append(d.out.Types, t)
		}
		d.merged.Types = append(d.merged.Types, t)
	}
	return nil
}

// known is an object that is stored, as accept takes it.
func known(old any, ok bool) any {
	if !ok {
		return nil
	}
	return old
}

func (d *defining) contracts(c Catalog) error {
	for _, k := range c.Contracts {
		if err := d.fresh(backend.ObjectContract, k.Name); err != nil {
			return err
		}
		old, ok := d.now.contracts[k.Name]
		switch {
		case !ok:
			if !d.accept(backend.ObjectContract, k.Name, sortedEntries(k.Messages), nil) {
				continue
			}
			k.Messages = slices.Clone(k.Messages)
			d.out.Contracts = append(d.out.Contracts, k)
		case !sameEntries(old.Messages, k.Messages):
			return contradiction("contract", k.Name,
				"it is defined with other messages, and contracts cannot change; give the new one another name")
		case !ends(k) || ends(old):
			k = old // EndOfStream is there or not by who sends, not by who defines
		default:
			d.out.Contracts, d.dirty = append(d.out.Contracts, k), true
		}
		d.given.Contracts = append(d.given.Contracts, k)
		d.merged.Contracts = append(d.merged.Contracts, k)
	}
	return nil
}

func (d *defining) queues(c Catalog) error {
	for _, q := range c.Queues {
		if err := d.fresh(backend.ObjectQueue, q.Name); err != nil {
			return err
		}
		if q.KeepProcessed < 0 {
			return contradiction("queue", q.Name, "KeepProcessed is below zero")
		}
		old, ok := d.now.queues[q.Name]
		if ok {
			q.ID, q.Disabled = old.ID, old.Disabled
		}
		if !ok || old != q {
			if !d.accept(backend.ObjectQueue, q.Name, settingsOf(q), known(settingsOf(old), ok)) {
				continue
			}
			d.out.Queues = append(d.out.Queues, q)
		}
		d.merged.Queues = append(d.merged.Queues, q)
	}
	return nil
}

// settingsOf is a queue without what a definition does not set.
func settingsOf(q Queue) Queue {
	q.Disabled = false
	return q
}

func (d *defining) services(c Catalog) error {
	for _, s := range c.Services {
		if err := d.fresh(backend.ObjectService, s.Name); err != nil {
			return err
		}
		if s.FarPromotion < 0 || s.FarPromotion > MaxLevel {
			return contradiction("service", s.Name,
				fmt.Sprintf("FarPromotion %d is not between 0 and %d", s.FarPromotion, MaxLevel))
		}
		old, ok := d.now.services[s.Name]
		if ok && old.Queue != s.Queue {
			return contradiction("service", s.Name,
				fmt.Sprintf("it is on queue %q, and a service cannot change its queue", old.Queue))
		}
		asGiven := s
		if ok && !d.all {
			s = withOld(s, old)
		}
		if !ok || old.FarPromotion != s.FarPromotion || !slices.Equal(old.Contracts, s.Contracts) ||
			!slices.Equal(old.Recycles, s.Recycles) {
			if !d.accept(backend.ObjectService, s.Name, sortedService(asGiven), known(sortedService(old), ok)) {
				continue
			}
			s.Contracts, s.Recycles = slices.Clone(s.Contracts), slices.Clone(s.Recycles)
			d.out.Services = append(d.out.Services, s)
		} else {
			d.note(sortedService(asGiven), sortedService(old))
		}
		d.given.Services = append(d.given.Services, s)
		d.merged.Services = append(d.merged.Services, s)
	}
	return nil
}

// withOld adds to a service what it has besides: its contracts in their order, then new
// ones.
func withOld(s, old Service) Service {
	contracts := slices.Clone(old.Contracts)
	for _, k := range s.Contracts {
		if !slices.Contains(contracts, k) {
			contracts = append(contracts, k)
		}
	}
	recycles := slices.Clone(old.Recycles)
	for _, r := range s.Recycles {
		i := slices.IndexFunc(recycles, func(o Recycle) bool { return o.Contract == r.Contract })
		if i < 0 {
			recycles = append(recycles, r)
		} else {
			recycles[i] = r
		}
	}
	s.Contracts, s.Recycles = contracts, recycles
	return s
}

// sortedService is a service in the form of which digests are made.
func sortedService(s Service) Service {
	s.Contracts, s.Recycles = slices.Clone(s.Contracts), slices.Clone(s.Recycles)
	slices.Sort(s.Contracts)
	slices.SortFunc(s.Recycles, func(x, y Recycle) int { return strings.Compare(x.Contract, y.Contract) })
	return s
}

func (d *defining) priorities(c Catalog) error {
	for _, r := range c.Priorities {
		if err := d.fresh(backend.ObjectPriority, r.Name); err != nil {
			return err
		}
		if r.Level < 1 || r.Level > 10 {
			return contradiction("priority", r.Name, fmt.Sprintf("level %d is not between 1 and 10", r.Level))
		}
		i := slices.IndexFunc(d.now.catalog.Priorities, func(o PriorityRule) bool { return o.Name == r.Name })
		if i < 0 || d.now.catalog.Priorities[i] != r {
			var old any
			if i >= 0 {
				old = d.now.catalog.Priorities[i]
			}
			if !d.accept(backend.ObjectPriority, r.Name, r, old) {
				continue
			}
			d.out.Priorities = append(d.out.Priorities, r)
		}
		d.merged.Priorities = append(d.merged.Priorities, r)
	}
	return nil
}

// Undefine removes the message types, contracts, services and priority rules that c names; only
// their names count. It is all or nothing, and ignores names that are not defined. It does not
// remove objects that others still refer to, nor queues: disable those. Existing conversations keep
// their service, but cannot send under a removed contract or type. So remove contracts and types
// when their conversations have ended.
//
// An older program that defines such an object again does not bring it back. A new definition does,
// and so does Redefine.
func (b *Broker) Undefine(ctx context.Context, c Catalog) error {
	return fail("undefine", "", b.define(ctx, func(now *catalogView, past []backend.Definition) (*change, error) {
		return removals(now, past, c)
	}))
}

func removals(now *catalogView, past []backend.Definition, c Catalog) (*change, error) {
	if len(c.Queues) > 0 {
		return nil, contradiction("queue", c.Queues[0].Name, "a queue cannot be removed; disable it")
	}
	gone := map[backend.Object]bool{}
	for _, t := range c.Types {
		gone[backend.Object{Kind: backend.ObjectType, Name: t.Name}] = true
	}
	for _, k := range c.Contracts {
		gone[backend.Object{Kind: backend.ObjectContract, Name: k.Name}] = true
	}
	for _, s := range c.Services {
		gone[backend.Object{Kind: backend.ObjectService, Name: s.Name}] = true
	}
	for _, r := range c.Priorities {
		gone[backend.Object{Kind: backend.ObjectPriority, Name: r.Name}] = true
	}
	var out change
	var rest Catalog
	d := newDefining(now, past, true)
	stays := func(kind backend.ObjectKind, name string, definition any) bool {
		o := backend.Object{Kind: kind, Name: name}
		if !gone[o] {
			return true
		}
		if len(d.past[o]) == 0 { // defined before there was a history
			out.History = append(out.History, backend.Definition{Object: o, Digest: digest(definition)})
		}
		out.History = append(out.History, backend.Definition{Object: o})
		out.Removed = append(out.Removed, o)
		return false
	}
	rest.Types = only(now.catalog.Types, func(t MessageType) bool { return stays(backend.ObjectType, t.Name, t) })
	rest.Contracts = only(now.catalog.Contracts, func(k Contract) bool {
		return stays(backend.ObjectContract, k.Name, sortedEntries(k.Messages))
	})
	rest.Services = only(now.catalog.Services, func(s Service) bool {
		return stays(backend.ObjectService, s.Name, sortedService(s))
	})
	rest.Priorities = only(now.catalog.Priorities, func(r PriorityRule) bool { return stays(backend.ObjectPriority, r.Name, r) })
	rest.Queues = now.catalog.Queues
	if len(out.Removed) == 0 {
		return nil, nil
	}
	view := viewOf(&rest)
	if err := checkReferences(view, rest); err != nil {
		return nil, err
	}
	for _, s := range rest.Services {
		for _, r := range s.Recycles {
			if _, ok := view.contracts[r.Contract]; !ok {
				return nil, contradiction("service", s.Name, fmt.Sprintf("it recycles contract %q", r.Contract))
			}
		}
	}
	slices.SortFunc(out.Removed, func(x, y backend.Object) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name))
	})
	return &out, nil
}

// only returns what is to stay of a list.
func only[T any](list []T, stays func(T) bool) (rest []T) {
	for _, x := range list {
		if stays(x) {
			rest = append(rest, x)
		}
	}
	return rest
}
