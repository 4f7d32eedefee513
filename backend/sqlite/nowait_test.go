package sqlite_test

import (
	"testing"

	"github.com/parleymq/parley/backend/internal/backendtest"
)

func TestNoWait(t *testing.T) { backendtest.NoWait(backendtest.New(t, open(t, path(t)))) }
