package smallest_test

import (
	"context"
	"os"
	"regexp"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/conformance"
	smallest "github.com/parleymq/parley/examples/backend-smallest"
)

// TestFirstChecks runs the checks of the guide's first step, as it says there.
func TestFirstChecks(t *testing.T) {
	guide, err := os.ReadFile("../../docs/writing-a-backend.md")
	if err != nil {
		t.Fatal(err)
	}
	step := regexp.MustCompile(`(?m)^\| catalog \|.*\| ` + "`(.*)` \\|$").FindSubmatch(guide)
	if step == nil {
		t.Fatal("the guide has no step for the catalog")
	}
	checks := regexp.MustCompile(`\\\|`).ReplaceAllString(string(step[1]), "|")
	s := smallest.NewStore()
	conformance.RunMatching(t, conformance.Store{
		Open: func(context.Context) (backend.Backend, error) { return s.Open(), nil },
	}, regexp.MustCompile(checks))
}
