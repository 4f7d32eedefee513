package mysql

import (
	"encoding/hex"
	"regexp"
	"strings"
	"testing"

	"github.com/parleymq/parley/backend"
)

// A value in a statement's text is data in every sql_mode and character set. It is written in
// hexadecimal, or left to the driver as a parameter.
func FuzzValuesInStatements(f *testing.F) {
	for _, s := range []string{"", "text", `'; DROP TABLE x; -- `, `\'`, "?", "\x00\xbf'", "日本"} {
		f.Add(s, int64(-1))
	}
	f.Fuzz(func(t *testing.T, s string, n int64) {
		text, args, err := inline("SELECT ?, ?", []any{s, n}, 0)
		if err != nil {
			t.Fatal(err)
		}
		number := builder{}
		number.int(n)
		want := "SELECT x'" + hex.EncodeToString([]byte(s)) + "', " + string(number.text)
		if len(s) > long {
			want = "SELECT ?, " + string(number.text)
		}
		if text != want || len(args) > 0 != (len(s) > long) {
			t.Errorf("got %q with %d arguments, want %q", text, len(args), want)
		}
	})
}

// So it is in lists, also where the columns' names and the rest of the text stand around
// it. What is left when the values are taken out is the same whatever they are.
func FuzzListsInStatements(f *testing.F) {
	f.Add("", "x", int64(0))
	f.Add("' OR 1=1 -- ", "\\", int64(-1))
	f.Add("), (", "?", int64(1)<<62)
	f.Fuzz(func(t *testing.T, a, b string, n int64) {
		if len(a) > long || len(b) > long {
			return
		}
		id := backend.ID([]byte("0123456789abcdef"))
		rows := [][]any{{id, a, n}, {id, b, []byte(a)}}
		columns := []string{"x", "y", "z"}
		for _, l := range []list{tuples(rows), either{columns, rows}, table{columns, rows}, ids{id, id},
			choice{"x", []backend.ID{id, id}, []any{a, n}}} {
			text, args, err := inline("?", []any{l}, 0)
			if err != nil || len(args) > 0 {
				t.Fatal(args, err)
			}
			if rest := inlined.ReplaceAllString(text, "V"); strings.ContainsAny(rest, "'\"\\-?;`") {
				t.Errorf("%T gives %q: beside its values there is %q", l, text, rest)
			}
		}
	})
}

var inlined = regexp.MustCompile(`x'[0-9a-f]*'|\(?-?\b[0-9]+\b\)?`)
