package console_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/memory"
	_ "github.com/parleymq/parley/backend/sqlite"
	"github.com/parleymq/parley/console"
	"github.com/parleymq/parley/internal/slow"
)

// stores are those on which the console is tested.
var stores = []string{"memory", "sqlite"}

// open opens a new store without maintenance of the queues: nothing in it changes by itself.
func open(t testing.TB, store string) *parley.Broker {
	t.Helper()
	dsn := "memory:"
	if store == "sqlite" {
		dsn = "sqlite:" + filepath.Join(t.TempDir(), "console.db")
	}
	b, err := parley.Open(t.Context(), dsn, &parley.Options{Owner: "shop-1/4711", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// site is a console that browsers of this machine can reach.
type site struct {
	t *testing.T
	*httptest.Server
	client *http.Client
}

func serve(t *testing.T, b *parley.Broker, o *console.Options) *site {
	t.Helper()
	h, err := console.New(b, o)
	if err != nil {
		t.Fatal(err)
	}
	return serveHandler(t, h)
}

func serveHandler(t *testing.T, h http.Handler) *site {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &site{t, s, client}
}

// get asks for a page, and returns its status and text.
func (s *site) get(path string, edit ...func(*http.Request)) (*http.Response, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.URL+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.do(r, edit...)
}

func (s *site) do(r *http.Request, edit ...func(*http.Request)) (*http.Response, string) {
	s.t.Helper()
	for _, f := range edit {
		f(r)
	}
	answer, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer, string(text)
}

// page asks for a page that must be there.
func (s *site) page(path string) string {
	s.t.Helper()
	answer, text := s.get(path)
	for end := time.Now().Add(slow.By(20 * time.Second)); answer.StatusCode == http.StatusAccepted && time.Now().Before(end); {
		answer, text = s.get(path) // what a slow view shows is still being read
	}
	if answer.StatusCode != http.StatusOK {
		s.t.Fatalf("GET %s: %s\n%s", path, answer.Status, text)
	}
	return text
}
