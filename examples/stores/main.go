// Command stores spreads work over two stores, each with its Broker, and hands work over from one to the other.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/mssql"
	_ "github.com/parleymq/parley/backend/mysql"
	_ "github.com/parleymq/parley/backend/postgres"
	_ "github.com/parleymq/parley/backend/sqlite"
)

func main() {
	list := flag.String("stores", "", "`databases` with commas between; default two SQLite files, which are removed again")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *list, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "stores:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, list string, out io.Writer) error {
	if list == "" {
		dir, err := os.MkdirTemp("", "stores")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		list = "sqlite:" + filepath.Join(dir, "1.db") + ",sqlite:" + filepath.Join(dir, "2.db")
	}
	var s stores
	for db := range strings.SplitSeq(list, ",") {
		b, err := parley.Open(ctx, db, quiet())
		if err != nil {
			return err
		}
		defer b.Close()
		s = append(s, b)
	}
	return sell(ctx, s, out)
}
