// Command recycling sends an audit log, one way, on dialogs that are reused and renewed. The
// idea is that of Remus Rusanu's "Recycling Conversations".
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
)

func main() {
	db := flag.String("db", "sqlite::memory:", "`database` of the example, in which it makes its tables")
	var o options
	o.flags(flag.CommandLine)
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *db, o); err != nil {
		fmt.Fprintln(os.Stderr, "recycling:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, db string, o options) error {
	b, err := parley.Open(ctx, db, nil)
	if err != nil {
		return err
	}
	defer b.Close()
	if err := b.Migrate(ctx); err != nil {
		return err
	}
	return audit(ctx, b, o, os.Stdout)
}
