package postgres

import (
	"strings"
	"testing"
)

// TestFixed: claims have no parameters, up to so many of them, and behind a pooler
// never.
func TestFixed(t *testing.T) {
	p := New(nilDB(t), &Options{Pooler: PoolerNever}).pool
	q := p.hot.Claims[near][limit(10)]
	a, args := p.fixed(q, 7, 1<<20, preferHead)
	if len(args) != 0 || strings.Contains(a.Text, "$") || !strings.Contains(a.Text, "x.queue_id = (SELECT 7::bigint)") {
		t.Errorf("arguments %v, %s", args, a.Text)
	}
	if b, _ := p.fixed(q, 7, 1<<20, preferHead); a != b {
		t.Error("the same claim has two texts")
	}
	if b, _ := p.fixed(q, 7, 1<<20, preferPosts); a == b {
		t.Error("two claims have one text")
	}
	for queue := range int64(2 * fixedMost) {
		p.fixed(q, queue, 1<<20, preferHead)
	}
	n := 0
	p.fixedStmts.Range(func(any, any) bool { n++; return true })
	if n != fixedMost {
		t.Errorf("%d texts, want %d", n, fixedMost)
	}
	b, args := p.fixed(q, 1000, 1<<20, preferHead)
	if b != q || len(args) != 3 || args[0] != int64(1000) {
		t.Errorf("one more: %v", args)
	}

	pooled := New(nilDB(t), nil).pool
	pooled.pooled.Store(true)
	q = pooled.hot.Claims[near][0]
	if b, args := pooled.fixed(q, 7, 1<<20, preferHead); b != q || len(args) != 3 {
		t.Errorf("behind a pooler: %v", args)
	}
}
