package postgres

import (
	"bytes"
	"database/sql"
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// A body in a statement's text must mean the same with standard_conforming_strings on
// and off: no backslash, and nothing but digits between its quotes.
func FuzzBodiesInStatementsHaveNoEscapes(f *testing.F) {
	for _, s := range []string{"", "body", `'\x00'`, "\x00\xff", `\'; DROP TABLE x; --`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		text, ok := inline("SELECT $1", []any{body})
		want := "SELECT decode('" + hex.EncodeToString(body) + "', 'hex')"
		if !ok || text != want {
			t.Errorf("got %q, want %q", text, want)
		}
	})
}

// The text of an array, read as "Array Input and Output Syntax" says, is the list again.
func FuzzTextArrays(f *testing.F) {
	for _, s := range [][2]string{{"", ""}, {"a,b", `"`}, {`\`, `\"`}, {"{}", "NULL"}, {"\n", "\xff"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		text := texts([]string{a, b})
		rest := strings.TrimPrefix(text, "{")
		for i, want := range []string{a, b} {
			got, after, ok := element(rest)
			if !ok || got != want {
				t.Fatalf("element %d of %q is %q, want %q", i, text, got, want)
			}
			rest = strings.TrimPrefix(after, ",")
		}
		if rest != "}" {
			t.Errorf("%q ends with %q", text, rest)
		}
	})
}

// element reads an element in quotes.
func element(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		return "", s, false
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			if i++; i == len(s) {
				return "", "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}

func TestBodiesArriveWithStandardConformingStringsOff(t *testing.T) {
	dsn := os.Getenv("PARLEY_TEST_POSTGRES")
	if dsn == "" {
		t.Skip("PARLEY_TEST_POSTGRES is not set")
	}
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "SET standard_conforming_strings = off"); err != nil {
		t.Fatal(err)
	}
	want := []byte("\x00'\\\xff")
	text, _ := inline("SELECT $1::bytea", []any{want})
	var got []byte
	if err := conn.QueryRowContext(t.Context(), text).Scan(&got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s returns %q, %v; want %q", text, got, err, want)
	}
	text, _ = inline("SELECT ($1::bytea[])[1]", []any{byteas([][]byte{want})})
	if err := conn.QueryRowContext(t.Context(), text).Scan(&got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s returns %q, %v; want %q", text, got, err, want)
	}
}

// A text in a statement, such as the name of an application lock, is one literal, and
// means the text, with standard_conforming_strings on and off.
func FuzzTextsInStatements(f *testing.F) {
	for _, s := range []string{"", "lock", "it's", `\`, `\'; DROP TABLE x; --`, "$1", "日本", "E''"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text, ok := inline("SELECT $1", []any{s})
		if strings.Contains(s, "\x00") {
			if ok {
				t.Errorf("%q has a zero byte and is written as %q", s, text)
			}
			return
		}
		literal := strings.TrimSpace(strings.TrimPrefix(text, "SELECT "))
		escapes := strings.HasPrefix(literal, "E")
		inner, quoted := strings.CutPrefix(strings.TrimPrefix(literal, "E"), "'")
		inner, closed := strings.CutSuffix(inner, "'")
		if !ok || !quoted || !closed || escapes != strings.Contains(s, `\`) {
			t.Fatalf("%q is written as %q", s, text)
		}
		if escapes {
			if strings.Contains(strings.ReplaceAll(inner, `\\`, ""), `\`) {
				t.Errorf("%q is written as %q", s, text)
			}
			inner = strings.ReplaceAll(inner, `\\`, `\`)
		}
		if strings.Contains(strings.ReplaceAll(inner, "''", ""), "'") || strings.ReplaceAll(inner, "''", "'") != s {
			t.Errorf("%q is written as %q", s, text)
		}
	})
}
