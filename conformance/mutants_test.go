package conformance

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleymq/parley/internal/memstore"
)

// mutant is a store that does one thing wrong.
type mutant struct {
	name, breaks, says string
	store              Store
	by                 string // the check that must catch it; empty: any of the sentence
}

func mutants() (list []mutant) {
	for _, f := range memstore.Faults {
		list = append(list, mutant{string(f.Fault), f.Breaks, f.Says, memoryStore(f.Fault), ""})
	}
	for _, m := range mistakes {
		list = append(list, mutant{"mistake of " + m.id, m.id, m.says, brokenStore(m), ""})
	}
	for _, d := range deviations {
		list = append(list, mutant{"deviation of " + d.id, d.id, d.says, d.store(), d.by})
	}
	for i := range list {
		for _, m := range pluginMistakes {
			if list[i].says == m.says {
				list[i].by = m.by
			}
		}
	}
	return list
}

// TestMutants proves that the checks bite: for each mutant, a check of the
// sentence that it breaks must fail, with that sentence. TestMemory shows
// that the same checks pass without the fault.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: each mutant runs the checks of its sentence")
	}
	// Most checks spend their time waiting, so more of them run at once than
	// there are processors.
	limit := make(chan struct{}, 12)
	var wg sync.WaitGroup
	for _, m := range mutants() {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			t.Run(m.breaks+"/"+m.name, func(t *testing.T) {
				by, why := m.catch(t)
				if by == "" {
					t.Fatalf("%s: %s", m.says, why)
				}
				t.Logf("%s\n    by %s: %s", m.says, by, why)
			})
		})
	}
	wg.Wait()
}

// TestEverySentenceHasAMutant: a sentence that no mutant breaks may have checks that cannot fail.
func TestEverySentenceHasAMutant(t *testing.T) {
	all := mutants()
	for _, s := range Sentences {
		if !slices.ContainsFunc(all, func(m mutant) bool { return m.breaks == s.ID }) {
			t.Errorf("no mutant breaks %s %s", s.ID, s.Text)
		}
	}
}

// catch returns the first check of the broken sentence that fails, and how.
func (m mutant) catch(t *testing.T) (by, why string) {
	r, err := newRunner(t.Context(), m.store)
	if err != nil {
		return "", err.Error()
	}
	defer r.close()
	tried := 0
	for _, c := range allChecks() {
		if c.ID != m.breaks || m.by != "" && c.Name != m.by {
			continue
		}
		tried++
		c.Limit = 20 * time.Second // a fault may well make a check wait for its whole limit
		res := r.run(t.Context(), c)
		if res.Failed == "" {
			continue
		}
		if res.Broken != sentence(m.breaks) {
			return "", fmt.Sprintf("%s failed with the sentence %q", c.Name, res.Broken)
		}
		return c.Name, firstFailure(res.Failed)
	}
	return "", fmt.Sprintf("not caught: all %d checks of the sentence pass", tried)
}

var spaces = regexp.MustCompile(`\s+`)

func firstFailure(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	s = spaces.ReplaceAllString(s, " ")
	if len(s) > 200 {
		s = s[:200] + "…"
	}
	return s
}
