package mssql_test

import (
	"context"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/mssql"
)

func TestMuteServer(t *testing.T) {
	backendtest.MuteServer(t, func(ctx context.Context, address string) (backend.Backend, error) {
		return mssql.Open(ctx, "sqlserver://app@"+address+"?database=app&encrypt=disable", nil)
	})
}
