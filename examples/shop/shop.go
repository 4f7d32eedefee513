package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/applock"
	"github.com/parleymq/parley/recurring"
)

// The messages. Charge and Charged are the two sides of a conversation; the others are posts.
type (
	OrderPlaced struct{ ID, Customer, Item string }
	Charge      struct{ Order, Customer, Item string }
	Charged     struct{ Order, Customer, Number string }
	Receipt     struct{ Customer, Text string }
)

var (
	Placed   = parley.Type[OrderPlaced]("OrderPlaced", parley.JSON)
	Charges  = parley.Type[Charge]("Charge", parley.JSON)
	Payments = parley.Type[Charged]("Charged", parley.JSON)
	Receipts = parley.Type[Receipt]("Receipt", parley.JSON)
)

// Catalog says which messages and queues there are, and who speaks to whom.
var Catalog = parley.Catalog{
	Types: []parley.MessageType{{Name: "OrderPlaced"}, {Name: "Charge"}, {Name: "Charged"}, {Name: "Receipt"}, {Name: "Report"}},
	Contracts: []parley.Contract{{Name: "Payment", Messages: []parley.ContractEntry{
		{Type: "Charge", SentBy: parley.ByInitiator}, {Type: "Charged", SentBy: parley.ByTarget}}}},
	Queues:   []parley.Queue{{Name: "orders"}, {Name: "billing"}, {Name: "mail"}, {Name: "reports"}},
	Services: []parley.Service{{Name: "Shop", Queue: "orders"}, {Name: "Billing", Queue: "billing", Contracts: []string{"Payment"}}},
}

// Shop is the service, with what it needs from outside.
type Shop struct {
	B    *parley.Broker
	DB   *sql.DB
	Pay  func(ctx context.Context, c Charge, request string) (number string, err error)
	Logf func(format string, args ...any)
}

// Setup makes the tables and the recurring job. Many replicas may start at once.
func (s *Shop) Setup(ctx context.Context) error {
	return errors.Join(s.B.Migrate(ctx), s.B.InTx(ctx, tables(ctx)), s.B.Define(ctx, Catalog), recurring.Define(ctx, s.B,
		recurring.Job{Name: "report", Queue: "reports", Type: "Report", Cron: "0 0 6 * * *", Zone: "Europe/Berlin"}))
}

// tables makes the shop's tables, one replica after the other: on PostgreSQL, IF NOT EXISTS fails when two run at once.
func tables(ctx context.Context) func(tx *parley.Tx) error {
	return func(tx *parley.Tx) error {
		_, err := applock.In(tx).Lock(ctx, "tables", applock.Exclusive, -1)
		for _, table := range []string{"orders (id TEXT PRIMARY KEY, customer TEXT, state TEXT)", "mails (customer TEXT, text TEXT)"} {
			if err == nil {
				_, err = tx.SQL().ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+table)
			}
		}
		return err
	}
}

var errOrder = errors.New(`want {"Customer": …, "Item": …}`)

type requestKey struct{}

// outgoing is for parley.Options: each message carries the request's number, and so do those that its handler sends.
func outgoing(ctx context.Context, o *parley.Outgoing) error {
	if number, ok := ctx.Value(requestKey{}).(string); ok {
		o.Headers["request"] = number
	}
	return nil
}

// Routes are POST /orders, GET /orders/{id}, and DELETE /orders/{id} for orders that wait.
func (s *Shop) Routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", s.reply(func(ctx context.Context, r *http.Request) (string, error) {
		o := OrderPlaced{}
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil || o.Customer == "" {
			return "", errOrder
		}
		return s.place(context.WithValue(ctx, requestKey{}, r.Header.Get("X-Request-ID")), o)
	}))
	mux.HandleFunc("GET /orders/{id}", s.reply(func(ctx context.Context, r *http.Request) (state string, err error) {
		return state, s.DB.QueryRowContext(ctx, "SELECT state FROM orders WHERE id = $1", r.PathValue("id")).Scan(&state)
	}))
	mux.HandleFunc("DELETE /orders/{id}", s.reply(func(ctx context.Context, r *http.Request) (string, error) {
		return "cancelled", s.cancel(ctx, r.PathValue("id"))
	}))
	return mux
}

func (s *Shop) reply(f func(ctx context.Context, r *http.Request) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text, err := f(r.Context(), r)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			http.Error(w, "no such order", http.StatusNotFound)
		case errors.Is(err, errOrder):
			http.Error(w, err.Error(), http.StatusBadRequest)
		case errors.Is(err, parley.ErrNotPending):
			http.Error(w, "too late", http.StatusConflict)
		case err != nil:
			s.Logf("%s %s: %v", r.Method, r.URL, err)
			http.Error(w, "try again", http.StatusInternalServerError)
		default:
			fmt.Fprintln(w, text)
		}
	}
}

// place stores an order and posts it in one transaction. Orders of one customer are handled in their order.
func (s *Shop) place(ctx context.Context, o OrderPlaced) (string, error) {
	id := parley.NewID()
	o.ID = id.String()
	return o.ID, s.B.Retry(ctx, func(tx *parley.Tx) error {
		_, err := tx.SQL().ExecContext(ctx, "INSERT INTO orders VALUES ($1, $2, 'placed')", o.ID, o.Customer)
		if err == nil {
			_, err = Placed.Post(ctx, tx, "orders", o, parley.PostID(id), parley.Key(o.Customer))
		}
		return err
	})
}

func (s *Shop) cancel(ctx context.Context, order string) error {
	id, err := parley.ParseID(order)
	if err != nil {
		return sql.ErrNoRows
	}
	return s.B.Retry(ctx, func(tx *parley.Tx) error {
		if err := tx.CancelPost(ctx, "orders", id); err != nil {
			return err
		}
		return setState(ctx, tx, order, "cancelled")
	})
}

func setState(ctx context.Context, tx *parley.Tx, order, state string) error {
	_, err := tx.SQL().ExecContext(ctx, "UPDATE orders SET state = $1 WHERE id = $2", state, order)
	return err
}

// Mux has the handlers of all queues.
func (s *Shop) Mux() *parley.Mux {
	mux := parley.NewMux()
	mux.Use(func(next parley.Handler) parley.Handler {
		return parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
			return next.HandleMessage(context.WithValue(ctx, requestKey{}, m.Headers["request"]), m)
		})
	}, parley.Timeout(time.Minute))
	parley.Handle(mux, Placed, s.placed)
	parley.Handle(mux, Charges, s.charge)
	parley.Handle(mux, Payments, s.charged)
	parley.Handle(mux, Receipts, s.mail)
	mux.HandleFunc("Report", func(ctx context.Context, m *parley.Message) error {
		var orders int
		err := s.DB.QueryRowContext(ctx, "SELECT count(*) FROM orders").Scan(&orders)
		s.Logf("report of %s: %d orders", recurring.DueTime(m).Format(time.DateOnly), orders)
		return err
	})
	return mux
}

// placed asks Billing for the money.
func (s *Shop) placed(ctx context.Context, m *parley.Message, o OrderPlaced) error {
	tx, err := m.Tx(ctx)
	if err != nil {
		return err
	}
	c, err := tx.Begin(ctx, "Shop", "Billing", &parley.DialogOptions{Contract: "Payment"})
	if err != nil {
		return err
	}
	return Charges.Send(ctx, c, Charge{o.ID, o.Customer, o.Item})
}

// charge is Billing. The payment is outside the database; by the message's ID it is known when it is asked for again.
func (s *Shop) charge(ctx context.Context, m *parley.Message, c Charge) error {
	number, err := s.Pay(ctx, c, m.ID.String())
	if err != nil {
		return err // the message is tried again later
	}
	// The reply, and the end of this side. The Mux ends the Shop's side when it hears of that.
	return errors.Join(Payments.Reply(ctx, m, Charged{c.Order, c.Customer, number}), m.End(ctx))
}

func (s *Shop) charged(ctx context.Context, m *parley.Message, c Charged) error {
	tx, err := m.Tx(ctx)
	if err != nil {
		return err
	}
	if err = setState(ctx, tx, c.Order, "paid"); err == nil {
		r := Receipt{c.Customer, fmt.Sprintf("order %s is paid, %s", c.Order, c.Number)}
		_, err = Receipts.Post(ctx, tx, "mail", r, parley.Key(c.Customer)) // a customer's mails keep their order
	}
	return err
}

func (s *Shop) mail(ctx context.Context, m *parley.Message, r Receipt) error {
	tx, err := m.Tx(ctx)
	if err == nil {
		_, err = tx.SQL().ExecContext(ctx, "INSERT INTO mails VALUES ($1, $2)", r.Customer, r.Text)
	}
	return err
}
