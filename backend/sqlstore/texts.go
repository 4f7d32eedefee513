package sqlstore

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/parleymq/parley/backend"
)

// Texts are the statements of a folder sql, by their names.
type Texts map[string]text

type text struct {
	sql  string
	axes []string // of an array of statements, the outer one first
}

//go:embed sql/*.sql
var portableFiles embed.FS

var portableTexts = sync.OnceValue(func() Texts { return ReadTexts(portableFiles) })

// ReadTexts reads sql/*.sql. A line "-- name: X" begins a statement, and a line
// "-- axis: a b" names the axes of a statement with several forms. Lines that are comments
// are left out.
func ReadTexts(files embed.FS) Texts {
	all := make(Texts)
	names, _ := fs.Glob(files, "sql/*.sql") // the pattern is ours
	for _, file := range names {
		content, err := files.ReadFile(file)
		if err != nil {
			panic(err) // it is part of the program
		}
		for _, part := range strings.Split("\n"+string(content), "\n-- name: ")[1:] {
			name, part, _ := strings.Cut(part, "\n")
			if _, ok := all[name]; ok {
				panic("parley: there are two statements " + name)
			}
			var x text
			for line := range strings.Lines(part) {
				if axes, ok := strings.CutPrefix(line, "-- axis: "); ok {
					x.axes = strings.Fields(axes)
				} else if !strings.HasPrefix(line, "--") {
					x.sql += line
				}
			}
			all[name] = x
		}
	}
	return all
}

// compiler makes statements of texts.
type compiler struct {
	*Dialect
	unused map[string]text
	err    error
}

func (c *compiler) fail(format string, args ...any) {
	c.err = errors.Join(c.err, fmt.Errorf("parley: statements: "+format, args...))
}

// compile makes the engine's statements: of its own texts, of the portable ones where it
// has none, and empty ones where there are none either.
func (d *Dialect) compile(q *Statements) error {
	c := &compiler{Dialect: d, unused: maps.Clone(d.Texts)}
	d.named = make(map[object]bool)
	c.fill(reflect.ValueOf(q).Elem(), portableTexts())
	if d.Own != nil {
		c.fill(reflect.ValueOf(d.Own).Elem(), nil)
	}
	if len(c.unused) > 0 {
		c.fail("%v are not used", slices.Sorted(maps.Keys(c.unused)))
	}
	return c.err
}

// fill makes the statements that a struct has fields for.
func (c *compiler) fill(to reflect.Value, otherwise Texts) {
	for i := range to.NumField() {
		name := to.Type().Field(i).Name
		x, ok := c.Texts[name]
		if !ok && otherwise == nil {
			c.fail("there is no %s", name)
		} else if !ok {
			x = otherwise[name]
		}
		delete(c.unused, name)
		c.bind(to.Field(i), name, x.sql, x.axes, !ok)
	}
}

// bind makes a statement, or an array of them with one for each value of the first axis.
func (c *compiler) bind(to reflect.Value, name, sql string, axes []string, portable bool) {
	sql = many.ReplaceAllStringFunc(sql, func(s string) string {
		m := many.FindStringSubmatch(s)
		n, _ := strconv.Atoi(m[1])
		return strings.TrimSuffix(strings.Repeat(m[2]+", ", n), ", ")
	})
	if strings.Contains(sql, "{") { // a value may bring tokens with it, but most are seen once
		sql = c.expand(name, sql)
	}
	if to.Kind() != reflect.Array {
		if c.Adapt != nil && sql != "" {
			sql = c.Adapt(sql, portable)
		}
		c.name(sql)
		stmt, err := c.Stmt(name, sql)
		if err != nil || len(axes) > 0 {
			c.fail("%s: %v, axes %v are left", name, err, axes)
		}
		to.Set(reflect.ValueOf(stmt))
		return
	}
	if len(axes) == 0 || len(c.Axes[axes[0]]) != to.Len() {
		c.fail("%s has the axes %v, want one with %d values", name, axes, to.Len())
		return
	}
	for i, value := range c.Axes[axes[0]] {
		c.bind(to.Index(i), name, value.Replace(sql), axes[1:], portable)
	}
}

// name takes down the indexes that a statement names. It fails if one of them is not there.
func (c *compiler) name(sql string) {
	if !strings.Contains(sql, "INDEX") {
		return
	}
	for _, m := range namesIndex.FindAllStringSubmatch(sql, -1) {
		c.named[object{c.Prefix + m[1], strings.Replace(m[2], "parley_", c.Prefix, 1)}] = true
	}
}

// namesIndex is a table, perhaps with an alias, and the index along which it is to be read.
var namesIndex = regexp.MustCompile(`parley_(\w+)(?: \w+)? (?:FORCE INDEX \(|INDEXED BY |WITH \(INDEX\()(\w+)`)

// many is the row of a list, with the number of rows, in double braces.
var many = regexp.MustCompile(`\{\{(\d+) (.*?)\}\}`)

// token is a verb in braces, with its argument and the space before it.
var token = regexp.MustCompile(`( ?)\{(\w+) ?([^{}]*)\}`)

// expand replaces the tokens of a statement. The name of a text stands for that text. A
// statement that locks is empty where nothing has to be locked.
func (c *compiler) expand(name, sql string) string {
	end, none := "", false
	sql = token.ReplaceAllStringFunc(sql, func(s string) string {
		m := token.FindStringSubmatch(s)
		space, verb, arg := m[1], m[2], m[3]
		text, ok := "", false
		if c.Token != nil {
			text, ok = c.Token(verb, arg)
		}
		if !ok {
			text, ok = c.defaultToken(verb, arg)
		}
		if !ok && (verb == "lock" || verb == "guard") {
			if end, none = "\n"+c.Lock, c.Lock == ""; arg == "skip" {
				end += " SKIP LOCKED"
			}
			return ""
		}
		if !ok {
			part, own := c.Texts[verb]
			if !own {
				part = portableTexts()[verb]
			}
			if delete(c.unused, verb); part.sql == "" {
				c.fail("%s: unknown token %s", name, s)
			}
			text = c.expand(verb, strings.TrimSpace(part.sql))
		}
		if text == "" {
			return ""
		}
		return space + text
	})
	if none {
		return ""
	}
	return strings.TrimSpace(sql) + end
}

// defaultToken is what stands for {verb arg} if the engine does not say it.
func (d *Dialect) defaultToken(verb, arg string) (text string, ok bool) {
	switch verb {
	case "prefix": // of the names of tables, with the schema
		return d.Schema + d.Prefix, true
	case "witness": // of a row, by its table, key and alias: see Witness
		return "1", true
	case "read": // how a table is read: dirty, skip or wait; and along which index
		return "", true
	case "order": // by which index the engine is to walk through a table
		return "", true
	case "exact", "bytes": // what compares texts whose collation has more that are equal
		return "", true
	case "key": // a row by its key, of which something more is asked
		return arg + " = ?", true
	case "limit", "some": // rows at most, in an order or any
		return "LIMIT " + arg, true
	case "new": // an insert that does nothing if the row is there already,
		return "INSERT", true
	case "otherwise": // and its end
		return "ON CONFLICT DO NOTHING", true
	case "once": // the time, worked out once
		return ":now", true
	case "due": // a column that is walked along
		return arg, true
	case "behind", "after": // those behind a place, by a column that is due or another one
		due, id, _ := strings.Cut(arg, " ")
		return due + " >= ? AND (" + due + " > ? OR " + id + " > ?)", true
	case "at": // a rank by which a list is walked along,
		return arg + " = ?", true
	case "under": // and the less urgent ones
		return arg + " < ?", true
	case "convert": // a parameter, whose type the engine may have to be told
		return arg[:1], true
	case "made": // the errors of attempts, of which the last one is made now
		return "replace(" + arg + ", '" + backend.AttemptNow + "', '\"at\":' || :now)", true
	case "octets": // of a body
		return "length(" + arg + ")", true
	case "until": // until when the owner o has its locks
		return "o.until", true
	case "expired": // of an owner
		return "kind <> 1 AND until <= :now", true
	}
	return "", false
}
