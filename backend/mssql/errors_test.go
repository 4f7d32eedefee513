package mssql

import (
	"errors"
	"fmt"
	"testing"

	driver "github.com/microsoft/go-mssqldb"

	"github.com/parleymq/parley/backend"
)

// TestClassify tells errors by their numbers.
func TestClassify(t *testing.T) {
	for n, want := range map[int32]error{
		0:        backend.ErrSerialization,
		1205:     backend.ErrSerialization,
		1222:     backend.ErrSerialization,
		3960:     backend.ErrSerialization,
		3902:     backend.ErrSerialization,
		1204:     backend.ErrSerialization,
		40549:    backend.ErrSerialization,
		40553:    backend.ErrSerialization,
		9002:     backend.ErrNoSpace,
		1105:     backend.ErrNoSpace,
		3930:     nil, // it would end the same way again
		errEnded: backend.ErrSerialization,
		650:      backend.ErrIsolation,
		3906:     backend.ErrReadOnly,
		208:      backend.ErrNotMigrated,
		229:      backend.ErrDenied,
		2715:     backend.ErrNotMigrated,
		2628:     backend.ErrTooLarge,
		8152:     backend.ErrTooLarge,
		6005:     backend.ErrConnection,
		40613:    backend.ErrConnection,
		2627:     nil,
		547:      nil,
		233:      nil, // a column cannot be null: other drivers use the number for a lost connection
	} {
		err := fmt.Errorf("wrapped: %w", driver.Error{Number: n, Message: "x"})
		if got := classify(err); !errors.Is(got, want) {
			t.Errorf("error %d is %v, want %v", n, got, want)
		}
	}
	if got := classify(errors.New("1205")); got != nil {
		t.Errorf("an error without number is %v", got)
	}
	if got := classify(driver.ServerError{}); got != backend.ErrConnection { // which has an Error of number 0
		t.Errorf("a server that has hung up is %v", got)
	}
	for _, n := range []int32{10928, 17809} {
		if got := classify(driver.Error{Number: n}); !errors.Is(got, backend.ErrConnection) || !errors.Is(got, backend.ErrPool) {
			t.Errorf("a server that takes no more connections: %d is %v", n, got)
		}
	}
	if got := classify(driver.StreamError{InnerError: errors.New("x")}); got != backend.ErrConnection {
		t.Errorf("a broken stream is %v", got)
	}
}

// TestApplock checks every return code of sp_getapplock.
func TestApplock(t *testing.T) {
	for code, fine := range map[int]bool{0: true, 1: true, -1: false, -2: false, -3: false, -999: false} {
		if err := applock(code); (err == nil) != fine {
			t.Errorf("sp_getapplock returned %d: %v", code, err)
		}
	}
}
