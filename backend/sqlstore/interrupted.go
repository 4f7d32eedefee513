package sqlstore

import (
	"context"
	"time"
)

// answers are how long interrupted work may take to end before it is interrupted again, or hung up on. An interrupt that
// comes before the server has read the statement does nothing.
var answers = [...]time.Duration{100 * time.Millisecond, time.Second}

// Interrupted runs work, a statement whose end must be known, under a context that does not end with ctx. When ctx ends,
// interrupt asks the server to end the statement, and reports whether it could. If there is no answer all the same, the
// context of the work ends. Interrupted reports whether ctx has ended in the meantime: then the work may have ended in
// the middle, and a late interrupt may meet what comes next.
func Interrupted(ctx context.Context, interrupt func() bool, work func(context.Context) error) (interrupted bool, err error) {
	if ctx.Done() == nil {
		return false, work(ctx)
	}
	own, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	ended, over := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		for _, wait := range answers {
			if !interrupt() {
				break
			}
			select {
			case <-ended:
				return
			case <-time.After(wait):
			}
		}
		hangUp()
	})
	err = work(own)
	close(ended)
	if interrupted = !stop(); interrupted {
		<-over
	}
	return interrupted, err
}
