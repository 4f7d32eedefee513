package main

import (
	"fmt"
	"math/rand/v2"
	"sync"
)

// random is what a process of a run decides by. The same seed makes the same decisions, in the order in which
// goroutines ask for them: what races with what it does not repeat.
var random = source{r: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}

type source struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (s *source) IntN(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.r.IntN(n)
}

func (s *source) Uint32() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.r.Uint32()
}

// sown is the seed of a process: that of the run, and the process's number in it.
type sown struct{ seed, process uint64 }

func (s sown) String() string { return fmt.Sprint(s.seed, "/", s.process) }

func (s *sown) parse(text string) error {
	_, err := fmt.Sscanf(text, "%d/%d", &s.seed, &s.process)
	return err
}

// use begins the decisions of a process.
func (s sown) use() {
	random.mu.Lock()
	defer random.mu.Unlock()
	random.r = rand.New(rand.NewPCG(s.seed, s.process))
}
