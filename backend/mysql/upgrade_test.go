package mysql_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/parleymq/parley/backend/internal/backendtest"
)

// TestUpgrade: what MySQL and MariaDB have in their tables is the same.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, server string) {
		backendtest.Upgrade(t, func(t *testing.T) backendtest.Site { return site(t, server) }, func(column *sql.ColumnType, value any) string {
			if column.Name() == "urgency" {
				return "" // the server makes it
			}
			kind := column.DatabaseTypeName()
			switch v := value.(type) {
			case nil:
				return "NULL"
			case []byte:
				if strings.Contains(kind, "BINARY") || strings.Contains(kind, "BLOB") {
					return fmt.Sprintf("x'%x'", v)
				}
				return string(v)
			}
			return fmt.Sprint(value)
		})
	})
}
