package backend

import (
	"strings"
	"unicode/utf8"
)

// MaxShownName is how many characters are kept of names that are only shown, such as
// those of owners and callers.
const MaxShownName = 255

// IsText reports whether every store can keep s as a text.
func IsText(s string) bool {
	return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
}

// CleanText makes what every store can keep of a text from outside. That is at most
// that many characters, all of them valid, and none of them NUL. Every text that is not
// a name to be found again by comes through here before it is stored or shown.
func CleanText(s string, most int) string {
	// A text of any length is looked at no further than may be kept.
	cut := len(s) > (most+1)*utf8.UTFMax
	if cut {
		s = s[:(most+1)*utf8.UTFMax]
	}
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
	if !cut && utf8.RuneCountInString(s) <= most {
		return s
	}
	n := 0
	for at := range s {
		if n++; n == most { // the last one says that there was more
			return s[:at] + "…"
		}
	}
	return s
}
