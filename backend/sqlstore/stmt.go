package sqlstore

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Stmt is a statement as the engine wants it.
type Stmt struct {
	Name   string
	Text   string
	clock  bool // takes the time as its last argument
	writes bool // changes rows
}

// writes reports whether a statement changes rows, and does not just lock them FOR UPDATE.
func writes(text string) bool {
	for words := text; words != ""; {
		word, rest := firstWord(words)
		switch word {
		case "INSERT", "DELETE", "MERGE":
			return true
		case "UPDATE":
			if table := strings.TrimLeft(rest, " \t\n"); table != "" && len(table) < len(rest) && unicode.IsLower(rune(table[0])) {
				return true
			}
		}
		words = rest
	}
	return false
}

// firstWord returns the first word of a text, and what follows on it.
func firstWord(text string) (word, rest string) {
	part := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	i := strings.IndexFunc(text, part)
	if i < 0 {
		return "", ""
	}
	text = text[i:]
	if i = strings.IndexFunc(text, func(r rune) bool { return !part(r) }); i < 0 {
		return text, ""
	}
	return text[:i], text[i:]
}

// Empty reports that the engine needs no such statement.
func (q *Stmt) Empty() bool { return q.Text == "" }

// Stmt rewrites one statement. Bare question marks become the engine's placeholders, :now its clock, and :newest the
// newest schema that this program works on. The prefix parley_ becomes the schema and prefix of its tables. Text in
// quotes is left alone, and comments are left out.
func (d *Dialect) Stmt(name, text string) (*Stmt, error) {
	s := &Stmt{Name: name, writes: writes(text)}
	var b strings.Builder
	params := 0
	for i := 0; i < len(text); {
		rest := text[i:]
		switch {
		case strings.HasPrefix(rest, "parley_"):
			b.WriteString(d.Schema)
			b.WriteString(d.Prefix)
			i += len("parley_")
		case strings.HasPrefix(rest, "--"):
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			i += n
		case rest[0] == '\'':
			n := strings.IndexByte(rest[1:], '\'')
			if n < 0 {
				return nil, fmt.Errorf("parley: statement %s: unclosed quote", name)
			}
			b.WriteString(rest[:n+2])
			i += n + 2
		case rest[0] == '?' || rest[0] == '$':
			n, digits := number(rest[1:])
			switch {
			case digits > 0:
				params = max(params, n)
				b.WriteString(rest[:1+digits])
			case strings.HasPrefix(rest, "?!"): // the last one again
				b.WriteString(d.Placeholder(params))
				i++
			case rest[0] == '?':
				params++
				b.WriteString(d.Placeholder(params))
			default:
				b.WriteByte('$')
			}
			i += 1 + digits
		case strings.HasPrefix(rest, ":now"):
			if d.Now != "" {
				b.WriteString(d.Now)
			} else {
				s.clock = true
				b.WriteString(nowMark)
			}
			i += len(":now")
		case strings.HasPrefix(rest, ":newest"):
			b.WriteString(strconv.Itoa(len(d.Migrations) + 1))
			i += len(":newest")
		default:
			n := 1 + strings.IndexAny(rest[1:], "p-'?$:")
			if n == 0 {
				n = len(rest)
			}
			b.WriteString(rest[:n])
			i += n
		}
	}
	s.Text = strings.TrimSpace(b.String())
	if s.clock {
		s.Text = strings.ReplaceAll(s.Text, nowMark, d.Placeholder(params+1))
	}
	return s, nil
}

// nowMark stands for the clock's parameter until the number of the others is
// known.
const nowMark = "\x00now\x00"

// number reads the digits that s begins with.
func number(s string) (n, digits int) {
	for digits < len(s) && s[digits] >= '0' && s[digits] <= '9' {
		digits++
	}
	n, _ = strconv.Atoi(s[:digits])
	return n, digits
}

// Rewrite applies the prefix to a file of the schema, and the schema's name if
// it needs that.
func (d *Dialect) Rewrite(text string) string {
	name := d.Prefix
	if d.Qualify {
		name = d.Schema + name
	}
	return strings.ReplaceAll(text, "parley_", name)
}
