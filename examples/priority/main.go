// Command priority is a service with a long backlog whose clients ask that a request be
// moved to the front. The idea is that of Remus Rusanu's "Processing conversation with
// priority order".
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/mssql"
	_ "github.com/parleymq/parley/backend/mysql"
	_ "github.com/parleymq/parley/backend/postgres"
	_ "github.com/parleymq/parley/backend/sqlite"
	"github.com/parleymq/parley/examples/priority/sample"
)

func main() {
	db := flag.String("db", "sqlite::memory:", "`database` of the example, in which it makes its tables")
	var o sample.Options
	o.Flags(flag.CommandLine)
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *db, o); err != nil {
		fmt.Fprintln(os.Stderr, "priority:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, db string, o sample.Options) error {
	b, err := parley.Open(ctx, db, nil)
	if err != nil {
		return err
	}
	defer b.Close()
	if err := b.Migrate(ctx); err != nil {
		return err
	}
	return sample.Run(ctx, b, o, os.Stdout)
}
