package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lib/pq"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// grants writes rights as PostgreSQL has them. Notifications, advisory locks and the
// catalog of the server take none.
func (p *pool) grants() *sqlstore.Grants {
	return &sqlstore.Grants{
		Account: func(name string) (string, error) {
			if strings.Contains(name, "\x00") {
				return "", errors.New("parley: postgres: the name of a role has a zero byte")
			}
			return pq.QuoteIdentifier(name), nil
		},
		Table: p.named,
		Extra: func(ctx context.Context, role backend.Role) ([]string, error) {
			schema, err := p.home(ctx)
			if err != nil {
				return nil, err
			}
			list := []string{"USAGE ON SCHEMA " + schema}
			switch role {
			case backend.RoleOwner:
				list[0] = "USAGE, CREATE ON SCHEMA " + schema
			case backend.RolePoster:
				call := "EXECUTE ON FUNCTION " + schema + "." + p.options.Prefix
				return append(list, call+"post(text, text, bytea, text)", call+"post(text, text, bytea, text, text)"), nil
			}
			return list, nil
		},
	}
}

// home returns the schema's name, in quotes.
func (p *pool) home(ctx context.Context) (string, error) {
	if err := p.probe(ctx); err != nil {
		return "", err
	}
	name := p.options.Schema
	if name == "" {
		// There is none where the search_path names no schema that exists.
		if err := p.db.QueryRowContext(ctx, "SELECT coalesce(current_schema(), '')").Scan(&name); err != nil {
			return "", err
		}
	}
	if name == "" {
		return "", fmt.Errorf("parley: postgres: no schema is in the search_path: %w", backend.ErrNotMigrated)
	}
	return pq.QuoteIdentifier(name), nil
}

// named returns something of the schema's with the schema's name.
func (p *pool) named(ctx context.Context, name string) (string, error) {
	schema, err := p.home(ctx)
	return schema + "." + p.options.Prefix + name, err
}
