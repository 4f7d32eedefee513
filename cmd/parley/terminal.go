package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// All text from a database reaches a terminal through this file. Anyone can write reasons,
// handlers' errors and names, and a terminal obeys control sequences: it sets titles and the
// clipboard, moves the cursor, hides text.

// shown makes text safe to print in one cell or line: it escapes non-graphic characters as in a Go
// string. These are control characters, newlines and tabs that could forge a row, characters that
// change the direction of writing, and invalid UTF-8.
func shown(s string) string {
	if strings.IndexFunc(s, hidden) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case hidden(r):
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// hidden reports whether a rune may affect a terminal beyond being displayed. The function
// unicode.IsPrint excludes all spaces except the ASCII one, and formatting characters such as those
// of bidirectional text.
func hidden(r rune) bool { return !unicode.IsPrint(r) }

// plain writes each line as shown does, and keeps the newlines. It is for help, and for errors,
// several of which may be joined by newlines.
type plain struct{ w io.Writer }

// Write implements io.Writer. A rune that is cut in two by the end of p is shown as
// its bytes; callers write whole messages.
func (p plain) Write(text []byte) (int, error) {
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		tabs := strings.Split(line, "\t") // help is indented by tabs
		for j := range tabs {
			tabs[j] = shown(tabs[j])
		}
		lines[i] = strings.Join(tabs, "\t")
	}
	if _, err := io.WriteString(p.w, strings.Join(lines, "\n")); err != nil {
		return 0, err
	}
	return len(text), nil
}
