package conformance

import (
	"github.com/parleymq/parley"
)

func init() {
	add(
		scripted("B04", "bodies that are too large", `
			begin d "0"
			begin other "a"
			transaction t
			t: send d "1"*11 -> ErrTooLarge
			t: sendbatch other Ask "small" d Ask "1"*11 -> ErrTooLarge
			t: post SQ "1"*11 -> ErrTooLarge
			t: postbatch SQ "small", "1"*11 -> ErrTooLarge
			t: send d "1"*10 // as large as it may be
			commit t
			equal d.state other.state CO
			take SQ in any order -> "0" on d.peer, "1"*10 on d.peer, "a" on other.peer
			quiet SQ CQ
		`, func(e *env) *world { return e.WorldOn(e.Broker(&parley.Options{MaxBody: 10})) }),
		scripted("B04", "posts with invalid bodies", `
			each type, body: xml, "<a>" | json, "{" | func, "7" | empty, "x"
				transaction t
				t: post SQ type $type unique $type key k $body -> ErrInvalidBody naming $type
				t: postbatch SQ type Any "never", type $type $body -> ErrInvalidBody naming $type
				commit t
			quiet SQ
			depth SQ 0
			post SQ type xml unique xml "<a/>"
			take SQ -> "<a/>" // the refused one did not use up the unique value
		`, checkedWorld),
		scripted("B04", "no validator", `
			broker other // this process has no validator
			begin d "0"
			transaction t on other
			t: send d func "6" -> ErrNoValidator naming func
			t: send d func nil -> ErrNoValidator naming func
			t: sendbatch d Ask "" d func "6" -> ErrNoValidator naming func
			t: post SQ type func "6" -> ErrNoValidator naming func
			t: send d "1"
			commit t
			equal d.state CO // it is this process's trouble, not the conversation's
			send d func "6"
			take SQ -> "0", "1", "6"
			quiet SQ CQ
		`, checkedWorld),
		scripted("B12", "what is nearly well-formed", `
			each type, body: json, "{\"a\": \"\xff\"}" | json, "\"\xed\xa0\x80\"" | xml, "<a b=\"1\" b=\"2\"/>" |
				xml, "<a><b xmlns:x=\"u\" xmlns:y=\"u\" x:c=\"1\" y:c=\"2\"/></a>" | xml, "<a xmlns=\"u\" xmlns=\"v\"/>"
				post SQ type $type $body -> ErrInvalidBody naming $type
			each type, body: json, "{\"a\": \"ÿ\"}" | xml, "<a b=\"1\" c=\"1\"><b xmlns:x=\"u\" x:c=\"1\" c=\"2\"/></a>"
				post SQ type $type $body
			depth SQ 2
		`, checkedWorld),
	)
}
