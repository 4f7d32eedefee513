package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/parleymq/parley"
)

// TestTablesFit: a table is as wide as the terminal at most, but for ids, which stay whole, and
// columns that are narrow already.
func TestTablesFit(t *testing.T) {
	id := parley.NewID().String()
	table := [][]string{
		{"GROUP", "STATE", "REASON"},
		{id, "parked", strings.Repeat("a long story ", 20)},
		{id, "ready", "日本語の長い理由日本語の長い理由日本語の長い理由日本語の長い理由"},
	}
	for _, width := range []int{200, 80, 60, 10} {
		var b strings.Builder
		if err := writeFitting(&b, table, width, true); err != nil {
			t.Fatal(err)
		}
		text := ansi.Strip(b.String())
		for line := range strings.Lines(text) {
			if n := ansi.StringWidth(strings.TrimRight(line, "\n")); n > max(width, 36+2+6+2+narrowest) {
				t.Errorf("of %d: a line is %d wide: %s", width, n, line)
			}
		}
		if strings.Count(text, id) != 2 || !strings.Contains(b.String(), red+"parked"+plainText) {
			t.Errorf("of %d:\n%s", width, b.String())
		}
	}
	var b strings.Builder
	if err := writeFitting(&b, table, 80, false); err != nil || strings.Contains(b.String(), "\x1b") {
		t.Errorf("without colours, %v: %q", err, b.String())
	}
}

// TestStatusOnTerminal: a terminal gets colours, and a bar where work takes long.
func TestStatusOnTerminal(t *testing.T) {
	db, _ := ward(t)
	t.Setenv("NO_COLOR", "")
	s := onTerminal(t, "status", "--db", db)
	s.writes(bold+"QUEUE"+plainText, yellow+"disabled"+plainText)
	s = onTerminal(t, "drain", "work", "--timeout", "2s", "--every", "50ms", "--db", db)
	s.writes("\rwaiting, work: 2 left, ", "gave up after 2s")
}

func TestManualPagesAndCompletion(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	t.Setenv("PARLEY_DB", "postgres://u:secret@db/app")
	works(t, "man", dir)
	for page, want := range map[string]string{"parley.1": "parley\\-status(1)", "parley-parked-retry.1": "no such customer", "parley-post.1": "customer\\-7"} {
		text, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want) && !strings.Contains(string(text), strings.ReplaceAll(want, "\\", "")) {
			t.Errorf("%s lacks %q:\n%s", page, want, text)
		}
		if strings.Contains(string(text), "secret") {
			t.Errorf("%s has the password of PARLEY_DB", page)
		}
	}
	if strings.Contains(works(t, "status", "--help"), "secret") {
		t.Error("help has the password of PARLEY_DB")
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := works(t, "completion", shell); !strings.Contains(out, "parley") {
			t.Errorf("completion %s prints %.100q", shell, out)
		}
	}
	if out := works(t, "__complete", "par"); !strings.Contains(out, "parked") {
		t.Errorf("par is completed to %q", out)
	}
}

func TestVersionCommand(t *testing.T) {
	db, _ := database(t)
	t.Setenv("PARLEY_DB", "")
	if out := works(t, "version"); !strings.HasPrefix(out, "parley ") || strings.Count(out, "\n") != 1 {
		t.Errorf("version prints %q", out)
	}
	if out := works(t, "--db", db, "version"); !strings.Contains(out, "sqlite 3.") || !strings.Contains(out, "schema ") {
		t.Errorf("version of a database prints %q", out)
	}
}

// TestPostFromFile posts a file's bytes as they are, and refuses what contradicts itself.
func TestPostFromFile(t *testing.T) {
	db, _ := database(t)
	body := "\x00\xff not text\n"
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(works(t, "post", "home", "--file", file, "--priority", "9", "--db", db))
	out := works(t, "peek", "home", "--json", "--db", db)
	if !strings.Contains(out, id) || !strings.Contains(out, `"body_base64": "AP8gbm90IHRleHQK"`) {
		t.Errorf("peek prints\n%s", out)
	}
	for _, test := range []struct {
		args string
		code int
		says string
	}{
		{"post home --file " + file + " --body x", 2, "body file"},
		{"post home --file " + file + ".none", 1, "no such file"},
		{"post home --priority 11", 1, "11"},
		{"post home --type Unheard", 1, "Unheard"},
		{"post nowhere --body x", 1, "nowhere"},
		{"peek home --limit 0", 1, "limit 0"},
		{"peek home --group x", 1, `"x" is not an id`},
		{"cancel home", 2, "at least 2"},
		{"enable home nowhere", 1, "after 1 queues"},
		{"retry x", 1, `"x" is not an id`},
	} {
		code, _, errs := tool(t, append(strings.Fields(test.args), "--db", db)...)
		if code != test.code || !strings.Contains(errs, test.says) {
			t.Errorf("parley %s: exit code %d, want %d, and %q, want %q", test.args, code, test.code, errs, test.says)
		}
	}
}
