package mysql

import (
	"maps"
	"testing"

	"github.com/parleymq/parley/backend/internal/backendtest"
)

// TestSessionVariables: each way to ask for a session's variables gives the same answer. If a
// server lacks a variable that the last server had, it is asked again.
func TestSessionVariables(t *testing.T) {
	for name, variable := range map[string]string{"mariadb": "PARLEY_TEST_MARIADB", "mysql": "PARLEY_TEST_MYSQL"} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), backendtest.Server(t, name, variable, "the URL of a database for tests"), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			c, err := s.pool.db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			same := func(has *[]string) {
				t.Helper()
				s.pool.has.Store(has)
				v, err := s.pool.sessionVariables(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				for name, value := range v {
					if on(value) {
						v[name] = "1"
					} else if value == "OFF" {
						v[name] = "0"
					}
				}
				first, err := selected(t.Context(), c, *s.pool.has.Load())
				if err != nil || len(v) < 5 || !maps.Equal(v, first) {
					t.Errorf("SELECT: %v, %v; %v", first, err, v)
				}
			}
			same(nil)
			same(&[]string{"autocommit", "no_such_variable"})
		})
	}
}

// TestRefusal: sessions on which the store would not keep what it promises are refused.
func TestRefusal(t *testing.T) {
	for name, x := range map[string]struct {
		change  map[string]string
		refused bool
	}{
		"a server":                              {nil, false},
		"a node of Galera with a binary log":    {map[string]string{"wsrep_on": "ON", "log_bin": "ON"}, false},
		"a node of Galera, by SELECT":           {map[string]string{"wsrep_on": "1", "log_bin": "1"}, false},
		"a node of Galera without a binary log": {map[string]string{"wsrep_on": "ON", "log_bin": "OFF"}, true},
		"a node of XtraDB Cluster without one":  {map[string]string{"wsrep_on": "ON", "log_bin": "OFF", "version": "8.0.36-28.1"}, false},
		"no number of the connection":           {map[string]string{"pseudo_thread_id": "0"}, true},
		"autocommit is off":                     {map[string]string{"autocommit": "OFF"}, true},
		"empty texts are NULL":                  {map[string]string{"sql_mode": "ANSI_QUOTES,EMPTY_STRING_IS_NULL"}, true},
	} {
		v := map[string]string{"version": "10.11.18-MariaDB", "pseudo_thread_id": "7", "autocommit": "ON", "log_bin": "OFF", "sql_mode": "STRICT_TRANS_TABLES"}
		maps.Copy(v, x.change)
		if err := refusal(serverOf(v), v); (err != nil) != x.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
