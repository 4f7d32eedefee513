package parley

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parleymq/parley/backend"
)

// Any bytes are valid for a type or not; none make a validator panic. What is taken for
// JSON is JSON in UTF-8, and what is taken for XML begins with an element.
func FuzzBodies(f *testing.F) {
	for _, s := range []string{"", "{}", `"\ud800"`, "\xff", "<a/>", `<a x="1" x="2"/>`, "<a><b></a>", "<?xml version='1.0' encoding='x'?><a/>", "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"} {
		f.Add([]byte(s))
	}
	b := &Broker{}
	f.Fuzz(func(t *testing.T, body []byte) {
		valid := func(v Validation) bool {
			why, err := b.invalid(MessageType{Name: "t", Validation: v}, body)
			if err != nil {
				t.Fatal(err)
			}
			return why == nil
		}
		if valid(ValidationJSON) && len(body) > 0 && (!json.Valid(body) || !utf8.Valid(body)) {
			t.Errorf("%q is taken for JSON", body)
		}
		if valid(ValidationXML) && len(body) > 0 && !bytes.Contains(body, []byte("<")) {
			t.Errorf("%q is taken for XML", body)
		}
		if valid(ValidationEmpty) != (len(body) == 0) {
			t.Errorf("whether %q is empty", body)
		}
	})
}

// Any headers can be sent or are refused with a typed error. Headers that can be sent come back unchanged from the
// stored text, whose length is bounded. Headers that are refused break the rule that the error names.
func FuzzHeaders(f *testing.F) {
	for _, s := range hostileHeaders {
		f.Add(s, "value", 1)
		f.Add("name", s, 1)
		f.Add(s, s, backend.MaxHeaders)
	}
	f.Add("n", strings.Repeat("\x01", backend.MaxHeaderBytes-1), 1)
	f.Add("n", strings.Repeat("x", backend.MaxHeaderBytes), 1)
	f.Add("n", "", backend.MaxHeaders+1)
	f.Fuzz(func(t *testing.T, name, value string, n int) {
		headers := map[string]string{}
		for i := range min(max(n, 0), backend.MaxHeaders+1) {
			headers[name+strings.Repeat("+", i)] = value
		}
		want := 0
		text := true
		for k, v := range headers {
			want += len(k) + len(v)
			text = text && utf8.ValidString(k) && utf8.ValidString(v) && !strings.Contains(k+v, "\x00")
		}
		size, err := headerBytes(headers)
		switch {
		case err == nil && (!text || want > backend.MaxHeaderBytes || len(headers) > backend.MaxHeaders || size != want):
			t.Errorf("%d headers of %d bytes, which are text: %t, count as %d", len(headers), want, text, size)
		case err != nil && !errors.Is(err, ErrInvalidName) && !errors.Is(err, ErrInvalidOption) && !errors.Is(err, ErrTooLarge):
			t.Errorf("the error has no type: %v", err)
		case err != nil && !utf8.ValidString(fmt.Sprint(err)):
			t.Errorf("the error is no text: %q", err)
		}
		if err != nil {
			return
		}
		stored := backend.EncodeHeaders(headers)
		if !backend.IsText(stored) || len(stored) > 7*want+6*len(headers)+2 {
			t.Errorf("%q is stored as %q", headers, stored)
		}
		if got := backend.DecodeHeaders(stored); !maps.Equal(got, headers) {
			t.Errorf("%q comes back as %q", headers, got)
		}
		if again := backend.EncodeHeaders(backend.DecodeHeaders(stored)); again != stored {
			t.Errorf("%q is stored as %q, and then as %q", headers, stored, again)
		}
	})
}

// FuzzStoredHeaders: any text that a hand has written into the column is read, as headers or as none.
func FuzzStoredHeaders(f *testing.F) {
	for _, s := range hostileHeaders {
		f.Add(s)
		f.Add(`{"name":"` + s + `"}`)
	}
	for _, s := range []string{"{", "{}", "[]", "null", `{"a":null}`, `{"a":1}`, `{"a":{"b":"c"}}`, `{"a":"1","a":"2"}`, `{"a":"1"}{"b":"2"}`, "{\"a\":\"\\ud800\"}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := backend.DecodeHeaders(text)
		if got != nil && len(got) == 0 {
			t.Errorf("%q has headers, but none", text)
		}
		if again := backend.DecodeHeaders(backend.EncodeHeaders(got)); !maps.Equal(again, got) {
			t.Errorf("%q has the headers %q, which are stored as those of %q", text, got, again)
		}
	})
}

// hostileHeaders are texts that break what is careless with texts.
var hostileHeaders = []string{
	"", " ", "\t", "\r\nX-Injected: yes", "\x00", "a\x00b", "\xff", "\xc3\x28", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\ufeff", "\ufffd",
	"\u2028\u2029", "\u202e", "e\u0301", "\u00e9", "ß", "İ", "日本語", "🙂", "𝄞", "parley-", "parley-id", "Parley-id", "parley", "__proto__",
	`"`, `\`, `\"`, `\u0000`, `'; DROP TABLE parley_message; --`, `$1`, `?`, `:name`, `@p1`, `%s`, `{}`, `{"a":"b"}`, `]]>`, `<script>`, "`", "E'\\x00'",
	"NULL", "null", "true", "1e999", "-0", strings.Repeat("a", 8192), strings.Repeat("ж", 4096),
}
