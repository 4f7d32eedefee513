package pgxstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/parleymq/parley"
)

// Join lets Parley work in a transaction of pgx that the caller began and will end, as
// Broker.Join does in one of database/sql. The Broker may be on any store of PostgreSQL.
func Join(b *parley.Broker, tx pgx.Tx) *parley.Tx {
	if tx == nil {
		return b.Join(nil)
	}
	return b.Join(joined{tx})
}

// joined runs the statements of database/sql in a transaction of pgx. Only package sql can
// make a *sql.Rows, so they go through a pool whose connections are nothing but the
// transaction that the context carries.
type joined struct{ tx pgx.Tx }

type txKey struct{}

var joins = sync.OnceValue(func() *sql.DB {
	db := sql.OpenDB(connector{})
	db.SetMaxIdleConns(-1) // the next statement may be one of another transaction
	return db
})

func (j joined) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, txKey{}, j.tx)
}

func (j joined) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return joins().ExecContext(j.in(ctx), query, args...)
}

func (j joined) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return joins().QueryContext(j.in(ctx), query, args...)
}

func (j joined) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return joins().QueryRowContext(j.in(ctx), query, args...)
}

// PrepareContext implements backend.Execer. A statement of the pool would not know its
// transaction any more, and pgx prepares statements by itself.
func (j joined) PrepareContext(context.Context, string) (*sql.Stmt, error) {
	return nil, errors.New("parley: pgxstore: in a joined transaction, prepare statements by its pgx.Tx")
}

type connector struct{}

func (connector) Connect(ctx context.Context) (driver.Conn, error) {
	tx, ok := ctx.Value(txKey{}).(pgx.Tx)
	if !ok {
		return nil, errors.New("parley: pgxstore: a statement of no transaction")
	}
	return conn{tx}, nil
}

func (connector) Driver() driver.Driver { return noDriver{} }

type noDriver struct{}

func (noDriver) Open(string) (driver.Conn, error) {
	return nil, errors.New("parley: pgxstore: there is nothing to open")
}

// conn is a transaction of pgx for one statement.
type conn struct{ tx pgx.Tx }

func (c conn) Close() error                        { return nil }
func (c conn) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }
func (c conn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }

// CheckNamedValue implements driver.NamedValueChecker: pgx takes more than database/sql does.
func (c conn) CheckNamedValue(*driver.NamedValue) error { return nil }

func values(args []any, named []driver.NamedValue) []any {
	for _, v := range named {
		args = append(args, v.Value)
	}
	return args
}

func (c conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	tag, err := c.tx.Exec(ctx, query, values(nil, args)...)
	return driver.RowsAffected(tag.RowsAffected()), over(err)
}

func (c conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	found, err := c.tx.Query(ctx, query, values([]any{formats}, args)...)
	if err != nil {
		return nil, over(err)
	}
	r := &rows{found, c.tx.Conn().TypeMap(), found.Next()} // the columns are known from then on
	if err := found.Err(); err != nil {
		return nil, err
	}
	return r, nil
}

// over is what database/sql says of a transaction that has ended.
func over(err error) error {
	if errors.Is(err, pgx.ErrTxClosed) {
		return sql.ErrTxDone
	}
	return err
}

// formats are binary for what database/sql has a type for, and text for the rest.
var formats = pgx.QueryResultFormatsByOID{
	pgtype.BoolOID: pgx.BinaryFormatCode, pgtype.ByteaOID: pgx.BinaryFormatCode,
	pgtype.DateOID: pgx.BinaryFormatCode, pgtype.TimestampOID: pgx.BinaryFormatCode, pgtype.TimestamptzOID: pgx.BinaryFormatCode,
	pgtype.Float4OID: pgx.BinaryFormatCode, pgtype.Float8OID: pgx.BinaryFormatCode,
	pgtype.Int2OID: pgx.BinaryFormatCode, pgtype.Int4OID: pgx.BinaryFormatCode, pgtype.Int8OID: pgx.BinaryFormatCode,
}

// rows are those of a query, the first of which has been fetched.
type rows struct {
	pgx.Rows
	types *pgtype.Map
	more  bool
}

func (r *rows) Columns() (names []string) {
	for _, f := range r.FieldDescriptions() {
		names = append(names, f.Name)
	}
	return names
}

func (r *rows) Close() error {
	r.Rows.Close()
	return r.Err()
}

// Next implements driver.Rows.
func (r *rows) Next(to []driver.Value) error {
	if !r.more {
		if err := r.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	raw := r.RawValues()
	for i, f := range r.FieldDescriptions() {
		v, err := r.value(f, raw[i])
		if err != nil {
			return err
		}
		to[i] = v
	}
	r.more = r.Rows.Next()
	return nil
}

// value copies a value, whose bytes are pgx's until the next row.
func (r *rows) value(f pgconn.FieldDescription, raw []byte) (driver.Value, error) {
	if raw == nil {
		return nil, nil
	}
	if f.Format == pgx.TextFormatCode {
		return string(raw), nil
	}
	t, ok := r.types.TypeForOID(f.DataTypeOID)
	if !ok {
		return nil, fmt.Errorf("parley: pgxstore: column %s has a type that pgx does not know", f.Name)
	}
	return t.Codec.DecodeDatabaseSQLValue(r.types, f.DataTypeOID, f.Format, raw)
}
