package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"testing"
	"time"
)

func TestPlanTime(t *testing.T) {
	if os.Getenv("SPEED") == "" {
		t.Skip()
	}
	db, _ := sql.Open("postgres", os.Getenv("PARLEY_TEST_POSTGRES"))
	defer db.Close()
	ctx := context.Background()
	name := "plantime"
	db.Exec("DROP SCHEMA IF EXISTS " + name + " CASCADE")
	defer db.Exec("DROP SCHEMA IF EXISTS " + name + " CASCADE")
	s := New(db, &Options{Schema: name, Pooler: PoolerNever})
	if err := s.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	conn, _ := db.Conn(ctx)
	if os.Getenv("JITOFF") != "" {
		conn.ExecContext(ctx, "SET jit=off")
	}
	_, err := conn.ExecContext(ctx, "PREPARE x AS "+s.pool.hot.claims[1].Text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		start := time.Now()
		rows, err := conn.QueryContext(ctx, "EXPLAIN (ANALYZE, SUMMARY) EXECUTE x(1,1000)")
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for rows.Next() {
			var l string
			rows.Scan(&l)
			all = append(all, l)
		}
		fmt.Println(i, time.Since(start), all[len(all)-2:], all[0])
		if i == 11 {
			for _, l := range all {
				fmt.Println(l)
			}
		}
	}
}
