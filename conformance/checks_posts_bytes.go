package conformance

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		check{ID: "N05", Name: "all sizes and all bytes arrive as they were sent", Run: checkBodies},
		check{ID: "N05", Name: "16 MiB arrive as they were sent", Run: checkLargeBodies, Limit: 2 * time.Minute},

		check{ID: "N08", Name: "deliveries keep to the bytes asked for, and lose and pass over nothing", Run: checkMaxBytes},
		check{ID: "N08", Name: "the bytes of several conversations of a group count together", Run: checkMaxBytesOfGroup},
	)
}

// postBytes returns n bytes that no engine takes for text.
func postBytes(n int) []byte {
	var seed [32]byte
	seed[0], seed[1], seed[2] = byte(n), byte(n>>8), byte(n>>16)
	body := make([]byte, n)
	rand.NewChaCha8(seed).Read(body)
	return body
}

// postCompare says where two bodies differ, as they may be large.
func postCompare(e *env, how string, got, want []byte) {
	if bytes.Equal(got, want) {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	e.Errorf("%s: a body of %d bytes arrived with %d, different from byte %d on", how, len(want), len(got), i)
}

// postEach sends a body in every way there is, and compares what arrives.
func postEach(w *world, body []byte) {
	e := w.env
	compare := func(how string) {
		d := w.Receive(w.SQ, nil)
		if len(d.Messages) != 1 {
			e.Fatalf("%s: received %d messages, want one", how, len(d.Messages))
		}
		got := d.Messages[0].Body
		postCompare(e, how, got, body)
		if len(body) == 0 && got != nil {
			e.Errorf("%s: an empty body arrived as %#v, want nil", how, got)
		}
		e.Must(d.Ack(e.Ctx))
	}
	w.Tx(func(tx *parley.Tx) error {
		c, err := tx.Begin(e.Ctx, w.Client, w.Server, &parley.DialogOptions{Contract: w.Contract})
		if err != nil {
			return err
		}
		return c.Send(e.Ctx, w.Ask, body)
	})
	compare("by a conversation")
	for _, o := range [][]parley.PostOption{nil, {parley.Key("key")}} {
		id, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Body: body}, o...)
		e.Must(err)
		s, err := w.B.PostStatus(e.Ctx, w.SQ, id)
		e.Must(err)
		postCompare(e, "in the status of a post", s.Body, body)
		compare("by a post")
	}
}

func checkBodies(e *env) {
	w := e.World()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	bodies := [][]byte{
		nil, {}, {0}, {' '}, all, slices.Repeat(all, 3),
		[]byte("\x00\x00\x00"), []byte("text with a zero\x00 byte"), []byte("\xff\xfe not UTF-8 \xc3\x28"),
		[]byte("trailing space "), []byte(`\x414243`), []byte("0x414243"), []byte("\r\n\t\b\x1a'\"\\%_;--"), []byte("grüße, 日本語, 🙂"),
	}
	for _, n := range []int{1, 127, 255, 256, 4095, 8000, 8001, 65535, 65536, 1<<20 - 1, 1<<20 + 1} {
		bodies = append(bodies, postBytes(n))
	}
	for _, body := range bodies {
		postEach(w, body)
	}
}

func checkLargeBodies(e *env) {
	w := e.World()
	postEach(w, postBytes(16<<20)) // more than a delivery takes by default
}

func checkMaxBytes(e *env) {
	w := e.World()
	// Of different letters, so that one can see which came.
	sizes := []int{100, 100, 100, 5000, 100, 100, 0, 2000, 1}
	var want []string
	for i, n := range sizes {
		want = append(want, strings.Repeat(string(rune('a'+i)), n))
	}
	take := map[string]func(limit int) []*parley.Message{
		"in a transaction": func(limit int) (ms []*parley.Message) {
			w.Tx(func(tx *parley.Tx) (err error) {
				ms, err = tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{MaxBytes: limit})
				return err
			})
			return ms
		},
	}
	for _, hold := range e.Holds() {
		take[invHoldName(hold)] = func(limit int) []*parley.Message {
			d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxBytes: limit})
			e.Must(d.Ack(e.Ctx))
			return d.Messages
		}
		take["by More, "+invHoldName(hold)] = func(limit int) []*parley.Message {
			d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1, MaxBytes: limit})
			more, err := d.More(e.Ctx, 100)
			e.Must(err)
			postWithin(e, "More", more, limit)
			e.Must(d.Ack(e.Ctx))
			return d.Messages
		}
	}
	for _, s := range postStreams(w) {
		for how, f := range take {
			for _, limit := range []int{1, 250, 1000, 1 << 20} {
				for _, body := range want {
					s.send(body)
				}
				var got []string
				for len(got) < len(want) {
					ms := f(limit)
					if !strings.HasPrefix(how, "by More") {
						postWithin(e, how, ms, limit)
					}
					got = append(got, bodiesOf(ms)...)
				}
				if !slices.Equal(got, want) {
					e.Fatalf("%s %s, at most %d bytes: received sizes %v, want %v", s.name, how, limit, postSizes(got), sizes)
				}
				w.Nothing(w.SQ, nil)
			}
		}
	}
}

// postStream is a source of messages of one group.
type postStream struct {
	name string
	send func(body string)
}

// postStreams returns a conversation and a key, each of its own.
func postStreams(w *world) []postStream {
	h := w.Dialog()
	key := parley.Key(w.Name("key"))
	return []postStream{
		{"a conversation", func(body string) { w.Send(h, w.Ask, body) }},
		{"a key", func(body string) { w.post(w.SQ, body, key) }},
	}
}

func postSizes(bodies []string) []int {
	n := make([]int, len(bodies))
	for i, b := range bodies {
		n[i] = len(b)
	}
	return n
}

// postWithin says whether a delivery keeps to its limit.
func postWithin(e *env, how string, ms []*parley.Message, limit int) {
	sizes := postSizes(bodiesOf(ms))
	total := 0
	for _, n := range sizes {
		total += n
	}
	if len(sizes) > 0 && total > max(limit, sizes[0]) {
		e.Errorf("%s: %d bytes of sizes %v were delivered, at most %d were asked for", how, total, sizes, limit)
	}
}

func checkMaxBytesOfGroup(e *env) {
	w := e.World()
	group := parley.NewID()
	var sides []parley.ID
	for range 3 {
		sides = append(sides, w.DialogWith(&parley.DialogOptions{RelatedGroup: group}, "hello"))
	}
	for _, m := range w.Drain(w.SQ) { // each has a separate group on this side: answer on all
		for i := range 3 {
			w.Send(m.Conversation, w.Tell, strings.Repeat(fmt.Sprint(i), 100))
		}
	}
	count := make(map[parley.ID]string)
	for n := 0; n < 9; {
		d := w.Receive(w.CQ, &parley.ReceiveOptions{MaxBytes: 450})
		postWithin(e, "a group of three conversations", d.Messages, 450)
		n += len(d.Messages)
		for _, m := range d.Messages {
			if d.Group != group {
				e.Fatalf("received group %s, want %s", d.Group, group)
			}
			count[m.Conversation] += string(m.Body[:1])
		}
		e.Must(d.Ack(e.Ctx))
	}
	for _, h := range sides {
		if count[h] != "012" {
			e.Errorf("of a conversation of the group the messages %q were received, want 012", count[h])
		}
	}
	w.Nothing(w.CQ, nil)
}
