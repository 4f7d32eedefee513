package conformance_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/conformance"
)

// open stands for the backend's own way to be opened.
func open(ctx context.Context) (backend.Backend, error) {
	return backend.Open(ctx, "mydb:"+os.Getenv("MYDB_TEST"))
}

// limited stands for its way to be opened on a pool of the given size.
func limited(ctx context.Context, conns int) (backend.Backend, error) {
	return backend.Open(ctx, fmt.Sprintf("mydb:%s?conns=%d", os.Getenv("MYDB_TEST"), conns))
}

// In a test of the backend's own, every check is a subtest.
func ExampleRun() {
	_ = func(t *testing.T) { // func TestConformance(t *testing.T)
		conformance.Run(t, conformance.Store{Open: open, Limit: limited})
	}
}

// The whole of a program that checks a backend. It can be killed and started
// again by the suite, since it finds its store in the environment.
func ExampleMain() {
	_ = func() { // func main()
		conformance.Main("mydb", conformance.Store{Open: open, Limit: limited, Process: os.Getenv("MYDB_TEST")})
	}
}

// What is checked can be listed without a store.
func ExampleCommand() {
	code := conformance.Command(context.Background(), "mydb", conformance.Store{Open: open}, []string{"-list", "-run", "^T06/"}, os.Stdout, os.Stderr)
	if code != 0 {
		os.Exit(code)
	}
	// Output:
	// T06  A timer beyond the lifetime is refused.
	//        a timer beyond the lifetime is refused on both sides
}
