package conformance

import (
	"context"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/memstore"
)

// The parts of the contract that are neither of these are backend.Unimplemented until their step.
type (
	lifecycle interface {
		Info(context.Context) (backend.Info, error)
		Migrate(context.Context) error
		Check(context.Context) error
		Uninstall(context.Context) error
		Close() error
	}
	transaction interface {
		Once(context.Context, string, time.Duration) (bool, error)
		Savepoint(context.Context, string) error
		RollbackTo(context.Context, string) error
		Release(context.Context, string) error
		Token() any
		Commit(context.Context) error
		Rollback(context.Context) error
	}
)

// What a store has after each step of docs/writing-a-backend.md.
type (
	hasCatalog struct {
		backend.Unimplemented
		lifecycle
	}
	hasPosts struct {
		hasCatalog
		backend.Claims
		backend.Maintenance
		backend.Reader
	}
	hasWorkers struct {
		hasPosts
		backend.Workers
	}
	hasLocks struct {
		hasWorkers
		backend.Locks
	}

	txCatalog struct {
		backend.UnimplementedTx
		transaction
		backend.TxCatalog
	}
	txPosts struct {
		txCatalog
		backend.TxPosts
		backend.TxClaims
	}
	txDialogs struct {
		txPosts
		backend.TxDialogs
	}
	txOperators struct {
		txDialogs
		backend.TxOperators
	}
	txWorkers struct {
		txOperators
		backend.TxWorkers
	}
	txLocks struct {
		txWorkers
		backend.TxLocks
	}
)

// staged is a store that has been built up to some step.
type staged struct {
	backend.Backend
	begin func(context.Context) (backend.Tx, error)
	tx    func(backend.Tx) backend.Tx
}

func (s staged) Begin(ctx context.Context) (backend.Tx, error) {
	tx, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	return s.tx(tx), nil
}

var steps = []struct {
	name   string
	checks string // that pass from this step on
	be     func(backend.Backend) backend.Backend
	tx     func(backend.Tx) backend.Tx
}{
	{"catalog", `^(M0[3456]/|V05/a store|B11/of (a broker|operators)|B03/(contradictions within|names))`, as(toCatalog), asTx(toTxCatalog)},
	{"posts", `^N0[1234]`, as(toPosts), asTx(toTxPosts)},
	{"dialogs", `^(D0[1245]|O0[1-4]|E)`, as(toPosts), asTx(toTxDialogs)},
	{"operators", `^(D03|O05|P|Q0|T)`, as(toPosts), asTx(toTxOperators)},
	{"workers", `^W0`, as(toWorkers), asTx(toTxWorkers)},
	{"locks", `^L`, as(toLocks), asTx(toTxLocks)},
}

func as[B backend.Backend](f func(backend.Backend) B) func(backend.Backend) backend.Backend {
	return func(b backend.Backend) backend.Backend { return f(b) }
}

func asTx[T backend.Tx](f func(backend.Tx) T) func(backend.Tx) backend.Tx {
	return func(t backend.Tx) backend.Tx { return f(t) }
}

func toCatalog(b backend.Backend) hasCatalog { return hasCatalog{lifecycle: b} }
func toPosts(b backend.Backend) hasPosts     { return hasPosts{toCatalog(b), b, b, b} }
func toWorkers(b backend.Backend) hasWorkers { return hasWorkers{toPosts(b), b} }
func toLocks(b backend.Backend) hasLocks     { return hasLocks{toWorkers(b), b} }

func toTxCatalog(t backend.Tx) txCatalog     { return txCatalog{transaction: t, TxCatalog: t} }
func toTxPosts(t backend.Tx) txPosts         { return txPosts{toTxCatalog(t), t, t} }
func toTxDialogs(t backend.Tx) txDialogs     { return txDialogs{toTxPosts(t), t} }
func toTxOperators(t backend.Tx) txOperators { return txOperators{toTxDialogs(t), t} }
func toTxWorkers(t backend.Tx) txWorkers     { return txWorkers{toTxOperators(t), t} }
func toTxLocks(t backend.Tx) txLocks         { return txLocks{toTxWorkers(t), t} }

// TestSteps builds a store part by part. At each step the checks pass that the guide names there,
// so that nothing which comes later is needed for them.
func TestSteps(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	defer all.Wait()
	for _, step := range steps {
		all.Go(func() {
			t.Run(step.name, func(t *testing.T) {
				RunMatching(t, divided(8, func() Store {
					s := memstore.NewStore(memstore.Options{})
					return Store{Open: func(context.Context) (backend.Backend, error) {
						be := s.Open()
						return staged{step.be(be), be.Begin, step.tx}, nil
					}}
				}), regexp.MustCompile(step.checks))
			})
		})
	}
}
