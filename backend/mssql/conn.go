package mssql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"strings"
	"unicode/utf16"

	driver "github.com/microsoft/go-mssqldb"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// pool is the database and how to run statements on it.
type pool struct {
	options Options
	invalid error // what is wrong with the options
	db      *sql.DB
	owned   bool
	many    many

	shortcuts sqlstore.Shortcuts

	ids, batch string // the names of the table types
}

func (p *pool) close() error {
	if p.owned {
		return p.db.Close()
	}
	return nil
}

// key is an id as a parameter.
type key backend.ID

// call is a statement as a call of sp_executesql with parameters that it
// declares. The driver would declare each by the length of its value, and the
// server keep a plan for every length that it has seen. Besides, what a statement
// SETs ends with the call, also if it has no parameters.
func call(text string, args []any) (string, []any) {
	var declared strings.Builder
	all := make([]any, 2, len(args)+2)
	for i, a := range args {
		if i > 0 {
			declared.WriteByte(',')
		}
		kind, value := declare(a)
		fmt.Fprintf(&declared, "@p%d %s", i+1, kind)
		all = append(all, value)
	}
	all[0], all[1] = driver.NVarCharMax(text), driver.NVarCharMax(declared.String())
	if len(args) == 0 {
		all = all[:1]
	}
	return "sp_executesql", all
}

// declare returns a parameter's type and value. A NULL is a bigint, which can be
// converted to the type of every column that may be NULL.
func declare(a any) (string, any) {
	switch v := a.(type) {
	case nil:
		return "bigint", sql.NullInt64{}
	case key:
		return "binary(16)", v[:]
	case []byte:
		return "varbinary(max)", v
	case string:
		if n := len(utf16.Encode([]rune(v))); n > 4000 {
			return "nvarchar(max)", driver.NVarCharMax(v)
		}
		return "nvarchar(4000)", v
	case driver.TVP:
		return v.TypeName + " READONLY", v
	default:
		return "bigint", v
	}
}

// errEnded is THROWn by a statement that finds its transaction ended.
const errEnded = 51205

// inside lets a statement check first that there is a transaction. If the server has ended it, the
// statement would commit by itself.
var inside = fmt.Sprintf("IF @@TRANCOUNT = 0 THROW %d, N'parley: the server has ended the transaction', 1;\n", errEnded)

// outside runs a statement at the level for which it is written. A connection of a pool may have
// been left at another level.
const outside = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;\n"

// session runs statements in something.
type session struct {
	in     backend.Execer
	before string
}

// counted has a statement end with the number of its rows. The server's messages with that
// number are not sent with NOCOUNT ON, which a session, or the whole server, may have
// ("user options"). Those of a trigger's statements are added to the statement's own. A
// statement that consists of several sets @rows. NOCOUNT ends with the call.
func counted(text string) string {
	return "SET NOCOUNT ON;\nDECLARE @rows bigint;\n" + text + ";\nSELECT coalesce(@rows, @@ROWCOUNT)"
}

// Exec implements sqlstore.Session.
func (s session) Exec(ctx context.Context, q *sqlstore.Stmt, args []any) (sql.Result, error) {
	text, args := call(s.before+counted(q.Text), args)
	rows, err := s.in.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var n int64
	for rows.Next() { // to the end: an error of the statement comes after the number
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
	}
	return sqldriver.RowsAffected(n), rows.Err()
}

// Query implements sqlstore.Session.
func (s session) Query(ctx context.Context, q *sqlstore.Stmt, args []any) (*sql.Rows, error) {
	text, args := call(s.before+q.Text, args)
	return s.in.QueryContext(ctx, text, args...)
}

// reader returns a session that reads what is committed.
func (p *pool) reader(context.Context) (sqlstore.Session, func(), error) {
	return session{p.db, outside}, func() {}, p.invalid
}
