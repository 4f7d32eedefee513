package mysql_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// TestAbsentHeaders: messages and posts without headers need no more pages than in a table that has no such column.
// Its NULL is a bit in a byte that each row has anyway.
func TestAbsentHeaders(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db := connect(t, server, database(t, server), nil)
		open(t, db, nil)
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		run := func(text string) {
			t.Helper()
			if _, err := conn.ExecContext(t.Context(), text); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		digit := "(SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4" +
			" UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"
		const rows = 100_000
		size := func(table, insert string) (n int64) {
			t.Helper()
			run(fmt.Sprintf("INSERT INTO %s %s FROM (SELECT a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n AS i"+
				" FROM %[3]s a, %[3]s b, %[3]s c, %[3]s d, %[3]s e ORDER BY i) x", table, insert, digit))
			// How inserted rows fill their pages differs by a few percent from run to run; a rebuilt table's do not.
			run("ALTER TABLE " + table + " FORCE")
			run("ANALYZE TABLE " + table)
			err := conn.QueryRowContext(t.Context(), "SELECT stat_value * @@innodb_page_size FROM mysql.innodb_index_stats"+
				" WHERE database_name = DATABASE() AND table_name = ? AND index_name = 'PRIMARY' AND stat_name = 'n_leaf_pages'",
				table).Scan(&n)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		for table, insert := range map[string]string{
			"message": "(stream_id, seq, message_id, kind, type, body, since)" +
				" SELECT UNHEX(LPAD(HEX(i), 32, '0')), i, UNHEX(LPAD(HEX(i), 32, '0')), 2, 'Order', REPEAT('x', 100), 1795594959144639",
			"post": "(post_id, queue_id, priority, since, type, body)" +
				" SELECT UNHEX(LPAD(HEX(i), 32, '0')), 1, 5, i, 'Order', REPEAT('x', 100)",
		} {
			var name, text string
			table = "parley_" + table
			if err := conn.QueryRowContext(t.Context(), "SHOW CREATE TABLE "+table).Scan(&name, &text); err != nil {
				t.Fatal(err)
			}
			text = regexp.MustCompile("\n *`headers`.*").ReplaceAllString(text, "")
			run(strings.Replace(text, "`"+table+"`", "`without`", 1))
			without, with := size("without", insert), size(table, insert)
			run("DROP TABLE without")
			t.Logf("%d rows of %s: %d bytes without the column, %d with it", rows, table, without, with)
			if more := with - without; more > 0 {
				t.Errorf("%d rows of %s are %d bytes longer for their headers, which they have not", rows, table, more)
			}
		}
	})
}
