package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// callShown is a call of the command in a page: a line of a block, or a span of code.
var callShown = regexp.MustCompile("(?m)^(?:parley|go run ./cmd/parley) .*$|`parley [^`]*`")

// TestDocs: the command knows each call that a page shows, with its flags.
func TestDocs(t *testing.T) {
	calls := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" || d.Name() == "CHANGELOG.md" || d.Name() == "renames.md" {
			if err == nil && d.IsDir() && (d.Name() == ".cache" || d.Name() == "decisions") { // decisions tell of their day
				return fs.SkipDir
			}
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, line := range callShown.FindAllString(string(text), -1) {
			if strings.ContainsAny(line, "<") || strings.Contains(line, "COMMAND") {
				continue // it stands for any
			}
			calls++
			args := shellWords(strings.TrimPrefix(strings.TrimPrefix(strings.Trim(line, "`"), "go run ./cmd/"), "parley"))
			root := (&call{}).root()
			root.InitDefaultHelpCmd()
			root.InitDefaultCompletionCmd()
			cmd, rest, err := root.Find(args)
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err == nil && cmd == cmd.Root() && len(cmd.Flags().Args()) > 0 {
				t.Errorf("%s: %s: no such command", path, line)
			}
			if err != nil && !errors.Is(err, pflag.ErrHelp) {
				t.Errorf("%s: %s: %v", path, line, err)
			}
		}
		return nil
	})
	if err != nil || calls < 60 {
		t.Fatalf("%d calls, %v", calls, err)
	}
}

// shellWords splits a line as a shell does, up to a comment, and leaves out what stands for something else.
func shellWords(line string) (all []string) {
	for line = strings.Join(strings.Fields(line), " "); line != "" && line[0] != '#'; line = strings.TrimSpace(line) {
		word := ""
		for line != "" && line[0] != ' ' {
			if i := strings.IndexByte(line[1:], line[0]); i >= 0 && (line[0] == '\'' || line[0] == '"') {
				word, line = word+line[1:i+1], line[i+2:]
				continue
			}
			word, line = word+line[:1], line[1:]
		}
		switch word {
		case "…", "\\", "--db", "|":
		default:
			all = append(all, word)
		}
	}
	return all
}
