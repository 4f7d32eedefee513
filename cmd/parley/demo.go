package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/parleymq/parley/internal/demo"
)

func runDemo(ctx context.Context, c *call) error {
	if len(c.args) > 0 {
		if d, ok := demo.Demos[c.args[0]]; ok {
			return d.Run(ctx, c.args[1:], c.stdout, c.stderr)
		}
		fmt.Fprintf(c.stderr, "parley: there is no demo %q\n", c.args[0])
	}
	fmt.Fprintln(c.stderr, "demos:")
	for _, name := range slices.Sorted(maps.Keys(demo.Demos)) {
		fmt.Fprintf(c.stderr, "  %-12s %s\n", name, demo.Demos[name].Says)
	}
	return errUsage
}
