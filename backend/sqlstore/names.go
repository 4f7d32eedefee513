package sqlstore

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/parleymq/parley/backend"
)

// names matches what may be used as a prefix or schema without quoting on any
// engine, unless it is a word of SQL's there.
var names = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// Reserved are the words that an engine's statements take for something else than a
// name, with spaces between. A word with a star at its end stands for all that begin so.
type Reserved string

func (r Reserved) has(name string) bool {
	return slices.ContainsFunc(strings.Fields(string(r)), func(word string) bool {
		start, all := strings.CutSuffix(word, "*")
		return name == word || all && strings.HasPrefix(name, start)
	})
}

// Names returns the prefix of a store's names, "parley_" if none is given, and its
// schema with a dot behind it, as Dialect wants them. Where one of them cannot stand in
// a statement it says so and returns the defaults. So a store can be made whose every
// call fails with the error.
func Names(prefix, schema string, words Reserved) (p, dot string, err error) {
	if prefix == "" {
		prefix = "parley_"
	}
	if schema != "" {
		dot = schema + "."
	}
	if err = checkName("prefix", prefix); err == nil {
		err = checkName("schema", schema)
	}
	if err == nil && words.has(schema) {
		err = reserved("schema", schema, schema)
	}
	for _, r := range tableRights {
		if err == nil && words.has(prefix+r.Table) {
			err = reserved("prefix", prefix, prefix+r.Table)
		}
	}
	if err != nil {
		return "parley_", "", err
	}
	return prefix, dot, nil
}

func reserved(what, name, word string) error {
	return fmt.Errorf("parley: %s %q: %s is a word of the database's own: %w", what, name, word, backend.ErrInvalidName)
}

// checkName returns an error unless name is empty or has the form of a name that may
// stand in a statement without quotes.
func checkName(what, name string) error {
	if name == "" || len(name) <= 32 && names.MatchString(name) {
		return nil
	}
	return fmt.Errorf("parley: %s %q: want at most 32 of a-z, 0-9 and _, not beginning with a digit: %w",
		what, name, backend.ErrInvalidName)
}
