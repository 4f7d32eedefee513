package backend_test

import (
	"testing"

	"github.com/parleymq/parley/backend"
)

// TestPlaceTexts: a place is the same behind its text, which is short without the number of a message.
func TestPlaceTexts(t *testing.T) {
	id := backend.ID{0: 1, 15: 2}
	texts := map[string]backend.Place{
		"0.0.0.00000000-0000-0000-0000-000000000000":   {},
		"2.5.-17.01000000-0000-0000-0000-000000000002": {Part: 2, Rank: 5, Since: -17, ID: id},
		"3.0.0.01000000-0000-0000-0000-000000000002.9": {Part: 3, ID: id, Seq: 9},
	}
	for text, want := range texts {
		got := backend.Place{Seq: 1}
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s is %+v, %v, want %+v", text, got, err, want)
		}
		if back, err := want.MarshalText(); err != nil || string(back) != text {
			t.Errorf("%+v is written %s, %v, want %s", want, back, err, text)
		}
	}
	for _, text := range []string{"", "1.2.3", "1.2.3." + id.String() + ".x", "1.2.3." + id.String() + ".4.5"} {
		if err := new(backend.Place).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is a place", text)
		}
	}
	a, b := texts["3.0.0.01000000-0000-0000-0000-000000000002.9"], backend.Place{Part: 3, ID: id, Seq: 10}
	if a.Compare(b) >= 0 || b.Compare(a) <= 0 || a.Compare(a) != 0 {
		t.Errorf("%+v does not come before %+v", a, b)
	}
}
