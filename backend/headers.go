package backend

import (
	"encoding/json"
	"strings"
)

// Headers are texts that a message carries beside its body. A store keeps them as one text,
// unchanged, wherever the message goes, and counts its length in the bytes of a claim. So a store
// knows no names, and compares, sorts and escapes nothing.

// Limits of headers, which package parley checks before it calls a store. The bytes are those of all names and
// values in UTF-8. The text that a store keeps has quotes and escapes as well, and up to seven times as many bytes.
const (
	MaxHeaders     = 64
	MaxHeaderBytes = 8 << 10
)

// ReservedHeader is how the names of headers begin that only Parley may set.
const ReservedHeader = "parley-"

// EncodeHeaders returns headers, of valid UTF-8, as the text that stores keep: a JSON object with
// sorted names, or "" if there are none. Equal headers have equal texts.
func EncodeHeaders(headers map[string]string) string {
	if len(headers) == 0 {
		return ""
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(headers); err != nil {
		panic(err) // a map of texts can be encoded
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// DecodeHeaders returns the headers of a text. A text that is not an object of headers has none.
// Only manual SQL writes such a text, and its message still has to be received.
func DecodeHeaders(text string) map[string]string {
	if text == "" {
		return nil
	}
	var headers map[string]string
	if json.Unmarshal([]byte(text), &headers) != nil || len(headers) == 0 {
		return nil
	}
	return headers
}
