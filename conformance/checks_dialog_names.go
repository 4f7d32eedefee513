package conformance

import (
	"slices"
	"strings"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		check{ID: "D10", Name: "names of the catalog", Run: checkNamesOfCatalog},
		check{ID: "D10", Name: "keys and other values", Run: checkNamesOfKeys},
		check{ID: "D10", Name: "application locks", Run: checkNamesOfLocks},
		check{ID: "D10", Name: "schedules", Run: checkNamesOfSchedules},
	)
}

// dlgVariants are names that a careless comparison takes for one another: by
// case, by trailing space, by the form of an accent, by cutting.
func dlgVariants(e *env, kind string) []string {
	base := e.Name(kind)
	long := func(last string) string {
		const scripts = "日本語العربيةΕλληνικάУкраїнська한국어🦊🐳ﬁ"
		name := []rune(base)
		for i := 0; len(name) < parley.MaxName-1; i++ {
			all := []rune(scripts)
			name = append(name, all[i%len(all)])
		}
		return string(name) + last
	}
	return []string{
		base + "a", base + "A", base + "a ", base + "a  ", base + "á", base + "a\u0301", base + "ß", base + "ss",
		long("x"), long("X"), long("🦊"), long("🐳"),
	}
}

func checkNamesOfCatalog(e *env) {
	b := e.Broker(nil)
	types, contracts, queues, services, rules := dlgVariants(e, "t"), dlgVariants(e, "k"), dlgVariants(e, "q"), dlgVariants(e, "s"), dlgVariants(e, "r")
	var c parley.Catalog
	for i := range types {
		c.Types = append(c.Types, parley.MessageType{Name: types[i]})
		c.Contracts = append(c.Contracts, parley.Contract{Name: contracts[i], Messages: []parley.ContractEntry{{Type: types[i], SentBy: parley.ByAny}}})
		c.Queues = append(c.Queues, parley.Queue{Name: queues[i]})
		c.Services = append(c.Services, parley.Service{Name: services[i], Queue: queues[i], Contracts: []string{contracts[i]}})
		c.Priorities = append(c.Priorities, parley.PriorityRule{Name: rules[i], Contract: contracts[i], Local: services[i], Level: 1 + i%10})
	}
	e.Must(b.Define(e.Ctx, c))

	other := e.Broker(nil) // what another process reads
	now, err := other.Catalog(e.Ctx)
	e.Must(err)
	for i := range types {
		if !slices.ContainsFunc(now.Types, func(t parley.MessageType) bool { return t.Name == types[i] }) ||
			!slices.ContainsFunc(now.Contracts, func(k parley.Contract) bool {
				return k.Name == contracts[i] && slices.Equal(k.Messages, c.Contracts[i].Messages)
			}) ||
			!slices.ContainsFunc(now.Queues, func(q parley.Queue) bool { return q.Name == queues[i] }) ||
			!slices.ContainsFunc(now.Services, func(s parley.Service) bool {
				return s.Name == services[i] && s.Queue == queues[i] && slices.Equal(s.Contracts, c.Services[i].Contracts)
			}) ||
			!slices.ContainsFunc(now.Priorities, func(r parley.PriorityRule) bool { return r == c.Priorities[i] }) {
			e.Fatalf("the definitions number %d did not come back from the store as they were", i)
		}
	}
	e.Must(other.Define(e.Ctx, c)) // nothing contradicts and nothing is new
	if again, err := other.Catalog(e.Ctx); err != nil || again.Version != now.Version {
		e.Errorf("the same definitions again made version %d of %d (%v)", again.Version, now.Version, err)
	}

	w := &world{env: e, B: b}
	next := func(i int) int { return (i + 1) % len(types) }
	for i := range types {
		w.Tx(func(tx *parley.Tx) error {
			// The contract is the target's; the other names of the pair differ.
			conv, err := tx.Begin(e.Ctx, services[i], services[next(i)], &parley.DialogOptions{Contract: contracts[next(i)]})
			if err != nil {
				return err
			}
			e.Is(conv.Send(e.Ctx, types[i], nil), parley.ErrTypeNotAllowed)
			return conv.Send(e.Ctx, types[next(i)], []byte(services[i]))
		})
	}
	for i := range types {
		j := next(i)
		ms := (&world{env: e, B: other}).Drain(queues[j])
		if len(ms) != 1 {
			e.Fatalf("queue %q: received %d messages, want one", queues[j], len(ms))
		}
		m := ms[0]
		if m.Type != types[j] || m.Contract != contracts[j] || m.Service != services[j] || m.FarService != services[i] || string(m.Body) != services[i] || m.Priority != 1+j%10 {
			e.Errorf("queue %q: received type %q of contract %q from %q to %q with priority %d, want %q, %q, %q, %q and %d",
				queues[j], m.Type, m.Contract, m.FarService, m.Service, m.Priority, types[j], contracts[j], services[i], services[j], 1+j%10)
		}
	}
}

func checkNamesOfKeys(e *env) {
	w := e.World()
	// The longest key has 512 bytes: 128 characters of four.
	longest := func(last string) string { return strings.Repeat("🦊", 127) + last }
	keys := append(dlgVariants(e, "key"), longest("🐳"), longest("🐼"))
	for _, k := range keys {
		_, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte(k)}, parley.Key(k), parley.Unique(k))
		e.Must(err)
	}
	// Each is a separate group: all can be held at the same time.
	groups := map[parley.ID]bool{}
	var got []string
	var held []*parley.Delivery
	for range keys {
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: parley.HoldLease})
		held = append(held, d)
		groups[d.Group] = true
		for _, m := range d.Messages {
			if m.Key != string(m.Body) {
				e.Errorf("the post with key %q has key %q", m.Body, m.Key)
			}
			got = append(got, m.Key)
		}
	}
	for _, d := range held {
		e.Must(d.Ack(e.Ctx))
	}
	if len(groups) != len(keys) {
		e.Errorf("%d keys are in %d groups", len(keys), len(groups))
	}
	dlgSame(e, "keys in the order of the posts", got, keys)

	w.Tx(func(tx *parley.Tx) error {
		for _, k := range keys {
			for _, want := range []bool{true, false} {
				fresh, err := tx.Once(e.Ctx, e.Name("once")+k)
				if err != nil {
					return err
				}
				if fresh != want {
					e.Errorf("once %q: new is %t, want %t", k, fresh, want)
				}
			}
		}
		return nil
	})
}

func checkNamesOfLocks(e *env) {
	be := e.Handle()
	names := dlgVariants(e, "lock")
	for _, name := range names {
		s := dlgSession(e, be, name)
		defer s.Close(e.Ctx)
		if _, err := s.Lock(e.Ctx, name, backend.LockX, 0); err != nil {
			e.Fatalf("lock %q, which no session has: %v", name, err)
		}
	}
	for _, name := range names {
		list, err := be.AppLocks(e.Ctx, name)
		e.Must(err)
		if !slices.ContainsFunc(list, func(l backend.AppLock) bool { return l.Name == name && l.Owner == name }) {
			e.Errorf("lock %q of the same owner is not listed as it was named: %+v", name, list)
		}
	}
}

func checkNamesOfSchedules(e *env) {
	e.Needs(partTasks)
	be := e.Handle()
	for i, name := range dlgVariants(e, "schedule") {
		tx, err := be.Begin(e.Ctx)
		e.Must(err)
		defer tx.Rollback(e.Ctx)
		e.Must(tx.Submit(e.Ctx, name, backend.PlanOptions{Caller: name}, []backend.NewTask{{ID: parley.NewID(), Phase: i, Type: name}}))
		e.Must(tx.Commit(e.Ctx))
		list, err := be.Plans(e.Ctx, name)
		e.Must(err)
		if len(list) != 1 || list[0].Name != name || list[0].Phase != i || list[0].Options.Caller != name {
			e.Errorf("schedule %q is %+v, want phase %d", name, list, i)
		}
	}
}
