package backend

import (
	"context"
	"slices"
	"time"
)

// TxCatalog reads and changes what is defined.
type TxCatalog interface {
	// Catalog reads the catalog. With lock, others that define wait until this
	// transaction ends, and the history is read as well. It fails with
	// ErrNewerSchema if the schema has left this program behind.
	Catalog(ctx context.Context, lock bool) (*Catalog, error)

	// PutCatalog stores the objects in change, replacing those of the same
	// name, removes those in change.Removed, adds to the history, and returns the
	// new version. New queues get their ID. It comes after Catalog with lock in the same
	// transaction. What was read by the old version is refused once this one commits:
	// ErrStaleCatalog, RefusedStale.
	PutCatalog(ctx context.Context, change *Catalog) (version int64, err error)
}

// Catalog is what has been defined: a value that Parley caches per process and
// compares by Version. Names are compared byte by byte on every store.
type Catalog struct {
	// Version grows by one with every PutCatalog.
	Version    int64          `json:"-"`
	Types      []MessageType  `json:"types,omitempty"`
	Contracts  []Contract     `json:"contracts,omitempty"`
	Queues     []Queue        `json:"queues,omitempty"`
	Services   []Service      `json:"services,omitempty"`
	Priorities []PriorityRule `json:"priorities,omitempty"`

	// History tells in order how objects were defined and removed. Tx.Catalog reads it
	// with lock only. In a change it is what Tx.PutCatalog adds, with the new version.
	History []Definition `json:"-"`
	// Removed names, in a change, what Tx.PutCatalog removes. Queues are not removed.
	Removed []Object `json:"-"`
}

// Clone makes a copy that shares nothing with c.
func (c *Catalog) Clone() *Catalog {
	k := *c
	k.Types, k.Contracts, k.Queues = slices.Clone(c.Types), slices.Clone(c.Contracts), slices.Clone(c.Queues)
	k.Services, k.Priorities, k.History = slices.Clone(c.Services), slices.Clone(c.Priorities), slices.Clone(c.History)
	k.Removed = slices.Clone(c.Removed)
	for i := range k.Contracts {
		k.Contracts[i].Messages = slices.Clone(k.Contracts[i].Messages)
	}
	for i := range k.Services {
		s := &k.Services[i]
		s.Contracts, s.Recycles = slices.Clone(s.Contracts), slices.Clone(s.Recycles)
	}
	return &k
}

// With returns the catalog as [TxCatalog.PutCatalog] leaves it, for stores that keep it as one value. A queue
// that is there keeps its ID. New ones have none yet.
func (c *Catalog) With(change *Catalog) *Catalog {
	c, change = c.Clone(), change.Clone()
	c.Version++
	for i, q := range change.Queues {
		change.Queues[i].ID = 0
		if known := slices.IndexFunc(c.Queues, func(k Queue) bool { return k.Name == q.Name }); known >= 0 {
			change.Queues[i].ID = c.Queues[known].ID
		}
	}
	removed := func(kind ObjectKind) func(string) bool {
		return func(name string) bool { return slices.Contains(change.Removed, Object{kind, name}) }
	}
	c.Types = with(c.Types, change.Types, removed(ObjectType), func(t MessageType) string { return t.Name })
	c.Contracts = with(c.Contracts, change.Contracts, removed(ObjectContract), func(k Contract) string { return k.Name })
	c.Queues = with(c.Queues, change.Queues, removed(ObjectQueue), func(q Queue) string { return q.Name })
	c.Services = with(c.Services, change.Services, removed(ObjectService), func(s Service) string { return s.Name })
	c.Priorities = with(c.Priorities, change.Priorities, removed(ObjectPriority), func(r PriorityRule) string { return r.Name })
	for _, d := range change.History {
		d.Version = c.Version
		c.History = append(c.History, d)
	}
	return c
}

// with puts changed objects in the places of those with the same names, and leaves out what is removed.
func with[O any](objects, changed []O, removed func(string) bool, name func(O) string) []O {
	for _, o := range changed {
		i := slices.IndexFunc(objects, func(known O) bool { return name(known) == name(o) })
		if i < 0 {
			objects = append(objects, o)
		} else {
			objects[i] = o
		}
	}
	return slices.DeleteFunc(objects, func(o O) bool { return removed(name(o)) })
}

// ObjectKind is a kind of objects in the catalog.
type ObjectKind string

// The kinds.
const (
	ObjectType     ObjectKind = "type"
	ObjectContract ObjectKind = "contract"
	ObjectQueue    ObjectKind = "queue"
	ObjectService  ObjectKind = "service"
	ObjectPriority ObjectKind = "priority"
)

// Object names an object of the catalog.
type Object struct {
	Kind ObjectKind
	Name string
}

// Definition is a former definition of an object, as a digest, or its removal.
type Definition struct {
	Object
	Digest  string // empty: removed
	Version int64  // of the catalog, that came with it
}

// Validation says what the body of a message must be.
type Validation string

// The validations. ValidationFunc calls a Go function that each process
// registers under the name in MessageType.Validator.
const (
	ValidationNone  Validation = ""
	ValidationEmpty Validation = "empty"
	ValidationXML   Validation = "xml"
	ValidationJSON  Validation = "json"
	ValidationFunc  Validation = "func"
)

// MessageType names a kind of message and says what its body must be.
type MessageType struct {
	Name       string     `json:"name"`
	Validation Validation `json:"validation,omitempty"`
	Validator  string     `json:"validator,omitempty"` // for ValidationFunc
}

// SentBy says which side of a conversation may send a type.
type SentBy string

// The sides.
const (
	ByInitiator SentBy = "initiator"
	ByTarget    SentBy = "target"
	ByAny       SentBy = "any"
)

// Contract says which types a conversation may carry, and who sends them.
type Contract struct {
	Name     string          `json:"name"`
	Messages []ContractEntry `json:"messages"`
}

// ContractEntry is one line of a contract.
type ContractEntry struct {
	Type   string `json:"type"`
	SentBy SentBy `json:"sent_by"`
}

// Queue is where messages wait.
type Queue struct {
	Name string `json:"name"`
	// ID is given by the store when the queue is defined, from 1 on.
	ID int64 `json:"-"`
	// Disabled: nothing is added and nothing received. Messages for it are
	// held back by their senders' side until it is enabled.
	Disabled bool `json:"disabled,omitempty"`
	// Retention keeps a copy of every message sent or received on the
	// conversations of this queue until the side that keeps it ends.
	Retention bool `json:"retention,omitempty"`
	// KeepProcessed is how long processed posts are kept. Zero keeps none.
	KeepProcessed time.Duration `json:"keep_processed,omitempty"`
}

// Service is an address: a name on a queue, with the contracts on which others
// may begin conversations with it.
type Service struct {
	Name      string   `json:"name"`
	Queue     string   `json:"queue"`
	Contracts []string `json:"contracts,omitempty"`
	// FarPromotion is the highest level to which the other side of a
	// conversation may promote it. Zero forbids it.
	FarPromotion int `json:"peer_promotion,omitempty"`
	// Recycles declares that the service sends by a Sender, on dialogs that are
	// renewed from time to time. Parley itself receives from its queue, and a
	// service that recycles is no target.
	Recycles []Recycle `json:"recycles,omitempty"`
}

// Recycle declares a contract for a Sender. The contract lets the initiator
// alone send. It gets the type EndOfStream if it lacks it.
type Recycle struct {
	Contract string `json:"contract"`
	// Ordered: messages of a key keep their order when its dialog is renewed. A
	// new dialog's messages are withheld until the target has ended those before
	// it.
	Ordered bool `json:"ordered,omitempty"`
}

// PriorityRule gives conversations that match it a level from 1 to 10. An
// empty criterion matches everything; the most specific rule wins.
type PriorityRule struct {
	Name     string `json:"name"`
	Contract string `json:"contract,omitempty"`
	Local    string `json:"local,omitempty"`  // the service on the side whose level it is
	Remote   string `json:"remote,omitempty"` // the service on the other side
	Level    int    `json:"level"`
}
