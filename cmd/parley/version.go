package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// version is that of the module the command was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// versions are what `parley version` prints.
type versions struct {
	Version string
	Go      string
	Engine  string `json:",omitempty"` // of the database, if one is named
	Server  string `json:",omitempty"`
	Schema  int    `json:",omitempty"`
}

func (c *call) version() *cobra.Command {
	return c.command("version", "Print the command's version, and the database's", "parley version --db sqlite:app.db",
		cobra.NoArgs, func(ctx context.Context, _ []string) error {
			v := versions{Version: version(), Go: runtime.Version()}
			if c.db != "" {
				b, err := c.open(ctx)
				if err != nil {
					return err
				}
				defer b.Close()
				info, err := b.Info(ctx)
				if err != nil {
					return err
				}
				v.Engine, v.Server, v.Schema = info.Engine, info.Version, info.Schema
			}
			if c.json {
				return c.encode(v)
			}
			c.printf("parley %s, %s\n", v.Version, v.Go)
			if c.db != "" {
				c.printf("%s %s, schema %d\n", v.Engine, v.Server, v.Schema)
			}
			return nil
		})
}

// man writes the manual pages, which packages of the command install.
func (c *call) man() *cobra.Command {
	cmd := c.command("man DIRECTORY", "Write manual pages", "parley man /usr/local/share/man/man1", cobra.ExactArgs(1),
		func(context.Context, []string) error { return nil })
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.begun = true
		if err := os.MkdirAll(args[0], 0o755); err != nil {
			return fmt.Errorf("parley: man: %w", err)
		}
		cmd.Root().DisableAutoGenTag = true
		return doc.GenManTree(cmd.Root(), &doc.GenManHeader{Title: "PARLEY", Section: "1", Source: "Parley " + version()}, args[0])
	}
	return cmd
}
