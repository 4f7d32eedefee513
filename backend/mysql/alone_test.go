package mysql_test

import (
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
)

func TestAlone(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		own := database(t, server)
		direct := connect(t, server, own, nil)
		backendtest.Alone(t, server, func(t *testing.T, through string) backend.Backend {
			return open(t, connect(t, through, own, func(c *driver.Config) { c.Logger = &driver.NopLogger{} }), nil)
		}, func(t *testing.T) func() {
			conn, err := direct.Conn(t.Context())
			if err == nil {
				_, err = conn.ExecContext(t.Context(), "LOCK TABLES parley_post READ")
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			return func() {
				if _, err := conn.ExecContext(t.Context(), "UNLOCK TABLES"); err != nil {
					t.Fatal(err)
				}
			}
		})
	})
}
