// Command mailer sends mails through a queue with many processors, on a database
// of your choice; without -db on a temporary SQLite file.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/parleymq/parley/internal/demo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := demo.Mailer(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "mailer:", err)
		os.Exit(1)
	}
}
