package postgres_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/parleymq/parley/backend/internal/backendtest"
)

func TestUpgrade(t *testing.T) {
	backendtest.Upgrade(t, site, func(column *sql.ColumnType, value any) string {
		switch v := value.(type) {
		case nil:
			return "NULL"
		case []byte:
			if column.DatabaseTypeName() == "BYTEA" {
				return fmt.Sprintf(`'\x%x'`, v)
			}
			return "'" + strings.ReplaceAll(string(v), "'", "''") + "'"
		case string:
			return "'" + strings.ReplaceAll(v, "'", "''") + "'"
		}
		return fmt.Sprint(value)
	})
}
