package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend/mysql"
)

// TestJoinedSender sends by Senders in transactions of the application's at REPEATABLE
// READ, which have read before others renewed the dialog. What goes through goes
// through in the key's order, and what does not is ErrIsolation and changes nothing.
func TestJoinedSender(t *testing.T) {
	snapshots(t, func(t *testing.T, server string, set func(*driver.Config)) {
		s := newSending(t, server, set)
		own, other := s.broker(), s.broker()
		log := s.sender(own, 0)
		far, last := s.sender(other, 0), s.sender(other, 1)
		const key = "k"

		s.refused(own, log.Key(key), "the key's first dialog", nil)
		s.sent(own, log.Key(key), "1")
		s.joined(own, log.Key(key), "2", nil)
		s.joined(own, log.Key(key), "4", func() { s.sent(other, far.Key(key), "3") })

		// Another process renews the dialog. A transaction that has read before cannot
		// see the new dialog; a transaction that begins now does.
		s.refused(own, log.Key(key), "the next dialog of others", func() {
			s.sent(other, last.Key(key), "5")
			s.sent(other, far.Key(key), "6")
		})
		s.joined(own, log.Key(key), "7", nil)

		// The process knows the new dialog, which the transaction would not find.
		s.joined(own, log.Key(key), "10", func() {
			s.sent(other, last.Key(key), "8")
			s.sent(own, log.Key(key), "9")
		})

		// The dialog is over, and no sender has begun another one.
		s.sent(other, last.Key(key), "11")
		s.refused(own, log.Key(key), "a dialog that is to be begun", nil)
		s.sent(own, log.Key(key), "12")
		s.joined(own, log.Key(key), "13", nil)
		s.received("1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13")

		// Without key a dialog is begun at any level.
		s.joined(own, log, "a", nil)
		s.joined(own, log, "b", func() {
			if err := log.Close(s.ctx); err != nil {
				t.Fatal(err)
			}
		})
		s.received("a", "b")
	})
}

// sending is a store with a service that recycles its dialogs.
type sending struct {
	*testing.T
	ctx   context.Context
	db    *sql.DB
	marks int
}

func newSending(t *testing.T, server string, set func(*driver.Config)) *sending {
	s := &sending{T: t, ctx: t.Context(), db: connect(t, server, database(t, server), set)}
	b := open(t, s.db, nil)
	if _, err := s.db.Exec("CREATE TABLE mark (n INT)"); err != nil {
		t.Fatal(err)
	}
	p, err := parley.New(s.ctx, b, nil)
	if err == nil {
		err = p.Define(s.ctx, parley.Catalog{
			Types:     []parley.MessageType{{Name: "Entry"}},
			Contracts: []parley.Contract{{Name: "Audit", Messages: []parley.ContractEntry{{Type: "Entry", SentBy: parley.ByInitiator}}}},
			Queues:    []parley.Queue{{Name: "audit"}, {Name: "returns"}},
			Services: []parley.Service{
				{Name: "Log", Queue: "audit", Contracts: []string{"Audit"}},
				{Name: "App", Queue: "returns", Recycles: []parley.Recycle{{Contract: "Audit", Ordered: true}}},
			},
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return s
}

// broker makes a Broker, as each process has one.
func (s *sending) broker() *parley.Broker {
	s.Helper()
	b, err := parley.New(s.ctx, mysql.New(s.db, nil), nil)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { b.Close() })
	return b
}

func (s *sending) sender(b *parley.Broker, most int) *parley.Sender {
	s.Helper()
	l, err := b.NewSender(s.ctx, &parley.SenderOptions{From: "App", To: "Log", Contract: "Audit", MaxMessages: most})
	if err != nil {
		s.Fatal(err)
	}
	return l
}

func entry(body string) parley.Payload { return parley.Payload{Type: "Entry", Body: []byte(body)} }

// sent sends in a transaction of the Broker's.
func (s *sending) sent(b *parley.Broker, l *parley.Sender, body string) {
	s.Helper()
	if err := b.InTx(s.ctx, func(tx *parley.Tx) error { return l.Send(s.ctx, tx, entry(body)) }); err != nil {
		s.Fatalf("%s: %v", body, err)
	}
}

// join sends in a transaction of the application's at REPEATABLE READ, after what
// others do meanwhile, and commits it with a row of the application's.
func (s *sending) join(b *parley.Broker, l *parley.Sender, body string, meanwhile func()) error {
	s.Helper()
	user, err := s.db.BeginTx(s.ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		s.Fatal(err)
	}
	defer user.Rollback()
	var n int
	if err := user.QueryRow("SELECT count(*) FROM mark").Scan(&n); err != nil { // from here on nothing new is seen
		s.Fatal(err)
	}
	if n != s.marks {
		s.Fatalf("%d transactions were committed, want %d", n, s.marks)
	}
	if meanwhile != nil {
		meanwhile()
	}
	sent := l.Send(s.ctx, b.Join(user), entry(body))
	if errors.Is(sent, parley.ErrSerialization) {
		return sent // and the transaction is over
	}
	if _, err := user.Exec("INSERT INTO mark VALUES (1)"); err != nil {
		s.Fatalf("after %v: %v", sent, err)
	}
	if err := user.Commit(); err != nil {
		s.Fatalf("after %v: %v", sent, err)
	}
	s.marks++
	return sent
}

func (s *sending) joined(b *parley.Broker, l *parley.Sender, body string, meanwhile func()) {
	s.Helper()
	if err := s.join(b, l, body, meanwhile); err != nil {
		s.Fatalf("%s: %v", body, err)
	}
}

func (s *sending) refused(b *parley.Broker, l *parley.Sender, body string, meanwhile func()) {
	s.Helper()
	if err := s.join(b, l, body, meanwhile); !errors.Is(err, parley.ErrIsolation) {
		s.Fatalf("%s: %v, want ErrIsolation", body, err)
	}
}

// received receives until as much has come as is wanted, and then a little longer.
func (s *sending) received(want ...string) {
	s.Helper()
	b := s.broker()
	var got []string
	for wait := 10 * time.Second; wait > 0; {
		d, err := b.Receive(s.ctx, "audit", &parley.ReceiveOptions{Wait: wait})
		if errors.Is(err, parley.ErrNoMessage) {
			break
		}
		if err != nil {
			s.Fatal(err)
		}
		for _, m := range d.Messages {
			if m.Type == parley.EndOfStream {
				if err := m.End(s.ctx); err != nil {
					s.Fatal(err)
				}
				continue
			}
			got = append(got, string(m.Body))
		}
		if err := d.Ack(s.ctx); err != nil {
			s.Fatal(err)
		}
		if len(got) >= len(want) {
			wait = 500 * time.Millisecond
		}
	}
	if !slices.Equal(got, want) {
		s.Fatalf("received %q, want %q", got, want)
	}
}
