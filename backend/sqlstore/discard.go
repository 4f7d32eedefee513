package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"reflect"
	"time"
)

// Discard closes a connection for good, instead of giving it back to its pool.
func Discard(conn *sql.Conn) {
	_ = conn.Raw(func(c any) error {
		closeBehind(c)
		return driver.ErrBadConn
	})
	_ = conn.Close()
}

// closeBehind closes what a driver's connection stands for, where that has a pool of its
// own. With a pgxpool the driver's connection would go back there, with what its
// session has locked and listens to:
//
//	func (c *stdlib.Conn) Conn() *pgx.Conn
//	func (c *pgx.Conn) Close(context.Context) error
func closeBehind(driverConn any) {
	get := reflect.ValueOf(driverConn).MethodByName("Conn")
	if !get.IsValid() || get.Type().NumIn() != 0 || get.Type().NumOut() != 1 {
		return
	}
	if conn, ok := get.Call(nil)[0].Interface().(interface{ Close(context.Context) error }); ok {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}
}
