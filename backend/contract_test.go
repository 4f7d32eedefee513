package backend_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/parleymq/parley/backend"
)

// mandatory is how many methods a backend for messages may have to have.
const mandatory = 60

// TestMandatoryMethods counts the methods of a backend and its transactions, without the parts
// that come last and are optional: Workers, Locks, Tasks, Recurring and Cancels.
func TestMandatoryMethods(t *testing.T) {
	n := methods[backend.Backend]() - methods[backend.Workers]() - methods[backend.Locks]() - methods[backend.Tasks]() - methods[backend.Recurring]() - methods[backend.Cancels]() +
		methods[backend.Tx]() - methods[backend.TxWorkers]() - methods[backend.TxLocks]() - methods[backend.TxTasks]() - methods[backend.TxRecurring]() - methods[backend.TxCancels]()
	if n > mandatory {
		t.Errorf("a backend needs %d methods, want at most %d", n, mandatory)
	}
	t.Logf("%d methods", n)
}

// TestCapabilitiesAreListed: the package comment has each optional interface and function, and where Parley uses it.
func TestCapabilitiesAreListed(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]string)
	for _, line := range regexp.MustCompile(`(?m)^//\t([A-Z]\w+)  +.*  (\S.*)$`).FindAllStringSubmatch(string(text), -1) {
		listed[line[1]] = line[2]
	}
	can := reflect.TypeFor[backend.Capabilities]()
	for i := range can.NumField() {
		f := can.Field(i)
		if f.Type.Kind() == reflect.Bool {
			continue // the package comment says what the flags are
		}
		places := listed[f.Name]
		delete(listed, f.Name)
		found := regexp.MustCompile(`[a-z/_]+\.go`).FindAllString(places, -1)
		if len(found) == 0 {
			t.Errorf("doc.go does not list %s with the file that uses it", f.Name)
		}
		for _, place := range found {
			used, err := os.ReadFile("../" + place)
			if err != nil || !regexp.MustCompile(`\.`+f.Name+`\b`).Match(used) {
				t.Errorf("%s is not used in %s: %v", f.Name, place, err)
			}
		}
	}
	for name := range listed {
		t.Errorf("doc.go lists %s, which is no field of Capabilities", name)
	}
}

// TestInterfacesAreListed: an interface of this package is part of each backend, a capability, or named in the package
// comment. No other way leads to what only some backends can do.
func TestInterfacesAreListed(t *testing.T) {
	pkg, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^type ([A-Z]\w*) interface \{`).FindAllStringSubmatch(string(text), -1) {
			if seen++; !regexp.MustCompile(`\[` + m[1] + `\]|//\t` + m[1] + ` `).Match(pkg) {
				t.Errorf("%s: doc.go does not list the interface %s", name, m[1])
			}
		}
	}
	if seen < 20 {
		t.Errorf("%d interfaces were found", seen)
	}
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
