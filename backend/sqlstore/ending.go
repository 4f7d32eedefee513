package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"regexp"
	"strings"

	"github.com/parleymq/parley/backend"
)

// Only Parley ends its transactions. If an application's statement ended one, every later statement
// would commit by itself, and our commit would report success. A text that is such a statement is
// refused. Other texts may contain such a statement later on, or only a CASE with its END. They are
// not parsed here: the engine asks the server afterwards.

var (
	firstWords = regexp.MustCompile(`^(?:\s|;|--[^\n]*(?:\n|$)|/\*(?s:.*?)\*/)*(\w*)\s*(\w*)\s*(\w*)`)
	laterWord  = regexp.MustCompile(`(?i)\b(COMMIT|END|ROLLBACK|ABORT|START|BEGIN|PREPARE)\b`)
)

// Ending says what a statement of the application's does to a transaction of ours. It
// ends it, or may do so by what comes after its first words.
func Ending(query string) (ends, may bool) {
	m := firstWords.FindStringSubmatch(query)
	first, second, third := strings.ToUpper(m[1]), strings.ToUpper(m[2]), strings.ToUpper(m[3])
	switch first {
	case "COMMIT", "END", "ABORT":
		return true, true
	case "ROLLBACK":
		// TO, and TRANSACTION with a name in T-SQL, lead to a savepoint.
		return second == "AND" || second != "TO" && (third == "" || third == "AND"), true
	case "START", "PREPARE":
		return second == "TRANSACTION", true
	case "BEGIN": // which commits on MySQL
		return second == "" || second == "WORK", true
	}
	return false, laterWord.MatchString(query[len(m[0]):]) && strings.Contains(query, ";")
}

// errEnding is why such a statement is refused.
var errEnding = errors.New("the transaction is Parley's, which commits it or rolls it back: return nil or an error instead")

// ErrEnded is the error of a transaction that a statement of the application's has ended.
var ErrEnded = Classified(backend.ErrTxDone, errors.New("a statement of the application's has ended Parley's transaction:"+
	" what was done before is committed or rolled back, and nothing more is done"))

// Whole runs the application's statements in a transaction of ours, which they must not end. May,
// if set, is called before a statement that may end it.
type Whole struct {
	backend.Execer
	May func()
}

func (w Whole) check(query string) error {
	may, err := CheckEnding(query)
	if may && w.May != nil {
		w.May()
	}
	return err
}

// CheckEnding returns an error for a statement that ends a transaction of ours, and
// whether it may do so.
func CheckEnding(query string) (may bool, err error) {
	ends, may := Ending(query)
	if ends {
		return false, Classified(backend.ErrEndsTx, errEnding)
	}
	return may, nil
}

// ExecContext implements backend.Execer, as the following do.
func (w Whole) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := w.check(query); err != nil {
		return nil, err
	}
	return w.Execer.ExecContext(ctx, query, args...)
}

func (w Whole) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := w.check(query); err != nil {
		return nil, err
	}
	return w.Execer.QueryContext(ctx, query, args...)
}

func (w Whole) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if err := w.check(query); err != nil {
		return FailedRow(ctx, err)
	}
	return w.Execer.QueryRowContext(ctx, query, args...)
}

func (w Whole) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	if err := w.check(query); err != nil {
		return nil, err
	}
	return w.Execer.PrepareContext(ctx, query)
}

// FailedRow makes a *sql.Row of an error: there is no other way than to let a connection
// fail.
func FailedRow(ctx context.Context, err error) *sql.Row {
	db := sql.OpenDB(failing{err})
	defer db.Close()
	return db.QueryRowContext(ctx, "SELECT 1")
}

// Failing fails with an error, whatever it is to do.
func Failing(err error) backend.Execer { return sql.OpenDB(failing{err}) }

type failing struct{ err error }

func (f failing) Connect(context.Context) (driver.Conn, error) { return nil, f.err }
func (f failing) Driver() driver.Driver                        { return nil }
