package mssql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley/backend/sqlstore"
)

// The assumptions of this backend that the manual leaves open, or that depend on settings. The
// answers go into the report of the conformance suite.

// oneValue are queries of one value.
var oneValue = []struct{ question, query string }{
	{"edition", "SELECT SERVERPROPERTY('Edition')"},
	{"product version", "SELECT SERVERPROPERTY('ProductVersion')"},
	{"product update level", "SELECT SERVERPROPERTY('ProductUpdateLevel')"},
	{"engine edition", "SELECT SERVERPROPERTY('EngineEdition')"},
	{"collation", "SELECT DATABASEPROPERTYEX(DB_NAME(), 'Collation')"},
	{"options of the session", "SELECT @@OPTIONS"},
	{"user options of the server", "SELECT value_in_use FROM sys.configurations WHERE name = 'user options'"},
	{"max degree of parallelism", "SELECT value_in_use FROM sys.configurations WHERE name = 'max degree of parallelism'"},
	{"snapshot isolation", ofDatabase("snapshot_isolation_state_desc")},
	{"recovery model", ofDatabase("recovery_model_desc")},
	{"delayed durability", ofDatabase("delayed_durability_desc")},
	{"forced parameterization", ofDatabase("is_parameterization_forced")},
	{"accelerated database recovery", ofDatabase("is_accelerated_database_recovery_on")},
	{"optimized locking", "SELECT DATABASEPROPERTYEX(DB_NAME(), 'IsOptimizedLockingOn')"},
}

func ofDatabase(column string) string {
	return "SELECT CONVERT(nvarchar(60), " + column + ") FROM sys.databases WHERE database_id = DB_ID()"
}

// besides are statements beside the open transaction of another session, on a table $T with
// the rows 10, 20 and 30. The answer is the ids that are returned, or that it waits.
var besides = []struct{ question, first, then string }{
	{"READPAST beside an updated row", "UPDATE $T SET v = v + 1 WHERE id = 20", shared(", READPAST", "")},
	{"READPAST beside an inserted row", "INSERT INTO $T (id) VALUES (25)", shared(", READPAST", "")},
	{"READPAST beside a deleted row", "DELETE FROM $T WHERE id = 20", shared(", READPAST", "")},
	{"READPAST beside XLOCK", locked("XLOCK"), shared(", READPAST", "")},
	{"READPAST beside UPDLOCK", locked("UPDLOCK"), shared(", READPAST", "")},
	{"UPDLOCK, READPAST beside an updated row", "UPDATE $T SET v = v + 1 WHERE id = 20", shared(", UPDLOCK, READPAST", "")},
	{"UPDLOCK, READPAST beside an inserted row", "INSERT INTO $T (id) VALUES (25)", shared(", UPDLOCK, READPAST", "")},
	{"UPDLOCK, READPAST beside UPDLOCK", locked("UPDLOCK"), shared(", UPDLOCK, READPAST", "")},
	{"XLOCK, READPAST beside XLOCK", locked("XLOCK"), shared(", XLOCK, READPAST", "")},
	{"XLOCK, READPAST beside an updated row", "UPDATE $T SET v = v + 1 WHERE id = 20", shared(", XLOCK, READPAST", "")},
	{"no READPAST beside an updated row", "UPDATE $T SET v = v + 1 WHERE id = 20", shared("", "")},
	{"a range that ends before an updated row", "UPDATE $T SET v = v + 1 WHERE id = 30", shared("", "WHERE id <= 20")},
	{"a range that ends before an inserted row", "INSERT INTO $T (id) VALUES (25)", shared("", "WHERE id <= 20")},
	{"a key beside an updated row", "UPDATE $T SET v = v + 1 WHERE id = 20", shared("", "WHERE id = 10")},
	{"NOWAIT beside an updated row", "UPDATE $T SET v = v + 1 WHERE id = 20", shared(", NOWAIT", "WHERE id = 20")},
	{"READUNCOMMITTED beside a deleted row", "DELETE FROM $T WHERE id = 20", "SELECT id FROM $T WITH (READUNCOMMITTED) ORDER BY id"},
	{"an update by key beside an updated row", "UPDATE $T SET v = v + 1 WHERE id = 20", "UPDATE $T SET v = v + 1 OUTPUT inserted.id WHERE id = 10"},
	{"an update by a list with READPAST", "UPDATE $T SET v = v + 1 WHERE id = 20", `
		UPDATE t SET v = t.v + 1 OUTPUT inserted.id
		  FROM (VALUES (10), (20), (30)) k (id)
		 INNER LOOP JOIN $T t WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON t.id = k.id`},
	{"a filtered index that is named", "UPDATE $T SET v = v + 1 WHERE id = 20", `
		SELECT id FROM $T WITH (INDEX(by_flag), READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE flag = 0 ORDER BY id`},
	{"an insert beside a delete of 6000 rows", "DELETE FROM $T WHERE id >= 1000", "INSERT INTO $T (id) OUTPUT inserted.id VALUES (15)"},
}

func shared(hints, where string) string {
	return "SELECT id FROM $T WITH (READCOMMITTEDLOCK, ROWLOCK" + hints + ") " +
		cmp.Or(where, "WHERE id < 1000") + " ORDER BY id" // without those of the large delete
}

func locked(hint string) string {
	return "SELECT id FROM $T WITH (READCOMMITTEDLOCK, ROWLOCK, " + hint + ") WHERE id = 20"
}

// prober asks.
type prober struct {
	pool  *pool
	table string
	note  func(question, answer string)
}

// Probe asks the server about this backend's assumptions (conformance.Prober).
func (s *Store) Probe(ctx context.Context, note func(question, answer string)) error {
	p := &prober{s.pool, s.pool.schema() + s.pool.options.Prefix + "probe", note}
	for _, f := range oneValue {
		var v sql.NullString
		err := p.pool.db.QueryRowContext(ctx, "SELECT CONVERT(nvarchar(400), ("+f.query+"))").Scan(&v)
		p.say(f.question, v.String, err)
	}
	defer p.exec(context.WithoutCancel(ctx), "DROP TABLE IF EXISTS $T")
	for _, q := range []string{
		`CREATE TABLE $T (id int NOT NULL PRIMARY KEY CLUSTERED WITH (ALLOW_PAGE_LOCKS = OFF), v int NOT NULL DEFAULT 0,
		                  flag smallint NOT NULL DEFAULT 0, version rowversion NOT NULL)`,
		"CREATE INDEX by_flag ON $T (id) WHERE flag = 0 WITH (ALLOW_PAGE_LOCKS = OFF)",
		"ALTER TABLE $T SET (LOCK_ESCALATION = DISABLE)",
		"INSERT INTO $T (id) VALUES (10), (20), (30)",
		`INSERT INTO $T (id, flag)
		 SELECT TOP (6000) 999 + ROW_NUMBER() OVER (ORDER BY (SELECT NULL)), 1 FROM sys.all_columns a CROSS JOIN sys.all_columns b`,
	} {
		if err := p.exec(ctx, q); err != nil {
			return err
		}
	}
	for _, b := range besides {
		answer, err := p.beside(ctx, b.first, b.then)
		p.say(b.question, answer, err)
	}
	for _, x := range []struct {
		question string
		ask      func(context.Context) (string, error)
	}{
		{"rows of an update with NOCOUNT ON", p.silent},
		{"rows of an update with a trigger", p.triggered},
		{"row versions: insert, commit", p.versions},
		{"a transaction after an attention", p.attention},
		{"isolation level of a connection that was given back", p.reset},
	} {
		answer, err := x.ask(ctx)
		p.say(x.question, answer, err)
	}
	p.plans(ctx)
	return nil
}

// say notes an answer, or the error instead.
func (p *prober) say(question, answer string, err error) {
	switch {
	case number(err) == 1222:
		answer = "waits"
	case err != nil:
		answer = fmt.Sprintf("error %d: %v", number(err), err)
	}
	p.note(question, answer)
}

func (p *prober) text(q string) string { return strings.ReplaceAll(q, "$T", p.table) }

func (p *prober) exec(ctx context.Context, q string) error {
	_, err := p.pool.db.ExecContext(ctx, p.text(q))
	return err
}

// beside runs a statement beside an open transaction and returns the ids that it returns.
func (p *prober) beside(ctx context.Context, first, then string) (ids string, err error) {
	a, err := p.pool.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return "", err
	}
	defer a.Rollback()
	if _, err := a.ExecContext(ctx, p.text(first)); err != nil {
		return "", fmt.Errorf("the first: %w", err)
	}
	b, err := p.pool.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return "", err
	}
	defer b.Rollback()
	rows, err := b.QueryContext(ctx, "SET LOCK_TIMEOUT 1000;\n"+p.text(then))
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return "", err
		}
		list = append(list, id)
	}
	return strings.Join(list, " "), rows.Err()
}

// updated is how many rows a statement of the store's says that it changed, which is one.
func (p *prober) updated(ctx context.Context, conn *sql.Conn) (string, error) {
	res, err := session{conn, ""}.Exec(ctx, &sqlstore.Stmt{Text: p.text("UPDATE $T SET v = v + 1 WHERE id = 10")}, nil)
	if err != nil {
		return "", err
	}
	n, err := res.RowsAffected()
	return fmt.Sprint(n), err
}

func (p *prober) silent(ctx context.Context) (string, error) {
	conn, err := p.pool.db.Conn(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "SET NOCOUNT ON"); err != nil {
		return "", err
	}
	return p.updated(ctx, conn)
}

func (p *prober) triggered(ctx context.Context) (string, error) {
	conn, err := p.pool.db.Conn(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	name := p.table + "_trigger"
	if _, err := conn.ExecContext(ctx, p.text("CREATE TRIGGER "+name+` ON $T AFTER UPDATE AS
		BEGIN
		  DECLARE @t TABLE (x int);
		  INSERT INTO @t VALUES (1), (2);
		END`)); err != nil {
		return "", err
	}
	defer conn.ExecContext(context.WithoutCancel(ctx), "DROP TRIGGER "+name)
	return p.updated(ctx, conn)
}

// versions tells whether what Listen asks for changes when a row is inserted, and again
// when that is committed.
func (p *prober) versions(ctx context.Context) (string, error) {
	tx, err := p.pool.db.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	defer tx.Rollback()
	var seen [3][]byte
	for i, step := range []func() error{
		func() error { return nil },
		func() error { _, err := tx.ExecContext(ctx, p.text("INSERT INTO $T (id) VALUES (40)")); return err },
		tx.Commit,
	} {
		if err := step(); err != nil {
			return "", err
		}
		if seen[i], err = p.pool.version(ctx); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("insert %v, commit %v", !slices.Equal(seen[0], seen[1]), !slices.Equal(seen[1], seen[2])), nil
}

// attention cancels a statement in a transaction and asks what is left of that.
func (p *prober) attention(ctx context.Context) (string, error) {
	tx, err := p.pool.db.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, p.text("UPDATE $T SET v = v + 1 WHERE id = 10")); err != nil {
		return "", err
	}
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := tx.ExecContext(short, "WAITFOR DELAY '00:00:10'"); !errors.Is(err, context.DeadlineExceeded) {
		return "", fmt.Errorf("WAITFOR ended with %w", err)
	}
	var open, state int
	err = tx.QueryRowContext(ctx, "SELECT @@TRANCOUNT, XACT_STATE()").Scan(&open, &state)
	return fmt.Sprintf("@@TRANCOUNT %d, XACT_STATE %d", open, state), err
}

// reset looks at the level of a connection that has come back from the pool.
func (p *prober) reset(ctx context.Context) (string, error) {
	level := func(set string) (level string, err error) {
		conn, err := p.pool.db.Conn(ctx)
		if err != nil {
			return "", err
		}
		defer conn.Close()
		err = conn.QueryRowContext(ctx, set+`
			SELECT CONCAT(session_id, ' level ', transaction_isolation_level)
			  FROM sys.dm_exec_sessions WHERE session_id = @@SPID`).Scan(&level)
		return level, err
	}
	before, err := level("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE;")
	if err != nil {
		return "", err
	}
	after, err := level("")
	return "session " + before + ", then session " + after, err
}

// parameters are those of the statements that are explained.
var parameters = map[string]string{
	"Send":    "@p1 binary(16), @p2 binary(16), @p3 nvarchar(4000), @p4 varbinary(max), @p5 bigint, @p6 bigint, @p7 bigint, @p8 nvarchar(max)",
	"Guards":  "@p1 $ids",
	"Append":  "@p1 $batch",
	"Walk":    "@p1 bigint, @p2 bigint, @p3 bigint, @p4 bigint, @p5 bigint, @p6 bigint, @p7 bigint",
	"Take":    "@p1 $ids, @p2 bigint",
	"Lease":   "@p1 $ids, @p2 bigint, @p3 bigint, @p4 nvarchar(4000)",
	"Held":    "@p1 $ids",
	"Read":    "@p1 $ids, @p2 bigint, @p3 bigint, @p4 binary(16), @p5 bigint, @p6 bigint",
	"Remove":  "@p1 $ids",
	"Finish":  "@p1 $ids",
	"Extend":  "@p1 $ids, @p2 $ids, @p3 bigint",
	"Reclaim": "@p1 $ids, @p2 $ids",
}

// plans notes how the server would run the statements that lock, on tables as small as these.
// A scan locks rows that are none of a statement's business, and a prefetch that is not
// ordered locks them in another order.
func (p *prober) plans(ctx context.Context) {
	conn, err := p.pool.db.Conn(ctx)
	if err == nil {
		defer sqlstore.Discard(conn) // it explains from now on
		_, err = conn.ExecContext(ctx, "SET SHOWPLAN_XML ON")
	}
	if err != nil {
		p.say("plans", "", err)
		return
	}
	types := strings.NewReplacer("$ids", p.pool.ids, "$batch", p.pool.batch)
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		stmt := reflect.ValueOf(p.pool.many).FieldByName(name).Interface().(*sqlstore.Stmt)
		answer, err := explain(ctx, conn, "DECLARE "+types.Replace(parameters[name])+";\n"+stmt.Text)
		p.say("plan of "+strings.ToLower(name), answer, err)
	}
}

var planPart = regexp.MustCompile(`PhysicalOp="([^"]+)"|<Object [^>]*Table="\[([^\]]+)\][^>]*?Index="\[([^\]]+)\]|(WithUnorderedPrefetch)="(?:1|true)"`)

// explain returns the operators and indexes of a plan, in the order of its text.
func explain(ctx context.Context, conn *sql.Conn, text string) (string, error) {
	rows, err := conn.QueryContext(ctx, text)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var parts []string
	for {
		for rows.Next() {
			var plan string
			if err := rows.Scan(&plan); err != nil {
				return "", err
			}
			parts = append(parts, planParts(plan)...)
		}
		if !rows.NextResultSet() {
			return strings.Join(parts, ", "), rows.Err()
		}
	}
}

func planParts(plan string) (parts []string) {
	for _, m := range planPart.FindAllStringSubmatch(plan, -1) {
		switch {
		case m[1] != "":
			parts = append(parts, m[1])
		case m[2] != "":
			parts = append(parts, m[2]+"."+m[3])
		default:
			parts = append(parts, m[4])
		}
	}
	return parts
}
