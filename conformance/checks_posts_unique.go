package conformance

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/parleymq/parley"
)

// again posts once more what is there as first, which does not take long.
const again = `
					clock c
					each o: | key another after 1h
						post SQ $o unique value "again" as again
						equal first again
					within c 3s
`

func init() {
	add(
		scripted("N03", "a unique post is not added twice while it waits, is delayed or held", `
			each hold: every hold
				each key: | key k
					post SQ $key unique value "first" as first
`+again+`
					receive SQ $hold as r -> "first"
					equal r.id first
`+again+`
					rollback r
`+again+`
					take SQ -> "first"
					nothing SQ

					post SQ $key unique value "second" as second
					differ first second
					cancel second
					post SQ $key unique value after 1h "third" as first
					differ first second
`+again+`
					cancel first
					nothing SQ
					transaction t
					t: post SQ unique value "undone"
					rollback t
					post SQ unique value "after a rollback"
					take SQ -> "after a rollback"
			// Two in one call are one, and the others of the call are added.
			postbatch SQ unique v "one" as one, unique v "two" as two, "three" as three, unique v "four" as four
			equal one two four
			differ one three
			take SQ in any order -> "one", "three"
			nothing SQ
		`),
		check{ID: "N03", Name: "a unique value is one of its queue, byte by byte", Run: checkUniqueScope},
		check{ID: "N03", Name: "of concurrent unique posts exactly one is added", Run: checkUniqueRace},
		scripted("N03", "who posts the same value waits to see what becomes of the first", `
			broker other
			each end, want: rollback t, differ first second; take SQ -> "second" |
				commit t, equal first second; take SQ -> "first"
				transaction t
				t: post SQ unique value "first" as first
				start posts other: post SQ unique value retried "second" as second
				waits posts
				$end
				join posts
				$want
				nothing SQ
		`),
	)
}

func checkUniqueScope(e *env) {
	w := e.World()
	values := []string{"value", "Value", "value ", " value", "valué", "value\u0301", strings.Repeat("v", 512), strings.Repeat("v", 511) + "w"}
	ids := make(map[parley.ID]bool)
	for _, queue := range []string{w.CQ, w.SQ} {
		for _, v := range values {
			ids[w.post(queue, v, parley.Unique(v))] = true
		}
		got := bodiesOf(w.Drain(queue))
		slices.Sort(got)
		if want := slices.Sorted(slices.Values(values)); !slices.Equal(got, want) {
			e.Errorf("posts of different unique values on %s: received %q, want %q", queue, got, want)
		}
	}
	if len(ids) != 2*len(values) {
		e.Errorf("%d posts of different values or queues got %d ids", 2*len(values), len(ids))
	}
}

func checkUniqueRace(e *env) {
	w := e.World()
	brokers := []*parley.Broker{w.B, e.Broker(nil), e.Broker(nil)}
	for round := range 8 {
		value := fmt.Sprint("value ", round)
		const posters = 6
		ids := make([]parley.ID, posters)
		go1 := make(chan struct{})
		var wg sync.WaitGroup
		for p := range posters {
			wg.Go(func() {
				<-go1
				err := queRetry(e, brokers[p%len(brokers)], func(tx *parley.Tx) (err error) {
					ids[p], err = tx.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte(value)}, parley.Unique(value))
					return err
				})
				if err != nil {
					e.Errorf("a unique post failed: %v", err)
				}
			})
		}
		close(go1)
		wg.Wait()
		for _, id := range ids {
			if id != ids[0] {
				e.Errorf("concurrent posts of one unique value got the ids %s and %s, want one", ids[0], id)
				break
			}
		}
		if got := bodiesOf(w.Drain(w.SQ)); !slices.Equal(got, []string{value}) {
			e.Errorf("after concurrent posts of one unique value %q was received, want one", got)
		}
	}
}
