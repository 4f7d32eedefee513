// Package libraries shows how a program that reaches its database by sqlx, Bun, GORM or ent posts in its own
// transaction. Each test stores an order by the library and posts in the same transaction, which is rolled back once
// and committed once.
package libraries

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
	gormsqlite "github.com/libtnb/sqlite"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/schema"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/postgres"
	"github.com/parleymq/parley/backend/sqlite"
)

// Order is a row of the application's.
type Order struct {
	bun.BaseModel `bun:"table:orders" gorm:"-"`

	ID string `bun:"id,pk" db:"id" gorm:"primaryKey"`
}

var errUndo = errors.New("undo")

// app is a program with a separate database.
type app struct {
	*testing.T
	engine string
	db     *sql.DB
	b      *parley.Broker
}

// eachEngine runs a test on SQLite and, where PARLEY_TEST_POSTGRES names a server, on PostgreSQL by a pgxpool.
func eachEngine(t *testing.T, test func(a *app)) {
	t.Run("sqlite", func(t *testing.T) {
		// An immediate transaction waits for its turn to write when it begins.
		db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "app.db")+
			"?_txlock=immediate&_pragma=busy_timeout(5000)")
		run(t, test, "sqlite", db, err, func() backend.Backend { return sqlite.New(db, nil) })
	})
	t.Run("postgres", func(t *testing.T) {
		dsn := os.Getenv("PARLEY_TEST_POSTGRES")
		if dsn == "" {
			if slices.Contains(strings.Split(os.Getenv("PARLEY_TEST_REQUIRE"), ","), "postgres") {
				t.Fatal("PARLEY_TEST_POSTGRES is not set, but PARLEY_TEST_REQUIRE asks for postgres")
			}
			t.Skip("PARLEY_TEST_POSTGRES is not set: it is the data source name of a PostgreSQL server")
		}
		config, err := pgxpool.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		const name = "parley_libraries"
		config.ConnConfig.RuntimeParams["search_path"] = name
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		db := stdlib.OpenDBFromPool(pool)
		if _, err := db.Exec("DROP SCHEMA IF EXISTS " + name + " CASCADE; CREATE SCHEMA " + name); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			// pgx leaves a statement of a context that has ended to the server. It may go on for a moment, and have
			// the drop lose a deadlock.
			var err error
			for range 10 {
				_, err = pool.Exec(context.Background(), "DROP SCHEMA "+name+" CASCADE")
				if s, ok := errors.AsType[*pgconn.PgError](err); !ok || s.Code != "40P01" {
					break
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
		run(t, test, "postgres", db, nil, func() backend.Backend {
			return postgres.New(db, &postgres.Options{Schema: name})
		})
	})
}

func run(t *testing.T, test func(a *app), engine string, db *sql.DB, err error, open func() backend.Backend) {
	a := &app{T: t, engine: engine, db: db}
	a.must(err)
	t.Cleanup(func() { db.Close() })
	a.b, err = parley.New(t.Context(), open(), nil)
	a.must(err)
	t.Cleanup(func() { a.b.Close() })
	a.must(a.b.Migrate(t.Context()))
	a.must(a.b.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "mail"}}}))
	_, err = db.Exec("CREATE TABLE orders (id VARCHAR(40) PRIMARY KEY)")
	a.must(err)
	test(a)
}

func (a *app) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

// post posts in a transaction of the application's.
func (a *app) post(tx parley.Execer, order string) error {
	_, err := a.b.Join(tx).Post(a.Context(), "mail", parley.Payload{Body: []byte(order)})
	return err
}

// check lets a function store an order and post, in a transaction that commits or rolls back. Then there is one
// order, and its message.
func (a *app) check(store func(order string, end error) error) {
	a.Helper()
	if err := store("never", errUndo); !errors.Is(err, errUndo) {
		a.Fatalf("the rollback: %v", err)
	}
	a.must(store("one", nil))
	var order string
	a.must(a.db.QueryRow("SELECT max(id) FROM orders").Scan(&order))
	d, err := a.b.Receive(a.Context(), "mail", &parley.ReceiveOptions{Wait: 5 * time.Second})
	a.must(err)
	if body := string(d.Messages[0].Body); body != "one" || order != "one" {
		a.Errorf("received %q, and stored %q", body, order)
	}
	a.must(d.Ack(a.Context()))
	if d, err := a.b.Receive(a.Context(), "mail", nil); !errors.Is(err, parley.ErrNoMessage) {
		a.Errorf("there is one more message: %v, %v", d, err)
	}
}

// TestSQL: a transaction of database/sql.
func TestSQL(t *testing.T) {
	eachEngine(t, func(a *app) {
		a.check(func(order string, end error) error {
			tx, err := a.db.BeginTx(a.Context(), nil)
			a.must(err)
			_, err = tx.ExecContext(a.Context(), "INSERT INTO orders (id) VALUES ($1)", order)
			if err := errors.Join(err, a.post(tx, order), end); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			return tx.Commit()
		})
	})
}

// TestSqlx: a transaction of sqlx's is one of database/sql.
func TestSqlx(t *testing.T) {
	eachEngine(t, func(a *app) {
		db := sqlx.NewDb(a.db, a.engine)
		a.check(func(order string, end error) error {
			tx, err := db.BeginTxx(a.Context(), nil)
			a.must(err)
			_, err = tx.NamedExecContext(a.Context(), "INSERT INTO orders (id) VALUES (:id)", Order{ID: order})
			if err := errors.Join(err, a.post(tx, order), end); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			return tx.Commit()
		})
	})
}

// TestBun: bun.Tx writes parameters into the text by itself, so it is its *sql.Tx that Parley joins.
func TestBun(t *testing.T) {
	eachEngine(t, func(a *app) {
		var d schema.Dialect = pgdialect.New()
		if a.engine == "sqlite" {
			d = sqlitedialect.New()
		}
		db := bun.NewDB(a.db, d)
		a.check(func(order string, end error) error {
			return db.RunInTx(a.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
				_, err := tx.NewInsert().Model(&Order{ID: order}).Exec(ctx)
				return errors.Join(err, a.post(tx.Tx, order), end)
			})
		})
	})
}

// TestGORM: what GORM calls the connection pool of a statement is, in a transaction, the transaction.
func TestGORM(t *testing.T) {
	eachEngine(t, func(a *app) {
		var d gorm.Dialector = gormpostgres.New(gormpostgres.Config{Conn: a.db})
		if a.engine == "sqlite" {
			d = &gormsqlite.Dialector{Conn: a.db}
		}
		for _, prepare := range []bool{false, true} {
			db, err := gorm.Open(d, &gorm.Config{PrepareStmt: prepare})
			a.must(err)
			a.must(db.Where("1 = 1").Delete(&Order{}).Error)
			a.check(func(order string, end error) error {
				return db.WithContext(a.Context()).Transaction(func(tx *gorm.DB) error {
					return errors.Join(tx.Create(&Order{ID: order}).Error, a.post(tx.Statement.ConnPool, order), end)
				})
			})
		}
	})
}

// TestEnt: a client of ent's works in a transaction that database/sql began, by a driver on that transaction:
// ent.NewClient(ent.Driver(driver)). The test uses the driver as such a client does.
func TestEnt(t *testing.T) {
	eachEngine(t, func(a *app) {
		name := dialect.Postgres
		if a.engine == "sqlite" {
			name = dialect.SQLite
		}
		a.check(func(order string, end error) error {
			tx, err := a.db.BeginTx(a.Context(), nil)
			a.must(err)
			driver := entsql.NewDriver(name, entsql.Conn{ExecQuerier: tx})
			query, args := entsql.Dialect(name).Insert("orders").Columns("id").Values(order).Query()
			err = driver.Exec(a.Context(), query, args, nil)
			if err := errors.Join(err, a.post(tx, order), end); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			return tx.Commit()
		})
	})
}
