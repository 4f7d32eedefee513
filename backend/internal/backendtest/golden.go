package backendtest

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// own are the names of tables in a store with another prefix and schema.
var own = strings.NewReplacer("other.other_", "parley_", "other_", "parley_")

// Golden compares the statements of stores, as the driver gets them, with testdata/sql, so that a change of one is
// seen in a diff. A file there has the statements of the file of that name in sql, here or in sqlstore. UPDATE=1
// writes the files anew. Of a list of variants they have the first, and the hashes of the others. Of the second
// store, with the prefix other_, they have what differs.
//
// A store is what has its statements: structs with a field Text, in fields and arrays.
func Golden(t *testing.T, stores ...[]any) {
	t.Helper()
	files, first := make(map[string]string), make(map[string]string)
	sources := sourceFiles(t)
	for i, store := range stores {
		all := make(map[string]string)
		for _, have := range store {
			collect(all, "", reflect.ValueOf(have))
		}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			text, title := all[name], name
			if i > 0 {
				title = fmt.Sprintf("%s of store %d", name, i+1)
			}
			if text != first[name] {
				files[sources[plain(name)]] += goldenName + title + "\n" + text + "\n\n"
			}
			if i == 0 {
				first[name] = text
			}
		}
	}
	if os.Getenv("UPDATE") != "" {
		writeGolden(t, files)
	}
	want := readGolden(t)
	for file, text := range files {
		for title, statement := range statementsOf(text) {
			if known, ok := want[file][title]; !ok || known != statement {
				t.Errorf("%s of %s has changed, or is new: UPDATE=1 writes it to testdata/sql. It is now\n%s", title, file, statement)
			}
			delete(want[file], title)
		}
	}
	for file, list := range want {
		for title := range list {
			t.Errorf("testdata/sql/%s has %s, which the store does not have", file, title)
		}
	}
}

// Compiled are the statements in testdata/sql by their names, which Golden keeps true.
func Compiled(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, list := range readGolden(t) {
		maps.Copy(all, list)
	}
	return all
}

const (
	goldenFolder = "testdata/sql"
	goldenName   = "-- name: "
)

// plain is the name of a statement without its variant: that of a field.
func plain(name string) string {
	return name[:strings.IndexAny(name+"[", "[. ")]
}

// sourceFiles returns the file in which each statement is written, by its name.
func sourceFiles(t *testing.T) map[string]string {
	t.Helper()
	sources := make(map[string]string)
	for _, folder := range []string{"../sqlstore/sql", "sql"} { // an engine's own statement counts
		list, _ := filepath.Glob(filepath.Join(folder, "*.sql")) // the pattern is ours
		for _, file := range list {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				if name, ok := strings.CutPrefix(line, goldenName); ok {
					sources[strings.TrimSpace(name)] = filepath.Base(file)
				}
			}
		}
	}
	return sources
}

func writeGolden(t *testing.T, files map[string]string) {
	t.Helper()
	err := os.RemoveAll(goldenFolder)
	if err == nil {
		err = os.MkdirAll(goldenFolder, 0o755)
	}
	for file, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(goldenFolder, file), []byte(strings.TrimSpace(text)+"\n"), 0o644)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// readGolden returns the statements in testdata/sql, by file and name.
func readGolden(t *testing.T) map[string]map[string]string {
	t.Helper()
	files := make(map[string]map[string]string)
	list, _ := filepath.Glob(filepath.Join(goldenFolder, "*.sql")) // the pattern is ours
	for _, file := range list {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(file)] = statementsOf(string(text))
	}
	return files
}

func statementsOf(text string) map[string]string {
	statements := make(map[string]string)
	for _, part := range strings.Split("\n"+text, "\n"+goldenName)[1:] {
		title, statement, _ := strings.Cut(part, "\n")
		statements[title] = strings.TrimSpace(statement)
	}
	return statements
}

// collect adds the statements in a value by their names: those of fields.
func collect(all map[string]string, name string, v reflect.Value) {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Struct:
		if text := v.FieldByName("Text"); text.IsValid() {
			all[name] = own.Replace(strings.TrimSpace(text.String()))
			return
		}
		for i := range v.NumField() {
			field := []rune(v.Type().Field(i).Name)
			field[0] = unicode.ToUpper(field[0])
			collect(all, strings.TrimPrefix(name+"."+string(field), "."), v.Field(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			at := fmt.Sprintf("%s[%d]", name, i)
			if collect(all, at, v.Index(i)); i > 0 && all[at] != "" {
				words := strings.Join(strings.Fields(all[at]), " ")
				all[at] = fmt.Sprintf("-- %x", sha256.Sum256([]byte(words)))[:19]
			}
		}
	}
}
