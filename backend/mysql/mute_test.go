package mysql_test

import (
	"context"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/mysql"
)

func TestMuteServer(t *testing.T) {
	backendtest.MuteServer(t, func(ctx context.Context, address string) (backend.Backend, error) {
		return mysql.Open(ctx, "mysql://app@"+address+"/app", nil)
	})
}
