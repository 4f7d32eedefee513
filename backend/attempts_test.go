package backend_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
)

// TestAttempts: the last ten attempts are kept, and their text comes back as it was, whatever the errors say.
func TestAttempts(t *testing.T) {
	var list []backend.FailedAttempt
	nasty := []string{backend.AttemptNow, `"at":null`, `\"at\":null`, "\x00\xff", strings.Repeat("ü", 2000), strings.Repeat("🙂", 1024), "\x01\x7f\u2028<&>"}
	for i := range 15 {
		before := len(list)
		list = backend.AddAttempt(list, i+1, nasty[i%len(nasty)])
		text := backend.EncodeAttempts(list)
		if n := strings.Count(text, backend.AttemptNow); n != 1 {
			t.Fatalf("after %d attempts the text says %d times when it is stored: %s", i+1, n, text)
		}
		now := time.UnixMicro(int64(1e15) + int64(i))
		got := backend.DecodeAttempts(strings.ReplaceAll(text, backend.AttemptNow, fmt.Sprintf(`"at":%d`, now.UnixMicro())))
		want := backend.KeepAttempts(list, now)
		if fmt.Sprint(got) != fmt.Sprint(want) || len(got) != min(before+1, backend.MaxAttempts) {
			t.Fatalf("got %v\nwant %v", got, want)
		}
		list = got
	}
	if list[0].Attempt != 6 || list[9].Attempt != 15 || list[0].At.UnixMicro() != 1e15+5 {
		t.Errorf("the list is of attempts %d to %d, from %v", list[0].Attempt, list[9].Attempt, list[0].At)
	}
	for _, a := range list {
		if len(a.Error) > backend.MaxAttemptError || !backend.IsText(a.Error) {
			t.Errorf("an error of %d bytes: %q", len(a.Error), a.Error)
		}
	}
	cut := backend.AddAttempt(nil, 1, strings.Repeat("ü", 2000))[0].Error
	if len(cut) < backend.MaxAttemptError-3 || !strings.HasSuffix(cut, "ü…") {
		t.Errorf("a long error becomes %d bytes that end with %q", len(cut), cut[len(cut)-8:])
	}
	for _, text := range []string{"", "null", "[]", "{}", "[1]", "[", `"x"`} {
		if got := backend.DecodeAttempts(text); got != nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

// TestAddAttemptCopies: two lists that begin alike do not change each other.
func TestAddAttemptCopies(t *testing.T) {
	base := append(make([]backend.FailedAttempt, 0, 5), backend.FailedAttempt{Attempt: 1})
	a, b := backend.AddAttempt(base, 2, "a"), backend.AddAttempt(base, 2, "b")
	if a[1].Error != "a" || b[1].Error != "b" {
		t.Errorf("the lists are %v and %v", a, b)
	}
}
