package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// On a node of Galera, a statement that changes the schema rolls back the transactions in its way. MariaDB (11.8.9) does
// not always tell them: the next statement reported success, and committed by itself. So a transaction there has
// autocommit off, and a savepoint from its beginning. Its end releases that savepoint before it commits. If the server
// does not know it, what would be committed is not the whole transaction, and is rolled back.
const (
	wholePoint   = "SAVEPOINT parley_whole"
	wholeRelease = "RELEASE SAVEPOINT parley_whole"
	noAutocommit = "SET autocommit = 0" // commits nothing
	autocommit   = "SET autocommit = 1"
)

// opening are the statements that begin the transaction.
func (t *transaction) opening() (texts []string) {
	if !t.s.committed {
		texts = append(texts, setLevel)
	}
	texts = append(texts, "START TRANSACTION")
	if t.whole = t.p.cluster(); t.whole {
		texts = append(texts, noAutocommit, wholePoint)
	}
	return texts
}

// closing are the statements that end it, how is COMMIT or ROLLBACK.
func (t *transaction) closing(how string) []string {
	if t.whole {
		return []string{wholeRelease, how, autocommit}
	}
	return []string{how}
}

// notWhole is the error of an end whose savepoint is not there: the transaction was rolled back before, or an application's
// statement has committed it.
func (t *transaction) notWhole() error {
	if t.ends {
		return sqlstore.ErrEnded
	}
	return sqlstore.Classified(backend.ErrSerialization, errRolledBack)
}

// undo sees to it that nothing is left of a transaction whose first statements have failed.
func (t *transaction) undo(ctx context.Context, failed error) error {
	switch {
	case failed == errSingle:
	case errors.Is(failed, driver.ErrBadConn): // the driver has noticed it before it sent anything
		return t.replace(ctx)
	default:
		t.reset(ctx)
	}
	return failed
}

// reset rolls back, so that the connection can be used by others.
func (t *transaction) reset(ctx context.Context) {
	texts := []string{"ROLLBACK"}
	if t.whole {
		texts = append(texts, autocommit)
	}
	if t.p.together(context.WithoutCancel(ctx), t.conn, texts) != nil {
		t.discard()
	}
	t.whole = false
}

// together carries out statements. On a cluster, where they are several, that is one trip if the connection takes several in
// a text.
func (p *pool) together(ctx context.Context, conn *sql.Conn, texts []string) error {
	if len(texts) > 1 && p.cluster() && !p.single.Load() {
		_, err := conn.ExecContext(ctx, strings.Join(texts, ";\n"))
		if number(err) != errSyntax {
			return err
		}
		p.single.Store(true)
	}
	for _, text := range texts {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// cluster reports whether the server is a node of Galera.
func (p *pool) cluster() bool {
	s := p.server.Load()
	return s != nil && s.cluster
}
