package parley

import (
	"time"

	"github.com/parleymq/parley/backend"
)

// Catalog is what a program defines, for Define, and what is defined. Names are compared byte by byte on every store.
type Catalog struct {
	// Version grows by one with every definition that changes something. Define ignores it.
	Version    int64          `json:"-"`
	Types      []MessageType  `json:"types,omitempty"`
	Contracts  []Contract     `json:"contracts,omitempty"`
	Queues     []Queue        `json:"queues,omitempty"`
	Services   []Service      `json:"services,omitempty"`
	Priorities []PriorityRule `json:"priorities,omitempty"`
}

// MessageType names a kind of message and says what its body must be.
type MessageType struct {
	Name       string     `json:"name"`
	Validation Validation `json:"validation,omitempty"`
	Validator  string     `json:"validator,omitempty"` // for ValidationFunc
}

// Validation says what the body of a message must be.
type Validation = backend.Validation

// The validations. ValidationFunc calls the Go function that each process registers, by RegisterValidator, under the name
// in MessageType.Validator.
const (
	ValidationNone  = backend.ValidationNone
	ValidationEmpty = backend.ValidationEmpty
	ValidationXML   = backend.ValidationXML
	ValidationJSON  = backend.ValidationJSON
	ValidationFunc  = backend.ValidationFunc
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

// SentBy says which side of a conversation may send a type.
type SentBy = backend.SentBy

// The sides.
const (
	ByInitiator = backend.ByInitiator
	ByTarget    = backend.ByTarget
	ByAny       = backend.ByAny
)

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

// change is a change of the catalog: objects that are new or replaced, and what else the store gets with them.
type change struct {
	Catalog
	History []backend.Definition
	Removed []backend.Object
}

// stored is the change as a store takes it.
func (c *change) stored() *backend.Catalog {
	return &backend.Catalog{
		Types: each(c.Types, func(t MessageType) backend.MessageType { return backend.MessageType(t) }),
		Contracts: each(c.Contracts, func(k Contract) backend.Contract {
			return backend.Contract{Name: k.Name, Messages: each(k.Messages, func(e ContractEntry) backend.ContractEntry { return backend.ContractEntry(e) })}
		}),
		Queues: each(c.Queues, func(q Queue) backend.Queue { return backend.Queue(q) }),
		Services: each(c.Services, func(s Service) backend.Service {
			return backend.Service{Name: s.Name, Queue: s.Queue, Contracts: s.Contracts, FarPromotion: s.FarPromotion,
				Recycles: each(s.Recycles, func(r Recycle) backend.Recycle { return backend.Recycle(r) })}
		}),
		Priorities: each(c.Priorities, func(r PriorityRule) backend.PriorityRule { return backend.PriorityRule(r) }),
		History:    c.History, Removed: c.Removed,
	}
}

// shown is a store's catalog as programs see it.
func shown(c *backend.Catalog) *Catalog {
	return &Catalog{
		Version: c.Version,
		Types:   each(c.Types, func(t backend.MessageType) MessageType { return MessageType(t) }),
		Contracts: each(c.Contracts, func(k backend.Contract) Contract {
			return Contract{Name: k.Name, Messages: each(k.Messages, func(e backend.ContractEntry) ContractEntry { return ContractEntry(e) })}
		}),
		Queues: each(c.Queues, func(q backend.Queue) Queue { return Queue(q) }),
		Services: each(c.Services, func(s backend.Service) Service {
			return Service{Name: s.Name, Queue: s.Queue, Contracts: s.Contracts, FarPromotion: s.FarPromotion,
				Recycles: each(s.Recycles, func(r backend.Recycle) Recycle { return Recycle(r) })}
		}),
		Priorities: each(c.Priorities, func(r backend.PriorityRule) PriorityRule { return PriorityRule(r) }),
	}
}

// each returns what f makes of each element of a list, nil of none.
func each[A, B any](list []A, f func(A) B) (all []B) {
	for _, x := range list {
		all = append(all, f(x))
	}
	return all
}
