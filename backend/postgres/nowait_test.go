package postgres_test

import (
	"testing"

	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
)

func TestNoWait(t *testing.T) {
	backendtest.NoWait(backendtest.New(t, open(t, connect(t, "postgres", server(t)), postgres.Options{})))
}
