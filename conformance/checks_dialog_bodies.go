package conformance

import (
	"errors"
	"strings"

	"github.com/parleymq/parley"
)

func init() {
	add(
		scripted("D07", "malformed bodies", `
			each type, bad, good: xml, "<a>", "<?xml version=\"1.0\"?><a>good</a>" | xml, "<a></b>", "<a/>" |
				xml, "no element", "<a> <b c=\"d\"/> </a>" | xml, "<a/><b/>", "<a/>" | xml, "\x00", "<a/>" |
				json, "{\"a\": ", "{\"a\": [1, 2]}" | json, "x", "\"x\"" | func, "7", "6"
				begin d "0"
				send d $type $good
				send d $type $bad
				equal d.state ER
				take CQ -> Error -9615 "sequence number: 2." naming $type on d
				send d Ask "" -> ErrConversationError naming d
				take SQ -> "0", $good
				nothing SQ
				nothing CQ
				end d
				end d.peer
				gone d d.peer
				drain SQ
			quiet SQ CQ
		`, checkedWorld),
		scripted("D07", "a malformed answer", `
			each hold: every hold
				begin d "question"
				receive SQ $hold as r
				reply r Tell "0"
				reply r xml "<a>"
				ack r
				take SQ -> Error -9615 "sequence number: 1." on d.peer
				equal d.peer.state ER
				take CQ -> "0"
				end d.peer
				end d
				drain CQ
				gone d.peer d
		`, checkedWorld),
		scripted("D07", "a malformed body rolled back", `
			begin d "0"
			transaction t
			t: send d xml "<a>"
			rollback t
			equal d.state CO
			send d xml "<a/>"
			take SQ -> "0", "<a/>"
			quiet CQ
		`, checkedWorld),
		scripted("D07", "a type that has changed", `
			broker other // which remembers the catalog
			other: begin d "0"
			define type Any XML
			other: send d Any "<a>"
			take CQ -> Error -9615 on d
			other: post SQ type Any "<a>" -> ErrInvalidBody naming Any
			take SQ -> "0"
			quiet SQ CQ
		`),
		scripted("D08", "a body where none is allowed", `
			begin d
			send d empty "not empty"
			equal d.state ER
			take CQ -> Error -9615 "sequence number: 0." on d
			quiet SQ
		`, checkedWorld),
		scripted("D08", "an empty body on every type", `
			begin d
			each type: Ask | Any | xml | json | func | empty
				transaction t
				t: send d $type nil ""
				commit t
				take SQ -> $type "", $type ""
			equal d.state CO
			each body: nil | ""
				post SQ type xml $body
				take SQ -> xml ""
			quiet SQ CQ
		`, checkedWorld),
	)
}

// dlgChecked defines types with each validation on a contract of both sides.
func dlgChecked(e *env) (w *world, xml, json, fn, empty string) {
	xml, json, fn, empty = e.Name("xml"), e.Name("json"), e.Name("func"), e.Name("empty")
	w = e.World(func(c *parley.Catalog) {
		c.Types = append(c.Types,
			parley.MessageType{Name: xml, Validation: parley.ValidationXML},
			parley.MessageType{Name: json, Validation: parley.ValidationJSON},
			parley.MessageType{Name: fn, Validation: parley.ValidationFunc, Validator: "no-seven"},
			parley.MessageType{Name: empty, Validation: parley.ValidationEmpty})
		for _, t := range []string{xml, json, fn, empty} {
			c.Contracts[0].Messages = append(c.Contracts[0].Messages, parley.ContractEntry{Type: t, SentBy: parley.ByAny})
		}
	})
	w.B.RegisterValidator("no-seven", func(body []byte) error {
		if strings.Contains(string(body), "7") {
			return errors.New("there is a seven in it")
		}
		return nil
	})
	return w, xml, json, fn, empty
}

func checkedWorld(e *env) *world {
	w, _, _, _, _ := dlgChecked(e)
	return w
}
