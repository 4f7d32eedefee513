package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/parleymq/parley/backend"
)

// inspect adds the store's clock to what is known of it, and warns of what of the
// schema is missing or may not be used.
func (s *Store) inspect(ctx context.Context, info *backend.Info) error {
	info.Program = s.program()
	return s.outside(ctx, func(r run) error {
		if !s.q.SchemaClock.Empty() {
			var now int64
			if _, err := r.Row(ctx, []any{&now}, s.q.SchemaClock); err != nil {
				return err
			}
			info.Clock = time.UnixMicro(now)
		}
		var one any
		if found, err := r.Row(ctx, []any{&one}, s.q.SchemaExists); err != nil || !found {
			return err
		}
		tables, err := r.tables(ctx)
		if err != nil {
			return err
		}
		if !strings.Contains(tables[s.d.Prefix+"meta"], "SELECT") {
			st, err := r.meta(ctx)
			info.Schema, info.MinProgram = st.schema, st.minProgram
			if err != nil || st.schema != s.program() {
				return err // Check says so
			}
		}
		indexes, err := r.indexes(ctx)
		info.Warnings = append(info.Warnings, s.d.compare(tables, indexes)...)
		return err
	})
}

// tables returns what there is, each with what the role may not do.
func (r run) tables(ctx context.Context) (map[string]string, error) {
	tables := make(map[string]string)
	err := r.Rows(ctx, func(rows *sql.Rows) error {
		var table, lacks string
		err := rows.Scan(&table, &lacks)
		tables[table] = lacks
		return err
	}, r.s.q.SchemaTables)
	if err != nil || r.s.d.Lacks == nil {
		return tables, err
	}
	for table := range tables {
		lacks, err := r.s.d.Lacks(ctx, r.sess, table)
		if err != nil {
			return nil, r.s.fail(ctx, err)
		}
		tables[table] = strings.Join(lacks, ", ")
	}
	return tables, nil
}

// indexes returns what there is, by table and name, and whether it can be used.
func (r run) indexes(ctx context.Context) (map[object]bool, error) {
	indexes := make(map[object]bool)
	err := r.Rows(ctx, func(rows *sql.Rows) error {
		var o object
		var usable bool
		err := rows.Scan(&o.table, &o.index, Bool(&usable))
		indexes[o] = usable
		return err
	}, r.s.q.SchemaIndexes)
	return indexes, err
}

// compare warns of differences between what the migrations make and what there is.
func (d *Dialect) compare(tables map[string]string, indexes map[object]bool) (list []backend.Warning) {
	role := d.roleOf(tables)
	limited := false
	for _, o := range d.objects() {
		lacks, seen := tables[o.table]
		usable, there := indexes[o]
		w := backend.Warning{Object: o.table}
		switch {
		case o.index == "" && role != "" && (!seen || lacks != ""):
			limited = true
			continue
		case o.index == "" && !seen:
			w.Code, w.Bad = backend.WarnTable, true
			w.Text, w.Hint = "the table is not there, or the role may not see it", "restore it, or grant the role what it needs"
		case o.index == "" && lacks != "":
			w.Code, w.Bad = backend.WarnGrant, true
			w.Text, w.Hint = "the role may not "+lacks, fmt.Sprintf("GRANT %s ON %s%s", lacks, d.Schema, o.table)
		case o.index != "" && seen && !there:
			w.Code, w.Object, w.Bad = backend.WarnIndex, o.table+"."+o.index, d.named[o]
			w.Text, w.Hint = "the index is not there: what it is for reads the whole table", "create it as parley migrate --print has it"
			if w.Bad {
				w.Text = "the index is not there: what it is for fails"
			}
		case o.index != "" && seen && !usable:
			w.Code, w.Object = backend.WarnIndex, o.table+"."+o.index
			w.Text, w.Hint = "the index is not valid: what it is for reads the whole table", "rebuild it"
		default:
			continue
		}
		list = append(list, w)
	}
	if limited {
		list = append(list, backend.Warning{Code: backend.WarnRole,
			Text: fmt.Sprintf("the program's role has the rights of a %s, not those of the owner", role),
			Hint: "what it may not do fails with ErrDenied; see docs/security.md"})
	}
	return list
}

// object is a table of the schema, or an index of one.
type object struct{ table, index string }

var (
	createTable = regexp.MustCompile(`^CREATE TABLE (?:IF NOT EXISTS )?(?:\w+\.)?(\w+) \(`)
	createIndex = regexp.MustCompile(`^(?:EXEC\(N')?CREATE INDEX (?:CONCURRENTLY )?(\w+) ON (?:\w+\.)?(\w+) \(`)
	addIndex    = regexp.MustCompile(`^ +'ALTER TABLE (\w+) ADD INDEX (\w+) `)
	inTable     = regexp.MustCompile(`^  INDEX (\w+) \(`)
)

// objects reads the schema's files, where each table and index begins a line.
func (d *Dialect) objects() (all []object) {
	table := ""
	for _, file := range d.Migrations {
		for line := range strings.Lines(d.Rewrite(file)) {
			if m := createTable.FindStringSubmatch(line); m != nil {
				table = m[1]
				all = append(all, object{table: table})
			} else if m := createIndex.FindStringSubmatch(line); m != nil {
				all = append(all, object{m[2], m[1]})
			} else if m := addIndex.FindStringSubmatch(line); m != nil {
				all = append(all, object{m[1], m[2]})
			} else if m := inTable.FindStringSubmatch(line); m != nil {
				all = append(all, object{table, m[1]})
			}
		}
	}
	return all
}
