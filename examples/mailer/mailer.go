package main

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

// mail is the body of a message.
type mail struct{ Recipient, Subject, Body string }

var sendEmail = parley.Type[mail]("SendEmail", parley.JSON)

// options of the program; flags says what each means.
type options struct {
	mails, senders, processors int
	takes                      time.Duration
	fails                      float64
	crash                      bool
}

func (o *options) flags(f *flag.FlagSet) {
	f.IntVar(&o.mails, "mails", 300, "`number` of mails")
	f.IntVar(&o.senders, "senders", 3, "`number` of parts of the program that have mails to send")
	f.IntVar(&o.processors, "processors", 10, "`number` of mails that are sent at once")
	f.DurationVar(&o.takes, "takes", 20*time.Millisecond, "`time` that sending a mail takes")
	f.Float64Var(&o.fails, "fails", 0, "`share` of the tries that fail")
	f.BoolVar(&o.crash, "crash", false, "a process sends the first mail and is killed before its commit; needs a database in a file or on a server")
}

// server stands for a mail server. It knows the mails that it has sent by their IDs, and
// sends none twice.
type server struct {
	sent  sync.Map
	twice atomic.Int64 // how often a mail arrived again
}

// sendMails puts mails into a queue, has workers send them, and reports. Many parts of a
// program put mails into the queue, each in a separate transaction. A mail whose sending
// fails stays; after three failures it becomes a dead letter.
func sendMails(ctx context.Context, b *parley.Broker, db string, o options, out io.Writer) error {
	err := b.Define(ctx, parley.Catalog{
		Types:  []parley.MessageType{{Name: sendEmail.Name(), Validation: parley.ValidationJSON}},
		Queues: []parley.Queue{{Name: "mails"}},
	})
	if err != nil {
		return err
	}
	var senders sync.WaitGroup
	errs := make([]error, o.senders)
	for first := range o.senders {
		senders.Go(func() {
			for i := first; i < o.mails; i += o.senders {
				m := mail{fmt.Sprintf("user%d@example.org", i), fmt.Sprint("Mail ", i), "Hello."}
				errs[first] = errors.Join(errs[first], b.InTx(ctx, func(tx *parley.Tx) error {
					_, err := sendEmail.Post(ctx, tx, "mails", m) // commits with what else the program writes
					return err
				}))
			}
		})
	}
	s, start := new(server), time.Now()
	if o.crash {
		id, err := crash(ctx, db)
		if err != nil {
			return err
		}
		s.sent.Store(id, true)
		fmt.Fprintf(out, "mail %s was sent by a process that was killed before its commit\n", id)
	}
	mux := parley.NewMux()
	parley.Handle(mux, sendEmail, func(ctx context.Context, m *parley.Message, body mail) error {
		time.Sleep(o.takes)
		if rand.Float64() < o.fails {
			return fmt.Errorf("the server refused the mail to %s", body.Recipient)
		}
		if _, again := s.sent.LoadOrStore(m.ID, true); again { // the ID is the same at every delivery
			s.twice.Add(1)
		}
		return nil
	})
	w, err := b.NewWorker("mails", mux, &parley.WorkerOptions{MaxReaders: o.processors, MaxBatch: 1, MaxAttempts: 3,
		Poison: parley.ActionDeadLetter, Backoff: parley.Backoff(50*time.Millisecond, time.Second)})
	if err != nil {
		return err
	}
	work, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(work) }()
	senders.Wait()
	dead, err := settled(ctx, b, s, o.mails)
	took := time.Since(start)
	stop()
	if err := errors.Join(append(errs, err, <-ended)...); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d mails sent in %v by %d processors, %d given up, %d received twice and sent once\n",
		o.mails-dead, took.Round(time.Millisecond), o.processors, dead, s.twice.Load())
	return nil
}

// settled waits until each mail is sent or a dead letter, and the queue is empty.
func settled(ctx context.Context, b *parley.Broker, s *server, mails int) (dead int, err error) {
	for ctx.Err() == nil {
		list, err := b.Admin().DeadLetters(ctx, "mails", parley.Place{}, mails+1)
		queues, err2 := b.Admin().Queues(ctx)
		n := len(list)
		s.sent.Range(func(_, _ any) bool { n++; return true })
		if err = errors.Join(err, err2); err != nil || n >= mails && queues[0].Depth == 0 {
			return len(list), err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return 0, ctx.Err()
}
