package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/parleymq/parley"
)

// dieOn, in a process's environment, names the database on which the process sends one
// mail and is killed before it acknowledges that.
const dieOn = "MAILER_DIE_ON"

// crash starts this program again as a process that dies, and returns the ID of the mail
// that it has sent.
func crash(ctx context.Context, db string) (parley.ID, error) {
	if strings.Contains(db, ":memory:") {
		return parley.ID{}, errors.New("-crash needs a database that two processes can open, such as -db sqlite:mailer.db")
	}
	exe, err := os.Executable()
	if err != nil {
		return parley.ID{}, err
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), dieOn+"="+db)
	said, _ := cmd.Output() // that it ends with an error is the point
	_, id, _ := strings.Cut(strings.TrimSpace(string(said)), "sent ")
	if id == "" {
		return parley.ID{}, fmt.Errorf("the process that was to die said %q", said)
	}
	return parley.ParseID(id)
}

// die sends one mail, says so, and kills its own process.
func die(ctx context.Context, db string, out io.Writer) error {
	b, err := parley.Open(ctx, db, nil)
	if err != nil {
		return err
	}
	kill := parley.HandlerFunc(func(_ context.Context, m *parley.Message) error {
		fmt.Fprintln(out, "sent", m.ID)
		p, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = p.Kill()
		}
		if err == nil {
			select {}
		}
		return err
	})
	w, err := b.NewWorker("mails", kill, &parley.WorkerOptions{MaxReaders: 1, MaxBatch: 1, Lease: 500 * time.Millisecond})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}
