package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/parleymq/parley/backend"
)

// TestNotBegun: a transaction that could not be begun has done nothing, so that it
// can be begun again.
func TestNotBegun(t *testing.T) {
	db, err := sql.Open("postgres", "postgres://nobody@127.0.0.1:1/x?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = New(db, nil).Begin(t.Context())
	if !errors.Is(err, backend.ErrNotBegun) || !errors.Is(err, backend.ErrConnection) {
		t.Errorf("begin without a server: %v", err)
	}
}

func TestClassify(t *testing.T) {
	s := New(nilDB(t), nil)
	for code, want := range map[string]error{
		"40001": backend.ErrSerialization,
		"40P01": backend.ErrSerialization,
		"55P03": backend.ErrSerialization,
		"57014": backend.ErrSerialization,
		"53200": backend.ErrSerialization,
		"53100": backend.ErrNoSpace,
		"25P03": backend.ErrConnection,
		"25P04": backend.ErrConnection,
		"57P05": backend.ErrConnection,
		"25P02": nil, // an earlier statement has failed, and would again
		"26000": backend.ErrSerialization,
		"25006": backend.ErrReadOnly,
		"42P01": backend.ErrNotMigrated,
		"3F000": backend.ErrNotMigrated,
		"08006": backend.ErrConnection,
		"08003": backend.ErrConnection,
		"57P01": backend.ErrConnection,
		"57P03": backend.ErrConnection,
		"53300": backend.ErrConnection,
		"23505": nil,
		"22021": nil,
	} {
		for _, err := range []error{
			&pq.Error{Code: pqerror.Code(code)},
			&pgconn.PgError{Code: code},
			fmt.Errorf("wrapped: %w", &pq.Error{Code: pqerror.Code(code)}),
		} {
			got := s.Classify(err)
			if want != nil && !errors.Is(got, want) {
				t.Errorf("%s: %v, want %v", code, got, want)
			}
			if want == nil && got != err {
				t.Errorf("%s: %v, want it as it is", code, got)
			}
			if !errors.Is(got, err) {
				t.Errorf("%s: the driver's error is lost in %v", code, got)
			}
		}
	}
	for _, err := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, &net.OpError{Op: "dial", Err: errors.New("refused")}} {
		if got := s.Classify(err); !errors.Is(got, backend.ErrConnection) {
			t.Errorf("%v: %v, want ErrConnection", err, got)
		}
	}
	for _, err := range []error{context.Canceled, context.DeadlineExceeded} {
		if got := s.Classify(err); got != err {
			t.Errorf("%v: %v, want it as it is", err, got)
		}
	}
}
