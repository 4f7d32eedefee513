package main

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/parleytest"
)

// A test of one handler.
func TestPlacedAsksBilling(t *testing.T) {
	kit := parleytest.New(t, parleytest.Catalog(Catalog))
	m := parleytest.Message(t, Placed, OrderPlaced{ID: "7", Item: "tea"})
	m.Queue = "orders"
	if r := kit.Handle(new(Shop).Mux(), m); r.Outcome != parleytest.Acknowledged {
		t.Error(r)
	}
	if charge, _ := parleytest.RequirePosted(kit, "billing", Charges); charge.Item != "tea" {
		t.Error(charge)
	}
}

func TestChargeReplies(t *testing.T) {
	kit := parleytest.New(t, parleytest.Catalog(Catalog))
	s := &Shop{Pay: func(context.Context, Charge, string) (string, error) { return "P-1", nil }}
	m := parleytest.Message(t, Charges, Charge{Order: "7", Customer: "ann"})
	m.FarService, m.Service, m.Contract = "Shop", "Billing", "Payment"
	r := kit.Handle(s.Mux(), m)
	if paid, _ := parleytest.RequirePosted(kit, "orders", Payments); paid != (Charged{"7", "ann", "P-1"}) || len(r.Ended) != 1 {
		t.Error(paid, r)
	}
}

func TestChargeIsTriedAgain(t *testing.T) {
	kit := parleytest.New(t, parleytest.Catalog(Catalog))
	s := &Shop{Pay: func(context.Context, Charge, string) (string, error) { return "", errors.New("no answer") }}
	m := parleytest.Message(t, Charges, Charge{Order: "7"})
	m.FarService, m.Service, m.Contract = "Shop", "Billing", "Payment"
	if r := kit.Handle(s.Mux(), m); r.Outcome != parleytest.Retried || r.Attempts != 1 || len(r.Sent) > 0 {
		t.Error(r)
	}
}

func TestChargedSendsReceipt(t *testing.T) {
	s, kit := newShop(t)
	m := parleytest.Message(t, Placed, OrderPlaced{ID: "7", Customer: "ann"})
	m.Queue = "orders"
	kit.Handle(s.Mux(), m)
	kit.Work(s.Mux(), "billing")
	kit.Work(s.Mux(), "orders") // the reply
	if r, _ := parleytest.RequirePosted(kit, "mail", Receipts, parleytest.Key("ann")); !strings.HasPrefix(r.Text, "order 7 is paid") {
		t.Error(r)
	}
}

func TestMailIsWrittenOnce(t *testing.T) {
	s, kit := newShop(t)
	m := parleytest.Message(t, Receipts, Receipt{"ann", "hello"})
	m.Queue = "mail"
	kit.FailCommit(errors.New("the disk is full"))
	kit.Handle(s.Mux(), m)
	kit.Handle(s.Mux(), m)
	if n := 0; s.DB.QueryRow("SELECT count(*) FROM mails").Scan(&n) != nil || n != 1 {
		t.Error(n, "mails")
	}
}

// newShop is a shop on SQLite, with a clock that moves on command.
func newShop(t *testing.T) (*Shop, *parleytest.Kit) {
	file := filepath.Join(t.TempDir(), "shop.db")
	kit := parleytest.New(t, parleytest.Store("sqlite:"+file), parleytest.BrokerOptions(parley.Options{Outgoing: outgoing}))
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s := &Shop{B: kit.Broker, DB: db, Logf: t.Logf, Pay: func(_ context.Context, c Charge, request string) (string, error) {
		return "P-" + request, nil
	}}
	if err := s.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, kit
}

// ask sends a request and returns the answer.
func ask(t *testing.T, s *Shop, method, path, body string) (code int, text string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("X-Request-ID", "r1")
	w := httptest.NewRecorder()
	s.Routes().ServeHTTP(w, r)
	out, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, strings.TrimSpace(string(out))
}

func TestOrder(t *testing.T) {
	s, kit := newShop(t)
	down := true
	s.Pay = func(_ context.Context, c Charge, request string) (string, error) {
		if down {
			return "", errors.New("the payment service is down")
		}
		return "P-1", nil
	}
	_, id := ask(t, s, "POST", "/orders", `{"Customer": "ann", "Item": "tea"}`)

	kit.Work(s.Mux(), "orders")
	first := kit.Work(s.Mux(), "billing")
	down = false
	kit.Advance(first.Retry)
	again := kit.Work(s.Mux(), "billing")

	if first.Outcome != parleytest.Retried || again.Attempts != 0 || again.Outcome != parleytest.Acknowledged {
		t.Error(first, again)
	}
	if again.Message.Headers["request"] != "r1" || again.Message.Attempt != 2 {
		t.Errorf("attempt %d of request %q", again.Message.Attempt, again.Message.Headers["request"])
	}
	kit.Drain(t.Context(), s.Mux(), "orders", "billing", "mail")
	if _, state := ask(t, s, "GET", "/orders/"+id, ""); state != "paid" {
		t.Error(state)
	}
	if code, _ := ask(t, s, "DELETE", "/orders/"+id, ""); code != http.StatusConflict {
		t.Error("cancelled after it was paid", code)
	}
	var mail string
	if err := s.DB.QueryRow("SELECT text FROM mails WHERE customer = 'ann'").Scan(&mail); err != nil || mail != "order "+id+" is paid, P-1" {
		t.Error(mail, err)
	}
	if open, err := s.B.Admin().Conversations(t.Context(), parley.ConversationQuery{}); err != nil || len(open) > 0 {
		t.Error("conversations stay", open, err)
	}
}

func TestCancel(t *testing.T) {
	s, kit := newShop(t)
	_, id := ask(t, s, "POST", "/orders", `{"Customer": "ann", "Item": "tea"}`)
	if code, text := ask(t, s, "DELETE", "/orders/"+id, ""); code != http.StatusOK {
		t.Error(code, text)
	}
	if _, state := ask(t, s, "GET", "/orders/"+id, ""); state != "cancelled" {
		t.Error(state)
	}
	kit.AssertNotPosted("orders")
	for _, path := range []string{"/orders/" + parley.NewID().String(), "/orders/nonsense"} {
		if code, _ := ask(t, s, "GET", path, ""); code != http.StatusNotFound {
			t.Error(path, code)
		}
	}
	if code, _ := ask(t, s, "DELETE", "/orders/nonsense", ""); code != http.StatusNotFound {
		t.Error(code)
	}
	if code, _ := ask(t, s, "POST", "/orders", `{`); code != http.StatusBadRequest {
		t.Error(code)
	}
}

// TestCustomersInTheirOrder has many handlers at work.
func TestCustomersInTheirOrder(t *testing.T) {
	s, _ := newShop(t)
	placed := map[string][]string{}
	for i := range 40 {
		customer := []string{"ann", "bob", "eve"}[i%3]
		_, id := ask(t, s, "POST", "/orders", `{"Customer": "`+customer+`", "Item": "tea"}`)
		placed[customer] = append(placed[customer], id)
	}
	var mu sync.Mutex
	handled := map[string][]string{}
	mux := parley.NewMux()
	parley.Handle(mux, Placed, func(_ context.Context, _ *parley.Message, o OrderPlaced) error {
		mu.Lock()
		defer mu.Unlock()
		handled[o.Customer] = append(handled[o.Customer], o.ID)
		return nil
	})
	worker, err := s.B.NewWorker("orders", mux, nil)
	if err == nil {
		err = worker.Drain(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for customer, want := range placed {
		if !slices.Equal(handled[customer], want) {
			t.Errorf("%s: handled %q, placed %q", customer, handled[customer], want)
		}
	}
}

// TestReport: a report comes each morning.
func TestReport(t *testing.T) {
	s, kit := newShop(t)
	kit.Advance(49 * time.Hour)
	if n := kit.Drain(t.Context(), s.Mux(), "reports"); n != 2 && n != 3 {
		t.Errorf("%d reports", n)
	}
}
