package parley

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parleymq/parley/backend"
)

// The names of the broker's own message types, and of the type and contract
// that are always there.
const (
	EndDialog        = backend.TypeEndDialog
	ErrorMessageType = backend.TypeError
	DialogTimer      = backend.TypeDialogTimer
	DefaultType      = backend.TypeDefault
	DefaultContract  = backend.TypeDefault

	// EndOfStream says that its sender sends nothing more on the conversation and
	// waits for the other side to end. Contracts of Senders carry it.
	EndOfStream = backend.TypeEndOfStream
)

// MaxName is the length of a name in characters.
const MaxName = 128

// catalogView is a catalog with what is always there, ready to be looked up.
// It is never changed once made.
type catalogView struct {
	version   int64
	types     map[string]MessageType
	contracts map[string]Contract
	queues    map[string]Queue
	queueByID map[int64]Queue
	services  map[string]Service
	rules     map[[3]string]int // contract, local, remote -> level
	catalog   *Catalog
}

func viewOf(c *Catalog) *catalogView {
	v := &catalogView{
		version:   c.Version,
		types:     map[string]MessageType{DefaultType: {Name: DefaultType}, EndOfStream: {Name: EndOfStream, Validation: ValidationEmpty}},
		contracts: map[string]Contract{DefaultContract: {Name: DefaultContract, Messages: []ContractEntry{{Type: DefaultType, SentBy: ByAny}}}},
		queues:    map[string]Queue{},
		queueByID: map[int64]Queue{},
		services:  map[string]Service{},
		rules:     map[[3]string]int{},
		catalog:   c,
	}
	for _, t := range c.Types {
		v.types[t.Name] = t
	}
	for _, k := range c.Contracts {
		v.contracts[k.Name] = k
	}
	for _, q := range c.Queues {
		v.queues[q.Name] = q
		v.queueByID[q.ID] = q
	}
	for _, s := range c.Services {
		v.services[s.Name] = s
	}
	for _, r := range c.Priorities {
		v.rules[[3]string{r.Contract, r.Local, r.Remote}] = r.Level
	}
	return v
}

// priority finds the level of a conversation for one side: the most specific
// rule, contract before local before remote service, else 5.
func (v *catalogView) priority(contract, local, remote string) int {
	for mask := 7; mask >= 0; mask-- {
		key := [3]string{}
		if mask&4 != 0 {
			key[0] = contract
		}
		if mask&2 != 0 {
			key[1] = local
		}
		if mask&1 != 0 {
			key[2] = remote
		}
		if level, ok := v.rules[key]; ok {
			return level
		}
	}
	return DefaultPriority
}

// DefaultPriority is the level of a conversation that no rule matches. The levels go from 1 to 10.
const DefaultPriority = 5

// queue returns a queue by its name.
func (v *catalogView) queue(name string) (Queue, error) {
	q, ok := v.queues[name]
	if !ok {
		return q, fmt.Errorf("%s: %w", objQueue(name), ErrUnknownQueue)
	}
	return q, nil
}

// queueName returns the name of a queue of the store's; "" for 0.
func (v *catalogView) queueName(id int64) (string, error) {
	q, ok := v.queueByID[id]
	if !ok && id != 0 {
		return "", fmt.Errorf("queue %d: %w", id, ErrUnknownQueue)
	}
	return q.Name, nil
}

// onQueue calls f with the catalog and a queue, and again if f says that the catalog is out
// of date.
func (b *Broker) onQueue(ctx context.Context, name string, f func(*catalogView, Queue) error) error {
	return b.withCatalog(ctx, func(v *catalogView) error {
		q, err := v.queue(name)
		if err == nil {
			err = f(v, q)
		}
		return err
	})
}

// allows reports whether a side may send a type on a contract.
func (v *catalogView) allows(contract, typ string, initiator bool) bool {
	for _, e := range v.contracts[contract].Messages {
		if e.Type == typ {
			return e.SentBy == ByAny || (e.SentBy == ByInitiator) == initiator
		}
	}
	return false
}

// withCatalog is Tx.withCatalog outside a transaction.
func (b *Broker) withCatalog(ctx context.Context, f func(*catalogView) error) error {
	v, err := b.view(ctx)
	if err != nil {
		return err
	}
	return follow(v, f, func(v *catalogView) (*catalogView, error) { return b.newer(ctx, v) })
}

// view returns the cached catalog, reading it if there is none.
func (b *Broker) view(ctx context.Context) (*catalogView, error) {
	if v := b.catalog.Load(); v != nil {
		return v, nil
	}
	return b.reload(ctx)
}

// reload reads the catalog in a separate transaction.
func (b *Broker) reload(ctx context.Context) (*catalogView, error) {
	tx, err := b.begin(backend.ReadOnly(ctx))
	if err != nil {
		return nil, err
	}
	defer tx.rollback(ctx)
	c, err := tx.be.Catalog(ctx, false)
	if err != nil {
		return nil, err
	}
	return b.cache(viewOf(shown(c))), nil
}

// newer reads the catalog again for callers that found their copy too old.
// Callers at the same time share one read.
func (b *Broker) newer(ctx context.Context, than *catalogView) (*catalogView, error) {
	select {
	case b.reading <- struct{}{}:
		defer func() { <-b.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if v := b.catalog.Load(); v != nil && v.version > than.version {
		return v, nil
	}
	return b.reload(ctx)
}

// cache keeps the newest catalog seen.
func (b *Broker) cache(v *catalogView) *catalogView {
	for {
		old := b.catalog.Load()
		if old != nil && old.version >= v.version {
			return v
		}
		if b.catalog.CompareAndSwap(old, v) {
			b.recycler.kick()
			return v
		}
	}
}

// Catalog returns what is defined now.
func (b *Broker) Catalog(ctx context.Context) (*Catalog, error) {
	v, err := b.reload(ctx)
	if err != nil {
		return nil, fail("catalog", "", err)
	}
	return v.catalog, nil
}

// Define adds new definitions to the catalog and updates changed ones. It is all or nothing, and
// idempotent: programs call it at every start.
//
// It removes nothing: objects that c does not mention stay, and a service keeps contracts and
// recycled contracts that c leaves out. If c has a definition that was replaced before, an older
// program is calling. Then Define leaves the object unchanged, and logs that. Redefine brings an
// earlier definition back, and Undefine removes.
//
// Contracts cannot change once defined, and a service cannot change its queue:
// conversations rely on them; EndOfStream alone can be added. A queue that exists
// keeps its status; EnableQueue and DisableQueue set it.
func (b *Broker) Define(ctx context.Context, c Catalog) error {
	return fail("define", "", b.define(ctx, func(now *catalogView, past []backend.Definition) (*change, error) {
		d := newDefining(now, past, false)
		out, err := d.changes(c)
		if err == nil && len(d.left) > 0 {
			b.log.Warn("parley: definitions were ignored, since later definitions had replaced them", "event", "catalog.replaced", "objects", fmt.Sprint(d.left))
		}
		return out, err
	}))
}

// Redefine is Define for an operator. Each object gets this definition, whatever was defined
// before, and a service gets exactly these contracts. Do not call it at the start of a program.
func (b *Broker) Redefine(ctx context.Context, c Catalog) error {
	return fail("redefine", "", b.define(ctx, func(now *catalogView, past []backend.Definition) (*change, error) {
		return newDefining(now, past, true).changes(c)
	}))
}

// EnableQueue lets messages be added and received again, and delivers what was withheld.
func (a Admin) EnableQueue(ctx context.Context, queue string) error {
	return a.b.setDisabled(ctx, "enable", queue, false)
}

// DisableQueue stops adding and receiving. Waiting receivers get ErrQueueDisabled; messages sent
// while the queue is disabled are withheld.
func (a Admin) DisableQueue(ctx context.Context, queue string) error {
	return a.b.setDisabled(ctx, "disable", queue, true)
}

func (b *Broker) setDisabled(ctx context.Context, op, queue string, disabled bool) error {
	return fail(op, objQueue(queue), b.define(ctx, func(now *catalogView, _ []backend.Definition) (*change, error) {
		q, ok := now.queues[queue]
		if !ok {
			return nil, ErrUnknownQueue
		}
		if q.Disabled == disabled {
			return nil, nil
		}
		q.Disabled = disabled
		return &change{Catalog: Catalog{Queues: []Queue{q}}}, nil
	}))
}

// define stores the change that find makes of the catalog and its history, under its lock.
func (b *Broker) define(ctx context.Context, find func(*catalogView, []backend.Definition) (*change, error)) error {
	tx, err := b.begin(ctx)
	if err != nil {
		return err
	}
	defer tx.rollback(ctx)
	now, err := tx.be.Catalog(ctx, true)
	if err != nil {
		return err
	}
	c, err := find(viewOf(shown(now)), now.History)
	if err != nil || c == nil {
		return err
	}
	if _, err := tx.be.PutCatalog(ctx, c.stored()); err != nil {
		return err
	}
	now, err = tx.be.Catalog(ctx, false)
	if err != nil {
		return err
	}
	tx.touch(0) // receivers look at the new status, held messages may move
	if err := tx.commit(ctx); err != nil {
		return err
	}
	b.cache(viewOf(shown(now)))
	b.jobs.kick()
	return nil
}

// checkReferences checks the references among the objects of c. The catalog all has these objects
// and everything defined before; of two definitions of a name it has the newer.
func checkReferences(all *catalogView, c Catalog) error {
	for _, k := range c.Contracts {
		canStart := false
		types := map[string]bool{}
		for _, e := range k.Messages {
			if _, ok := all.types[e.Type]; !ok {
				return contradiction("contract", k.Name, fmt.Sprintf("message type %q is not defined", e.Type))
			}
			if types[e.Type] {
				return contradiction("contract", k.Name, fmt.Sprintf("message type %q stands in it twice", e.Type))
			}
			types[e.Type] = true
			if e.Type == EndOfStream && e.SentBy != ByInitiator {
				return contradiction("contract", k.Name, fmt.Sprintf("%q is sent by the initiator", e.Type))
			}
			switch e.SentBy {
			case ByInitiator, ByAny:
				canStart = true
			case ByTarget:
			default:
				return contradiction("contract", k.Name, fmt.Sprintf("message type %q: %q is not initiator, target or any", e.Type, e.SentBy))
			}
		}
		if !canStart {
			return contradiction("contract", k.Name, "the initiator may send nothing, so no conversation could start")
		}
	}
	for _, s := range c.Services {
		if _, ok := all.queues[s.Queue]; !ok {
			return contradiction("service", s.Name, fmt.Sprintf("queue %q is not defined", s.Queue))
		}
		for _, k := range s.Contracts {
			if _, ok := all.contracts[k]; !ok {
				return contradiction("service", s.Name, fmt.Sprintf("contract %q is not defined", k))
			}
		}
	}
	byCriteria := map[[3]string]string{}
	byName := map[string]PriorityRule{}
	for _, r := range all.catalog.Priorities {
		byName[r.Name] = r
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		r := byName[name]
		key := [3]string{r.Contract, r.Local, r.Remote}
		if other, ok := byCriteria[key]; ok {
			return contradiction("priority", r.Name, fmt.Sprintf("rule %q has the same criteria", other))
		}
		byCriteria[key] = r.Name
	}
	return nil
}

func checkType(t MessageType) error {
	if t.Name == DefaultType || t.Name == EndOfStream || t.Name == EndDialog || t.Name == ErrorMessageType || t.Name == DialogTimer {
		return contradiction("message type", t.Name, "the name is the broker's own")
	}
	switch t.Validation {
	case ValidationNone, ValidationEmpty, ValidationXML, ValidationJSON:
		if t.Validator != "" {
			return contradiction("message type", t.Name, "it names a validator without Validation func")
		}
	case ValidationFunc:
		if t.Validator == "" {
			return contradiction("message type", t.Name, "Validation func needs the name of a validator")
		}
	default:
		return contradiction("message type", t.Name, fmt.Sprintf("validation %q is not known", t.Validation))
	}
	return nil
}

// sameEntries compares contracts by what users send on them.
func sameEntries(a, b []ContractEntry) bool { return slices.Equal(sortedEntries(a), sortedEntries(b)) }

func sortedEntries(list []ContractEntry) []ContractEntry {
	list = slices.DeleteFunc(slices.Clone(list), func(e ContractEntry) bool { return e.Type == EndOfStream })
	slices.SortFunc(list, func(x, y ContractEntry) int { return strings.Compare(x.Type, y.Type) })
	return list
}

// checkName refuses what a store could not keep byte by byte.
func checkName(kind, name string) error {
	why := ""
	switch {
	case name == "":
		why = "it is empty"
	case !utf8.ValidString(name):
		why = "it is not UTF-8"
	case utf8.RuneCountInString(name) > MaxName:
		why = fmt.Sprintf("it is longer than %d characters", MaxName)
	case strings.ContainsRune(name, 0):
		why = "it contains a zero byte"
	case (kind == "contract" || kind == "service") && name == "ANY":
		why = "ANY is reserved"
	default:
		return nil
	}
	return &Error{Op: "define", Object: fmt.Sprintf("%s %.200q", kind, name), Err: ErrInvalidName, Hint: why}
}

func contradiction(kind, name, why string) error {
	return &Error{Op: "define", Object: fmt.Sprintf("%s %q", kind, name), Err: ErrContradiction, Hint: why}
}

// follow runs f with a catalog. It runs f once more, with a newer catalog, if f's error is
// ErrStaleCatalog or says that a name is not defined.
func follow(v *catalogView, f func(*catalogView) error, newer func(*catalogView) (*catalogView, error)) error {
	for try := 0; ; try++ {
		err := f(v)
		if !errStale(err) && (try > 0 || !undefined(err)) || try == maxReloads {
			return err
		}
		if v, err = newer(v); err != nil {
			return err
		}
	}
}

// maxReloads bounds how often one verb follows a catalog that keeps changing.
const maxReloads = 10

func undefined(err error) bool {
	return errors.Is(err, ErrUnknownQueue) || errors.Is(err, ErrUnknownService) ||
		errors.Is(err, ErrUnknownContract) || errors.Is(err, ErrUnknownType)
}

// errStale reports whether an error means that the catalog must be read again.
func errStale(err error) bool { return errors.Is(err, backend.ErrStaleCatalog) }
