package guard

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/parleymq/parley/backend"
)

// How many characters are kept of texts from outside.
const (
	MaxError  = 8000 // of an error, stack and all
	MaxReason = 1000 // of why something is parked or dead, or has ended
)

// Reason makes the line that is kept of why something is as it is: the first
// of s that says anything. It is never empty, since a store takes an empty reason
// for none.
func Reason(s, otherwise string) string {
	for line := range strings.Lines(backend.CleanText(s, MaxError)) {
		if line = strings.TrimSpace(line); line != "" {
			return backend.CleanText(line, MaxReason)
		}
	}
	return otherwise
}

// FirstLine shortens a text for a line of a log.
func FirstLine(s string) string { return Reason(s, "") }

// Text is what is kept of an error that came from outside.
func Text(err error) string {
	text := backend.CleanText(String(err), MaxError)
	if strings.TrimSpace(text) == "" {
		return fmt.Sprintf("an error of type %T without a text", err)
	}
	return text
}

// String calls Error, which is not ours.
func String(err error) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprintf("an error of type %T, which panics: %v", err, p)
		}
	}()
	return err.Error()
}

// Sound returns err, or a usable error in its place if its methods panic, as those of a nil pointer
// in an error do.
func Sound(err error) (safe error) {
	if err == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			safe = &PanicError{fmt.Sprintf("an error of type %T: %v", err, p), debug.Stack()}
		}
	}()
	_ = err.Error()
	var none *soundProbe
	errors.Is(err, errSoundProbe) // both walk through all that it wraps
	errors.As(err, &none)
	return err
}

type soundProbe struct{ error }

var errSoundProbe = errors.New("no error is this one")
