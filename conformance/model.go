package conformance

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// SeedEnv is the environment variable that repeats the random checks of a run:
// their failures say which seed they had.
const SeedEnv = "PARLEY_CONFORMANCE_SEED"

func modelSeed() uint64 {
	if n, err := strconv.ParseUint(os.Getenv(SeedEnv), 10, 64); err == nil {
		return n
	}
	return rand.Uint64N(1_000_000)
}

// model is a queue as it should be. It is driven in step with a store, one call after
// another, through several handles. So it knows at each step exactly what is committed,
// what is in flight, and what a claim may deliver.
type model struct {
	*invBelow // the handle of the step
	seed      uint64
	rng       *rand.Rand
	handles   []*invBelow

	streams []*modelStream
	groups  map[parley.ID]*modelGroup
	senders []*modelSender
	hands   []*modelHand
	bodies  int
	serial  int
	log     []string
}

func checkModel(e *env) {
	w := invWorld(e)
	m := &model{seed: modelSeed(), groups: map[parley.ID]*modelGroup{}}
	m.rng = rand.New(rand.NewPCG(m.seed, 1))
	for range 3 {
		m.handles = append(m.handles, invUnder(w))
	}
	m.invBelow = m.handles[0]
	for i := range 5 {
		m.beginConv(i)
	}
	for i := range 3 {
		key, level := fmt.Sprint("key ", i), []int{5, 3, 8}[i]
		how := &invStream{kind: "key", send: m.poster(key, backend.NewID, level)}
		m.streams = append(m.streams, &modelStream{name: key, queue: m.sq, level: level, key: key, how: how})
	}
	const steps = 1000
	for i := range steps {
		if e.Ctx.Err() != nil {
			m.failf("the check ran out of time at step %d", i)
		}
		m.invBelow = m.handles[m.rng.IntN(len(m.handles))]
		m.step()
		if i%20 == 19 {
			m.probe()
		}
	}
	m.finish()
}

// failf ends the check, with what it needs to be understood and repeated.
func (m *model) failf(format string, args ...any) {
	last := m.log[max(len(m.log)-40, 0):]
	text := fmt.Sprintf(format, args...) + fmt.Sprintf("\nseed %d (%s); step %d; the last steps:\n    %s", m.seed, SeedEnv, len(m.log), strings.Join(last, "\n    "))
	for _, queue := range []int64{m.sq, m.cq} {
		groups, err := m.be.Groups(m.Ctx, backend.GroupQuery{Queue: queue, Limit: 100})
		text += fmt.Sprintf("\nthe store's own list of groups (%v):", err)
		for _, g := range groups {
			text += fmt.Sprintf("\n    %s %s: promoted %t to %d, priority %d, %d messages, oldest %v ago", m.name(m.groups[g.Group]), g.State, g.Promoted, g.Level, g.Priority, g.Messages, g.Oldest)
		}
	}
	m.fail(text)
	runtime.Goexit()
}

func (m *model) logf(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

func (m *model) must(err error, what string) {
	if err != nil {
		m.failf("%s: %v", what, err)
	}
}

// step does one thing at random.
func (m *model) step() {
	steps := []struct {
		weight int
		do     func()
	}{
		{24, m.send}, {14, m.endSender}, {24, m.claimStep}, {24, m.settleStep}, {4, m.more},
		{6, m.promote}, {3, m.unpark}, {4, m.move}, {2, m.endConv}, {4, m.maintainStep}, {1, m.crash}, {1, m.abandon},
	}
	total := 0
	for _, s := range steps {
		total += s.weight
	}
	n := m.rng.IntN(total)
	for _, s := range steps {
		if n -= s.weight; n < 0 {
			s.do()
			return
		}
	}
}

// pick returns one of those that fit, zero if none does.
func pick[T any](rng *rand.Rand, all []T, fits func(T) bool) (one T) {
	n := 0
	for _, v := range all {
		if fits(v) {
			if n++; rng.IntN(n) == 0 {
				one = v
			}
		}
	}
	return one
}
