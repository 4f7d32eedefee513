package consumer

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// unknownPool does not say how large it is.
type unknownPool struct{}

func (unknownPool) MaxConns() int { return 0 }

// TestAdmission: the limit that is learned when connections are short counts only those who have
// one, as long as others wait for theirs. Those who get one later than that may have to let go of it.
func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged []int
		a := NewAdmission(unknownPool{}, func(held int) { logged = append(logged, held) })
		for range 12 { // four of them have a connection, as many as there are
			if err := a.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for range 4 {
			if !a.Opened() {
				t.Error("a connection is refused though none has been short")
			}
		}
		a.Starved()
		if !slices.Equal(logged, []int{4}) || !a.Starving() {
			t.Errorf("it was logged that so many connections are held: %v, want [4]; starving: %t", logged, a.Starving())
		}
		for range 2 { // their wait for a second one is over
			a.Leave()
		}
		if a.Enter(0) {
			t.Error("a claim holds one more connection, beside two that are held and ten that are asked for")
		}
		if a.Opened() {
			t.Error("a third connection is held, where four were too many and two are spare")
		}
		a.Leave()
		for range 7 {
			a.Opened()
			a.Leave()
		}
		a.Leave() // of the two, one is left
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := a.Wait(ctx); err != nil || !a.Opened() {
			t.Errorf("the second connection is not to be had: %v", err)
		}
		a.Leave()
		a.Leave()
		for range 4 { // it grows back
			time.Sleep(2 * firstGrowth)
			if !a.Enter(0) {
				t.Error("the limit has not grown back")
			}
		}
	})
}
