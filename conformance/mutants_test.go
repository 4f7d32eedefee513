package conformance

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleymq/parley/conformance/internal/reference"
)

// ofParley are the sentences that Parley keeps by itself on every store, so
// that no mistake of a backend can break them.
var ofParley = []string{"A05", "E03", "B02", "B03", "B04", "B09", "B11", "B12", "X13", "X14", "X15", "M03"}

// mutant is a store that does one thing wrong.
type mutant struct {
	name, breaks, says string
	store              Store
}

func mutants() (list []mutant) {
	for _, f := range reference.Faults {
		list = append(list, mutant{string(f.Fault), f.Breaks, f.Says, referenceStore(f.Fault)})
	}
	for _, m := range mistakes {
		list = append(list, mutant{"mistake of " + m.id, m.id, m.says, brokenStore(m)})
	}
	return list
}

// TestMutants proves that the checks bite: for each mutant, a check of the
// sentence that it breaks must fail, with that sentence. TestReference shows
// that the same checks pass without the fault.
func TestMutants(t *testing.T) {
	broken := make(map[string]int)
	// Most checks spend their time waiting, so more of them run at once than
	// there are processors.
	limit := make(chan struct{}, 6)
	var wg sync.WaitGroup
	for _, m := range mutants() {
		broken[m.breaks]++
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			start := time.Now()
			by, why := m.catch(t)
			if by == "" {
				t.Errorf("%s: %s (%s): %s", m.breaks, m.name, m.says, why)
				return
			}
			t.Logf("%-3s %s (%s) in %v\n    by %s: %s", m.breaks, m.name, m.says, time.Since(start).Round(time.Millisecond), by, why)
		})
	}
	wg.Wait()
	for _, s := range Sentences {
		if (broken[s.ID] > 0) == slices.Contains(ofParley, s.ID) {
			t.Errorf("%d mutants break %s; ofParley lists the sentences that none can break", broken[s.ID], s.ID)
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
	for _, c := range Checks() {
		if c.ID != m.breaks {
			continue
		}
		tried++
		c.Limit = 20 * time.Second // a fault may well make a check wait in vain
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
