// Package sample sends mails in parallel through one queue, after the article
// "Parallel Processing Messages Based On SQL Server": many parts of a program put
// mails into the queue, processors send them side by side, a mail whose sending
// fails stays, and one that has failed three times goes to the dead letters.
package sample

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
)

// SendEmail is the message.
type SendEmail struct{ Recipient, Subject, Body string }

var sendEmail = parley.Type[SendEmail]("SendEmail", parley.JSON)

// Options of the program.
type Options struct {
	Mails, Senders, Processors int
	Takes                      time.Duration
	Fails                      float64 // share of tries
	Crash                      bool
}

// Flags registers the options.
func (o *Options) Flags(f *flag.FlagSet) {
	f.IntVar(&o.Mails, "mails", 300, "`number` of mails")
	f.IntVar(&o.Senders, "senders", 3, "`number` of parts of the program that have mails to send")
	f.IntVar(&o.Processors, "processors", 10, "`number` of mails that are sent at once")
	f.DurationVar(&o.Takes, "takes", 20*time.Millisecond, "`time` that sending a mail takes")
	f.Float64Var(&o.Fails, "fails", 0, "`share` of the tries that fail")
	f.BoolVar(&o.Crash, "crash", false, "the first processor dies between the mail and the commit")
}

// Server stands for a mail server. It knows the mails that it has sent by their
// ids, and sends none twice.
type Server struct {
	Sent  sync.Map
	Twice atomic.Int64 // times that a mail was handed over again
}

// Run sends the mails and reports. crash has another process send a mail and die
// before its commit, and returns the mail's id.
func Run(ctx context.Context, b *parley.Broker, o Options, out io.Writer, crash func() (parley.ID, error)) error {
	err := b.Define(ctx, parley.Catalog{
		Types:  []parley.MessageType{{Name: sendEmail.Name(), Validation: parley.ValidationJSON}},
		Queues: []parley.Queue{{Name: "mails"}},
	})
	if err != nil {
		return err
	}
	var senders sync.WaitGroup
	errs := make([]error, o.Senders)
	for s := range o.Senders {
		senders.Go(func() {
			for i := s; i < o.Mails; i += o.Senders {
				mail := SendEmail{fmt.Sprintf("user%d@example.org", i), fmt.Sprint("Mail ", i), "Hello."}
				errs[s] = errors.Join(errs[s], b.InTx(ctx, func(tx *parley.Tx) error {
					_, err := sendEmail.Post(ctx, tx, "mails", mail) // commits with what else the program writes
					return err
				}))
			}
		})
	}
	server, start := new(Server), time.Now()
	if o.Crash {
		id, err := crash()
		if err != nil {
			return err
		}
		server.Sent.Store(id, true)
		fmt.Fprintf(out, "mail %s was sent by a process that was killed before its commit\n", id)
	}
	mux := parley.NewMux()
	parley.Handle(mux, sendEmail, func(ctx context.Context, m *parley.Message, mail SendEmail) error {
		time.Sleep(o.Takes)
		if rand.Float64() < o.Fails {
			return fmt.Errorf("the server refused the mail to %s", mail.Recipient)
		}
		if _, again := server.Sent.LoadOrStore(m.ID, true); again { // the ID is the same at every delivery
			server.Twice.Add(1)
		}
		return nil
	})
	w := b.NewWorker("mails", mux, &parley.WorkerOptions{MaxReaders: o.Processors, MaxBatch: 1, MaxAttempts: 3,
		Poison: parley.ActionDeadLetter, Backoff: parley.Backoff(50*time.Millisecond, time.Second)})
	work, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(work) }()
	senders.Wait()
	dead, err := settled(ctx, b, server, o.Mails)
	took := time.Since(start)
	stop()
	if err := errors.Join(append(errs, err, <-ended)...); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d mails sent in %v by %d processors, %d given up, %d handed over twice and sent once\n",
		o.Mails-dead, took.Round(time.Millisecond), o.Processors, dead, server.Twice.Load())
	return nil
}

// settled waits until each mail is sent or a dead letter, and none waits.
func settled(ctx context.Context, b *parley.Broker, s *Server, mails int) (dead int, err error) {
	for ctx.Err() == nil {
		list, err := b.Admin().DeadLetters(ctx, "mails", mails+1)
		queues, err2 := b.Admin().Queues(ctx)
		n := len(list)
		s.Sent.Range(func(_, _ any) bool { n++; return true })
		if err = errors.Join(err, err2); err != nil || n >= mails && queues[0].Depth == 0 {
			return len(list), err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return 0, ctx.Err()
}
