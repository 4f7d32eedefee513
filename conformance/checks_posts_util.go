package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley"
)

// post posts a body in a transaction of its own.
func (w *World) post(queue, body string, o ...parley.PostOption) parley.ID {
	id, err := w.B.Post(w.Ctx, queue, parley.Payload{Body: []byte(body)}, o...)
	if err != nil {
		w.Fatalf("post %q: %v", body, err)
	}
	return id
}

// postWant takes messages until as many came as are wanted, and compares.
func postWant(w *World, queue string, want ...string) {
	var got []string
	for len(got) < len(want) {
		d := w.TryReceive(queue, nil, 5*time.Second)
		if d == nil {
			w.Fatalf("received %q and then nothing for 5 s, want %q", got, want)
		}
		got = append(got, Bodies(d.Messages)...)
		w.Must(d.Ack(w.Ctx))
	}
	if !slices.Equal(got, want) {
		w.Fatalf("received %q, want %q", got, want)
	}
}

func postNames(prefix string, n int) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return s
}
