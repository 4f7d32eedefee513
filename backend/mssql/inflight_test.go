package mssql_test

import (
	"testing"

	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/mssql"
)

func TestInFlight(t *testing.T) { backendtest.InFlight(t, open(t, connect(t), mssql.Options{}), 12000) }
