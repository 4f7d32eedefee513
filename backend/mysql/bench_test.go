package mysql_test

import (
	"context"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/mysql"
)

func Benchmark(b *testing.B) {
	for _, s := range servers {
		b.Run(s.name, func(b *testing.B) {
			server := backendtest.Server(b, s.name, s.variable, "the URL of a database for tests")
			backendtest.Benchmarks(b, func(b *testing.B) (backend.Backend, error) {
				return mysql.Open(context.Background(), in(b, server, database(b, server)), &mysql.Options{MaxConns: 60})
			})
		})
	}
}
