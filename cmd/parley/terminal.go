package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// This file is the only way in which what a database says reaches a terminal.
// Reasons, handlers' errors and names come from anywhere, and a terminal obeys what
// it is shown: it sets titles and the clipboard, moves the cursor, hides text.

// shown makes text safe to print in one cell or line: what is not graphic is written
// as in a Go string. That is every control character, newlines and tabs with which a
// row could be forged, what changes the direction of writing, and invalid UTF-8.
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

// hidden reports whether a rune may do something to a terminal besides being seen.
// unicode.IsPrint leaves out the formatting characters, among them those of
// bidirectional text, and all spaces but the ASCII one.
func hidden(r rune) bool { return !unicode.IsPrint(r) }

// plain writes each line of what it is given as shown does, and keeps the newlines:
// for errors, of which several may be joined by lines, and help.
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
