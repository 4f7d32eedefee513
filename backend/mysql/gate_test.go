package mysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"os"
	"regexp"
	"strings"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/mysql"
	"github.com/parleymq/parley/conformance"
)

// gate is a connection to MySQL that does as vtgate does when the connection behind it is lost in a transaction.
// The statement that was killed fails, the next one fails with 1317, and then there is no transaction any more.
// What follows is carried out by itself, and COMMIT succeeds. verify has the suite on vtgate itself.
type gate struct {
	driver.Conn
	lost bool
}

// take returns what MySQL is sent for a statement.
func (g *gate) take(ctx context.Context, query string) (string, error) {
	const version = "'8.4.6-Vitess'"
	switch {
	case g.lost:
		g.lost = false
		return "", &mysqldriver.MySQLError{Number: 1317, Message: "transaction 1: ended (unlocked closed connection)"}
	case query == killed:
		_, err := g.Conn.(driver.ExecerContext).ExecContext(ctx, "ROLLBACK", nil)
		if g.lost = err == nil; g.lost {
			err = &mysqldriver.MySQLError{Number: 3024, Message: "Query execution was interrupted"}
		}
		return "", err
	case strings.HasPrefix(query, "SET TRANSACTION"): // vtgate takes it at any time
		return "DO 0", nil
	case query == "SHOW VSCHEMA KEYSPACES":
		return "SELECT DATABASE() AS Keyspace, 'false' AS Sharded", nil
	}
	query = strings.Replace(query, "SHOW VARIABLES WHERE", "SELECT Variable_name, IF(Variable_name = 'version', "+version+
		", Variable_value) FROM performance_schema.session_variables WHERE", 1)
	return strings.Replace(query, "@@version", version, 1), nil
}

func (g *gate) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	query, err := g.take(ctx, query)
	if err != nil {
		return nil, err
	}
	return g.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (g *gate) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	query, err := g.take(ctx, query)
	if err != nil {
		return nil, err
	}
	return g.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

type gates struct{ driver.Connector }

func (c gates) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	return &gate{Conn: conn}, err
}

// TestLostBehindProxy: the store trusts no COMMIT that a proxy answers with nothing behind it.
func TestLostBehindProxy(t *testing.T) {
	t.Parallel()
	server := backendtest.Server(t, "mysql", "PARLEY_TEST_MYSQL", "the URL of a database for tests")
	own := os.Getenv(conformance.StoreEnv)
	if own == "" {
		own = database(t, server)
	}
	config, err := mysqldriver.ParseDSN(name(t, server, own, nil))
	if err != nil {
		t.Fatal(err)
	}
	connector, err := mysqldriver.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(gates{connector})
	t.Cleanup(func() { db.Close() })
	b := mysql.New(db, nil)
	if info, err := b.Info(t.Context()); err != nil || info.Engine != "vitess" {
		t.Fatalf("%q, %v", info.Engine, err)
	}
	conformance.RunMatching(t, conformance.Store{
		Lose: conformance.LoseBySQL(killed),
		Open: func(context.Context) (backend.Backend, error) { return mysql.New(db, nil), nil },
	}, regexp.MustCompile("^I7/"))
}
