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

// unnumbered are rules of package backend of which no sentence speaks yet: the
// tests of the reference backend look after them.
var unnumbered = []string{"F09", "F12", "F13"}

// TestMutants proves that the checks bite: for each fault of the reference
// backend, a check of the sentence that it breaks must fail, with that
// sentence. TestReference shows that the same checks pass without the fault.
func TestMutants(t *testing.T) {
	// Most checks spend their time waiting, so more of them run at once than
	// there are processors.
	limit := make(chan struct{}, 6)
	var wg sync.WaitGroup
	for _, f := range reference.Faults {
		if slices.Contains(unnumbered, f.Breaks) {
			t.Logf("%-28s left out: %s has no sentence", f.Fault, f.Breaks)
			continue
		}
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			start := time.Now()
			by, why := catch(t, f)
			if by == "" {
				t.Errorf("%s (%s) is not caught by any check of %s: %s", f.Fault, f.Says, f.Breaks, why)
				return
			}
			t.Logf("%-28s caught by %s/%s in %v: %s", f.Fault, f.Breaks, by, time.Since(start).Round(time.Millisecond), why)
		})
	}
	wg.Wait()
}

// catch returns the first check of the broken sentence that fails, and how.
func catch(t *testing.T, f reference.FaultInfo) (by, why string) {
	r, err := newRunner(t.Context(), referenceStore(f.Fault))
	if err != nil {
		return "", err.Error()
	}
	defer r.close()
	tried := 0
	for _, c := range Checks() {
		if c.ID != f.Breaks {
			continue
		}
		tried++
		c.Limit = 20 * time.Second // a fault may well make a check wait in vain
		res := r.run(t.Context(), c)
		if res.Failed == "" {
			continue
		}
		if res.Broken != sentence(f.Breaks) {
			return "", fmt.Sprintf("%s failed with the sentence %q", c.Name, res.Broken)
		}
		return c.Name, firstFailure(res.Failed)
	}
	return "", fmt.Sprintf("all %d pass", tried)
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
