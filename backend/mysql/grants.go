package mysql

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// grants writes rights as MySQL and MariaDB have them.
func (p *pool) grants() *sqlstore.Grants {
	return &sqlstore.Grants{
		Account: account,
		Table:   p.named,
		More: []sqlstore.Rights{
			// The sender of a new key looks for it with a lock, which takes UPDATE.
			{Table: "key", Sender: "u", Worker: "u", Operator: "u"},
			// By a row of it a receiver finds out a joined transaction's level.
			{Table: "probe", Worker: "sid", Operator: "sid"},
		},
		Extra: func(ctx context.Context, role backend.Role) ([]string, error) {
			if p.vitess() {
				return nil, fmt.Errorf("parley: mysql: Vitess has no GRANT: its accounts are vtgate's and the table ACLs of vttablet: %w", errors.ErrUnsupported)
			}
			switch role {
			case backend.RoleOwner:
				database, err := p.database(ctx)
				return []string{"SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, CREATE VIEW, SHOW VIEW," +
					" CREATE ROUTINE, ALTER ROUTINE, EXECUTE ON " + database + ".*"}, err
			case backend.RolePoster:
				database, err := p.database(ctx)
				call := "EXECUTE ON PROCEDURE " + database + "." + p.prefix
				return []string{call + "post", call + "post_with_headers"}, err
			}
			return nil, nil
		},
	}
}

// account writes user, or user@host, with quotes that every sql_mode knows.
func account(name string) (string, error) {
	user, host, hasHost := strings.Cut(name, "@")
	for _, part := range []string{user, host} {
		if strings.ContainsAny(part, "`\\\x00") {
			return "", fmt.Errorf("parley: mysql: account %q: want user or user@host without quotes", name)
		}
	}
	text := "`" + user + "`"
	if hasHost {
		text += "@`" + host + "`"
	}
	return text, nil
}

func (p *pool) database(ctx context.Context) (name string, err error) {
	conn, _, err := p.conn(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	err = conn.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&name)
	return "`" + strings.ReplaceAll(name, "`", "``") + "`", err
}

// named returns something of the schema's with the database's name.
func (p *pool) named(ctx context.Context, name string) (string, error) {
	database, err := p.database(ctx)
	return database + "." + p.prefix + name, err
}
