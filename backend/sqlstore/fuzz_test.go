package sqlstore

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
)

// A damaged row gives an error or a value, never a panic. A text that is no number is not read as a
// number.
func FuzzDamagedColumns(f *testing.F) {
	for _, s := range []string{"", "12", "12 and more", "-1", "9223372036854775808", "\x00", strings.Repeat("x", 16),
		"01902f3c-0000-7000-8000-000000000000", `{"name":1}`} {
		f.Add([]byte(s), int64(1))
	}
	f.Fuzz(func(t *testing.T, b []byte, n int64) {
		for _, src := range []any{nil, b, string(b), n, float64(n), n != 0, time.UnixMicro(n)} {
			var id backend.ID
			var body []byte
			var text string
			var number int64
			var flag bool
			for _, dest := range []any{ID(&id), Body(&body), Text(&text), Bool(&flag)} {
				_ = dest.(interface{ Scan(any) error }).Scan(src)
			}
			err := Int(&number).(interface{ Scan(any) error }).Scan(src)
			if s, ok := src.(string); ok && err == nil && strings.TrimLeft(s, "+-0") != strings.TrimLeft(strconv.FormatInt(number, 10), "-0") {
				t.Errorf("the number %q is read as %d", s, number)
			}
		}
		unpack(b)
		for _, kind := range []backend.ObjectKind{backend.ObjectType, backend.ObjectContract, backend.ObjectService, backend.ObjectPriority, "x"} {
			_ = decodeObject(new(backend.Catalog), kind, b)
		}
	})
}

// Names that are taken need no quotes in a statement.
func FuzzNames(f *testing.F) {
	f.Add("parley_", "app")
	f.Add("a'b", `"`)
	f.Add("", "select")
	f.Fuzz(func(t *testing.T, prefix, schema string) {
		p, dot, err := Names(prefix, schema, "select sql*")
		if strings.ContainsFunc(p+strings.TrimSuffix(dot, "."), func(r rune) bool {
			return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
		}) || strings.HasPrefix(dot, "sql") {
			t.Errorf("Names(%q, %q) returns %q, %q, %v", prefix, schema, p, dot, err)
		}
	})
}

// A statement that ends the transaction is found behind any comments and blanks.
func FuzzEnding(f *testing.F) {
	f.Add(" ", "work")
	f.Add("-- x\n/* ' */;", "")
	f.Add("/*", ";")
	f.Fuzz(func(t *testing.T, before, after string) {
		Ending(before + after)
		comment := "/*" + strings.ReplaceAll(before, "*/", "") + " */ commit"
		if ends, _ := Ending(comment); !ends && !strings.HasSuffix(before, "*") {
			t.Errorf("%q is not found", comment)
		}
	})
}
