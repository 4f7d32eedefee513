package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parleymq/parley/backend"
)

// Rights are what roles may do to a table: SELECT, INSERT, UPDATE and DELETE by their
// first letters.
type Rights struct{ Table, Sender, Worker, Operator string }

// tableRights are the rights of the roles. The owner, who made the tables, has all.
//
// A sender never reads what it has sent: it has no SELECT on a table with bodies. It
// does not end conversations, either, for which it would have to remove messages.
//
// To lock a row takes UPDATE on PostgreSQL and MySQL. What finds its row there
// (ON CONFLICT DO UPDATE) takes SELECT and UPDATE besides INSERT.
var tableRights = []Rights{
	{"meta", "s", "s", "s"},
	{"object", "s", "s", "s"},
	{"queue", "s", "s", "s"},
	{"grp", "siu", "siud", "siu"}, // a Sender by key takes the key's group
	{"endpoint", "si", "siud", "s"},
	{"closing", "si", "sid", "s"},
	{"stream", "siu", "siud", "siud"},
	{"message", "i", "sid", "sid"},
	{"ready", "i", "siud", "siud"},
	{"promotion", "", "siud", "siud"},
	{"post", "i", "siud", "siud"},
	{"key", "si", "sid", "si"},
	{"delayed", "i", "siud", "sud"},
	{"uniq", "si", "sid", "sid"},
	{"held", "i", "siud", "s"},
	{"timer", "siu", "siud", "s"},
	{"retained", "i", "sid", "s"},
	{"processed", "", "sid", "s"},
	{"dead_letter", "", "i", "sid"},
	{"failure", "", "siud", "sd"},
	{"worker", "", "siud", "s"},
	{"walk", "", "su", ""},
	{"once", "i", "sid", ""},
	{"lock_stripe", "", "su", ""},
	{"lock_owner", "", "siud", "s"},
	{"lock", "", "siud", "s"},
	{"fence", "", "siu", ""},
	{"schedule", "", "siud", "sud"},
	{"task", "", "siud", "sud"},
	{"recurring", "", "siu", "siu"},
	{"cancel", "", "sid", "si"},
}

// views are what operators may also look at by SQL.
var views = []string{"queues", "groups", "messages", "conversations", "dead", "executions", "locks"}

// of returns the rights of one role.
func (r Rights) of(role backend.Role) string {
	switch role {
	case backend.RoleSender:
		return r.Sender
	case backend.RoleWorker:
		return r.Worker
	case backend.RoleOperator:
		return r.Operator
	}
	return ""
}

// privileges writes rights as SQL does.
func privileges(letters string) (list []string) {
	for _, p := range []string{"SELECT", "INSERT", "UPDATE", "DELETE"} {
		if strings.Contains(letters, strings.ToLower(p[:1])) {
			list = append(list, p)
		}
	}
	return list
}

// Grants are what differs between engines when rights are granted.
type Grants struct {
	// Account writes the name of an account; it returns an error for a name that cannot
	// be written.
	Account func(name string) (string, error)
	// Table returns how a table or view, without its prefix, is named in a grant.
	Table func(ctx context.Context, name string) (string, error)
	// More has further rights to tables that this engine alone has, or needs.
	More []Rights
	// Extra returns what else a role is granted: "… TO" is put behind it.
	Extra func(ctx context.Context, role backend.Role) ([]string, error)
}

// Grants implements backend.Granter.
func (s *Store) Grants(ctx context.Context, role backend.Role, account string) (string, error) {
	g := s.d.Grants
	switch {
	case !slices.Contains(backend.Roles, role):
		return "", fmt.Errorf("parley: role %q: want one of %q", role, backend.Roles)
	case g == nil:
		return "", fmt.Errorf("parley: this database has no roles: its file and folder can be read and written"+
			" by those whom the file system lets, and there is nothing else to grant: %w", errors.ErrUnsupported)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "-- What a Parley %s needs; docs/security.md says what it can do with that.\n", role)
	name := account
	if name == "" {
		name = s.d.Prefix + string(role)
	}
	to, err := g.Account(name)
	if err != nil {
		return "", err
	}
	if account == "" {
		fmt.Fprintf(&b, "CREATE ROLE %s;\n", to)
	}
	extra, err := g.Extra(ctx, role)
	if err != nil {
		return "", s.fail(ctx, err)
	}
	for _, what := range extra {
		fmt.Fprintf(&b, "GRANT %s TO %s;\n", what, to)
	}
	for _, r := range append(slices.Clone(tableRights), g.More...) {
		if err := s.grant(ctx, &b, privileges(r.of(role)), r.Table, to); err != nil {
			return "", err
		}
	}
	if role == backend.RoleOperator {
		for _, view := range views {
			if err := s.grant(ctx, &b, []string{"SELECT"}, view, to); err != nil {
				return "", err
			}
		}
	}
	return b.String(), nil
}

func (s *Store) grant(ctx context.Context, b *strings.Builder, list []string, table, to string) error {
	if len(list) == 0 {
		return nil
	}
	name, err := s.d.Grants.Table(ctx, table)
	if err != nil {
		return s.fail(ctx, err)
	}
	fmt.Fprintf(b, "GRANT %s ON %s TO %s;\n", strings.Join(list, ", "), name, to)
	return nil
}

// roleOf returns a role for which the rights to the tables are sufficient, or "". The map tables
// has the missing rights for each; on an invisible table all rights are missing.
func (d *Dialect) roleOf(tables map[string]string) backend.Role {
	if d.Grants == nil {
		return ""
	}
	for _, role := range []backend.Role{backend.RoleWorker, backend.RoleOperator, backend.RoleSender} {
		enough := func(r Rights) bool {
			lacks, seen := tables[d.Prefix+r.Table]
			for _, p := range privileges(r.of(role)) {
				if !seen || strings.Contains(lacks, p) {
					return false
				}
			}
			return true
		}
		all := append(slices.Clone(tableRights), d.Grants.More...)
		if !slices.ContainsFunc(all, func(r Rights) bool { return !enough(r) }) {
			return role
		}
	}
	return ""
}
