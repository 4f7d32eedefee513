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

// Golden compares the statements of stores, as the driver gets them, with
// testdata/statements.txt, so that a change of one is seen in a diff. UPDATE=1 writes the
// file anew. Of a list of variants it has the first, and the hashes of the others; of
// a store after the first, with the prefix other_, what differs. Space between words does not
// count.
//
// A store is what has its statements: structs with a field Text, in fields and arrays.
func Golden(t *testing.T, stores ...[]any) {
	t.Helper()
	first := make(map[string]string)
	var lines []string
	for i, store := range stores {
		all := make(map[string]string)
		for _, have := range store {
			collect(all, "", reflect.ValueOf(have))
		}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if text := all[name]; i == 0 {
				lines, first[name] = append(lines, name+": "+text), text
			} else if text != first[name] {
				lines = append(lines, fmt.Sprintf("%s of store %d: %s", name, i+1, text))
			}
		}
	}
	const file = "testdata/statements.txt"
	got := strings.Join(lines, "\n") + "\n"
	if os.Getenv("UPDATE") != "" {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Split(strings.TrimSpace(string(want)), "\n")
	for _, line := range lines {
		if i := slices.Index(known, line); i < 0 {
			t.Errorf("a statement is not in %s: %s", file, line)
		} else {
			known = slices.Delete(known, i, i+1)
		}
	}
	for _, line := range known {
		t.Errorf("%s has a line that is out of date: %s", file, line)
	}
}

// collect adds the statements in a value by their names: those of fields.
func collect(all map[string]string, name string, v reflect.Value) {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Struct:
		if text := v.FieldByName("Text"); text.IsValid() {
			all[name] = own.Replace(strings.Join(strings.Fields(text.String()), " "))
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
				all[at] = fmt.Sprintf("%x", sha256.Sum256([]byte(all[at])))[:16]
			}
		}
	}
}
