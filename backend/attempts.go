package backend

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

// FailedAttempt is an attempt to handle a message that failed.
type FailedAttempt struct {
	Attempt int       // its number, from 1 on
	At      time.Time // when it was stored, by the store's clock
	Error   string    // at most MaxAttemptError bytes
}

// Limits of the failed attempts that are kept of a message. LastError is kept in full.
const (
	MaxAttempts     = 10
	MaxAttemptError = 1 << 10 // bytes
)

// AddAttempt returns failed attempts and one more, as far as they are kept. The time of the new one is
// zero: a store that keeps the list fills in its clock.
func AddAttempt(list []FailedAttempt, attempt int, text string) []FailedAttempt {
	list = append(list[:len(list):len(list)], FailedAttempt{Attempt: attempt, Error: cutAttempt(text)})
	return list[max(len(list)-MaxAttempts, 0):]
}

func cutAttempt(text string) string {
	const more = "…"
	if text = CleanText(text, MaxAttemptError); len(text) <= MaxAttemptError {
		return text
	}
	end := MaxAttemptError - len(more)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}

// storedAttempt is a failed attempt as stores keep it.
type storedAttempt struct {
	Attempt int    `json:"attempt"`
	At      *int64 `json:"at"` // microseconds since 1970
	Error   string `json:"error"`
}

// EncodeAttempts returns failed attempts as a JSON array, which a store can keep as one text, or "" if
// there are none. A time that is zero becomes AttemptNow, which occurs nowhere else in the text.
func EncodeAttempts(list []FailedAttempt) string {
	if len(list) == 0 {
		return ""
	}
	stored := make([]storedAttempt, len(list))
	for i, a := range list {
		stored[i] = storedAttempt{Attempt: a.Attempt, Error: a.Error}
		if !a.At.IsZero() {
			at := a.At.UnixMicro()
			stored[i].At = &at
		}
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(stored); err != nil {
		panic(err) // numbers and texts can be encoded
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// AttemptNow stands for a time that the store fills in. A store that keeps the text of EncodeAttempts
// writes `"at":` and the microseconds since 1970 in its place.
const AttemptNow = `"at":null`

// DecodeAttempts returns the failed attempts of a text. A text that is not one of EncodeAttempts has none.
func DecodeAttempts(text string) []FailedAttempt {
	if text == "" {
		return nil
	}
	var stored []storedAttempt
	if json.Unmarshal([]byte(text), &stored) != nil || len(stored) == 0 {
		return nil
	}
	list := make([]FailedAttempt, len(stored))
	for i, a := range stored {
		list[i] = FailedAttempt{Attempt: a.Attempt, Error: a.Error}
		if a.At != nil {
			list[i].At = time.UnixMicro(*a.At)
		}
	}
	return list
}

// KeepAttempts returns failed attempts as a store without a text for them keeps them: a time that is
// zero is now.
func KeepAttempts(list []FailedAttempt, now time.Time) []FailedAttempt {
	kept := append([]FailedAttempt(nil), list...)
	for i := range kept {
		if kept[i].At.IsZero() {
			kept[i].At = now
		}
	}
	return kept
}
