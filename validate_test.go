package parley

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"
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
