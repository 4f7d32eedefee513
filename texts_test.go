package parley

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/guard"
)

// FuzzTexts: whatever comes from outside, every store can keep what is made of it.
func FuzzTexts(f *testing.F) {
	for _, s := range []string{"", " \n\t", "a\x00b", "a\xffb", "\xe2\x82", strings.Repeat("ж", 600), strings.Repeat("a", 999) + "€€", "𝄞\n\n𝄞", "…"} {
		f.Add(s, 5)
		f.Add(s, guard.MaxReason)
	}
	f.Fuzz(func(t *testing.T, s string, most int) {
		most = max(1, min(most, 10000))
		got := backend.CleanText(s, most)
		if !backend.IsText(got) || utf8.RuneCountInString(got) > most {
			t.Errorf("CleanText(%q, %d) is %q", s, most, got)
		}
		if backend.IsText(s) && utf8.RuneCountInString(s) <= most && got != s {
			t.Errorf("CleanText(%q, %d) is %q, though nothing is wrong with it", s, most, got)
		}
		if again := backend.CleanText(got, most); again != got {
			t.Errorf("CleanText of %q is %q", got, again)
		}
		line := guard.Reason(s, "otherwise")
		if !backend.IsText(line) || strings.TrimSpace(line) == "" || strings.Contains(line, "\n") || utf8.RuneCountInString(line) > guard.MaxReason {
			t.Errorf("reasonText(%q) is %q", s, line)
		}
		if text := guard.Text(errors.New(s)); !backend.IsText(text) || strings.TrimSpace(text) == "" || utf8.RuneCountInString(text) > guard.MaxError {
			t.Errorf("errorText(%q) is %q", s, text)
		}
		since, ok := UnhandledSince(s)
		if ok && since.IsZero() && !strings.HasPrefix(s, unhandledPrefix) {
			t.Errorf("UnhandledSince(%q) is %v", s, since)
		}
	})
}

// TestDefaultsOutlastAnHour: even with the shortest possible pauses, the default policy still
// retries after an outage of an hour. After the outage no group waits much longer than the limit.
func TestDefaultsOutlastAnHour(t *testing.T) {
	least := time.Duration(math.MaxInt64)
	for range 200 {
		all := time.Duration(0)
		for attempt := 1; attempt < defaultAttempts; attempt++ {
			d := defaultBackoff(attempt)
			if d > 15*time.Minute {
				t.Fatalf("a pause of %v after attempt %d", d, attempt)
			}
			all += d
		}
		least = min(least, all)
	}
	if least < 75*time.Minute {
		t.Errorf("the last attempt comes after %v", least)
	}
}

// TestUnhandledSince: the time from which on there was no handler survives being
// stored, and nothing else is taken for it.
func TestUnhandledSince(t *testing.T) {
	at := time.Now().Truncate(time.Second)
	for _, typ := range []string{"m", "a; since b", strings.Repeat("ж", 128), "with \"quotes\"\nand lines"} {
		err := NewMux().HandleMessage(t.Context(), &Message{Type: typ})
		var v *decidedError
		if !errors.As(err, &v) || !errors.Is(err, ErrNoHandler) {
			t.Fatalf("type %q: %v", typ, err)
		}
		if got, ok := UnhandledSince(guard.Text(&unhandledError{v, at})); !ok || !got.Equal(at) {
			t.Errorf("type %q: %v, %t", typ, got, ok)
		}
	}
	for _, s := range []string{"", "deferred by its handler for 1s", unhandledPrefix + "x", unhandledPrefix + "x" + sinceWord, "x" + sinceWord + at.Format(time.RFC3339)} {
		if got, ok := UnhandledSince(s); ok {
			t.Errorf("%q is taken for an error since %v", s, got)
		}
	}
}
