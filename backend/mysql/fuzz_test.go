package mysql

import (
	"encoding/hex"
	"testing"
)

// A value in a statement's text is data in every sql_mode and character set: it is
// written in hexadecimal, or left to the driver as a parameter.
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
