package backend_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/parleymq/parley/backend"
)

// mandatory is how many methods a backend for messages may have to have.
const mandatory = 60

// TestMandatoryMethods counts the methods of a backend and its transactions, without the parts
// that come last and are optional: Workers, Locks, Tasks and Recurring.
func TestMandatoryMethods(t *testing.T) {
	n := methods[backend.Backend]() - methods[backend.Workers]() - methods[backend.Locks]() - methods[backend.Tasks]() - methods[backend.Recurring]() +
		methods[backend.Tx]() - methods[backend.TxWorkers]() - methods[backend.TxLocks]() - methods[backend.TxTasks]() - methods[backend.TxRecurring]()
	if n > mandatory {
		t.Errorf("a backend needs %d methods, want at most %d", n, mandatory)
	}
	t.Logf("%d methods", n)
}

func methods[I any]() int { return reflect.TypeFor[I]().NumMethod() }

// TestRegisterVersion: a backend for another version of the contract is refused, with both.
func TestRegisterVersion(t *testing.T) {
	open := func(context.Context, string) (backend.Backend, error) { return backend.Unimplemented{}, nil }
	backend.Register(backend.Version, open, "contract-this")
	backend.Register(backend.Version+1, open, "contract-next")
	if _, err := backend.Open(t.Context(), "contract-this:x"); err != nil {
		t.Error(err)
	}
	_, err := backend.Open(t.Context(), "contract-next:x")
	if !errors.Is(err, backend.ErrContract) ||
		!strings.Contains(err.Error(), "version 2") || !strings.Contains(err.Error(), "contract-next") {
		t.Errorf("%v, want an error that says what does not fit", err)
	}
}

type wrapped struct{ backend.Tx }

type named struct {
	backend.UnimplementedTx
	name string
}

func (n named) Token() any { return n.name }

// TestTokensSurviveWrapping: a backend finds its transaction in a context, however it is wrapped.
func TestTokensSurviveWrapping(t *testing.T) {
	ctx := backend.InsideTx(backend.InsideTx(t.Context(), named{name: "outer"}), wrapped{wrapped{named{name: "inner"}}})
	var got []any
	for token := range backend.TokensFrom(ctx) {
		got = append(got, token)
	}
	if !reflect.DeepEqual(got, []any{"inner", "outer"}) {
		t.Errorf("the context is inside of %v", got)
	}
}
