package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley"
)

// options say what to run; flags says what each means.
type options struct {
	users, actions int
	age, pause     time.Duration
}

func (o *options) flags(f *flag.FlagSet) {
	f.IntVar(&o.users, "users", 4, "number of `users` who act at the same time")
	f.IntVar(&o.actions, "actions", 100, "number of `actions` of each")
	f.DurationVar(&o.age, "age", 100*time.Millisecond, "renew a dialog at this `age`")
	f.DurationVar(&o.pause, "pause", 5*time.Millisecond, "`time` between two actions of a user")
}

type entry struct {
	User   string
	Action int
}

var entryType = parley.Type[entry]("AuditEntry", parley.JSON)

func define(ctx context.Context, b *parley.Broker) error {
	return b.Define(ctx, parley.Catalog{
		Types:     []parley.MessageType{{Name: entryType.Name(), Validation: parley.ValidationJSON}},
		Contracts: []parley.Contract{{Name: "AuditLog", Messages: []parley.ContractEntry{{Type: entryType.Name(), SentBy: parley.ByInitiator}}}},
		Queues:    []parley.Queue{{Name: "AuditLogQueue"}, {Name: "AuditedQueue"}},
		Services: []parley.Service{
			{Name: "AuditLog", Queue: "AuditLogQueue", Contracts: []string{"AuditLog"}},
			{Name: "Audited", Queue: "AuditedQueue", Recycles: []parley.Recycle{{Contract: "AuditLog", Ordered: true}}},
		},
	})
}

// dialog is what the log service has seen of a dialog.
type dialog struct {
	user    string
	entries int
	over    bool
}

// logService receives the entries.
type logService struct {
	mu      sync.Mutex
	dialogs map[parley.ID]*dialog
	order   []parley.ID
	next    map[string]int // by user
	wrong   []string
	entries int
	told    chan struct{} // something came
}

func (s *logService) note(m *parley.Message, e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.dialogs[m.ConversationID]
	if d == nil {
		d = new(dialog)
		s.dialogs[m.ConversationID] = d
		s.order = append(s.order, m.ConversationID)
	}
	if e == nil {
		d.over = true
	} else {
		if e.Action != s.next[e.User] {
			s.wrong = append(s.wrong, fmt.Sprintf("%s: action %d came where %d was due", e.User, e.Action, s.next[e.User]))
		}
		s.next[e.User] = e.Action + 1
		d.user = e.User
		d.entries++
		s.entries++
	}
	select {
	case s.told <- struct{}{}:
	default:
	}
}

// audit has users act, each in one transaction after another, and a log service receive what
// they did. What a user did stays in order, because the key is the name of the user.
func audit(ctx context.Context, b *parley.Broker, o options, out io.Writer) error {
	if o.users < 1 || o.actions < 1 || o.age <= 0 || o.pause < 0 {
		return errors.New("users, actions, age, pause: want values above zero")
	}
	if err := define(ctx, b); err != nil {
		return err
	}
	sender, err := b.NewSender(ctx, &parley.SenderOptions{From: "Audited", To: "AuditLog", Contract: "AuditLog", MaxAge: o.age})
	if err != nil {
		return err
	}

	s := &logService{dialogs: map[parley.ID]*dialog{}, next: map[string]int{}, told: make(chan struct{}, 1)}
	mux := parley.NewMux()
	parley.Handle(mux, entryType, func(_ context.Context, m *parley.Message, e entry) error {
		s.note(m, &e)
		return nil
	})
	// Without this handler the Mux ends the dialog by itself.
	mux.HandleFunc(parley.EndOfStream, func(ctx context.Context, m *parley.Message) error {
		s.note(m, nil)
		return m.End(ctx)
	})
	working, stop := context.WithCancel(ctx)
	defer stop()
	// One reader, so that what it prints is what the database did.
	worker, err := b.NewWorker("AuditLogQueue", mux, &parley.WorkerOptions{MaxReaders: 1})
	if err != nil {
		return err
	}
	worked := make(chan error, 1)
	go func() { worked <- worker.Run(working) }()

	begun := time.Now()
	if err := act(ctx, b, sender, o); err != nil {
		return err
	}
	sent := time.Since(begun)
	if err := s.await(ctx, b, o.users*o.actions); err != nil {
		return err
	}
	stop()
	if err := <-worked; err != nil {
		return err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	byUser := map[string][]int{}
	for _, id := range s.order {
		d := s.dialogs[id]
		byUser[d.user] = append(byUser[d.user], d.entries)
	}
	for i := range o.users {
		u := user(i)
		fmt.Fprintf(out, "%s: %d entries in order on %d dialogs, one after the other: %v\n", u, s.next[u], len(byUser[u]), byUser[u])
	}
	fmt.Fprintf(out, "%d entries sent in %v; every dialog ended: EndOfStream, the target ended, the initiator ended\n", s.entries, sent.Round(time.Millisecond))
	if len(s.wrong) > 0 {
		return fmt.Errorf("the order was lost: %v", s.wrong)
	}
	return nil
}

func user(i int) string { return fmt.Sprintf("user-%d", i+1) }

// act lets all users act, each of them in one transaction after another.
func act(ctx context.Context, b *parley.Broker, sender *parley.Sender, o options) error {
	errs := make([]error, o.users)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			mine := sender.Key(user(i))
			for n := range o.actions {
				errs[i] = b.InTx(ctx, func(tx *parley.Tx) error {
					// Here the application would do what is to be audited.
					return entryType.SendBy(ctx, mine, tx, entry{user(i), n})
				})
				if errs[i] != nil {
					return
				}
				time.Sleep(o.pause)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// await waits until all entries have come and all dialogs are gone.
func (s *logService) await(ctx context.Context, b *parley.Broker, entries int) error {
	for {
		s.mu.Lock()
		done := s.entries == entries && !slices.ContainsFunc(s.order, func(id parley.ID) bool { return !s.dialogs[id].over })
		s.mu.Unlock()
		if done {
			left, err := b.Admin().Conversations(ctx, parley.ConversationQuery{Limit: 1})
			if err != nil || len(left) == 0 {
				return err
			}
		}
		select {
		case <-s.told:
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
