package phases

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
)

// SQLType is the type of tasks that are SQL statements.
const SQLType = "sql"

// SQL makes a task of a statement, for pools with RunSQL.
func SQL(phase int, statement string) Task {
	return Task{Phase: phase, Type: SQLType, Body: []byte(statement)}
}

// RunSQL returns a handler that runs a task's body as a statement on a separate connection of db. A
// statement that is killed, or that kills its connection, fails only its task. It runs outside of
// the task's transaction, so a statement whose worker dies is run again, after parts of it may have
// been committed.
//
// No pool runs statements unless it is given this handler:
//
//	phases.Handlers{phases.SQLType: phases.RunSQL(db)}
//
// Be aware of the consequence: anyone who can submit tasks, or write to Parley's tables, then has
// all rights of the user of db. Open db as a user with only the rights that the tasks need,
// preferably not as the user of the Broker.
func RunSQL(db *sql.DB) Handler {
	return func(ctx context.Context, t *Running) (err error) {
		if len(t.Body) == 0 {
			return Dead(errors.New("the task has no statement"))
		}
		conn, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer func() {
			if err != nil {
				// Whatever the statement left behind ends with its connection.
				_ = conn.Raw(func(any) error { return driver.ErrBadConn })
			}
			conn.Close()
		}()
		if _, err := conn.ExecContext(ctx, string(t.Body)); err != nil {
			return fmt.Errorf("statement: %w", err)
		}
		return nil
	}
}
