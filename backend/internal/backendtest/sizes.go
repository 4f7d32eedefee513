package backendtest

import (
	"time"

	"github.com/parleymq/parley/backend"
)

// testManyKeys posts many new keys at once, which costs as much more as there are more of them. What
// looks for each of them among all costs 64 times as much for 8 times as many.
func testManyKeys(f *Fixture) {
	post := func(n int) time.Duration {
		batch := make([]backend.Posting, n)
		for i := range batch {
			batch[i] = f.Posting(backend.Posting{Key: backend.NewID().String()})
		}
		began := time.Now()
		f.Do(func(tx backend.Tx) error { _, err := tx.Post(f.Ctx, f.Version, batch); return err })
		return time.Since(began)
	}
	// A busy machine makes some of them slower, and none faster.
	few, many := post(1000), post(8000)
	for range 4 {
		if many <= 16*few {
			return
		}
		few, many = max(few, post(1000)), min(many, post(8000))
	}
	f.Errorf("8000 new keys took %v, and 1000 %v", many, few)
}
