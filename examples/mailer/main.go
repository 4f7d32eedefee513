// Command mailer sends mails in parallel from one queue. The idea is that of the article
// "Parallel Processing Messages Based On SQL Server".
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
	if db := os.Getenv(dieOn); db != "" { // this process has been started by crash
		fmt.Fprintln(os.Stderr, die(context.Background(), db, os.Stdout))
		os.Exit(1)
	}
	db := flag.String("db", "sqlite::memory:", "`database` of the example, in which it makes its tables")
	var o options
	o.flags(flag.CommandLine)
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *db, o); err != nil {
		fmt.Fprintln(os.Stderr, "mailer:", err)
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
	return sendMails(ctx, b, db, o, os.Stdout)
}
