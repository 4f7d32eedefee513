package mssql

import (
	"strings"
	"testing"

	"github.com/parleymq/parley/backend"
)

// TestGrants: rights are granted to names in brackets, and a poster gets EXECUTE alone.
func TestGrants(t *testing.T) {
	b := New(nil, &Options{Schema: "app", Prefix: "p_"})
	for role, want := range map[backend.Role][]string{
		backend.RolePoster: {"GRANT EXECUTE ON OBJECT::[app].p_post_message TO [a]]b];"},
		backend.RoleSender: {"GRANT EXECUTE ON TYPE::[app].p_ids TO [a]]b];", "GRANT INSERT ON [app].p_message TO [a]]b];",
			"GRANT SELECT ON [app].p_ready TO [a]]b];"},
		backend.RoleOwner: {"GRANT ALTER, CONTROL ON SCHEMA::[app] TO [a]]b];"},
	} {
		text, err := b.Grants(t.Context(), role, "a]b")
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range want {
			if !strings.Contains(text, line) {
				t.Errorf("%s: there is no %s in\n%s", role, line, text)
			}
		}
		if role == backend.RolePoster && strings.Count(text, "GRANT") != 2 { // both procedures
			t.Errorf("a poster gets\n%s", text)
		}
	}
	text, err := b.Grants(t.Context(), backend.RoleWorker, "")
	if err != nil || !strings.Contains(text, "\nCREATE ROLE [p_worker];\n") {
		t.Errorf("%v in\n%s", err, text)
	}
}
