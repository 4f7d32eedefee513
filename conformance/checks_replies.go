package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		check{ID: "W08", Name: "replies and ends", Run: checkReplies},
		check{ID: "W08", Name: "replies that are refused", Run: checkRefusedReplies},
	)
}

// checkReplies has handlers reply before and after they write, fail behind their replies, and end.
func checkReplies(e *env) {
	const dialogs, each = 12, 6
	for _, hold := range e.Holds() {
		for _, iso := range []parley.Isolation{parley.IsolateEach, parley.IsolateBatch} {
			w := e.another()
			for d := range dialogs {
				w.Dialog(numbered(fmt.Sprintf("%02d %%d", d), each)...)
			}
			var failed sync.Map
			r := w.work(w.B, &parley.WorkerOptions{Hold: hold, Isolation: iso, MaxReaders: 3, Backoff: soonAgain}, func(ctx context.Context, m *parley.Message) error {
				reply := func(part string) error { return m.Reply(ctx, w.Tell, []byte(string(m.Body)+part)) }
				if err := reply(" first"); err != nil {
					return err
				}
				i := m.Body[3] - '0'
				if i == 1 || i == 4 {
					if err := w.effect(ctx, m); err != nil {
						return err
					}
				}
				if err := reply(" second"); err != nil {
					return err
				}
				if i == each-1 {
					if err := m.End(ctx); err != nil {
						return err
					}
				}
				if (m.Body[1]-'0'+i)%5 != 0 { // a fifth of the messages fail the first time
					return nil
				}
				if _, again := failed.LoadOrStore(m.ID, true); again {
					return nil
				}
				if i%2 == 0 {
					panic("panics after it has replied")
				}
				return errors.New("fails after it has replied")
			})
			const want = dialogs * (2*each + 2 + 1)
			if !e.Soon(60*time.Second, func() bool { return w.depth(w.CQ) >= want }) {
				e.Errorf("%d of %d replies, effects and ends came within a minute", w.depth(w.CQ), want)
			}
			r.Stop()
			came := make(map[parley.ID][]string)
			var effects []string
			for _, m := range w.Drain(w.CQ) {
				switch {
				case m.Conversation.IsZero():
					effects = append(effects, string(m.Body))
				case m.Type == parley.EndDialog:
					came[m.Conversation] = append(came[m.Conversation], "the end")
				default:
					came[m.Conversation] = append(came[m.Conversation], string(m.Body))
				}
			}
			for _, got := range came {
				d, _, _ := strings.Cut(got[0], " ")
				var ordered []string
				for i := range each {
					ordered = append(ordered, fmt.Sprint(d, " ", i, " first"), fmt.Sprint(d, " ", i, " second"))
				}
				if ordered = append(ordered, "the end"); !slices.Equal(got, ordered) {
					e.Errorf("the replies of a conversation were %q, want %q", got, ordered)
				}
			}
			slices.Sort(effects)
			if n := len(slices.Compact(effects)); len(came) != dialogs || len(effects) != 2*dialogs || n != 2*dialogs {
				e.Errorf("%d conversations were answered with %d effects, %d of them different; want %d and %d", len(came), len(effects), n, dialogs, 2*dialogs)
			}
		}
	}
}

// checkRefusedReplies has clients that do not wait for their replies.
func checkRefusedReplies(e *env) {
	const dialogs = 30
	for _, hold := range e.Holds() {
		w := e.another()
		for i, body := range numbered("%02d", dialogs) {
			h := w.Dialog(body)
			if i%5 == 0 {
				w.Tx(func(tx *parley.Tx) error { return tx.Conversation(h).End(w.Ctx) })
			}
		}
		var mu sync.Mutex
		calls, refused := make(map[string]int), make(map[string]int)
		r := w.work(w.B, &parley.WorkerOptions{Hold: hold, MaxReaders: 2}, func(ctx context.Context, m *parley.Message) error {
			if m.Type == parley.EndDialog {
				return m.End(ctx)
			}
			err := m.Reply(ctx, w.Tell, m.Body)
			mu.Lock()
			defer mu.Unlock()
			calls[string(m.Body)]++
			if errors.Is(err, parley.ErrFarEnded) { // it gives up
				refused[string(m.Body)]++
				return nil
			}
			return err
		})
		if !e.Soon(60*time.Second, func() bool { return w.depth(w.SQ) == 0 && w.depth(w.CQ) >= dialogs*4/5 }) {
			e.Errorf("%d requests are left, and %d replies came", w.depth(w.SQ), w.depth(w.CQ))
		}
		r.Stop()
		var replies []string
		for _, m := range w.Drain(w.CQ) {
			replies = append(replies, string(m.Body))
		}
		for i, body := range numbered("%02d", dialogs) {
			n := len(slices.DeleteFunc(slices.Clone(replies), func(s string) bool { return s != body }))
			switch ended := i%5 == 0; {
			case ended && (n != 0 || refused[body] == 0):
				e.Errorf("the client of %s has ended: its handler got the error %d times in %d calls, and %d replies came", body, refused[body], calls[body], n)
			case !ended && (n != 1 || refused[body] != 0):
				e.Errorf("%s was handled %d times, and %d replies came, want one; the handler got an error %d times", body, calls[body], n, refused[body])
			}
		}
	}
}
