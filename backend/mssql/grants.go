package mssql

import (
	"context"
	"strings"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// grants writes rights as SQL Server has them.
func (p *pool) grants() *sqlstore.Grants {
	return &sqlstore.Grants{
		Account: func(name string) (string, error) { return bracketed(name), nil },
		Table:   func(ctx context.Context, name string) (string, error) { return p.named(ctx, name) },
		// A sender checks whether its stream is already in the ready order.
		More: []sqlstore.Rights{{Table: "ready", Sender: "s"}},
		Extra: func(ctx context.Context, role backend.Role) ([]string, error) {
			schema, err := p.home(ctx)
			if err != nil {
				return nil, err
			}
			prefix := schema + "." + p.options.Prefix
			switch role {
			case backend.RoleOwner:
				return []string{
					"CREATE TABLE, CREATE VIEW, CREATE PROCEDURE, CREATE TYPE",
					"ALTER, CONTROL ON SCHEMA::" + schema,
				}, nil
			case backend.RolePoster:
				return []string{
					"EXECUTE ON OBJECT::" + prefix + "post_message",
					"EXECUTE ON OBJECT::" + prefix + "post_message_with_headers",
				}, nil
			}
			// Lists are passed as tables of these types.
			return []string{
				"EXECUTE ON TYPE::" + prefix + "ids",
				"EXECUTE ON TYPE::" + prefix + "payloads",
			}, nil
		},
	}
}

func bracketed(name string) string { return "[" + strings.ReplaceAll(name, "]", "]]") + "]" }

// home returns the schema's name, in brackets.
func (p *pool) home(ctx context.Context) (string, error) {
	name := p.options.Schema
	if name == "" {
		if err := p.db.QueryRowContext(ctx, "SELECT SCHEMA_NAME()").Scan(&name); err != nil {
			return "", err
		}
	}
	return bracketed(name), nil
}

// named returns something of the schema's with the schema's name.
func (p *pool) named(ctx context.Context, name string) (string, error) {
	schema, err := p.home(ctx)
	return schema + "." + p.options.Prefix + name, err
}
