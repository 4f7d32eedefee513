package conformance

import (
	"context"
	"regexp"
	"testing"

	"github.com/parleymq/parley/backend"
)

// step is what claims of the store in TestWalks leave to the next one.
type step int

// TestWalks proves that Parley goes on with what a claim has not looked at: here each
// finds nothing but the third of a walk.
func TestWalks(t *testing.T) {
	t.Parallel()
	RunMatching(t, brokenStore(&mistake{
		claim: func(ctx context.Context, tx *brokenTx, r backend.ClaimRequest) (backend.Claim, error) {
			if n, _ := r.Walk.(step); n < 2 {
				return backend.Claim{Contended: true, Walk: n + 1}, nil
			}
			r.Walk = nil
			return tx.Tx.Claim(ctx, r)
		},
	}), regexp.MustCompile("^(A23|A24|G02|G05|P12|Q05|W06)"))
}
