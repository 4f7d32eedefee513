package mysql_test

import (
	"testing"

	"github.com/parleymq/parley/backend/internal/backendtest"
)

func TestInFlight(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db, _ := counted(t, server, nil)
		backendtest.InFlight(t, open(t, db, nil), 12000)
	})
}
