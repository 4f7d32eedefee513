package postgres

import (
	"context"
	"database/sql/driver"
	"reflect"
	"strings"
	"time"
)

// The types of pgx are not named here, so that programs that use lib/pq need not have it.

// isPGX reports whether a driver is that of pgx.
func isPGX(d driver.Driver) bool {
	t := reflect.TypeOf(d) // nil if a connector says nothing of its driver
	return t != nil && t.Kind() == reflect.Pointer && strings.HasPrefix(t.Elem().PkgPath(), "github.com/jackc/pgx/")
}

// part calls a method of no arguments and one result.
func part(of reflect.Value, method string) (result reflect.Value, ok bool) {
	get := of.MethodByName(method)
	if !get.IsValid() || get.Type().NumIn() != 0 || get.Type().NumOut() != 1 {
		return result, false
	}
	return get.Call(nil)[0], true
}

// canceller asks the server to cancel what a connection is at. When a context ends, pgx would break the connection, and
// the outcome of a statement that commits by itself would be unknown.
type canceller struct {
	conn interface{ CancelRequest(context.Context) error }
}

// cancellerOf looks for it in a driver's connection, and returns nil if the program has wrapped that:
//
//	func (c *stdlib.Conn) Conn() *pgx.Conn
//	func (c *pgx.Conn) PgConn() *pgconn.PgConn
//	func (c *pgconn.PgConn) CancelRequest(context.Context) error
func cancellerOf(driverConn any) *canceller {
	conn, ok := part(reflect.ValueOf(driverConn), "Conn")
	if ok {
		conn, ok = part(conn, "PgConn")
	}
	if !ok {
		return nil
	}
	c := new(canceller)
	if c.conn, ok = conn.Interface().(interface{ CancelRequest(context.Context) error }); !ok {
		return nil
	}
	return c
}

// interrupt reports whether the server could be asked.
func (c *canceller) interrupt() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return c.conn.CancelRequest(ctx) == nil
}
