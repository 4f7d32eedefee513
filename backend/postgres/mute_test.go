package postgres

import (
	"context"
	"os"
	"testing"

	"github.com/lib/pq"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
)

func TestMuteServer(t *testing.T) {
	backendtest.MuteServer(t, func(ctx context.Context, address string) (backend.Backend, error) {
		return Open(ctx, "postgres://app@"+address+"/app?sslmode=disable", nil)
	})
}

// TestPrompt: how long connecting takes is bounded, unless the name says how long it may.
func TestPrompt(t *testing.T) {
	if os.Getenv("PGCONNECT_TIMEOUT") != "" {
		t.Skip("PGCONNECT_TIMEOUT is set")
	}
	for dsn, want := range map[string]float64{
		"postgres://app@server/app":                         10,
		"postgresql:///app?host=%2Frun%2Fpostgresql":        10,
		"host=server dbname='two words'":                    10,
		"postgres://app@server/app?connect_timeout=3":       3,
		"host=server connect_timeout=70 dbname=app":         70,
		"postgres://app:a%25%2F@server/app?sslmode=require": 10,
	} {
		was, err := pq.NewConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		is, err := pq.NewConfig(prompt(dsn))
		if err != nil {
			t.Errorf("%s became %s: %v", dsn, prompt(dsn), err)
		}
		if is.ConnectTimeout.Seconds() != want {
			t.Errorf("%s: %v to connect, want %v s", dsn, is.ConnectTimeout, want)
		}
		if is.Host != was.Host || is.Database != was.Database || is.Password != was.Password || is.SSLMode != was.SSLMode {
			t.Errorf("%s became %s", dsn, prompt(dsn))
		}
	}
}
