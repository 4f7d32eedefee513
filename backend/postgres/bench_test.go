package postgres_test

import (
	"context"
	"net/url"
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
		u, err := url.Parse(dsn)
		if err != nil {
			return nil, err
		}
		q := u.Query()
		q.Set("parley_prefix", "parley_bench_"+backend.NewID().String()[24:]+"_")
		u.RawQuery = q.Encode()
		be, err := postgres.Open(context.Background(), u.String(), nil)
		if err == nil {
			b.Cleanup(func() {
				again, err := postgres.Open(context.Background(), u.String(), nil)
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
