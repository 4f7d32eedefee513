package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/mysql"
)

func TestClassify(t *testing.T) {
	db, err := sql.Open("mysql", "root@tcp(127.0.0.1:1)/x")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := mysql.New(db, nil)
	if _, err := s.Begin(t.Context()); !errors.Is(err, backend.ErrNotBegun) || !errors.Is(err, backend.ErrConnection) {
		t.Errorf("begin without a server: %v", err)
	}
	for number, want := range map[uint16]error{
		1213: backend.ErrSerialization,
		1205: backend.ErrSerialization,
		1020: backend.ErrSerialization,
		1317: backend.ErrSerialization,
		1206: backend.ErrSerialization,
		3101: backend.ErrSerialization,
		1021: backend.ErrNoSpace,
		1114: backend.ErrNoSpace,
		1203: backend.ErrConnection,
		3032: backend.ErrConnection,
		3100: backend.ErrConnection,
		1290: backend.ErrReadOnly,
		1792: backend.ErrReadOnly,
		4094: backend.ErrReadOnly,
		1146: backend.ErrNotMigrated,
		1054: backend.ErrNotMigrated,
		1040: backend.ErrConnection,
		1047: backend.ErrConnection,
		1927: backend.ErrConnection,
		4031: backend.ErrConnection,
		1153: backend.ErrTooLarge,
		1062: nil,
		1064: nil,
	} {
		plain := &driver.MySQLError{Number: number, Message: "text"}
		for _, err := range []error{plain, fmt.Errorf("wrapped: %w", plain)} {
			got := s.Classify(err)
			if want == nil && got != err || want != nil && (!errors.Is(got, want) || !errors.Is(got, plain)) {
				t.Errorf("%d: %v, want %v", number, got, want)
			}
		}
	}
	for _, err := range []error{driver.ErrInvalidConn, driver.ErrPktSync, driver.ErrPktSyncMul, io.ErrUnexpectedEOF, sql.ErrConnDone, &net.OpError{Err: io.EOF}} {
		if got := s.Classify(err); !errors.Is(got, backend.ErrConnection) {
			t.Errorf("%v: %v", err, got)
		}
	}
	if got := s.Classify(context.Canceled); got != context.Canceled {
		t.Errorf("a context's error became %v", got)
	}
}

func TestOptions(t *testing.T) {
	db, err := sql.Open("mysql", "root@tcp(127.0.0.1:1)/x")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, o := range []mysql.Options{{Prefix: "a b"}, {Prefix: "Upper"}, {Prefix: "x`; DROP"}} {
		if err := mysql.New(db, &o).Check(t.Context()); err == nil || errors.Is(err, backend.ErrConnection) {
			t.Errorf("options %+v: %v", o, err)
		}
	}
	for _, dsn := range []string{"mysql://host", "mysql://host/", "mysql://host/a/b", "mysql://host/db?timeout=never"} {
		if _, err := mysql.Open(t.Context(), dsn, nil); err == nil || errors.Is(err, backend.ErrConnection) {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}
