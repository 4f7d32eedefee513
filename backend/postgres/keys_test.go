package postgres

import (
	"testing"

	"github.com/parleymq/parley/backend"
)

// shelf is what a server knows of the advisory locks of one name: who holds which
// key shared, and who exclusively.
type shelf map[int]map[string]map[int]int // key, "shared" or "", owner: how often

func (s shelf) holders(a advisory) map[int]int {
	mode := ""
	if a.shared {
		mode = "shared"
	}
	if s[a.key] == nil {
		s[a.key] = map[string]map[int]int{"": {}, "shared": {}}
	}
	return s[a.key][mode]
}

// try is pg_try_advisory_lock: shared ones of several owners go together, and an
// owner is in the way of other owners only.
func (s shelf) try(owner int, a advisory) bool {
	for _, mode := range []bool{false, true} {
		if a.shared && mode {
			continue
		}
		for o, n := range s.holders(advisory{key: a.key, shared: mode}) {
			if o != owner && n > 0 {
				return false
			}
		}
	}
	s.holders(a)[owner]++
	return true
}

func (s shelf) unlock(t *testing.T, owner int, a advisory) {
	if s.holders(a)[owner] == 0 {
		t.Fatalf("owner %d releases %+v, which it does not hold", owner, a)
	}
	s.holders(a)[owner]--
}

// take is what takeSQL writes.
func (s shelf) take(t *testing.T, owner int, k keySet) bool {
	list := k.advisories()
	n := 0
	for n < len(list) && s.try(owner, list[n]) {
		n++
	}
	for i, a := range list[:n] {
		if a.moment || n < len(list) {
			s.unlock(t, owner, list[i])
		}
	}
	return n == len(list)
}

// TestKeys lets three owners ask for every mode in every state that they can come into,
// holding one mode or the union of several. What the keys grant is what the matrix of
// modes does.
func TestKeys(t *testing.T) {
	modes := []backend.LockMode{backend.LockIS, backend.LockS, backend.LockU, backend.LockIX, backend.LockX}
	type state [3]backend.LockMode
	build := func(st state) shelf {
		s := shelf{}
		for owner, m := range st {
			for _, a := range lockKeys(m).advisories() {
				if !a.moment && !s.try(owner, a) {
					t.Fatalf("owners with %v hold keys that exclude each other", st)
				}
			}
		}
		return s
	}
	seen := map[state]bool{{}: true}
	tried := 0
	for next := []state{{}}; len(next) > 0; {
		st := next[len(next)-1]
		next = next[:len(next)-1]
		for owner := range st {
			for _, m := range modes {
				want := true
				for other, held := range st {
					want = want && (other == owner || m.Compatible(held))
				}
				tried++
				got := build(st).take(t, owner, lockKeys(m)&^lockKeys(st[owner]))
				if got != want {
					t.Errorf("owners hold %v and owner %d asks for %v: granted %t, want %t", st, owner, m, got, want)
				}
				if after := st; want {
					after[owner] |= m
					if !seen[after] {
						seen[after] = true
						next = append(next, after)
					}
				}
			}
		}
	}
	t.Logf("%d states, %d requests", len(seen), tried)
}
