package sample

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/parleymq/parley"
)

// The front end keeps in a separate table which of its conversations belong
// together. It is read and written under the lock of the group that both are
// in, and in the transaction of the messages.
//
// The values are ids, which are hexadecimal digits, so they may stand in the
// text: engines disagree on how parameters are written.

// createBindings makes the table if it does not exist. The function that it returns
// removes the table again.
func createBindings(ctx context.Context, b *parley.Broker) (remove func(), err error) {
	run := func(ctx context.Context, statement string) error {
		return b.InTx(ctx, func(tx *parley.Tx) error {
			_, err := tx.SQL().ExecContext(ctx, statement)
			return err
		})
	}
	if run(ctx, `DELETE FROM requests_bindings WHERE front_end = ''`) == nil {
		return func() {}, nil // another program's table
	}
	err = run(ctx, `
		CREATE TABLE requests_bindings (
			front_end CHAR(36) NOT NULL PRIMARY KEY,
			back_end  CHAR(36) NOT NULL UNIQUE
		)`)
	return func() { run(context.WithoutCancel(ctx), `DROP TABLE requests_bindings`) }, err
}

// bind notes that two conversations belong together.
func bind(ctx context.Context, tx *parley.Tx, front, back parley.ID) error {
	_, err := tx.SQL().ExecContext(ctx, fmt.Sprintf(
		`INSERT INTO requests_bindings (front_end, back_end) VALUES ('%s', '%s')`, front, back))
	return err
}

// peer returns the conversation bound to one; the zero ID if there is none.
func peer(ctx context.Context, tx *parley.Tx, conversation parley.ID) (parley.ID, error) {
	var text string
	err := tx.SQL().QueryRowContext(ctx, fmt.Sprintf(`
		SELECT back_end FROM requests_bindings WHERE front_end = '%[1]s'
		UNION ALL
		SELECT front_end FROM requests_bindings WHERE back_end = '%[1]s'`, conversation)).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return parley.ID{}, nil
	}
	if err != nil {
		return parley.ID{}, err
	}
	return parley.ParseID(text)
}

func unbind(ctx context.Context, tx *parley.Tx, conversation parley.ID) error {
	_, err := tx.SQL().ExecContext(ctx, fmt.Sprintf(
		`DELETE FROM requests_bindings WHERE front_end = '%[1]s' OR back_end = '%[1]s'`, conversation))
	return err
}
