package parley_test

import (
	"context"
	"fmt"

	"github.com/parleymq/parley"
)

func ExampleBroker_Redefine() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	priority := func(level int) parley.Catalog {
		return parley.Catalog{Priorities: []parley.PriorityRule{{Name: "urgent", Local: "Billing", Level: level}}}
	}
	show := func() {
		c, err := b.Catalog(ctx)
		must(err)
		fmt.Println("level", c.Priorities[0].Level)
	}

	must(b.Define(ctx, priority(3))) // a program
	must(b.Define(ctx, priority(8))) // its next version
	must(b.Define(ctx, priority(3))) // the older one starts again, and changes nothing
	show()
	must(b.Redefine(ctx, priority(3))) // the operator means it
	show()
	// Output:
	// level 8
	// level 3
}

func ExampleBroker_Undefine() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	rules := parley.Catalog{Priorities: []parley.PriorityRule{{Name: "urgent", Local: "Billing", Level: 8}}}
	must(b.Define(ctx, rules))
	must(b.Undefine(ctx, rules))
	must(b.Define(ctx, rules)) // an older program still says so
	c, err := b.Catalog(ctx)
	must(err)
	fmt.Println(len(c.Priorities))
	// Output: 0
}
