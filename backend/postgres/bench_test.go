package postgres_test

import (
	"context"
	"os"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
)

func BenchmarkRecycling(b *testing.B) {
	dsn := os.Getenv("PARLEY_TEST_POSTGRES")
	if dsn == "" {
		b.Skip("PARLEY_TEST_POSTGRES is not set")
	}
	backendtest.BenchmarkRecycling(b, func() (backend.Backend, error) {
		own := backendtest.WithParam(b, dsn, "parley_prefix", "parley_bench_"+backend.NewID().String()[24:]+"_")
		be, err := postgres.Open(context.Background(), own, nil)
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
