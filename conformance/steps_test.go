package conformance

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
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
	hasTasks struct {
		hasLocks
		backend.Tasks
	}
	hasRecurring struct {
		hasTasks
		backend.Recurring
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
	txTasks struct {
		txLocks
		backend.TxTasks
	}
	txRecurring struct {
		txTasks
		backend.TxRecurring
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

// steps are those of the guide, in its order, and its names. The last one is the whole store, which TestMemory checks.
var steps = []struct {
	name string
	be   func(backend.Backend) backend.Backend
	tx   func(backend.Tx) backend.Tx
}{
	{"catalog", as(toCatalog), asTx(toTxCatalog)},
	{"posts", as(toPosts), asTx(toTxPosts)},
	{"dialogs", as(toPosts), asTx(toTxDialogs)},
	{"operators", as(toPosts), asTx(toTxOperators)},
	{"workers", as(toWorkers), asTx(toTxWorkers)},
	{"application locks", as(toLocks), asTx(toTxLocks)},
	{"phases", as(toTasks), asTx(toTxTasks)},
	{"recurring jobs", as(toRecurring), asTx(toTxRecurring)},
	{"cancelling what is in hand", as(whole[backend.Backend]), asTx(whole[backend.Tx])},
}

// guideSteps are the steps of the guide's table: each one's name, and what it gives to -run.
func guideSteps(t *testing.T) (names []string, runs map[string]string) {
	guide, err := os.ReadFile("../docs/writing-a-backend.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(guide), "\n| step | parts | `-run` |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	runs = make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| (.*?) \\| .* \\| (?:`(.*)`|all) \\|$").FindAllStringSubmatch(table, -1) {
		names = append(names, row[1])
		runs[row[1]] = strings.ReplaceAll(row[2], `\|`, "|")
	}
	return names, runs
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

func toTasks(b backend.Backend) hasTasks         { return hasTasks{toLocks(b), b} }
func toRecurring(b backend.Backend) hasRecurring { return hasRecurring{toTasks(b), b} }
func whole[T any](x T) T                         { return x }

func toTxCatalog(t backend.Tx) txCatalog     { return txCatalog{transaction: t, TxCatalog: t} }
func toTxPosts(t backend.Tx) txPosts         { return txPosts{toTxCatalog(t), t, t} }
func toTxDialogs(t backend.Tx) txDialogs     { return txDialogs{toTxPosts(t), t} }
func toTxOperators(t backend.Tx) txOperators { return txOperators{toTxDialogs(t), t} }
func toTxWorkers(t backend.Tx) txWorkers     { return txWorkers{toTxOperators(t), t} }
func toTxLocks(t backend.Tx) txLocks         { return txLocks{toTxWorkers(t), t} }

func toTxTasks(t backend.Tx) txTasks         { return txTasks{toTxLocks(t), t} }
func toTxRecurring(t backend.Tx) txRecurring { return txRecurring{toTxTasks(t), t} }

// TestSteps builds a store part by part. At each step the checks pass that the guide names there,
// so that nothing which comes later is needed for them.
func TestSteps(t *testing.T) {
	t.Parallel()
	names, runs := guideSteps(t)
	var here []string
	for _, step := range steps {
		here = append(here, step.name)
	}
	if !slices.Equal(names, here) {
		t.Fatalf("the guide has the steps %q, and this test %q", names, here)
	}
	var all sync.WaitGroup
	defer all.Wait()
	for _, step := range steps {
		if runs[step.name] == "" {
			continue // the whole store, for TestMemory
		}
		match := regexp.MustCompile(runs[step.name])
		if !slices.ContainsFunc(checks, func(c check) bool { return match.MatchString(c.ID + "/" + c.Name) }) {
			t.Errorf("%s: no check matches %s", step.name, match)
		}
		all.Go(func() {
			t.Run(step.name, func(t *testing.T) {
				RunMatching(t, divided(8, func() Store {
					s := memstore.NewStore(memstore.Options{})
					return Store{Open: func(context.Context) (backend.Backend, error) {
						be := s.Open()
						return staged{step.be(be), be.Begin, step.tx}, nil
					}}
				}), match)
			})
		})
	}
}
