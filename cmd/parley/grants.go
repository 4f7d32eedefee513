package main

import (
	"context"
	"fmt"
	"io"

	"github.com/parleymq/parley/backend"
)

// grants prints the SQL that gives an account the rights of a role.
func grants(ctx context.Context, c *call) error {
	role := c.flags.String("role", "", "`role`: owner, worker, operator, sender, or poster for posts by plain SQL")
	account := c.flags.String("to", "", "the `account` that gets the rights; without it a role is made for them")
	if err := c.parse(0, 0); err != nil {
		return err
	}
	if *role == "" {
		c.flags.Usage()
		return errUsage
	}
	b, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	g, ok := b.Backend().(backend.Granter)
	if !ok {
		return fmt.Errorf("parley: grants: this backend knows no roles")
	}
	text, err := g.Grants(ctx, backend.Role(*role), *account)
	if err != nil {
		return err
	}
	_, err = io.WriteString(c.stdout, text)
	return err
}
