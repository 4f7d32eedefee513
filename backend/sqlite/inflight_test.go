package sqlite_test

import (
	"testing"

	"github.com/parleymq/parley/backend/internal/backendtest"
)

func TestInFlight(t *testing.T) { backendtest.InFlight(t, open(t, path(t)), 12000) }
