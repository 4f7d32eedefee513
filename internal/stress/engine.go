package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/parleymq/parley"
)

// engine is what the load has to know of a database beyond what Parley does: how
// to keep the table of effects, and how to look into Parley's own tables.
type engine interface {
	// name returns the data source name, for a handle whose connections can be
	// told from those of other roles where the engine can do that.
	name(role string) string
	// shared says that other processes can open the store.
	shared() bool
	// effects returns the statements for the table of effects, nil if the store
	// has no SQL.
	effects() *effectTable
	// watch samples the store until ctx ends, and tells the ledger what it
	// finds. It returns when everything is set up; wait waits for the end.
	watch(ctx context.Context, l *ledger) (wait func(), err error)
	// stranded counts, in one snapshot, the visible messages that no claim
	// would find. ok is false if the engine cannot be asked.
	stranded(ctx context.Context) (n int, ok bool, err error)
	// cut breaks one connection of a role, and reports whether there was one.
	cut(ctx context.Context, role string) (bool, error)
	close() error
}

// effectTable is the statements of a table with the columns of an effect. The
// table's key is stream and index, so that two receivers of one stream at the
// same time cannot both commit.
type effectTable struct {
	create string
	add    string // stream, token
	list   string
	drop   string
	// db is where to create and drop, if that commits by itself.
	db *sql.DB
}

func openEngine(db, run string) (engine, error) {
	scheme, _, _ := strings.Cut(db, ":")
	if open, ok := engines[scheme]; ok {
		return open(db, run)
	}
	return plain(db), nil
}

// engines is filled by the files that know one.
var engines = map[string]func(db, run string) (engine, error){}

// plain is a store of which nothing is known.
type plain string

func (p plain) name(string) string                                    { return string(p) }
func (plain) shared() bool                                            { return false }
func (plain) effects() *effectTable                                   { return nil }
func (plain) watch(context.Context, *ledger) (wait func(), err error) { return func() {}, nil }
func (plain) stranded(context.Context) (n int, ok bool, err error)    { return 0, false, nil }
func (plain) cut(context.Context, string) (bool, error)               { return false, nil }
func (plain) close() error                                            { return nil }

// insert writes an effect in the transaction that acknowledges a message.
func (t *effectTable) insert(ctx context.Context, tx *parley.Tx, stream, token string) error {
	_, err := tx.SQL().ExecContext(ctx, t.add, stream, token)
	return plainSQL(err)
}

// plainSQL gives the errors of the application's own statements the sense that
// Parley gives to those of its own.
func plainSQL(err error) error {
	var state interface{ SQLState() string }
	var network net.Error
	var numbered interface{ SQLErrorNumber() int32 }
	code, number := "", int32(-1)
	if errors.As(err, &state) {
		code = state.SQLState()
	} else {
		code = mysqlState(err)
	}
	if errors.As(err, &numbered) {
		number = numbered.SQLErrorNumber()
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrTxDone), errors.Is(err, sql.ErrConnDone), errors.Is(err, driver.ErrBadConn),
		errors.Is(err, io.EOF), errors.As(err, &network), strings.HasPrefix(code, "57P"):
		return fmt.Errorf("%w: %w", parley.ErrConnection, err)
	case code == "40P01", code == "40001",
		number == 0, number == 1205, number == 3902: // the server has ended the transaction
		return fmt.Errorf("%w: %w", parley.ErrSerialization, err)
	}
	return err
}

// read returns all effects.
func (t *effectTable) read(ctx context.Context, b *parley.Broker) (list []effect, err error) {
	err = b.InTx(ctx, func(tx *parley.Tx) error {
		rows, err := tx.SQL().QueryContext(ctx, t.list)
		if err != nil {
			return err
		}
		list, err = scanEffects(rows)
		return err
	})
	return list, err
}

func scanEffects(rows *sql.Rows) (list []effect, err error) {
	defer rows.Close()
	for rows.Next() {
		var e effect
		if err := rows.Scan(&e.stream, &e.index, &e.token); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, rows.Err()
}

// run carries out one of the statements that change the schema, in a transaction of
// its own.
func (t *effectTable) run(ctx context.Context, b *parley.Broker, statement string) error {
	if t.db != nil {
		_, err := t.db.ExecContext(ctx, statement)
		return err
	}
	err := b.InTx(ctx, func(tx *parley.Tx) error {
		_, err := tx.SQL().ExecContext(ctx, statement)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}
