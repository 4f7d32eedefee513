package conformance

import (
	"errors"
	"fmt"
	"slices"

	"github.com/parleymq/parley"
)

func init() {
	add(check{ID: "P19", Name: "dead letters that are put back", Run: checkPrioPutBack})
}

// checkPrioPutBack puts back two posts of high priority, behind another post.
func checkPrioPutBack(e *env) {
	w := e.another()
	post := func(body string, o ...parley.PostOption) {
		_, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Type: w.Any, Body: []byte(body)}, o...)
		e.Must(err)
	}
	post("nine", parley.Priority(9))
	post("eight", parley.Priority(8), parley.Key("k"))
	for range 2 {
		d := w.Receive(w.SQ, nil)
		e.Must(d.Park(e.Ctx, errors.New("for the check")))
		_, err := w.B.Admin().SkipParked(e.Ctx, w.SQ, d.Group, "for the check")
		e.Must(err)
	}
	post("five")
	list, err := w.B.Admin().DeadLetters(e.Ctx, w.SQ, parley.Place{}, 10)
	e.Must(err)
	for _, x := range list {
		_, err := w.B.Admin().RequeueDead(e.Ctx, x)
		e.Must(err)
	}
	var got []string
	for _, m := range w.Drain(w.SQ) {
		got = append(got, fmt.Sprint(string(m.Body), " ", m.Priority))
	}
	if want := []string{"nine 9", "eight 8", "five 5"}; !slices.Equal(got, want) {
		e.Errorf("received with their priorities: %q, want %q", got, want)
	}
}
