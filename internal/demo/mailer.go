package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/parleymq/parley"
	mailer "github.com/parleymq/parley/examples/mailer/sample"
)

// dieEnv, in a process's environment, names the database on which it is to send
// one mail and be killed before that is acknowledged.
const dieEnv = "PARLEY_DEMO_MAILER_DIE"

// Mailer runs the mailer.
func Mailer(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if db := os.Getenv(dieEnv); db != "" {
		return die(ctx, db, stdout)
	}
	var o mailer.Options
	return run(ctx, "mailer", &o, args, stderr, func(b *parley.Broker, db string) error {
		return mailer.Run(ctx, b, o, stdout, func() (parley.ID, error) { return doom(ctx, db) })
	})
}

// doom runs this program again as a process that is to die, and returns the id of
// the mail that it sent.
func doom(ctx context.Context, db string) (parley.ID, error) {
	exe, err := os.Executable()
	if err != nil {
		return parley.ID{}, err
	}
	cmd := exec.CommandContext(ctx, exe, os.Args[1:]...)
	cmd.Env = append(os.Environ(), dieEnv+"="+db)
	said, _ := cmd.Output() // its end is no error here
	_, id, _ := strings.Cut(strings.TrimSpace(string(said)), "sent ")
	if id == "" {
		return parley.ID{}, fmt.Errorf("the process that was to die said %q", said)
	}
	return parley.ParseID(id)
}

func die(ctx context.Context, db string, stdout io.Writer) error {
	b, err := parley.Open(ctx, db, nil)
	if err != nil {
		return err
	}
	w := b.NewWorker("mails", parley.HandlerFunc(func(_ context.Context, m *parley.Message) error {
		fmt.Fprintln(stdout, "sent", m.ID)
		p, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = p.Kill()
		}
		if err == nil {
			select {}
		}
		return err
	}), &parley.WorkerOptions{MaxReaders: 1, MaxBatch: 1, Lease: 500 * time.Millisecond})
	return w.Run(ctx)
}
