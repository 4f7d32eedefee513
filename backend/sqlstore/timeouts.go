package sqlstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// limit is what is known of how long the server leaves a transaction open.
type limit struct {
	after   time.Duration // 0: for ever
	setting string
}

// TransactionLimit implements backend.TransactionLimiter. The settings of sessions are
// read once: all connections of a pool are opened alike.
func (p Pooled) TransactionLimit(ctx context.Context) (time.Duration, string, error) {
	if l := p.limit.Load(); l != nil {
		return l.after, l.setting, nil
	}
	settings, err := p.timeouts(ctx)
	if err != nil {
		return 0, "", err
	}
	l := new(limit)
	for name, d := range settings {
		if l.after == 0 || d < l.after {
			*l = limit{d, name}
		}
	}
	p.limit.Store(l)
	return l.after, l.setting, nil
}

// timeouts returns the settings by which the server ends transactions, without those
// that are off.
func (s *Store) timeouts(ctx context.Context) (map[string]time.Duration, error) {
	if s.d.Timeouts == nil {
		return nil, nil
	}
	all, err := patiently(ctx, s, s.d.Timeouts)
	maps.DeleteFunc(all, func(_ string, d time.Duration) bool { return d <= 0 })
	return all, s.fail(ctx, err)
}

// soonEnded is how long a transaction may last that the server ends soon.
const soonEnded = time.Minute

// warnTimeouts warns of settings by which the server ends transactions soon.
func (s *Store) warnTimeouts(ctx context.Context, info *backend.Info) error {
	settings, err := s.timeouts(ctx)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		d := settings[name]
		Warn(info, d < soonEnded, backend.Warning{Code: backend.WarnTimeout,
			Text: fmt.Sprintf("%s is %v: a handler that takes longer in Message.Tx loses what it has written", name, d),
			Hint: "raise it for the sessions of the program, or ask for Message.Tx late"})
	}
	return err
}
