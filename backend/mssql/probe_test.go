package mssql

import (
	"database/sql"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parleymq/parley/conformance"
)

var _ conformance.Prober = (*Store)(nil)

// TestProbeExplains: the statements whose plans are asked for exist, and have the parameters
// that are declared for them.
func TestProbeExplains(t *testing.T) {
	texts := allStatements(t)
	placeholder := regexp.MustCompile(`@p\d+`)
	for name, declared := range parameters {
		want := slices.Compact(slices.Sorted(slices.Values(placeholder.FindAllString(texts[name], -1))))
		got := placeholder.FindAllString(declared, -1)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q are declared, and %q used", name, got, want)
		}
	}
}

// TestProbePlans: a plan's operators, indexes and prefetches are noted, and no names of servers
// and databases.
func TestProbePlans(t *testing.T) {
	const plan = `<RelOp NodeId="0" PhysicalOp="Nested Loops"><NestedLoops WithUnorderedPrefetch="true">
		<RelOp PhysicalOp="Clustered Index Seek"><IndexScan><Object Server="[host]" Database="[secret]" Schema="[dbo]" Table="[parley_grp]" Index="[PK_grp]" Alias="[g]"/>
		</IndexScan></RelOp><NestedLoops WithUnorderedPrefetch="0"></RelOp>`
	got := strings.Join(planParts(plan), ", ")
	if want := "Nested Loops, WithUnorderedPrefetch, Clustered Index Seek, parley_grp.PK_grp"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestProbeOfServerThatRefuses: what a server does not answer is noted with its error, and the
// probes end where their table cannot be made.
func TestProbeOfServerThatRefuses(t *testing.T) {
	db := sql.OpenDB(&silent{err: errRefused})
	defer db.Close()
	answers := make(map[string]string)
	err := New(db, nil).Probe(t.Context(), func(question, answer string) {
		if _, ok := answers[question]; ok {
			t.Errorf("%q is asked twice", question)
		}
		answers[question] = answer
	})
	if err == nil || len(answers) != len(oneValue) {
		t.Errorf("%d answers and %v, want %d and an error", len(answers), err, len(oneValue))
	}
	for question, answer := range answers {
		if answer != "error 4711: not now" {
			t.Errorf("%s: %s", question, answer)
		}
	}
	seen := make(map[string]bool)
	for _, b := range besides {
		if seen[b.question] {
			t.Errorf("%q is asked twice", b.question)
		}
		seen[b.question] = true
	}
}

var errRefused = refused{}

type refused struct{}

func (refused) Error() string         { return "not now" }
func (refused) SQLErrorNumber() int32 { return 4711 }
