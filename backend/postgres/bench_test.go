package postgres_test

import (
	"context"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
)

func Benchmark(b *testing.B) {
	backendtest.Benchmarks(b, func(b *testing.B) (backend.Backend, error) {
		own := backendtest.WithParam(b, server(b), "parley_prefix", backendtest.Name()+"_")
		be, err := postgres.Open(context.Background(), own, &postgres.Options{MaxConns: 60})
		if err == nil {
			b.Cleanup(func() {
				again, err := postgres.Open(context.Background(), own, nil)
				if err == nil {
					err = again.Uninstall(context.Background())
					again.Close()
				}
				if err != nil {
					b.Error(err)
				}
			})
		}
		return be, err
	})
}
