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
