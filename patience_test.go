package parley

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleymq/parley/backend"
)

// TestPatience: tries go on until GroupWait has passed. A process that was stopped for longer than
// that tries again all the same.
func TestPatience(t *testing.T) {
	b := &Broker{opt: Options{GroupWait: time.Second}}
	for name, c := range map[string]struct {
		stall  time.Duration // of the first try
		free   int           // the try that succeeds
		within time.Duration
		want   error
	}{
		"free":        {free: 1, within: 0},
		"busy for 10": {free: 11, within: 600 * time.Millisecond},
		"stopped":     {stall: time.Minute, free: leastTries, within: time.Minute + 100*time.Millisecond},
		"busy":        {free: 1000, within: 1100 * time.Millisecond, want: ErrGroupBusy},
	} {
		synctest.Test(t, func(t *testing.T) {
			tries, start := 0, time.Now()
			err := b.patiently(t.Context(), func() error {
				if tries++; tries == 1 {
					time.Sleep(c.stall)
				}
				if tries < c.free {
					return backend.ErrGroupBusy
				}
				return nil
			})
			if took := time.Since(start); err != c.want || took > c.within {
				t.Errorf("%s: %v after %v and %d tries", name, err, took, tries)
			}
		})
	}
}
