package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
)

func TestMain(m *testing.M) {
	if db := os.Getenv(dieOn); db != "" {
		fmt.Fprintln(os.Stderr, die(context.Background(), db, os.Stdout))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestMailer(t *testing.T) {
	for _, test := range []struct {
		name string
		o    options
		want string
	}{
		{"all sent", options{}, ` 60 mails sent in .* 0 given up, 0 received twice`},
		{"some are given up", options{fails: 0.6}, ` mails sent in .* [1-9][0-9]* given up, 0 received twice`},
		{"a process dies", options{crash: true}, ` killed before its commit\n 60 mails sent in .* 0 given up, 1 received twice`},
	} {
		t.Run(test.name, func(t *testing.T) {
			db := "sqlite:" + filepath.Join(t.TempDir(), "mails.db")
			b, err := parley.Open(t.Context(), db, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			if err := b.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			test.o.mails, test.o.senders, test.o.processors, test.o.takes = 60, 3, 5, time.Millisecond
			var out strings.Builder
			if err := sendMails(t.Context(), b, db, test.o, &out); err != nil {
				t.Fatal(err)
			}
			if got := " " + strings.ReplaceAll(out.String(), "\n", "\n "); !regexp.MustCompile(test.want).MatchString(got) {
				t.Errorf("printed\n%s\nwant it to match %q", got, test.want)
			}
		})
	}
}
