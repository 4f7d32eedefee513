package mssql

import (
	"database/sql"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parleymq/parley/backend/sqlstore"
)

// lockStep is the lock of one mention of a table in a statement. Its line has these fields. First
// comes the table, with the index if the statement names it; then key, or row if the server may
// choose. The mode follows, and the duration: row is until the row has been read, end until the end
// of the transaction. Then the line says what happens if another transaction has the row locked.
// The last field is the version that is read: current, committed or current by the database's
// option, or dirty, without a lock.
type lockStep struct {
	table    string
	granule  string // key, row, range
	mode     string // S, U, X, insert, none
	until    string // row, end
	conflict string // wait, skip, fail, never; error where the server refuses the hint
	version  string // current, option, dirty

	statement int // in its batch
}

func (l lockStep) String() string {
	return strings.Join([]string{l.table, l.granule, l.mode, l.until, l.conflict, l.version}, " ")
}

var (
	mention = regexp.MustCompile(`(?s)\b(FROM|JOIN|UPDATE|INSERT INTO|DELETE FROM)\s+parley_(\w+)(?:\s+([a-z]\w*))?(?:\s+WITH\s*\(((?:[^()]|\([^()]*\))*)\))?` +
		`|\b(UPDATE|DELETE)\s+([a-z])\b|(;)`)
	hint    = regexp.MustCompile(`INDEX\(\w+\)|[A-Z]+`)
	literal = regexp.MustCompile(`'[^']*'`)
	remark  = regexp.MustCompile(`--[^\n]*`)
)

// lockSteps derives from a statement's hints what it locks, by the manual's rules.
func lockSteps(text string) (steps []lockStep) {
	text = literal.ReplaceAllString(remark.ReplaceAllString(text, ""), "''")
	target, verb, statement := "", "", 0
	for _, m := range mention.FindAllStringSubmatch(text, -1) {
		switch {
		case m[7] != "":
			statement++
			continue
		case m[5] != "":
			verb, target = m[5], m[6]
			continue
		}
		hints := hint.FindAllString(m[4], -1)
		has := func(h string) bool { return slices.Contains(hints, h) }
		l := lockStep{table: m[2], granule: "row", mode: "S", until: "row", conflict: "wait", version: "option", statement: statement}
		for _, h := range hints {
			if strings.HasPrefix(h, "INDEX") {
				l.table += "." + h[len("INDEX("):len(h)-1]
			}
		}
		if has("ROWLOCK") {
			l.granule = "key"
		}
		if has("READCOMMITTEDLOCK") {
			l.version = "current"
		}
		switch {
		case has("READPAST") && has("READCOMMITTEDLOCK"):
			l.conflict = "skip"
		case has("READPAST"):
			l.conflict = "error" // with READ_COMMITTED_SNAPSHOT on
		case has("NOWAIT"):
			l.conflict = "fail"
		}
		switch {
		case m[1] == "INSERT INTO":
			l.mode, l.until = "insert", "end"
		case m[1] == "UPDATE" || m[1] == "DELETE FROM" || verb != "" && m[3] == target:
			l.mode, l.until = "X", "end"
			verb, target = "", ""
		case has("READUNCOMMITTED"):
			l = lockStep{table: l.table, granule: l.granule, mode: "none", until: "row", conflict: "never", version: "dirty", statement: statement}
		case has("XLOCK"):
			l.mode, l.until = "X", "end"
		case has("UPDLOCK"):
			l.mode, l.until = "U", "end"
		case has("REPEATABLEREAD"):
			l.until = "end"
		}
		if has("HOLDLOCK") || has("SERIALIZABLE") {
			l.granule, l.until = "range", "end"
		}
		steps = append(steps, l)
	}
	return steps
}

// lockLines are the steps as a statement's comments give them: those of one table and
// kind once.
func lockLines(text string) (lines []string) {
	for _, l := range lockSteps(text) {
		if !slices.Contains(lines, l.String()) {
			lines = append(lines, l.String())
		}
	}
	return lines
}

// declared are the lines of testdata/locks.txt, by statement.
func declared(t *testing.T) map[string][]string {
	content, err := os.ReadFile("testdata/locks.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]string)
	for line := range strings.Lines(string(content)) {
		name, locks, _ := strings.Cut(strings.TrimSpace(line), ": ")
		all[name] = strings.Split(locks, "; ")
	}
	return all
}

// allStatements are the statements as the server gets them, by name.
func allStatements(t *testing.T) map[string]string {
	db, err := sql.Open("sqlserver", "sqlserver://nowhere")
	if err != nil {
		t.Fatal(err)
	}
	store := New(db, nil)
	all := make(map[string]string)
	for _, list := range []reflect.Value{reflect.ValueOf(*store.Q()), reflect.ValueOf(store.pool.many)} {
		for i := range list.NumField() {
			if q := list.Field(i).Interface().(*sqlstore.Stmt); !q.Empty() {
				all[list.Type().Field(i).Name] = q.Text
			}
		}
	}
	return all
}

// TestLockLines compares the locks listed for each statement with those that follow from its hints.
// A statement that is not listed only changes rows by their key and reads no other table, because a
// read needs hints.
func TestLockLines(t *testing.T) {
	list, all := declared(t), allStatements(t)
	for name, text := range all {
		got, want := list[name], lockLines(text)
		steps := lockSteps(text)
		change := len(steps) == 1 && steps[0].granule == "row" && (steps[0].mode == "X" || steps[0].mode == "insert")
		if (got != nil || !change) && !slices.Equal(got, want) {
			t.Errorf("%s is said to lock\n\t%s\nbut locks\n\t%s", name,
				strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
		}
	}
	for name := range list {
		if all[name] == "" {
			t.Errorf("there is no statement %s", name)
		}
	}
}

var withHints = regexp.MustCompile(`WITH \(((?:[^()]|\([^()]*\))*)\)`)

// TestEveryHintMatters takes each hint out of each statement, which the lines must
// notice.
func TestEveryHintMatters(t *testing.T) {
	n, list := 0, declared(t)
	for name, text := range allStatements(t) {
		for _, at := range withHints.FindAllStringSubmatchIndex(text, -1) {
			hints := hint.FindAllStringIndex(text[at[2]:at[3]], -1)
			for i := range hints {
				var rest []string
				for j, h := range hints {
					if j != i {
						rest = append(rest, text[at[2]+h[0]:at[2]+h[1]])
					}
				}
				broken := text[:at[0]] + "WITH (" + strings.Join(rest, ", ") + ")" + text[at[1]:]
				if len(rest) == 0 {
					broken = text[:at[0]] + text[at[1]:]
				}
				n++
				if same(lockSteps(broken), lockSteps(text)) || slices.Equal(lockLines(broken), list[name]) {
					t.Errorf("%s: without %s in %s nothing is noticed", name,
						text[at[2]+hints[i][0]:at[2]+hints[i][1]], text[at[0]:at[1]])
				}
			}
		}
	}
	if n < 300 {
		t.Errorf("only %d hints were tried", n)
	}
}

func same(a, b []lockStep) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// TestForbidden looks for what must not be used: see the top of dialect.go.
func TestForbidden(t *testing.T) {
	for name, text := range allStatements(t) {
		text = literal.ReplaceAllString(remark.ReplaceAllString(text, ""), "''")
		for _, word := range []string{"MERGE", "HOLDLOCK", "SERIALIZABLE", "TABLOCK", "PAGLOCK", "LIMIT"} {
			if regexp.MustCompile(`\b` + word + `\b`).MatchString(text) {
				t.Errorf("%s uses %s", name, word)
			}
		}
		if regexp.MustCompile(`(?s)^\s*WITH\s+\w+\s+AS`).MatchString(text) {
			t.Errorf("%s begins with a common table expression", name)
		}
		for _, l := range lockSteps(text) {
			if l.conflict == "error" {
				t.Errorf("%s: %v: READPAST needs READCOMMITTEDLOCK", name, l)
			}
		}
	}
}
