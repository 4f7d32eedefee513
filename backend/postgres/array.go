package postgres

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/parleymq/parley/backend"
)

// Arrays are passed as text, with a cast in the statement, which every driver
// can do. See "Array Input and Output Syntax" in the manual.

func uuids(ids []backend.ID) string {
	b := make([]byte, 0, 37*len(ids)+2)
	b = append(b, '{')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		if id.IsZero() {
			b = append(b, "NULL"...)
			continue
		}
		b = append(b, id.String()...)
	}
	return string(append(b, '}'))
}

func ints[T ~int | ~int64](list []T) string {
	b := make([]byte, 0, 8*len(list)+2)
	b = append(b, '{')
	for i, n := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return string(append(b, '}'))
}

func texts(list []string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, s := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		for j := range len(s) {
			if s[j] == '"' || s[j] == '\\' {
				b.WriteByte('\\')
			}
			b.WriteByte(s[j])
		}
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}

// byteas writes an array of byte strings; nil is NULL.
func byteas(list [][]byte) string {
	n := 2
	for _, v := range list {
		n += 2*len(v) + 7
	}
	b := make([]byte, 0, n)
	b = append(b, '{')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		if v == nil {
			b = append(b, "NULL"...)
			continue
		}
		b = append(b, `"\\x`...)
		b = hex.AppendEncode(b, v)
		b = append(b, '"')
	}
	return string(append(b, '}'))
}
