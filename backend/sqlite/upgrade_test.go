package sqlite_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/parleymq/parley/backend/internal/backendtest"
)

func TestUpgrade(t *testing.T) {
	backendtest.Upgrade(t, site,
		func(_ *sql.ColumnType, value any) string {
			switch v := value.(type) {
			case nil:
				return "NULL"
			case []byte:
				return fmt.Sprintf("x'%x'", v)
			case string:
				return "'" + strings.ReplaceAll(v, "'", "''") + "'"
			}
			return fmt.Sprint(value)
		})
}
