package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

var serverSchemes = []string{"postgres", "postgresql", "mysql", "mariadb", "sqlserver"}

// refusedName opens a name, which must fail, and returns what it says.
func refusedName(t *testing.T, dsn string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	b, err := backend.Open(ctx, dsn)
	if err == nil {
		b.Close()
		t.Errorf("%q was opened", dsn)
		return ""
	}
	return err.Error()
}

func TestErrorsOfOpenQuoteNoPassword(t *testing.T) {
	for _, scheme := range serverSchemes {
		for _, rest := range []string{
			"u:sec%ret@127.0.0.1:1/db", "u:sec%zzret@127.0.0.1:1/db", "u:sec/ret@127.0.0.1:1/db", "u:sec ret@127.0.0.1:1/db",
			"u:sec#ret@127.0.0.1:1/db", "u:sec?ret@127.0.0.1:1/db", "u:sec\x7fret@127.0.0.1:1/db", "u:sec[ret@127.0.0.1:1/db",
			"u:9/sec-ret@127.0.0.1:1/db", "u:sec-ret@127.0.0.1:1x/db", "u:sec-ret@127.0.0.1:1/db?parley_x=1",
			"u@127.0.0.1:1/db?password=sec%ret", "u:sec-ret@127.0.0.1:1/db?sslmode=nonsense&tls=nonsense&encrypt=nonsense",
			"u:sec-ret@127.0.0.1:1/db?connect_timeout=sec&timeout=1",
		} {
			dsn := scheme + "://" + rest
			if says := refusedName(t, dsn); strings.Contains(says, "ret@") || strings.Contains(says, "sec-") ||
				strings.Contains(says, "ec%") || strings.Contains(says, ":sec") || strings.Contains(says, "%ret") {
				t.Errorf("Open(%q) quotes the password: %s", dsn, says)
			}
		}
	}
}

func TestUnknownParametersOfParleyAreRefused(t *testing.T) {
	names := []string{"sqlite:" + t.TempDir() + "/x.db"}
	for _, scheme := range serverSchemes {
		names = append(names, scheme+"://u@127.0.0.1:1/db")
	}
	for _, name := range names {
		for _, param := range []string{"parley_prefx=a_", "Parley_prefix=a_", "parley_=1"} {
			if says := refusedName(t, name+"?"+param); !strings.Contains(says, "parley_prefix") || !strings.Contains(says, "no parameter") {
				t.Errorf("Open(%s?%s) says %q, want that the parameter is not known, and parley_prefix", name, param, says)
			}
		}
	}
}

func FuzzNamesForOpen(f *testing.F) {
	for _, scheme := range serverSchemes {
		f.Add(scheme + "://u:PASSWORD@127.0.0.1:1/db?x=1")
		f.Add(scheme + "://u:PASSWORD%@127.0.0.1:1/db?parley_prefix=a_")
		f.Add(scheme + ":PASSWORD")
	}
	f.Add("sqlite:")
	f.Add("sqlite::memory:?parley_prefix=1")
	over, cancel := context.WithCancel(context.Background())
	cancel() // nothing is connected to
	f.Fuzz(func(t *testing.T, name string) {
		if strings.HasPrefix(name, "sqlite:") && !strings.HasPrefix(name, "sqlite::memory:") {
			return // it would make files of any name
		}
		b, err := backend.Open(over, name)
		if err == nil {
			b.Close()
		} else if strings.Contains(err.Error(), "PASSWORD") {
			t.Errorf("Open(%q) quotes the password: %v", name, err)
		}
	})
}

func TestMistypedPathMakesNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mistyped.db")
	for _, args := range [][]string{{"status"}, {"doctor"}, {"groups", "q"}, {"parked"}, {"top", "--once"}, {"locks"}, {"migrate", "--print"}} {
		code, out, errs := tool(t, append(args, "--db", "sqlite:"+path+"?parley_prefix=p_")...)
		if args[0] == "migrate" {
			if code != 0 || !strings.Contains(out, "CREATE TABLE p_meta") {
				t.Errorf("%v: exit code %d, %s%.200s", args, code, errs, out)
			}
		} else if code != 1 || !strings.Contains(errs, "no such database") {
			t.Errorf("%v: exit code %d, %s; want 1 and that there is no such database", args, code, errs)
		}
		if _, err := os.Stat(path); err == nil {
			t.Fatalf("parley %v made the file", args)
		}
	}
}

// TestReservedNames: a schema or prefix with which a statement would be wrong is refused
// before anything is connected to.
func TestReservedNames(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, name := range []string{
		"postgres://u@127.0.0.1:1/db?parley_schema=user", "postgres://u@127.0.0.1:1/db?parley_schema=select",
		"postgres://u@127.0.0.1:1/db?parley_schema=pg_mine", "postgres://u@127.0.0.1:1/db?parley_schema=a-b",
		"sqlserver://u@127.0.0.1:1?parley_schema=user", "sqlserver://u@127.0.0.1:1?parley_schema=plan",
		"mysql://u@127.0.0.1:1/db?parley_prefix=un", "sqlite::memory:?parley_prefix=sqlite_", "sqlite::memory:?parley_prefix=a'b",
	} {
		if b, err := backend.Open(over, name); !errors.Is(err, parley.ErrInvalidName) {
			t.Errorf("Open(%s): %v, want ErrInvalidName", name, err)
			if err == nil {
				b.Close()
			}
		}
	}
	b, err := backend.Open(t.Context(), "sqlite::memory:?parley_prefix=select")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Migrate(t.Context()); err != nil {
		t.Errorf("a word with more behind it is none: %v", err)
	}
}
